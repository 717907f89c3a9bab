#!/bin/sh
# trim.sh - organ-vocab trim in memory, one thread, against cp of what stays: 262144 tokens of which about
# 41000 stay, in a model of which 2.3 GiB stay, and in a model of nearly nothing but embeddings. Least CPU
# times of ROUNDS (5) runs that take turns. RAM (/dev/shm) needs 9 GB.
set -eu
. "$(dirname "$0")/goal.sh"
BIN=${BIN:-build/bin} BENCH=${BENCH:-build/bench} ROUNDS=${ROUNDS:-5}
tests=$BENCH/../test
free=$(df -Pk "${RAM:-/dev/shm}" 2>/dev/null | awk 'NR == 2 { print $4 }')
if [ "${free:-0}" -lt 9000000 ]; then
	echo "skipped: ${RAM:-/dev/shm} has less than 9 GB"
	exit 0
fi
dir=$(mktemp -d "${RAM:-/dev/shm}/bench-trim.XXXXXX")
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP PIPE

# model WIDTH FFN [TENSOR]: a sound model of $blocks equal blocks, without findings of organ-check
model() {
	w=$1 f=$2 n=0
	# shellcheck disable=SC2086
	"$tests/mkmodel" "$dir/one.gguf" -v 262144,514906 -k llama.block_count=1 -k llama.context_length=4096 \
		-k "llama.embedding_length=$w" -k "llama.feed_forward_length=$f" -k llama.attention.head_count=16 \
		-k llama.attention.head_count_kv=16 -k llama.vocab_size=262144 "token_embd.weight:F16:${w}x262144" ${3:-} \
		"output_norm.weight:F32:$w" "blk.0.attn_norm.weight:F32:$w" "blk.0.attn_q.weight:F16:${w}x$w" \
		"blk.0.attn_k.weight:F16:${w}x$w" "blk.0.attn_v.weight:F16:${w}x$w" "blk.0.attn_output.weight:F16:${w}x$w" \
		"blk.0.ffn_norm.weight:F32:$w" "blk.0.ffn_gate.weight:F16:${w}x$f" "blk.0.ffn_up.weight:F16:${w}x$f" \
		"blk.0.ffn_down.weight:F16:${f}x$w"
	"$BIN/organ-keys" -q "$dir/one.gguf" --set llama.attention.layer_norm_rms_epsilon=f32:0.00001 -o "$dir/two.gguf"
	mv "$dir/two.gguf" "$dir/one.gguf"
	set --
	while [ $n -lt "$blocks" ]; do set -- "$@" "$dir/one.gguf" 0 && n=$((n + 1)); done
	"$BIN/organ-stack" -q --force --no-history -o "$dir/model.gguf" "$@"
	rm "$dir/one.gguf"
}
trim() { "$tests/cost" "$BIN/organ-vocab" trim -q -j 1 "$dir/model.gguf" --keep "$dir/keep" -o "$dir/out"; }
least() { sort -n "$1" | head -n 1; }

# against_cp WHAT LIMIT
against_cp() {
	: >"$dir/cp.times"
	: >"$dir/trim.times"
	trim >/dev/null
	mv "$dir/out" "$dir/kept"
	for _ in $(seq "$ROUNDS"); do
		"$tests/cost" cp "$dir/kept" "$dir/out" | cut -d ' ' -f 2 >>"$dir/cp.times"
		rm "$dir/out"
		trim | cut -d ' ' -f 2 >>"$dir/trim.times"
		rm "$dir/out"
	done
	goal "organ-vocab trim of $1: CPU time / cp of what stays" \
		"$(awk -v a="$(least "$dir/trim.times")" -v b="$(least "$dir/cp.times")" 'BEGIN { printf "%.2f\n", a / b }')" \
		"at most" "$2"
}

awk 'BEGIN { srand(1); for (i = 256; i < 262144; i++) if (rand() < 0.1) print i }' >"$dir/keep"
blocks=15
model 2048 10240
against_cp "a model" 1.2
blocks=1
model 4096 1024 output.weight:F16:4096x262144
against_cp "embeddings" 1.2
