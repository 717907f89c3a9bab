#!/bin/sh
# purify-sweep.sh MODELS - perplexity of the lab models with every FFN organ purified,
# by method and strength: a table (TSV) on stdout. MODELS holds lab-*-f16.gguf,
# text-verse.txt and text-code.txt. Takes some minutes.
#
#   BIN=build/bin                 the tools
#   DTYPE=F16                     what is written (default: the models' own dtype)
#   TYPE=organ                    which tensors
#   LIST="lab-base-f16 ..."       which models
#   HAAR="..." FFT="..."          strengths
set -eu
[ $# -eq 1 ] || { echo "usage: tests/engine/purify-sweep.sh MODELS" >&2; exit 2; }
MODELS=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
BIN=${BIN:-build/bin}
HAAR=${HAAR-"0 0.0625 0.125 0.25 0.375 0.5 0.625 0.75 0.875 1"}
FFT=${FFT-"0 0.02 0.04 0.08 0.12 0.16 0.2 0.25 0.3 0.4 0.5"}
T=$(mktemp -d "${TMPDIR:-/tmp}/purify-sweep.XXXXXX")
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP

one() { # MODEL METHOD STRENGTH: purified into $T/m.gguf, mean rel_l2 printed
    "$BIN/organ-purify" "$MODELS/$1" --type "${TYPE:-organ}" --method "$2" --strength "$3" ${DTYPE:+--dtype "$DTYPE"} \
        --output "$T/m.gguf" --force | awk -F '\t' \
        '$11 == "purified" || $11 == "identical" { s += $8; n++ } END { printf "%.4f", s / n }'
}

ppl() { # TEXT...: perplexities of $T/m.gguf, in one line
    node tests/engine/engine.mjs ppl "$T/m.gguf" "$@" | awk -F '\t' '{ printf "%s%.4f", (NR > 1 ? " " : ""), $3 }'
}

printf 'model\ttext\tmethod\tstrength\trel_l2\tperplexity\tof_before\n'
for model in ${LIST:-lab-base-f16 lab-verse-f16 lab-code-f16}; do
    case $model in
    lab-verse*) texts=verse ;;
    lab-code*) texts=code ;;
    *) texts="verse code" ;;
    esac
    files=
    for t in $texts; do files="$files $MODELS/text-$t.txt"; done
    cp "$MODELS/$model.gguf" "$T/m.gguf"
    # shellcheck disable=SC2086
    before=$(ppl $files)
    for method in haar fft; do
        if [ $method = haar ]; then strengths=$HAAR; else strengths=$FFT; fi
        for s in $strengths; do
            rel=$(one "$model.gguf" $method "$s")
            # shellcheck disable=SC2086
            after=$(ppl $files)
            k=0
            for t in $texts; do
                k=$((k + 1))
                echo "$before $after" | awk -v k=$k -v n="$(echo "$texts" | wc -w)" -v OFS='\t' \
                    -v row="$model $t $method $s $rel" \
                    '{ gsub(" ", "\t", row); printf "%s\t%.3f\t%.3f\n", row, $(n + k), $(n + k) / $k }'
            done
        done
    done
done
