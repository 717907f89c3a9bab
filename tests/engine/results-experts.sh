#!/bin/sh
# results-experts.sh - lab-moe with fewer experts: chosen by importance, by norm and at random. The
# table experts-kept of docs/results.md. results.sh runs it; about five minutes.
#
#   KEEP=DIR     models and answers of an earlier run with KEEP are taken as they are
# shellcheck disable=SC2016 # $LAB and $OUT are expanded by make_model
set -eu
cd "$(dirname "$0")/../.."
M=${KEEP:-$M}
mkdir -p "$M"
# shellcheck source=tests/engine/recipes.sh disable=SC1091
. tests/engine/recipes.sh
moe=$LAB/lab-moe-q8_0.gguf

# Lists for --keep-experts: the N experts of each block with the largest scores. Input: block, expert, score.
largest() { # N
    sort -k 1,1n -k 3,3gr -k 2,2n | awk -v n="$1" -v OFS='\t' '
        $1 != block || NR == 1 { if (NR > 1) print block, list; block = $1; list = ""; k = 0 }
        k++ < n { list = list (list == "" ? "" : ",") $2 }
        END { print block, list }'
}
# The sum of the squared weights of an expert.
norms() {
    organ-measure -q "$moe" --split-experts --type ffn --sample 0 | awk -F '\t' '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        match($1, /\.[0-9]+\.weight$/) {
            expert = substr($1, RSTART + 1, RLENGTH - 8)
            sum[$3 "\t" expert] += $at["elements"] * ($at["mean"] ^ 2 + $at["std"] ^ 2)
        }
        END { for (i in sum) print i "\t" sum[i] }'
}
random() { # SEED: a score per expert
    awk -v x="$1" 'function draw() { x = x * 16807 % 2147483647; return x / 2147483647 }
        BEGIN { x *= 1000003; for (b = 0; b < 4; b++) for (e = 0; e < 4; e++) print b "\t" e "\t" draw() }'
}
seeds="1 2 3 4 5 6 7 8 9 10"

if [ ! -s "$M/answers" ]; then
    start_recipes
    for text in verse code; do ppl "$moe" $text; done
    for n in 2 3; do
        make_model "importance-$n" \
            "organ-assemble -q \$LAB/lab-moe-q8_0.gguf --keep-experts $n --by importance \
            --imatrix \$LAB/lab-moe.imatrix.gguf --output \$OUT"
        norms | largest $n > "$M/norm-$n.list"
        make_model "norm-$n" "organ-assemble -q \$LAB/lab-moe-q8_0.gguf --keep-experts \$M/norm-$n.list --output \$OUT"
        for seed in $seeds; do
            random "$seed" | largest $n > "$M/random-$n-$seed.list"
            make_model "random-$n-$seed" \
                "organ-assemble -q \$LAB/lab-moe-q8_0.gguf --keep-experts \$M/random-$n-$seed.list --output \$OUT"
            ppl_made "random-$n-$seed"
        done
        for by in importance norm; do ppl_made $by-$n; done
    done
    run_engine
fi

status=0
row() { # NAME CHOSEN KEPT
    echo "$2$TAB$3$TAB$(perplexity "$1" verse)$TAB$(perplexity "$1" code)"
}
{
    row "$moe" "none removed" 4
    for n in 2 3; do
        row "$M/importance-$n.gguf" "importance" $n
        row "$M/norm-$n.gguf" "norm" $n
        for seed in $seeds; do row "$M/random-$n-$seed.gguf" random $n; done
    done
} > "$M/experts.tsv"
awk -F '\t' -v OFS='\t' '
    function out(by, kept, verse, code, sum) { print by, kept, sprintf("%.2f", verse),
        sprintf("%.3f", code), sprintf("%.4f", sum) }
    BEGIN { print "# tolerance", "*", "0.3%"; print "# tolerance", "sum of logs", "0.002";
        print "chosen by", "experts kept", "verse text", "code text", "sum of logs" }
    function flush(    mean) {
        if (!m) return
        out("random, mean of " m, k, verse / m, code / m, sum / m)
        out("random, the best", k, v[best], c[best], low)
        out("random, the worst", k, v[worst], c[worst], high)
        m = verse = code = sum = low = high = 0
    }
    $1 != "random" { flush(); out($1, $2, $3, $4, log($3) + log($4)); next }
    {
        m++; k = $2; s = log($3) + log($4); v[m] = $3; c[m] = $4
        verse += $3; code += $4; sum += s
        if (m == 1 || s < low) { low = s; best = m }
        if (m == 1 || s > high) { high = s; worst = m }
    }
    END { flush() }' "$M/experts.tsv" > "$M/experts-kept.tsv"
$TABLE put experts-kept < "$M/experts-kept.tsv" || status=1
exit $status
