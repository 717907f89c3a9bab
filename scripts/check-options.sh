#!/bin/sh
# check-options.sh - checks that no message or comment of the library names a command-line option, that no
# message names a tool, and that each tool that writes a model reviews it. Prints what does not and exits 1. Messages
# name an argument of the library instead (gg_fix_by, gg_about), for which tools/common/cli.c gives the option.
set -u
cd "$(dirname "$0")/.." || exit 2
if grep -rnE "[ \"'(\`]--[a-z]" src include; then
    echo "the library must not name options; see gg_fix_by in src/base/error.h"
    exit 1
fi
tools=$(ls -d tools/*/organ-*.c | sed 's|.*/||; s|[.]c$||' | tr '\n' '|')
if grep -rnE "\"[^\"]*\\b(${tools%|})\\b" src --include='*.[ch]' | grep -vE '/\*.*organ-'; then
    echo "a message of the library must not name a tool; say what to do"
    exit 1
fi
missing=$(cat src/*/*.c tools/*/*.c | grep -oE '(gg_fix_by|gg_about)\([a-z>-]*, "[a-z_]*"' | cut -d'"' -f2 | sort -u |
    while read -r arg; do
        grep -q "{ \"$arg\", \"" tools/common/cli.c ||
            grep -q "\"$(echo "$arg" | tr _ -)\", CLI_" tools/*/*.c || echo "$arg"
    done)
if [ -n "$missing" ]; then
    echo "no tool has an option for these arguments of gg_fix_by and gg_about:" $missing
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
echo "options: none in the library, and one in the tools for each argument that errors name"
