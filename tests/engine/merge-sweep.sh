#!/bin/sh
# merge-sweep.sh LAB - perplexity of lab-verse and lab-code merged onto lab-base by each method, at
# its default and at other parameters: a table (TSV) on stdout. LAB holds lab-*-f16.gguf, and the
# texts tune-*.txt, to choose parameters by, and text-*.txt, to report. Takes about ten minutes.
#
#   BIN=build/bin                 the tools
#   LIST="ties iso,t=0.5"         these merges instead of all
set -eu
[ $# -eq 1 ] || { echo "usage: tests/engine/merge-sweep.sh LAB" >&2; exit 2; }
LAB=$(cd "$1" && pwd)
cd "$(dirname "$0")/../.."
BIN=${BIN:-build/bin}
T=$(mktemp -d "${TMPDIR:-/tmp}/merge-sweep.XXXXXX")
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP
sh tests/engine/install.sh

all="linear slerp,t=0.3 slerp,t=0.5 nuslerp multislerp karcher
task task,weight=0.7 task,weight=0.6 task,weight=0.5 task,weight=0.4 task,weight=0.3 task,weight=0.2
ties ties,density=0.3,lambda=0.4,normalize=0 ties,density=0.3,lambda=0.6,normalize=0 \
    ties,density=0.3,lambda=0.9,normalize=0
ties,density=0.5,lambda=0.6,normalize=0 ties,density=0.5,lambda=0.9,normalize=0
ties,density=0.8,lambda=0.6,normalize=0 ties,density=0.8,lambda=0.9,normalize=0
dare-linear dare-linear,density=0.5,weight=0.5 dare-linear,density=0.8,weight=0.5 \
    dare-linear,density=0.8,weight=0.2 dare-ties dare-ties,density=0.5,weight=0.5 \
    dare-ties,density=0.8,weight=0.5 dare-ties,density=0.8,weight=0.3
della della,density=0.5 della,density=0.5,lambda=0.5 della-linear della-linear,density=0.5,weight=0.5 \
    della-linear,density=0.8,weight=0.5
breadcrumbs breadcrumbs,density=0.9 breadcrumbs,density=0.9,weight=0.5 breadcrumbs,density=0.9,weight=0.2 \
    breadcrumbs-ties breadcrumbs-ties,density=0.9,weight=0.6 breadcrumbs-ties,density=0.9,weight=0.3
sce sce,select_topk=0.5 model-stock model-stock,filter_wise=1 nearswap,t=0.001 arcee-fusion ram ramplus
iso iso,t=0.4 iso,t=0.5 iso,t=0.7"

models_of() { # METHOD: the models that it merges
    case ${1%%,*} in
    linear | slerp | nuslerp | multislerp | karcher) echo \
        "--model $LAB/lab-verse-f16.gguf --model $LAB/lab-code-f16.gguf" ;;
    nearswap | arcee-fusion) echo "--base $LAB/lab-verse-f16.gguf --model $LAB/lab-code-f16.gguf" ;;
    *) echo "--base $LAB/lab-base-f16.gguf --model $LAB/lab-verse-f16.gguf --model $LAB/lab-code-f16.gguf" ;;
    esac
}

printf 'merge\ttune_verse\ttune_code\ttext_verse\ttext_code\n'
for merge in ${LIST:-$all}; do
    # shellcheck disable=SC2046 # several words
    "$BIN/organ-merge" -q --no-hash --force --method "$merge" $(models_of "$merge") --output "$T/m.gguf"
    node tests/engine/engine.mjs ppl "$T/m.gguf" "$LAB/tune-verse.txt" "$LAB/tune-code.txt" "$LAB/text-verse.txt" \
        "$LAB/text-code.txt" | awk -F '\t' -v merge="$merge" '{ row = row "\t" $3 } END { print merge row }'
done
