#!/bin/sh
# matmul.sh - products of float32 matrices against the machine's peak.
exec "${BENCH:-build/bench}/bench_matmul"
