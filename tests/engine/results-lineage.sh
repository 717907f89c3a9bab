#!/bin/sh
# results-lineage.sh - cosines between the lab models, and what grafts of a given cosine do: the
# tables lineage-* of docs/lineage.md. results.sh runs it; some minutes.
# shellcheck disable=SC2016 # $LAB, $M and $OUT are expanded by make_model
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh

lineage() { # A B OPTION...: min, median and max
    organ-compare -q "$@" --lineage > "$M/verdict" || :
    awk -F '\t' 'NR == 2 { printf "%.3f\t%.3f\t%.3f\n", $3, $4, $5 }' "$M/verdict"
}
{
    printf '# tolerance\t*\t0.001\n'
    printf 'pair\tmin\tmedian\tmax\tmedian of 128 rows\n'
    for pair in base:verse base:code verse:code base:stranger verse:stranger code:stranger; do
        a=$LAB/lab-${pair%:*}-q4_k_m.gguf b=$LAB/lab-${pair#*:}-q4_k_m.gguf
        echo "${pair%:*}, ${pair#*:}$TAB$(lineage "$a" "$b" --sample 0)$TAB$(lineage "$a" "$b" | cut -f 2)"
    done
} | put lineage-q4
base=$LAB/lab-base-f16.gguf
{
    printf '# tolerance\t*\t0.001\n'
    printf 'pair\tmin\tmedian\tmax\n'
    echo "code in F16, verse in Q4_K_M$TAB$(lineage "$LAB/lab-code-f16.gguf" "$LAB/lab-verse-q4_k_m.gguf" --sample 0)"
    echo "base, its blocks 1-3 against 0-2$TAB$(lineage "$base" "$base" --map 0-2=1-3 --sample 0)"
} | put lineage-others
{
    printf '# tolerance\t*\t0.002\n'
    printf 'type\tlowest cosine\n'
    for t in q6_k q4_k q3_k q2_k iq1_s tq2_0; do
        organ-assemble -q "$base" --dtype "blk.*=$t" --imatrix "$LAB/lab-base.imatrix.gguf" --output "$M/t.gguf" \
            --force
        printf '%s\t%s\n' "$(echo $t | tr '[:lower:]' '[:upper:]')" "$(lineage "$base" "$M/t.gguf" --sample 0 | cut \
            -f 1)"
    done
} | put lineage-types
{
    printf '# tolerance\t*\t0.001\n'
    printf 'tensors\tlowest\thighest\n'
    organ-compare -q "$LAB/lab-base-q4_k_m.gguf" "$LAB/lab-stranger-q4_k_m.gguf" --type norm,embed > "$M/rows" || :
    awk -F '\t' '
        NR > 1 && $8 != "-" { k = $2 == "norm" ? "norms" : $1; if (!(k in low)) { name[++n] = k;
            low[k] = high[k] = $8 }
            if ($8 < low[k]) low[k] = $8; if ($8 > high[k]) high[k] = $8 }
        END { for (i = 1; i <= n; i++) printf "%s\t%.4f\t%.4f\n", name[i], low[name[i]], high[name[i]] }' "$M/rows"
} | put lineage-left-out

# ---- grafts ----
start_recipes
organ-extract -q "$LAB/lab-stranger-f16.gguf" --type ffn --output - > "$M/stranger.bin"
for text in verse code; do ppl "$base" $text; done
for m in verse code stranger; do
    make_model $m \
        "organ-transplant -q --base \$LAB/lab-base-f16.gguf --donor \$LAB/lab-$m-f16.gguf --type ffn --output \$OUT"
    ppl_made $m
done
cosines="0.95 0.9 0.8 0.7 0.5 0.3"
for c in $cosines; do
    make_model "mixed-$c" \
        "organ-extract \$LAB/lab-base-f16.gguf --type ffn --output - | node tests/engine/spoil.mjs \
        mix $c \$M/stranger.bin | organ-transplant -q --base \$LAB/lab-base-f16.gguf --donor - --output \$OUT"
    ppl_made "mixed-$c"
done
run_engine
row() { # WHAT MODEL
    echo "$1$TAB$(lineage "$base" "$2" --type ffn --sample 0 | awk -F '\t' \
        '{ print ($1 == $3 ? $1 : $1 " to " $3) }')$TAB$(perplexity "$2" verse)$TAB$(perplexity "$2" code)"
}
{
    row base "$base"
    for m in verse code stranger; do row $m "$M/$m.gguf"; done
    for c in $cosines; do row "mixed, c = $c" "$M/mixed-$c.gguf"; done
} | awk -F '\t' -v OFS='\t' '
    function three(x) { return sprintf((x >= 100 ? "%.0f" : x >= 10 ? "%.1f" : "%.2f"), x) }
    BEGIN { print "# tolerance", "*", "1%"; print "FFN of", "cosine", "verse text", "code text" }
    { print $1, $2, three($3), three($4) }' | put lineage-grafts
[ ! -e "$M/changed" ]
