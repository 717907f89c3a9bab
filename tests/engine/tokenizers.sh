#!/bin/sh
# tokenizers.sh - converts real tokenizers, which come in packages of npm, and compares the engine's token ids
# with those of the tokenizers. Prints a table: tokenizer, pre-tokenizer, tokens, texts, equal. Exit 1 if
# fewer texts are equal than engines can do, 2 if the packages cannot be installed.
#
#   BIN=build/bin   the tools
set -u
cd "$(dirname "$0")/../.." || exit 2
BIN=${BIN:-build/bin}
case $BIN in /*) ;; *) BIN=$PWD/$BIN ;; esac
sh tests/engine/install.sh || exit 2
home=tests/engine/tokenizers
if ! cmp -s $home/package.json $home/node_modules/.installed; then
    rm -rf $home/node_modules
    (cd $home && npm install --no-save --no-package-lock --ignore-scripts --no-audit --no-fund --loglevel=error) >&2 ||
        exit 2
    cp $home/package.json $home/node_modules/.installed
fi
T=$(mktemp -d "${TMPDIR:-/tmp}/tokenizers.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP

status=0
printf 'tokenizer\tpre-tokenizer\ttokens\ttexts\tequal\n'
# The least number of equal texts of 65: qwen3 has a text that is not composed, and o200k five with marks.
for row in qwen3:64 llama3:65 llama3_1:65 llama2:65 gemma3:65 deepseek_v3:65 gptoss:60 gpt4o:60; do
    name=${row%:*}
    folder=$home/node_modules/@lenml/tokenizer-$name/models
    if ! { node tests/engine/tokenizers.mjs checkpoint "$folder" "$T/ck" &&
        "$BIN/organ-assemble" "$T/ck" -q --force -o "$T/m.gguf" &&
        node tests/engine/tokenizers.mjs compare "$folder" "$T/m.gguf"; } > "$T/answer" 2> "$T/err"; then
        echo "tokenizers.sh: $name: $(tail -n 1 "$T/err")" >&2
        status=1
        continue
    fi
    equal=$(head -n 1 "$T/answer" | cut -f 1) texts=$(head -n 1 "$T/answer" | cut -f 2)
    pre=$("$BIN/organ-keys" "$T/m.gguf" --get tokenizer.ggml.pre)
    tokens=$("$BIN/organ-keys" "$T/m.gguf" tokenizer.ggml.tokens | awk -F '\t' 'NR == 2 { print $3 }')
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$pre" "$tokens" "$texts" "$equal"
    [ "$equal" -ge "${row#*:}" ] || { status=1; tail -n +2 "$T/answer" >&2; }
    rm -rf "$T/ck" "$T/m.gguf"
done
exit $status
