#!/bin/sh
# results-health.sh - which measures tell a damaged model from a healthy one? Makes variants of six models of
# two lineages (the lab models, and lab3 in the same folder), measures them, and prints the AUC of each measure
# per lineage and kind of damage: the table health of docs/method.md. results.sh runs it; about ten minutes.
#
#   KEEP=DIR     measures of an earlier run with KEEP are taken as they are
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh
[ -f "$LAB/lab3-base-f16.gguf" ] || { echo "results-health.sh: skipped, $LAB has no second lineage" >&2; exit 0; }
build_probe > "$M/build.log" 2>&1 || { cat "$M/build.log" >&2; exit 1; }
all="--type ffn,attention"
# Matrices in F16: all of them, and those of attention.
attention='--tensors blk.*.attn_?.weight,blk.*.attn_output.weight'
matrices() { # LINEAGE
    case $1 in lab3) echo "$attention,blk.*.ffn_*_exps.weight" ;; *) echo "$attention,blk.*.ffn_*.weight" ;; esac
}

# KIND<TAB>NAME<TAB>COMMAND, which reads $model and writes $OUT. Healthy ones are decided by the loss.
spoiled() { # KIND NAME SPOIL SELECTION
    printf '%s\t%s\t%s\n' "$1" "$2" \
        "organ-extract \$model $4 --output - | node tests/engine/spoil.mjs $3 | organ-transplant \
        -q --base \$model --donor - --output \$OUT"
}
moved() { # NAME MAP SELECTION
    printf 'structure\t%s\t%s\n' "$1" \
        "organ-transplant -q --base \$model --donor \$model --map $2 $3 --match convert --output \$OUT"
}
typed() { printf 'value\ttype %s\t%s\n' "$1" \
    "organ-assemble -q \$model --dtype 'blk.*=$1' --fallback f16 --output \$OUT"; }
variants() { # LINEAGE
    for t in q8_0 q4_0 iq4_nl; do typed $t; done
    # Rows of lab3 are too short for these.
    [ "$1" = lab3 ] || for t in q4_k q2_k tq2_0; do typed $t; done
    every=$(matrices "$1")
    for x in 0.1 0.3 0.7 1.5; do spoiled value "noise $x" "noise $x" "$every"; done
    spoiled value "half of attention zeroed" "zero 0.5" "$attention"
    spoiled value "90 % pruned" "small 0.9" "$every"
    spoiled value "10 % of the signs" "flip 0.1" "$every"
    spoiled value "one matrix times 0.1" "scale 0.1" "--tensors blk.1.attn_output.weight"
    spoiled value "one matrix times 10" "scale 10" "--tensors blk.0.attn_v.weight"
    spoiled structure "a matrix with other signs" "flip 1" "--tensors blk.0.attn_output.weight"
    spoiled structure "a transposed matrix" "turn 1" "--tensors blk.1.attn_q.weight"
    spoiled structure "all queries and outputs transposed" "turn 1" \
        "--tensors blk.*.attn_q.weight,blk.*.attn_output.weight"
    spoiled structure "rows of the embedding" "rows 1" "--tensors token_embd.weight"
    spoiled structure "rows of values" "rows 1" "--tensors blk.*.attn_v.weight"
    spoiled structure "rows of the FFN" "rows 1" "--tensors blk.*.ffn_up*.weight"
    moved "blocks in the reverse order" 0=3,1=2,2=1,3=0 ""
    moved "two blocks swapped" 0=1,1=0 ""
    moved "inner blocks swapped" 1=2,2=1 ""
    moved "attention of two blocks swapped" 0=3,3=0 "--type attention"
}

# A number of a table on stdin: FILE-COLUMN of row 1.
loss() { organ-probe -q -j 1 "$@" | awk -F '\t' 'NR == 2 { print $3 }'; }
means() { # theta, row_theta, edge and kurtosis over the matrices
    organ-measure -q "$1" --spectral $all | awk -F '\t' '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; k = split("theta row_theta edge kurtosis", name, " "); next }
        { for (i = 1; i <= k; i++) if ($at[name[i]] != "-") { sum[i] += $at[name[i]]; n[i]++ } }
        END { for (i = 1; i <= k; i++) printf "%s%.5f", (i > 1 ? "\t" : ""), n[i] ? sum[i] / n[i] : 0; print "" }'
}
# The largest factor by which a block's length, attention or FFN differs from the reference's.
trace_change() { # TRACE REFERENCE
    awk -F '\t' 'FNR == 1 { next } NR == FNR { for (i = 4; i <= 6; i++) was[$1, i] = $i; next }
        { for (i = 4; i <= 6; i++) if ($i != "-" && was[$1, i] > 0) { r = $i > 0 ? log($i / was[$1, i]) : -20;
            if (r < 0) r = -r; if (r > most) most = r } }
        END { printf "%.5f\n", most }' "$2" "$1"
}
rows() { # LINEAGE MODEL TEXT...
    lineage=$1 model=$2
    shift 2
    organ-probe -q -j 1 "$model" --random 64 --trace > "$M/own.trace"
    texts='' was=0
    for text; do texts="$texts --text $text"; done
    # shellcheck disable=SC2086 # several
    organ-probe -q -j 1 "$model" $texts --save-base "$M/own.base" --force > "$M/own"
    organ-probe -q -j 1 "$model" --text "$1" --tokens 129 --save-base "$M/own128.base" --force > /dev/null
    was=$(awk -F '\t' 'NR > 1 { s += $3 } END { print s }' "$M/own")
    export model
    variants "$lineage" | { printf 'none\tunchanged\tcp $model $OUT\n'; cat; } | while IFS=$TAB read -r kind name \
        command; do
        OUT=$M/variant.gguf
        export OUT
        rm -f "$OUT"
        sh -c "$command" < /dev/null 2> "$M/err" || { echo "results-health.sh: $name: $(cat "$M/err")" >&2; exit 1; }
        # shellcheck disable=SC2086
        organ-probe -q -j 1 "$OUT" $texts > "$M/new" 2> /dev/null || true
        organ-probe -q -j 1 "$OUT" --random 64 --trace > "$M/new.trace"
        organ-probe -q -j 1 "$OUT" --text "$1" --tokens 129 --against "$M/own128.base" > "$M/new128"
        damage=$(organ-compare -q "$model" "$OUT" $all --summary --imatrix "${model%-f16.gguf}.imatrix.gguf" \
            2> /dev/null | awk -F '\t' \
            'NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i } $1 == "model" { print $at["damage"] }') || true
        printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$lineage" "$(basename "$model" -f16.gguf)" "$kind" "$name" \
            "$(awk -F '\t' -v was="$was" 'NR > 1 { s += $3 } END { printf "%.5f", s - was }' "$M/new")" \
            "$(means "$OUT")" "${damage:-0}" "$(awk -F '\t' 'NR == 2 { print $3 }' "$M/new128")" \
            "$(awk -F '\t' 'NR == 2 { print $6 }' "$M/new128")" "$(trace_change "$M/new.trace" "$M/own.trace")"
    done
}
measures="theta row_theta edge kurtosis damage loss_128 kl_128 trace"
if [ ! -s "$M/measures.tsv" ]; then
    {
        printf 'lineage\tmodel\tkind\tvariant\tloss_change\t%s\n' "$(echo "$measures" | tr ' ' '\t')"
        for m in base verse code; do rows lab "$LAB/lab-$m-f16.gguf" "$LAB/tune-verse.txt" "$LAB/tune-code.txt"; done
        for m in base py prose; do rows lab3 "$LAB/lab3-$m-f16.gguf" "$LAB/lab3-tune-prose.txt" \
            "$LAB/lab3-tune-py.txt"; done
    } > "$M/measures.tmp"
    mv "$M/measures.tmp" "$M/measures.tsv"
fi

# Damaged: the losses of the two texts together have grown by 0.4, which is 22 % of the perplexity of each.
# The AUC is the probability that
# the measure is larger (or smaller, if that is the better direction over all) for a damaged model than for another.
awk -F '\t' -v OFS='\t' -v measures="$measures" '
    NR == 1 { next }
    { n++; lineage[n] = $1; kind[n] = $3; bad[n] = $5 > 0.4; for (i = 6; i <= NF; i++) v[n, i - 5] = $i;
        lines[$1]++; ill[$1] += bad[n] }
    function auc(k, which, damage,    i, j, wins, pairs) {
        for (i = 1; i <= n; i++) {
            if (!bad[i] || (which != "" && lineage[i] != which) || (damage != "" && kind[i] != damage)) continue
            for (j = 1; j <= n; j++) {
                if (bad[j] || lineage[j] != lineage[i]) continue
                pairs++
                wins += v[i, k] > v[j, k] ? 1 : v[i, k] == v[j, k] ? 0.5 : 0
            }
        }
        return pairs ? wins / pairs : 0.5
    }
    END {
        print "# tolerance", "*", "0.03"
        print "measure", "needs", "lab", "lab3", "damaged values", "damaged structure"
        split("-,-,-,-,reference and importance matrix,128 tokens,128 tokens and reference," \
            "64 random tokens and reference", needs, ",")
        m = split(measures, name, " ")
        for (k = 1; k <= m; k++) {
            up = auc(k, "", "") >= 0.5
            line = name[k] OFS needs[k]
            split("lab||lab3||%|value|%|structure", ask, "|")
            for (c = 1; c < 8; c += 2) { a = auc(k, ask[c] == "%" ? "" : ask[c], ask[c + 1]);
                line = line OFS sprintf("%.2f", up ? a : 1 - a) }
            print line
        }
        for (l in lines)
            print "results-health.sh: " l ": " ill[l] " of " lines[l] " variants are damaged" > "/dev/stderr"
    }' "$M/measures.tsv" | put health
[ ! -e "$M/changed" ]
