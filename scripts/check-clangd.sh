#!/bin/sh
# check-clangd.sh [FILE...] - checks that clangd parses a sample of the sources, one of each
# kind, with the commands of compile_commands.json. Without clangd it checks the list only.
set -u
cd "$(dirname "$0")/.." || exit 2
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
make -s compile_commands.json || exit 1
mv compile_commands.json "$tmp" || exit 2
status=0
for f in src/*/*.c src/*/*/*.c tools/*/*.c tools/*/*/*.c tests/*/*.c tests/unit/*/*.c; do
    [ -f "$f" ] || continue
    [ "$(grep -c "\"file\": \"$f\"" "$tmp/compile_commands.json")" = 1 ] ||
        { echo "compile_commands.json does not list $f once"; status=1; }
done
command -v clangd > /dev/null || exit $status
[ $# -gt 0 ] || set -- src/base/io.c src/quant/codec.c src/quant/kernel/iq4.c src/gguf/gguf_read.c \
    src/organ/manifest.c tools/check/organ-check.c tools/api/organ-api.c tests/unit/gguf/t_gguf.c \
    tests/fuzz/fuzz_gguf.c tests/bench/bench_codec.c
for f; do
    clangd --check="$f" --compile-commands-dir="$tmp" > "$tmp/log" 2>&1 ||
        { echo "clangd --check=$f:"; grep '^E' "$tmp/log"; status=1; }
done
exit $status
