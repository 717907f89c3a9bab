#!/bin/sh
# mtp.sh - organ-transplant --mtp: whole multi-token-prediction blocks, renumbered,
# every key that counts blocks grown with them; what does not fit is refused by name
# and nothing is written.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }

# block N: the tensors of an ordinary block; nextn N: of a MTP block
block() {
    echo "blk.$1.attn_norm.weight:F32:64 blk.$1.attn_q.weight:F16:64x64 blk.$1.attn_k.weight:F16:64x32"
    echo "blk.$1.attn_v.weight:F16:64x32 blk.$1.attn_output.weight:F16:64x64 blk.$1.ffn_norm.weight:F32:64"
    echo "blk.$1.ffn_up.weight:Q8_0:64x128 blk.$1.ffn_down.weight:Q8_0:128x64"
}
nextn() {
    block "$1"
    echo "blk.$1.nextn.eh_proj.weight:F16:128x64 blk.$1.nextn.enorm.weight:F32:64 blk.$1.nextn.hnorm.weight:F32:64"
    echo "blk.$1.nextn.shared_head_norm.weight:F32:64"
}
TOKENS='{"key": "tokenizer.ggml.tokens", "type": "arr", "items": "str", "value": ["a", "b", "c"]},'
KEYS="-k llama.embedding_length=64 -k llama.attention.head_count=4"

kv() { arch_kv "$T/c.gguf" "$1"; }
graft() { # BASE DONOR
    rm -f "$T/c.gguf"
    organ-transplant --base "$T/$1" --donor "$T/$2" --mtp --output "$T/c.gguf"
}

# ---- one block, as deep a base; arrays of the base grow, the others' too ------------
# shellcheck disable=SC2046,SC2086
{
    made "$T/base.gguf" "$TOKENS$(arr attention.head_count_kv u32 '2, 2')
$(arr feed_forward_length u32 '128, 128')
$(arr attention.sliding_window_pattern bool 'true, false')
$(arr rope.dimension_sections i32 '1, 2, 3')" $KEYS -k llama.block_count=2 token_embd.weight:F16:64x3 $(blocks 2)
    made "$T/d1.gguf" "$TOKENS$(arr attention.head_count_kv u32 '2, 2, 2')
$(arr feed_forward_length u32 '128, 128, 96')
$(arr attention.sliding_window_pattern bool 'true, false, true')
$(arr rope.dimension_sections i32 '1, 2, 3')" $KEYS -k llama.block_count=3 -k llama.nextn_predict_layers=1 \
    -s 7 token_embd.weight:F16:64x3 $(blocks 2) $(nextn 2)
}
check "one block" graft base.gguf d1.gguf
check_text "$(kv block_count) $(kv nextn_predict_layers)" "3 1" "block_count and nextn_predict_layers"
check_text "$(kv attention.head_count_kv)" "[2, 2, 2]" "head_count_kv grown"
check_text "$(kv feed_forward_length)" "[128, 128, 96]" "feed_forward_length: the donor's value for its block"
check_text "$(kv attention.sliding_window_pattern)" "[true, false, true]" "sliding_window_pattern grown"
check_text "$(kv rope.dimension_sections)" "[1, 2, 3]" "an array that counts no blocks stays"
check_text "$(organ-extract "$T/c.gguf" --list | awk '/^blk.2/' | wc -l | tr -d ' ')" 12 "tensors of the block"
for name in blk.2.nextn.eh_proj.weight blk.2.ffn_down.weight blk.2.attn_norm.weight; do
    data "$T/c.gguf" $name > "$T/x"
    data "$T/d1.gguf" $name > "$T/y"
    check_same "$T/x" "$T/y" "$name is the donor's"
done
data "$T/c.gguf" blk.1.ffn_up.weight > "$T/x"
data "$T/base.gguf" blk.1.ffn_up.weight > "$T/y"
check_same "$T/x" "$T/y" "the base's own stay"
check "the table" organ-transplant --base "$T/base.gguf" --donor "$T/d1.gguf" --mtp --check
check_text "$(awk -F "$TAB" "$BY_NAME"'col("action") == "add"' "$T/out" | wc -l | tr -d ' ')" 12 "--check: 12 to add"
check "from a pipe" sh -c "organ-transplant --base '$T/base.gguf' --donor - --mtp --output '$T/c2.gguf' < '$T/d1.gguf'"
check_same "$T/c.gguf" "$T/c2.gguf" "donor from a pipe"

# ---- two blocks into a deeper base: renumbered; scalars stay scalars -----------------
# shellcheck disable=SC2046,SC2086
{
    made "$T/deep.gguf" "$TOKENS$(arr attention.head_count_kv u32 '2, 2, 2, 2')" $KEYS -k llama.block_count=4 \
        -k llama.feed_forward_length=128 token_embd.weight:F16:64x3 $(blocks 4)
    made "$T/d2.gguf" "$TOKENS" $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
        -k llama.block_count=4 -k llama.nextn_predict_layers=2 -s 9 \
        token_embd.weight:F16:64x3 $(blocks 2) $(nextn 2) $(nextn 3)
}
check "two blocks" graft deep.gguf d2.gguf
check_text "$(kv block_count) $(kv nextn_predict_layers)" "6 2" "six blocks, two of them MTP"
check_text "$(kv attention.head_count_kv)" "[2, 2, 2, 2, 2, 2]" "an array grows by a donor's scalar"
check_text "$(kv feed_forward_length)" "128" "a scalar stays"
for i in 2 3; do
    for role in nextn.eh_proj nextn.hnorm ffn_up attn_q; do
        data "$T/c.gguf" blk.$((i + 2)).$role.weight > "$T/x"
        data "$T/d2.gguf" blk.$i.$role.weight > "$T/y"
        if [ -s "$T/x" ]; then check_same "$T/x" "$T/y" "blk.$i.$role becomes blk.$((i + 2))"; else bad \
            "no blk.$((i + 2)).$role"; fi
    done
done
check_text "$(organ-extract "$T/c.gguf" --list | sed 1d | wc -l | tr -d ' ')" 57 "no tensor more or less"
cp "$T/c.gguf" "$T/has.gguf"

# ---- a base that announces blocks, but lacks them: its side file has them ---------------
# without NAME BLOCKS: $T/has.gguf but for those blocks' tensors, keys as they are
without() {
    rm -rf "$T/v"
    organ-extract "$T/has.gguf" --output "$T/v"
    awk -v blocks="\"name\": \"blk[.]($2)[.]" \
        '$0 !~ blocks { if (/^  \]/) sub(/,$/, "", held); if (n++) print held; held = $0 } END { print held }' \
        "$T/v/manifest.json" > "$T/v.json"
    mv "$T/v.json" "$T/v/manifest.json"
    organ-assemble "$T/v" --output "$T/$1" || bad "without $1"
}
without trunk.gguf "4|5"
without head.gguf "0|1|2|3"
check "announced blocks" graft trunk.gguf d2.gguf
check_same "$T/c.gguf" "$T/has.gguf" "announced blocks: as if they had never been gone"
check "from a side file of them alone" graft trunk.gguf head.gguf
check_same "$T/c.gguf" "$T/has.gguf" "from a side file"
# shellcheck disable=SC2046,SC2086
made "$T/d1s.gguf" "$TOKENS" $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
    -k llama.block_count=3 -k llama.nextn_predict_layers=1 -s 7 \
    token_embd.weight:F16:64x3 $(blocks 2) $(nextn 2)
check "two announced, one there" graft trunk.gguf d1s.gguf
check_text "$(kv block_count) $(kv nextn_predict_layers) $(kv attention.head_count_kv)" "5 1 [2, 2, 2, 2, 2]" \
    "as many as there are"

# ---- quantized blocks into a model that had none quantized -------------------------------
# shellcheck disable=SC2046,SC2086
made "$T/floats.gguf" "$TOKENS" $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
    -k llama.block_count=2 \
    token_embd.weight:F16:64x3 $(blocks 2 | sed 's/Q8_0/F16/g')
check "quantized blocks" graft floats.gguf d1s.gguf
organ-extract "$T/c.gguf" --output "$T/cd" --force 2> /dev/null
check_text "$(grep -c '"general.quantization_version", "type": "u32", "value": 2' "$T/cd/manifest.json")" 1 \
    "quantization_version"
check_text "$(grep -c 'general.file_type' "$T/cd/manifest.json")" 0 "file_type stays as it was, absent"

# ---- a base with as many blocks as the donor's trunk and MTP blocks together -------------
# Only the trunk of both is compared: the donor's last value is for its MTP block.
# shellcheck disable=SC2046,SC2086
{
    made "$T/equal.gguf" "$TOKENS$(arr attention.head_count_kv u32 '2, 2, 2')
$(arr feed_forward_length u32 '128, 128, 64')" $KEYS -k llama.block_count=3 token_embd.weight:F16:64x3 $(blocks 3)
    made "$T/trunk64.gguf" "$TOKENS$(arr attention.head_count_kv u32 '2, 2, 2')
$(arr feed_forward_length u32 '128, 64, 64')" $KEYS -k llama.block_count=3 token_embd.weight:F16:64x3 $(blocks 3)
}
check "as many blocks as the donor in all" graft equal.gguf d1.gguf
check_text "$(kv block_count) $(kv nextn_predict_layers)" "4 1" "block_count behind all of the base's blocks"
check_text "$(kv feed_forward_length)" "[128, 128, 64, 96]" "the base's own value stays, the donor's comes behind"
check_text "$(kv attention.head_count_kv)" "[2, 2, 2, 2]" "head_count_kv"
rm -f "$T/c.gguf"

# ---- --add: whole blocks behind the base's last grow the same keys -----------------------------
add() { # BASE DONOR OPTION...
    add_base=$1 add_donor=$2
    shift 2
    rm -f "$T/c.gguf"
    organ-transplant --base "$T/$add_base" --donor "$T/$add_donor" --add --output "$T/c.gguf" "$@"
}
refuse_add() { # TEXT BASE DONOR OPTION...
    refuse_text=$1
    shift
    check_error 1 "$refuse_text" "--add: $refuse_text" add "$@"
    check_absent "$T/c.gguf" "$refuse_text"
}
check "one MTP block" graft base.gguf d1.gguf
mv "$T/c.gguf" "$T/as-mtp.gguf"
check "the same with --add" add base.gguf d1.gguf --layers 2 --no-history
check_same "$T/c.gguf" "$T/as-mtp.gguf" "--add of MTP blocks does what --mtp does"
# shellcheck disable=SC2046,SC2086
{
    made "$T/six.gguf" "$TOKENS$(arr attention.head_count_kv u32 '2, 2, 2, 2, 4, 8')
$(arr feed_forward_length u32 '128, 128, 1, 2, 3, 4')
$(arr attention.sliding_window_pattern bool 'true, false, true, true, false, true')" $KEYS \
    -k llama.block_count=6 -s 7 token_embd.weight:F16:64x3 $(blocks 6)
    made "$T/gap.gguf" "$TOKENS" $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
        -k llama.block_count=2 token_embd.weight:F16:64x3 $(blocks 2)
    made "$T/swa.gguf" "$TOKENS" $KEYS -k llama.block_count=3 -k llama.attention.sliding_window_pattern=2 \
        token_embd.weight:F16:64x3 $(blocks 3)
    made "$T/swa8.gguf" "$TOKENS" $KEYS -k llama.block_count=8 -k llama.attention.sliding_window_pattern=2 -s 3 \
        token_embd.weight:F16:64x3 $(blocks 8)
}
check "four blocks" add base.gguf six.gguf --layers 2-5
check_text "$(kv block_count) $(kv nextn_predict_layers)" "6 " "block_count; no nextn_predict_layers appears"
check_text "$(kv feed_forward_length)" "[128, 128, 1, 2, 3, 4]" "feed_forward_length grown"
check_text "$(kv attention.sliding_window_pattern)" "[true, false, true, true, false, true]" \
    "sliding_window_pattern grown"
check "mapped" add base.gguf six.gguf --map 2-3=4-5
check_text "$(kv block_count) $(kv attention.head_count_kv)" "4 [2, 2, 4, 8]" \
    "the values of the donor's blocks, not of the base's numbers"
rm -rf "$T/ag" && organ-graft --source "$T/six.gguf" --target "$T/base.gguf" --map 2-3=4-5 --add --output "$T/ag"
organ-assemble "$T/ag" --output "$T/ag.gguf" --force
check_same "$T/ag.gguf" "$T/c.gguf" "a graft with --add assembles to the same"
# shellcheck disable=SC2046,SC2086
made "$T/shallow.gguf" "$TOKENS" $KEYS -k llama.block_count=1 token_embd.weight:F16:64x3 $(blocks 1)
check "to a single block" add shallow.gguf six.gguf --layers 1
check_text "$(kv block_count)" 2 "block_count of a base with one block"
check "set by hand" add base.gguf six.gguf --layers 2-5 --set-kv llama.block_count=u32:9
check_text "$(kv block_count)" 9 "--set-kv has the last word"
refuse_add "block 3 would be added, but there is no block 2" base.gguf six.gguf --layers 3-4
refuse_add "llama.attention.sliding_window_pattern has one value per block in $T/base.gguf, but not in this model" \
    base.gguf deep.gguf --layers 2
refuse_add "block 2 is a multi-token-prediction block: it cannot come before block 3" as-mtp.gguf six.gguf --layers 3
organ-extract "$T/six.gguf" --layers 2-3 --output - > "$T/two.organs"
check "from records" add gap.gguf two.organs
check_text "$(kv block_count) $(kv attention.head_count_kv)" "4 2" "block_count grows; scalars stay"
refuse_add "but not in this model" base.gguf two.organs
check "the next of a pattern" add swa.gguf swa8.gguf --layers 3-4
check_text "$(kv block_count)" 5 "block_count"
refuse_add "block 4 cannot become block 3: attention.sliding_window_pattern is 2" swa.gguf swa8.gguf --map 3=4
check "a tensor of a block that is there" add base.gguf d1.gguf --layers 0-1 --tensors 'blk.*'
check_text "$(kv block_count)" 2 "no block, no growth"
rm -f "$T/c.gguf"

# ---- refused ---------------------------------------------------------------------------
refuse() { # TEXT BASE DONOR
    check_error 1 "$1" "$1" graft "$2" "$3"
    check_absent "$T/c.gguf" "$1"
}
refuse "feed_forward_length differs" trunk64.gguf d1.gguf
refuse "no multi-token-prediction" deep.gguf base.gguf
refuse "already has multi-token-prediction blocks" has.gguf d2.gguf
without half.gguf 4
refuse "already has multi-token-prediction blocks" half.gguf d2.gguf
# variant NAME SED: the donor of two blocks, its metadata edited
variant() {
    rm -rf "$T/v"
    organ-extract "$T/d2.gguf" --output "$T/v"
    sed "$2" "$T/v/manifest.json" > "$T/v.json"
    if cmp -s "$T/v.json" "$T/v/manifest.json"; then bad "variant $1: nothing edited"; fi
    mv "$T/v.json" "$T/v/manifest.json"
    organ-assemble "$T/v" --output "$T/$1" || bad "variant $1"
}
variant vocab.gguf 's/\["a", "b", "c"\]/["a", "b", "d"]/'
refuse "vocabulary differs" deep.gguf vocab.gguf
variant vocab4.gguf 's/\["a", "b", "c"\]/["a", "b", "c", "d"]/'
refuse "base 3 tokens, donor 4" deep.gguf vocab4.gguf
variant embd.gguf '/llama.embedding_length/s/64/96/'
refuse "llama.embedding_length differs: base 64, donor 96" deep.gguf embd.gguf
variant heads.gguf '/llama.attention.head_count"/s/"value": 4/"value": 8/'
refuse "llama.attention.head_count differs: base 4, donor 8" deep.gguf heads.gguf
variant arch.gguf '/"general.architecture"/s/"value": "llama"/"value": "qwen2"/'
refuse "architecture differs" deep.gguf arch.gguf
variant ffn.gguf '/llama.feed_forward_length/s/128/256/'
refuse "feed_forward_length differs" deep.gguf ffn.gguf
variant noproj.gguf '/"blk.3.nextn.eh_proj.weight"/d'
refuse "no blk.3.nextn.eh_proj.weight" deep.gguf noproj.gguf
variant nohnorm.gguf '/"blk.2.nextn.hnorm.weight"/d'
refuse "no blk.2.nextn.hnorm.weight" deep.gguf nohnorm.gguf
variant all.gguf '/nextn_predict_layers/s/"value": 2/"value": 4/'
refuse "contradict each other" deep.gguf all.gguf
variant three.gguf '/nextn_predict_layers/s/"value": 2/"value": 3/'
refuse "no blk.1.nextn.eh_proj.weight" deep.gguf three.gguf
# shellcheck disable=SC2046,SC2086
made "$T/square.gguf" "$TOKENS" $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
    -k llama.block_count=2 -k llama.nextn_predict_layers=1 \
    $(block 0) $(nextn 1 | sed 's/eh_proj.weight:F16:128x64/eh_proj.weight:F16:64x64/')
refuse "does not match its embedding length" deep.gguf square.gguf
# A base that has tensors where the blocks would go, or does not say how many it has.
# shellcheck disable=SC2046,SC2086
{
    made "$T/stray.gguf" "$TOKENS" $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
        -k llama.block_count=4 token_embd.weight:F16:64x3 $(blocks 4) blk.5.odd.weight:F32:64
    made "$T/uncounted.gguf" "$TOKENS" $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
        token_embd.weight:F16:64x3 $(blocks 4)
}
refuse "tensor 'blk.5.odd.weight': the base has a tensor of block 5" stray.gguf d2.gguf
refuse "the base has no block_count" uncounted.gguf d2.gguf
# What only rope and expert keys tell apart.
# shellcheck disable=SC2046,SC2086
{
    made "$T/turn.gguf" "$TOKENS$(arr rope.dimension_sections i32 '3, 2, 1')" $KEYS \
        -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 -k llama.expert_gating_func=2 \
        -k llama.block_count=4 token_embd.weight:F16:64x3 $(blocks 4)
    made "$T/sections.gguf" "$TOKENS$(arr rope.dimension_sections i32 '1, 2, 3')" $KEYS \
        -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
        -k llama.block_count=3 -k llama.nextn_predict_layers=1 token_embd.weight:F16:64x3 $(blocks 2) $(nextn 2)
    made "$T/gates.gguf" "$TOKENS" $KEYS -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
        -k llama.expert_gating_func=1 \
        -k llama.block_count=3 -k llama.nextn_predict_layers=1 token_embd.weight:F16:64x3 $(blocks 2) $(nextn 2)
}
refuse "rope.dimension_sections differs" turn.gguf sections.gguf
refuse "expert_gating_func differs: base 2, donor 1" turn.gguf gates.gguf
# An array that only the base has, and another without one value per block.
# shellcheck disable=SC2046,SC2086
{
    made "$T/only.gguf" "$TOKENS$(arr attention.recurrent_layers bool 'true, true, false, false')" $KEYS \
        -k llama.attention.head_count_kv=2 -k llama.feed_forward_length=128 \
        -k llama.block_count=4 token_embd.weight:F16:64x3 $(blocks 4)
    made "$T/short.gguf" "$TOKENS$(arr attention.head_count_kv u32 '2, 2, 2')" $KEYS -k llama.feed_forward_length=128 \
        -k llama.block_count=4 token_embd.weight:F16:64x3 $(blocks 4)
}
refuse "recurrent_layers has one value per block in $T/only.gguf, but not in this model" only.gguf d2.gguf
refuse "attention.head_count_kv has 3 values for 4 blocks" short.gguf d2.gguf
for option in --add --skip-mismatched; do
    check_error 2 "--mtp" "with $option" organ-transplant --base "$T/deep.gguf" --donor "$T/d2.gguf" \
        --mtp $option --output "$T/c.gguf"
done
check_error 2 "--mtp" "with a selection" organ-transplant --base "$T/deep.gguf" --donor "$T/d2.gguf" \
    --mtp --layers 1 --output "$T/c.gguf"
finish
