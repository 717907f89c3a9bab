#!/bin/sh
# results-sensitivity.sh - mixes of types of five sizes for three models, chosen by tables of organ-sensitivity
# that were measured in different ways, judged by the divergence from the original on texts that the tables have
# not seen: the table sensitivity of docs/results.md. results.sh runs it; about ten minutes.
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh
build_probe > "$M/build.log" 2>&1 || { cat "$M/build.log" >&2; exit 1; }
for t in verse code; do head -c 3000 "$LAB/tune-$t.txt" > "$M/tune-$t.txt"; done

# losses MODEL NAME OPTION...: the table $M/MODEL.NAME.tsv
losses() {
    losses_to=$M/$1.$2.tsv losses_of=$1
    shift 2
    organ-sensitivity -q -j 1 "$LAB/lab-$losses_of-f16.gguf" --imatrix "$LAB/lab-$losses_of.imatrix.gguf" \
        --text "$M/tune-verse.txt" --text "$M/tune-code.txt" --output "$losses_to" "$@"
}
# divergence MODEL BPW [TABLE]: of the mix, the sum over both texts
divergence() {
    organ-assemble -q "$LAB/lab-$1-f16.gguf" --imatrix "$LAB/lab-$1.imatrix.gguf" --bpw "$2" \
        ${3:+--sensitivity "$M/$1.$3.tsv"} --output "$M/made.gguf" --force
    organ-probe -q -j 1 "$M/made.gguf" --text "$LAB/text-verse.txt" --text "$LAB/text-code.txt" \
        --against "$M/$1.gguf" | awk -F '\t' 'NR > 1 { s += $6 } END { printf "\t%.4f", s }'
}
for m in base verse code; do
    losses $m loss
    losses $m kl --measure kl
    losses $m quick --measure kl --precision 0.1
    organ-probe -q -j 1 "$LAB/lab-$m-f16.gguf" --text "$LAB/text-verse.txt" --text "$LAB/text-code.txt" \
        --save-base "$M/$m.gguf" --force > /dev/null
done
{
    printf '# tolerance\t*\t3%%\n'
    printf 'model, bits per weight\tguess\t--measure loss\t--measure kl\tkl, --precision 0.1\n'
    for m in base verse code; do
        for size in 2.75 3 3.5 4 4.5; do
            printf '%s, %s' $m $size
            divergence $m $size
            for table in loss kl quick; do divergence $m $size $table; done
            echo
        done
    done > "$M/rows"
    cat "$M/rows"
    awk -F '\t' '{ for (i = 2; i <= NF; i++) sum[i] += $i }
        END { printf "mean"; for (i = 2; i <= NF; i++) printf "\t%.4f", sum[i] / NR; print "" }' "$M/rows"
} | put sensitivity
[ ! -e "$M/changed" ]
