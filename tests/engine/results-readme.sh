#!/bin/sh
# results-readme.sh - the memory that extracting a model of 2 GiB takes: the table memory, which
# README.md quotes. results.sh runs it. BENCH and COST are built by `make results`; M needs 4 GiB.
set -eu
cd "$(dirname "$0")/../.."
if [ ! -x "${BENCH:-}/bench_model" ] || [ ! -x "${COST:-}" ]; then
    echo "results-readme.sh: run it with make results" >&2
    exit 1
fi
"$BENCH/bench_model" "$M/m.gguf" 2048 1
{
    printf '# tolerance\tMB\t1\n'
    printf 'command\tMB\n'
    printf 'extract 2 GiB\t'
    "$COST" organ-extract -q "$M/m.gguf" --output "$M/organs" | awk '{ printf "%.1f\n", $3 * 1024 / 1e6 }'
} > "$M/memory.tsv"
$TABLE put memory < "$M/memory.tsv"
