#!/bin/sh
# purify.sh - the filters of organ-purify against memcpy and numpy.
exec "${BENCH:-build/bench}/bench_purify"
