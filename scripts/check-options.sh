#!/bin/sh
# check-options.sh - checks that no message or comment of the library names a command-line
# option, and that each tool that writes a model reviews it. Prints what does not and exits 1. Messages use a
# gg_hint instead, which tools/common/cli.c translates into an option.
set -u
cd "$(dirname "$0")/.." || exit 2
if grep -rnE "[ \"'(\`]--[a-z]" src include; then
    echo "the library must not name options; see gg_hint in include/organ/gg_status.h"
    exit 1
fi
missing=$(sed -n 's/^    \(GG_HINT_[A-Z_]*\),.*/\1/p' include/organ/gg_status.h | grep -vE '_NONE$|_COUNT$' |
    while read -r hint; do grep -q "\[$hint\] = " tools/common/cli.c || echo "$hint"; done)
if [ -n "$missing" ]; then
    echo "tools/common/cli.c has no option for:" $missing
    exit 1
fi
# Every tool that writes a model has it reviewed.
silent=$(grep -lE 'CLI_NEW_MODEL|"in-place", CLI_FLAG' tools/*/organ-*.c | while read -r file; do
    case $file in */organ-compare.c) continue ;; esac # it writes patches
    grep -lq 'cli_writes_models(' "$file" || echo "$file"
done)
if [ -n "$silent" ]; then
    echo "these tools write models without a review (cli_writes_models):" $silent
    exit 1
fi
echo "options: none in the library, and one in the tools for each hint"
