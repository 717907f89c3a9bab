#!/bin/sh
# results-align.sh - how well are relatives recognized whose units or blocks have changed places, and
# what does aligning them give? The tables align-* of docs/lineage.md. results.sh runs it; about two
# minutes.
#
#   PERMUTE=FILE the program of tests/unit/permute.c (build/test/permute)
#   KEEP=DIR     models and answers of an earlier run with KEEP are taken as they are
# shellcheck disable=SC2016 # $LAB, $M and $OUT are expanded by make_model
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh
PERMUTE=${PERMUTE:-build/test/permute}
everything=ffn,heads,embedding

permuted() { # MODEL WHAT [NOISE]: the command
    echo "$PERMUTE \$LAB/lab-$1-f16.gguf \$OUT $2 ${3:-0} 7 > \$OUT.order"
}

# NAME<TAB>TRUTH<TAB>COMMAND: what became of lab-verse. TRUTH is what base and code are to it.
variants() {
    v='$LAB/lab-verse-f16.gguf'
    all="--type ffn,attention"
    echo "unchanged${TAB}same${TAB}cp $v \$OUT"
    for t in q4_k q3_k q2_k; do echo "in $t${TAB}same${TAB}organ-assemble -q $v --dtype 'blk.*=$t' --output \$OUT"; \
        done
    for x in 0.2 0.5; do echo "noise $x${TAB}same${TAB}$(permuted verse none $x)"; done
    echo "the smallest quarter zeroed${TAB}same${TAB}organ-extract $v $all --output - | \
        node tests/engine/spoil.mjs small 0.25 | organ-transplant -q --base $v --donor - --output \$OUT"
    echo "merged with code${TAB}same${TAB}organ-merge -q --no-hash --method slerp,t=0.5 \
        --model $v --model \$LAB/lab-code-f16.gguf --output \$OUT"
    echo "without block 1${TAB}blocks${TAB}organ-stack -q --output \$OUT --drop 1 $v"
    echo "block 2 twice${TAB}blocks${TAB}organ-stack -q --output \$OUT $v 0-2,2-3"
    echo "without block 1, in q2_k${TAB}blocks${TAB}organ-assemble -q \$M/variant-9.gguf \
        --dtype 'blk.*=q2_k' --output \$OUT"
    echo "FFN units permuted${TAB}permuted${TAB}$(permuted verse ffn)"
    echo "heads permuted${TAB}permuted${TAB}$(permuted verse heads)"
    echo "embedding permuted${TAB}permuted${TAB}$(permuted verse embedding)"
    echo "all permuted${TAB}permuted${TAB}$(permuted verse $everything)"
    echo "all permuted, noise 0.5${TAB}permuted${TAB}$(permuted verse $everything 0.5)"
    echo "all permuted, in q2_k${TAB}permuted${TAB}organ-assemble -q \$M/variant-15.gguf \
        --dtype 'blk.*=q2_k' --output \$OUT"
    echo "all permuted, then merged with code${TAB}permuted${TAB}organ-merge \
        -q --no-hash --align --method slerp,t=0.5 --model \$M/variant-15.gguf \
        --model \$LAB/lab-code-f16.gguf --output \$OUT"
}

variants > "$M/variants"
if [ ! -s "$M/answers" ]; then
    start_recipes
    make_model stranger-permuted "$(permuted stranger $everything)"
    make_model code-permuted "$(permuted code $everything)"
    make_model code-noise "$(permuted code $everything 0.5)"
    make_model code-q2_k "organ-assemble -q \$M/code-permuted.gguf --dtype 'blk.*=q2_k' --output \$OUT"
    n=0
    while IFS=$TAB read -r name truth command; do
        n=$((n + 1))
        make_model "variant-$n" "$command" < /dev/null
    done < "$M/variants"
    blend='organ-transplant -q --base $LAB/lab-verse-f16.gguf --blend linear:0.5 --type ffn,attention --output $OUT'
    for donor in permuted noise q2_k; do
        make_model "blend-$donor" "$blend --donor \$M/code-$donor.gguf"
        make_model "blend-$donor-aligned" "$blend --align --donor \$M/code-$donor.gguf"
        ppl_made "blend-$donor"
        ppl_made "blend-$donor-aligned"
    done
    make_model blend-original "$blend --donor \$LAB/lab-code-f16.gguf"
    make_model whole \
        "organ-transplant -q --base \$LAB/lab-base-f16.gguf --donor \$M/variant-12.gguf --type ffn --output \$OUT"
    make_model whole-original \
        "organ-transplant -q --base \$LAB/lab-base-f16.gguf --donor \$LAB/lab-verse-f16.gguf --type ffn --output \$OUT"
    for name in blend-original whole whole-original code-permuted; do ppl_made "$name"; done
    ppl "$LAB/lab-code-f16.gguf" verse
    ppl "$LAB/lab-code-f16.gguf" code
    run_engine
fi
[ ! -s "$M/failed" ] || { echo "not made: $(tr '\n' ' ' < "$M/failed")" >&2; exit 1; }

# ---- verdicts
verdict() { # A B: the verdict, and the map if there is one
    organ-compare -q "$1" "$2" --lineage > "$M/verdict" || true
    awk -F '\t' 'NR == 2 { print $1 ($10 == "-" ? "" : ", blocks " $10) }' "$M/verdict"
}
n=0
printf 'verse\ttruth\twith base\twith code\twith stranger\twith stranger, permuted\n' > "$M/verdicts"
while IFS=$TAB read -r name truth command; do
    n=$((n + 1))
    m=$M/variant-$n.gguf
    echo "$name$TAB$truth$TAB$(verdict "$LAB/lab-base-f16.gguf" "$m")$TAB$(verdict "$m" \
        "$LAB/lab-code-f16.gguf")$TAB$(verdict "$LAB/lab-stranger-f16.gguf" "$m")$TAB$(verdict "$m" \
        "$M/stranger-permuted.gguf")" >> "$M/verdicts"
done < "$M/variants"
cut -f 1,3- "$M/verdicts" | put align-verdicts
awk -F '\t' -v OFS='\t' '
    function kind(v) {
        if (v ~ /permuted/) return "permuted"
        if (v ~ /blocks/) return "blocks"
        return v == "same lineage" ? "same" : v == "strangers" ? "strangers" : "undecidable"
    }
    NR > 1 { count[$2, kind($3)]++; count[$2, kind($4)]++; count["strangers", kind($5)]++;
        count["strangers", kind($6)]++; all += 4 }
    END {
        print "truth", "same lineage", "same, blocks moved", "same, permuted", "strangers", "undecidable"
        split("same blocks permuted strangers", truth, " ");
            split("same blocks permuted strangers undecidable", said, " ")
        name["same"] = "same lineage"; name["blocks"] = "same, blocks moved"; name["permuted"] = "same, permuted";
            name["strangers"] = "strangers"
        for (i = 1; i <= 4; i++) { row = name[truth[i]];
            for (k = 1; k <= 5; k++) row = row OFS count[truth[i], said[k]] + 0; print row }
    }' "$M/verdicts" | put align-confusion

# ---- units
found() { # WHAT DONOR ORDER
    organ-compare -q "$LAB/lab-verse-f16.gguf" "$M/$2.gguf" --align > "$M/found" || true
    awk -F '\t' -v OFS='\t' -v what="$1" 'NR == FNR { want[$1, $2, $4] = $5; next }
        FNR > 1 { b = $2 == "-" ? -1 : $2; n[$1]++; good[$1] += want[$1, b, $6] == $5; sum[$1] += $7 }
        END { for (i = split("ffn kv head embedding", k, " "); i >= 1; i--) cells = OFS good[k[i]] " of " n[k[i]] cells
              printf "%s%s%s%.3f\n", what, cells, OFS, sum["ffn"] / n["ffn"] }' "$M/$3.gguf.order" "$M/found"
}
{
    printf 'code, permuted\tFFN units\tkey and value heads\tquery heads\tdimensions\tcosine of FFN units\n'
    found "unchanged" code-permuted code-permuted
    found "noise 0.5" code-noise code-noise
    found "in q2_k" code-q2_k code-permuted
} | put align-units

# ---- perplexities
figures() { # WHAT NAME
    echo "$1$TAB$(perplexity "$M/$2.gguf" verse)$TAB$(perplexity "$M/$2.gguf" code)"
}
{
    printf 'model\tverse text\tcode text\n'
    echo "code${TAB}$(perplexity "$LAB/lab-code-f16.gguf" verse)$TAB$(perplexity "$LAB/lab-code-f16.gguf" code)"
    figures "code, permuted" code-permuted
    figures "base with the FFN of verse" whole-original
    figures "base with the FFN of verse, permuted" whole
    figures "half verse, half code" blend-original
    for donor in permuted noise q2_k; do
        case $donor in permuted) what="code, permuted" ;; noise) what="code, permuted, noise 0.5" ;; *) \
            what="code, permuted, in q2_k" ;; esac
        figures "half verse, half $what" "blend-$donor"
        figures "half verse, half $what, aligned" "blend-$donor-aligned"
    done
} | awk -F '\t' -v OFS='\t' 'NR == 1 { print; next }
    function four(x) { return x >= 1000 ? sprintf("%.0f", x) : x >= 100 ? sprintf("%.1f",
        x) : x >= 10 ? sprintf("%.2f", x) : sprintf("%.3f", x) }
    { print $1, four($2), four($3) }' | put align-blends

[ ! -e "$M/changed" ]
