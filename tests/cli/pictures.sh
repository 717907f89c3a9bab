#!/bin/sh
# pictures.sh - the maps of organ-measure, organ-compare, organ-graft, organ-stack and organ-merge:
# a square for each tensor, the right source for each, well-formed XML, a scale that outliers do
# not stretch, nothing replaced by accident.
. "$(dirname "$0")/lib.sh"
VERSE=$LAB/lab-verse-q4_k_m.gguf
CODE=$LAB/lab-code-q4_k_m.gguf
STRANGER=$LAB/lab-stranger-q4_k_m.gguf
D=tests/data
organ-measure "$VERSE" > "$T/verse.tsv"
N=$(($(wc -l < "$T/verse.tsv") - 1))

# ---- organ-measure ----
check "svg" organ-measure "$VERSE" --svg "$T/m.svg"
check_text "$(cat "$T/out")" "" "no table beside the picture"
check_text "$(grep -c '<rect.*<title>' "$T/m.svg")" "$(($(wc -l < "$T/verse.tsv") - 1))" "a square a tensor"
check_text "$(grep -c '<script' "$T/m.svg")" 0 "no scripts"
check_text "$(grep -c 'prefers-color-scheme: dark' "$T/m.svg")" 1 "light and dark"
check_error 2 "m.svg" "an existing picture" organ-measure "$VERSE" --svg "$T/m.svg"
check "an existing picture, forced" organ-measure "$VERSE" --svg "$T/m.svg" --force
check "svg of odd names" organ-measure "$D/gguf/names-odd.gguf" --svg - --color calibrated
cp "$T/out" "$T/odd.svg"
if have python3 "what Python checks"; then check "svg is XML" python3 \
    -c "import sys, xml.dom.minidom as m; m.parse('$T/odd.svg'); m.parse('$T/m.svg')"; fi
check "heat" organ-measure --heat "$VERSE"
check_text "$(grep -c "$(printf '\033')" "$T/out")" 0 "no colours unless stdout is a terminal"
check_text "$(grep -c ' attn_q ' "$T/out")" 1 "heat has one line per role"
# Two values of 3e38: a scale from there to one more has no width.
printf '\1\0\0\0x\1\0\0\0\2\0\0\0\0\0\0\0\0\0\0\0\232\263\141\177\232\263\141\177' > "$T/huge.bin"
check "heat of one huge value" organ-measure --heat --color max "$T/huge.bin"
check_text "$(tail -n 1 "$T/out" | tr -d ' ')" "x▁3e+38" "heat of one huge value"
check "svg of one huge value" organ-measure --svg - --color min "$T/huge.bin"


# The tensors around one outlier keep their colours: the scale ends at the 95 % quantile.
organ-measure --heat --color max "$VERSE" > "$T/plain"
check_text "$(sed -n 2p "$T/plain" | awk '{print ($NF < 1.3)}')" 1 "an outlier does not stretch the scale"
check_text "$(sed 's/<[^>]*>/ /g' "$T/m.svg" | grep -c '5 % to the 95 % quantile')" 1 "the scale is stated"
check_text "$(sed -n 's/.*viewBox="0 0 \([0-9]*\) .*/\1/p' "$T/m.svg")" 400 "readable at 400 pixels"
check_error 2 "does not replace a model" "a model as the picture" organ-measure "$VERSE" --svg "$CODE" --force

# ---- organ-compare ----
check_exit 1 "compare, svg" organ-compare "$VERSE" "$CODE" --svg "$T/c.svg"
check_text "$(($(wc -c < "$T/out")))" 0 "no table beside it"
check_text "$(grep -c '<rect.*<title>' "$T/c.svg")" "$N" "a square a tensor"
check_text "$(grep -Ec 'same lineage: median cosine|Each square compares' "$T/c.svg")" 2 \
    "the verdict in words, and what a square is"
cosine=$(organ-compare "$VERSE" "$CODE" --tensors output.weight --where 'cosine>0' |
    awk -F '\t' "$BY_NAME"'NR == 2 { printf "%.4g", col("cosine") }')
check_text "$(grep -c "<title>output.weight: $cosine<" "$T/c.svg")" 1 "the cosine of a tensor"
check_exit 1 "compare, heat" organ-compare "$VERSE" "$STRANGER" --heat --color rel_l2
check_text "$(grep -c 'strangers: ' "$T/out")" 1 "strangers in words"
check_exit 0 "compare, itself" organ-compare "$VERSE" "$VERSE" --svg -
check_text "$(grep -c 'fill="#fde725"' "$T/out")" 1 "all the same: one colour, the scale's own last"
check_error 2 "use cosine or rel_l2" "another column" organ-compare "$VERSE" "$CODE" --svg - --color theta
check_error 2 "prints no table" "a picture and a table" organ-compare "$VERSE" "$CODE" --svg - --lineage
check_error 2 "c.svg" "an existing picture" organ-compare "$VERSE" "$CODE" --svg "$T/c.svg"

# ---- where tensors come from ----
check "graft" organ-graft --base "$VERSE" --donor "$CODE" --type organ --layers 1 --output "$T/g" --svg "$T/g.svg"
check_text "$(grep -c '<title>blk.1.ffn.*: lab-code-q4_k_m.gguf, replace<' "$T/g.svg")" 3 "three tensors of the donor"
check_text "$(grep -c '<title>.*: as in the base<' "$T/g.svg")" $((N - 3)) "the rest of the base"
check "graft of a graft" organ-graft --base "$T/g" --donor "$STRANGER" --tensors 'blk.1.ffn_up.weight' \
    --blend linear:0.5 --output "$T/g2" -q
check "picture of a finished directory" organ-graft --svg "$T/g2.svg" "$T/g2"
check_text "$(grep -c '<title>blk.1.ffn_up: lab-code-q4_k_m.gguf, replace;
    lab-stranger-q4_k_m.gguf, linear:0.5<' "$T/g2.svg")" 1 "a history of two"
check_error 1 "only organ directories have a history of grafts" "a model without a history" organ-graft \
    --svg "$T/no.svg" "$VERSE"
organ-extract -q "$VERSE" --output "$T/unchanged"
check "a directory without a history" organ-graft --svg "$T/p.svg" "$T/unchanged"
check_text "$(grep -c 'no history' "$T/p.svg" "$T/g2.svg" | sed 's/.*://')" "1
0" "a picture without a history says so"
check "stack" organ-stack --output "$T/s.gguf" --svg "$T/s.svg" "$VERSE" 0-1 "$CODE" 1-3
check_text "$(grep -c "<title>blk.[234].*: $CODE<" "$T/s.svg")" 27 "three blocks of the second model"
check_text "$(grep -c "<title>.*: $VERSE<" "$T/s.svg")" 21 "two of the first, and the tensors outside the blocks"
check "stack, only checked" organ-stack --check --svg "$T/s2.svg" "$VERSE" 0-1 "$CODE" 1-3
check_text "$(grep '<rect' "$T/s.svg" | cksum)" "$(grep '<rect' "$T/s2.svg" | cksum)" "the same picture"
check_error 2 "a finished stack has no history to draw" "a finished stack" organ-stack --svg "$T/no.svg" "$T/s.gguf"
check_error 1 "no history of a merge" "a finished stack is not a merge" organ-merge --svg "$T/no.svg" "$T/s.gguf"
check "merge" organ-merge --check --method linear --model "$VERSE,weight:ffn=0.2" --model "$CODE" --svg "$T/f.svg"
check_text "$(grep -c '<title>blk.*.ffn_[a-z]*: merge .*0.2' "$T/f.svg")" 12 "parameters of the FFN"
# Finished models: the same squares by their keys alone, whatever the parameters were given as.
squares() { grep '<rect' "$1" | cksum; }
check "merged" organ-merge -q --method task,lambda:attn_q=0.4 --base "$LAB/lab-base-q4_k_m.gguf" \
    --model "$VERSE,weight:ffn=0.2..0.8" --model "$CODE" --embed-from base --output "$T/f.gguf" --svg "$T/f0.svg"
check "a finished merge" organ-merge --svg "$T/f1.svg" "$T/f.gguf"
check_text "$(squares "$T/f1.svg")" "$(squares "$T/f0.svg")" "the picture of a finished merge"
check_text "$(grep -c '<rect.*<title>' "$T/f1.svg") $(grep -c '<title>token_embd.*: copy' "$T/f1.svg")" \
    "$((N + $(grep -c '<rect.*<title>[^:]*</title>' "$T/f1.svg"))) 1" "all of its tensors"
printf '{"merge_method": "slerp", "base_model": "%s", "models": [{"model": "%s"}],
    "parameters": {"t": [{"filter": "self_attn", "value": [0, 0.5, 1]}, {"filter": "mlp", "value": 0.3},
        {"value": 0.5}]}, "dtype": "float16"}\n' "$VERSE" "$CODE" > "$T/c.json"
check "merged by a configuration" organ-merge -q --config "$T/c.json" --output "$T/c.gguf" --svg "$T/c0.svg"
organ-extract -q "$T/c.gguf" --output "$T/c.organs"
check "a finished merge in an organ directory" organ-merge --svg "$T/c1.svg" "$T/c.organs"
check_text "$(squares "$T/c1.svg")" "$(squares "$T/c0.svg")" "the picture of a merge by a configuration"
printf '{"merge_method": "passthrough", "slices": [{"sources": [{"model": "%s", "layer_range": [0, 2]}]},
    {"sources": [{"model": "%s", "layer_range": [1, 4]}]}]}\n' "$CODE" "$VERSE" > "$T/d.json"
check_text "$(sed -n 's/.*>\(merge t=0.6667\)<.*/\1/p' "$T/c1.svg" | sort -u)" "merge t=0.6667" "numbers are rounded"
check_text "$(grep -c ': copy t=0</title></rect><text [^>]*class="mid on-[a-z]*">B</text>' "$T/c1.svg")" \
    "$(grep -c ': copy t=0</title>' "$T/c1.svg")" "letters for readers without colours"
check "slices" organ-merge -q --config "$T/d.json" --output "$T/d.gguf" --svg "$T/d0.svg"
check "finished slices" organ-merge --svg "$T/d.svg" "$T/d.gguf"
check_text "$(squares "$T/d.svg")" "$(squares "$T/d0.svg")" "the picture of slices while they are joined"
check_text "$(grep -c '<title>blk.[01].*: copy lab-code<' "$T/d.svg") $(grep -c '<title>blk.[234].*: copy lab-verse<' \
    "$T/d.svg") $(grep -c '<title>[^b].*: copy lab-code<' "$T/d.svg")" "18 27 3" "where blocks of slices come from"
check_error 1 "it has no history of a merge" "a model without a history" organ-merge --svg "$T/no.svg" "$CODE"
for set in 'method=nope' 'parameters=weight=x' 'parameters={"weight":[[]]}' 'parameters={' \
    'parameters=lambda=0x,' 'parameters=slices=1:2-1' 'parameters=slices=4:0-1' 'parameters=slices=1:0-1,,'; do
    organ-keys -q "$T/f.gguf" --set "organ.merge.${set%%=*}=str:${set#*=}" --output "$T/wrong.gguf" --force
    check_error 3 "organ.merge.${set%%=*} does not describe a merge" "$set" organ-merge --svg "$T/no.svg" \
        "$T/wrong.gguf"
done
organ-keys -q "$T/f.gguf" --set 'organ.merge.models=u32:1' --output "$T/wrong.gguf" --force
check_error 3 "organ.merge.models does not" "models that are a number" organ-merge --svg "$T/no.svg" "$T/wrong.gguf"
organ-keys -q "$VERSE" --set 'organ.merge.method=str:linear' --set 'organ.merge.parameters=str:' \
    --output "$T/few.gguf" --force
check_error 3 "organ.merge.models does not" "no models" organ-merge --svg "$T/no.svg" "$T/few.gguf"
organ-keys -q "$T/few.gguf" --set 'organ.merge.models=str[]:a,b' --output "$T/wrong.gguf" --force
check_error 3 "organ.merge.models.parameters does not" "models without parameters" organ-merge --svg "$T/no.svg" \
    "$T/wrong.gguf"
awk 'BEGIN { for (i = 0; i < 200000; i++) printf "%s", (i < 100000) ? "weight=1," : "weight:a=1," }' > "$T/many"
organ-keys -q "$T/f.gguf" --set-file "organ.merge.parameters=$T/many" --output "$T/wrong.gguf" --force
check_error 3 "organ.merge.parameters does not" "100,000 parameters" limited 20 organ-merge --svg "$T/no.svg" \
    "$T/wrong.gguf"
check_error 2 "" "a finished merge with another option" organ-merge --svg "$T/no.svg" --card "$T/no.md" "$T/f.gguf"
check_absent "$T/no.svg" "a finished merge with another option"
check_error 2 "f1.svg" "an existing picture of a merge" organ-merge --svg "$T/f1.svg" "$T/f.gguf"
if have python3 "what Python checks"; then check "XML" python3 \
    -c "import sys, xml.dom.minidom as m; [m.parse(f) for f in sys.argv[1:]]" "$T/c.svg" "$T/g2.svg" "$T/s.svg" \
    "$T/f.svg" "$T/f1.svg" "$T/d.svg"; fi
finish
