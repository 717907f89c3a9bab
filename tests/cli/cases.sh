#!/bin/sh
# cases.sh - situations that people met with real files, after public bug reports: one row per
# case and command, with the exit status and a text of the output. The inputs are made here, or are
# in tests/data. Each heading names the reports of its rows.
#
#     row CASE EXIT TEXT COMMAND...
#
# TEXT must be in the output or in the messages; with ! before it, it must not be there. '' accepts
# all. Add rows under the heading of their case, and a heading in its place if there is none.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }

row() {
    case_name=$1 want=$2 text=$3
    shift 3
    "$@" > "$T/out" 2> "$T/err"
    got=$?
    cat "$T/out" "$T/err" > "$T/both"
    case $text in
    '') found=0 ;;
    !*) if grep -qF -e "${text#!}" "$T/both"; then found=1; else found=0; fi ;;
    *) if grep -qF -e "$text" "$T/both"; then found=0; else found=1; fi ;;
    esac
    if [ $got != "$want" ]; then
        bad "$case_name: exit $got, $want wanted: $*"
        head -n 4 "$T/both"
    elif [ $found != 0 ]; then
        bad "$case_name: '$text' wanted: $*"
        head -n 4 "$T/both"
    else
        ok
    fi
}

# new TOOL ARGUMENT...: the tool writes $T/x.gguf.
new() {
    tool=$1
    shift
    "organ-$tool" "$@" -o "$T/x.gguf" --force
}

# bytes COUNT OCTAL: the bytes COUNT times.
bytes() {
    i=0
    while [ $i -lt "$1" ]; do
        printf "$2"
        i=$((i + 1))
    done
}

# u32 N: as four bytes, little-endian.
u32() {
    printf "$(awk -v n="$1" 'BEGIN { for (i = 0; i < 4; i++) { printf "\\%03o", n % 256; n = int(n / 256) } }')"
}

# dat TENSOR CALLS COLUMNS: the start of an entry of an importance matrix in the older format, whose
# values follow.
dat() {
    u32 ${#1}
    printf '%s' "$1"
    u32 "$2"
    u32 "$3"
}

# ---- 05 importance matrices with zeros: llama.cpp#8661, #11764, #12439, #7805, auto-round#667,
# ik_llama.cpp#202

Q=blk.1.attn_q.weight E=blk.1.ffn_gate_exps.weight
mkmodel "$T/f16.gguf" "$Q:F16:512x8" "$E:F16:256x4x4"
one='\000\000\200\077' zero='\000\000\000\000' tiny='\001\000\000\000'
{ u32 1; dat $Q 5 512; bytes 512 "$zero"; } > "$T/zero.dat"
{ u32 1; dat $Q 5 512; bytes 512 "$tiny"; } > "$T/tiny.dat"
{ u32 1; dat $Q 5 512; bytes 256 "$one"; bytes 256 "$zero"; } > "$T/columns.dat"
{ u32 1; dat $Q 5 512; bytes 128 "$one"; bytes 384 "$zero"; } > "$T/half.dat"
{ u32 1; dat $E 5 1024; bytes 256 "$one"; bytes 256 "$zero"; bytes 512 "$one"; } > "$T/expert.dat"
{ u32 1; dat $Q 5 512; bytes 511 "$one"; bytes 1 '\000\000\300\177'; } > "$T/nan.dat"
{ u32 1; dat $Q 0 512; bytes 512 "$zero"; } > "$T/count-0.dat"
{ u32 1; dat $Q 5 512; bytes 512 "$one"; } > "$T/ones.dat"
for t in q2_k q3_k q4_k q5_k q6_k q4_0 q5_0 q4_1 iq4_xs; do
    for f in zero tiny columns half expert; do
        case $f in
        columns) text="no weights for some columns, which count as equally important: $Q (256)" ;;
        half) text="equally important: $Q (384)" ;;
        expert) text="equally important: $E (256)" ;;
        *) text="equally important: $Q (512)" ;;
        esac
        row "05 $f $t" 0 "$text" new assemble "$T/f16.gguf" --dtype "blk.*=$t" --imatrix "$T/$f.dat"
        row "05 $f $t: nothing is lost" 1 '' organ-compare --sample 0 "$T/f16.gguf" "$T/x.gguf"
        awk -F '\t' '$1 ~ /weight$/ && !($8 > 0.93) { bad = 1 } END { exit bad }' "$T/out" ||
            bad "05 $f $t: $(cat "$T/out")"
    done
done
row "05 zero: as equal weights" 0 '' new assemble "$T/f16.gguf" -q --dtype "$Q=q4_k" --imatrix "$T/zero.dat"
# The file's name is a key, so the name must be the same.
mv "$T/x.gguf" "$T/zero.gguf"
cp "$T/ones.dat" "$T/zero.dat"
new assemble "$T/f16.gguf" -q --dtype "$Q=q4_k" --imatrix "$T/zero.dat"
check_same "$T/zero.gguf" "$T/x.gguf" "05 zero: the bytes of equal weights"
row "05 ones" 0 "!equally important" new assemble "$T/f16.gguf" --dtype "blk.*=q4_k" --imatrix "$T/ones.dat"
row "05 nan" 3 "not finite" new assemble "$T/f16.gguf" --dtype "blk.*=q4_k" --imatrix "$T/nan.dat"
row "05 count-0" 0 "!equally important" new assemble "$T/f16.gguf" --dtype "blk.*=q4_k" --imatrix "$T/count-0.dat"
row "05 unused" 0 "!equally important" new assemble "$T/f16.gguf" --dtype "blk.*=q8_0" --imatrix "$T/expert.dat"

finish
