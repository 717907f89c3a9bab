#!/bin/sh
# results-regmean.sh - merges by samples of the inputs of matrices, on the lab models and on lab3: the table
# regmean of docs/merging.md. results.sh runs it; a few minutes.
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
# merge OUT METHOD SAMPLES-FROM FIRST SECOND [WEIGHTS...]
merge() {
    case $4 in verse) lab=lab ;; *) lab=lab3 ;; esac
    organ-merge -q --no-hash --force --method "$2" --base "$LAB/$lab-base-f16.gguf" \
        --model "$LAB/$lab-$4-f16.gguf${6:+,weight=$6}${3:+,activations=$M/$3.$4.gguf}" \
        --model "$LAB/$lab-$5-f16.gguf${7:+,weight=$7}${3:+,activations=$M/$3.$5.gguf}" --output "$1"
}
row() { # NAME METHOD SAMPLES [WEIGHTS]
    name=$1 method=$2 from=$3
    shift 3
    merge "$M/lab.gguf" "$method" "$from" verse code "$@"
    merge "$M/lab3.gguf" "$method" "$from" py prose "$@"
    printf '%s\t%s\t%s\t%s\t%s\n' "$name" "$(sum "$M/lab.gguf" tune-verse.txt tune-code.txt)" \
        "$(sum "$M/lab.gguf" text-verse.txt text-code.txt)" "$(sum "$M/lab3.gguf" lab3-tune-py.txt \
        lab3-tune-prose.txt)" \
        "$(sum "$M/lab3.gguf" lab3-tune-head.txt)"
}
# Found on the tuning texts of lab, with the weights 0.9 and 1.1.
tuned='regmean-iso,t:token_embd=0.5,t:output=0.3,t:norm=2,t=[0.4,1.1],ridge=0.001,share:ffn=0.35,share:embed=0.6'
shares=t:embed=0.4,t:norm=2
{
    printf '# tolerance\t*\t0.005\n'
    printf 'recipe\tlab, tuning texts\tlab, test texts\tlab3, Python and prose\tlab3, headers\n'
    row '`iso`' iso ''
    row "\`iso,t=0.8,$shares\`" "iso,t=0.8,$shares" ''
    row '`regmean`' regmean own
    row '`regmean-iso`' regmean-iso own
    row "\`regmean-iso,t=0.8,$shares\`" "regmean-iso,t=0.8,$shares" own
    again() { # the inputs of the merged model instead of those of each model
        for m in verse code; do samples "$M/lab.gguf" "calib-$m.txt" "$M/merged.$m.gguf"; done
        for m in py prose; do samples "$M/lab3.gguf" "lab3-calib-$m.txt" "$M/merged.$m.gguf"; done
    }
    again
    row "the same with samples of the merged model" "regmean-iso,t=0.8,$shares" merged
    again
    row "tuned, with samples of the merged model" "$tuned" merged 0.9 1.1
} | put regmean
[ ! -e "$M/changed" ]
