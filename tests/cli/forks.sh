#!/bin/sh
# forks.sh - tensor types of ik_llama.cpp: listed with their names and sizes, and carried through
# every tool that copies. Some have bytes before the blocks of each row; those named _R4, _R8 and
# _R16 interleave rows.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have mkmodel || { bad "mkmodel is not built"; finish; }

# TYPE VALUES-PER-BLOCK BYTES-PER-BLOCK BYTES-PER-ROW
cat > "$T/types" << 'END'
Q6_0 32 26 0
IQ1_BN 64 13 2
IQ2_BN 64 16 4
Q8_K64 64 68 0
IQ2_K 256 76 0
IQ3_K 256 110 0
IQ4_K 256 144 0
IQ5_K 256 176 0
IQ6_K 256 212 0
IQ4_KS 256 136 4
IQ2_KS 256 70 2
IQ4_KSS 256 128 4
Q8_K16 64 64 20
Q8_K32 256 296 0
Q8_KR8 256 296 0
Q8_K128 128 140 0
Q8_KV 32 32 8
IQ5_KS 256 168 4
IQ2_KT 256 68 4
IQ3_KT 256 100 4
IQ4_KT 256 128 4
IQ3_KS 256 102 2
IQ2_KL 256 86 2
IQ1_KT 256 56 4
Q4_0_R8 32 18 0
Q5_0_R4 32 22 0
Q8_0_R8 32 34 0
Q2_K_R4 256 84 0
Q3_K_R4 256 110 0
Q4_K_R4 256 144 0
Q5_K_R4 256 176 0
Q6_K_R4 256 210 0
IQ2_XXS_R4 256 66 0
IQ2_XS_R4 256 74 0
IQ3_XXS_R4 256 98 0
IQ1_S_R4 32 6 2
IQ4_NL_R4 32 18 0
IQ3_S_R4 256 110 0
IQ2_S_R4 256 82 0
IQ4_XS_R8 256 136 0
IQ1_M_R4 32 7 2
BF16_R16 1 2 0
Q6_0_R4 32 26 0
IQ2_BN_R4 64 16 4
IQ2_K_R4 256 76 0
IQ3_K_R4 256 110 0
IQ4_K_R4 256 144 0
IQ5_K_R4 256 176 0
IQ4_KS_R4 256 136 4
IQ5_KS_R4 256 168 4
Q8_K_R16 256 258 0
Q8_KV_R8 32 32 4
Q8_K_R8 256 258 0
END

# A block per type, each with a tensor of 512 x 16, and its size.
i=0
specs=
while read -r type elems bytes extra; do
    specs="$specs blk.$i.ffn_up.weight:$type:512x16"
    echo "blk.$i.ffn_up.weight $type $((16 * (extra + 512 / elems * bytes)))"
    i=$((i + 1))
done < "$T/types" > "$T/want"
# shellcheck disable=SC2086
mkmodel "$T/a.gguf" -k llama.block_count=$i $specs output.weight:F32:32x4
# shellcheck disable=SC2086
mkmodel "$T/b.gguf" -s 7 -k llama.block_count=$i $specs output.weight:F32:32x4
check_text "$(organ-extract "$T/a.gguf" --list |
    awk -F '\t' "$BY_NAME"'NR > 1 && col("name") != "output.weight" {
    print col("name"), col("dtype"), col("bytes") }')" \
    "$(cat "$T/want")" "names and sizes"

# data MODEL TENSORS: their records.
data() { organ-extract -q "$1" --tensors "$2" --output -; }

# A directory and back; shards; a pipe.
organ-extract -q "$T/a.gguf" --output "$T/d"
organ-assemble -q "$T/d" --output "$T/back.gguf"
check_same "$T/a.gguf" "$T/back.gguf" "a directory and back"
organ-assemble -q "$T/a.gguf" --shards 3 --output "$T/s.gguf"
cat "$T"/s-0000?-of-00003.gguf | organ-assemble -q - -o - > "$T/joined.gguf"
data "$T/a.gguf" '*' > "$T/x" && data "$T/joined.gguf" '*' > "$T/y"
check_same "$T/x" "$T/y" "shards through a pipe"

# Moved, in a new model and in place, and back.
organ-transplant -q --base "$T/a.gguf" --donor "$T/b.gguf" --tensors 'blk.9.*,blk.4?.*' --output "$T/moved.gguf"
data "$T/b.gguf" 'blk.9.*,blk.4?.*' > "$T/x" && data "$T/moved.gguf" 'blk.9.*,blk.4?.*' > "$T/y"
check_same "$T/x" "$T/y" "moved"
data "$T/a.gguf" 'blk.[1-8].*' > "$T/x" && data "$T/moved.gguf" 'blk.[1-8].*' > "$T/y"
check_same "$T/x" "$T/y" "the others stay"
cp "$T/a.gguf" "$T/place.gguf"
check "in place" organ-transplant -q --base "$T/place.gguf" --donor "$T/b.gguf" --tensors 'blk.9.*,blk.4?.*' \
    --in-place --undo "$T/undo"
check_same "$T/place.gguf" "$T/moved.gguf" "in place"
check "undone" organ-transplant -q --base "$T/place.gguf" --donor "$T/undo" --in-place
check_same "$T/place.gguf" "$T/a.gguf" "undone"

# Blocks in another order.
check "stacked" organ-stack -q --output "$T/stack.gguf" "$T/a.gguf" 9,48 "$T/b.gguf" 35
data "$T/stack.gguf" 'blk.*' | tail -c 1024 > "$T/y" && data "$T/b.gguf" 'blk.35.*' | tail -c 1024 > "$T/x"
check_same "$T/x" "$T/y" "stacked: the last block"
check_text "$(organ-extract "$T/stack.gguf" --list |
    awk -F '\t' "$BY_NAME"'NR > 1 && col("role") == "ffn_up" { print col("name"), col("dtype"), col("bytes") }' | tr \
    '\n' ' ')" \
    "blk.0.ffn_up.weight IQ4_KS 4416 blk.1.ffn_up.weight IQ4_KS_R4 4416 blk.2.ffn_up.weight IQ1_S_R4 1568 " \
    "stacked: types and sizes"

# A patch and its application; tensors that differ are found.
check_exit 1 "they differ" organ-compare -q "$T/a.gguf" "$T/moved.gguf"
check_text "$(awk -F '\t' "$BY_NAME"'col("status") == "differs" { n++ } END {
    print n }' "$T/out")" "$(organ-extract "$T/a.gguf" \
    --list --tensors 'blk.9.*,blk.4?.*' | grep -c blk)" "how many differ"
check "a patch" organ-compare -q "$T/a.gguf" "$T/moved.gguf" --patch "$T/p.gguf"
check "applied" organ-transplant -q --base "$T/a.gguf" --donor "$T/p.gguf" --output "$T/patched.gguf"
check_same "$T/patched.gguf" "$T/moved.gguf" "applied"

# Experts: one record each, and some of them kept.
stacks="blk.0.ffn_gate_exps.weight:IQ4_KS:256x8x4 blk.0.ffn_up_exps.weight:IQ4_K_R4:256x8x4 \
    blk.0.ffn_down_exps.weight:IQ1_S_R4:32x8x4"
# shellcheck disable=SC2086
mkmodel "$T/moe.gguf" -k llama.block_count=1 -k llama.expert_count=4 -k llama.expert_used_count=2 $stacks \
    blk.0.ffn_gate_inp.weight:F32:32x4
organ-extract -q "$T/moe.gguf" --split-experts --output "$T/e"
organ-assemble -q "$T/e" --output "$T/back.gguf" --force
check_same "$T/moe.gguf" "$T/back.gguf" "experts apart and together"
check "kept experts" organ-assemble -q "$T/moe.gguf" --keep-experts 1,3 --output "$T/few.gguf"
organ-extract -q "$T/few.gguf" --split-experts --output "$T/f"
for r in gate up down; do
    tail -c 48 "$T/e/organs/blk_0_ffn_${r}_3.bin" > "$T/x"
    tail -c 48 "$T/f/organs/blk_0_ffn_${r}_1.bin" > "$T/y"
    check_same "$T/x" "$T/y" "kept expert of ffn_$r"
done
check_text "$(organ-extract "$T/few.gguf" --list | awk -F '\t' "$BY_NAME"'/_exps/ { print col("bytes") }' |
    tr '\n' ' ')" \
    "2240 2304 128 " "sizes of the kept experts"

# Not decoded or encoded, with a reason.
check_error 3 "IQ4_KS cannot be decoded" "not decoded" organ-assemble -q "$T/a.gguf" --dtype 'blk.9.*=q8_0' \
    --output "$T/no.gguf"
check_error 2 "IQ4_KS_R4 cannot be encoded" "not encoded" organ-assemble -q "$T/a.gguf" \
    --dtype 'output.weight=iq4_ks_r4' --output "$T/no.gguf"
finish
