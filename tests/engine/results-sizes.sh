#!/bin/sh
# results-sizes.sh - encoders with an importance matrix, and types chosen for a size against the
# presets: the tables encoders and sizes of docs/results.md. results.sh runs it.
#
#   KEEP=DIR     models, answers and tables of losses of an earlier run with KEEP are taken as they are
set -eu
cd "$(dirname "$0")/../.."
M=${KEEP:-$M}
mkdir -p "$M"
rm -f "$M/changed"
# shellcheck source=tests/engine/recipes.sh disable=SC1091
. tests/engine/recipes.sh
put() { # NAME: the table on stdin
    cat > "$M/$1.tsv"
    $TABLE put "$1" < "$M/$1.tsv" || : > "$M/changed"
}

# The loss that llama.cpp's own routines add, measured once with models that they encoded: type, without
# and with the importance matrix.
cat > "$M/reference" << 'END'
q4_k	0.0102	0.0129
iq4_xs	0.0105	0.0105
q3_k	0.038	0.026
iq3_s	0.060	0.042
iq3_xxs	0.092	0.065
q2_k	0.173	0.135
iq2_s	0.155	0.133
iq2_xxs	-	0.220
iq1_m	0.85	0.51
END
base=$LAB/lab-base-f16.gguf
if [ ! -s "$M/answers" ]; then
    start_recipes
    for text in verse code; do ppl "$base" $text; done
    while IFS=$TAB read -r type plain weighed; do
        for with in ${plain#-} imatrix; do
            matrix=''
            [ "$with" != imatrix ] || matrix="--imatrix \$LAB/lab-base.imatrix.gguf"
            make_model "$type-${matrix:+imatrix}" "organ-assemble -q \$LAB/lab-base-f16.gguf --dtype 'blk.*=$type' $matrix --output \$OUT" < /dev/null
            ppl_made "$type-${matrix:+imatrix}"
        done
    done < "$M/reference"
    run_engine
fi
added() { # MODEL: what it adds to the sum of the logarithms; - if it was not made
    awk -v a="$(perplexity "$1" verse)" -v b="$(perplexity "$1" code)" -v c="$(perplexity "$base" verse)" -v d="$(perplexity "$base" code)" \
        'BEGIN { if (a > 0 && b > 0) printf "%.4f", log(a / c) + log(b / d); else printf "-" }'
}
{
    printf '# tolerance\t*\t0.002\n'
    printf 'type\tllama.cpp\tours\tllama.cpp, importance matrix\tours, importance matrix\n'
    while IFS=$TAB read -r type plain weighed; do
        printf '%s\t%s\t%s\t%s\t%s\n' "$(echo "$type" | tr '[:lower:]' '[:upper:]')" "$plain" "$(added "$M/$type-.gguf")" "$weighed" "$(added "$M/$type-imatrix.gguf")"
    done < "$M/reference"
} | put encoders

# The many small measurements use predict.c, which starts faster than node.
build_engine_program predict > "$M/predict.log" 2>&1 || { cat "$M/predict.log" >&2; exit 1; }
# shellcheck disable=SC2154 # build_engine_program sets it
cat > "$M/trunk" << END
#!/bin/sh
model=\$1
shift
for text; do '$M/predict.run' '$PWD/$engine' "\$model" "\$text" | cut -f 2; done
END
chmod +x "$M/trunk"
score() { # MODEL: the sum of the logarithms on the texts for reports
    "$M/trunk" "$1" "$LAB/text-verse.txt" "$LAB/text-code.txt" | awk '{ s += log($1) } END { if (NR != 2) exit 1; printf "%.6f", s }'
}
loss() { # NAME SCORE COMMAND...: "LOSS TAB BYTES" of the model that the command writes to $M/made.gguf
    loss_name=$1 loss_base=$2
    shift 2
    if ! grep -q "^$loss_name$TAB" "$M/losses" 2> /dev/null; then
        rm -f "$M/made.gguf"
        "$@"
        printf '%s\t%s\t%s\n' "$loss_name" "$(score "$M/made.gguf" | awk -v b="$loss_base" '{ printf "%.4f", $1 - b }')" "$(wc -c < "$M/made.gguf" | tr -d ' ')" >> "$M/losses"
    fi
    awk -F '\t' -v n="$loss_name" '$1 == n { print $2 "\t" $3 }' "$M/losses"
}
{
    printf '# tolerance\t*\t0.004\n# tolerance\tbytes\texact\n# tolerance\tbytes, guess\t0.5%%\n# tolerance\tbytes, table\t1%%\n'
    printf 'model and preset\tbytes\tloss\tbytes, guess\tloss, guess\tbytes, table\tloss, table\n'
    for m in base verse code; do
        model=$LAB/lab-$m-f16.gguf im=$LAB/lab-$m.imatrix.gguf
        b=$(score "$model")
        organ-sensitivity -q "$model" --imatrix "$im" --text "$LAB/tune-verse.txt" --text "$LAB/tune-code.txt" --engine "$M/trunk" --output "$M/sens.$m.tsv"
        for p in Q2_K Q3_K_M Q4_K_M; do
            size=$(wc -c < "$LAB/presets/lab-$m-$p.gguf" | tr -d ' ')
            for made in "$(loss "$m $p" "$b" cp "$LAB/presets/lab-$m-$p.gguf" "$M/made.gguf")" \
                "$(loss "$m $p guess" "$b" organ-assemble -q "$model" --imatrix "$im" --size "$size" --output "$M/made.gguf")" \
                "$(loss "$m $p table" "$b" organ-assemble -q "$model" --imatrix "$im" --size "$size" --sensitivity "$M/sens.$m.tsv" --output "$M/made.gguf")"; do
                printf '%s\t' "$made"
            done | awk -F '\t' -v OFS='\t' -v name="$m, $p" '{ print name, $2, $1, $4, $3, $6, $5 }'
        done
    done
} | put sizes
[ ! -e "$M/changed" ]
