#!/bin/sh
# stack.sh - organ-stack: blocks dropped, repeated, reordered and joined, byte for byte;
# every key that counts blocks follows; what would not work is refused by name and nothing
# is written.
# shellcheck disable=SC2046 # lists of arguments
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-stack
have mkmodel || { bad "mkmodel is not built"; finish; }
V=$LAB/lab-verse-q4_k_m.gguf
C=$LAB/lab-code-q4_k_m.gguf

arch() { # FILE NAME: another architecture, which the keys are renamed to
    rm -rf "$T/arch"
    organ-extract -q "$1" --output "$T/arch"
    sed "s/\"llama\"/\"$2\"/; s/\"key\": \"llama\./\"key\": \"$2./" "$T/arch/manifest.json" > "$T/arch.json"
    mv "$T/arch.json" "$T/arch/manifest.json"
    organ-assemble "$T/arch" --output "$1" --force || bad "arch $1 $2"
}
u32() { # KEY VALUE
    printf '{"key": "llama.%s", "type": "u32", "value": %s},' "$1" "$2"
}
block() {
    echo "blk.$1.attn_norm.weight:F32:64 blk.$1.attn_q.weight:F16:64x64 blk.$1.ffn_up.weight:Q8_0:64x128"
}
nextn() {
    block "$1"
    echo "blk.$1.nextn.eh_proj.weight:F16:128x64 blk.$1.nextn.enorm.weight:F32:64 blk.$1.nextn.hnorm.weight:F32:64"
}
TOKENS='{"key": "tokenizer.ggml.tokens", "type": "arr", "items": "str", "value": ["a", "b", "c"]},'
KEYS="-k llama.embedding_length=64 -k llama.attention.head_count=4"
REST="token_embd.weight:F16:64x3"
kv() { arch_kv "$T/c.gguf" "$1"; }
stack() {
    rm -f "$T/c.gguf"
    organ-stack --output "$T/c.gguf" "$@"
}
from() { # TENSOR FILE TENSOR: is the first of $T/c.gguf the second of the file?
    data "$T/c.gguf" "$1" > "$T/x"
    data "$2" "$3" > "$T/y"
    if [ -s "$T/x" ]; then check_same "$T/x" "$T/y" "$1 is $3 of $2"; else bad "no $1"; fi
}
order() { # the names of $T/c.gguf in file order
    organ-extract "$T/c.gguf" --list | awk "$BY_NAME"'NR > 1 { print col("name") }' | tr '\n' ' '
}
refuse() { # TEXT ARGUMENT...: exit 1, one line with the text, nothing written
    refuse_text=$1
    shift
    check_error 1 "$refuse_text" "$refuse_text" stack "$@"
    check_absent "$T/c.gguf" "$refuse_text"
}

# ---- all blocks in their order: the model, byte for byte ---------------------------------
check "all blocks" stack $V 0-3
check_same "$T/c.gguf" $V "all blocks of a lab model"
check "all blocks, one by one" stack $V 0,1 $V 2-2,3
check_same "$T/c.gguf" $V "the same model several times is one model"
check "from a pipe" sh -c "organ-stack - 0-3 -o '$T/pipe.gguf' < $V"
check_same "$T/pipe.gguf" $V "from a pipe"
check "to a pipe" sh -c "organ-stack $V 0-3 -o - > '$T/pipe.gguf'"
check_same "$T/pipe.gguf" $V "to a pipe"
organ-extract $V --output "$T/v.organs"
check "from a directory" stack "$T/v.organs" 0-3
check_same "$T/c.gguf" $V "from a directory"
organ-assemble "$T/v.organs" --output "$T/v.gguf" --shards 3
check "from shards" stack "$T/v-00002-of-00003.gguf" 0-3
check_same "$T/c.gguf" $V "shards become one file"
# Odd padding, trailing bytes, and blocks that do not lie together.
# shellcheck disable=SC2046,SC2086
{
    made "$T/odd.gguf" "$TOKENS" -p 7 $KEYS -k llama.block_count=2 blk.1.a.weight:F32:3 output.weight:F32:5 \
        blk.0.a.weight:F32:3 token_embd.weight:F32:7 blk.1.b.weight:F32:3 blk.0.b.weight:F32:3
    mkmodel "$T/odd.gguf" -p 7 $KEYS -k llama.block_count=2 blk.1.a.weight:F32:3 output.weight:F32:5 \
        blk.0.a.weight:F32:3 token_embd.weight:F32:7 blk.1.b.weight:F32:3 blk.0.b.weight:F32:3
    printf 'trailing bytes' >> "$T/odd.gguf"
}
check "odd padding" stack "$T/odd.gguf" 0-1
check_same "$T/c.gguf" "$T/odd.gguf" "odd padding, trailing bytes, scattered blocks"
check "scattered blocks, turned round" stack "$T/odd.gguf" 1,0
check_text "$(order)" "blk.0.a.weight blk.0.b.weight blk.1.a.weight blk.1.b.weight output.weight token_embd.weight " \
    "blocks come together, in order"
from blk.0.b.weight "$T/odd.gguf" blk.1.b.weight
from blk.1.a.weight "$T/odd.gguf" blk.0.a.weight
from output.weight "$T/odd.gguf" output.weight

# ---- dropped, repeated, reordered ----------------------------------------------------------
check "drop" stack --drop 1 $V
check_text "$(kv block_count)" 3 "block_count of a model without one block"
from blk.1.ffn_down.weight $V blk.2.ffn_down.weight
from blk.2.attn_q.weight $V blk.3.attn_q.weight
check_text "$(organ-extract "$T/c.gguf" --list | wc -l | tr -d ' ')" 31 "9 tensors fewer"
cp "$T/c.gguf" "$T/drop.gguf"
check "the same by its blocks" stack $V 0,2-3
check_same "$T/c.gguf" "$T/drop.gguf" "--drop 1 and 0,2-3"
check "repeat" stack $V 0-2,1-3,3
check_text "$(kv block_count)" 7 "block_count of a deeper model"
from blk.3.ffn_up.weight $V blk.1.ffn_up.weight
from blk.6.attn_norm.weight $V blk.3.attn_norm.weight
check "reorder" stack $V 2,3,0,1
cp "$T/c.gguf" "$T/turned.gguf"
check "and back" stack "$T/turned.gguf" 2,3,0,1
check_same "$T/c.gguf" $V "two halves exchanged twice"
check "one block" stack $V 2
check_text "$(kv block_count)" 1 "a model of one block"

# ---- joined -----------------------------------------------------------------------------------
check "joined" stack $V 0-1 $C 2-3
organ-transplant --base $V --donor $C --layers 2-3 --output "$T/t.gguf"
check_same "$T/c.gguf" "$T/t.gguf" "half of each is a transplant of half"
check "joined, longer" stack $C 0-2 $V 1-3 $C 3
check_text "$(kv block_count)" 7 "block_count"
from blk.3.attn_v.weight $V blk.1.attn_v.weight
from blk.6.attn_v.weight $C blk.3.attn_v.weight
from token_embd.weight $C token_embd.weight
check "the table" organ-stack --check $C 0 $V 3,0
check_text "$(cells block,model,source_block "$T/out" |
    tr '\n\t' ' :')" "block:model:source_block 0:$C:0 1:$V:3 2:$V:0 " \
    "--check: block, model, source block"
check "the table as JSON" organ-stack --check --json --drop 0-2 $V
check_text "$(cat "$T/out")" \
    "{\"block\": 0, \"model\": \"$V\", \"source_block\": 3, \"tensors\": 9, \"bytes\": 376064}" "--json"
# Types: a model of mostly other types changes general.file_type, one of the same does not.
check "types" stack $V 0 $(verse_q8) 1-3
rm -rf "$T/cd" && organ-extract "$T/c.gguf" --output "$T/cd"
check_text "$(sed -n 's/.*"general.file_type".*"value": \([0-9]*\).*/\1/p' "$T/cd/manifest.json")" 7 \
    "general.file_type becomes Q8_0"
organ-assemble "$T/v.organs" --set-kv general.file_type=u32:14 --output "$T/q4ks.gguf"
check "types of the same kind" stack "$T/q4ks.gguf" 0-1 $C 1-3
rm -rf "$T/cd" && organ-extract "$T/c.gguf" --output "$T/cd"
check_text "$(sed -n 's/.*"general.file_type".*"value": \([0-9]*\).*/\1/p' "$T/cd/manifest.json")" 14 \
    "general.file_type stays"

# ---- one value per block -----------------------------------------------------------------------
# shellcheck disable=SC2046,SC2086
{
    made "$T/arrays.gguf" "$TOKENS$(arr attention.head_count_kv u32 '2, 4, 8, 16')
$(arr feed_forward_length u32 '10, 11, 12, 13')
$(arr attention.sliding_window_pattern bool 'true, false, true, false')
$(arr rope.dimension_sections i32 '1, 2, 3, 0')
{\"key\": \"xielu.alpha_p\", \"type\": \"arr\", \"items\": \"f32\", \"value\": [0.5, 1.5, 2.5, 3.5]}," \
        $KEYS -k llama.block_count=4 $REST $(blocks 4)
    made "$T/scalar.gguf" "$TOKENS$(arr attention.sliding_window_pattern bool 'true, false')$(arr \
        rope.dimension_sections i32 '1, 2, 3, 0')
{\"key\": \"xielu.alpha_p\", \"type\": \"arr\", \"items\": \"f32\", \"value\": [7.5, 8.5]}," \
        $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=77 -k llama.block_count=2 -s 3 $REST \
        $(blocks 2)
}
check "arrays follow" stack "$T/arrays.gguf" 3,0,0-1 "$T/scalar.gguf" 1
check_text "$(kv attention.head_count_kv)" "[16, 2, 2, 4, 2]" \
    "an array follows its blocks and takes the value of another model"
check_text "$(kv feed_forward_length)" "[13, 10, 10, 11, 77]" "feed_forward_length"
check_text "$(kv attention.sliding_window_pattern)" "[false, true, true, false, false]" "sliding_window_pattern"
check_text "$(kv rope.dimension_sections)" "[1, 2, 3, 0]" "an array that counts no blocks stays"
check_text "$(kv alpha_p)" "[3.5, 0.5, 0.5, 1.5, 8.5]" "xielu.alpha_p, which has no architecture before it"
check "a scalar that all blocks of the array have" stack "$T/scalar.gguf" 0 "$T/scalar.gguf" 1,0
refuse "llama.feed_forward_length has a single value for all blocks in $T/scalar.gguf, but block 0 has another" \
    "$T/scalar.gguf" 0-1 "$T/arrays.gguf" 0
# shellcheck disable=SC2046,SC2086
{
    made "$T/none.gguf" "$TOKENS$(arr rope.dimension_sections i32 '1, 2, 3, 0')" $KEYS \
        -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=77 -k llama.block_count=2 $REST $(blocks 2)
    made "$T/short.gguf" "$TOKENS$(arr feed_forward_length u32 '10, 11, 12')" $KEYS -k llama.block_count=4 $REST \
        $(blocks 4)
}
refuse "llama.attention.sliding_window_pattern has one value per block in $T/scalar.gguf, but not in this model" \
    "$T/scalar.gguf" 0-1 "$T/none.gguf" 0
refuse "feed_forward_length has 3 values for 4 blocks" "$T/short.gguf" 0-2
check "a model as it is, right or wrong" stack "$T/short.gguf" 0-3
check_same "$T/c.gguf" "$T/short.gguf" "a wrong array is organ-check's to find"

# ---- multi-token prediction ---------------------------------------------------------------------
# shellcheck disable=SC2046,SC2086
{
    made "$T/mtp.gguf" "$TOKENS$(arr feed_forward_length u32 '10, 11, 12, 13, 14')" $KEYS \
        -k general.quantization_version=2 -k llama.block_count=5 -k llama.nextn_predict_layers=2 $REST $(blocks 3) \
        $(nextn 3) $(nextn 4)
    made "$T/bare.gguf" "$TOKENS$(arr feed_forward_length u32 '10, 11, 12')" $KEYS -k llama.block_count=3 \
        -k llama.nextn_predict_layers=0 $REST $(blocks 3)
}
check "--drop-mtp" stack --drop-mtp "$T/mtp.gguf"
check_text "$(kv block_count) $(kv nextn_predict_layers) $(kv feed_forward_length)" "3 0 [10, 11, 12]" \
    "keys without MTP blocks"
check_text "$(organ-extract "$T/c.gguf" --list | grep -c nextn)" 0 "no tensor of them is left"
cp "$T/c.gguf" "$T/dropped.gguf"
check "and put back" organ-transplant --base "$T/dropped.gguf" --donor "$T/mtp.gguf" --mtp --output "$T/back.gguf"
check_same "$T/back.gguf" "$T/mtp.gguf" "--drop-mtp and --mtp are inverse"
check "--drop keeps them" stack --drop 1 "$T/mtp.gguf"
check_text "$(kv block_count) $(kv nextn_predict_layers) $(kv feed_forward_length)" "4 2 [10, 12, 13, 14]" \
    "keys of --drop 1"
check "--drop and --drop-mtp" stack --drop 1 --drop-mtp "$T/mtp.gguf"
check_text "$(kv block_count) $(kv nextn_predict_layers) $(kv feed_forward_length)" "2 0 [10, 12]" "keys of both"
check "blocks without them" stack "$T/mtp.gguf" 0-2
check_text "$(grep -c 'multi-token-prediction blocks of .* are left out' "$T/err")" 1 "a note where they are left out"
check_same "$T/c.gguf" "$T/dropped.gguf" "0-2 is --drop-mtp"
check "into another model" stack "$T/bare.gguf" 0-2 "$T/mtp.gguf" 3-4
check_text "$(kv block_count) $(kv nextn_predict_layers) $(kv feed_forward_length)" "5 2 [10, 11, 12, 13, 14]" \
    "keys of joined MTP blocks"
refuse "block 3 is a multi-token-prediction block: it cannot come before block 0" "$T/mtp.gguf" 1-3,0
refuse "only multi-token-prediction blocks are left" "$T/mtp.gguf" 3-4
refuse "no multi-token-prediction blocks" --drop-mtp "$T/bare.gguf"
check "--mtp-only" stack --mtp-only "$T/mtp.gguf"
check_text "$(kv block_count) $(kv nextn_predict_layers) $(kv feed_forward_length)" "5 2 [10, 11, 12, 13, 14]" \
    "keys without a trunk"
check_text "$(organ-extract "$T/c.gguf" --list | cells name | sed 1d | grep -c 'blk\.[0-2]\.'):$(organ-extract \
    "$T/c.gguf" --list | grep -c 'blk\.[34]\.')" \
    "0:$(organ-extract "$T/mtp.gguf" --list | grep -c 'blk\.[34]\.')" "blocks without a trunk"
check_text "$(organ-extract "$T/c.gguf" --list | grep -vc 'blk\.')" "$(organ-extract "$T/mtp.gguf" --list | grep \
    -vc 'blk\.')" "tensors outside the blocks stay"
check_text "$(organ-info "$T/c.gguf" | sed -n 1p)" "$T/c.gguf: prediction blocks, llama" "their kind"
check_text "$(organ-info "$T/mtp.gguf" | sed -n 1p)" "$T/mtp.gguf: language model, llama" "the kind of the whole"
check_text "$(organ-check -q "$T/c.gguf" --target "$T/mtp.gguf" |
    awk "$BY_NAME"'col("rule") == "target"')" "" "they fit their model"
check_text "$(organ-check -q "$T/c.gguf" --target "$T/bare.gguf" |
    awk "$BY_NAME"'col("rule") == "target"')" "" "and its trunk"
check_text "$(organ-check -q "$T/c.gguf" --target "$V" |
    awk -F '\t' "$BY_NAME"'col("rule") == "target" && /block_count/ { print col("where") }')" \
    llama.block_count "they do not fit another trunk"
cp "$T/c.gguf" "$T/only.gguf"
check "the trunk and they" organ-transplant --base "$T/dropped.gguf" --donor "$T/only.gguf" \
    --mtp --output "$T/back.gguf" --force
check_same "$T/back.gguf" "$T/mtp.gguf" "--drop-mtp and --mtp-only make one model again"
check "rows of --check" organ-stack --mtp-only "$T/mtp.gguf" --check
check_text "$(cells source_block "$T/out" | tr '\n' ' ')" "source_block 3 4 " "blocks that are written"
refuse "no multi-token-prediction blocks" --mtp-only "$T/bare.gguf"
refuse "no multi-token-prediction blocks" --mtp-only "$T/dropped.gguf"

# ---- experts --------------------------------------------------------------------------------------
# shellcheck disable=SC2046,SC2086
{
    moe() { # BLOCKS EXPERTS
        i=0
        while [ $i -lt "$1" ]; do
            block $i | sed 's/ [^ ]*ffn_up[^ ]*//'
            echo "blk.$i.ffn_gate_inp.weight:F32:64x$2 blk.$i.ffn_up_exps.weight:Q8_0:64x32x$2"
            i=$((i + 1))
        done
    }
    made "$T/moe4.gguf" "$TOKENS" $KEYS -k llama.block_count=3 -k llama.expert_count=4 -k llama.expert_used_count=2 \
        $REST $(moe 3 4)
    made "$T/moe4b.gguf" "$TOKENS" $KEYS -k llama.block_count=2 -k llama.expert_count=4 -k llama.expert_used_count=2 \
        -s 5 $REST $(moe 2 4)
    made "$T/moe2.gguf" "$TOKENS" $KEYS -k llama.block_count=2 -k llama.expert_count=2 -k llama.expert_used_count=2 \
        $REST $(moe 2 2)
    made "$T/lead.gguf" "$TOKENS" $KEYS -k llama.block_count=4 -k llama.expert_count=4 -k llama.expert_used_count=2 \
        -k llama.leading_dense_block_count=2 $REST \
        $(block 0) $(block 1) $(moe 4 4 | grep -v '^blk.[01]' | sed 's/blk.3.attn_norm/blk.3.attn_norm/')
}
check "experts" stack "$T/moe4.gguf" 0,2 "$T/moe4b.gguf" 1
from blk.2.ffn_up_exps.weight "$T/moe4b.gguf" blk.1.ffn_up_exps.weight
from blk.2.ffn_gate_inp.weight "$T/moe4b.gguf" blk.1.ffn_gate_inp.weight
check_text "$(kv expert_count)" 4 "expert_count stays"
refuse "llama.expert_count differs: base 4, donor 2" "$T/moe4.gguf" 0 "$T/moe2.gguf" 0
organ-extract "$T/moe4.gguf" --split-experts --output "$T/split.organs"
check_error 2 "assemble it first" "experts in records of their own" stack "$T/split.organs" 0
check "leading dense blocks: one less" stack --drop 0 "$T/lead.gguf"
check_text "$(kv leading_dense_block_count) $(kv block_count)" "1 3" "leading_dense_block_count follows"
check "one more" stack "$T/lead.gguf" 0,1,1,2,3
check_text "$(kv leading_dense_block_count)" 3 "leading_dense_block_count grows"
refuse "block 0 cannot become block 3: it is dense (leading_dense_block_count), block 2 is not" "$T/lead.gguf" 0,1,2,0

# ---- patterns that engines derive from a block's number ---------------------------------------------
# pattern FILE ENTRIES ARCH BLOCKS
pattern() {
    # shellcheck disable=SC2046,SC2086
    made "$T/$1" "$TOKENS$2" $KEYS -k llama.block_count=$4 $REST $(blocks $4)
    [ "$3" = llama ] || arch "$T/$1" "$3"
}
pattern full.gguf "$(u32 full_attention_interval 4)" llama 8
refuse "block 3 cannot become block 2: full_attention_interval is 4" --drop 0 "$T/full.gguf"
check_text "$(grep -c 'groups of 4 blocks' "$T/err")" 1 "what to do about it"
refuse "block 4 cannot become block 3: full_attention_interval is 4" "$T/full.gguf" 0-2,4-7
check "a group of four" stack --drop 4-7 "$T/full.gguf"
check "blocks of one kind exchanged" stack "$T/full.gguf" 1,0,2,7,4-6,3
check "the tail may go" stack --drop 6-7 "$T/full.gguf"
pattern qwen.gguf "" qwen35 8
refuse "full_attention_interval is 4" --drop 0 "$T/qwen.gguf"
pattern array.gguf "$(u32 full_attention_interval 4)$(arr attention.recurrent_layers bool \
    'true, true, true, false, true, true, true, false')" qwen35 8
check "an array says which blocks are recurrent" stack --drop 0 "$T/array.gguf"
check_text "$(kv attention.recurrent_layers)" "[true, true, false, true, true, true, false]" "recurrent_layers follows"
pattern window.gguf "$(u32 attention.sliding_window_pattern 3)" llama 6
refuse "block 3 cannot become block 2: attention.sliding_window_pattern is 3" --drop 2 "$T/window.gguf"
check "whole periods" stack --drop 0-2 "$T/window.gguf"
pattern gemma.gguf "" gemma2 4
refuse "block 1 cannot become block 0: the sliding window pattern is 2" --drop 0 "$T/gemma.gguf"
check "two blocks of gemma2" stack --drop 1-2 "$T/gemma.gguf" && refuse "the sliding window pattern is 2" \
    "$T/gemma.gguf" 0-1,3
pattern moestep.gguf "$(u32 interleave_moe_layer_step 2)" llama 4
refuse "interleave_moe_layer_step is 2" --drop 1 "$T/moestep.gguf"
pattern rwkv.gguf "$(u32 rescale_every_n_layers 2)" llama 4
refuse "block 2 cannot become block 0: rescale_every_n_layers is 2" "$T/rwkv.gguf" 2,3
pattern rwkv7.gguf "" rwkv7 3
refuse "the first block differs in kind" "$T/rwkv7.gguf" 1,0,2
check "after the first block" stack "$T/rwkv7.gguf" 0,2,1
pattern shared.gguf "$(u32 attention.shared_kv_layers 2)" llama 4
refuse "attention.shared_kv_layers ties them" --drop 1 "$T/shared.gguf"
check "unmoved" stack "$T/shared.gguf" 0-3
pattern full3.gguf "$(u32 full_attention_interval 3)" llama 6
refuse "full_attention_interval differs" "$T/full.gguf" 0-3 "$T/full3.gguf" 4-5

# ---- models that do not fit together ------------------------------------------------------------------
# shellcheck disable=SC2046,SC2086
{
    made "$T/a.gguf" "$TOKENS" $KEYS -k llama.block_count=2 $REST $(blocks 2)
    made "$T/vocab.gguf" '{"key": "tokenizer.ggml.tokens", "type": "arr", "items": "str", "value": ["a", "b", "d"]},' \
        $KEYS -k llama.block_count=2 $REST $(blocks 2)
    made "$T/embd.gguf" "$TOKENS" -k llama.embedding_length=96 -k llama.attention.head_count=4 -k llama.block_count=2 \
        $REST $(blocks 2)
    made "$T/dims.gguf" "$TOKENS" $KEYS -k llama.block_count=2 $REST $(blocks 2 | sed \
        's/ffn_up.weight:Q8_0:64x128/ffn_up.weight:Q8_0:64x96/')
    made "$T/qwen2.gguf" "$TOKENS" $KEYS -k llama.block_count=2 $REST $(blocks 2)
    arch "$T/qwen2.gguf" qwen2
    made "$T/uncounted.gguf" "$TOKENS" $KEYS $REST $(blocks 2)
    made "$T/stray.gguf" "$TOKENS" $KEYS -k llama.block_count=2 $REST $(blocks 3)
    made "$T/hole.gguf" "$TOKENS" $KEYS -k llama.block_count=3 $REST $(block 0) $(block 2)
    made "$T/vision.gguf" "$TOKENS" $KEYS -k llama.block_count=2 $REST v.blk.0.ln1.weight:F32:8 $(blocks 2) \
        v.blk.1.ln1.weight:F32:8
}
refuse "vocabulary differs" "$T/a.gguf" 0 "$T/vocab.gguf" 1
refuse "embedding_length differs: base 64, donor 96" "$T/a.gguf" 0 "$T/embd.gguf" 1
refuse "tensor 'blk.0.ffn_up.weight': its dims are 64x96, but in the blocks of $T/a.gguf they are 64x128" "$T/a.gguf" \
    0 "$T/dims.gguf" 1
# Every key that blocks of two models must agree on.
for k in attention.head_count=u32 attention.head_count_kv=u32 attention.key_length=u32 attention.value_length=u32 \
    rope.dimension_count=u32 rope.freq_base=f32 attention.layer_norm_rms_epsilon=f32 feed_forward_length=u32 \
    expert_count=u32 expert_used_count=u32; do
    organ-keys -q "$T/a.gguf" --set "llama.$k:8" --output "$T/agree.gguf" --force || bad "no $k"
    organ-keys -q "$T/a.gguf" --set "llama.$k:16" --output "$T/differ.gguf" --force || bad "no $k"
    refuse "${k%=*} differs: base 8" "$T/agree.gguf" 0 "$T/differ.gguf" 1
done
refuse "architecture differs" "$T/a.gguf" 0 "$T/qwen2.gguf" 1
refuse "$T/uncounted.gguf: it has no llama.block_count" "$T/uncounted.gguf" 0-1
refuse "tensor 'blk.2.attn_norm.weight': it belongs to block 2, but block_count is 2" "$T/stray.gguf" 0
refuse "$T/hole.gguf: block 1 has no tensors" "$T/hole.gguf" 0-1
check "around a hole" stack "$T/hole.gguf" 0,2
check "blocks of another part stay" stack --drop 1 "$T/vision.gguf"
check_text "$(order)" \
    "$(printf '%s.weight ' token_embd v.blk.0.ln1 blk.0.attn_norm blk.0.attn_q blk.0.ffn_up v.blk.1.ln1)" \
    "vision blocks stay"
refuse "$V: it has no block 4, only 0 to 3" $V 0-4
refuse "it has no block 17" $V 0,17-19
refuse "it has no block 4" --drop 4 $V
refuse "no block is left" --drop 0-3 $V

# ---- long names: a block number with one more digit -----------------------------------------------------
long=$(printf '%055d' 0 | tr 0 x)
# shellcheck disable=SC2086
made "$T/long.gguf" "$TOKENS" $KEYS -k llama.block_count=1 "blk.0.$long.w:F32:4"
check "63 bytes" stack "$T/long.gguf" 0,0
check_text "$(organ-extract "$T/c.gguf" --list | cells name | tail -n 1)" "blk.1.$long.w" "the longest name that fits"

# ---- usage ------------------------------------------------------------------------------------------------
check_error 2 "no model given" "nothing" organ-stack --output "$T/c.gguf"
check_error 2 "no blocks given after" "a model without blocks" stack $V
check_error 2 "no blocks given after" "the last without blocks" stack $V 0 $C
check_error 2 "takes exactly one model" "--drop with blocks" stack --drop 1 $V 0-2
check_error 2 "takes exactly one model" "--drop-mtp with blocks" stack --drop-mtp $V 0-2
check_error 2 "takes exactly one model" "--mtp-only with blocks" stack --mtp-only $V 0-2
check_error 2 "give --output" "no output" organ-stack $V 0
check_error 2 "--json needs --check" "--json" stack --json $V 0
for text in x 1- 3-1 1,,2 '' 1..3 0x1 99999999999; do
    check_error 2 "expected numbers and ranges" "BLOCKS '$text'" stack $V "$text"
done
check_error 2 "at most 100000 blocks" "blocks without end" stack $V "$(awk \
    'BEGIN { for (i = 0; i < 30000; i++) printf "0-3,"; print 0 }')"
printf '\003\000\000\000a.w\001\000\000\000\001\000\000\000\000\000\000\000\000\000\000\000abcd' > "$T/r.bin"
check_error 2 "consists of organ records" "records" stack "$T/r.bin" 0
# ---- encoder and decoder ------------------------------------------------------------------------
# shellcheck disable=SC2086
mkmodel "$T/t5.gguf" $KEYS -k llama.block_count=4 -k llama.decoder_block_count=3 token_embd.weight:F32:64x3 \
    enc.blk.0.attn_norm.weight:F32:64 enc.blk.0.attn_rel_b.weight:F32:4x8 -n 4 enc.blk.%.ffn_norm.weight:F32:64 \
    enc.output_norm.weight:F32:64 dec.blk.0.attn_rel_b.weight:F32:4x8 -n 3 dec.blk.%.ffn_norm.weight:F32:64
arch "$T/t5.gguf" t5 2> /dev/null
check "decoder blocks" stack "$T/t5.gguf" dec:2,0-1,1
check_text "$(kv decoder_block_count) $(kv block_count)" "4 4" "the decoder's blocks are counted, the encoder's stay"
from dec.blk.0.ffn_norm.weight "$T/t5.gguf" dec.blk.2.ffn_norm.weight
from dec.blk.0.attn_rel_b.weight "$T/t5.gguf" dec.blk.0.attn_rel_b.weight
from dec.blk.3.ffn_norm.weight "$T/t5.gguf" dec.blk.1.ffn_norm.weight
from enc.blk.1.ffn_norm.weight "$T/t5.gguf" enc.blk.1.ffn_norm.weight
check "encoder blocks" stack "$T/t5.gguf" enc:3,1,1
check_text "$(kv decoder_block_count) $(kv block_count)" "3 3" "the encoder's blocks are counted"
check_text "$(order)" \
    "$(printf '%s.weight ' token_embd enc.blk.0.ffn_norm enc.blk.0.attn_rel_b enc.blk.1.ffn_norm enc.blk.2.ffn_norm \
        enc.output_norm dec.blk.0.attn_rel_b dec.blk.0.ffn_norm dec.blk.1.ffn_norm dec.blk.2.ffn_norm)" \
    "the first block has the position biases"
from enc.blk.0.ffn_norm.weight "$T/t5.gguf" enc.blk.3.ffn_norm.weight
from enc.blk.0.attn_rel_b.weight "$T/t5.gguf" enc.blk.0.attn_rel_b.weight
check "drop of a decoder" stack --drop dec:0-1 "$T/t5.gguf"
check_text "$(kv decoder_block_count)" 1 "drop of a decoder"
check "all of a decoder" stack "$T/t5.gguf" dec:0-2
check_same "$T/c.gguf" "$T/t5.gguf" "all of a decoder"
organ-keys -q "$T/t5.gguf" --delete t5.decoder_block_count -o "$T/even.gguf"
check "encoder, no key of the decoder" stack "$T/even.gguf" enc:0-3,3
check_text "$(kv decoder_block_count) $(kv block_count)" "4 5" "the decoder's count is stated when it differs"
refuse "it has no block 3, only 0 to 2" "$T/t5.gguf" dec:3
refuse "the decoder would have 3 blocks and the encoder 2" "$T/t5.gguf" enc:0-1
check_error 2 "enc:0-3 or dec:0-3" "which stack" organ-stack "$T/t5.gguf" 0 -o "$T/no.gguf"
mkmodel "$T/beside.gguf" -k llama.block_count=1 token_embd.weight:F32:64x20 blk.0.attn_q.weight:F32:64x64 \
    enc.blk.0.attn_q.weight:F32:64x64
check "one block beside an encoder" organ-stack -q "$T/beside.gguf" 0,0 -o "$T/beside2.gguf"
check_error 2 "in two runs" "both stacks" organ-stack "$T/t5.gguf" enc:0 "$T/t5.gguf" dec:0 -o "$T/no.gguf"

# ---- hybrids: blocks of each kind stay ---------------------------------------------------------------
hybrid() { # ARCH PER-BLOCK-KEY VALUES [KEY=N]
    made "$T/h.gguf" "$TOKENS$(arr "$2" u32 "$3")" $KEYS ${4:+-k llama.$4} -k llama.block_count=4 $(blocks 4) \
        2> /dev/null
    arch "$T/h.gguf" "$1" 2> /dev/null
}
for a in granitehybrid lfm2 jamba kimi-linear plamo2; do
    hybrid $a attention.head_count_kv 0,2,0,4
    check "$a" stack "$T/h.gguf" 3,0,0
    check_text "$(kv attention.head_count_kv)" "[4, 0, 0]" "$a: the kinds move with their blocks"
    refuse "no recurrent block is left" "$T/h.gguf" 1,3
    refuse "no block with attention is left" "$T/h.gguf" 0,2
done
made "$T/h.gguf" "$TOKENS$(arr attention.head_count_kv u32 0,2,0,0)$(arr feed_forward_length u32 0,0,96,96)" $KEYS \
    -k llama.block_count=4 $(blocks 4) 2> /dev/null
arch "$T/h.gguf" nemotron_h 2> /dev/null
check "nemotron_h" stack "$T/h.gguf" 2,0,1
check_text "$(organ-keys "$T/c.gguf" --get nemotron_h.feed_forward_length | xargs) $(organ-keys "$T/c.gguf" \
    --get nemotron_h.attention.head_count_kv | xargs)" \
    "96 0 0 0 0 2" "nemotron_h: both arrays move"
refuse "no recurrent block is left" "$T/h.gguf" 1-3
refuse "no block with attention is left" "$T/h.gguf" 0,2
hybrid mimo2 attention.sliding_window_pattern 1,0,1,0 attention.sliding_window=32
check "windows" stack "$T/h.gguf" 1,0
refuse "no block with a sliding window is left" "$T/h.gguf" 1,3
refuse "no block with full attention is left" "$T/h.gguf" 0,2
hybrid deepseek4 attention.compress_ratios 0,0,4,128 hash_layer_count=1
refuse "keep the first 1 blocks in their places" "$T/h.gguf" 1-3
refuse "no block with a compress ratio of 4 is left" "$T/h.gguf" 0,3
hybrid falcon-h1 attention.head_count_kv 2,2,2,2
check "falcon-h1" stack "$T/h.gguf" 3,3
hybrid gemma3n feed_forward_length 1,2,3,4
refuse "gemma3n ties them to their numbers" "$T/h.gguf" 0-2

# an error that only the new order has: the first block of modern-bert has no norm
bert() {
    [ "$1" = 0 ] || echo "blk.$1.attn_norm.weight:F32:64"
    echo "blk.$1.attn_qkv.weight:F16:64x192 blk.$1.attn_output.weight:F16:64x64 blk.$1.ffn_norm.weight:F32:64"
    echo "blk.$1.ffn_up.weight:F16:64x128 blk.$1.ffn_down.weight:F16:64x64"
}
# shellcheck disable=SC2046,SC2086
made "$T/bert.gguf" "$TOKENS"'{"key": "llama.attention.layer_norm_epsilon", "type": "f32", "value": 0.1},
    {"key": "tokenizer.ggml.model", "type": "str", "value": "bert"},' \
    $KEYS -k llama.block_count=3 -k llama.context_length=64 -k llama.feed_forward_length=64 \
    -k tokenizer.ggml.seperator_token_id=1 -k tokenizer.ggml.padding_token_id=2 \
    $REST token_embd_norm.weight:F32:64 output_norm.weight:F32:64 $(bert 0) $(bert 1) $(bert 2) 2> /dev/null
arch "$T/bert.gguf" modern-bert 2> /dev/null
check "modern-bert is sound" organ-check -q "$T/bert.gguf"
check "its first block stays" stack "$T/bert.gguf" 0,2
refuse "blk.1.attn_norm.weight: this tensor is missing" "$T/bert.gguf" 2,0,1

# Texts stay, since they may name anything, and a note says so; none does where the order does not change.
organ-keys -q $V --set 'llama.names=str[]:a,b,c,d' --set 'llama.pairs=str[]:a,b' --output "$T/texts.gguf" 2> /dev/null
check "texts" stack "$T/texts.gguf" 3,2,1,0
check_text "$(grep -c 'llama.names has as many texts as there are blocks, and is kept unchanged' "$T/err")" 1 "a note"
check_text "$(grep -c llama.pairs "$T/err")" 0 "another length counts something else"
check_text "$(organ-keys "$T/c.gguf" --get llama.names | tr '\n' ' ')" "a b c d " "texts are kept"
check "texts in their order" stack "$T/texts.gguf" 0-3
check_text "$(grep -c llama.names "$T/err")" 0 "no note"

touch "$T/there.gguf"
check_error 2 "--force" "an output that exists" organ-stack $V 0 --output "$T/there.gguf"
check_error 2 "two.gguf: this is also the output of --output" "two outputs of one name" organ-stack $V 0 --force \
    --output "$T/two.gguf" --imatrix "$LAB/lab-verse.imatrix.gguf" --imatrix-out "$T/two.gguf"
check_absent "$T/two.gguf" "two outputs of one name"
mkdir "$T/card"
check_error 2 "--drop takes exactly one model" "a mistake after the card is open" organ-stack $V 1,0 --drop 1 \
    --card "$T/card/c.md" -o "$T/card/c.gguf"
check_text "$(ls -A "$T/card")" "" "nothing is left"
check_error 2 "--x\\x1b[2J" "control characters of a mistake" organ-stack $V 0 "--x$(printf '\033')[2J" -o "$T/c.gguf"
long=$(printf '%0250d' 0)
check "a long name in a card" organ-keys -q $V --set "general.name=str:$long" -o "$T/card/long.gguf"
check "its card" organ-stack -q "$T/card/long.gguf" 0 --card "$T/card/c.md" -o "$T/card/c.gguf"
check_text "$(sed -n '1s/^# 0*//p' "$T/card/c.md")" "..." "a cut is marked"
# A header may claim any number of blocks, which must not take time.
organ-keys -q $V --set llama.block_count=u32:99999 --output "$T/blocks.gguf"
limited 2 organ-stack -q "$T/blocks.gguf" 1 --output "$T/one.gguf" 2> "$T/err"
check_text "$(($? < 124))" 1 "a block_count of 99999 takes little time"
check_exit 3 "no model" stack README.md 0
check_exit 4 "no file" stack "$T/none-such.gguf" 0
# Blocks of strangers are written, but not without a word; those of relatives, and blocks twice, are.
check "blocks of a stranger" organ-stack "$LAB/lab-verse-q4_k_m.gguf" 0-1 "$LAB/lab-stranger-q4_k_m.gguf" 2-3 --check
check_text "$(grep -c 'stranger-q4_k_m.gguf shares no lineage with .*verse-q4_k_m.gguf: their blocks' "$T/err")" 1 \
    "a stranger"
check "blocks of relatives" organ-stack "$LAB/lab-verse-q4_k_m.gguf" 0-1 "$LAB/lab-code-q4_k_m.gguf" 2-3 \
    "$LAB/lab-verse-q4_k_m.gguf" 3 --check
check_text "$(grep -c 'no lineage' "$T/err")" 0 "relatives"
finish
