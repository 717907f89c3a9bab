#!/bin/sh
# shellcheck disable=SC1091
# parts.sh - the same block number in several parts of a model: selections, tables,
# summaries, pictures and reports tell them apart; names that no rule knows are named.
. "$(dirname "$0")/lib.sh"
M=$T/m.gguf
mkmodel "$M" token_embd.weight:F32:32x8 blk.1.attn_q.weight:F32:32x32 v.blk.1.attn_q.weight:F32:32x32 \
    a.blk.1.attn_q.weight:F32:32x32 enc.blk.1.attn_q.weight:F32:32x32 dec.blk.1.attn_q.weight:F32:32x32 \
    double_blocks.1.img_attn.qkv.weight:F32:32x32 single_blocks.1.linear1.weight:F32:32x32 \
    v.patch_embd.weight.1:F32:32x4 mm.input_norm.weight:F32:32 blk.1.ffn_up.weight.in_sum2:F32:32 \
    blk.1.attn_q.weight.lora_a:F32:32x4 mystery.weight:F32:32 "odd	name:F32:32"

names() { # OPTION...
    organ-extract -q "$M" --list "$@" 2> "$T/err" | cells name | sed 1d | tr '\n' ' '
}
check_text "$(names --part vision)" "v.blk.1.attn_q.weight v.patch_embd.weight.1 mm.input_norm.weight " "--part vision"
check_text "$(names --part encoder,decoder)" "enc.blk.1.attn_q.weight dec.blk.1.attn_q.weight " "--part with two items"
check_text "$(names --part Text --layers 1)" "blk.1.attn_q.weight " "--part and --layers"
check_text "$(names --part diffusion)" "double_blocks.1.img_attn.qkv.weight single_blocks.1.linear1.weight " \
    "--part diffusion"
check_text "$(names --part imatrix --type ffn)" "blk.1.ffn_up.weight.in_sum2 " \
    "an entry of an importance matrix has the class of its tensor"
check_text "$(names --part adapter)" "blk.1.attn_q.weight.lora_a " "--part adapter"
check_text "$(names --type Attention --part audio)" "a.blk.1.attn_q.weight " "--type with an alias"
check_text "$(names --type normalization)" "mm.input_norm.weight " "--type normalization"
check_error 2 "text, vision, audio" "an unknown part" organ-extract "$M" --list --part brain
check_error 1 "part" "a part that the model lacks" organ-extract "$LAB/lab-verse-q4_k_m.gguf" --list --part vision

# Every tool that selects takes it, with the same meaning.
check_text "$(organ-measure "$M" --part audio | cells name,part | sed 1d)" "a.blk.1.attn_q.weight${TAB}audio" \
    "organ-measure --part, and its column"
check_text "$(organ-measure "$M" | head -n 1 | cells part)" part "part is the last column"
check_text "$(organ-measure "$M" --json --part audio | grep -c '"part": "audio"')" 1 "part in JSON"
check_text "$(organ-compare "$M" "$M" --part decoder | cells name | sed 1d)" dec.blk.1.attn_q.weight \
    "organ-compare --part"
check_text "$(organ-transplant --base "$M" --donor "$M" --part vision --type embed --check 2> /dev/null | grep \
    -c 'v.patch_embd')" 1 "organ-transplant --part"
check "organ-purify --part" organ-purify "$M" --method haar --part audio --dry-run
check_text "$(cells name "$T/out" | sed 1d)" a.blk.1.attn_q.weight "organ-purify --part: its rows"

# Roles of different parts are different groups.
organ-measure "$M" --summary > "$T/summary"
check_text "$(awk -F '\t' "$BY_NAME"'col("group") == "role" && col("name") == "attn_q" {
    printf "%s:%s ", col("tensors"), col("part") }' "$T/summary")" \
    "1:text 1:vision 1:audio 1:encoder 1:decoder " "a role of five parts in the summary"
check_text "$(awk -F '\t' "$BY_NAME"'col("group") != "role" && NR > 1 &&
    col("part") != "-"' "$T/summary")" "" "other groups have no part"
check_text "$(organ-measure "$LAB/lab-verse-q4_k_m.gguf" --summary |
    awk -F '\t' "$BY_NAME"'col("group") == "role" { print col("part") }' | sort \
    -u)" text "a text model has one part"

# Pictures have a row for each.
organ-measure "$M" --svg - > "$T/p.svg"
for row in "v\.attn_q" "a\.attn_q" "enc\.attn_q" "double_blocks\.img_attn\.qkv"; do
    if grep -q ">$row<" "$T/p.svg" || sed 's/<[^>]*>//g' "$T/p.svg" | grep -q "$row"; then ok; else \
        bad "no row $row in the picture"; fi
done
if [ -z "${SANITIZED:-}" ]; then
    check "a report" "$PWD/scripts/organ-report" --output "$T/report" "$M"
    for row in v.attn_q double_blocks.img_attn.qkv; do
        if grep -qF "$row" "$T/report/"*.html; then ok; else bad "no row $row in the report"; fi
    done
fi

# What no rule knows: counted in a note, named with -v.
organ-extract "$M" --list > /dev/null 2> "$T/err"
if grep -q 'covers their names: 2 (-v lists them)$' "$T/err"; then ok; else bad "the note: $(cat "$T/err")"; fi
organ-extract -v "$M" --list > /dev/null 2> "$T/err"
if grep -q "tensor 'mystery.weight' has a name" "$T/err" && grep -qF "tensor 'odd\\tname" "$T/err"; then ok; else \
    bad "-v: $(cat "$T/err")"; fi
check_text "$(organ-extract -v "$M" --list --part vision 2>&1 > /dev/null | grep -c 'no rule of the anatomy')" 0 \
    "only of selected tensors"

# It comes back to the byte through a directory, part by part.
check "extract" organ-extract -q "$M" --output "$T/d"
check "assemble" organ-assemble "$T/d" --output "$T/back.gguf"
check_same "$T/back.gguf" "$M" "extract and assemble"
finish
