#!/bin/sh
# bigmodel.sh - a model of 256 MiB, or of 1 GiB if EXHAUSTIVE is set, goes
# through 64 MiB of memory, by file and by pipe, and
# tensors beyond 4 GiB are found. The files are sparse; what goes through the pipe is not all
# zeros.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"

# le BYTES NUMBER: little-endian
le() {
    k=0 n=$2
    while [ "$k" -lt "$1" ]; do
        # shellcheck disable=SC2059
        printf "\\$(printf %03o $((n % 256)))"
        n=$((n / 256)) k=$((k + 1))
    done
}
PART=67108864
if exhaustive; then PART=268435456; fi

# 4 tensors of these bytes, F16 and F32, in rows of 65536; the header ends at 320.
header() {
    printf GGUF; le 4 3; le 8 4; le 8 1
    le 8 20; printf general.architecture; le 4 8; le 8 5; printf llama
    for i in 0 1 2 3; do
        half=$((i % 2))
        le 8 19; printf 'blk.%d.ffn_up.weight' $i; le 4 2
        le 8 65536; le 8 $((PART / 131072 / (1 + half))); le 4 $((1 - half)); le 8 $((i * PART))
    done
}
{ header; head -c 320 /dev/zero; } | head -c 320 > "$T/header"
cp "$T/header" "$T/big.gguf"
if ! dd if=/dev/null of="$T/big.gguf" bs=1048576 seek=$((4 * PART / 1048576 + 1)) 2> "$T/err" ||
    ! organ-extract --list "$T/big.gguf" \
    > "$T/out" 2>&1 ; then
    echo "left out: a large model (files with holes)"
    finish
fi
check_text "$(($(wc -l < "$T/out")))" 5 "the list of the big model"

# within WHAT COMMAND...: that it succeeds in 64 MiB, or in $LIMIT KiB
within() {
    what=$1 limit=${LIMIT:-65536}
    shift
    cost "$@" > "$T/cost" 2> "$T/err"
    got=$?
    peak=$(cut -d ' ' -f 3 "$T/cost")
    if [ $got != 0 ]; then bad "$what: exit $got: $(head -n 1 "$T/err")"
    elif [ "$peak" -gt 0 ] && [ "$peak" -le "$limit" ]; then ok
    else bad "$what: $peak KiB at the peak, $limit allowed"
    fi
}

within "measure" organ-measure -q -j 2 "$T/big.gguf"
within "list" organ-extract --list "$T/big.gguf"
within "extract half of it to a stream" organ-extract -q "$T/big.gguf" --layers 0-1 --output -
# through a fifo: `within` counts in this shell
mkfifo "$T/pipe"
{
    cat "$T/header"
    yes 'values of all kinds' # until nobody reads on
} > "$T/pipe" 2> "$T/err.yes" &
within "measure, pipe" organ-measure -q -j 2 - < "$T/pipe"

# What writes models: to a pipe, front to back.
# shellcheck disable=SC2016 # the answer is no: it has no keys
within "check" sh -c 'organ-check -q "$1"; [ $? = 1 ]' sh "$T/big.gguf"
within "keys" organ-keys -q "$T/big.gguf" --set general.name=str:big --output -
organ-assemble -q "$T/big.gguf" --output - --set-kv llama.block_count=u32:4 2> "$T/err" | head -c 512 > "$T/head"
cp "$T/head" "$T/blocks.gguf"
dd if=/dev/null of="$T/blocks.gguf" bs=1048576 seek=$((4 * PART / 1048576 + 1)) 2> "$T/err"
within "stack" organ-stack -q --output - "$T/blocks.gguf" 0-1,3
within "assemble" organ-assemble -q "$T/big.gguf" --output - --set-kv general.name=str:big
{
    cat "$T/header"
    yes 'values of all kinds' | head -c $((4 * PART)) # no more: what follows the tensors is copied too
} > "$T/pipe" 2> "$T/err.yes" &
within "assemble, pipe to pipe, re-encoded" organ-assemble -q -j 2 - --output - --dtype 'blk.0.*=q8_0,blk.3.*=bf16' \
    < "$T/pipe"

# A merge needs the memory of its counters, not of a tensor, which has 32 MiB in F16 here. iso needs
# at most three matrices in F32, here of 8 MiB each.
if [ -z "${SANITIZED:-}" ]; then
    flat() { # FILE ROW ROWS
        {
            printf GGUF; le 4 3; le 8 1; le 8 1
            le 8 20; printf general.architecture; le 4 8; le 8 5; printf llama
            le 8 19; printf blk.0.ffn_up.weight; le 4 2; le 8 "$2"; le 8 "$3"; le 4 1; le 8 0
        } > "$1"
        dd if=/dev/null of="$1" bs=1024 seek=32769 2> "$T/err"
    }
    for copy in 1 2 3; do
        flat "$T/flat$copy.gguf" 65536 256
        flat "$T/long$copy.gguf" 16777216 1
    done
    # A row may be as long as a tensor.
    for method in linear ties,density=0.3 $(more sce,select_topk=0.3 dare-ties,density=0.5 model-stock); do
        base="--base $T/long1.gguf"
        [ $method = linear ] && base=
        # shellcheck disable=SC2086 # two words
        LIMIT=16384 within "merge, $method" organ-merge -q --no-hash -j 2 --method $method $base \
            --model "$T/long2.gguf" \
            --model "$T/long3.gguf" --output "$T/merged.gguf"
        rm -f "$T/merged.gguf"
    done
    LIMIT=16384 within "merge, arcee-fusion" organ-merge -q --no-hash -j 2 --method arcee-fusion \
        --base "$T/flat1.gguf" \
        --model "$T/flat2.gguf" --output -
    # Encoding by importance: the weights of 65536 columns, and pieces of the tensor.
    { le 4 1; le 4 19; printf blk.0.ffn_up.weight; le 4 1; le 4 65536; head -c 262144 /dev/zero; } > "$T/im.dat"
    LIMIT=16384 within "encode with an importance matrix" organ-assemble -q -j 2 "$T/flat1.gguf" --dtype q4_k \
        --imatrix "$T/im.dat" \
        --output "$T/encoded.gguf"
    LIMIT=16384 within "the same through pipes" organ-assemble -q -j 2 - --dtype iq2_xxs --imatrix "$T/im.dat" \
        --output - < "$T/flat1.gguf"
    for k in 1 2 3; do mkmodel "$T/i$k.gguf" -s $k blk.0.ffn_up.weight:F16:16384x128; done
    LIMIT=30720 within "merge, iso" organ-merge -q --no-hash -j 2 --method iso --base "$T/i1.gguf" \
        --model "$T/i2.gguf" \
        --model "$T/i3.gguf" --output -
    rm -f "$T"/flat?.gguf "$T"/long?.gguf "$T"/i?.gguf
fi

# A small tensor behind one of 4 GiB.
{
    printf GGUF; le 4 3; le 8 2; le 8 0
    le 8 19; printf blk.0.ffn_up.weight; le 4 2; le 8 65536; le 8 65536; le 4 24; le 8 0
    le 8 19; printf blk.1.ffn_up.weight; le 4 1; le 8 64; le 4 24; le 8 4294967296
    head -c 160 /dev/zero
} | head -c 160 > "$T/far.gguf"
head -c 64 /dev/urandom > "$T/far.data"
dd if="$T/far.data" of="$T/far.gguf" bs=32 seek=$(((160 + 4294967296) / 32)) 2> "$T/err"
organ-extract -q "$T/far.gguf" --layers 1 --output - | tail -c 64 > "$T/far.read"
check_same "$T/far.read" "$T/far.data" "a tensor beyond 4 GiB"

# A large tensor is seen through a map, from a pipe it passes by: the same row. An organ
# record of Q8_0, 1024 x 36864, of random bytes.
printf '\003\000\000\000big\002\000\000\000\000\004\000\000\000\000\000\000' > "$T/large.bin"
printf '\000\220\000\000\000\000\000\000\010\000\000\000' >> "$T/large.bin"
head -c $((1024 * 36864 / 32 * 34)) /dev/urandom >> "$T/large.bin"
organ-measure -q "$T/large.bin" > "$T/mapped"
organ-measure -q - < "$T/large.bin" > "$T/passed"
check_same "$T/mapped" "$T/passed" "a large tensor by map and by pipe"
head -c 30000000 "$T/large.bin" > "$T/cut.bin"
check_exit 3 "a large tensor cut short" organ-measure -q "$T/cut.bin"

# One expert of 384, of 7168 x 2048 values: 11 GB per stack, of which 29 MB move.
STACK=$((7168 * 2048 * 384 * 2)) ONE=$((7168 * 2048 * 2))
stacks() { # FILE: gate and down, after a header of 224 bytes
    {
        printf GGUF; le 4 3; le 8 2; le 8 1
        le 8 20; printf general.architecture; le 4 8; le 8 5; printf llama
        le 8 26; printf blk.0.ffn_gate_exps.weight; le 4 3; le 8 7168; le 8 2048; le 8 384; le 4 1; le 8 0
        le 8 26; printf blk.0.ffn_down_exps.weight; le 4 3; le 8 2048; le 8 7168; le 8 384; le 4 1; le 8 $STACK
        head -c 224 /dev/zero
    } | head -c 224 > "$1"
    dd if=/dev/null of="$1" bs=32 seek=$(((224 + 2 * STACK) / 32)) 2> "$T/err"
}
stacks "$T/wide.gguf"
stacks "$T/donor.gguf"
at() { echo $(((224 + $1 * STACK + $2 * ONE) / 64 + 1)); } # STACK EXPERT: in 64 bytes, near its beginning
printf "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.." | head -c 64 > "$T/mark"
for stack in 0 1; do dd if="$T/mark" of="$T/donor.gguf" bs=64 seek="$(at $stack 380)" conv=notrunc 2> "$T/err"; done
within "one expert of 384 to a stream" organ-extract -q "$T/donor.gguf" --split-experts --experts 380 --output -
within "one expert of 384 into another, in place" organ-transplant -q --base "$T/wide.gguf" \
    --donor "$T/donor.gguf" --experts 5=380 --in-place --no-undo
within "one expert of 384, blended" organ-transplant -q --base "$T/wide.gguf" \
    --donor "$T/donor.gguf" --experts 6=380 --blend linear:1 --in-place --no-undo
for place in "0 5" "1 5" "0 6" "1 6"; do
    # shellcheck disable=SC2086 # two numbers
    dd if="$T/wide.gguf" bs=64 skip="$(at $place)" count=1 2> "$T/err" > "$T/moved"
    check_same "$T/moved" "$T/mark" "expert 380 in stack and place $place"
done
# Two experts of two stacks are 117 MB; the rest of the stacks is not written.
if [ "$(du -k "$T/wide.gguf" | cut -f 1)" -lt 400000 ]; then ok; else bad "more than these experts is written"; fi
rm -f "$T/wide.gguf" "$T/donor.gguf"

# A text of 180 MiB of NUL is 1.1 GiB in a manifest, which is too large.
{ printf GGUF; le 4 3; le 8 0; le 8 1; le 8 12; printf general.name; le 4 8; le 8 188743680; } > "$T/text.gguf"
dd if=/dev/null of="$T/text.gguf" bs=1 seek=$((56 + 188743680)) 2> "$T/err"
if exhaustive; then
    check_error 3 "shorten or delete the key 'general.name', which has 188743680 bytes" "a key that is too large" \
        organ-extract "$T/text.gguf" --output "$T/text"
fi
check_absent "$T/text" "a key that is too large"
finish
