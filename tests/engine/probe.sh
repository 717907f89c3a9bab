#!/bin/sh
# probe.sh - builds organ-probe against the pinned engine and tests it. Prints the checks that fail, and at
# last "probe: N passed, M failed"; exit 1 if one failed. Needs node, git and a C compiler.
#
#   BIN=build/bin          the tools; organ-probe is built beside them
#   LAB=tests/data/lab     a folder of lab models
set -u
cd "$(dirname "$0")/../.." || exit 1
# shellcheck source=tests/engine/recipes.sh
. tests/engine/recipes.sh
start_part probe
build_probe > "$M/build.log" 2>&1 || { cat "$M/build.log"; exit 1; }

passed=0 failed=0
ok() { passed=$((passed + 1)); }
bad() {
    failed=$((failed + 1))
    echo "FAIL probe: $1"
}
hold() { # WHAT AWK-CONDITION-of-x-and-y X Y
    if [ -n "$3" ] && [ -n "$4" ] && awk -v x="$3" -v y="$4" "BEGIN { exit !($2) }"; then ok; else \
        bad "$1: x '$3', y '$4'"; fi
}
# probe NAME ARGUMENT...: the table in $M/NAME.
probe() {
    to=$M/$1
    shift
    organ-probe -j 1 "$@" > "$to" 2> "$M/err" || bad "organ-probe $*: $(cat "$M/err")"
}
# cell NAME ROW COLUMN
cell() {
    awk -F '\t' -v row="$2" -v name="$3" \
        'NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) c = i } NR == row + 1 && c { print $c }' "$M/$1"
}
refused() { # STATUS TEXT ARGUMENT...
    want=$1 words=$2
    shift 2
    organ-probe -j 1 "$@" > "$M/out" 2> "$M/err"
    status=$?
    if [ $status = "$want" ] && grep -q -e "$words" "$M/err"; then ok; else bad "organ-probe $*: exit $status, $(cat \
        "$M/err")"; fi
}
verse=$LAB/lab-verse-q4_k_m.gguf code=$LAB/lab-code-q4_k_m.gguf text=$LAB/text-verse.txt
organ-assemble -q "$verse" --dtype q2_k --output "$M/q2.gguf"

# ---- losses: those of the other harness ------------------------------------------------------------
node tests/engine/engine.mjs ppl "$verse" "$text" > "$M/node" 2> /dev/null
probe loss "$verse" --text "$text"
hold "the perplexity is that of engine.mjs" 'x < 1.0001 * y && x > 0.9999 * y' "$(cell loss 1 perplexity)" "$(cut \
    -f 3 "$M/node")"
hold "as many tokens" 'x == y' "$(cell loss 1 tokens)" "$(cut -f 4 "$M/node")"
hold "the standard error" 'x > 0.02 && x < 0.05' "$(cell loss 1 error)" 0
probe part "$verse" --text "$text" --tokens 129
hold "the first tokens only" 'x == y' "$(cell part 1 tokens)" 128
organ-probe -q -j 2 "$verse" --text "$text" --tokens 129 > "$M/two"
hold "two threads" 'x == y' "$(cell two 1 loss)" "$(cell part 1 loss)"

# ---- divergence --------------------------------------------------------------------------------------
probe self "$verse" --text "$text" --against "$verse"
hold "a model diverges by 0 from itself" 'x == 0 && y == 1' "$(cell self 1 kl_max)" "$(cell self 1 same_top)"
probe short "$M/q2.gguf" --text "$text" --against "$verse"
probe whole "$M/q2.gguf" --text "$text" --against "$verse" --top 100000
hold "64 probabilities are within 1 % of all" 'x < 1.01 * y && x > 0.99 * y' "$(cell short 1 kl)" "$(cell whole 1 kl)"
hold "a few probabilities are still near" 'x < 1.05 * y && x > 0.95 * y' "$(organ-probe -j 1 "$M/q2.gguf" \
    --text "$text" --against "$verse" --top 4 | sed 1d | cut -f 6)" "$(cell whole 1 kl)"
hold "Q2_K diverges" 'x > 0.01' "$(cell short 1 kl)" 0
hold "the percentiles ascend" 'x < y' "$(cell short 1 kl_median)" "$(cell short 1 kl_99)"
hold "and end at the largest" 'x < y' "$(cell short 1 kl_999)" "$(cell short 1 kl_max)"
probe other "$code" --text "$text" --text "$LAB/text-code.txt" --against "$verse"
hold "another model diverges more" 'x > 2 * y' "$(cell other 1 kl)" "$(cell short 1 kl)"
hold "the change is the difference of the losses" 'x - y < 1e-6 && y - x < 1e-6' "$(cell other 1 loss_change)" \
    "$(awk -v a="$(cell other 1 loss)" -v b="$(cell loss 1 loss)" 'BEGIN { printf "%.9f", a - b }')"
probe saved "$verse" --text "$text" --text "$LAB/text-code.txt" --save-base "$M/base.gguf"
probe again "$code" --text "$text" --text "$LAB/text-code.txt" --against "$M/base.gguf"
if cmp -s "$M/again" "$M/other"; then ok; else bad "a stored reference gives other figures"; fi
hold "a few MB" 'x < 7e6' "$(wc -c < "$M/base.gguf")" 0
refused 2 "already exists" "$verse" --text "$text" --save-base "$M/base.gguf"
refused 2 "made from other texts" "$code" --text "$LAB/text-code.txt" --against "$M/base.gguf"
refused 2 "use --context 192" "$code" --text "$text" --against "$M/base.gguf" --context 100
node -e '
const fs = require("fs"), b = fs.readFileSync(process.argv[1]);
b[b.indexOf("<0x41>") + 4] = 0x5a;
fs.writeFileSync(process.argv[2], b);' "$M/q2.gguf" "$M/renamed.gguf"
refused 1 "its vocabulary (1024 tokens) differs" "$M/renamed.gguf" --text "$text" --against "$verse" --tokens 20

# ---- blocks --------------------------------------------------------------------------------------------
probe trace "$verse" --random 64 --trace
hold "one row per block" 'x == y' "$(wc -l < "$M/trace")" 5
hold "the stream goes from block to block" 'x == y' "$(cell trace 2 in)" "$(cell trace 1 out)"
hold "attention adds something" 'x > 0.1' "$(cell trace 2 attention)" 0
hold "a cosine" 'x > 0.5 && x < 1' "$(cell trace 3 cosine)" 0

# ---- inputs of matrices ----------------------------------------------------------------------------------
probe acts "$verse" --text "$text" --activations "$M/act.gguf" --rows 50
organ-assemble -q "$verse" --dtype iq2_s --imatrix "$M/act.gguf" --output "$M/iq2.gguf" 2> "$M/err" \
    || bad "as an importance matrix: $(cat "$M/err")"
probe acts2 "$verse" --text "$text" --activations "$M/act2.gguf" --rows 50
if cmp -s "$M/act.gguf" "$M/act2.gguf"; then ok; else bad "two runs store other samples"; fi
probe acts3 "$verse" --text "$text" --activations "$M/act3.gguf" --rows 50 --seed 1
if cmp -s "$M/act.gguf" "$M/act3.gguf"; then bad "the seed has no effect"; else ok; fi
probe acts4 "$verse" --text "$text" --text "$LAB/text-code.txt" --activations "$M/act4.gguf" --rows 5
hold "both texts are recorded" 'x == y' "$(organ-keys "$M/act4.gguf" --get imatrix.datasets | tr '\n' ' ')" \
    "$text $LAB/text-code.txt "
# The mean square of the samples is near that of all inputs.
organ-extract -q "$M/act.gguf" --tensors 'blk.0.ffn_down.weight.*' --list > "$M/list"
hold "samples of 50 rows" 'x == y' "$(awk -F '\t' '$1 ~ /sample$/ { print ($6 == "512x50x1") }' "$M/list")" 1
organ-measure -q "$M/act.gguf" --sample 0 --columns name,mean,std > "$M/measures"
hold "their mean square" 'x < 1.5 * y && x > 0.67 * y' "$(awk -F '\t' \
    '$1 == "blk.1.attn_q.weight.sample" { print $2 * $2 + $3 * $3 }' "$M/measures")" \
    "$(awk -F '\t' '$1 == "blk.1.attn_q.weight.in_sum2" { s = $2 } $1 == "blk.1.attn_q.weight.counts" { c = $2 }
    END { print s / c }' "$M/measures")"
# Two experts are the same and the router knows no difference, so that the first two of four get all tokens.
start_recipes
# shellcheck disable=SC2034 # make_moe writes it
OUT=$M/moe.gguf
make_moe > "$M/err" 2>&1 || bad "no model with experts: $(cat "$M/err")"
probe moe "$M/moe.gguf" --text "$text" --activations "$M/experts.gguf" --rows 300
organ-extract "$M/experts.gguf" --tensors 'blk.0.ffn_down_exps*' --list > "$M/list"
hold "samples of each expert" 'x == 1' "$(awk -F '\t' '$1 ~ /sample$/ { print ($6 == "512x300x4") }' "$M/list")" 0
organ-measure -q "$M/experts.gguf" --sample 0 --columns name,elements,mean,max > "$M/measures"
hold "two of four experts are used" 'x == 2 * y && y > 1000' "$(awk -F '\t' \
    '$1 == "blk.0.ffn_down_exps.weight.counts" { print $2 * $3 }' "$M/measures")" "$(cell moe 1 tokens)"
hold "outputs of each expert" 'x > 0.01 && y == 4' "$(awk -F '\t' '$1 ~ /^blk.0.*weighted_norm$/ { print $3 }' \
    "$M/measures")" \
    "$(awk -F '\t' '$1 ~ /^blk.0.*weighted_norm$/ { print $2 }' "$M/measures")"
# The outputs with biases, and none where the engine multiplies the inputs of experts by their weights.
HEALTHY=1 node tests/engine/variants.mjs "$verse" "$M/forms" '^(qwen3moe|gpt-oss|llama4/moe)$' > "$M/list" ||
    bad "no models"
norms() { # PATTERN: stored norms of the model
    organ-probe -q -j 1 "$(awk -F '\t' -v name="$1" '$3 ~ "^" name ":" { print $1 }' "$M/list")" --random 40 \
        --activations "$M/norms.gguf" --force > /dev/null 2> "$M/err" || bad "$1: $(cat "$M/err")"
    organ-extract "$M/norms.gguf" --list | grep -c 'ffn_down_exps.weight.weighted_norm'
}
hold "weighted outputs" 'x == 3 && y == 3' "$(norms qwen3moe)" "$(norms gpt-oss)"
hold "no weighted outputs" 'x == 0' "$(norms llama4/moe)" 0

# ---- requests ----------------------------------------------------------------------------------------------
head -c 3000 "$verse" > "$M/cut.gguf"
printf 'ppl\t%s\t%s\nppl\t%s\t%s\nkl\t%s\t%s\nnonsense\n' "$verse" "$text" "$M/cut.gguf" "$text" "$code" "$text" |
    organ-probe -j 1 --batch --against "$verse" > "$M/answers" 2> "$M/err"
hold "a perplexity" 'x < 1.000001 * y && x > 0.999999 * y' "$(sed -n 1p "$M/answers" | cut -f 3)" "$(cell loss 1 \
    perplexity)"
hold "an error, and then a divergence" 'x == 1 && y == 1' "$(sed -n 2p "$M/answers" | grep -c "	error	")" \
    "$(awk -F '\t' -v kl="$(cell other 1 kl)" 'NR == 3 { print ($3 < 1.000001 * kl && $3 > 0.999999 * kl) }' \
    "$M/answers")"
# One tensor of another model, as if it were in the file; the values are the model's own again after that. The
# engine keeps Q4_K in a layout of its own.
organ-transplant -q --base "$verse" --donor "$M/q2.gguf" --match convert --tensors blk.1.ffn_up.weight \
    --output "$M/one.gguf"
{
    for m in "$verse:blk.1.ffn_up.weight" "$verse" "$M/one.gguf" "$verse:none.weight"; do
        printf 'kl\t%s\t%s' "${m%:*}" "$text"
        case $m in *:*) printf '\t%s\t%s' "${m#*:}" "$M/q2.gguf" ;; esac
        echo
    done
    printf 'kl\t%s\t%s\tblk.1.ffn_up.weight\n' "$verse" "$text"
} | organ-probe -j 1 --batch --against "$verse" > "$M/answers" 2> "$M/err"
answer() { sed -n "$1p" "$M/answers" | cut -f 3; }
hold "a tensor of a donor" 'x == y && x > 1e-5' "$(answer 1)" "$(answer 3)"
hold "and its own values again" 'x == 0' "$(answer 2)" 0
hold "a tensor that is not there, and a request without its donor" 'x == 1 && y == 1' \
    "$(sed -n 4p "$M/answers" | grep -c 'error.*tensor none.weight is missing')" \
    "$(sed -n 5p "$M/answers" | grep -c 'unknown request')"

# ---- a text that ends early ----------------------------------------------------------------------------------
probe early "$M/q2.gguf" --text "$text" --text "$LAB/text-code.txt" --against "$verse" --precision 0.1
probe late "$M/q2.gguf" --text "$text" --text "$LAB/text-code.txt" --against "$verse" --precision 0.000001
hold "precision needs fewer tokens" 'x < y / 2 && x >= 256' "$(cell early 1 tokens)" "$(cell late 1 tokens)"
hold "and gives what it promises" 'x <= 0.1 * y' "$(cell early 2 kl_error)" "$(cell early 2 kl)"
hold "with a divergence near that of all" 'x < 1.4 * y && x > y / 1.4' "$(cell early 2 kl)" "$(cell late 2 kl)"
hold "a precision that is not reached" 'x == y' "$(cell late 1 kl)" "$(cell short 1 kl)"

# ---- mixtures of experts ---------------------------------------------------------------------------------
# Equal experts are the dense model, whatever the router chooses.
base=$LAB/lab-base-q4_k_m.gguf
for arch in llama qwen2 qwen3; do
    node tests/engine/dense.mjs $arch "$base" "$M/$arch.gguf"
    organ-stack -q --experts-from "$M/$arch.gguf" --copies 4 --output "$M/$arch-moe.gguf" || bad "a mixture of $arch"
    probe dense "$M/$arch.gguf" --text "$text" --tokens 600
    probe moe "$M/$arch-moe.gguf" --text "$text" --tokens 600
    hold "equal experts of $arch" 'x > 0.99999 * y && x < 1.00001 * y' "$(cell moe 1 perplexity)" \
        "$(cell dense 1 perplexity)"
done
# A router from texts sends each text to the expert that was trained on its like.
for name in verse code; do
    organ-probe -q -j 1 "$base" --text "$LAB/text-$name.txt" --activations "$M/$name.act.gguf" > /dev/null
done
mixed() { # ROUTER
    organ-stack -q --experts-from "$verse,$code" --base "$base" --used 1 --router "$1" \
        --output "$M/mixed.gguf" --force ||
        bad "a mixture with a router"
    probe moe "$M/mixed.gguf" --text "$text" --text "$LAB/text-code.txt"
}
mixed "$M/verse.act.gguf,$M/code.act.gguf"
right=$(awk "BEGIN { print $(cell moe 1 loss) + $(cell moe 2 loss) }")
mixed "$M/code.act.gguf,$M/verse.act.gguf"
hold "the right router is better than the wrong one" 'x < y - 0.05' "$right" \
    "$(awk "BEGIN { print $(cell moe 1 loss) + $(cell moe 2 loss) }")"

# ---- scripts that use it -----------------------------------------------------------------------------------
organ-extract "$verse" --tensors blk.1.attn_output.weight --output - > "$M/part.bin"
organ-assemble -q "$verse" --dtype f16 --output "$M/f16.gguf"
organ-extract "$M/f16.gguf" --tensors blk.1.attn_output.weight --output - | node tests/engine/spoil.mjs scale 10 |
    organ-transplant -q --base "$M/f16.gguf" --donor - --output "$M/ten.gguf"
validate() { sh scripts/organ-validate --threads 1 "$@" > "$M/valid" 2> "$M/err"; }
validate "$code" --reference "$verse" || bad "organ-validate: a fine-tune counts as broken: $(cat "$M/err")"
validate "$M/q2.gguf" --reference "$verse" || bad "organ-validate: Q2_K counts as broken: $(cat "$M/err")"
if validate "$M/ten.gguf" --reference "$verse"; then bad "organ-validate: ten times attention counts as sound"
elif grep -q "block 1: what attention adds is .* times the reference's" "$M/err"; then ok
else bad "organ-validate: no reason: $(cat "$M/err")"; fi
sh scripts/organ-sensitivity "$verse" --measure kl --tensors 'blk.0.attn_[qv].*' --text "$text" -j 1 \
    -q --output "$M/kl.tsv" 2> "$M/err" || bad "organ-sensitivity: $(cat "$M/err")"
hold "organ-sensitivity by divergence" 'x == 0 && y > 0.0001' "$(awk -F '\t' '/^# unchanged/ { print $2 }' \
    "$M/kl.tsv")" "$(awk -F '\t' '$1 == "blk.0.attn_v.weight" { print $4 }' "$M/kl.tsv")"
# An engine that gets whole models gives the same table.
sensitivity() { # NAME OPTION...
    to=$M/$1.tsv
    shift
    sh scripts/organ-sensitivity "$M/f16.gguf" --measure kl --types q2_k,q3_k --tensors 'blk.0.attn_[qv].*' \
        --text "$text" -j 1 -q --output "$to" "$@" 2> "$M/err" || bad "organ-sensitivity $*: $(cat "$M/err")"
}
sensitivity own
sensitivity whole --engine-batch "organ-probe -q -j 1 --batch --against $M/f16.gguf"
hold "the same table by whole models" 'x == y && x > 0' \
    "$(grep -v '^#' "$M/own.tsv" | cut -f 1-5,7 | cksum | cut -d ' ' -f 1)" \
    "$(grep -v '^#' "$M/whole.tsv" | cut -f 1-5,7 | cksum | cut -d ' ' -f 1)"
hold "four rows" 'x == 4' "$(grep -c '^blk' "$M/own.tsv")" 0
sensitivity early --precision 0.2
hold "less precise losses" 'x != y && x < 1.6 * y && x > y / 1.6' \
    "$(awk -F '\t' '$1 ~ /attn_v/ { s += $4 } END { print s }' \
    "$M/early.tsv")" "$(awk -F '\t' '$1 ~ /attn_v/ { s += $4 } END { print s }' "$M/own.tsv")"

# ---- bad input -----------------------------------------------------------------------------------------------
printf a > "$M/a.txt"
: > "$M/empty.txt"
refused 2 "at least 2 are needed" "$verse" --text "$M/empty.txt"
refused 4 "cannot open" "$verse" --text "$M/missing.txt"
refused 3 "" "$M/cut.gguf" --text "$text"
refused 2 "give --model or --batch" --text "$text"
refused 2 "give --text" "$verse"
refused 3 "needs a GGUF file" - --text "$text"
printf 'To be or not to be' > "$M/short.txt"
organ-probe -j 1 "$verse" --text "$M/short.txt" > /dev/null 2> "$M/err"
if grep -q "less than one window of 192" "$M/err"; then ok; else bad "a short text: $(cat "$M/err")"; fi

# A norm that is NaN: the model, the reference, and a request. In F16, because encoding the inputs of Q4_K drops NaN.
place=$(organ-extract "$M/f16.gguf" --list --places --tensors output_norm.weight | awk -F '\t' 'NR == 2 { print $3 }')
cp "$M/f16.gguf" "$M/nan.gguf"
printf '\377\377\377\177' | dd of="$M/nan.gguf" bs=1 seek="$place" conv=notrunc 2> /dev/null
refused 1 "nan.gguf: it gives probabilities that are not finite" "$M/nan.gguf" --text "$text" --tokens 20
refused 1 "nan.gguf: the reference gives probabilities that are not finite" "$verse" \
    --text "$text" --tokens 20 --against "$M/nan.gguf"
printf 'ppl\t%s\t%s\nppl\t%s\t%s\n' "$M/nan.gguf" "$text" "$verse" "$text" |
    organ-probe -j 1 --batch > "$M/answers" 2> "$M/err"
hold "an error, and then a perplexity" 'x == 1 && y > 10' "$(head -n 1 "$M/answers" | grep -c 'error.*not finite')" \
    "$(sed -n 2p "$M/answers" | cut -f 3)"
organ-probe -q -j 1 "$verse" --text "$text" --tokens 129 --json > "$M/json"
hold "JSON Lines" 'x == y' "$(sed 's/.*"loss": \([0-9.]*\),.*/\1/' "$M/json")" "$(cell part 1 loss)"

# ---- a vocabulary of the tokens that a text has ------------------------------------------------------------------
# The text has the same tokens under other numbers, and fewer rivals.
head -c 4000 "$text" > "$M/part.txt"
organ-probe -q -j 1 "$verse" --text "$M/part.txt" --counts "$M/counts" &&
    organ-vocab trim "$verse" --used "$M/counts" -q -o "$M/trimmed.gguf" || bad "a trim by counts"
probe before "$verse" --text "$M/part.txt"
probe after "$M/trimmed.gguf" --text "$M/part.txt"
hold "a trimmed vocabulary gives the same number of tokens" 'x == y && x > 500' "$(cell after 1 tokens)" \
    "$(cell before 1 tokens)"
hold "and a loss that is not larger" 'x <= y + 1e-4' "$(cell after 1 loss)" "$(cell before 1 loss)"
hold "it is smaller" 'x < y' "$(wc -c < "$M/trimmed.gguf")" "$(wc -c < "$verse")"

# ---- what all tools promise ------------------------------------------------------------------------------------
make -s units B="${BIN%/bin}" > "$M/build.log" 2>&1 || bad "make units: $(tail -n 3 "$M/build.log")"
if B=${BIN%/bin} ONLY_ROWS=organ-probe sh tests/cli/promises.sh > "$M/promises" 2>&1; then ok
else bad "promises: $(grep FAIL \
    "$M/promises")"; fi

# Each of some own allocations fails.
if make -s B="${BIN%/bin}" inject > "$M/build.log" 2>&1 && B=${BIN%/bin} FAULTS_ONLY='^. organ-probe' \
    FAULTS_OPS=alloc FAULTS_MOST=25 sh tests/faults/run.sh > "$M/faults" 2>&1; then ok
    else bad "failing allocations: $(tail -n 3 "$M/faults")"; fi

echo "probe: $passed passed, $failed failed"
[ $failed -eq 0 ]
