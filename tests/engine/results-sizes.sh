#!/bin/sh
# results-sizes.sh - encoders with an importance matrix, and types chosen for a size against the
# presets: the tables encoders, encoders-imatrix and sizes of docs/results.md. results.sh runs it.
#
#   KEEP=DIR     losses of an earlier run with KEEP are taken as they are
set -eu
cd "$(dirname "$0")/../.."
# shellcheck source=tests/engine/part.sh disable=SC1091
. tests/engine/part.sh

# The small programs of this folder start faster than node.
for program in predict quantize; do
    build_engine_program $program > "$M/$program.log" 2>&1 || { cat "$M/$program.log" >&2; exit 1; }
done
# shellcheck disable=SC2154 # build_engine_program sets it
cat > "$M/trunk" << END
#!/bin/sh
model=\$1
shift
for text; do '$M/predict.run' '$PWD/$engine' "\$model" "\$text" | cut -f 2; done
END
chmod +x "$M/trunk"
score() { # MODEL: the sum of the logarithms on the texts for reports
    "$M/trunk" "$1" "$LAB/text-verse.txt" "$LAB/text-code.txt" | awk \
        '{ s += log($1) } END { if (NR != 2) exit 1; printf "%.6f", s }'
}
original() { # MODEL's name: its score in F16
    [ -s "$M/score.$1" ] || score "$LAB/lab-$1-f16.gguf" > "$M/score.$1"
    cat "$M/score.$1"
}
# "LOSS TAB BYTES" of the model that the command writes to $M/made.gguf; a loss of "-" if it fails.
loss() { # NAME SCORE COMMAND...
    loss_name=$1 loss_base=$2
    shift 2
    if ! grep -q "^$loss_name$TAB" "$M/losses" 2> /dev/null; then
        rm -f "$M/made.gguf"
        if "$@"; then
            printf '%s\t%s\t%s\n' "$loss_name" "$(score "$M/made.gguf" | awk -v b="$loss_base" \
                '{ printf "%.4f", $1 - b }')" "$(wc -c < "$M/made.gguf" | tr -d ' ')"
        else
            printf '%s\t-\n' "$loss_name"
        fi >> "$M/losses"
    fi
    awk -F '\t' -v n="$loss_name" '$1 == n { print $2 "\t" $3 }' "$M/losses"
}

# The blocks of a model in one type, encoded by llama.cpp's routines and by ours. Types are given with
# the number of the llama_ftype that is based on them.
types='q4_k:14 iq4_nl:25 iq4_xs:30 q3_k:11 iq3_s:26 iq3_xxs:23 q2_k:10 iq2_s:29 iq2_xs:20 iq2_xxs:19 iq1_m:31 iq1_s:24'
theirs() { # MODEL FTYPE IMATRIX|-
    "$M/quantize.run" "$engine" "$1" "$2" "$3" "$M/made.gguf" > "$M/quantize.log" 2>&1 && return
    grep -q 'requires an imatrix' "$M/quantize.log" || cat "$M/quantize.log" >&2
    return 1
}
ours() { # MODEL TYPE IMATRIX|-
    set -- "$1" "$2" "${3#-}"
    organ-assemble -q "$1" --dtype "blk.*=$2" ${3:+--imatrix "$3"} --output "$M/made.gguf"
}
encoders() { # TYPE:FTYPE... ; the importance matrix is used if `with` is set
    printf '# tolerance\t*\t0.002\n'
    printf 'type\tbase, llama.cpp\tbase, ours\tverse, llama.cpp\tverse, ours\tcode, llama.cpp\tcode, ours\n'
    for type; do
        printf '%s' "${type%:*}" | tr '[:lower:]' '[:upper:]'
        for m in base verse code; do
            model=$LAB/lab-$m-f16.gguf im=-
            [ -z "$with" ] || im=$LAB/lab-$m.imatrix.gguf
            b=$(original $m)
            printf '\t%s' "$(loss "$type $m$with llama.cpp" "$b" theirs "$model" "${type#*:}" "$im" | cut -f 1)" \
                "$(loss "$type $m$with" "$b" ours "$model" "${type%:*}" "$im" | cut -f 1)"
        done
        echo
    done
}
# shellcheck disable=SC2086 # one argument per type
with=' imatrix' && encoders $types | put encoders-imatrix
# shellcheck disable=SC2046
with='' && encoders $(echo "$types" | tr ' ' '\n' | grep -v -e iq2_x -e iq1_s) | put encoders

{
    printf '# tolerance\t*\t0.004\n# tolerance\tbytes\texact\n'
    printf '# tolerance\tbytes, guess\t0.5%%\n# tolerance\tbytes, table\t1%%\n'
    printf 'model and preset\tbytes\tloss\tbytes, guess\tloss, guess\tbytes, table\tloss, table\n'
    for m in base verse code; do
        model=$LAB/lab-$m-f16.gguf im=$LAB/lab-$m.imatrix.gguf
        b=$(original $m)
        organ-sensitivity -q "$model" --imatrix "$im" --text "$LAB/tune-verse.txt" --text "$LAB/tune-code.txt" \
            --engine "$M/trunk" --output "$M/sens.$m.tsv"
        for p in Q2_K Q3_K_M Q4_K_M; do
            size=$(wc -c < "$LAB/presets/lab-$m-$p.gguf" | tr -d ' ')
            for made in "$(loss "$m $p" "$b" cp "$LAB/presets/lab-$m-$p.gguf" "$M/made.gguf")" \
                "$(loss "$m $p guess" "$b" organ-assemble -q "$model" --imatrix "$im" --size "$size" \
                --output "$M/made.gguf")" \
                "$(loss "$m $p table" "$b" organ-assemble -q "$model" --imatrix "$im" --size "$size" \
                --sensitivity "$M/sens.$m.tsv" --output "$M/made.gguf")"; do
                printf '%s\t' "$made"
            done | awk -F '\t' -v OFS='\t' -v name="$m, $p" '{ print name, $2, $1, $4, $3, $6, $5 }'
        done
    done
} | put sizes
[ ! -e "$M/changed" ]
