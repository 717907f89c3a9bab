#!/bin/sh
# organ-merge: models to files, parameters, configurations, refusals.
. "$(dirname "$0")/lib.sh"
V=$LAB/lab-verse-q4_k_m.gguf C=$LAB/lab-code-q4_k_m.gguf S=$LAB/lab-stranger-q4_k_m.gguf
BASE=$LAB/lab-base-q4_k_m.gguf
merge() { organ-merge -q --no-hash --force "$@"; }

# Models of one block, as many merges are tested.
for m in base verse code; do
    organ-stack -q --drop 1-3 "$LAB/lab-$m-q4_k_m.gguf" -o "$T/$m.gguf" || bad "no small models"
done
base=$T/base.gguf v=$T/verse.gguf c=$T/code.gguf

# The same bytes with any number of threads, in a file and in a pipe; random methods depend on the
# seed alone. The result is in Q8_0, because encoding Q4_K would take most of the time.
quick() { merge --base $base --dtype '*=q8_0' "$@"; }
for method in ties,density=0.3 dare-ties,density=0.4 della,density=0.5 sce,select_topk=0.2 model-stock; do
    check "$method" quick --method $method --model $v --model $c -j 1 -o "$T/one.gguf"
    check "$method, threads" quick --method $method --model $v --model $c -j 3 -o "$T/more.gguf"
    check_same "$T/one.gguf" "$T/more.gguf" "$method: threads change it"
    GG_ISA=0 quick --method $method --model $v --model $c -o "$T/plain.gguf" || bad "$method in plain C"
    check_same "$T/one.gguf" "$T/plain.gguf" "$method: vector instructions change it"
    quick --method $method --model $v --model $c -j 3 -o - > "$T/pipe.gguf" || bad "$method to a pipe"
    check_same "$T/one.gguf" "$T/pipe.gguf" "$method: a pipe changes it"
done
for method in nearswap,t=0.001 arcee-fusion; do
    check "$method" quick --method $method --model $v -o "$T/one.gguf"
    check "$method in plain C" env GG_ISA=0 organ-merge -q --no-hash --force --base $base --dtype '*=q8_0' \
        --method $method --model $v -o "$T/plain.gguf"
    check_same "$T/one.gguf" "$T/plain.gguf" "$method: vector instructions change it"
done
# Of equal magnitudes the first are kept: threads must not count them at the same time.
mkmodel "$T/flat.gguf" -k llama.block_count=1 blk.0.ffn_up.weight:F16:256x2048
flat() { # NAME BYTE: all values are this byte twice
    head -c "$(($(wc -c < "$T/flat.gguf") - 1048576))" "$T/flat.gguf" > "$T/$1.gguf"
    head -c 1048576 /dev/zero | tr '\0' "$2" >> "$T/$1.gguf"
}
flat zero '\0'
flat more '\74'
flat less '\70'
for method in ties,density=0.3 sce,select_topk=0.3; do
    merge --base "$T/zero.gguf" --method $method --model "$T/more.gguf" --model "$T/less.gguf" -j 1 -o "$T/one.gguf"
    for k in 1 2 3 4 5 6; do
        merge --base "$T/zero.gguf" --method $method --model "$T/more.gguf" --model "$T/less.gguf" -j 4 \
            -o - > "$T/pipe.gguf"
        check_same "$T/one.gguf" "$T/pipe.gguf" "$method: equal magnitudes, run $k"
    done
done
flat minus '\274'
check_error 1 "the weighted directions of the models cancel out" "no mean" merge --method multislerp \
    --model "$T/more.gguf" --model "$T/less.gguf" --model "$T/minus.gguf,weight=2" -o "$T/none.gguf"
organ-keys -q $C --set llama.rope.freq_base=f32:50000 -o "$T/turned.gguf"
check "another rotation" organ-merge --no-hash --force --method linear --model $V --model "$T/turned.gguf" \
    -o "$T/one.gguf"
if grep -q 'turned.gguf: llama.rope.freq_base differs: base 10000, donor 50000' "$T/err"; then ok
else bad "no note on the rotation: $(cat "$T/err")"; fi
check "a seed" quick --method dare-linear,density=0.4 --model $v --seed 1 -o "$T/s1.gguf"
check "another seed" quick --method dare-linear,density=0.4 --model $v --seed 2 -o "$T/s2.gguf"
if cmp -s "$T/s1.gguf" "$T/s2.gguf"; then bad "the seed changes nothing"; else ok; fi
check_text "$(organ-keys "$T/s2.gguf" --get organ.merge.seed)" 2 "the seed in the keys"

# One model alone is copied byte for byte, whatever its types.
check "one model" merge --method linear --model $V --set-kv general.name=str:x -o "$T/same.gguf"
check_text "$(organ-compare "$V" "$T/same.gguf" | awk -F"$TAB" "$BY_NAME"'col("status") == "identical"' | wc -l |
    tr -d ' ')" \
    "$(organ-extract --list $V | awk 'NR > 1' | wc -l | tr -d ' ')" "tensors of one model"
check "weights of 0" merge --method task,weight=0 --base $BASE --model $V -o "$T/base.gguf"
check_text "$(organ-compare "$BASE" "$T/base.gguf" | awk -F"$TAB" "$BY_NAME"'col("status") != "identical"' | wc -l |
    tr -d ' ')" 2 \
    "only the keys differ from the base"

# Ramps, lists and filters, as --check shows them.
parameter() { # TENSOR TEXT OPTIONS...: that the tensor's parameters contain
    tensor=$1 text=$2
    shift 2
    if organ-merge -q --check "$@" > "$T/table" && grep "^$tensor$TAB" "$T/table" | grep -qF "$text"; then ok
    else bad "$tensor: no $text: $(grep "^$tensor$TAB" "$T/table")"
    fi
}
two="--model $V --model $C"
# shellcheck disable=SC2086 # $two is two options
{
    parameter token_embd.weight "t=0.25" --method slerp,t=0.25..0.625 $two
    parameter blk.1.ffn_up.weight "t=0.375" --method slerp,t=0.25..0.625 $two
    parameter output.weight "t=0.625" --method slerp,t=0.25..0.625 $two
    parameter blk.1.ffn_up.weight "t=0.5" --method "slerp,t=[0,0.5,1,0.25]" $two
    parameter blk.2.attn_q.weight "t=1" --method "slerp,t=[0,0.5,1,0.25]" $two
    parameter blk.2.attn_q.weight "t=1" --method "slerp,t=[1]" $two
    parameter blk.2.ffn_up.weight "t=0.9" --method slerp,t:ffn=0.9,t=0.1 $two
    parameter blk.2.attn_q.weight "t=0.1" --method slerp,t=0.1,t:ffn=0.9 $two
    parameter blk.2.ffn_down.weight "t=0.7" --method slerp,t:ffn_down=0.7,t:ffn=0.9,t=0.1 $two
    parameter blk.2.attn_v.weight "t=0.6" --method "slerp,t:blk.2.*=0.6,t=0.1" $two
}
parameter blk.0.attn_v.weight "rescale=1" --method dare-linear,density=0.5 --base $BASE --model $V
parameter blk.0.attn_v.weight "rescale=0" --method ties,density=0.5 --base $BASE --model $V
parameter blk.0.attn_v.weight "weight=0.3,1 " --method linear --model $V,weight=0.3 --model $C
parameter blk.0.attn_v.weight "weight=0.3,0.6 " --method linear,weight=0.6 --model $V,weight=0.3 --model $C

# What the result tells about its origin.
check "history" organ-merge -q --force --method ties,lambda=0.7 --base $BASE --model $V,weight=0.6 --model $C \
    --card "$T/card.md" -o "$T/m.gguf"
check_text "$(organ-keys "$T/m.gguf" --get organ.merge.method)" ties "method"
check_text "$(organ-keys "$T/m.gguf" --get organ.merge.parameters)" lambda=0.7 "parameters"
check_text "$(head -n 1 "$T/card.md")" "# lab-verse + lab-code (ties)" "the title of the card"
check_text "$(organ-keys "$T/m.gguf" --get general.name)" "lab-verse + lab-code (ties)" "the name of the model"
sha=$(organ-check --hash "$C" | awk -F "$TAB" "$BY_NAME"'col("kind") == "file" { print col("sha256") }')
if organ-keys "$T/m.gguf" --full organ.merge.models.sha256 | grep -q "$sha"; then ok; else bad "no sha256"; fi
if grep -q "$sha" "$T/card.md" && grep -q 'weight=0.6' "$T/card.md"; then ok; else bad "card: $(cat "$T/card.md")"; fi
# Names in a card are text, whatever they contain.
merge --method linear --model $V -o "$T/first.gguf" --no-hash -q
name=$(printf '# <script>x</script> [a](http://b) **c** `d` | www.e.f '
    printf '\033[1m \342\200\256 \342\200\213 \377 \001 q4_k_m _g_ &amp; ![h](i)\\')
printf '%s' "$name" > "$T/name"
organ-keys -q "$T/first.gguf" --set-file "general.name=$T/name" --output "$T/hostile.gguf"
organ-merge -q --force --no-hash --method linear "$T/hostile.gguf" "$V" --card - \
    -o "$T/h2.gguf" > "$T/card2.md" 2> "$T/err"
plain='\# \<script\>x\</script\> \[a\](http\://b) \*\*c\*\* \`d\` \| www\.e.f'
plain=$plain' \\x1b\[1m \\xe2\\x80\\xae \\xe2\\x80\\x8b \\xff \\x01 q4_k_m \_g\_ \&amp; \!\[h\](i)\\\\'
check_text "$(head -n 1 "$T/card2.md")" "# $plain + lab-verse (linear)" "the title of the card"
check_text "$(sed -n 's/^| model | \(.*\) |  |  |$/\1/p' "$T/card2.md" | head -n 1)" "$plain" "a cell of the card"
check_text "$(head -c 20 "$T/name")" "$(organ-keys "$T/h2.gguf" --get general.name | head -c 20)" \
    "the key keeps the name"
organ-merge -q --force --no-hash --method linear "$T/hostile.gguf" "$V" --card "$T/card3.md" -o "$T/h2.gguf"
check_same "$T/card2.md" "$T/card3.md" "--card - prints the card"
check_error 2 "both write to stdout" "card and model on stdout" organ-merge -q --method linear "$V" "$C" --card - -o -
check_error 2 "exists" "an existing card" organ-merge -q --no-hash --method linear \
    --model $V --card "$T/card.md" -o "$T/new.gguf"
check_absent "$T/new.gguf" "nothing is written before an existing card is refused"
check_error 2 "this is also the output of --output" "a card instead of the model" merge \
    --method linear --model $V --card "$T/new.gguf" -o "$T/new.gguf"
cp $C "$T/input.gguf"
check_error 2 "this output is also an input" "a card instead of an input" merge \
    --method linear --model $V --model "$T/input.gguf" --card "$T/input.gguf" -o "$T/new.gguf"
check_same $C "$T/input.gguf" "the input stays"
check_exit 4 "a card in a folder that does not exist" merge --method linear --model $V \
    --card "$T/nowhere/card.md" -o "$T/new.gguf"
check_absent "$T/new.gguf" "nothing is written without a card"

# Types, shards, keys, other forms of models.
check "types" merge --method linear --model $V --model $C --dtype f16 --shards 2 -o "$T/f16.gguf"
check_text "$(organ-extract --list "$T/f16-00001-of-00002.gguf" |
    awk -F"$TAB" "$BY_NAME"'col("name") == "blk.0.ffn_up.weight" {
    print col("dtype") }')" \
    F16 "dtype"
organ-extract -q $V --output "$T/dir" || bad extract
check "a directory and stdin" merge --method slerp,t=0.5 --model "$T/dir" --model - -o "$T/d.gguf" < $C
merge --method slerp,t=0.5 --model $V --model $C -o "$T/f.gguf" || bad files
check_same "$T/d.gguf" "$T/f.gguf" "a directory and stdin"

# Blends of organ-transplant agree with merges.
check "blend" organ-transplant -q --base $V --donor $C --blend slerp:0.5 --set-kv general.name=str:x -o "$T/blend.gguf"
check "merge" merge --method slerp,t=0.5 --model $V --model $C -o "$T/slerp.gguf"
check_text "$(differing "$T/blend.gguf" "$T/slerp.gguf")" "" "tensors in which slerp and the blend differ"

# Configurations.
config() { # NAME METHOD-OPTIONS...: the configuration on stdin gives the same tensors as the options
    name=$1
    shift
    cat > "$T/config.json"
    check "$name" merge --config "$T/config.json" -o "$T/config.gguf"
    check "$name, options" merge "$@" -o "$T/options.gguf"
    check_text "$(differing "$T/config.gguf" "$T/options.gguf")" "" "$name: tensors that differ from those by options"
}
config linear --method linear --model $V,weight=1 --model $C,weight=0.3 --dtype f16 << END
{"models": [{"model": "$V", "parameters": {"weight": 1.0}},
            {"model": "$C", "parameters": {"weight": 0.3}}],
 "merge_method": "linear", "dtype": "float16"}
END
config gradient-slerp \
    --method "slerp,t:blk.*.attn_[qkvo]*=[0,0.5,0.3,0.7,1],t:blk.*.ffn_[gud]*=[1,0.5,0.7,0.3,0],t=0.5" \
    --base $V --model $C << END
{"slices": [{"sources": [{"model": "$V", "layer_range": [0, 4]}, {"model": "$C", "layer_range": [0, 4]}]}],
 "merge_method": "slerp", "base_model": "$V", "tokenizer_source": "base",
 "parameters": {"t": [{"filter": "self_attn", "value": [0, 0.5, 0.3, 0.7, 1]},
                      {"filter": "mlp", "value": [1, 0.5, 0.7, 0.3, 0]}, {"value": 0.5}]}}
END
config ties --method ties,normalize=1 --base $BASE --model "$V,density=[1,0.7,0.1],weight=1" \
    --model "$C,density=0.5,weight:blk.*.ffn_[gud]*=0.5,weight=0.25" << END
{"models": [{"model": "$V", "parameters": {"density": [1, 0.7, 0.1], "weight": 1.0}},
            {"model": "$C", "parameters": {"density": 0.5,
             "weight": [{"filter": "mlp", "value": 0.5}, {"value": 0.25}]}},
            {"model": "$BASE"}],
 "merge_method": "ties", "base_model": "$BASE", "parameters": {"normalize": true, "int8_mask": true}}
END
cat > "$T/slices.json" << END
{"slices": [{"sources": [{"model": "$V", "layer_range": [0, 2]}]},
            {"sources": [{"model": "$C", "layer_range": [1, 4]}]}],
 "merge_method": "passthrough"}
END
check "slices" merge --config - -o "$T/slices.gguf" < "$T/slices.json"
check "stack" organ-stack -q --force $V 0-1 $C 1-3 --output "$T/stack.gguf"
check_text "$(differing "$T/slices.gguf" "$T/stack.gguf")" "" "slices are a stack"
check_text "$(organ-keys "$T/slices.gguf" --get organ.merge.parameters)" "slices=1:0-1,2:1-3" "history of slices"
check_text "$(organ-keys "$T/slices.gguf" --get llama.block_count)" 5 "blocks of slices"
organ-merge --config "$T/slices.json" --check --shards 2 2> "$T/err" |
    awk -F"$TAB" "$BY_NAME"'NR > 1 { print col("name"), col("how"), col("parameters") }' > "$T/rows"
check_text "$(sed -n '/^blk.[12].attn_q.weight/p; /^output.weight/p' "$T/rows")" "blk.1.attn_q.weight copy lab-verse
blk.2.attn_q.weight copy lab-code
output.weight copy lab-verse" "--check of slices"
if grep -q "slices are written as one file" "$T/err"; then ok; else bad "slices in shards: $(cat "$T/err")"; fi
organ-merge -q --config "$T/slices.json" --set-kv general.name=str:Stack -o "$T/named.gguf" || bad "slices with hashes"
if organ-keys "$T/named.gguf" --full organ.merge.models.sha256 | grep -q "$sha"; then ok
else bad "slices: no sha256"; fi
check_text "$(organ-keys "$T/named.gguf" --get general.name)" Stack "slices with --set-kv"
check_error 2 "not for slices" "a card of slices" merge --config "$T/slices.json" --card "$T/slices.md" -o "$T/no.gguf"
for besides in "--model $V" "--base $V"; do
    # shellcheck disable=SC2086 # two words
    check_error 2 "names the method and the models" "a configuration and $besides" merge \
        --config "$T/slices.json" $besides -o "$T/no.gguf"
done
# The template of a chat: that of most models, chatml, or any.
for m in a b c; do
    organ-keys -q $V --set "tokenizer.chat_template=str:{{ $([ $m = a ] && echo one || echo two) }}" \
        --output "$T/chat-$m.gguf"
done
template() { # TEMPLATE OPTION...: what the merge has
    printf '{"merge_method": "linear", "parameters": {"weight": 1}, "chat_template": "%s",
        "models": [{"model": "%s"}, {"model": "%s"}, {"model": "%s"}]}' \
        "$1" "$T/chat-a.gguf" "$T/chat-b.gguf" "$T/chat-c.gguf" > "$T/config.json"
    shift
    organ-merge -q --no-hash --config "$T/config.json" -o "$T/chat.gguf" --force "$@" || bad "a chat template"
    organ-keys "$T/chat.gguf" --get tokenizer.chat_template
}
check_text "$(template auto)" "{{ two }}" "the template of most models"
check_text "$(template "{{ mine }}")" "{{ mine }}" "a template"
check_text "$(template chatml | cut -c 1-50)" "{% for message in messages %}{{ '<|im_start|>' + m" "chatml"
check_text "$(template auto --set-kv tokenizer.chat_template=str:last)" last "--set-kv decides"
printf '{"merge_method": "linear", "chat_template": "llama3", "models": [{"model": "%s"}]}' $V > "$T/config.json"
check_error 3 "chat_template 'llama3' is not supported" "a template by another name" organ-merge \
    -q --config "$T/config.json" -o "$T/no.gguf"

refused() { # TEXT JSON
    printf '%s' "$2" > "$T/config.json"
    check_error "${3:-3}" "$1" "refuse $1" organ-merge -q --config "$T/config.json" -o "$T/no.gguf"
}
refused "'modules'" '{"merge_method": "linear", "modules": {}}'
refused "merge_method 'zipit'" '{"merge_method": "zipit", "models": []}'
refused "'embed_slerp'" '{"merge_method": "linear", "models": [], "parameters": {"embed_slerp": true}}'
refused "models or slices" '{"merge_method": "linear"}'
refused "'organ merge' does" 'merge_method: linear'
printf '%s' "{\"merge_method\": \"linear\", \"parameters\": {\"weight\": 1}," \
    "\"slices\": [{\"sources\": [{\"model\": \"$V\", \"layer_range\": [0, 3]}]}]}" > "$T/config.json"
check "some of the blocks" organ-merge -q --config "$T/config.json" -o "$T/three.gguf"
check_text "$(organ-keys "$T/three.gguf" --get llama.block_count)" 3 "some of the blocks"
refused "[FIRST, END]" \
    "{\"merge_method\": \"passthrough\", \"slices\": [{\"sources\": [{\"model\": \"$V\", \"layer_range\": [3, 3]}]}]}"

# Refusals.
no() { # STATUS TEXT OPTIONS...
    status=$1 text=$2
    shift 2
    check_error "$status" "$text" "refuse: $text" organ-merge -q "$@" -o "$T/no.gguf"
    check_absent "$T/no.gguf" "$text"
}
no 2 "unknown method ''" --method "" --model $V
no 2 "unknown method 'tie' (did you mean 'ties'?)" --method tie --model $V
no 2 "ties needs the base" --method ties --model $V
no 2 "unknown parameter 'T' (did you mean 't'?)" --method iso,T=0.6 --model $V
no 2 "exactly 2 models" --method slerp,t=0.5 --model $V
no 2 "nearswap needs a value for t" --method nearswap --model $V --model $C
no 2 "density is 0, but must be above 0" --method ties,density=0 --base $BASE --model $V
no 2 "density is 1.5" --method ties,density=1.5 --base $BASE --model $V
no 2 "linear has no parameter density" --method linear --model $V,density=0.5
no 2 "unknown parameter 'wieght' (did you mean 'weight'?)" --method linear --model $V,weight=1,wieght=0.5
no 2 "malformed value" --method linear,weight=0.5x --model $V
no 2 "malformed value in 'weight=0...5'" --method linear,weight=0...5 --model $V
no 2 "probabilities from" --method della,density=0.1,epsilon=0.2 --base $BASE --model $V
no 2 "given twice" --method linear --model $V --model $V
no 2 "same file" --method linear --model $V --model ./$V
no 2 "only one model can be read from stdin" --method linear --model - --model - < $V
no 2 "task_arithmetic needs the base" --method task --model $V
no 2 "iso needs the base" --method iso --model $V
no 2 "add up to 0" --method linear --model $V,weight=1 --model $C,weight=-1
no 1 "matches the filter 'ffm'" --method linear,weight:ffm=0.5 --model $V --model $C
no 1 "shares no lineage" --method linear --model $V --model $S --strict
no 4 "none.gguf" --method linear --model "$T/none.gguf"
organ-merge --no-hash --method linear --model $V --model $S --dtype '*=q8_0' -o "$T/noise.gguf" 2> "$T/err" ||
    bad strangers
if grep -q "shares no lineage" "$T/err"; then ok; else bad "no note on strangers: $(cat "$T/err")"; fi

# Values that are not finite.
sed 's/, "sha256": "[0-9a-f]*"//' "$T/dir/manifest.json" > "$T/manifest" && mv "$T/manifest" "$T/dir/manifest.json"
norm=$T/dir/norm/output_norm.bin
[ -f "$norm" ] || norm=$(find "$T/dir" -name 'output_norm.bin')
size=$(wc -c < "$norm")
printf '\000\000\300\177' | dd of="$norm" bs=1 seek=$((size - 8)) conv=notrunc 2> /dev/null
no 3 "value 254 is NaN or infinite" --method linear --model $V --model "$T/dir"
no 3 "output_norm.weight" --method ties,density=0.5 --base $BASE --model "$T/dir"

# Other vocabularies and dims: only with the embeddings of the first model.
organ-keys -q $C --set 'tokenizer.ggml.tokens=str[]:a,b' --output "$T/words.gguf" || bad keys
no 1 "vocabulary (2 tokens) differs" --method linear --model $V --model "$T/words.gguf"
check "embeddings of the first" merge --method linear --model $V --model "$T/words.gguf" \
    --embed-from base -o "$T/e.gguf"
organ-compare "$V" "$T/e.gguf" > "$T/table"
check_text "$(awk -F"$TAB" "$BY_NAME"'col("class") == "embed" { print col("status") }' "$T/table" |
    sort -u)" identical "embeddings are copied"
check_text "$(awk -F"$TAB" "$BY_NAME"'col("name") == "blk.0.attn_q.weight" {
    print col("status") }' "$T/table")" differs "the rest is merged"
organ-stack -q $V 0-2 --output "$T/short.gguf" || bad stack
no 1 "it does not have this tensor" --method linear --model $V --model "$T/short.gguf"
organ-keys -q $C --set general.architecture=str:qwen2 --output "$T/arch.gguf" || bad keys
no 1 "its architecture is not that of" --method linear --model $V --model "$T/arch.gguf"
small() { # NAME TOKENS DIMS
    mkmodel "$T/$1.keyless" "blk.0.ffn_up.weight:F32:$3" &&
        organ-keys -q "$T/$1.keyless" --set general.architecture=str:llama --set "tokenizer.ggml.tokens=str[]:$2" \
        --output "$T/$1.gguf" || bad "$1"
}
small ab a,b 8x4
small ac a,c 8x4
small wide a,b 8x6
no 1 "vocabulary (2 tokens) differs" --method linear --model "$T/ab.gguf" --model "$T/ac.gguf"
no 1 "its dims are 8x6, but those of the first model are 8x4" --method linear --model "$T/ab.gguf" \
    --model "$T/wide.gguf"

# Each expert of a stack is made isotropic on its own, so it does not matter what else the stack has.
for k in 1 2 3; do
    mkmodel "$T/moe$k.gguf" -s $k -k llama.expert_count=3 -k llama.expert_used_count=1 token_embd.weight:F32:32x4 \
        blk.0.ffn_gate_inp.weight:F32:32x3 blk.0.ffn_gate_exps.weight:F32:32x32x3
    organ-prune -q "$T/moe$k.gguf" --experts 1 -o "$T/one$k.gguf" || bad "keep an expert"
done
check "iso of stacks" merge --method iso,t=1 --base "$T/moe1.gguf" --model "$T/moe2.gguf" \
    --model "$T/moe3.gguf" -o "$T/isomoe.gguf"
check "iso of one expert" merge --method iso,t=1 --base "$T/one1.gguf" --model "$T/one2.gguf" \
    --model "$T/one3.gguf" -o "$T/isoone.gguf"
organ-prune -q "$T/isomoe.gguf" --experts 1 -o "$T/kept.gguf" || bad "keep the merged expert"
check_text "$(organ-compare "$T/kept.gguf" "$T/isoone.gguf" --tensors blk.0.ffn_gate_exps.weight |
    awk -F"$TAB" "$BY_NAME"'NR > 1 { print col("status") }')" identical "iso of stacks: per expert"

# Values with a scale of their own; shards in a check, which has no file to name.
for k in 1 2; do mkmodel "$T/scaled$k.gguf" -s $k blk.0.ffn_up.weight:NVFP4:64x32 blk.0.ffn_up.scale:F32:1; done
check_error 3 "scaled by blk.0.ffn_up.scale" "a scaled weight" merge --method linear \
    --model "$T/scaled1.gguf" --model "$T/scaled2.gguf" -o "$T/new.gguf"
# shellcheck disable=SC2086 # $two is two options
check "shards in a check" organ-merge -q --check --method linear $two --shards 2

# ---- keys that decide what values mean ----------------------------------------------------------------------

# A second model with one key changed, merged both ways round: a note names the key.
other() { # KEY=TYPE:VALUE...
    cp $v "$T/other.gguf"
    for kv in "$@"; do
        organ-keys -q "$T/other.gguf" --set "llama.$kv" -o "$T/other.2.gguf" --force 2> /dev/null ||
            bad "keys: $kv"
        mv "$T/other.2.gguf" "$T/other.gguf"
    done
}
ways=1
if exhaustive; then ways=2; fi
for kv in attn_logit_softcapping=f32:30 final_logit_softcapping=f32:15 attention.sliding_window=u32:64 \
    logit_scale=f32:8 residual_scale=f32:0.22 embedding_scale=f32:12 attention.scale=f32:0.1 \
    rope.freq_base=f32:500000 rope.freq_base_swa=f32:10000 rope.scaling.type=str:yarn rope.scaling.factor=f32:4 \
    rope.new_setting=u32:7 attention.layer_norm_rms_epsilon=f32:0.01; do
    other $kv
    case $kv in *yarn | *epsilon*) ways=2 ;; esac
    for pair in "$T/other.gguf $c" "$c $T/other.gguf"; do
        [ $ways = 2 ] || [ "${pair%% *}" != "$c" ] || continue
        # shellcheck disable=SC2086 # two files
        organ-merge --method linear $pair -o "$T/noted.gguf" --force 2> "$T/err"
        grep -qF "llama.${kv%%=*} differs" "$T/err" && ok || bad "no note on $kv: $(cat "$T/err")"
    done
done
for kv in rope.scaling.type=str:none rope.scaling.factor=f32:1 attn_logit_softcapping=f32:0 \
    attention.sliding_window=u32:0 context_length=u32:77 rope.scaling.original_context_length=u32:64; do
    other $kv
    organ-merge --method linear "$T/other.gguf" $c -o "$T/noted.gguf" --force 2> "$T/err"
    grep -qF " differs" "$T/err" && bad "a note on $kv: $(cat "$T/err")" || ok
done
other rope.scaling.type=str:yarn rope.scaling.original_context_length=u32:64
organ-keys -q "$T/other.gguf" --delete llama.rope.scaling.original_context_length -o "$T/lacks.gguf" --force
organ-merge --method linear "$T/other.gguf" "$T/lacks.gguf" -o "$T/noted.gguf" --force 2> "$T/err"
grep -qF "original_context_length differs" "$T/err" && ok || bad "scaled without its origin: $(cat "$T/err")"
for kv in attention.head_count=u32:8 attention.head_count_kv=u32:1 attention.key_length=u32:16; do
    other $kv
    no 1 "rows of equal shapes would belong to different heads" --method linear --model $c --model "$T/other.gguf"
    no 1 "rows of equal shapes would belong to different heads" --method linear --model "$T/other.gguf" --model $c
done

# A model with more or fewer blocks than the first.
organ-stack -q $V 0-3,3 -o "$T/deep.gguf" --force
no 1 "blocks, but" --method linear --model $V --model "$T/deep.gguf"
no 1 "it does not have this tensor" --method linear --model "$T/deep.gguf" --model $V

# Tied embeddings are the head of their model, in either order: the result is that of an untied copy.
organ-extract -q $V -o "$T/untied" --force
cp -R "$T/untied" "$T/tied"
awk '/"name": "output.weight"/ { next } NR > 1 { print before } { before = $0 } END { print before }' \
    "$T/untied/manifest.json" | awk 'NR > 1 { if ($0 ~ /^  \]/) sub(/,$/, "", before); print before }
        { before = $0 } END { print before }' > "$T/tied/manifest.json"
{ printf '\015\000\000\000output.weight'; tail -c +22 "$T/untied/embed/token_embd.bin"; } > "$T/head.bin"
mv "$T/head.bin" "$T/untied/embed/output.bin"
awk '/"name": "token_embd.weight"/ { line = $0; gsub(/token_embd/, "output", line); sub(/,$/, "", line) }
    /"name": "output.weight"/ { $0 = line } { print }' "$T/untied/manifest.json" > "$T/m"
mv "$T/m" "$T/untied/manifest.json"
for m in tied untied; do check "a model that is $m" organ-assemble -q "$T/$m" -o "$T/$m.gguf" --force; done
check_text "$(organ-extract --list "$T/tied.gguf" | grep -c '^output.weight')" 0 "no head"
for order in "M $C" "$C M"; do
    for m in tied untied; do
        # shellcheck disable=SC2046,SC2086 # two files
        check "merge of $m" organ-merge -q --no-hash --method linear \
            $(echo "$order" | sed "s|M|$T/$m.gguf|") -o "$T/of-$m.gguf" --force
        organ-check --hash "$T/of-$m.gguf" | awk -F"$TAB" "$BY_NAME"'col("kind") == "tensor"' | sort > "$T/rows-$m"
    done
    check_same "$T/rows-tied" "$T/rows-untied" "$order: tied and untied"
    check_text "$(awk -F"$TAB" '$3 == "output.weight"' "$T/rows-tied" | grep -c .)" 1 "$order: a head"
done

finish
