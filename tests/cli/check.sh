#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2015,SC2016,SC2043
# check.sh - organ-check: sound models, each rule on a model that breaks it, the weights,
# sources of every kind, incomplete files, hash lists; and what writing tools note.
. "$(dirname "$0")/lib.sh"
V=$LAB/lab-verse-q4_k_m.gguf
HEAD="model${TAB}level${TAB}rule${TAB}where${TAB}message"

# finds LEVEL RULE WHERE WHAT MODEL [OPTION...]: such a row, and the exit status it calls for.
finds() {
    f_level=$1 f_rule=$2 f_where=$3 f_what=$4 f_model=$5
    shift 5
    organ-check -q "$@" "$f_model" > "$T/out" 2> "$T/err"
    f_got=$?
    if awk -F '\t' -v l="$f_level" -v r="$f_rule" -v w="$f_where" \
        "$BY_NAME"'NR > 1 && col("level") == l && col("rule") == r "" && col("where") == w { found = 1 } END {
            exit !found }' "$T/out"; then ok
    else bad "$f_what: no $f_level $f_rule at $f_where: $(sed 1d "$T/out" | head -n 3)"; fi
    case $f_level in error) f_want=1 ;; *) f_want=0 ;; esac
    if [ $f_got = $f_want ]; then ok; else bad "$f_what: exit $f_got, $f_want wanted"; fi
}
# edit NAME SED-SCRIPT: $T/NAME.gguf, from the directory of the verse model.
edit() {
    rm -rf "$T/d" && cp -r "$T/verse" "$T/d" && sed "$2" "$T/verse/manifest.json" > "$T/d/manifest.json" &&
        organ-assemble -q "$T/d" --output "$T/$1.gguf" --force 2> "$T/err" ||
        bad "$1 could not be made: $(cat "$T/err")"
}
key() { organ-keys -q "$V" --set "$2" --output "$T/$1.gguf" --force 2> "$T/err" || bad "$1: $(cat "$T/err")"; }

# ---- sound models -----------------------------------------------------------------------
for f in "$LAB"/*-q*.gguf; do
    check "$f" organ-check --data --strict "$f"
    check_text "$(cat "$T/out")" "$HEAD" "$f: no findings"
done
organ-extract -q "$V" --output "$T/verse" || bad "extract"
organ-assemble -q "$T/verse" --output "$T/s.gguf" --shards 3 || bad "shards"
for how in "organ-check $V $T/verse $T/s-00002-of-00003.gguf" \
    "organ-check --data - < $V" "organ-check -j 7 --data $T/verse"; do
    check "$how" sh -c "$how"
    check_text "$(cat "$T/out")" "$HEAD" "$how: no findings"
done
check "a pipe" sh -c "organ-check - < $V"
check_text "$(cells level,rule,message "$T/out" | sed 1d)" \
    "note${TAB}unchecked${TAB}only the header of a pipe was read" \
    "the header of a pipe is not the whole"
check_exit 1 "a pipe, strictly" sh -c "organ-check --strict - < $V"
# Of two shards, one alone is not an incomplete file.
organ-assemble -q "$V" --output "$T/two.gguf" --shards 2 || bad "two shards"
rm "$T/two-00002-of-00002.gguf"
finds error split - "a shard is missing" "$T/two-00001-of-00002.gguf"
check "json" organ-check --json "$V"
check_text "$(cat "$T/out")" "" "json: no rows"
check "verbose" organ-check -v "$V"
check_text "$(cat "$T/err")" "organ-check: $V: no findings: llama, 39 tensors" "verbose"
check_text "$(organ-check -qv "$V" 2>&1)" "$HEAD" "-q says nothing"

# ---- each rule -------------------------------------------------------------------------------
edit noblock '/"name": "blk\.2\./d'
finds error block-missing "block 2" "a block is missing" "$T/noblock.gguf"
edit lacks '/"name": "blk\.1\.ffn_up\./d'
finds error tensor-missing blk.1.ffn_up.weight "a tensor is missing" "$T/lacks.gguf"
check_text "$(grep -c '' "$T/out")" 2 "and nothing else is reported"
finds error tensor-missing blk.1.ffn_up.weight "a tensor is missing in a directory" "$T/d"
organ-transplant -q --base "$V" --donor "$V" --set-kv llama.block_count=u32:5 --tensors output_norm.weight \
    --no-strict --output "$T/five.gguf" || bad "five"
finds error block-missing "block 4" "block_count is too large" "$T/five.gguf"
limited 20 organ-keys -q "$V" --set llama.block_count=u64:18446744073709551615 --output "$T/blocks.gguf" 2> "$T/err"
limited 20 organ-check -q "$T/blocks.gguf" > "$T/out" 2> "$T/err"
grep -q "18446744073709551611 blocks are missing in total" "$T/out" && ok ||
    bad "a huge block_count: $(tail -n 1 "$T/out")"
key three llama.block_count=u32:3
finds error block-count - "block_count is too small" "$T/three.gguf"
key heads llama.attention.head_count_kv=u32:3
finds error heads llama.attention.head_count_kv "heads" "$T/heads.gguf"
finds error tensor-shape blk.0.attn_k.weight "and the shapes" "$T/heads.gguf"
key ff 'llama.feed_forward_length=u32[]:512,512,512'
finds error layer-array llama.feed_forward_length "an array that is short" "$T/ff.gguf"
key ffok 'llama.feed_forward_length=u32[]:512,512,512,512'
check "an array of the right length" organ-check "$T/ffok.gguf"
key rope llama.rope.dimension_count=u32:32
finds error rope llama.rope.dimension_count "RoPE" "$T/rope.gguf"
key experts llama.expert_used_count=u32:2
finds error experts llama.expert_used_count "experts" "$T/experts.gguf"
key u64 llama.block_count=u64:4
finds error key-type llama.block_count "a type" "$T/u64.gguf"
for pair in llama.attention.causal=u32:1 tokenizer.ggml.add_bos_token=u32:1 llama.rope.freq_base=u32:10000 \
    llama.expert_count=i32:0 \
    tokenizer.ggml.bos_token_id=u64:1 'llama.attention.head_count=u32[]:4,4,4,4,4' \
    'llama.attention.head_count=f32[]:4,4,4,4' general.name=u32:1; do
    key typed "$pair"
    rule=key-type
    case $pair in *4,4,4,4,4) rule=layer-array ;; esac
    finds error $rule "${pair%%=*}" "$pair" "$T/typed.gguf"
done
for pair in rope.freq_base=f32:0 rope.freq_base=f32:inf attention.layer_norm_rms_epsilon=f32:-1 \
    attention.layer_norm_rms_epsilon=f32:nan rope.scaling.factor=f32:-2 attention.scale=f32:nan; do
    key useless "llama.$pair"
    finds warning key-value "llama.${pair%%=*}" "$pair" "$T/useless.gguf"
done
for pair in attention.layer_norm_rms_epsilon=f32:0 rope.scaling.factor=f32:0 logit_scale=f32:-1; do
    key useful "llama.$pair"
    check_text "$(organ-check -q "$T/useful.gguf" | grep -c key-value)" 0 "$pair is used"
done
for pair in llama.attention.sliding_window=u64:1 llama.expert_gating_func=f32:1 \
    'llama.rope.dimension_sections=u32[]:1,2' 'llama.attention.head_count=bool[]:true,true,true,true'; do
    key unread "$pair"
    organ-check -q "$T/unread.gguf" > "$T/out"
    check_text "$(grep -Ec 'key-type|layer-array' "$T/out")" 0 "$pair is not read, or read so"
done
# Keys that only some architectures read.
for pair in gpt2/attention.layer_norm_rms_epsilon/0 llama/attention.layer_norm_rms_epsilon/1 \
    rwkv6/attention.layer_norm_rms_epsilon/1 llama/attention.clamp_kqv/0 mpt/attention.clamp_kqv/1 \
    llama/use_parallel_residual/0 gptneox/use_parallel_residual/1; do
    a=${pair%%/*} k=${pair#*/}
    organ-keys -q "$V" --set general.architecture=str:$a --set "$a.${k%/*}=f64:1" --output "$T/some.gguf" --force
    check_text "$(organ-check -q "$T/some.gguf" | grep -c "key-type${TAB}$a.${k%/*}${TAB}")" "${k#*/}" "$pair: f64"
done
key negative 'llama.attention.head_count_kv=i32[]:2,-2,2,2'
finds error key-value llama.attention.head_count_kv "a negative number of heads" "$T/negative.gguf"
for pair in 0,0,0,0/1 0,0,0,4/1 4,-4,0,0/1 9,4,4,0/1 4,4,2,0/0 9,4,3,0/0; do
    organ-keys -q "$V" --set general.architecture=str:qwen2vl --set qwen2vl.embedding_length=u32:64 \
        --set qwen2vl.attention.head_count=u32:4 --set "qwen2vl.rope.dimension_sections=i32[]:${pair%/*}" \
        --output "$T/sections.gguf" --force || bad "qwen2vl"
    check_text "$(organ-check -q "$T/sections.gguf" | awk -F '\t' "$BY_NAME"'col("rule") == "rope" &&
        col("where") ~ /sections/' | wc -l | tr -d ' ')" "${pair#*/}" "sections of RoPE: ${pair%/*}"
done
for pair in t5/0 qwen2/1; do # t5 has no RoPE
    a=${pair%/*}
    organ-keys -q "$V" --set general.architecture=str:$a --set $a.embedding_length=u32:64 \
        --set $a.attention.head_count=u32:4 \
        --set $a.rope.dimension_count=u32:64 --output "$T/rot.gguf" --force || bad "$a"
    check_text "$(organ-check -q "$T/rot.gguf" | awk -F '\t' "$BY_NAME"'col("rule") == "rope"' |
        grep -c '')" "${pair#*/}" "RoPE of $a"
done
key noheads llama.attention.head_count=u32:0
finds error tensor-shape blk.0.attn_q.weight "no heads" "$T/noheads.gguf"
mkmodel "$T/plm.gguf" blk.0.attn_norm.weight:F32:32 && organ-keys -q "$T/plm.gguf" --set general.architecture=str:plm \
    -o "$T/plm2.gguf" && organ-check "$T/plm2.gguf" > "$T/out"
grep -q "loads plm, and crashes when it is used" "$T/out" || bad "an architecture on which the engine crashes"
# Types that engines load, and crash on: a note when written, an error when checked.
for pair in blk.1.ffn_up.weight=f64 blk.1.ffn_norm.weight=f16 output_norm.weight=bf16; do
    organ-assemble "$V" --dtype "$pair" --output "$T/typed.gguf" --force 2> "$T/note" || bad "$pair"
    check_text "$(grep -c "check: ${pair%=*}: .*crash" "$T/note")" 1 "a note about $pair"
    finds error tensor-type "${pair%=*}" "$pair" "$T/typed.gguf"
done
organ-assemble -q "$V" --dtype "blk.1.ffn_up.weight=f16" --output "$T/typed.gguf" --force
check "a matrix in F16" organ-check --strict "$T/typed.gguf"
key arch general.architecture=str:lama
finds error architecture general.architecture "an architecture" "$T/arch.gguf"
finds error key-missing lama.block_count "whose keys are missing" "$T/arch.gguf"
key eos tokenizer.ggml.eos_token_id=u32:5000
finds warning special-token tokenizer.ggml.eos_token_id "a special token" "$T/eos.gguf"
tokens=$(organ-keys "$V" tokenizer.ggml.tokens | awk -F '\t' "$BY_NAME"'NR == 2 { print col("count") }')
key first tokenizer.ggml.eos_token_id=u32:"$tokens"
finds warning special-token tokenizer.ggml.eos_token_id "the first token that does not exist" "$T/first.gguf"
key last tokenizer.ggml.eos_token_id=u32:$((tokens - 1))
check "the last token" organ-check --strict "$T/last.gguf"
check_exit 1 "a warning under --strict" organ-check --strict "$T/eos.gguf"
m=tokenizer.ggml.merges
key merges "$m=str[]:< unk>,ab,<0x 01>,zz zz"
finds warning merges $m "a merge without a space" "$T/merges.gguf"
check_text "$(grep -c '1 of 4 merges are not two tokens' "$T/out")" 1 "how many have no space"
finds note merges $m "a merge without its token" "$T/merges.gguf"
check_text "$(grep -c '1 of 4 merges produce a token that the vocabulary lacks' "$T/out")" 1 \
    "how many lack their token"
key merges "$m=str[]:< unk>,zz zz,<0x 01>,yy yy,zz yy"
finds warning merges $m "most merges without their tokens" "$T/merges.gguf"
key merges "$m=str[]:< unk>,<0x 01>"
organ-check -q "$T/merges.gguf" > "$T/out"
check_text "$(grep -c merges "$T/out")" 0 "sound merges"
key merges "$m=u32[]:1,2"
finds error vocabulary $m "merges that are numbers" "$T/merges.gguf"
key model tokenizer.ggml.model=str:abacus
finds error tokenizer tokenizer.ggml.model "a tokenizer" "$T/model.gguf"
sed '/"key": "general.name"/s/.*/    {"key": "split.count", "type": "u16", "value": 2},/' \
    "$T/verse/manifest.json" > "$T/m"
rm -rf "$T/d" && cp -r "$T/verse" "$T/d" && cp "$T/m" "$T/d/manifest.json"
finds error split split.count "split keys" "$T/d"
organ-extract -q $D/gguf/x-00001-of-00003.gguf --output "$T/set" || bad "a set"
organ-check -q "$T/set" | grep -q 'split' && bad "a sound set has a finding" || ok
sed '/^  "tensors": \[/{n;d;}' "$T/set/manifest.json" > "$T/m" && cp "$T/m" "$T/set/manifest.json"
finds error split split.tensors.count "a set that lost a tensor" "$T/set"
for v in 48 0; do
    sed "/\"key\": \"general.name\"/s/.*/    {\"key\": \"general.alignment\", \"type\": \"u32\", \"value\": $v},/" \
        "$T/verse/manifest.json" > "$T/m"
    rm -rf "$T/d" && cp -r "$T/verse" "$T/d" && cp "$T/m" "$T/d/manifest.json"
    finds error alignment general.alignment "alignment $v" "$T/d"
done
mkmodel "$T/half.gguf" t.weight.lora_a:F32:8x4 t.weight.lora_b:F32:4x6 u.weight.lora_a:F32:8x4 \
    u.weight.lora_b:F32:5x6 v.weight.lora_b:F32:4x6 token_embd.weight.lora_a:F32:4x9 token_embd.weight.lora_b:F32:4x8
organ-keys -q "$T/half.gguf" --set general.type=str:adapter --set adapter.type=str:lora \
    --set general.architecture=str:llama --set adapter.lora.alpha=f32:4 --output "$T/adapter.gguf" || bad "adapter"
finds error adapter u.weight.lora_a "halves of different ranks" "$T/adapter.gguf"
finds error adapter v.weight.lora_b "a half alone" "$T/adapter.gguf"
if grep -q token_embd "$T/out"; then bad "the halves for token_embd have the other form"; else ok; fi
check_text "$(cells rule "$T/out" | grep -c adapter)" 2 "and nothing else about the pairs"

# ---- a draft and its target ---------------------------------------------------------------------
# fits WHAT WHERE HEAD: where the findings of the rule "target" are, with the verse model as target.
fits() { check_text "$(organ-check -q "$3" --target "$V" 2> "$T/err" |
    awk -F '\t' "$BY_NAME"'col("rule") == "target" { printf "%s ", col("where") }')" "$2" "$1"; }
EAGLE="--set general.architecture=str:eagle3 --set eagle3.block_count=u32:1 --set eagle3.embedding_length=u32:64"
head_of() { # HIDDEN LAYERS [OPTION...]: an eagle head with the keys of the verse model
    h_hidden=$1 h_layers=$2
    shift 2
    organ-keys -q "$V" $EAGLE --set eagle3.target_hidden_size=u32:$h_hidden \
        --set "eagle3.target_layers=i32[]:$h_layers" "$@" --output "$T/head.gguf" --force || bad "head"
}
fits "a model drafts for itself" "" "$V"
head_of 256 0,2,4
fits "a head that fits" "" "$T/head.gguf"
head_of 256 0,2
finds error key-value eagle3.target_layers "two layers instead of three" "$T/head.gguf"
head_of 128 0,2,5
fits "the wrong hidden size and layers" "eagle3.target_hidden_size eagle3.target_layers " "$T/head.gguf"
head_of 256 0,2,4 --set tokenizer.ggml.eos_token_id=u32:3 --set tokenizer.ggml.add_bos_token=bool:true
fits "other special tokens" "tokenizer.ggml.eos_token_id tokenizer.ggml.add_bos_token " "$T/head.gguf"
sed 's/"<0x02>"/"<0x_2>"/; s/"<0x01>"/"<0x_1>"/' "$T/verse/manifest.json" > "$T/m" &&
    rm -rf "$T/d" && cp -r "$T/verse" "$T/d" && cp "$T/m" "$T/d/manifest.json"
fits "another token" "tokenizer.ggml.tokens " "$T/d"
check_text "$(organ-check -q "$T/d" --target "$V" | cells message | tail -n 1)" \
    "token 5 is another one than in the target" "which one"
# d2t has four numbers, at the end of the file
eagle() { mkmodel "$T/e.gguf" $1 d2t:I64:4 && head -c "$(($(wc -c < "$T/e.gguf") - 32))" "$T/e.gguf" > "$T/e2.gguf" &&
    printf '%b' "$2" >> "$T/e2.gguf" && organ-keys -q "$T/e2.gguf" $EAGLE --output "$T/head.gguf" --force ||
    bad "d2t"; }
zeros='\0000\0000\0000\0000\0000\0000'
eagle "token_embd.weight:F32:64x8 output.weight:F32:64x4" \
    "\\0001\\0000$zeros\\0377\\0003$zeros\\0002\\0000$zeros\\0000\\0000$zeros"
fits "d2t within the vocabulary" "" "$T/head.gguf"
eagle "token_embd.weight:F32:64x8 output.weight:F32:64x4" \
    "\\0001\\0000$zeros\\0000\\0004$zeros\\0002\\0000$zeros\\0000\\0000$zeros"
fits "d2t past its end" "d2t " "$T/head.gguf"
check_text "$(organ-check -q "$T/head.gguf" --target "$V" |
    awk -F '\t' "$BY_NAME"'col("rule") == "target" { print col("message") }')" \
    "number 1 is 1024, but the target has 1024 tokens" "which one"
eagle "output.weight:F32:64x5" "\\0001\\0000$zeros\\0000\\0000$zeros\\0002\\0000$zeros\\0003\\0000$zeros"
fits "d2t of another length, and an embedding to share" "eagle3.embedding_length " "$T/head.gguf"
finds error tensor-shape d2t "d2t of another length" "$T/head.gguf"
organ-check "$V" --target "$T/no-such.gguf" > "$T/out" 2> "$T/err"
check_text "$? $(grep -c no-such.gguf "$T/err")" "4 1" "a target that is absent"

# ---- files of other kinds -----------------------------------------------------------------------
# kind WORD MODEL WORDS [REASON]: a note of the rule kind names it, and another says why it was not checked; it
# is an error only as a model, and nothing else is found.
kind() {
    why=${4:-}
    check "$3" organ-check -q "$2"
    check_text "$(cells level,rule,message "$T/out" | sed 1d)" "note${TAB}kind${TAB}this is $3${why:+
note${TAB}unchecked${TAB}$why}" "$3: the only finding"
    check_exit $((${#why} > 0)) "$1 --strict" organ-check -q --strict "$2"
    check "--as $1" organ-check -q --as "$1" "$2"
    finds error kind - "$1 --as model" "$2" --as model
    grep -qF "it is not of the kind 'model': this is $3" "$T/out" && ok || bad "$1 --as model: $(cat "$T/out")"
    finds error kind - "a model --as $1" "$V" --as "$1"
}
# only WHERE LEVEL RULE KEYS...: the lab adapter or importance matrix, with a change.
only() {
    o_where=$1 o_level=$2 o_rule=$3 o_from=$4
    shift 4
    organ-keys -q "$o_from" "$@" --output "$T/only.gguf" --force 2> "$T/err" || bad "$*: $(cat "$T/err")"
    organ-check -q "$T/only.gguf" | cells level,rule,where | sed 1d > "$T/out"
    check_text "$(cat "$T/out")" "note${TAB}kind${TAB}-
$o_level${TAB}$o_rule${TAB}$o_where" "$*"
}
A=$LAB/lab-lora-code.gguf I=$LAB/lab-verse.imatrix.gguf
kind adapter "$A" "an adapter: engines apply it to its base"
kind imatrix "$I" "an importance matrix: it tells how to quantize a model"
organ-keys -q "$V" --set general.type=str:mmproj --output "$T/mmproj.gguf"
note="this is a projector: engines load it beside its language model"
check_exit 1 "a projector without its keys" organ-check -q "$T/mmproj.gguf"
grep -q "$note" "$T/out" && grep -q "neither this key nor clip.has_audio_encoder is true" "$T/out" && ok ||
    bad "a projector without its keys: $(cat "$T/out")"
# A vocoder has blocks under names of their own, as many as a key tells.
mkmodel "$T/w.gguf" -k wavtokenizer-dec.block_count=12 -k wavtokenizer-dec.convnext.block_count=12 \
    -k wavtokenizer-dec.posnet.block_count=6 -n 12 convnext.%.gamma.weight:F32:64 &&
    organ-keys -q "$T/w.gguf" --set general.architecture=str:wavtokenizer-dec -o "$T/wav.gguf" 2> /dev/null
organ-check "$T/wav.gguf" > "$T/out"
check_text "$(grep -c 'convnext\..*\.gamma' "$T/out") $(grep -c 'convnext.11.dw.weight.*missing' "$T/out")" "0 1" \
    "blocks with names of their own"
organ-keys -q "$T/wav.gguf" --set wavtokenizer-dec.convnext.block_count=11 -o "$T/wav11.gguf" 2> /dev/null
finds error tensor-unexpected convnext.11.gamma.weight "a block beyond the key" "$T/wav11.gguf"
organ-keys -q "$T/wav.gguf" --set wavtokenizer-dec.block_count=11 --force -o "$T/wav11.gguf" 2> /dev/null
finds error key-value wavtokenizer-dec.block_count "fewer blocks than those with names of their own" "$T/wav11.gguf"
# Keys and values of olmoe have a size of their own, as in other architectures.
mkmodel "$T/w.gguf" -k olmoe.block_count=1 -k olmoe.attention.head_count=4 -k olmoe.attention.head_count_kv=2 \
    -k olmoe.embedding_length=64 blk.0.attn_k.weight:F32:64x64 &&
    organ-keys -q "$T/w.gguf" --set general.architecture=str:olmoe -o "$T/olmoe.gguf" 2> /dev/null
finds error tensor-shape blk.0.attn_k.weight "rows of all heads" "$T/olmoe.gguf"
mkmodel "$T/vector.gguf" direction.1:F32:256 &&
    organ-keys -q "$T/vector.gguf" --set general.architecture=str:controlvector --output "$T/control.gguf"
kind control-vector "$T/control.gguf" "a control vector: engines add it to a model"
organ-compare -q "$V" $LAB/lab-code-q4_k_m.gguf --patch "$T/code.patch" > /dev/null 2>&1
kind patch "$T/code.patch" "a patch: apply it to its base to get a model" "a patch is judged by its result"
kind records "$(echo "$T"/verse/*/output_norm.bin)" "organ records without keys: graft them, or assemble a directory" \
    "organ records have no keys"
check_exit 2 "an unknown kind" organ-check --as modell "$V"
head -c 9000 "$I" > "$T/cut.imatrix"
check_exit 1 "the header of an importance matrix" organ-check "$T/cut.imatrix"
check_text "$(cells level,rule "$T/out" | sed 1d | tr '\t\n' ' ;')" "error incomplete;note unchecked;note kind;" \
    "the header of an importance matrix: findings"
organ-check - < "$A" > "$T/out" 2> "$T/err"
check_text "$? $(cells rule "$T/out" | sed 1d)" "0 unchecked
kind" "an adapter on a pipe"
only adapter.type error adapter "$A" --delete adapter.type
only adapter.type error adapter "$A" --set adapter.type=str:dora
only general.architecture error adapter "$A" --delete general.architecture
only general.architecture error adapter "$A" --set general.architecture=str:lama
only adapter.lora.alpha warning adapter "$A" --delete adapter.lora.alpha
only adapter.lora.alpha error adapter "$A" --set adapter.lora.alpha=f64:16
for row in 29:counts 33:in_sum2; do # the sign of its last values
    cp "$I" "$T/below.imatrix"
    printf '\277' | dd of="$T/below.imatrix" bs=1 seek=$(($(wc -c < "$I") - ${row%:*})) conv=notrunc 2> /dev/null
    organ-check -q --data "$T/below.imatrix" | cells level,rule,where | sed 1d > "$T/out"
    check_text "$(grep -v kind "$T/out")" "error${TAB}imatrix${TAB}output.weight.${row#*:}" "${row#*:} below 0"
done
only imatrix.chunk_size error imatrix "$I" --delete imatrix.chunk_size
sed 's/blk\.0\.attn_q\.weight\.counts/blk.0.attn_q.weight.countz/' "$I" > "$T/pair.imatrix"
organ-check -q "$T/pair.imatrix" | cells rule,where | sed 1d > "$T/out"
check_text "$(cat "$T/out")" "kind${TAB}-
imatrix${TAB}blk.0.attn_q.weight.in_sum2
imatrix${TAB}blk.0.attn_q.weight.countz" "a half without its other half"
check "what writes an adapter does not refuse it" organ-keys "$A" --set general.name=str:x \
    --output "$T/named.gguf" --strict
check_text "$(cat "$T/err")" "" "and notes nothing"

key ftype general.file_type=u32:7
finds note file-type general.file_type "a file type" "$T/ftype.gguf"
{ cat "$V" && printf abc; } > "$T/tail.gguf"
finds note trailing - "bytes after the data" "$T/tail.gguf"
check "extract bytes after the data" organ-extract "$T/tail.gguf" --output "$T/tail"
finds note trailing - "the same in an organ directory" "$T/tail"
check_text "$(organ-check --data - < "$V" | sed 1d)" "" "no bytes after the data of a pipe"
check_text "$(cat "$T/tail.gguf" | organ-check --data - | sed 1d | cut -f 3)" trailing "bytes after the data of a pipe"
organ-keys -q "$V" --delete llama.attention.layer_norm_rms_epsilon --output "$T/noeps.gguf"
finds error key-missing llama.attention.layer_norm_rms_epsilon "a key is missing" "$T/noeps.gguf"
edit dup 's/"<s>"/"<unk>"/'
finds error vocabulary-duplicate tokenizer.ggml.tokens "a token twice" "$T/dup.gguf"
mkmodel "$T/rows.gguf" token_embd.weight:F32:4x5
organ-keys -q "$T/rows.gguf" --set general.architecture=str:new --set 'tokenizer.ggml.tokens=str[]:a,b,c,d' \
    --output "$T/rows4.gguf"
finds error vocabulary token_embd.weight "another number of tokens in a new architecture" "$T/rows4.gguf"
sed 's/blk\.3\.ffn_up\.weight/blk.3.ffn_xx.weight/' "$V" > "$T/name.gguf"
organ-check -q "$T/name.gguf" > "$T/out"
check_text "$(cells rule,where "$T/out" | sed 1d | sort | tr '\t\n' '= ')" \
    "tensor-missing=blk.3.ffn_up.weight tensor-unexpected=blk.3.ffn_xx.weight " \
    "a misspelt name is missing and unexpected"

# An architecture whose table was learned, and properties that only the model itself can tell: one which no
# engine knows has no table, which a note tells.
for a in internlm2 mystery; do
    sed "s/llama\./$a./; s/\"value\": \"llama\"/\"value\": \"$a\"/" "$T/verse/manifest.json" > "$T/m" &&
        rm -rf "$T/other" && cp -r "$T/verse" "$T/other" && cp "$T/m" "$T/other/manifest.json"
    sed '/"key": "tokenizer.ggml.model"/s/"type": "str", "value": "internlm2"/"type": "str", "value": "llama"/' \
        "$T/m" > "$T/other/manifest.json"
    [ $a = mystery ] || check "$a" organ-check "$T/other"
    sed '/"name": "blk\.2\.attn_v\./d' "$T/other/manifest.json" > "$T/m" && cp "$T/m" "$T/other/manifest.json"
    if [ $a = mystery ]; then
        finds error block-roles "block 2" "$a: a block that lacks what the others have" "$T/other"
        grep -q "note.unchecked.*no table for mystery: only generic rules were applied" "$T/out" &&
            ok || bad "$a: no note about the table"
    else
        finds error tensor-missing blk.2.attn_v.weight "$a: a tensor is missing" "$T/other"
        grep -q "no table" "$T/out" && bad "$a: has a table" || ok
    fi
done

# ---- chat templates ---------------------------------------------------------------------------
organ-keys -q "$V" --set 'tokenizer.chat_template=str:<|im_start|>user<|im_end|>' --output "$T/chat.gguf" || bad "chat"
finds warning chat-template tokenizer.chat_template "a template with tokens that are not there" "$T/chat.gguf"
grep -q "2 special tokens that the vocabulary lacks, and that become plain text: <|im_start|> <|im_end|>" "$T/out" &&
    ok || bad "chat: $(cat "$T/out")"
rm -rf "$T/other" && cp -r "$T/verse" "$T/other"
sed 's/"<0x41>"/"<|im_end|>"/' "$T/verse/manifest.json" > "$T/other/manifest.json"
organ-assemble -q "$T/other" --set-kv 'tokenizer.chat_template=str:user<|im_end|>' -o "$T/turn.gguf" --force ||
    bad "turn"
finds warning chat-template tokenizer.ggml.eos_token_id "a template that ends turns with another token" "$T/turn.gguf"
grep -q "the template ends a turn with token 68 (<|im_end|>), but no key for an end of text has it" "$T/out" && ok ||
    bad "turn: $(cat "$T/out")"
organ-keys -q "$V" --set 'tokenizer.chat_template=str:hello' --output "$T/plain.gguf" || bad "plain"
check "a template without special tokens" organ-check "$T/plain.gguf"
check_text "$(cat "$T/out")" "$HEAD" "a template without special tokens: no findings"

# ---- files that do not open ---------------------------------------------------------------------
head -c 1000000 "$V" > "$T/cut.gguf"
finds error incomplete blk.2.attn_v.weight "an incomplete file" "$T/cut.gguf"
grep -q "note.unchecked.*only the header was checked" "$T/out" && ok || bad "an incomplete file: $(cat "$T/out")"
check "the header on a pipe" sh -c "head -c 100000 $V | organ-check -"
check_exit 3 "its data on a pipe" sh -c "head -c 100000 $V | organ-check --data -"
echo "<!DOCTYPE html>" > "$T/page.gguf"
check_exit 3 "no GGUF" organ-check "$T/page.gguf" "$V"
check_text "$(cells level,rule "$T/out" | sed 1d | tr '\t' ' ')" "error format" "no GGUF: a row"
check_exit 1 "errors in one of two" organ-check "$T/lacks.gguf" "$V"
check_error 4 "nowhere.gguf" "no file" organ-check "$T/nowhere.gguf"
rm -f "$T/s-00001-of-00003.gguf"
finds error split - "a shard alone" "$T/s-00002-of-00003.gguf"

# ---- the weights ----------------------------------------------------------------------------------
set -- blk.0.a.weight:F32:64x8 blk.1.a.weight:F32:64x8 blk.2.a.weight:F32:64x8
mkmodel "$T/w.gguf" "$@"
start=$(organ-extract --list "$T/w.gguf" |
    awk -F '\t' "$BY_NAME"'col("name") == "blk.1.a.weight" { print col("offset") }')
size=$(wc -c < "$T/w.gguf")
at=$((size - 3 * 2048 + start))
patch() { cp "$T/w.gguf" "$T/$1.gguf" && printf "$2" |
    dd of="$T/$1.gguf" bs=1 seek=$(($3)) conv=notrunc 2> /dev/null; }
data() { # LEVEL RULE WHERE FILE: such a row (the model lacks all keys, so there are others)
    organ-check -q --data "$T/$4.gguf" | awk -F '\t' -v l="$1" -v r="$2" \
        -v w="$3" "$BY_NAME"'col("level") == l && col("rule") == r "" && col("where") == w { f = 1 } END {
            exit !f }' && ok || bad "$4: no $1 $2 at $3"
}
patch nan '\000\000\300\177' "$at + 40"
data error nan blk.1.a.weight nan
patch inf '\000\000\200\377' "$at + 2044"
data error infinite blk.1.a.weight inf
mkmodel "$T/plain.gguf" blk.0.Z.weight:F32:64x8
LC_ALL=C tr Z '\000' < "$T/plain.gguf" > "$T/nul.gguf"
organ-check -q --data "$T/nul.gguf" > "$T/out"
check_text "$(grep -c 'name contains a zero byte' "$T/out")" 1 "a zero byte in a name"
cp "$T/w.gguf" "$T/zero.gguf" && dd if=/dev/zero of="$T/zero.gguf" bs=1 seek=$at count=2048 conv=notrunc 2> /dev/null
data warning zeros blk.1.a.weight zero
cp "$T/w.gguf" "$T/row.gguf" && dd if=/dev/zero of="$T/row.gguf" bs=1 seek=$((at + 1792)) \
    count=256 conv=notrunc 2> /dev/null
data note dead-rows blk.1.a.weight row
cp "$T/w.gguf" "$T/same.gguf" && dd if="$T/w.gguf" of="$T/same.gguf" bs=1 skip=$((at - 2048)) \
    seek=$((at + 2048)) count=2048 conv=notrunc 2> /dev/null
data note repeated-block "block 2" same
# Engines divide by the factors of RoPE.
for row in 'rope_freqs 0 0000:0000' 'rope_freqs -1 0200:0277' 'rope_freqs 1 0200:0077' \
    'rope_factors_long 0 0000:0000' 'rope_factors_short 0 0000:0000'; do
    set -- $row
    mkmodel "$T/$1.gguf" $1.weight:F32:8
    x="\\0000\\0000\\${3%:*}\\${3#*:}"
    want="error${TAB}rope${TAB}its smallest value is $2; engines divide angles by each, so that all must be above 0"
    { head -c $(($(wc -c < "$T/$1.gguf") - 32)) "$T/$1.gguf"
        printf '%b' "$x$x$x$x$x$x$x$x"; } > "$T/factors.gguf"
    [ "$2" = 1 ] && want=''
    check_text "$(organ-check -q --data "$T/factors.gguf" | awk -F"$TAB" -v w="$1.weight" "$BY_NAME"'
        col("where") == w && (col("rule") == "rope" || col("rule") == "zeros") {
            print col("level") "\t" col("rule") "\t" col("message") }')" "$want" "$1 of $2"
done
organ-check -q --data "$T/w.gguf" | grep -E 'nan|infinite|zeros|dead|repeated' &&
    bad "random weights are called bad" || ok
for f in nan inf zero row same; do
    organ-check -q -j 1 --data "$T/$f.gguf" | without model > "$T/one"
    organ-check -q -j 7 --data "$T/$f.gguf" | without model > "$T/seven"
    check_same "$T/one" "$T/seven" "$f: the same with seven threads"
    organ-check -q --data - < "$T/$f.gguf" | without model > "$T/piped"
    check_same "$T/one" "$T/piped" "$f: the same from a pipe"
done

# ---- hash lists -----------------------------------------------------------------------------------
organ-check --hash "$V" > "$T/list" || bad "--hash"
if have sha256sum "hashes compared with those of sha256sum"; then
    check_text "$(awk -F '\t' "$BY_NAME"'col("kind") == "file" {
        print col("sha256") }' "$T/list")" "$(sha256sum "$V" | cut -d ' ' -f 1)" \
        "the file's hash is that of sha256sum"
fi
organ-assemble -q "$T/verse" --output "$T/h.gguf" --shards 3 --force
for m in "$V" "$T/verse"; do check "verify $m" organ-check --verify "$T/list" "$m"; done
check "verify a pipe" sh -c "organ-check --verify $T/list - < $V"
# differs WHAT RULES MODEL: exit 1, and these places
differs() {
    check_exit 1 "$1" organ-check --verify "$T/list" "$3"
    check_text "$(cells where "$T/out" | sed 1d | tr '\n' ' ')" "$2" "$1: the places"
}
organ-keys -q "$V" --set general.name=str:x --output "$T/k1.gguf"
differs "a changed key" "general.name k1.gguf " "$T/k1.gguf"
organ-keys -q "$V" --rename general.name=general.title --output "$T/k2.gguf"
differs "a renamed key" "general.title k2.gguf " "$T/k2.gguf"
grep -q "in the list it is general.name" "$T/out" && ok || bad "a renamed key is not recognised"
cp "$T/name.gguf" "$T/t1.gguf"
differs "a renamed tensor" "blk.3.ffn_xx.weight t1.gguf " "$T/t1.gguf"
cp "$V" "$T/t2.gguf" && printf 'x' >> "$T/t2.gguf"
differs "a byte behind the data" "t2.gguf " "$T/t2.gguf"
cp "$V" "$T/t3.gguf" && printf 'x' | dd of="$T/t3.gguf" bs=1 seek=1000000 conv=notrunc 2> /dev/null
check_exit 1 "one byte of a tensor" organ-check --verify "$T/list" "$T/t3.gguf"
check_text "$(sed 1d "$T/out" | grep -c '')" 2 "one byte: a tensor and the file"
grep tensor "$T/list" > "$T/part"
sed '/blk.0.ffn_up.weight/s/256x512/512x256/' "$T/list" > "$T/turned"
cmp -s "$T/list" "$T/turned" && bad "no other dims" || ok
check_exit 1 "other dims and the same bytes" organ-check --verify "$T/turned" "$V"
check_exit 1 "a list without keys" organ-check --verify "$T/part" "$V"
check_error 4 "none" "no list" organ-check --verify "$V.none" "$V"
echo nonsense > "$T/bad"
check_error 3 "line 1" "not a list" organ-check --verify "$T/bad" "$V"
awk '{ sub(/F32 /, "F32\033[31m "); print }' "$T/list" > "$T/bad"
check_error 3 "line" "control bytes in a list" organ-check --verify "$T/bad" "$V"
organ-check --hash $D/gguf/names-odd.gguf > "$T/odd" || bad "--hash of odd names"
check "odd names are escaped once" grep -qF "${TAB}a\\nb$TAB" "$T/odd"
check "and read again" organ-check --verify "$T/odd" $D/gguf/names-odd.gguf
check_error 4 "not-there" "--hash of a missing file prints no header line" organ-check --hash "$T/not-there"
check_error 2 "not both" "both" organ-check --hash --verify "$T/list" "$V"
check_error 2 "one model" "two models" organ-check --hash "$V" "$V"
check_error 2 "at least one model" "no model" organ-check
check_error 2 "takes no model" "rules of a model" organ-check --rules "$V"

# ---- the rules are documented -------------------------------------------------------------------------
organ-check --rules | sed 1d | while IFS=$TAB read -r rule level reason; do
    grep -qF "| $rule | $level | $reason |" docs/checks.md || echo "$rule"
done > "$T/undocumented"
check_text "$(cat "$T/undocumented")" "" "docs/checks.md has every rule"

# ---- what writing tools say ---------------------------------------------------------------------------------
rm -rf "$T/d" && cp -r "$T/verse" "$T/d" && sed '/"name": "blk\.2\./d' "$T/verse/manifest.json" > "$T/d/manifest.json"
check "a directory without a block" organ-assemble "$T/d" --output "$T/n.gguf"
grep -q "check: block 2: .*(block-missing)" "$T/err" && ok || bad "no note of the missing block: $(cat "$T/err")"
check "quietly" organ-assemble -q "$T/d" --output "$T/n.gguf" --force
check_text "$(cat "$T/err")" "" "-q: no notes"
check_error 1 "block-missing" "--strict refuses" organ-assemble "$T/d" --output "$T/strict.gguf" --strict
[ ! -e "$T/strict.gguf" ] && ok || bad "--strict wrote a model"
check "--strict on a sound model" organ-assemble "$T/verse" --output "$T/strict.gguf" --strict
check_text "$(cat "$T/err")" "" "a sound model: no notes"
check "what the base has already" organ-transplant --base "$T/n.gguf" --donor "$V" \
    --tensors output_norm.weight --output "$T/n2.gguf"
grep -q "block-missing" "$T/err" && bad "the base's own findings are repeated" || ok
check_error 1 "block-missing" "but --strict refuses them" organ-transplant --base "$T/n.gguf" \
    --donor "$V" --tensors output_norm.weight --output "$T/n3.gguf" --strict
check "a key that breaks it" organ-keys "$V" --set llama.block_count=u32:9 --output "$T/k9.gguf"
check_text "$(grep -c 'check: block' "$T/err")" 5 "a note per block that is missing"
check_exit 1 "organ-keys --strict" organ-keys "$V" --set llama.block_count=u32:9 --output "$T/k10.gguf" --strict
[ ! -e "$T/k10.gguf" ] && ok || bad "organ-keys --strict wrote a model"
check "many findings" organ-keys "$V" --set llama.embedding_length=u32:128 --output "$T/k11.gguf"
check_text "$(grep -c 'check:' "$T/err")" 9 "eight notes and their number"
grep -q "more findings" "$T/err" && ok || bad "the rest is not counted"
check_exit 1 "organ-graft --strict" organ-graft --source "$V" --target "$T/n.gguf" --output "$T/g" --layers 1 --strict
[ ! -e "$T/g" ] && ok || bad "organ-graft --strict wrote a directory"
check_exit 1 "organ-purify --strict" organ-purify --method haar --dir "$T/n.gguf" --output "$T/p.gguf" --strict
[ ! -e "$T/p.gguf" ] && ok || bad "organ-purify --strict wrote a model"

# ---- models that do not belong together ------------------------------------------------------------------------
S=$LAB/lab-stranger-q4_k_m.gguf
check "a stranger" organ-transplant --base "$V" --donor "$S" --layers 1 --output "$T/x1.gguf"
grep -q "share no lineage" "$T/err" && ok || bad "no note of a stranger: $(cat "$T/err")"
check "a stranger, quietly" organ-transplant -q --base "$V" --donor "$S" --layers 1 --output "$T/x1.gguf" --force
check_text "$(cat "$T/err")" "" "-q: no note of a stranger"
check "a relative" organ-transplant --base "$V" --donor $LAB/lab-code-q4_k_m.gguf --layers 1 --output "$T/x2.gguf"
check_text "$(cat "$T/err")" "" "a relative: no notes"
check "a stranger's graft" organ-graft --target "$V" --source "$S" --layers 1 --output "$T/x3"
grep -q "share no lineage" "$T/err" && ok || bad "organ-graft: no note of a stranger: $(cat "$T/err")"
organ-keys -q $LAB/lab-code-q4_k_m.gguf --set llama.rope.freq_base=f32:500000 --output "$T/far.gguf"
check "another RoPE base" organ-transplant --base "$V" --donor "$T/far.gguf" --layers 1 --output "$T/x4.gguf"
grep -q "rope.freq_base" "$T/err" && ok || bad "no note of another RoPE base: $(cat "$T/err")"
for m in code verse; do
    organ-keys -q $LAB/lab-$m-q4_k_m.gguf --set 'llama.attention.sliding_window_pattern=bool[]:true,true,true,false' \
        --output "$T/swa-$m.gguf"
done
check "blocks of one kind" organ-transplant --base "$T/swa-verse.gguf" --donor "$T/swa-code.gguf" \
    --map 1=2 --output "$T/x5.gguf"
check_text "$(cat "$T/err")" "" "blocks of one kind: no notes"
check "blocks of two kinds" organ-transplant --base "$T/swa-verse.gguf" --donor "$T/swa-code.gguf" \
    --map 1=3 --output "$T/x6.gguf"
check_text "$(grep -c "block 1 gets tensors of the donor's block 3.*sliding_window_pattern" "$T/err")" 1 \
    "a note on the sliding window"

finish
