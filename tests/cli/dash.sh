#!/bin/sh
# shellcheck disable=SC1091,SC2016,SC2034,SC2086,SC2154
# dash.sh - "-" as an output, for each option that takes it: the same bytes to a file, a pipe, a FIFO, a terminal and
# behind what a file has already; a full disk gives 4 and leaves nothing, and so do few open files.
. "$(dirname "$0")/lib.sh"
. tests/rows.sh

# to COMMAND...: runs the row with its stdout as it is.
to() {
    reset
    (eval "$line -q 2> \"\$T/err\"") < /dev/null
    got=$?
}
same() { # FILE WHERE
    cmp -s "$1" "$T/whole" && [ $got = "$want" ] && ok || bad "$line: $2: exit $got: $(head -n 1 "$T/err")"
}

pty=yes
(onpty true) > /dev/null 2>&1 < /dev/null || {
    pty=
    echo "left out: output on a terminal (/dev/pts)"
}

# Each option of an output takes "-", in the first row that has it: in all rows with EXHAUSTIVE=1. Those that cannot
# write to a stream refuse it.
for tool in "$BIN"/organ-*; do
    case $tool in *organ-probe) continue ;; esac
    "$tool" --list-options | awk -F "$TAB" -v tool="${tool##*/}" '
        $4 ~ /^(new-|into)/ && $7 == "-" { print tool, "--" $1, ($2 == "-") ? "" : "-" $2 }'
done > "$T/options"
awk -v all="$(! exhaustive || echo all)" '
    FNR == NR { name[$1, $2] = $2; if ($3) name[$1, $3] = $2; next }
    { row = $0
        for (w = 3; w < NF; w++) {
            if (!(($2, $w) in name) || $(w + 1) !~ /^(\$o|-$)/) continue
            given = $(w + 1) == "-"
            if (!given && done[$2, name[$2, $w]]++ && all == "") continue
            old = $(w + 1)
            $(w + 1) = "-"
            print (given ? "" : "?" name[$2, $w] " ") $0
            $(w + 1) = old
        }
    }' "$T/options" "$T/rows" | sort -u | grep -v -e ' - .* -$' -e ' - .* - ' > "$T/dashes"
while read -r tool option short; do
    grep -qE " $tool .*($option${short:+| $short}) -( |\$)" "$T/dashes" && ok ||
        bad "no row gives $tool $option -"
done < "$T/options"
# Options of folders, and of a file that is read again.
REFUSE=' organ-graft --output organ-lora --to-peft organ-transplant --undo '
# Rows in which another option, or a patch, needs the name of a file.
named() {
    case " $row " in *' --card '* | *' --shards '* | *' --safetensors '* | *' dat '* | *' $p '*) ;; *) false ;; esac
}
mv "$T/dashes" "$T/rows"
mkfifo "$T/fifo"
while IFS= read -r row <&4; do
    option=
    case $row in \?*) option=${row%% *} row=${row#* } option=${option#\?} ;; esac
    parse "$row"
    to > "$T/whole"
    if [ $got = 2 ] && one_line "$T/err" && [ ! -s "$T/whole" ]; then
        case $REFUSE in *" $tool $option "*) ok ;; *) named && ok || bad "$line: $(cat "$T/err")" ;; esac
        continue
    fi
    [ $got = "$want" ] && [ -s "$T/whole" ] && ok || { bad "$line: exit $got: $(head -n 1 "$T/err")"; continue; }
    echo header > "$T/behind"
    to >> "$T/behind"
    { echo header; cat "$T/whole"; } > "$T/wanted"
    cmp -s "$T/behind" "$T/wanted" && ok || bad "$line: behind a header that is appended to"
    { echo header; to; } > "$T/behind"
    cmp -s "$T/behind" "$T/wanted" && [ $got = "$want" ] && ok || bad "$line: exit $got behind a header"
    { to; echo $got > "$T/got"; } | cat > "$T/piped"
    got=$(cat "$T/got")
    same "$T/piped" "a pipe"
    cat "$T/fifo" > "$T/piped" &
    to > "$T/fifo"
    wait
    same "$T/piped" "a FIFO"
    # A terminal gets the same text, and nothing that is binary.
    if [ $pty ]; then
        reset
        (eval "onpty $line -q 2> \"\$T/err\"") > "$T/piped" < /dev/null
        got=$?
        case $(head -c 4 "$T/whole" | tr -d '\000') in
        GGUF | *[!\ -~]*) [ $got = 2 ] && [ ! -s "$T/piped" ] && one_line "$T/err" && ok ||
            bad "$line: exit $got on a terminal: $(head -n 1 "$T/err")" ;;
        *) case $row in
            *organ-measure*) # whose table is narrower there
                [ $got = "$want" ] && [ -s "$T/piped" ] && ok || bad "$line: exit $got on a terminal" ;;
            *) same "$T/piped" "a terminal" ;;
            esac ;;
        esac
    fi
    [ -e /dev/full ] || continue
    to > /dev/full
    [ $got = 4 ] && one_line "$T/err" && ok || bad "$line: exit $got on a full disk: $(head -n 2 "$T/err")"
    case $(left) in '' | *changed*) ok ;; *) bad "$line: a full disk leaves $(left)" ;; esac
done 4< "$T/rows"
# A bare value is printed byte for byte, but a terminal gets nothing that would act on it.
printf 'a\033[1m\n\342\200\256b\t\303\274%0300d\303\274\r' 0 > "$T/acts"
printf 'a\\x1b[1m\n\\xe2\\x80\\xaeb\t\303\274%0300d\303\274\\x0d' 0 > "$T/shown"
organ-keys -q "$a" --set-file "general.name=$T/acts" -o "$T/acting.gguf"
organ-keys "$T/acting.gguf" --get general.name | cmp -s - "$T/acts" && ok || bad "a bare value in a pipe"
[ -z "$pty" ] || { onpty organ-keys "$T/acting.gguf" --get general.name | cmp -s - "$T/shown" && ok ||
    bad "a bare value on a terminal"; }
row=
reset
for n in 4 5 6 7 8 10 12; do
    # shellcheck disable=SC3045 # any sh that is in use has -n
    (ulimit -n $n; exec organ-extract "$LAB/lab-verse-q4_k_m.gguf" -o "$O/new/d" -q) 2> "$T/err"
    got=$?
    [ $got = 4 ] || [ $got = 0 ] && ok || bad "$n open files: exit $got"
    [ $got = 0 ] || check_text "$(left)" "" "$n open files leave nothing"
    rm -rf "$O/new"
done
[ ! -e /dev/full ] || for tool in "$BIN"/organ-*; do
    for option in --help --version; do
        "$tool" $option > /dev/full 2> "$T/err"
        [ $? = 4 ] && ok || bad "${tool##*/} $option on a full disk"
    done
done
finish
