#!/bin/sh
# results-regmean.sh - merges by samples of the inputs of matrices, on the lab models and on lab3: the table
# regmean of docs/merging.md. results.sh runs it; a quarter of an hour.
#
#   KEEP=DIR     the search of an earlier run with KEEP is taken as it is
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh
build_probe > "$M/build.log" 2>&1 || { cat "$M/build.log" >&2; exit 1; }

# sum MODEL TEXT...: the sum of the logarithms of the perplexities.
sum() {
    model=$1 texts=''
    shift
    for text; do texts="$texts --text $LAB/$text"; done
    # shellcheck disable=SC2086 # several
    organ-probe -q -j 1 "$model" $texts | awk -F '\t' 'NR > 1 { s += $3 } END { printf "%.3f", s }'
}
# samples MODEL TEXT FILE
samples() { organ-probe -q -j 1 "$1" --text "$LAB/$2" --rows 4000 --activations "$3" --force > /dev/null; }
for m in verse code; do samples "$LAB/lab-$m-f16.gguf" "calib-$m.txt" "$M/own.$m.gguf"; done
for m in py prose; do samples "$LAB/lab3-$m-f16.gguf" "lab3-calib-$m.txt" "$M/own.$m.gguf"; done
figures() { # NAME: of the models that were merged
    printf '%s\t%s\t%s\t%s\t%s\n' "$1" "$(sum "$M/lab.gguf" tune-verse.txt tune-code.txt)" \
        "$(sum "$M/lab.gguf" text-verse.txt text-code.txt)" "$(sum "$M/lab3.gguf" lab3-tune-py.txt \
        lab3-tune-prose.txt)" "$(sum "$M/lab3.gguf" lab3-tune-head.txt)"
}
merge() { # LINEAGE METHOD SAMPLES FIRST SECOND
    organ-merge -q --no-hash --force --method "$2" --base "$LAB/$1-base-f16.gguf" \
        --model "$LAB/$1-$4-f16.gguf${3:+,activations=$M/$3.$4.gguf}" \
        --model "$LAB/$1-$5-f16.gguf${3:+,activations=$M/$3.$5.gguf}" --output "$M/$1.gguf"
}
row() { # NAME METHOD SAMPLES
    merge lab "$2" "$3" verse code
    merge lab3 "$2" "$3" py prose
    figures "$1"
}
# recipe COMMAND LINEAGE FIRST SECOND CALIBRATION ARGUMENT...: COMMAND with the recipe and its variables
recipe() {
    recipe_of=$2 first=$3 second=$4 calibration=$5 command=$1
    shift 5
    $command "$@" THREADS=1 SAMPLES="$M/samples.$recipe_of" BASE="$LAB/$recipe_of-base-f16.gguf" 'MODELS=verse donor' \
        verse.model="$LAB/$recipe_of-$first-f16.gguf" DONOR="$LAB/$recipe_of-$second-f16.gguf" \
        verse.text="$LAB/$calibration-$first.txt" donor.text="$LAB/$calibration-$second.txt"
}
by_recipe() { # NAME KNOB=VALUE...
    recipe_name=$1
    shift
    recipe make lab verse code calib -s -f $mk OUTPUT="$M/lab.gguf" "$@" >&2
    recipe make lab3 py prose lab3-calib -s -f $mk OUTPUT="$M/lab3.gguf" "$@" >&2
    figures "$recipe_name"
}
mk=scripts/recipes/regmean-merge.mk
[ -s "$M/found.mk" ] || recipe organ-search lab verse code calib $mk -q -j 1 --output "$M/found.mk" --budget 60 \
    --tolerance 0.0005 --text "$LAB/tune-verse.txt" --text "$LAB/tune-code.txt" >&2
shares=t:embed=0.4,t:norm=2
{
    printf '# tolerance\t*\t0.005\n'
    printf 'recipe\tlab, tuning texts\tlab, test texts\tlab3, Python and prose\tlab3, headers\n'
    row '`iso`' iso ''
    row "\`iso,t=0.8,$shares\`" "iso,t=0.8,$shares" ''
    row '`regmean`' regmean own
    row '`regmean-iso`' regmean-iso own
    row '`regmean-iso,t=1,ridge=0.01`' regmean-iso,t=1,ridge=0.01 own
    row "\`regmean-iso,ridge=0.01,t=0.8,$shares\`" "regmean-iso,ridge=0.01,t=0.8,$shares" own
    for m in verse code; do samples "$M/lab.gguf" "calib-$m.txt" "$M/merged.$m.gguf"; done
    for m in py prose; do samples "$M/lab3.gguf" "lab3-calib-$m.txt" "$M/merged.$m.gguf"; done
    row "the same with samples of the merged model" "regmean-iso,ridge=0.01,t=0.8,$shares" merged
    by_recipe "regmean-merge.mk"
    # shellcheck disable=SC2046 # one argument per knob
    by_recipe "regmean-merge.mk, tuned for lab" $(sed -n 's/^\([a-z]*\) := \([0-9.]*\)$/\1=\2/p' "$M/found.mk")
} | put regmean
[ ! -e "$M/changed" ]
