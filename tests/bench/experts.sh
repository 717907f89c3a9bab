#!/bin/sh
# experts.sh - time and memory of a block of 384 experts of 7168 x 2048 (F16, 34 GB of holes in a sparse file):
# what keeps, moves and merges experts reads one at a time. Fails if a run needs more than 256 MiB.
# The results go to /dev/null. Prints the seconds of the clock and of the processor, and MiB.
#   EXPERTS=N   fewer experts; at least 16
#   ONLY=TEXT   only runs that contain the text
set -u
cd "$(dirname "$0")/../.." || exit 2
BIN=$(cd "${BIN:-build/bin}" && pwd) || exit 2
PATH=$BIN:$BIN/../test:$PATH
T=$(mktemp -d "${TMPDIR:-/tmp}/experts.XXXXXX") || exit 2
trap 'rm -rf "$T"' EXIT
trap 'exit 130' INT TERM HUP
EXPERTS=${EXPERTS:-384}

le() { # BYTES NUMBER: little-endian
    k=0 n=$2
    while [ "$k" -lt "$1" ]; do
        # shellcheck disable=SC2059
        printf "\\$(printf %03o $((n % 256)))"
        n=$((n / 256)) k=$((k + 1))
    done
}
text() { le 8 ${#1}; printf %s "$1"; }
number() { text "$1"; le 4 4; le 4 "$2"; }
at=0
tensor() { # NAME DTYPE BYTES-PER-VALUE DIMS...
    text "$1"
    dtype=$2 bytes=$3
    shift 3
    le 4 $#
    for d; do le 8 "$d"; bytes=$((bytes * d)); done
    le 4 "$dtype"
    le 8 $at
    at=$((at + bytes))
}
{
    printf GGUF; le 4 3; le 8 4; le 8 5
    text general.architecture; le 4 8; text llama
    number llama.block_count 1; number llama.expert_count "$EXPERTS"; number llama.expert_used_count 8
    number llama.feed_forward_length 2048
    tensor blk.0.ffn_gate_inp.weight 0 4 7168 "$EXPERTS"
    tensor blk.0.ffn_gate_exps.weight 1 2 7168 2048 "$EXPERTS"
    tensor blk.0.ffn_up_exps.weight 1 2 7168 2048 "$EXPERTS"
    tensor blk.0.ffn_down_exps.weight 1 2 2048 7168 "$EXPERTS"
} > "$T/a.gguf"
head=$((($(wc -c < "$T/a.gguf") + 31) / 32 * 32))
size=$((head + 7168 * EXPERTS * 4 + 3 * 7168 * 2048 * EXPERTS * 2))
dd if=/dev/null of="$T/a.gguf" bs=1 seek=$size 2> "$T/err" || { echo "no sparse file of $size bytes here"; exit 0; }
cp "$T/a.gguf" "$T/b.gguf" 2> "$T/err" || exit 2

status=0
run() { # WHAT COMMAND...
    what=$1
    shift
    case $what in *"${ONLY:-organ}"*) ;; *) return ;; esac
    if cost "$@" > "$T/cost" 2> "$T/err"; then
        awk -v what="$what" '{ printf "%s\t%.1f\t%.1f\t%d\n", what, $1, $2, $3 / 1024; exit $3 > 262144 }' "$T/cost" &&
            return
        echo "$what: more than 256 MiB"
    else
        echo "$what: $(tail -n 1 "$T/err")"
    fi
    status=1
}
printf 'command\tclock\tprocessor\tMiB\n'
half=$((EXPERTS / 2 - 1))
run "organ-assemble --keep-experts 0-$half" organ-assemble -q "$T/a.gguf" --keep-experts 0-$half -o -
run "organ-transplant --experts 5=7" organ-transplant -q "$T/a.gguf" "$T/b.gguf" --experts 5=7 -o -
run "organ-transplant --blend linear:0.5" organ-transplant -q "$T/a.gguf" "$T/b.gguf" \
    --type ffn --blend linear:0.5 -o -
run "organ-merge --method linear" organ-merge -q --method linear "$T/a.gguf" "$T/b.gguf" --no-hash -o -
exit $status
