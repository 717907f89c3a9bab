#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2002
# transplant.sh - organ-transplant: what moves is the donor's to the byte, what stays is
# the base's; every form of base and donor; matching; keys; in place with undo, killed
# at any moment; refusals before anything is written.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
BASE=$LAB/lab-verse-q4_k_m.gguf
DONOR=$LAB/lab-code-q4_k_m.gguf
graft() { # OPTIONS...: to $T/c.gguf
    rm -f "$T/c.gguf"
    organ-transplant --base "$BASE" --donor "$DONOR" --output "$T/c.gguf" "$@"
}
records() { organ-extract -q "$@" --output -; }

# Half of it from the donor, half from the base.
check "organs of blocks 1 and 2" graft --type organ --layers 1-2
records "$T/c.gguf" --type organ --layers 1-2 > "$T/a"
records $DONOR --type organ --layers 1-2 > "$T/b"
check_same "$T/a" "$T/b" "the moved are the donor's"
organ-extract $BASE --list |
    awk -F '\t' "$BY_NAME"'NR > 1 && !(col("class") == "organ" && (col("block") == 1 || col("block") == 2)) {
    print col("name") }' > "$T/stay"
records "$T/c.gguf" --names-from "$T/stay" > "$T/a"
records $BASE --names-from "$T/stay" > "$T/b"
check_same "$T/a" "$T/b" "the others are the base's"
check_text "$(wc -c < "$T/c.gguf")" "$(wc -c < $BASE)" "as large as the base"
header=$(($(wc -c < $BASE) - $(organ-extract $BASE --list |
    awk -F '\t' "$BY_NAME"'END { print col("bytes") + col("offset") }') - 64))
head -c $header "$T/c.gguf" > "$T/a"
head -c $header $BASE > "$T/b"
check_same "$T/a" "$T/b" "the header is the base's"
cp "$T/c.gguf" "$T/want.gguf"

# Every form of base and donor gives that same file.
organ-extract $BASE --output "$T/based"
organ-extract $DONOR --output "$T/donord"
records $DONOR --type organ --layers 1-2 > "$T/part.bin"
same_as() { # WHAT OPTIONS...
    what=$1
    shift
    rm -f "$T/c.gguf"
    check "$what" organ-transplant --output "$T/c.gguf" "$@"
    check_same "$T/c.gguf" "$T/want.gguf" "$what"
}
S="--type organ --layers 1-2"
same_as "base directory" --base "$T/based" --donor $DONOR $S
same_as "donor directory" --base $BASE --donor "$T/donord" $S
same_as "donor records" --base $BASE --donor "$T/part.bin"
same_as "-j 1" --base $BASE --donor $DONOR $S -j 1
cat "$T/part.bin" | same_as "donor records on a pipe" --base $BASE --donor -
cat $DONOR | same_as "donor model on a pipe" --base $BASE --donor - $S
cat $BASE | same_as "base on a pipe" --base - --donor $DONOR $S
organ-assemble "$T/based" --output "$T/bs.gguf" --shards 3
organ-assemble "$T/donord" --output "$T/ds.gguf" --shards 2
same_as "base and donor in shards" --base "$T/bs-00002-of-00003.gguf" --donor "$T/ds-00001-of-00002.gguf" $S
mkfifo "$T/fifo"
from_fifo() { # FILE OPTIONS...: the file comes through a FIFO that the options name
    cat "$1" > "$T/fifo" &
    shift
    organ-transplant --output "$T/c.gguf" "$@"
    fifo_status=$?
    wait
    return $fifo_status
}
rm -f "$T/c.gguf"
check "a FIFO as the donor" from_fifo $DONOR --base $BASE --donor "$T/fifo" $S
check_same "$T/c.gguf" "$T/want.gguf" "a FIFO as the donor"
rm -f "$T/c.gguf"
check "a FIFO as the base" from_fifo $BASE --base "$T/fifo" --donor $DONOR $S
check_same "$T/c.gguf" "$T/want.gguf" "a FIFO as the base"
rm -f "$T/c.gguf"
check "records from a FIFO" from_fifo "$T/part.bin" --base $BASE --donor "$T/fifo" $S
check_same "$T/c.gguf" "$T/want.gguf" "records from a FIFO"
head -c 1000000 $DONOR > "$T/cut"
rm -f "$T/c.gguf"
check_error 3 "$T/fifo" "a donor that is cut in a FIFO" from_fifo "$T/cut" --base $BASE --donor "$T/fifo" $S
if [ -e /dev/full ]; then
    check_error 4 "TMPDIR" "no folder to store a pipe in" env TMPDIR="$T/none" organ-transplant \
        --base - --donor $DONOR --output "$T/c.gguf" < $BASE
fi
check_absent "$T/c.gguf" "a donor that is cut in a FIFO"
# A directory says of its model what the files do: split keys go, odd bytes stay.
organ-extract "$T/bs-00001-of-00003.gguf" --output "$T/splitd"
same_as "the directory of a split base" --base "$T/splitd" --donor $DONOR $S
rm -f "$T/c.gguf"
check "base of itself" organ-transplant --base $BASE --donor $BASE --output "$T/c.gguf"
check_same "$T/c.gguf" $BASE "a model into itself is that model"
for f in padding-nonzero trailing-bytes last-tensor-unpadded align-1 names-odd zero-element-tensors; do
    rm -f "$T/c.gguf"
    check "$f into itself" organ-transplant --base $D/gguf/$f.gguf --donor $D/gguf/$f.gguf --output "$T/c.gguf"
    check_same "$T/c.gguf" $D/gguf/$f.gguf "$f into itself: odd bytes stay"
    rm -rf "$T/c.gguf" "$T/odd"
    organ-extract -q $D/gguf/$f.gguf --output "$T/odd"
    check "$f into its directory" organ-transplant --base "$T/odd" --donor $D/gguf/$f.gguf --output "$T/c.gguf"
    check_same "$T/c.gguf" $D/gguf/$f.gguf "$f into its directory: odd bytes stay"
done

# Blocks from other blocks.
check "--map" graft --map 1-2=2-3 --type skeleton
records "$T/c.gguf" --tensors 'blk.[12].attn_q.weight' | tail -c 1000 > "$T/a"
records $DONOR --tensors 'blk.[23].attn_q.weight' | tail -c 1000 > "$T/b"
check_same "$T/a" "$T/b" "--map: the donor's other block"
records "$T/c.gguf" --layers 0,3 > "$T/a"
records $BASE --layers 0,3 > "$T/b"
check_same "$T/a" "$T/b" "--map: blocks it does not name stay"
check_error 2 "--map" "a bad map" graft --map 1-2=3

# What does not match.
mkmodel "$T/b.gguf" -s 1 blk.0.ffn_up.weight:Q8_0:64x8 blk.0.ffn_down.weight:F32:64x8 blk.0.attn_q.weight:F16:32x4 \
    output.weight:F32:8x2
mkmodel "$T/d.gguf" -s 2 blk.0.ffn_up.weight:F32:64x8 blk.0.ffn_down.weight:F32:64x9 blk.0.attn_q.weight:F16:32x4 \
    extra.weight:F32:4
small() { rm -f "$T/c.gguf"; organ-transplant --base "$T/b.gguf" --donor "$T/d.gguf" --output "$T/c.gguf" "$@"; }
check_error 1 "blk.0.ffn_up.weight" "dtypes differ" small --tensors '*ffn_up*' --match exact
check_error 1 "dims differ" "dims differ" small --tensors '*ffn_down*'
check_error 1 "output.weight" "the donor lacks it" small --tensors 'output*'
check_error 1 "extra.weight" "the base lacks it" small --tensors 'extra*'
check_error 1 "block 9 is not in the model" "nothing is selected" small --layers 9
check_absent "$T/c.gguf" "after a refusal"
check "--skip-mismatched" small --skip-mismatched --match exact
records "$T/c.gguf" --tensors '*attn_q*' > "$T/a"
records "$T/d.gguf" --tensors '*attn_q*' > "$T/b"
check_same "$T/a" "$T/b" "--skip-mismatched moves what fits"
records "$T/c.gguf" --tensors '*ffn*' > "$T/a"
records "$T/b.gguf" --tensors '*ffn*' > "$T/b"
check_same "$T/a" "$T/b" "--skip-mismatched leaves the rest"
check "--match retype" small --tensors '*ffn_up*' --match retype
records "$T/c.gguf" --tensors '*ffn_up*' > "$T/a"
records "$T/d.gguf" --tensors '*ffn_up*' > "$T/b"
check_same "$T/a" "$T/b" "retype: the donor's record"
check "--match convert" small --tensors '*ffn_up*' --match convert
check_text "$(organ-extract "$T/c.gguf" --list |
    awk "$BY_NAME"'col("name") == "blk.0.ffn_up.weight" { print col("dtype") }')" Q8_0 \
    "convert: the base's dtype"
records "$T/c.gguf" --tensors '*ffn_up*' > "$T/a"
records "$T/b.gguf" --tensors '*ffn_up*' > "$T/b"
if cmp -s "$T/a" "$T/b"; then bad "convert: nothing changed"; else ok; fi
mv "$T/c.gguf" "$T/converted.gguf"
# Types are converted by default, and a note says so.
records "$T/d.gguf" --tensors '*ffn_up*' > "$T/up.bin"
for donor in d.gguf up.bin; do
    check_error 0 "1 tensor of another type" "by default, from $donor" organ-transplant --base "$T/b.gguf" \
        --donor "$T/$donor" --tensors '*ffn_up*' --output "$T/c.gguf"
    check_same "$T/c.gguf" "$T/converted.gguf" "convert is the default, from $donor"
    rm "$T/c.gguf"
done
check "from a stream" sh -c 'organ-transplant -q "$0/b.gguf" - --tensors "*ffn_up*" -o "$0/c.gguf" < "$0/up.bin"' "$T"
check_same "$T/c.gguf" "$T/converted.gguf" "convert is the default, from a stream"
for with in "--match convert" "--blend linear:1"; do
    small --tensors '*ffn_up*' $with 2> "$T/err"
    check_text "$(grep -c "another type" "$T/err")" 0 "no note: $with"
done
organ-transplant "$T/b.gguf" "$T/d.gguf" --tensors '*ffn_up*' --check > "$T/out" 2> "$T/err"
check_text "$(cells action "$T/out" | tail -n 1) $(grep \
    -c "^organ-transplant: 1 tensor of another type.*--match exact refuses)" "$T/err")" "convert 1" \
    "--check converts too"
cp "$T/b.gguf" "$T/in.gguf"
check_error 1 "dtypes differ" "in place nothing is converted" organ-transplant "$T/in.gguf" "$T/d.gguf" \
    --tensors '*ffn_up*' --in-place --no-undo
check_exit 1 "in place, --check" organ-transplant "$T/in.gguf" "$T/d.gguf" --tensors '*ffn_up*' --in-place --check
check_same "$T/in.gguf" "$T/b.gguf" "refused in place"
check "--add" small --tensors 'extra*' --add
check_text "$(organ-extract -q "$T/c.gguf" --list | cells name | tail -n 1)" extra.weight "--add appends"
# Added tensors retype none: only what GGUF demands of quantized ones follows.
keys() {
    rm -rf "$T/k"
    organ-extract -q "$1" --output "$T/k"
    grep -c -e '"general.file_type", "type": "u32", "value": 7' \
        -e '"general.quantization_version", "type": "u32", "value": 2' "$T/k/manifest.json"
}
mkmodel "$T/floats.gguf" -k general.file_type=7 blk.0.attn_q.weight:F16:64x64
mkmodel "$T/more.gguf" -s 3 blk.0.ffn_gate.weight:Q8_0:64x64 blk.0.ffn_down.weight:F16:64x64
for globs in 'blk.0.ffn_*:2' 'blk.0.ffn_down*:1'; do
    check "--add ${globs%:*}" organ-transplant --base "$T/floats.gguf" --donor "$T/more.gguf" --tensors "${globs%:*}" \
        --add --output "$T/added.gguf" --force
    check_text "$(keys "$T/added.gguf")" "${globs##*:}" "--add ${globs%:*}: keys"
    check "and as a graft" organ-graft --source "$T/more.gguf" --target "$T/floats.gguf" --tensors "${globs%:*}" \
        --add --output "$T/added.d" --force
    organ-assemble -q "$T/added.d" --output "$T/grafted.gguf" --force
    check_same "$T/grafted.gguf" "$T/added.gguf" "--add ${globs%:*}: organ-graft's assembles to the same"
done
check_error 2 "--match" "an unknown mode" small --match closely
{ records $DONOR --tensors blk.1.ffn_up.weight; records $BASE --tensors blk.1.ffn_up.weight; } > "$T/twice.bin"
check_error 3 "blk.1.ffn_up.weight" "a donor with two tensors of a name" organ-transplant --base $BASE \
    --donor "$T/twice.bin" --output "$T/c2.gguf"
check_absent "$T/c2.gguf" "a donor with two tensors of a name"

# --check: a table, exit 1 when something does not match, nothing written.
check_exit 1 "--check of mismatches" organ-transplant --base "$T/b.gguf" --donor "$T/d.gguf" --match exact --check
check_text "$(awk -F '\t' 'NR > 1' "$T/out" | grep -c .)" 5 "--check: one row per tensor"
if grep -q "dims differ" "$T/out" && grep -q "dtypes differ" "$T/out"; then ok; else bad "--check says why"; fi
rm -f "$T/c.gguf" "$T/u3.bin"
check_exit 1 "--check of a whole command line" organ-transplant --base "$T/b.gguf" --donor "$T/d.gguf" \
    --output "$T/c.gguf" --check
check_absent "$T/c.gguf" "--check writes nothing"
cp "$T/b.gguf" "$T/in.gguf"
check_exit 0 "--check in place" organ-transplant --base "$T/in.gguf" --donor "$T/d.gguf" --tensors '*attn_q*' \
    --in-place --undo "$T/u3.bin" --check
check_same "$T/in.gguf" "$T/b.gguf" "--check in place writes nothing"
check_absent "$T/u3.bin" "--check in place writes no undo stream"
check_exit 0 "--check of a match" organ-transplant --base $BASE --donor $DONOR $S --check
if have jq "JSON read by jq"; then
    organ-transplant --base $BASE --donor $DONOR $S --check --json 2> "$T/err" > "$T/out"
    check "--check --json" jq -e . "$T/out"
fi

check_exit 1 "--check where only dtypes differ" organ-transplant --match exact --base "$T/b.gguf" --donor "$T/d.gguf" \
    --tensors "$(
    organ-transplant --match exact --base "$T/b.gguf" --donor "$T/d.gguf" --check 2> "$T/err" | awk -F "$TAB" \
        "$BY_NAME"'/dtypes differ/ { print col("name"); exit }')" --check
if grep -q "lineage: undecidable: no tensors match" "$T/err"; then ok; else bad "dtypes differ, not shapes: $(cat \
    "$T/err")"; fi

# Keys.
check "--set-kv" graft $S --set-kv general.name=str:mixed --set-kv my.number=u32:7 --set-kv general.file_type= \
    --copy-kv 'general.arch*'
rm -rf "$T/kd"
organ-extract "$T/c.gguf" --output "$T/kd"
key() { sed -n "s/^ *{\"key\": \"$1\", \(.*\)},*\$/\1/p" "$T/kd/manifest.json"; }
check_text "$(key general.name)" '"type": "str", "value": "mixed"' "--set-kv changes"
check_text "$(key my.number)" '"type": "u32", "value": 7' "--set-kv adds"
check_text "$(key general.file_type)" "" "--set-kv deletes"
check_error 2 "" "--set-kv of nonsense" graft $S --set-kv nonsense
check_error 2 "" "--set-kv that does not fit" graft $S --set-kv a=u8:300
for v in u9:1 int32:1 F32:1 string:x str64:x arr:1 u9[]:1,2 Bool:true; do
    check_error 2 "unknown type '${v%%:*}'; use u8 " "--set-kv of no type, $v" graft $S --set-kv "my.key=$v"
done
check_error 2 "unknown type" "--set-kv of no type, a key that is there" graft $S --set-kv general.name=u9:1
text() { rm -rf "$T/kd" && organ-extract -q "$T/c.gguf" --output "$T/kd"; }
for v in "foo: bar" "text: a" i:1 https://x s3://bucket/x qwen3:8b note:x :x u9 "a u9: b"; do
    check "--set-kv of text, $v" graft $S --set-kv "my.key=$v" --set-kv "general.name=$v"
    text
    check_text "$(key my.key)" "\"type\": \"str\", \"value\": \"$v\"" "--set-kv of text"
    check_text "$(key general.name)" "\"type\": \"str\", \"value\": \"$v\"" "--set-kv of text, a key that is there"
done
check "--set-kv of text that looks typed" graft $S --set-kv my.key=str:u9:1
text
check_text "$(key my.key)" '"type": "str", "value": "u9:1"' "--set-kv of text that looks typed"
check "--copy-kv of all keys of a split donor" organ-transplant --base $BASE --donor "$T/ds-00001-of-00002.gguf" $S \
    --copy-kv '*' --output "$T/all.gguf"
check "all keys of a split donor: but its numbers" organ-extract "$T/all.gguf" --list
check_error 2 "split.count" "--copy-kv of a shard's number" organ-transplant --base $BASE \
    --donor "$T/ds-00001-of-00002.gguf" $S --copy-kv split.count --output "$T/all2.gguf"
check_error 2 "no key with this name" "--copy-kv of nothing" graft $S --copy-kv none.such
check_absent "$T/c.gguf" "after bad keys"

# In place, and back.
cp $BASE "$T/in.gguf"
inplace() { organ-transplant --base "$T/in.gguf" --in-place "$@"; }
check "in place" inplace --donor $DONOR $S --undo "$T/undo.bin"
check_same "$T/in.gguf" "$T/want.gguf" "in place is as by --output"
check_error 2 "first restore the base from $T/undo.bin (--in-place --donor" "an undo file is not overwritten" inplace \
    --donor $DONOR --type norm --undo "$T/undo.bin"
check_same "$T/in.gguf" "$T/want.gguf" "nothing changes then"
env ORGAN_PROGRESS=3 organ-transplant --base "$T/in.gguf" --in-place --donor "$T/undo.bin" 3> "$T/progress"
check_same "$T/in.gguf" $BASE "undone to the byte"
# The undo file counts like the model, or the time left would be wrong.
env ORGAN_PROGRESS=3 organ-transplant --base "$T/in.gguf" --in-place --donor $DONOR $S --undo "$T/back.bin" \
    3> "$T/progress2"
check_text "$(cat "$T/progress" "$T/progress2" | awk \
    '{ printf "%d ", ($1 == $2 && $2 > 0); last[NR] = $2 } END { print (last[2] == 2 * last[1]) }')" "1 1 1" \
    "the progress in place"
inplace -q --donor "$T/back.bin"
check_same "$T/in.gguf" $BASE "undone again"
check_error 2 "same file" "a model in place into itself" inplace --donor "$T/in.gguf" --no-undo --all
check_error 2 "keys" "keys in place" inplace --donor $DONOR $S --no-undo --set-kv a=u32:1
cp "$T/b.gguf" "$T/in.gguf"
check_error 1 "" "retype in place" inplace --donor "$T/d.gguf" --tensors '*ffn_up*' --match retype --no-undo
check_same "$T/in.gguf" "$T/b.gguf" "retype in place changes nothing"
# What overwrites a model is asked for.
cp $BASE "$T/in.gguf"
check_error 2 "--undo FILE to be able to restore it, or --no-undo" "in place without --undo" inplace --donor $DONOR $S
check_error 2 "or --all" "in place without a selection" inplace --donor $DONOR --no-undo
check_error 2 "not both" "--undo and --no-undo" inplace --donor $DONOR $S --no-undo --undo "$T/u9.bin"
check_error 2 "not both" "--all and a selection" inplace --donor $DONOR $S --no-undo --all
check_error 2 "--in-place" "--all without --in-place" organ-transplant --base $BASE --donor $DONOR \
    --all --output "$T/c9.gguf"
ln "$T/in.gguf" "$T/in2.gguf"
check_error 2 "2 names (hard links)" "a base with two names" inplace --donor $DONOR $S --undo "$T/u9.bin"
check_absent "$T/u9.bin" "a base with two names: no undo stream"
check_error 2 "also an input; choose another name" "the undo stream is the base" \
    inplace --donor $DONOR $S --undo "$T/in.gguf" --force
check_text "$(grep -c 'change the model itself' "$T/err")" 0 "no advice to change it in place"
check_same "$T/in.gguf" $BASE "nothing of that changed the base"
check "a base with two names, --force" inplace --donor $DONOR $S --undo "$T/u9.bin" --force
check "a base with two names, restored" inplace --donor "$T/u9.bin"
check_same "$T/in2.gguf" $BASE "a base with two names, restored"
rm -f "$T/in2.gguf" "$T/u9.bin"
check "--no-undo" inplace --donor $DONOR $S --no-undo
check_same "$T/in.gguf" "$T/want.gguf" "--no-undo"
# A donor that is not what it says is refused before the first byte changes.
cp $BASE "$T/in.gguf"
rm -rf "$T/spoiltd"
cp -R "$T/donord" "$T/spoiltd"
printf spoilt | dd of="$T/spoiltd/organs/blk_2_ffn_up.bin" bs=1 seek=3000 conv=notrunc 2> /dev/null
check_error 3 "blk.2.ffn_up.weight" "a spoilt donor in place" inplace --donor "$T/spoiltd" $S --undo "$T/never.bin"
check_same "$T/in.gguf" $BASE "a spoilt donor in place changes nothing"
check_absent "$T/never.bin" "and leaves no undo stream"
check_error 2 "GGUF" "a directory in place" organ-transplant --base "$T/based" --donor $DONOR --in-place --no-undo $S
cp $BASE "$T/in.gguf"
check_error 4 "undo" "no room for the undo stream" sh \
    -c "ulimit -f 100; organ-transplant --base $T/in.gguf --donor $DONOR --in-place --all --undo $T/undo2.bin"
check_same "$T/in.gguf" $BASE "no undo, no change"

# Killed in place at any moment, the undo stream brings the base back.
mkmodel "$T/kb.gguf" -s 3 blk.0.attn_q.weight:I8:4096x4000 blk.0.attn_k.weight:I8:4096x4000 output.weight:F32:64x4
mkmodel "$T/kd.gguf" -s 4 blk.0.attn_q.weight:I8:4096x4000 blk.0.attn_k.weight:I8:4096x4000 output.weight:F32:64x4
for ms in 005 015 025 040 060 090; do
    for signal in KILL INT; do
        cp "$T/kb.gguf" "$T/in.gguf"
        rm -f "$T/u.bin"
        organ-transplant --base "$T/in.gguf" --donor "$T/kd.gguf" --in-place --all --undo "$T/u.bin" 2> "$T/err" &
        pid=$!
        sleep 0.$ms
        kill -s $signal $pid 2> /dev/null
        wait $pid 2> /dev/null
        if [ -e "$T/u.bin" ]; then
            check "undo after $signal at $ms ms" inplace --donor "$T/u.bin"
        else
            check_same "$T/in.gguf" "$T/kb.gguf" "$signal at $ms ms, before the undo stream: nothing changed"
        fi
        check_same "$T/in.gguf" "$T/kb.gguf" "$signal at $ms ms: the base is back"
        rm -f "$T"/.u.bin.*
    done
done

# A note says that the donor is a stranger.
check "a donor of another lineage" organ-transplant --base $BASE --donor $LAB/lab-stranger-q4_k_m.gguf $S \
    --output "$T/strange.gguf"
check_text "$(grep -c lineage "$T/err")" 1 "a donor of another lineage: a note"
check "a donor of the same lineage" organ-transplant --base $BASE --donor $DONOR $S --output "$T/kin.gguf"
check_text "$(grep -c lineage "$T/err")" 0 "a donor of the same lineage: no note"

# Usage.
check_error 2 "give --donor" "no donor" organ-transplant --base $BASE --output "$T/c.gguf"
check_error 2 "--output, --check, --in-place or --reads" "no output" organ-transplant --base $BASE --donor $DONOR
check_error 2 "" "base and donor on stdin" organ-transplant --base - --donor - --output "$T/c.gguf"
check_error 2 "--in-place" "--undo without --in-place" organ-transplant --base $BASE --donor $DONOR $S \
    --output "$T/c.gguf" --undo "$T/alone.bin"
check_absent "$T/c.gguf" "--undo without --in-place"
check_absent "$T/alone.bin" "--undo without --in-place"
check_error 2 "--force" "an existing output" organ-transplant --base $BASE --donor $DONOR --output "$T/want.gguf"
check_error 4 "none" "no such donor" organ-transplant --base $BASE --donor "$T/none" --output "$T/c.gguf"
check_error 3 "incomplete" "a cut donor on a pipe" sh \
    -c "head -c 1000000 $DONOR | organ-transplant --base $BASE --donor - --output $T/c.gguf"
check_absent "$T/c.gguf" "after mistakes"

# Norms that were trained with an adapter replace those of the base.
A=$LAB/lab-base-q4_k_m.gguf norms=output_norm.weight,blk.1.attn_norm.weight
organ-transplant -q $LAB/lab-lora-code.gguf $DONOR --add --tensors $norms --output "$T/lora.gguf"
check "an adapter with norms" organ-transplant $A --adapter "$T/lora.gguf" --output "$T/c.gguf"
check_text "$(grep -c "2 norms of the adapter replace the base's" "$T/err")" 1 "a note on its norms"
records "$T/c.gguf" --tensors $norms > "$T/a"
records $DONOR --tensors $norms > "$T/b"
check_same "$T/a" "$T/b" "its norms"
check "the same without them" organ-transplant -q $A --adapter $LAB/lab-lora-code.gguf --output "$T/plain.gguf"
check_text "$(organ-compare -q "$T/c.gguf" "$T/plain.gguf" | awk -F '\t' "$BY_NAME"'
    NR > 1 && col("name") ~ /weight/ && col("status") != "identical" { print col("name") }' | tr '\n' ' ')" \
    "blk.1.attn_norm.weight output_norm.weight " "the rest is the same"
check "an organ directory" organ-graft $A --adapter "$T/lora.gguf" --output "$T/c"
check_text "$(grep -c "2 norms of the adapter replace the base's" "$T/err")" 1 "a note on its norms"
organ-transplant -q $LAB/lab-lora-code.gguf $DONOR --add --tensors token_embd.weight --output "$T/lora2.gguf"
organ-stack -q --rename token_embd.weight=blk.0.x_norm.weight "$T/lora2.gguf" --output "$T/lora3.gguf"
check_error 3 "the base does not have this norm" "a norm of another model" organ-transplant $A \
    --adapter "$T/lora3.gguf" --output "$T/x.gguf"
finish
