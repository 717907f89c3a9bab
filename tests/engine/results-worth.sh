#!/bin/sh
# results-worth.sh - do the measures foretell what a change does to a model? Makes variants of
# lab-base, measures them, and compares the measures with perplexities: the tables worth-* of
# docs/method.md. results.sh runs it; about ten minutes.
#
#   KEEP=DIR     models and answers of an earlier run with KEEP are taken as they are
# shellcheck disable=SC2016 # $LAB and $OUT are expanded by make_model
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh
base=$LAB/lab-base-f16.gguf

# NAME<TAB>COMMAND that makes it. spoiled KIND AMOUNT SELECTION...: see spoil.mjs.
spoiled() {
    echo "organ-extract \$LAB/lab-base-f16.gguf $3 --output - | node tests/engine/spoil.mjs $1 $2 | organ-transplant \
        -q --base \$LAB/lab-base-f16.gguf --donor - --output \$OUT"
}
all="--type ffn,attention"
variants() {
    for x in 0.05 0.1 0.2 0.5 1; do echo "noise $x$TAB$(spoiled noise $x "$all")"; done
    echo "noise 0.5 in FFN$TAB$(spoiled noise 0.5 "--type ffn")"
    echo "noise 0.5 in attention$TAB$(spoiled noise 0.5 "--type attention")"
    for b in 0 2; do echo "noise 1 in block $b$TAB$(spoiled noise 1 "$all --layers $b")"; done
    for x in 0.05 0.1 0.25 0.5; do echo "zero $x$TAB$(spoiled zero $x "$all")"; done
    echo "zero 0.5 in block 1$TAB$(spoiled zero 0.5 "$all --layers 1")"
    for x in 0.25 0.5 0.75 0.9; do echo "small $x$TAB$(spoiled small $x "$all")"; done
    for x in 0.01 0.05; do echo "flip $x$TAB$(spoiled flip $x "$all")"; done
    for x in 0.9 1.1; do echo "scale $x$TAB$(spoiled scale $x "$all")"; done
    for x in 0.05 0.2 1; do echo "shuffle $x$TAB$(spoiled shuffle $x "$all")"; done
    echo "shuffle 1 in attention of block 1$TAB$(spoiled shuffle 1 "--type attention --layers 1")"
    echo "rows 1 in FFN of block 2$TAB$(spoiled rows 1 "--type ffn --layers 2")"
    for t in q8_0 q6_k q5_k q4_k iq3_xxs q3_k q2_k iq1_m tq2_0; do
        echo "type $t${TAB}organ-assemble \$LAB/lab-base-f16.gguf -q --dtype 'blk.*=$t' --output \$OUT"
    done
    for b in 0 1 2 3; do echo "block $b zeroed$TAB$(spoiled zero 1 "$all --layers $b")"; done
    echo "FFN of block 3 zeroed$TAB$(spoiled zero 1 "--type ffn --layers 3")"
    for map in 2=1 1=2 3=0; do
        echo "block ${map%=*} is a copy of ${map#*=}${TAB}organ-transplant -q --base \$LAB/lab-base-f16.gguf \
            --donor \$LAB/lab-base-f16.gguf --map $map --output \$OUT"
    done
    for donor in verse code stranger; do
        echo "FFN of $donor${TAB}organ-transplant -q --base \$LAB/lab-base-f16.gguf \
            --donor \$LAB/lab-$donor-f16.gguf --type ffn --output \$OUT"
    done
    echo "FFN of stranger in block 1${TAB}organ-transplant -q --base \$LAB/lab-base-f16.gguf \
        --donor \$LAB/lab-stranger-f16.gguf --type ffn --layers 1 --output \$OUT"
    echo "attention of code${TAB}organ-transplant -q --base \$LAB/lab-base-f16.gguf \
        --donor \$LAB/lab-code-f16.gguf --type attention --output \$OUT"
    for s in 0.5 1; do echo \
        "haar $s${TAB}organ-purify \$LAB/lab-base-f16.gguf -q --type ffn --method haar --strength $s --output \$OUT"; \
        done
}

variants > "$M/variants"
if [ ! -s "$M/answers" ]; then
    start_recipes
    for text in verse code; do ppl "$base" $text; done
    n=0
    while IFS=$TAB read -r name command; do
        n=$((n + 1))
        make_model "variant-$n" "$command" < /dev/null
        ppl_made "variant-$n"
    done < "$M/variants"
    run_engine
fi

# The means over attention and FFN matrices, in the order of $columns.
columns="theta calibrated row_theta entropy kurtosis cv dimension edge"
measures() { # MODEL
    organ-measure -q "$1" --spectral $all | awk -F '\t' -v OFS='\t' -v columns="$columns" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; m = split(columns, name, " "); next }
        { for (k = 1; k <= m; k++) if ($at[name[k]] != "-") { sum[k] += $at[name[k]]; n[k]++ } }
        END { for (k = 1; k <= m; k++) printf "%s%.4f", (k > 1 ? OFS : ""), (n[k] ? sum[k] / n[k] : 0); print "" }'
}
# Of the block matrices: the means of relative L2, of its square, and of the damage; and the damage of
# all outputs together.
differences() { # MODEL
    organ-compare -q "$base" "$1" $all --imatrix "$LAB/lab-base.imatrix.gguf" | awk -F '\t' '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $at["rel_l2"] != "-" { l2 += $at["rel_l2"]; square += $at["rel_l2"] ^ 2; n++ }
        $at["damage"] != "-" { damage += $at["damage"]; m++ }
        END { printf "%.6f\t%.6f\t%.6f", l2 / n, square / n, damage / m }' || true
    organ-compare -q "$base" "$1" $all --summary --imatrix "$LAB/lab-base.imatrix.gguf" | awk -F '\t' '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $1 == "model" { printf "\t%.6f\n", $at["damage"] }' || true
}

verse=$(perplexity "$base" verse) code=$(perplexity "$base" code)
row() { # NAME MODEL
    echo "$1$TAB$(perplexity "$2" verse)$TAB$(perplexity "$2" code)$TAB$(measures "$2")$TAB$(differences "$2")"
}
{
    row "lab-base, unchanged" "$base"
    n=0
    while IFS=$TAB read -r name command; do
        n=$((n + 1))
        row "$name" "$M/variant-$n.gguf"
    done < "$M/variants"
} | awk -F '\t' -v OFS='\t' -v verse="$verse" -v code="$code" -v columns="$columns" '
    BEGIN { gsub(" ", OFS, columns); print "variant", "verse text", "code text",
        "loss", "broken", columns, "relative L2", "relative L2 squared", "mean damage", "damage" }
    # Broken: the perplexities have grown by half, in the geometric mean.
    { loss = log($2 / verse) + log($3 / code); rest = $0; sub(/^[^\t]*\t[^\t]*\t[^\t]*\t/, "", rest)
      print $1, $2, $3, loss, (loss > 2 * log(1.5) ? "yes" : "no"), rest }' > "$M/all.tsv"

# The same, with the distances of the columns from those of the unchanged model.
awk -F '\t' -v OFS='\t' 'NR == 2 { for (i = 6; i <= 13; i++) whole[i] = $i }
    NR > 1 { for (i = 6; i <= 13; i++) $i = $i < whole[i] ? whole[i] - $i : $i - whole[i] } { print }' \
        "$M/all.tsv" > "$M/distances.tsv"

awk -F '\t' -v OFS='\t' '
    function four(x) { return sprintf(x >= 1000 ? "%.0f" : x >= 100 ? "%.1f" : x >= 10 ? "%.2f" : "%.3f", x) }
    BEGIN { print "# tolerance", "damage", "2%" }
    NR == 1 { print "variant", "verse text", "code text", "broken", "theta", "calibrated",
        "row_theta", "edge", "relative L2", "damage"; next }
    { print $1, four($2), four($3), $5, sprintf("%.1f", $6), sprintf("%.1f", $7),
        sprintf("%.1f", $8), sprintf("%.2f", $13), sprintf("%.3f", $14), sprintf("%.4f", $17) }
    ' "$M/all.tsv" | put worth-variants

# The unchanged model counts as one of the variants here, and not in the table of differences.
list=$(echo "$columns" | tr ' ' ',')
for kind in all distances; do
    awk -v target=loss -v broken=broken -v columns="$list" -f tests/engine/rank.awk "$M/$kind.tsv" > "$M/$kind.worth"
done
{
    printf '# tolerance\t*\t0.03\n'
    printf 'column\trank correlation with the loss\tAUC\trank correlation of its change\tAUC of its change\n'
    paste "$M/all.worth" "$M/distances.worth" | cut -f 1,3,4,7,8
} | put worth-columns
{
    printf '# tolerance\t*\t0.03\n'
    printf 'measure\tvariants\trank correlation with the loss\tAUC\n'
    sed 2d "$M/all.tsv" | awk -v target=loss -v broken=broken \
        -v columns="relative L2,relative L2 squared,mean damage,damage" -f tests/engine/rank.awk
} | put worth-differences
[ ! -e "$M/changed" ]
