#!/bin/sh
# shellcheck disable=SC1091
# library.sh - every program of docs/library.md compiles without a warning against the
# umbrella header, and the commands under it print what the page says.
. "$(dirname "$0")/lib.sh"
if [ -n "${SANITIZED:-}" ]; then # whose library wants the sanitizer's own
    finish
fi

# A program is a block of C whose first line is a comment that names its file.
mkdir "$T/page"
awk -v dir="$T/page" '/^```c$/ { on = 1; file = ""; next } /^```$/ { on = 0 }
    on { if (file == "") { file = dir "/" $2 } print > file }' docs/library.md
n=0
for f in "$T"/page/*.c; do
    name=$(basename "$f" .c)
    check "compile $name.c of docs/library.md" "${CC:-cc}" -std=c11 -Wall -Wextra -Werror -Iinclude "$f" \
        "$B/lib/libgguf.a" -lm -pthread -o "$T/page/$name"
    if grep -q "^\$ \./$name " docs/library.md; then ok; else bad "docs/library.md does not run $name"; fi
    n=$((n + 1))
done
check_text "$n" "$(grep -c '^```c$' docs/library.md)" "programs of docs/library.md"
if [ $n -ge 5 ]; then ok; else bad "only $n programs"; fi

# "$ COMMAND", and what it prints up to the next command or the end of the block.
cp "$LAB/lab-verse-q4_k_m.gguf" "$T/page/model.gguf"
awk -v dir="$T" '/^```sh$/ { on = 1; next } /^```$/ { on = 0 }
    on && /^\$ / { n++; print substr($0, 3) > (dir "/command." n); printf "" > (dir "/want." n); next }
    on { print > (dir "/want." n) }' docs/library.md
n=1
while [ -e "$T/command.$n" ]; do
    (cd "$T/page" && sh "$T/command.$n") > "$T/out" 2> "$T/err" < /dev/null
    check_text "$(cat "$T/err")" "" "stderr of $(cat "$T/command.$n")"
    check_same "$T/out" "$T/want.$n" "what $(cat "$T/command.$n") prints"
    n=$((n + 1))
done
if [ $n -gt 5 ]; then ok; else bad "only $((n - 1)) commands"; fi

# The table names every header.
for h in include/organ/gg_*.h; do
    if grep -qw -e "$(basename "$h")" docs/library.md; then ok; else bad "docs/library.md leaves $h out"; fi
done
# list prints what organ-extract --list does.
organ-extract --list "$T/page/model.gguf" | sed 1d | cut -f 1,2,5,8 > "$T/want"
"$T/page/list" "$T/page/model.gguf" > "$T/out"
check_same "$T/out" "$T/want" "list and organ-extract --list"
# What double writes: the one tensor twice as large, the name, and nothing else changed.
organ-compare "$T/page/model.gguf" "$T/page/doubled.gguf" > "$T/out"
check_text "$(sed 1d "$T/out" | awk '$1 ~ /^blk|^token|^output/ && $4 != "identical" { print $1 }')" blk.1.ffn_up.weight "only that tensor differs"
finish
