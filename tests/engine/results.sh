#!/bin/sh
# results.sh - measure the figures of the pages again: runs each results-PART.sh, which stores its
# tables in tests/engine/results, and writes the tables into the pages. Prints what changed by more
# than its tolerance, and then exits with 1. See README.md.
#
#   LAB=DIR            the lab models, in F16 too
#   BIN=build/bin      the tools
#   PARTS="NAME..."    these parts only
set -eu
cd "$(dirname "$0")/../.."
if [ ! -f "${LAB:-}/lab-verse-f16.gguf" ]; then echo "results.sh: LAB=DIR must hold lab-*-f16.gguf" >&2; exit 2; fi
LAB=$(cd "$LAB" && pwd)
PATH=$(cd "${BIN:-build/bin}" && pwd):$PWD/scripts:$PATH
LC_ALL=C
TABLE="sh $PWD/tests/engine/tables.sh"
TAB=$(printf '\t')
S=$(mktemp -d "${TMPDIR:-/tmp}/results.XXXXXX")
trap 'rm -rf "$S"' EXIT
trap 'exit 130' INT TERM HUP
export PATH LAB LC_ALL TABLE TAB
sh tests/engine/install.sh

status=0
for part in tests/engine/results-*.sh; do
    name=${part##*/results-}
    case " ${PARTS:-${name%.sh}} " in *" ${name%.sh} "*) ;; *) continue ;; esac
    echo "results.sh: ${name%.sh}" >&2
    mkdir "$S/part"
    M=$S/part sh "$part" || { echo "results.sh: ${name%.sh} failed, or its figures changed" >&2; status=1; }
    rm -rf "$S/part"
done
sh tests/engine/tables.sh fill
sh tests/engine/tables.sh check || status=1
exit $status
