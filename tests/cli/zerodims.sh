#!/bin/sh
# shellcheck disable=SC1091,SC2016,SC2034,SC2086,SC2154
# zerodims.sh - tensors of which a dimension is 0, in models of every kind: the commands of promises.rows end without
# a signal and leave nothing half-made, and organ-info reads what they write. Each command meets some of the
# dimensions; with EXHAUSTIVE=1 ten times as many, and STEP=1 is all of them for all commands (12,000 runs).
. "$(dirname "$0")/lib.sh"
. tests/rows.sh

# zero FILE TEXT EVERY [KIND]: the commands that have the text read FILE with a dimension of 0: each command meets
# one dimension of EVERY. With a kind it is a model of this kind, and $a its name.
zero() {
    file=$I/$1 kind=${4:-gguf}
    grep -F -e "$2" "$T/rows" | grep -v -e ' organ-probe ' -e ' organ-api ' > "$T/some"
    [ $kind != dir ] || { grep -v -F ' < $a' "$T/some" > "$T/out"; mv "$T/out" "$T/some"; }
    step=${STEP:-$3}
    ! exhaustive || step=${STEP:-$((($3 + 9) / 10))}
    n=$(zerodim "$file") || { bad "zerodim $1"; return; }
    mv "$file" "$T/whole"
    k=0
    while [ $k -lt "$n" ]; do
        zeroed=$(zerodim "$T/whole" $k "$file") && other_kind && ok ||
            { bad "$1: dimension $k as $kind"; break; }
        r=0
        while IFS= read -r row <&4; do
            r=$((r + 1))
            [ $(((r + k) % step)) = 0 ] || continue
            parse "$row"
            once -j 2
            judge "$line with $zeroed of $kind ${file##*/}"
        done 4< "$T/some"
        k=$((k + 1))
    done
    mv "$T/whole" "$file"
    names
}

other_kind() {
    case $kind in
    dir) a=$I/zero.d && organ-extract -q "$file" -o "$a" --force ;;
    safetensors) a=$I/zero.safetensors && organ-extract -q "$file" --safetensors -o "$a" --force ;;
    records) a=$I/zero.bin && organ-extract -q "$file" -o - > "$a" ;;
    esac
}

judge() { # WHAT
    case $got in
    0 | 1) ;;
    2 | 3) one_line "$T/err" || bad "$1: $(head -n 3 "$T/err")" ;;
    *) bad "$1: exit $got: $(head -n 1 "$T/err")" ;;
    esac
    case $got$(left) in [01]* | [23] | *changed*) ok ;; *) bad "$1: exit $got leaves $(left)" ;; esac
    [ $got -le 1 ] || return
    for w in $outs; do
        case $w in *.gguf) [ -e "$w" ] || continue ;; *) continue ;; esac
        organ-info "$w" > "$T/out" 2> "$T/err"
        [ $? -le 1 ] && ok || bad "$1: organ-info cannot read the output: $(head -n 1 "$T/err")"
    done
}

zerodim "$a" 1 "$T/zero" > "$T/out" && organ-extract --list "$T/zero" > "$T/list"
check_text "$(sed -n '2s/.*F32.\(32x[0-9]*\).*/\1/p' "$T/list")" 32x0 "a dimension of 0 is read"

zero a.gguf '$a' 43
for kind in dir $(more safetensors records); do zero a.gguf '$a' 47 $kind; done
zero x.gguf '$x' 7
zero v.gguf '$I/v.gguf' 3
zero act.gguf '$I/act.gguf' 1
zero adapter.gguf '$I/adapter.gguf' 1
zero i.gguf '$i' 5
zero j.gguf '$j' 5
zero l.gguf '$l' 5
# The models of the lab, whose types have blocks. One has the names and shapes of all.
for m in verse code; do
    organ-stack -q "$LAB/lab-$m-q4_k_m.gguf" 0 -o "$T/$m.gguf" || bad "a block of $m"
done
cp "$T/verse.gguf" "$I/a.gguf" && cp "$T/code.gguf" "$I/b.gguf" && cp "$T/code.gguf" "$I/c.gguf"
cp "$LAB/lab-verse.imatrix.gguf" "$I/i.gguf"
organ-lora -q "$I/a.gguf" "$I/b.gguf" --rank 2 -o "$I/l.gguf" --force > "$T/out" || bad "an adapter of the lab"
zero a.gguf '$a' 97
zero i.gguf '$i' 97
zero l.gguf '$l' 41
finish
