#!/bin/sh
# fused.sh - matrices that are one tensor or several: organ-stack --fuse and --unfuse, byte for byte;
# and the tools that take a model in either form.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have mkmodel || { bad "mkmodel is not built"; finish; }
V=$(verse_q8)

model() { # ARCH OUT ARGUMENT...: a model of mkmodel, of another architecture
    of=$1 out=$2
    shift 2
    mkmodel "$T/plain.gguf" "$@" || bad "mkmodel $out"
    rm -rf "$T/arch"
    organ-extract -q "$T/plain.gguf" --output "$T/arch"
    sed "s/\"llama\"/\"$of\"/; s/\"key\": \"llama\./\"key\": \"$of./" "$T/arch/manifest.json" > "$T/arch.json"
    mv "$T/arch.json" "$T/arch/manifest.json"
    organ-assemble -q "$T/arch" --output "$out" --force || bad "model $out"
}
forms() { # OPTION [FORMS] MODEL: $T/f.gguf
    rm -f "$T/f.gguf"
    organ-stack -q "$@" -o "$T/f.gguf"
}
back() { # WHAT ARGUMENTS MODEL: fused and divided again, it is the same
    check "$1 fused" forms --fuse "$2" "$3"
    mv "$T/f.gguf" "$T/fused.gguf"
    check "$1 divided" forms --unfuse "$2" "$T/fused.gguf"
    check_same "$T/f.gguf" "$3" "$1 fused and divided"
}
refuse() { # TEXT ARGUMENT...
    refuse_text=$1
    shift
    check_error 1 "$refuse_text" "$refuse_text" forms "$@"
    check_absent "$T/f.gguf" "$refuse_text"
}
made2() { made "$@" 2> "$T/note"; }
names() { organ-extract "$1" --list | awk "$BY_NAME"'NR > 1 { print col("name") }' | tr '\n' ' '; }
joined() { # MODEL TENSOR PART-MODEL PART...: its bytes are those of the parts
    data "$1" "$2" > "$T/x"
    whole=$2 of=$3
    shift 3
    for part; do data "$of" "$part"; done > "$T/y"
    if [ -s "$T/x" ]; then check_same "$T/x" "$T/y" "$whole"; else bad "no $whole"; fi
}

# ---- query, key and value ---------------------------------------------------------------
back "a lab model" qkv "$V"
check "the fused model is sound" organ-check "$T/fused.gguf"
joined "$T/fused.gguf" blk.1.attn_qkv.weight "$V" blk.1.attn_q.weight blk.1.attn_k.weight blk.1.attn_v.weight
cp "$T/fused.gguf" "$T/v.gguf"
check "without a list, what engines load" forms --fuse "$V"
check_same "$T/f.gguf" "$T/v.gguf" "without a list"
check "to and from pipes" sh -c "organ-stack -q --fuse - -o - < $V > $T/piped.gguf"
check_same "$T/piped.gguf" "$T/v.gguf" "to and from pipes"
organ-extract -q "$V" --output "$T/v.organs"
check "from a directory" forms --fuse "$T/v.organs"
check_same "$T/f.gguf" "$T/v.gguf" "from a directory"
refuse "no block has separate tensors attn_q, attn_k, attn_v" --fuse "$T/v.gguf"
refuse "it has no fused tensor to divide into attn_q, attn_k, attn_v" --unfuse qkv "$V"
refuse "an engine loads ffn_gate, ffn_up of architecture llama only as separate tensors" --fuse qkv,gate_up "$V"
refuse "tensor 'blk.0.attn_v.weight': its type is Q6_K, but that of blk.0.attn_q.weight is Q4_K" \
    --fuse "$LAB/lab-verse-q4_k_m.gguf"

# ---- scattered parts, biases, scales, heads per block ------------------------------------------
L="-k llama.embedding_length=32 -k llama.attention.head_count=4 -k llama.block_count=1 \
    -k llama.attention.head_count_kv=2"
W="blk.0.attn_k.weight:F16:32x16 blk.0.attn_norm.weight:F32:32"
X="blk.0.attn_q.weight:F16:32x32 output_norm.weight:F32:32 blk.0.attn_v.weight:F16:32x16"
# shellcheck disable=SC2086
{
    model llama "$T/far.gguf" $L $W $X blk.0.attn_k.bias:F32:16 blk.0.attn_v.bias:F32:16 blk.0.attn_q.bias:F32:32
    back "scattered parts" qkv "$T/far.gguf"
    check_text "$(names "$T/fused.gguf")" \
        "blk.0.attn_qkv.weight blk.0.attn_norm.weight output_norm.weight blk.0.attn_qkv.bias " \
        "the fused tensor takes the first place"
    joined "$T/fused.gguf" blk.0.attn_qkv.weight "$T/far.gguf" blk.0.attn_q.weight \
        blk.0.attn_k.weight blk.0.attn_v.weight
    joined "$T/fused.gguf" blk.0.attn_qkv.bias "$T/far.gguf" blk.0.attn_q.bias blk.0.attn_k.bias blk.0.attn_v.bias
    organ-keys -q "$T/fused.gguf" --delete organ.tensor_order --output "$T/nokey.gguf"
    check "without the key" forms --unfuse "$T/nokey.gguf"
    check_text "$(differing "$T/f.gguf" "$T/far.gguf")" "" "without the key, only the order differs"
    model llama "$T/some.gguf" $L $W $X blk.0.attn_q.bias:F32:32
    back "a bias of one part" qkv "$T/some.gguf"
    check_text "$(names "$T/fused.gguf")" \
        "blk.0.attn_qkv.weight blk.0.attn_norm.weight output_norm.weight blk.0.attn_q.bias " "a bias of one part stays"
    model llama "$T/scale.gguf" $L $W $X blk.0.attn_q.scale:F32:1 blk.0.attn_k.scale:F32:1 blk.0.attn_v.scale:F32:1
    refuse "its scale differs" --fuse "$T/scale.gguf"
    # equal scales become one
    rm -rf "$T/s" && organ-extract -q "$T/scale.gguf" --output "$T/s"
    sed 's/, "sha256": "[^"]*"//' "$T/s/manifest.json" > "$T/x"
    cp "$T/x" "$T/s/manifest.json"
    find "$T/s" -name '*_scale.bin' > "$T/scales"
    while read -r file; do
        n=$(wc -c < "$file")
        { head -c $((n - 4)) "$file"; printf 'same'; } > "$T/x"
        cp "$T/x" "$file"
    done < "$T/scales"
    organ-assemble -q "$T/s" -o "$T/equal.gguf" 2> "$T/note" || bad "equal scales"
    back "equal scales" qkv "$T/equal.gguf"
    check_text "$(data "$T/fused.gguf" blk.0.attn_qkv.scale)" same "equal scales become one"
    model llama "$T/scale.gguf" $L $W $X blk.0.attn_q.scale:F32:1
    refuse "the other parts have no such scale" --fuse "$T/scale.gguf"
    model llama "$T/both.gguf" $L $W $X blk.0.attn_qkv.weight:F16:32x64
    refuse "block 0 also has blk.0.attn_qkv.weight" --fuse "$T/both.gguf"
    refuse "block 0 also has blk.0.attn_qkv.weight" --unfuse "$T/both.gguf"
    model llama "$T/rows.gguf" $L $W blk.0.attn_q.weight:F16:32x32 blk.0.attn_v.weight:F16:32x32
    refuse "the 80 rows of attn_q, attn_k, attn_v in block 0" --fuse "$T/rows.gguf"
    model llama "$T/rows.gguf" $L blk.0.attn_qkv.weight:F16:32x96
    refuse "the 96 rows of attn_qkv in block 0" --unfuse "$T/rows.gguf"
    model llama "$T/flat.gguf" $L $W $X blk.0.attn_q.bias:Q8_0:32 blk.0.attn_k.bias:Q8_0:32 blk.0.attn_v.bias:Q8_0:32
    refuse "its values are stored in blocks" --fuse "$T/flat.gguf"
    model nobody "$T/nobody.gguf" $L $W $X
    refuse "no table of its architecture" --fuse "$T/nobody.gguf"
    model mpt "$T/mpt.gguf" $L blk.0.attn_qkv.weight:F16:32x64
    check "mpt, divided by name" forms --unfuse qkv "$T/mpt.gguf"
    check_text "$(names "$T/f.gguf")" "blk.0.attn_q.weight blk.0.attn_k.weight blk.0.attn_v.weight " \
        "mpt, divided by name"
    model gpt-oss "$T/rot.gguf" $L -k llama.rope.dimension_count=4 blk.0.attn_qkv.weight:F16:32x32
    check "gpt-oss, divided by the rotated size" forms --unfuse qkv "$T/rot.gguf"
    check_text "$(organ-extract --list "$T/f.gguf" | awk "$BY_NAME"'NR > 1 { print col("dims") }' |
        tr '\n' ' ')" "32x16 32x8 32x8 " \
        "gpt-oss, divided by the rotated size"
}
made2 "$T/heads.gguf" "$(arr attention.head_count u32 4,2)$(arr attention.head_count_kv u32 2,1)" \
    -k llama.embedding_length=32 -k llama.block_count=2 blk.0.attn_q.weight:F32:32x32 blk.0.attn_k.weight:F32:32x16 \
    blk.0.attn_v.weight:F32:32x16 blk.1.attn_q.weight:F32:32x16 blk.1.attn_k.weight:F32:32x8 \
    blk.1.attn_v.weight:F32:32x8
# An engine reads the counts of each block for some architectures, and for others those of the first block.
refuse "the 32 rows of attn_q, attn_k, attn_v in block 1 are not those that the keys require" --fuse "$T/heads.gguf"
rm -rf "$T/arch" && organ-extract -q "$T/heads.gguf" --output "$T/arch"
sed 's/"llama"/"deci"/; s/"key": "llama\./"key": "deci./' "$T/arch/manifest.json" > "$T/arch.json"
mv "$T/arch.json" "$T/arch/manifest.json"
organ-assemble -q "$T/arch" --output "$T/deci.gguf"
back "head counts per block" qkv "$T/deci.gguf"
made2 "$T/mixed.gguf" "" -k llama.embedding_length=32 -k llama.block_count=2 -k llama.attention.head_count=2 \
    blk.0.attn_qkv.weight:F32:32x96 blk.1.attn_q.weight:F32:32x32 blk.1.attn_k.weight:F32:32x32 \
    blk.1.attn_v.weight:F32:32x32
check "mixed blocks, fused" forms --fuse "$T/mixed.gguf"
check_text "$(names "$T/f.gguf")" "blk.0.attn_qkv.weight blk.1.attn_qkv.weight " "mixed blocks, fused"
joined "$T/f.gguf" blk.0.attn_qkv.weight "$T/mixed.gguf" blk.0.attn_qkv.weight
check "mixed blocks, divided" forms --unfuse "$T/mixed.gguf"
check_text "$(names "$T/f.gguf" | wc -w | tr -d ' ')" 6 "mixed blocks, divided"

# ---- gate and up --------------------------------------------------------------------------
# shellcheck disable=SC2086
{
    Q="-k llama.embedding_length=32 -k llama.block_count=1 -k llama.expert_count=3 \
        -k llama.expert_feed_forward_length=4"
    model qwen3next "$T/moe.gguf" $Q blk.0.ffn_gate_exps.weight:F32:32x4x3 blk.0.ffn_up_exps.weight:F32:32x4x3
    back "experts" gate_up "$T/moe.gguf"
    for k in 1 2 3; do
        for part in gate up; do data "$T/moe.gguf" blk.0.ffn_${part}_exps.weight |
            tail -c +$((512 * k - 511)) | head -c 512; done
    done > "$T/x"
    data "$T/fused.gguf" blk.0.ffn_gate_up_exps.weight > "$T/y"
    check_same "$T/x" "$T/y" "each expert has its gate rows, then its up rows"
    model qwen3next "$T/scaled.gguf" $Q blk.0.ffn_gate_exps.weight:F32:32x4x3 blk.0.ffn_up_exps.weight:F32:32x4x3 \
        blk.0.ffn_up_exps.scale:F32:3
    refuse "an engine loads no bias or scale of ffn_gate_up_exps" --fuse gate_up "$T/scaled.gguf"
    check "one expert of a fused model" organ-transplant -q "$T/moe.gguf" "$T/fused.gguf" --experts 1 -o "$T/f.gguf"
    check_same "$T/f.gguf" "$T/moe.gguf" "one expert of a fused model"
    model llama "$T/experts.gguf" $Q blk.0.ffn_gate_exps.weight:F32:32x4x3 blk.0.ffn_up_exps.weight:F32:32x4x3
    refuse "an engine loads ffn_gate_exps, ffn_up_exps of architecture llama only as separate" \
        --fuse gate_up "$T/experts.gguf"
    P="-k llama.embedding_length=32 -k llama.block_count=1 -k llama.feed_forward_length=8"
    model phi3 "$T/phi.gguf" $P blk.0.ffn_down.weight:F32:8x32 blk.0.ffn_up.weight:F32:32x16
    refuse "no fused tensor" --unfuse "$T/phi.gguf"
    check "phi3, divided by name" forms --unfuse gate_up "$T/phi.gguf"
    check_text "$(names "$T/f.gguf")" "blk.0.ffn_down.weight blk.0.ffn_gate.weight blk.0.ffn_up.weight " \
        "phi3, divided by name"
    joined "$T/phi.gguf" blk.0.ffn_up.weight "$T/f.gguf" blk.0.ffn_gate.weight blk.0.ffn_up.weight
    mv "$T/f.gguf" "$T/apart.gguf"
    check "phi3, fused again" forms --fuse gate_up "$T/apart.gguf"
    check_same "$T/f.gguf" "$T/phi.gguf" "phi3, divided and fused"
    check_text "$(differing "$T/phi.gguf" "$T/apart.gguf")" "" "phi3: compared with separate gate and up"
    check_text "$(differing "$T/apart.gguf" "$T/phi.gguf")" "" "phi3: compared with fused ones"
    check_error 1 "would refuse" "--strict" organ-stack -q --strict --unfuse gate_up "$T/phi.gguf" -o "$T/no.gguf"
    # a recurrent block's attn_qkv has no parts
    model qwen35 "$T/rec.gguf" -k llama.embedding_length=32 -k llama.block_count=4 -k llama.attention.head_count=2 \
        -k llama.ssm.inner_size=32 -k llama.ssm.state_size=16 -k llama.ssm.group_count=2 \
        blk.0.attn_qkv.weight:F32:32x96 blk.3.attn_qkv.weight:F32:32x128
    check "a hybrid" forms --unfuse qkv "$T/rec.gguf"
    check_text "$(names "$T/f.gguf")" \
        "blk.0.attn_qkv.weight blk.3.attn_q.weight blk.3.attn_k.weight blk.3.attn_v.weight " \
        "only attention blocks are divided"
}

# ---- other tools see through the difference ---------------------------------------------------
C=$T/code.gguf
organ-assemble -q "$LAB/lab-code-q4_k_m.gguf" --dtype q8_0 -o "$C" 2> "$T/note"
check "fuse" forms --fuse "$C"
mv "$T/f.gguf" "$T/c.gguf"
check_text "$(differing "$V" "$T/v.gguf")" "" "compare with a fused copy"
check_text "$(differing "$T/v.gguf" "$V")" "" "compare a fused copy"
organ-compare "$V" "$C" > "$T/x"
organ-compare "$V" "$T/c.gguf" > "$T/y"
check_same "$T/x" "$T/y" "the comparison does not depend on the form"
organ-compare "$T/v.gguf" "$LAB/lab-code-q4_k_m.gguf" > "$T/x"
check_text "$(awk -F '\t' "$BY_NAME"'col("name") ~ /attn_qkv/ { print col("status"), col("dtype_b") }' "$T/x" |
    sort -u)" "dtype F32" "parts of different types"
check "patch" organ-compare "$V" "$T/v.gguf" --patch "$T/p.gguf"
check "apply it" organ-transplant -q "$V" "$T/p.gguf" -o "$T/patched.gguf"
check_same "$T/patched.gguf" "$T/v.gguf" "a patch keeps the form"
merge() { organ-merge -q --method linear "$1" "$2" -o "$T/$3.gguf" --no-hash --force; }
check "merge" merge "$V" "$C" plain
check "merge with a fused model" merge "$V" "$T/c.gguf" mixed
check_same "$T/mixed.gguf" "$T/plain.gguf" "merge with a fused model"
check "merge fused with separate" merge "$T/v.gguf" "$C" first
check "divide" forms --unfuse "$T/first.gguf"
check_text "$(differing "$T/f.gguf" "$T/plain.gguf")" "" "merge fused with separate"
check "transplant" organ-transplant -q "$V" "$C" --type skeleton -o "$T/plain.gguf" --force
check "transplant fused" organ-transplant -q "$V" "$T/c.gguf" --type skeleton -o "$T/mixed.gguf" --force
check_same "$T/mixed.gguf" "$T/plain.gguf" "transplant from a fused model"
check "blend with a fused ancestor" organ-transplant -q "$V" "$C" --type skeleton \
    --blend task:0.5 --ancestor "$T/v.gguf" -o "$T/mixed.gguf" --force
check "blend with an ancestor" organ-transplant -q "$V" "$C" --type skeleton --blend task:0.5 \
    --ancestor "$V" -o "$T/plain.gguf" --force
check_same "$T/mixed.gguf" "$T/plain.gguf" "a fused ancestor"
check "graft" organ-graft -q "$V" "$C" --layers 1 -o "$T/g1"
check "graft fused" organ-graft -q "$V" "$T/c.gguf" --layers 1 -o "$T/g2"
check_text "$(differing "$T/g1" "$T/g2")" "" "graft from a fused model"
check "aligned" organ-transplant -q "$V" "$C" --align -o "$T/plain.gguf" --force
check "aligned, fused" organ-transplant -q "$V" "$T/c.gguf" --align -o "$T/mixed.gguf" --force
check_same "$T/mixed.gguf" "$T/plain.gguf" "an aligned view of a fused model"
check "stacked" organ-stack -q "$V" 0-1 "$C" 2-3 -o "$T/plain.gguf" --force
check "stacked, fused" organ-stack -q "$V" 0-1 "$T/c.gguf" 2-3 -o "$T/mixed.gguf" --force
check_same "$T/mixed.gguf" "$T/plain.gguf" "blocks of a fused model"
check "adapter" organ-lora -q "$V" "$C" --rank 4 -o "$T/plain.lora.gguf"
check "adapter, fused" organ-lora -q "$V" "$T/c.gguf" --rank 4 -o "$T/mixed.lora.gguf"
check_same "$T/mixed.lora.gguf" "$T/plain.lora.gguf" "an adapter to a fused model"
# rows that are encoded with the same weights are the same rows
check "imatrix" organ-assemble -q "$V" --dtype 'blk.*.attn_[qkv].weight=iq4_nl' \
    --imatrix "$LAB/lab-verse.imatrix.gguf" -o "$T/plain.gguf" --force
check "imatrix, fused" organ-assemble -q "$T/v.gguf" --dtype 'blk.*.attn_qkv.weight=iq4_nl' \
    --imatrix "$LAB/lab-verse.imatrix.gguf" -o "$T/mixed.gguf" --force
check "divided" forms --unfuse "$T/mixed.gguf"
check_text "$(differing "$T/f.gguf" "$T/plain.gguf")" "" "--imatrix of the other form"

# Matrices without columns have no rows to read.
none="-k llama.attention.head_count=4 -k llama.attention.head_count_kv=2"
# shellcheck disable=SC2086
mkmodel "$T/none.gguf" $none blk.0.attn_q.weight:F32:0x32 blk.0.attn_k.weight:F32:0x16 blk.0.attn_v.weight:F32:0x16
# shellcheck disable=SC2086
mkmodel "$T/none-fused.gguf" $none blk.0.attn_qkv.weight:F32:0x64
check "--reads of matrices without columns" organ-transplant --reads --base "$T/none.gguf" \
    --donor "$T/none-fused.gguf" --type attention

# ---- usage ------------------------------------------------------------------------------------
check_error 2 "leave out --unfuse" "both" organ-stack --fuse --unfuse "$V" -o "$T/no.gguf"
check_error 2 "one model" "with blocks" organ-stack --fuse "$V" 0-3 -o "$T/no.gguf"
check_error 2 "not 'kv'" "another word" organ-stack --fuse=kv "$V" -o "$T/no.gguf"
cp "$V" "$T/same.gguf"
check_error 2 "also an input" "over itself" organ-stack --fuse "$T/same.gguf" -o "$T/same.gguf" --force
check_same "$T/same.gguf" "$V" "over itself"
finish
