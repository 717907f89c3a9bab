#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2010,SC2016
# shards.sh - split models: any shard stands for the whole; missing and mixed-up ones
# are named; shards and one merged file come back as asked.
. "$(dirname "$0")/lib.sh"
X=$D/gguf/x-0000

organ-extract -q ${X}1-of-00003.gguf --list > "$T/list" || bad "list"
check_text "$(sed 1d "$T/list" | wc -l | tr -d ' ')" 7 "tensors of the set"
for i in 2 3; do
    organ-extract -q ${X}$i-of-00003.gguf --list > "$T/a"
    check_same "$T/a" "$T/list" "shard $i stands for the whole"
done
check "extract a set" organ-extract ${X}2-of-00003.gguf --output "$T/d"

same_shards() { # PREFIX WHAT
    for i in 1 2 3; do check_same "$1-0000$i-of-00003.gguf" ${X}$i-of-00003.gguf "$2: shard $i"; done
}
check "three shards by name" organ-assemble "$T/d" --output "$T/x-00001-of-00003.gguf"
same_shards "$T/x" "by name"
check "three shards by --shards" organ-assemble "$T/d" --output "$T/y.gguf" --shards 3
same_shards "$T/y" "by --shards"
check_absent "$T/y.gguf" "no file besides the shards"

# A shard that came alone, on a pipe, is one file, under its own name too.
mkdir "$T/own"
for i in 1 2 3; do
    rm -rf "$T/one"
    check "shard $i on a pipe" organ-extract - --output "$T/one" < ${X}$i-of-00003.gguf
    check "shard $i on a pipe: assembled" organ-assemble "$T/one" --output "$T/own/x-0000$i-of-00003.gguf"
done
same_shards "$T/own/x" "on a pipe, by its own name"
check_text "$(ls "$T/own" | wc -l | tr -d ' ')" 3 "on a pipe: no other shards"

# One merged file: all tensors, no split keys, and its data are the shards' data.
check "merged" organ-assemble "$T/d" --output "$T/m.gguf"
organ-extract -q "$T/m.gguf" --list | cut -f 1-8 > "$T/a"
cut -f 1-8 "$T/list" > "$T/b"
check_same "$T/a" "$T/b" "merged: the same tensors"
organ-extract -q "$T/m.gguf" --output - > "$T/a"
organ-extract -q ${X}1-of-00003.gguf --output - > "$T/b"
check_same "$T/a" "$T/b" "merged: the same data"
organ-extract -q "$T/m.gguf" --output "$T/dm"
check_text "$(grep -c '"key": "split\.' "$T/dm/manifest.json")" 0 "merged: no split keys"
organ-extract -q - --list < "$T/m.gguf" | cut -f 1-8 > "$T/a"
cut -f 1-8 "$T/list" > "$T/b"
check_same "$T/a" "$T/b" "merged: through a pipe"

# Another number of shards, by count and by size; each set opens and holds it all.
VERSE=$LAB/lab-verse-q4_k_m.gguf
organ-extract -q $VERSE --output "$T/v"
organ-extract -q $VERSE --output - > "$T/stream"
for n in 1 2 5; do
    rm -f "$T"/s-*
    check "--shards $n" organ-assemble "$T/v" --output "$T/s.gguf" --shards $n
    check_text "$(ls "$T" | grep -c '^s-.*\.gguf$')" $n "--shards $n: files"
    last=$(printf '%s/s-%05d-of-%05d.gguf' "$T" $n $n)
    organ-extract -q "$last" --output - > "$T/a"
    check_same "$T/a" "$T/stream" "--shards $n: the same data"
    rm -rf "$T/ds" "$T/back.gguf"
    organ-extract -q "$last" --output "$T/ds"
    check "--shards $n: merged again" organ-assemble "$T/ds" --output "$T/back.gguf"
    [ $n = 1 ] || check_same "$T/back.gguf" $VERSE "--shards $n: merged again"
done
rm -f "$T"/s-*
check "--shard-size" organ-assemble "$T/v" --output "$T/s.gguf" --shard-size 500K
files=$(ls "$T" | grep -c '^s-.*\.gguf$')
if [ "$files" -ge 4 ]; then ok; else bad "--shard-size 500K made $files files"; fi
big=$(find "$T" -name 's-*.gguf' -size +1200k | wc -l | tr -d ' ') # keys and one large tensor may add
check_text "$big" 0 "--shard-size: no large shard"
organ-extract -q "$(ls "$T"/s-00002-of-*.gguf)" --output - > "$T/a"
check_same "$T/a" "$T/stream" "--shard-size: the same data"
check_error 2 "tensors" "more shards than tensors" organ-assemble "$T/d" --output "$T/z.gguf" --shards 8
check_error 2 "not both" "--shards and --shard-size" organ-assemble "$T/d" --output "$T/z.gguf" --shards 2 --shard-size 1K
check_error 2 "stdout takes one file" "shards to stdout" organ-assemble "$T/d" --output - --shards 3
for o in "--shards x" "--shards 0" "--shards 70000" "--shard-size 0" "--shard-size 5Q" "--shard-size -1"; do
    # shellcheck disable=SC2086
    check_error 2 "organ-assemble: " "$o" organ-assemble "$T/d" --output "$T/z.gguf" $o
done

# An existing shard stops the whole set before anything is written.
mkdir "$T/e"
echo precious > "$T/e/x-00002-of-00003.gguf"
check_error 2 "x-00002-of-00003.gguf" "an existing shard" organ-assemble "$T/d" --output "$T/e/x.gguf" --shards 3
check_text "$(ls -A "$T/e") $(cat "$T/e/x-00002-of-00003.gguf")" "x-00002-of-00003.gguf precious" "an existing shard is left alone"
check "--force" organ-assemble "$T/d" --output "$T/e/x.gguf" --shards 3 --force
same_shards "$T/e/x" "--force"

# Missing, renamed, mixed up.
mkdir "$T/bad"
for i in 1 3; do cp ${X}$i-of-00003.gguf "$T/bad/"; done
for i in 1 3; do
    check_error 3 "x-00002-of-00003.gguf: shard 2 of 3 is missing" "a missing shard, given $i" organ-extract "$T/bad/x-0000$i-of-00003.gguf" --list
done
check_exit 3 "a missing shard: no folder" organ-extract "$T/bad/x-00001-of-00003.gguf" --output "$T/none"
check_absent "$T/none" "a missing shard"
cp ${X}1-of-00003.gguf "$T/bad/x-00002-of-00003.gguf"
check_error 3 "x-00002-of-00003.gguf" "a shard that is another" organ-extract "$T/bad/x-00001-of-00003.gguf" --list
cp ${X}1-of-00003.gguf "$T/bad/renamed.gguf"
check_error 3 "renamed.gguf" "a renamed shard" organ-extract "$T/bad/renamed.gguf" --list
head -c 200 ${X}2-of-00003.gguf > "$T/bad/x-00002-of-00003.gguf"
check_error 3 "x-00002-of-00003.gguf" "a shard cut short" organ-extract "$T/bad/x-00003-of-00003.gguf" --list
cp $D/gguf/v3-basic.gguf "$T/bad/x-00002-of-00003.gguf"
check_error 3 "x-00002-of-00003.gguf" "a shard that is no shard" organ-extract "$T/bad/x-00003-of-00003.gguf" --list
finish
