#!/bin/sh
# shellcheck disable=SC1091,SC2016
# sensitivity.sh - organ-sensitivity with an engine made of shell, whose perplexity depends on how far
# each tensor is from the original: the table has these losses, resumes, and is used by
# organ-assemble. The real engine is in tests/engine.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }
S=$PWD/scripts/organ-sensitivity
ORGAN_BIN=$BIN
export ORGAN_BIN

mkmodel "$T/m.gguf" blk.0.ffn_up.weight:F16:256x32 blk.0.ffn_down.weight:F16:256x32 blk.1.ffn_up.weight:F16:256x32 \
    output.weight:F16:256x32 output_norm.weight:F32:256
# The logarithm of the perplexity is 1, more for each changed tensor by a weight, and 1 for the second text.
cat > "$T/engine" << 'END'
#!/bin/sh
echo >> "$HERE/calls"
[ ! -e "$HERE/broken" ] || { echo "engine: out of memory" >&2; exit 1; }
if [ "$(($(wc -l < "$HERE/calls")))" = "$(cat "$HERE/stop" 2> /dev/null)" ]; then
    kill "$(cat "$HERE/pid")"
    sleep 1
    exit 1
fi
m=$1
shift
organ-compare -q "$HERE/m.gguf" "$m" > "$HERE/compared"
for t; do
    $MATH -F '\t' -v k="$(cat "$t")" '
        BEGIN { weight["output.weight"] = 2; weight["blk.0.ffn_up.weight"] = 1; weight["blk.1.ffn_up.weight"] = -1 }
        $4 == "differs" { n++; sum += ($1 in weight ? weight[$1] : 0.5) * $9 * $9 }
        END{ print (n > 1 ? "nan" : exp(k + sum)) }' OFMT=%.9g CONVFMT=%.9g "$HERE/compared"
done
END
chmod +x "$T/engine"
HERE=$T MATH=$(math_awk)
export HERE MATH
echo 1 > "$T/one.txt"
echo 2 > "$T/two.txt"
measure() { sh "$S" "$T/m.gguf" --text "$T/one.txt" --text "$T/two.txt" --output "$T/t.tsv" --engine "$T/engine" \
    "$@"; }
calls() { wc -l < "$T/calls" | tr -d ' '; }
cell() { awk -F '\t' -v n="$1" -v t="$2" -v c="$3" '$1 == n && $2 == t { print $c }' "$T/t.tsv"; }

cp "$T/m.gguf" "$T/before.gguf"
check "a table" measure --types q2_k,q4_k
check_same "$T/m.gguf" "$T/before.gguf" "the model is unchanged"
check_text "$(calls)" 9 "one run per tensor and type, and one more"
check_text "$(sed -n 2p "$T/t.tsv" | cut -f 1-6 | tr '\t' ' ')" "tensor type loss measured error seconds" "columns"
check_text "$(grep -c '^[bo]' "$T/t.tsv")" 8 "rows"
if grep -q '8 of 8 measurements' "$T/err" && grep -q 'for the first, about' "$T/err"; then ok; else \
    bad "the cost is not stated: $(cat "$T/err")"; fi
# Two texts, so twice the weight times the squared error.
if awk -F '\t' '!/^#/ && $1 != "tensor" {
    w = $1 == "output.weight" ? 2 : $1 == "blk.0.ffn_up.weight" ? 1 : $1 == "blk.1.ffn_up.weight" ? -1 : 0.5
    d = $4 / (2 * w * $5 * $5); if (d < 0.99 || d > 1.01) bad = 1
    if (w > 0 && $3 != $4 || w < 0 && ($3 <= 0 || $3 > 0.3 * $5 * $5)) bad = 1 } END { exit bad }' "$T/t.tsv"; then ok
    else bad "losses: $(cat "$T/t.tsv")"; fi
organ-assemble "$T/m.gguf" -q --bpw 5.4 --types q2_k,q4_k,q6_k --sensitivity "$T/t.tsv" --dry-run > "$T/plan"
check_text "$(awk -F '\t' "$BY_NAME"'col("basis") == "table"' "$T/plan" | wc -l | tr -d ' ')" 4 "the table is used"
if [ "$(awk -F '\t' "$BY_NAME"'col("tensor") == "output.weight" {
    print col("bytes") }' "$T/plan")" -gt "$(awk -F '\t' \
    "$BY_NAME"'col("tensor") == "blk.1.ffn_up.weight" {
        print col("bytes") }' "$T/plan")" ]; then ok; else bad "the plan does not follow the table"; \
    fi

# Interrupted, with a line cut in the middle, and resumed: the same table, and no measurement twice.
cut -f 1-5,7- "$T/t.tsv" > "$T/whole"
rm -f "$T/t.tsv" "$T/calls"
echo 4 > "$T/stop"
sh "$S" "$T/m.gguf" --text "$T/one.txt" --text "$T/two.txt" --output "$T/t.tsv" --engine "$T/engine" \
    --types q2_k,q4_k -q 2> "$T/err" &
echo $! > "$T/pid"
wait $!
check_text $? 143 "interrupted"
if grep -q 'run the same command to go on' "$T/err"; then ok; else bad "nothing says how to go on: $(cat "$T/err")"; fi
rm "$T/stop"
printf 'blk.0.ffn_down.weight\tQ4_K\t0.1' >> "$T/t.tsv"
check "resumed" measure --types q2_k,q4_k -q
cut -f 1-5,7- "$T/t.tsv" > "$T/again"
check_same "$T/whole" "$T/again" "resumed"
check_text "$(calls)" 10 "only the missing measurements"
check "nothing left" measure --types q2_k,q4_k
check_text "$(calls)" 10 "nothing is measured again"
check "one more type" measure --types q3_k -q --tensors 'output*'
check_text "$(calls)" 11 "a type is added"
check_text "$(grep -c '^[bo]' "$T/t.tsv")" 9 "a row is added"

# Mistakes.
check_error 2 "another model" "another text" sh "$S" "$T/m.gguf" --text "$T/two.txt" --output "$T/t.tsv" \
    --engine "$T/engine"
check_error 2 "--text" "no text" sh "$S" "$T/m.gguf" --output "$T/n.tsv"
check_error 2 "--types" "no types" measure --types 'q2 k'
check_exit 2 "an unknown type" measure --types q2_x -q --force
check_error 2 "for --measure kl" "a precision of losses" measure --precision 0.1
check_error 2 "at most 1" "a precision above 1" sh "$S" "$T/m.gguf" --text "$T/one.txt" \
    --output "$T/n.tsv" --measure kl --precision 2
check_exit 4 "no model" sh "$S" "$T/no.gguf" --text "$T/one.txt" --output "$T/n.tsv" --engine "$T/engine"
: > "$T/broken"
rm "$T/t.tsv"
check_error 3 "out of memory" "a broken engine" measure -q
finish
