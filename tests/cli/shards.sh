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
organ-extract -q "$T/m.gguf" --list | without offset,part > "$T/a"
without offset,part "$T/list" > "$T/b"
check_same "$T/a" "$T/b" "merged: the same tensors"
organ-extract -q "$T/m.gguf" --output - > "$T/a"
organ-extract -q ${X}1-of-00003.gguf --output - > "$T/b"
check_same "$T/a" "$T/b" "merged: the same data"
organ-extract -q "$T/m.gguf" --output "$T/dm"
check_text "$(grep -c '"key": "split\.' "$T/dm/manifest.json")" 0 "merged: no split keys"
organ-extract -q - --list < "$T/m.gguf" | without offset,part > "$T/a"
without offset,part "$T/list" > "$T/b"
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
# Every shard has split keys of the types that engines read, with the numbers of the set.
tensors=$(organ-extract $VERSE --list | sed 1d | wc -l)
for i in 1 2 3 4 5; do
    organ-keys - < "$T/s-0000$i-of-00005.gguf" 2> "$T/err" |
        awk "$BY_NAME"'/^split\./ { print col("key"), col("type"), col("value") }' | sort > "$T/a"
    printf 'split.count u16 5\nsplit.no u16 %d\nsplit.tensors.count i32 %d\n' $((i - 1)) "$tensors" > "$T/b"
    check_same "$T/a" "$T/b" "--shards 5: split keys of shard $i"
done
# The same tensor in two shards, read one after another.
mkmodel "$T/pair.gguf" Q:F32:64x2 Z:F32:64x2
organ-assemble -q "$T/pair.gguf" --output "$T/two.gguf" --shards 2
LC_ALL=C tr Z Q < "$T/two-00002-of-00002.gguf" | cat "$T/two-00001-of-00002.gguf" - > "$T/twice"
check_error 3 "two shards contain a tensor with this name" "the same tensor in two shards" \
    sh -c "cat '$T/twice' | organ-assemble -q - --output '$T/twice.gguf'"
rm -f "$T"/s-*
check "--shard-size" organ-assemble "$T/v" --output "$T/s.gguf" --shard-size 500K
files=$(ls "$T" | grep -c '^s-.*\.gguf$')
if [ "$files" -ge 4 ]; then ok; else bad "--shard-size 500K made $files files"; fi
big=$(find "$T" -name 's-*.gguf' -size +1200k | wc -l | tr -d ' ') # keys and one large tensor may add
check_text "$big" 0 "--shard-size: no large shard"
if grep -q 'a shard is larger' "$T/err"; then bad "--shard-size 500K: a note without reason"; else ok; fi
check "--shard-size below a tensor" organ-assemble "$T/v" --output "$T/s1.gguf" --shard-size 1K
largest=$(organ-extract -q "$T/v" --list | awk -F"$TAB" 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
    $c["bytes"] > b { b = $c["bytes"]; n = $c["name"] } END { print n }')
if grep -q "a shard is larger than 1024 bytes: tensor '$largest' alone has" "$T/err"; then ok
else bad "--shard-size below a tensor: no note of $largest: $(cat "$T/err")"; fi
rm -f "$T"/s1-*.gguf
organ-extract -q "$(ls "$T"/s-00002-of-*.gguf)" --output - > "$T/a"
check_same "$T/a" "$T/stream" "--shard-size: the same data"
check_error 2 "tensors" "more shards than tensors" organ-assemble "$T/d" --output "$T/z.gguf" --shards 8
check_error 2 "not both" "--shards and --shard-size" organ-assemble "$T/d" --output "$T/z.gguf" --shards 2 \
    --shard-size 1K
check_error 2 "cannot be written to stdout" "shards to stdout" organ-assemble "$T/d" --output - --shards 3
for o in "--shards x" "--shards 0" "--shards 70000" "--shard-size 0" "--shard-size 5Q" "--shard-size -1"; do
    # shellcheck disable=SC2086
    check_error 2 "organ-assemble: " "$o" organ-assemble "$T/d" --output "$T/z.gguf" $o
done

# An existing shard stops the whole set before anything is written.
mkdir "$T/e"
echo precious > "$T/e/x-00002-of-00003.gguf"
check_error 2 "x-00002-of-00003.gguf" "an existing shard" organ-assemble "$T/d" --output "$T/e/x.gguf" --shards 3
check_text "$(ls -A "$T/e") $(cat "$T/e/x-00002-of-00003.gguf")" "x-00002-of-00003.gguf precious" \
    "an existing shard is left alone"
check "--force" organ-assemble "$T/d" --output "$T/e/x.gguf" --shards 3 --force
same_shards "$T/e/x" "--force"

# Missing shards: the one that is named is used alone, with a note; so is a renamed one.
mkdir "$T/bad"
for i in 1 3; do cp ${X}$i-of-00003.gguf "$T/bad/"; done
note() { check_text "$(grep -c "$1" "$T/err")" 1 "$2: the note"; }
for i in 1 3; do
    check "a missing shard, given $i" organ-extract "$T/bad/x-0000$i-of-00003.gguf" --list
    note "x-0000$i-of-00003.gguf: shard $i of 3; 3 of 7 tensors; .*x-00002-of-00003.gguf is missing" "given $i"
done
check_exit 3 "a missing shard: extracted" organ-extract "$T/bad/x-00001-of-00003.gguf" --output "$T/none"
check_absent "$T/none" "a missing shard"
note "shard 1 of 3; 3 of 7 tensors" "extracted"
check "a missing shard: no note with -q" organ-measure -q "$T/bad/x-00003-of-00003.gguf"
check_text "$(cat "$T/err")" "" "-q"
cp ${X}2-of-00003.gguf "$T/bad/renamed.gguf"
check "a renamed shard" organ-extract "$T/bad/renamed.gguf" --list
note "renamed.gguf: shard 2 of 3; 1 of 7 tensors" "renamed"
check_error 3 "x-00002-of-00003.gguf" "in place: all shards are needed" organ-transplant \
    --base "$T/bad/x-00001-of-00003.gguf" --donor ${X}1-of-00003.gguf --in-place --no-undo --all

# Mixed up, cut short.
cp ${X}1-of-00003.gguf "$T/bad/x-00002-of-00003.gguf"
check_error 3 "x-00002-of-00003.gguf" "a shard that is another" organ-extract "$T/bad/x-00001-of-00003.gguf" --list
head -c 200 ${X}2-of-00003.gguf > "$T/bad/x-00002-of-00003.gguf"
check_error 3 "x-00002-of-00003.gguf" "a shard cut short" organ-extract "$T/bad/x-00003-of-00003.gguf" \
    --output "$T/none2"
cp $D/gguf/v3-basic.gguf "$T/bad/x-00002-of-00003.gguf"
check_error 3 "x-00002-of-00003.gguf" "a shard without split keys" organ-extract "$T/bad/x-00003-of-00003.gguf" --list

# Concatenated shards, on a pipe and in a file, are one model for every tool.
cat ${X}1-of-00003.gguf ${X}2-of-00003.gguf ${X}3-of-00003.gguf > "$T/joined.gguf"
sed "s/${TAB}[0-9]*\$//" "$T/list" > "$T/want"
joined() { # WHAT FILE-WITH-TSV
    check_text "$(grep -c shard "$T/err")" 0 "$1: no note"
    sed "s/${TAB}[0-9]*\$//" "$T/out" > "$T/a"
    check_same "$T/a" "$T/want" "$1"
}
check "joined, --list" organ-extract "$T/joined.gguf" --list; joined "joined, --list"
check "joined on a pipe, --list" sh -c "cat $T/joined.gguf | organ-extract - --list"; joined "joined on a pipe, --list"
organ-measure ${X}1-of-00003.gguf > "$T/measures"
for j in 1 3; do
    check "joined, measured, -j $j" organ-measure -j $j "$T/joined.gguf"
    check_same "$T/out" "$T/measures" "joined, measured, -j $j"
    check "joined on a pipe, measured, -j $j" sh -c "cat ${X}*-of-00003.gguf | organ-measure -j $j -"
    check_same "$T/out" "$T/measures" "joined on a pipe, measured, -j $j"
done
for from in "$T/joined.gguf" -; do
    rm -rf "$T/dj"
    check "joined $from, extracted" organ-extract "$from" --output "$T/dj" < "$T/joined.gguf"
    check_text "$(grep -c shard "$T/err")" 0 "joined $from: no note"
    check "joined $from, assembled" organ-assemble "$T/dj" --output "$T/j.gguf" --shards 3 --force
    same_shards "$T/j" "joined $from"
    organ-extract -q "$from" --output - < "$T/joined.gguf" > "$T/a"
    organ-extract -q ${X}1-of-00003.gguf --output - > "$T/b"
    check_same "$T/a" "$T/b" "joined $from, as a stream"
    check "joined $from, compared" organ-compare "$from" ${X}2-of-00003.gguf < "$T/joined.gguf"
    check "joined $from, compared, the other way" organ-compare ${X}2-of-00003.gguf "$from" < "$T/joined.gguf"
    check "joined $from, as a donor" organ-transplant --base ${X}2-of-00003.gguf --donor "$from" --output "$T/c.gguf" \
        --force < "$T/joined.gguf"
    check "joined $from: that is the merged model" organ-compare "$T/c.gguf" "$T/m.gguf"
    rm -rf "$T/dp"
    check "joined $from, purified" organ-purify "$from" --method haar --strength 0 --output "$T/dp" < "$T/joined.gguf"
done

# Only some of the shards on a pipe, out of order, twice, or of two sets.
some() { # STATUS TEXT WHAT SHARDS...
    want=$1 text=$2 what=$3
    shift 3
    for i in "$@"; do cat "${X}$i-of-00003.gguf"; done > "$T/some"
    for from in - "$T/some"; do
        organ-extract "$from" --list < "$T/some" > "$T/out" 2> "$T/err"
        check_text $? $want "$what, $from"
        grep -q "$text" "$T/err" && ok || bad "$what, $from: $(cat "$T/err")"
    done
}
some 0 "shard 1 of 3; 3 of 7 tensors" "the first alone" 1
some 0 "shard 3 of 3; 3 of 7 tensors" "the last alone" 3
some 0 "shards 1-2 of 3; 4 of 7 tensors" "the first two" 1 2
some 0 "shards 2-3 of 3; 4 of 7 tensors" "the last two" 2 3
check_exit 3 "out of order" sh -c "cat ${X}1-of-00003.gguf ${X}3-of-00003.gguf | organ-extract - --output $T/ooo"
check_exit 3 "twice" sh -c "cat ${X}1-of-00003.gguf ${X}1-of-00003.gguf | organ-measure -"
check_absent "$T/ooo" "out of order"

# The header is enough for --list, of a file and of a pipe, and it says so.
organ-extract $VERSE --list > "$T/want"
head -c 60000 $VERSE > "$T/cut.gguf"
for from in "$T/cut.gguf" -; do
    check "a cut model, --list, $from" organ-extract "$from" --list < "$T/cut.gguf"
    check_same "$T/out" "$T/want" "a cut model, --list, $from"
    check_text "$(grep -c "the data is incomplete" "$T/err")" 1 "a cut model, $from: a note"
    check_exit 3 "a cut model, measured, $from" organ-measure "$from" < "$T/cut.gguf"
done
head -c 10000 $VERSE > "$T/cut.gguf"
for from in "$T/cut.gguf" -; do check_error 3 "" "a cut header, --list, $from" organ-extract "$from" \
    --list < "$T/cut.gguf"; done

# ---- a missing shard: whatever writes refuses it ---------------------------------------------------------------

organ-assemble -q $LAB/lab-verse-q4_k_m.gguf --shards 3 -o "$T/lost.gguf"
L1=$T/lost-00001-of-00003.gguf L3=$T/lost-00003-of-00003.gguf C=$LAB/lab-code-q4_k_m.gguf
mv "$T/lost-00002-of-00003.gguf" "$T/second"
mkdir "$T/none"
organ-stack -q $C 0 -o "$T/one.gguf"
lost() { # COMMAND... with the output $T/none/x
    check_exit 3 "$*" "$@"
    grep -q 'missing' "$T/err" && ok || bad "$*: $(cat "$T/err")"
    rmdir "$T/none" && ok || { bad "$*: left $(ls -A "$T/none")"; rm -rf "$T/none"; }
    mkdir "$T/none"
}
for shard in "$L1" "$L3"; do
    lost organ-assemble "$shard" -o "$T/none/x.gguf"
    lost organ-assemble "$shard" --shards 2 --dtype q8_0 -o "$T/none/x.gguf"
    lost organ-merge --method linear "$shard" $C -o "$T/none/x.gguf"
    lost organ-merge --method linear $C "$shard" -o "$T/none/x.gguf"
    lost organ-merge --method ties --base "$shard" $C -o "$T/none/x.gguf"
    lost organ-keys "$shard" --set a=u32:1 -o "$T/none/x.gguf"
    lost organ-extract "$shard" -o "$T/none/x"
    lost organ-graft "$shard" $C --type ffn --skip-mismatched -o "$T/none/x"
    lost organ-graft "$shard" --adapter $LAB/lab-lora-code.gguf -o "$T/none/x"
    lost organ-vocab add "$shard" --pad 64 -o "$T/none/x.gguf"
    lost organ-transplant "$shard" $C --tensors output_norm.weight --skip-mismatched -o "$T/none/x.gguf"
    lost organ-transplant $C "$shard" --type ffn -o "$T/none/x.gguf"
    lost organ-transplant $C "$shard" --type ffn --skip-mismatched -o "$T/none/x.gguf"
    lost organ-transplant $C "$shard" --tensors blk.0.attn_q.weight,blk.3.attn_q.weight --add --skip-mismatched \
        -o "$T/none/x.gguf"
    lost organ-transplant "$T/one.gguf" "$shard" --tensors "blk.[1-9].*" --add -o "$T/none/x.gguf"
    lost organ-graft $C "$shard" --type ffn --skip-mismatched -o "$T/none/x"
    lost organ-purify "$shard" -o "$T/none/x.gguf"
    lost organ-lora "$shard" $C --rank 2 -o "$T/none/x.gguf"
    lost organ-lora $C "$shard" --rank 2 -o "$T/none/x.gguf"
    lost organ-prune "$shard" --experts 0 -o "$T/none/x.gguf"
    lost organ-vocab transplant $C --from "$shard" -o "$T/none/x.gguf"
done
lost organ-stack "$L1" 0 -o "$T/none/x.gguf"
lost sh -c "cat $L1 $T/second | organ-assemble - -o $T/none/x.gguf"
# Only the first shard of the base is written, with what fits it.
for tool in "organ-assemble $L1 --dtype q8_0" "organ-keys $L1 --set a=u32:1" "organ-purify $L1" \
    "organ-transplant $L1 $C --type norm --skip-mismatched" "organ-graft $L1 $C --type norm --skip-mismatched" \
    "organ-vocab add $L1 --pad 8"; do
    # shellcheck disable=SC2086 # words
    check "$tool --partial" $tool -q --partial -o "$T/part.gguf" --force
    check_text "$(organ-extract -q --list "$T/part.gguf" | grep -c .)" 14 "$tool --partial"
done
check "merge --partial" organ-merge -q --partial --method linear "$L1" $C -o "$T/part.gguf" --force
check_exit 3 "a missing shard" organ-vocab add "$L1" --pad 8 -o "$T/none/x"
grep -q 'or write the rest (--partial)' "$T/err" && ok || bad "the option is not named: $(cat "$T/err")"
check "extract --partial" organ-extract -q --partial "$L1" -o "$T/part"
check "one shard on a pipe" sh -c "organ-assemble -q - -o $T/part.gguf --force < $L1"
check "a donor may be a part" organ-transplant -q $C "$L1" --tensors token_embd.weight -o "$T/part.gguf" --force
check "or may have a part of that tensor" organ-transplant -q $C "$L1" --type ffn --skip-mismatched \
    --partial -o "$T/part.gguf" --force
cp "$L1" "$T/part-00001-of-00003.gguf"
check_exit 3 "a shard named part" organ-keys "$T/part-00001-of-00003.gguf" --set general.name=str:x --in-place
grep -q 'put it into the folder of the other shards' "$T/err" && ok || bad "a shard named part: $(cat "$T/err")"
check "tables are not refused" organ-measure -q "$L1"

# Shards in another order are refused, not read as the last one with trailing bytes.
organ-assemble -q "$LAB/lab-verse-q4_k_m.gguf" --shards 3 --output "$T/order.gguf"
cat "$T/order-00003-of-00003.gguf" "$T/order-00001-of-00003.gguf" "$T/order-00002-of-00003.gguf" > "$T/order.gguf"
check_error 3 "in order" "shards in another order" organ-extract "$T/order.gguf" --output "$T/order.d"
check_absent "$T/order.d" "shards in another order"
check_exit 3 "shards in another order on a pipe" organ-extract - --output "$T/order.d" < "$T/order.gguf"
check_absent "$T/order.d" "shards in another order on a pipe"
finish
