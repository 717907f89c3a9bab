#!/bin/sh
# Configurations of mergekit, one or more for each method and member: each runs, and where options of
# organ-merge say the same, the result is the same.
. "$(dirname "$0")/lib.sh"

# Three related models that are small, as there are many merges; those of the lab for vocabularies.
mkdir "$T/models" "$T/models/lab" "$T/models/words"
blocks=4
small() { # NAME SEED
    mkmodel "$T/$1.gguf" -s "$2" -k llama.block_count=$blocks token_embd.weight:F16:64x48 -n $blocks \
        blk.%.attn_q.weight:F16:64x64 blk.%.attn_k.weight:F16:64x32 blk.%.attn_v.weight:F16:64x32 \
        blk.%.attn_output.weight:F16:64x64 blk.%.ffn_gate.weight:F16:64x96 blk.%.ffn_up.weight:Q8_0:64x96 \
        blk.%.ffn_down.weight:F16:96x64 blk.%.attn_norm.weight:F32:64 blk.%.ffn_norm.weight:F32:64 \
        output_norm.weight:F32:64 output.weight:F16:64x48
}
base=$T/lab-base.gguf a=$T/lab-verse.gguf b=$T/lab-code.gguf
small lab-base 1
for m in verse:2 code:3; do
    small change "${m#*:}"
    organ-merge -q --no-hash --method linear --model "$base,weight=0.8" --model "$T/change.gguf,weight=0.2" \
        --set-kv general.name=str:lab-${m%:*} -o "$T/lab-${m%:*}.gguf" || bad "no small models"
done
for m in base verse code; do
    ln -s "$T/lab-$m.gguf" "$T/models/lab/$m.gguf"
    [ $m = base ] || organ-stack -q --drop 1-3 "$LAB/lab-$m-q4_k_m.gguf" -o "$T/models/words/$m.gguf"
done
BASE=lab/base.gguf A=lab/verse.gguf B=lab/code.gguf

# run WHAT: the configuration on stdin, in $T/out.gguf.
run() {
    check "$1" organ-merge -q --no-hash --models "$T/models" --config - --force -o "$T/out.gguf"
}
hash_tensors() {
    organ-check --hash "$1" 2> /dev/null |
        awk -F'\t' "$BY_NAME"'col("kind") == "tensor" { print col("name") "\t" col("detail") "\t" col("sha256") }'
}
# same WHAT OPTION...: the last result has the tensors of this merge.
same() {
    what=$1
    shift
    check "$what: options" organ-merge -q --no-hash "$@" --force -o "$T/want.gguf"
    hash_tensors "$T/out.gguf" > "$T/have"
    hash_tensors "$T/want.gguf" > "$T/want"
    check_same "$T/have" "$T/want" "$what"
}
two="{\"model\": \"$A\", \"parameters\": {\"weight\": 0.6}}, {\"model\": \"$B\", \"parameters\": {\"weight\": 0.4}}"
dense="{\"model\": \"$A\", \"parameters\": {\"weight\": 0.6, \"density\": 0.5}},
    {\"model\": \"$B\", \"parameters\": {\"weight\": 0.4, \"density\": 0.7}}"

# ---- methods ----------------------------------------------------------------------------------------

run "linear" << END
{"models": [$two], "merge_method": "linear", "dtype": "float16"}
END
same "linear" --method linear --model $a,weight=0.6 --model $b,weight=0.4 --dtype f16
run "linear, not normalized" << END
{"models": [$two], "merge_method": "linear", "parameters": {"normalize": false},
    "dtype": "float32", "out_dtype": "bfloat16"}
END
same "linear, not normalized" --method linear,normalize=0 --model $a,weight=0.6 --model $b,weight=0.4 --dtype bf16
run "slerp with gradients" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, $blocks]}, {"model": "$B", "layer_range": [0, $blocks]}]}],
 "merge_method": "slerp", "base_model": "$A", "dtype": "float16", "parameters": {"t": [
    {"filter": "self_attn", "value": [0, 0.5, 0.3, 0.7, 1]}, {"filter": "mlp",
        "value": [1, 0.5, 0.7, 0.3, 0]}, {"value": 0.5}]}}
END
same "slerp with gradients" \
    --method "slerp,t:blk.*.attn_[qkvo]*.weight=[0,0.5,0.3,0.7,1],t:blk.*.ffn_[gud]*.weight=[1,0.5,0.7,0.3,0],t=0.5" \
    --base $a --model $b --dtype f16
run "ties" << END
{"models": [{"model": "$BASE"}, {"model": "$A", "parameters": {"density": [1, 0.7, 0.1], "weight": 1.0}},
    {"model": "$B", "parameters": {"density": 0.33, "weight": [{"filter": "mlp", "value": 0.5}, {"value": 0}]}}],
 "merge_method": "ties", "base_model": "$BASE", "parameters": {"normalize": true,
     "int8_mask": true}, "dtype": "float16"}
END
same "ties" --method ties,normalize=1 --base $base --model "$a,density=[1,0.7,0.1],weight=1" \
    --model "$b,density=0.33,weight:blk.*.ffn_[gud]*=0.5,weight=0" --dtype f16
for m in dare_ties dare_linear ties breadcrumbs breadcrumbs_ties della della_linear; do
    run "$m" << END
{"models": [$dense], "merge_method": "$m", "base_model": "$BASE", "parameters": {"normalize": false,
    "int8_mask": true}}
END
    same "$m" --method $m,normalize=0 --base $base --model $a,weight=0.6,density=0.5 --model $b,weight=0.4,density=0.7
done
run "breadcrumbs with gamma" << END
{"models": [$dense], "merge_method": "breadcrumbs", "base_model": "$BASE",
    "parameters": {"gamma": 0.02, "lambda": 0.8}}
END
same "breadcrumbs with gamma" --method breadcrumbs,gamma=0.02,lambda=0.8 --base $base \
    --model $a,weight=0.6,density=0.5 --model $b,weight=0.4,density=0.7
run "della with epsilon" << END
{"models": [$dense], "merge_method": "della", "base_model": "$BASE", "parameters": {"epsilon": 0.1, "lambda": 1.1}}
END
same "della with epsilon" --method della,epsilon=0.1,lambda=1.1 --base $base \
    --model $a,weight=0.6,density=0.5 --model $b,weight=0.4,density=0.7
run "task_arithmetic" << END
{"models": [$two], "merge_method": "task_arithmetic", "base_model": "$BASE",
    "parameters": {"lambda": 0.900000000000000000000000000000000000000000000}}
END
same "task_arithmetic" --method task_arithmetic,lambda=0.9 --base $base --model $a,weight=0.6 --model $b,weight=0.4
run "model_stock" << END
{"models": [{"model": "$A"}, {"model": "$B"}], "merge_method": "model_stock", "base_model": "$BASE",
    "parameters": {"filter_wise": false}}
END
same "model_stock" --method model_stock --base $base --model $a --model $b
run "nuslerp" << END
{"models": [$two], "merge_method": "nuslerp", "parameters": {"nuslerp_flatten": false, "nuslerp_row_wise": false}}
END
same "nuslerp" --method nuslerp,flatten=0 --model $a,weight=0.6 --model $b,weight=0.4
run "sce" << END
{"models": [{"model": "$A"}, {"model": "$B"}], "merge_method": "sce", "base_model": "$BASE",
    "parameters": {"select_topk": 0.5}}
END
same "sce" --method sce,select_topk=0.5 --base $base --model $a --model $b
run "arcee_fusion" << END
{"models": [{"model": "$BASE"}, {"model": "$A"}], "merge_method": "arcee_fusion", "base_model": "$BASE"}
END
same "arcee_fusion" --method arcee_fusion --base $base --model $a
run "karcher" << END
{"models": [{"model": "$A"}, {"model": "$B"}], "merge_method": "karcher", "parameters": {"max_iter": 10, "tol": 1e-5}}
END
same "karcher" --method karcher,max_iter=10,tol=1e-5 --model $a --model $b
run "multislerp" << END
{"models": [$two], "merge_method": "multislerp", "parameters": {"normalize_weights": true, "eps": 1e-8}}
END
same "multislerp" --method multislerp,normalize=1,eps=1e-8 --model $a,weight=0.6 --model $b,weight=0.4
run "nearswap" << END
{"models": [{"model": "$A"}, {"model": "$B"}], "merge_method": "nearswap", "base_model": "$A",
    "parameters": {"t": 0.0001}}
END
same "nearswap" --method nearswap,t=0.0001 --base $a --model $b

# ---- vocabularies: these models have equal ones, so all choices are the same (see merge_vocabulary.sh) ---

set -- '"tokenizer_source": "base"' '"tokenizer": {"source": "union"}'
if exhaustive; then set -- "$@" '"tokenizer_source": "union"' '"tokenizer_source": "words/code.gguf"'; fi
for member; do
    run "$member" << END
{"models": [{"model": "words/verse.gguf", "parameters": {"weight": 0.6}},
    {"model": "words/code.gguf", "parameters": {"weight": 0.4}}], "merge_method": "linear", $member}
END
    same "$member" --method linear --model "$T/models/words/verse.gguf,weight=0.6" \
        --model "$T/models/words/code.gguf,weight=0.4"
done
refused() { # TEXT, and the configuration on stdin
    cat > "$T/config.json"
    check_error 3 "$1" "refused: $1" organ-merge -q --models "$T/models" --config "$T/config.json" -o "$T/no.gguf"
}
refused "'size' in tokenizer" << END
{"models": [$two], "merge_method": "linear", "tokenizer": {"source": "base", "size": 4}}
END

# ---- slices of passthrough ----------------------------------------------------------------------------

run "passthrough" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 3]}]},
    {"sources": [{"model": "$B", "layer_range": [1, $blocks]}]}],
 "merge_method": "passthrough", "dtype": "float16"}
END
check "as a stack" organ-stack -q --force $a 0-2 $b 1-$((blocks - 1)) --output "$T/stack.gguf"
hash_tensors "$T/stack.gguf" > "$T/plain"
hash_tensors "$T/out.gguf" > "$T/have"
check_same "$T/have" "$T/plain" "passthrough is a stack"

# Copied blocks that do nothing at first: their outputs are scaled by 0. Others stay as they are.
scale='"parameters": {"scale": [{"filter": "o_proj", "value": 0.0}, {"filter": "down_proj",
    "value": 0.0}, {"value": 1.0}]}'
cat > "$T/scale.json" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 3]}]},
            {"sources": [{"model": "$A", "layer_range": [1, 3], $scale}]},
            {"sources": [{"model": "$A", "layer_range": [3, $blocks]}]}], "merge_method": "passthrough"}
END
run "scale" < "$T/scale.json"
check "as a stack" organ-stack -q --force $a 0-2,1-2,3-$((blocks - 1)) --output "$T/stack.gguf"
organ-compare "$T/stack.gguf" "$T/out.gguf" |
    awk -F'\t' "$BY_NAME"'/^blk/ && col("status") == "differs" { print col("name") }' > "$T/have"
for n in 3 4; do for r in attn_output ffn_down; do echo blk.$n.$r.weight; done; done | sort > "$T/want"
sort "$T/have" > "$T/have.2"
check_same "$T/have.2" "$T/want" "only the outputs of the copies are scaled"
organ-measure "$T/out.gguf" --tensors 'blk.[34].attn_output.weight,blk.[34].ffn_down.weight' \
    --columns name,min,max --sample 0 |
    awk "$BY_NAME"'NR > 1 && (col("min") != 0 || col("max") != 0)' > "$T/have"
check_same "$T/have" /dev/null "they are 0"
organ-merge -q --models "$T/models" --config "$T/scale.json" --check > "$T/rows"
check_text "$(awk -F'\t' "$BY_NAME"'col("name") ~ /blk.3.(attn_output|attn_q).weight|blk.1.attn_output.weight/ {
    print col("name"), $(NF - 1), $NF }' "$T/rows" | sort)" \
    "blk.1.attn_output.weight copy lab-verse
blk.3.attn_output.weight merge scale=0
blk.3.attn_q.weight copy lab-verse" "rows of scaled slices"
organ-merge -q --models "$T/models" --config "$T/scale.json" --check --svg "$T/first.svg"
check "a picture of the finished merge" organ-merge -q "$T/out.gguf" --svg "$T/again.svg"
check_text "$(grep -c 'blk.*scale=0' "$T/again.svg")" 4 "scales in the picture"
for f in first again; do sed '2d; /class="big"/d' "$T/$f.svg" > "$T/$f"; done
check_same "$T/first" "$T/again" "the keys tell the scales"

# A gradient runs over the blocks of each slice; parameters of a slice come before those of all.
run "a gradient" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 3]}],
    "parameters": {"scale": [{"filter": "mlp", "value": [1, 0.5]}]}},
            {"sources": [{"model": "$A", "layer_range": [3, $blocks]}]}],
 "merge_method": "passthrough", "parameters": {"scale": [{"filter": "up_proj", "value": 2}, {"value": 1}]}}
END
for pair in blk.0.ffn_up:1 blk.1.ffn_up:0.75 blk.2.ffn_down:0.5 blk.3.ffn_up:2 blk.3.ffn_down:1 blk.2.attn_q:1; do
    for f in $a "$T/out.gguf"; do organ-measure "$f" --tensors "${pair%:*}.weight" --columns std --sample 0 |
        tail -n 1; done |
        awk -v want="${pair#*:}" 'NR == 1 { x = $1 } END { d = $1 / x - want; if (d * d > 1e-4) print $1 / x }' \
        > "$T/have"
    check_same "$T/have" /dev/null "scale of ${pair%:*}"
done
printf '%s' "{\"slices\": [{\"sources\": [{\"model\": \"$A\", \"layer_range\": [0, $blocks]," \
    '"parameters": {"weight": 1}}]}],' \
    '"merge_method": "passthrough"}' > "$T/config.json"
check_error 2 "passthrough has no parameter weight" "a parameter of others" \
    organ-merge -q --models "$T/models" --config "$T/config.json" -o "$T/no.gguf"
sed 's/o_proj/oproj/' "$T/scale.json" > "$T/wrong.json"
check_error 1 "no tensor matches the filter 'oproj'" "a wrong filter" \
    organ-merge -q --models "$T/models" --config "$T/wrong.json" -o "$T/no.gguf"
check_absent "$T/no.gguf" "refused configurations"

# ---- slices of other methods ----------------------------------------------------------------------------

half=$((blocks / 2))
sources() {
    printf '"sources": [{"model": "%s", "layer_range": [%d, %d]%s}, {"model": "%s", "layer_range": [%d, %d]}]' \
        "$A" "$1" "$2" "$3" "$B" "$1" "$2"
}
run "slerp in two slices" << END
{"slices": [{$(sources 0 $half ""), "parameters": {"t": 0.2}}, {$(sources $half "$blocks" ""),
    "parameters": {"t": [0.5, 1]}}],
 "merge_method": "slerp", "base_model": "$A", "dtype": "float16"}
END
cp "$T/out.gguf" "$T/slices.gguf"
for t in 0.2 0.5 1; do
    check "slerp $t" organ-merge -q --no-hash --method slerp,t=$t --base $a --model $b \
        --dtype f16 --force -o "$T/$t.gguf"
    hash_tensors "$T/$t.gguf" > "$T/$t.hash"
done
hash_tensors "$T/slices.gguf" > "$T/have"
for part in "token_embd:0.2" "blk.0.:0.2" "blk.$half.:0.5" "blk.$((blocks - 1)).:1" "output:1"; do
    grep "^${part%:*}" "$T/have" > "$T/have.2"
    grep "^${part%:*}" "$T/${part#*:}.hash" > "$T/want"
    check_same "$T/have.2" "$T/want" "slices: $part"
done
run "weights of a source" << END
{"slices": [{$(sources 0 $half ', "parameters": {"weight": 0.9}')}, {$(sources $half "$blocks" "")}],
 "merge_method": "linear", "parameters": {"weight": 0.5, "normalize": false}, "dtype": "float16"}
END
check "a picture of sources" organ-merge -q "$T/out.gguf" --force --svg "$T/again.svg"
for text in 'weight=0.9,0.5 normalize=0' 'weight=0.5 normalize=0'; do
    grep -q "$text" "$T/again.svg" && ok || bad "no $text: parameters of a source hold in its slice"
done
# Slices whose sources are other blocks, or other models, are the merge of stacks of these blocks. A linear merge
# of one model is a copy.
stack() { check "stack $1" organ-stack -q --force --output "$T/$1.gguf" $2; }
stack sa "$a 0-1,1-2"
stack sb "$b 0-1,2-3"
run "shifted blocks" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 2], "parameters": {"weight": 0.6}},
        {"model": "$B", "layer_range": [0, 2], "parameters": {"weight": 0.4}}]},
    {"sources": [{"model": "$A", "layer_range": [1, 3]}, {"model": "$B", "layer_range": [2, 4],
        "parameters": {"weight": [0, 1]}}]}],
 "merge_method": "linear", "parameters": {"weight": 0.5}}
END
cp "$T/out.gguf" "$T/sliced.gguf"
check_text "$(organ-keys "$T/out.gguf" --get llama.block_count) $(organ-keys "$T/out.gguf" \
    --get organ.merge.slices)" "4 1:0-1+2:0-1,1:1-2+2:2-3" "blocks and sources"
parts() { # PATTERN WHAT OPTION...: the last result has these tensors of another merge.
    pattern=$1 what=$2
    shift 2
    check "$what: options" organ-merge -q --no-hash "$@" --force -o "$T/want.gguf"
    hash_tensors "$T/sliced.gguf" | grep -E "$pattern" | sort > "$T/have"
    hash_tensors "$T/want.gguf" | grep -E "$pattern" | sort > "$T/want"
    check_same "$T/have" "$T/want" "$what"
    [ -s "$T/have" ] || bad "$what: no tensors"
}
two_stacks="--method linear --model $T/sa.gguf,weight"
parts '^(token_embd|blk.[01])' "the first slice" $two_stacks=0.6 --model "$T/sb.gguf,weight=0.4"
parts '^blk.2' "the second slice" $two_stacks=0.5 --model "$T/sb.gguf,weight=0"
parts '^(blk.3|output)' "its last block, and what follows" $two_stacks=0.5 --model "$T/sb.gguf,weight=1"
stack st "$a 0-1 $base 1-2 $b 3"
run "other models" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 2]}]},
    {"sources": [{"model": "$BASE", "layer_range": [1, 3]}, {"model": "$A", "layer_range": [2, 4],
        "parameters": {"weight": 0}}]},
    {"sources": [{"model": "$B", "layer_range": [3, 4]}]}],
 "merge_method": "linear", "parameters": {"weight": 1}}
END
cp "$T/out.gguf" "$T/sliced.gguf"
hash_tensors "$T/out.gguf" | grep '^blk' > "$T/have"
hash_tensors "$T/st.gguf" | grep '^blk' > "$T/want"
check_same "$T/have" "$T/want" "slices of one model are copies"
for pair in "token_embd $a" "output $b"; do
    hash_tensors "${pair#* }" | grep "^${pair% *}" > "$T/want"
    hash_tensors "$T/out.gguf" | grep "^${pair% *}" > "$T/have"
    check_same "$T/have" "$T/want" "$pair: of the first and the last slice"
done
check_error 1 "slices with different models" "no picture of its history" organ-merge -q "$T/out.gguf" --svg "$T/no.svg"
stack sc "$base 0-1,2-3"
run "ties with the base" << END
{"slices": [{"sources": [{"model": "$BASE", "layer_range": [0, 2]}, {"model": "$A", "layer_range": [0, 2]}]},
    {"sources": [{"model": "$A", "layer_range": [1, 3]}, {"model": "$BASE", "layer_range": [2, 4]}]}],
 "merge_method": "ties", "base_model": "$BASE", "parameters": {"weight": 1, "density": 0.5}}
END
cp "$T/out.gguf" "$T/sliced.gguf"
parts '^blk' "a base in other blocks" --method ties,density=0.5,weight=1 \
    --base "$T/sc.gguf" --model "$T/sa.gguf"
run "slerp of shifted blocks" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 2]}, {"model": "$B", "layer_range": [0, 2]}]},
    {"sources": [{"model": "$A", "layer_range": [1, 3]}, {"model": "$B", "layer_range": [2, 4]}]}],
 "merge_method": "slerp", "base_model": "$A", "parameters": {"t": 0.3}}
END
cp "$T/out.gguf" "$T/sliced.gguf"
parts . "slerp" --method slerp,t=0.3 --base "$T/sa.gguf" --model "$T/sb.gguf"
run "fewer blocks than the models have" << END
{"slices": [{$(sources 0 1 "")}, {$(sources 1 2 "")}], "merge_method": "linear", "parameters": {"weight": 0.5}}
END
cp "$T/out.gguf" "$T/sliced.gguf"
stack sd "$a 0-1"
stack se "$b 0-1"
parts . "the first blocks" --method linear --model "$T/sd.gguf" --model "$T/se.gguf"
refused "as many layers in all sources" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 2]}, {"model": "$B", "layer_range": [0, 3]}]}],
    "merge_method": "linear"}
END
cat > "$T/config.json" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 2]}, {"model": "$B", "layer_range": [3, 5]}]}],
    "merge_method": "linear", "parameters": {"weight": 1}}
END
check_error 1 "block 4" "a block that does not exist" organ-merge -q --models "$T/models" --config "$T/config.json" \
    -o "$T/no.gguf"
refused "this model twice" << END
{"slices": [{"sources": [{"model": "$A", "layer_range": [0, 2]}, {"model": "$A", "layer_range": [2, 4]}]},
    {"sources": [{"model": "$B", "layer_range": [0, 1]}]}], "merge_method": "linear", "parameters": {"weight": 1}}
END
refused "the base must be among the sources" << END
{"slices": [{"sources": [{"model": "$BASE", "layer_range": [0, 2]}, {"model": "$A", "layer_range": [0, 2]}]},
    {"sources": [{"model": "$A", "layer_range": [1, 3]}]}], "merge_method": "ties", "base_model": "$BASE",
    "parameters": {"weight": 1, "density": 1}}
END

# ---- filters --------------------------------------------------------------------------------------------

# Filters that leave tensors without a value that mergekit requires.
for rest in '' ', {"value": 0.4}' ', {"filter": "*", "value": 0.4}'; do
    echo "{\"models\": [{\"model\": \"$A\", \"parameters\": {\"weight\":
        [{\"filter\": \"mlp\", \"value\": 0.6}$rest]}}, {\"model\": \"$B\", \"parameters\": {\"weight\": 0.4}}],
        \"merge_method\": \"linear\", \"dtype\": \"torch.float32\"}" > "$T/filter.json"
    check "filters$rest" organ-merge --no-hash --models "$T/models" --config "$T/filter.json" --force \
        -o "$T/out.gguf"
    n=$([ -n "$rest" ] || echo 1)
    check_text "$(grep -c 'no filter of weight of .*lab/verse.gguf matches token_embd.weight' "$T/err")" "${n:-0}" \
        "filters$rest: note"
done
echo "{\"models\": [{\"model\": \"$A\"}, {\"model\": \"$B\"}], \"merge_method\": \"slerp\", \"base_model\": \"$A\",
    \"parameters\": {\"t\": [{\"filter\": \"mlp\", \"value\": 0.6}]}}" > "$T/filter.json"
check "filters of t" organ-merge --no-hash --models "$T/models" --config "$T/filter.json" --force -o "$T/out.gguf"
check_text "$(grep -c 'no filter of t matches token_embd.weight' "$T/err")" 1 "filters of t: note"

# ---- YAML -------------------------------------------------------------------------------------------------

cat > "$T/m.yml" << END
# as in the documentation of mergekit
models:
  - model: $A
    parameters: {weight: 0.6}
  - model: $B
    parameters:
      weight: 0.4
merge_method: linear
dtype: float16
END
if sh scripts/organ merge -q --no-hash --models "$T/models" --config "$T/m.yml" \
    --force -o "$T/out.gguf" 2> "$T/err"; then
    same "YAML" --method linear --model $a,weight=0.6 --model $b,weight=0.4 --dtype f16
else
    check_text "$(grep -c 'no program here converts YAML' "$T/err")" 1 "YAML: $(cat "$T/err")"
fi

# Each program that converts YAML, alone: it takes plain data only, and is stopped when aliases grow without end.
aliases() { # anchors that expand to 2^24 values
    echo 'a0: &a0 [1, 1]'
    awk 'BEGIN { for (i = 1; i < 24; i++) printf "a%d: &a%d [*a%d, *a%d]\n", i, i, i - 1, i - 1 }'
}
mkdir "$T/stubs"
for program in yq python3 ruby; do
    have $program "YAML by $program" || continue
    rm -f "$T/stubs"/*
    for other in yq python3 ruby; do
        printf '#!/bin/sh\nexit 1\n' > "$T/stubs/$other"
        [ $other != $program ] || printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v $program)" > "$T/stubs/$other"
    done
    chmod +x "$T/stubs"/*
    with_only() {
        PATH=$T/stubs:$PATH sh scripts/organ merge -q --no-hash --models "$T/models" --config "$1" --force \
            -o "$T/out.gguf"
    }
    with_only "$T/m.yml" 2> "$T/err" || { echo "left out: YAML by $program (a library)"; continue; }
    same "YAML by $program" --method linear --model $a,weight=0.6 --model $b,weight=0.4 --dtype f16
    sed 's/linear/!ruby\/regexp linear/' "$T/m.yml" > "$T/object.yml"
    rm -f "$T/out.gguf"
    with_only "$T/object.yml" 2> "$T/err"
    case $program in
    ruby) grep -q 'no program here converts YAML' "$T/err" || bad "ruby makes objects: $(cat "$T/err")" ;;
    python3) # what a folder has beside its models is not run
        mkdir "$T/planted"
        for module in json yaml; do echo 'open("ran", "w")' > "$T/planted/$module.py"; done
        organ=$PWD/scripts/organ
        (cd "$T/planted" && PATH=$T/stubs:$PATH sh "$organ" merge -q --no-hash --models "$T/models" \
            --config "$T/m.yml" --force -o "$T/out.gguf") 2> "$T/err"
        check_absent "$T/planted/ran" "a module of this folder was run"
        ;;
    esac
    if exhaustive; then
        { aliases; cat "$T/m.yml"; } > "$T/aliases.yml"
        check_exit 2 "aliases by $program" with_only "$T/aliases.yml"
    fi
done
{ cat "$T/m.yml"; printf '#'; head -c 16777216 /dev/zero | tr '\0' x; } > "$T/long.yml"
check_exit 2 "a configuration of more than 16 MiB" \
    sh scripts/organ merge --models "$T/models" --config "$T/long.yml" -q -o "$T/no.gguf"
rm -f "$T/long.yml"

# ---- how models are named ---------------------------------------------------------------------------------

mkdir -p "$T/found/folder" "$T/found/parts"
cp $a "$T/found/plain.gguf"
cp $a "$T/found/typed-Q4_K_M.gguf"
cp $a "$T/found/folder/any.gguf"
cp $a "$T/found/two-q4.gguf"
cp $b "$T/found/two-q8.gguf"
organ-assemble -q $a --shards 2 -o "$T/found/parts/m.gguf"
for name in plain org/plain typed org/typed folder org/folder parts; do
    for form in "\"$name\"" "{\"path\": \"$name\"}" "{\"model\": {\"path\": \"$name\"}, \"lora\": null}"; do
        echo "{\"models\": [{\"model\": $form}], \"merge_method\": \"linear\"}" > "$T/config.json"
        check "the model $form" organ-merge -q --no-hash --models "$T/found" --config "$T/config.json" --force \
            -o "$T/out.gguf"
        same "the model $form" --method linear --model $a
    done
done
named() { # STATUS TEXT NAME-AS-JSON
    echo "{\"models\": [{\"model\": $3}], \"merge_method\": \"linear\"}" > "$T/config.json"
    check_error "$1" "$2" "the model $3" organ-merge -q --models "$T/found" --config "$T/config.json" -o "$T/no.gguf"
}
named 2 "two-q4.gguf, $T/found/two-q8.gguf" '"two"'
named 4 "there is no model 'gone'" '"org/gone"'
named 3 "adds the adapter 'lora' to 'plain'" '"plain+lora"'
named 3 "adds the adapter 'lora' to 'plain'" '{"model": {"path": "plain"}, "lora": {"path": "lora"}}'
grep -qF 'organ-transplant --base plain --adapter lora --output' "$T/err" && ok || bad "no command: $(cat "$T/err")"
echo '{"name": "x", "models": [{"model": "plain+two-q4"}, {"model": "old"}], "merge_method": "linear"}' \
    > "$T/config.json"
check "a list" organ-merge --models "$T/found" --config "$T/config.json" --list-config
check_text "$(cat "$T/out")" "kind${TAB}name${TAB}base${TAB}adapter
name${TAB}x${TAB}-${TAB}-
adapter${TAB}plain+two-q4${TAB}$T/found/plain.gguf${TAB}$T/found/two-q4.gguf" "what a configuration needs first"
check "named models" organ-merge -q --no-hash --config "$T/config.json" --force -o "$T/out.gguf" \
    --named "plain+two-q4=$a" --named "old=$b"
same "named models" --method linear --model $a --model $b
# A file of the whole name is a model, not a model with an adapter.
mkdir "$T/plus"
cp $a "$T/plus/plain.gguf"
cp $a "$T/plus/lora.gguf"
cp $b "$T/plus/plain+lora.gguf"
cp $b "$T/plus/a+b-Q8_0.gguf"
for name in plain+lora plain+lora.gguf org/plain+lora a+b; do
    echo "{\"models\": [{\"model\": \"$name\"}], \"merge_method\": \"linear\"}" > "$T/config.json"
    check "the model $name" organ-merge -q --no-hash --models "$T/plus" --config "$T/config.json" --force \
        -o "$T/out.gguf"
    same "the model $name" --method linear --model $b
done
for name in plain+org/lora plain+plain+lora; do
    echo "{\"models\": [{\"model\": \"$name\"}], \"merge_method\": \"linear\"}" > "$T/config.json"
    check_error 3 "adds the adapter" "the model $name" organ-merge -q --models "$T/plus" --config "$T/config.json" \
        -o "$T/no.gguf"
done
model='{"model": {"path": "plain", "revision": "v2", "override_architecture": "MistralForCausalLM"}}'
echo "{\"models\": [{\"model\": $model}, {\"model\": \"typed\"}], \"merge_method\": \"linear\"}" > "$T/config.json"
check "a revision" organ-merge --no-hash --models "$T/found" --config "$T/config.json" --force -o "$T/out.gguf"
for text in 'revision "v2" is left out' 'override_architecture "MistralForCausalLM" is left out'; do
    check_text "$(grep -cF "$text" "$T/err")" 1 "a note: $text"
done
named 3 "'colour' in model" '{"path": "plain", "colour": 1}'
refused "(did you mean 'breadcrumbs_ties'?)" << END
{"models": [$two], "merge_method": "breadcrumb_ties"}
END
refused "mergekit-moe, a mixture of experts with gate_mode 'cheap_embed'" << END
{"base_model": "$BASE", "gate_mode": "cheap_embed", "experts": [{"source_model": "$A"}]}
END
refused "gate_mode 'hidden'" << END
{"base_model": "$BASE", "experts": [{"source_model": "$A", "positive_prompts": ["x"]}]}
END
refused "2 configurations (mergekit-multi)" << END
[{"name": "x", "models": [$two], "merge_method": "linear"}, {"models": [$two], "merge_method": "linear"}]
END
echo '{' | organ-merge -q --config - --config-name some.yml -o "$T/no.gguf" 2> "$T/err"
grep -q '^organ-merge: some.yml: ' "$T/err" && ok || bad "the name of a configuration on stdin: $(cat "$T/err")"

# ---- the seed, t of slerp, notes --------------------------------------------------------------------------

for seed in '"parameters": {"random_seed": 145}' '"random_seed": 145'; do
    run "$seed" << END
{"models": [$dense], "merge_method": "dare_ties", "base_model": "$BASE", $seed}
END
    same "$seed" --method dare_ties --seed 145 --base $base --model $a,weight=0.6,density=0.5 \
        --model $b,weight=0.4,density=0.7
done
run "slerp without t" << END
{"models": [{"model": "$A"}, {"model": "$B"}], "merge_method": "slerp", "base_model": "$A"}
END
same "slerp without t" --method slerp,t=0.5 --base $a --model $b
# What counts for the whole merge is not a model's.
cat > "$T/config.json" << END
{"models": [{"model": "$A", "parameters": {"t": 0.1}}, {"model": "$B", "parameters": {"t": [
    {"filter": "mlp", "value": 0.2}, {"value": 0.3}]}}], "merge_method": "slerp", "base_model": "$A"}
END
check "t of a model" organ-merge --models "$T/models" --no-hash --config "$T/config.json" --force -o "$T/out.gguf"
check_text "$(grep -c 'its t is left out, because one t counts for the whole merge' "$T/err")" 1 "t of a model: a note"
same "t of a model" --method slerp,t=0.5 --base $a --model $b
# ---- YAML -------------------------------------------------------------------------------------------------

if have python3 "what Python checks" && python3 -c 'import yaml' 2> /dev/null; then
    printf 'merge_method: linear\nmodels: [{model: plain}]\n' > "$T/one.yml"
    check "YAML" sh scripts/organ merge --config "$T/one.yml" --models "$T/found" -q --no-hash --force -o "$T/out.gguf"
    same "YAML" --method linear --model $a
    { cat "$T/one.yml"; printf -- '---\n'; cat "$T/one.yml"; } > "$T/multi.yml"
    check_exit 2 "several documents without names" \
        sh scripts/organ merge --config "$T/multi.yml" --models "$T/found" -q -o "$T/no.gguf"
    grep -q "document 1 has no name" "$T/err" || bad "no document is named: $(cat "$T/err")"
    # Models with adapters, and documents that use the results of those before them.
    mkdir "$T/whole" "$T/empty"
    whole=$LAB/lab-verse-q4_k_m.gguf other=$LAB/lab-base-q4_k_m.gguf
    cp $whole "$T/whole/plain.gguf"
    cp $other "$T/whole/other.gguf"
    cp $LAB/lab-lora-code.gguf "$T/whole/adapter.gguf"
    check "fold" organ-transplant -q --base $whole --adapter $LAB/lab-lora-code.gguf --output "$T/folded.gguf"
    printf 'merge_method: linear\nmodels: [{model: plain+adapter}, {model: other}]\n' > "$T/lora.yml"
    printf 'merge_method: linear\nmodels: [{model: {model: plain, lora: {path: adapter}}}, {model: other}]\n' \
        > "$T/lora2.yml"
    for f in lora lora2; do
        check "$f" sh scripts/organ merge --config="$T/$f.yml" --models="$T/whole" -q --no-hash --force \
            -o "$T/out.gguf"
        same "$f" --method linear --model "$T/folded.gguf" --model $other
    done
    odd=$T/$(printf 'a\tb\\c \\x41 \303\251\001')
    mkdir "$odd"
    cp "$T/whole/plain.gguf" "$T/whole/other.gguf" "$T/whole/adapter.gguf" "$odd"
    check "a path with tabs and backslashes" sh scripts/organ merge --config="$T/lora.yml" --models="$odd" -q \
        --no-hash --force -o "$T/out.gguf"
    same "a path with tabs and backslashes" --method linear --model "$T/folded.gguf" --model $other
    { printf 'name: "first \\\\ one"\n'; cat "$T/lora.yml"; printf -- '---\nmerge_method: linear\nmodels:\n'
        printf -- '- {model: "first \\\\ one", parameters: {weight: 3}}\n'; } > "$T/multi.yml"
    check "a name with a backslash" sh scripts/organ merge -q --config "$T/multi.yml" --models "$T/whole" \
        --no-hash --force -o "$T/out.gguf"
    { printf 'name: first one\n'; cat "$T/lora.yml"; printf -- '---\nmerge_method: linear\nmodels:\n'
        printf -- '- {model: first one, parameters: {weight: 3}}\n- {model: plain, parameters: {weight: 1}}\n'; } \
        > "$T/multi.yml"
    TMPDIR=$T/empty check "several documents" sh scripts/organ merge -q --config "$T/multi.yml" --models "$T/whole" \
        --no-hash --force -o "$T/out.gguf"
    check "the first" organ-merge -q --no-hash --method linear --model "$T/folded.gguf" --model $other --force \
        -o "$T/first.gguf"
    same "several documents" --method linear --model "$T/first.gguf,weight=3" --model $whole,weight=1
    check_text "$(ls "$T/empty")" "" "temporary models are removed"
    printf 'merge_method: linear\nmodels: [{model: plain+gone}]\n' > "$T/one.yml"
    check_error 4 "there is no model 'gone'" "an adapter that is missing" \
        sh scripts/organ merge --config "$T/one.yml" --models "$T/found" -q -o "$T/no.gguf"
    printf 'merge_method: liner\nmodels: [{model: plain}]\n' > "$T/one.yml"
    check_error 3 "$T/one.yml: unknown merge_method 'liner' (did you mean 'linear'?)" "a name in YAML" \
        sh scripts/organ merge --config "$T/one.yml" --models "$T/found" -q -o "$T/no.gguf"
fi
check_absent "$T/no.gguf" "refused configurations"

# Published configurations name models, not files.
printf '{"merge_method": "linear", "models": [{"model": "org/one"}, {"model": "org/two"}]}' > "$T/far.json"
check_error 4 "give the folder of its models, or the file of each (--models DIR, --named NAME=FILE)" \
    "no folder of models" organ-merge -q --config "$T/far.json" -o "$T/no.gguf"
check_exit 4 "a folder that lacks a model" organ-merge -q --config "$T/far.json" --models "$T/models" -o "$T/no.gguf"
finish
