#!/bin/sh
# shellcheck disable=SC1091,SC2016,SC2034,SC2086,SC2154
# dash.sh - "-" as an output: each command of promises.rows that writes with it gives the same bytes to a file, to a
# pipe, to a FIFO and behind what a file has already; a full disk gives 4 and leaves nothing, and so do few open files.
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

# Each row with "-" as an output, and each option of a text that a row names as a file.
grep -E ' (-o|--output|--svg|--card|--report|--rules|--imatrix-out|--histogram|--undo|--to-peft) -( |$)' "$T/rows" |
    grep -v organ-probe > "$T/dashes"
sed -n -e 's/ --rules [^ ]*/ --rules -/p' -e 's/ --card \$[^ ]*/ --card -/p' -e 's/ --svg \$[^ ]*/ --svg -/p' \
    -e 's/ --report \$[^ ]*/ --report -/p' -e 's/ --histogram \$[^ ]*/ --histogram -/p' "$T/rows" |
    grep -v organ-probe >> "$T/dashes"
sort -u "$T/dashes" | grep -v -e ' - .* -$' -e ' - .* - ' > "$T/rows"
mkfifo "$T/fifo"
while IFS= read -r row <&4; do
    parse "$row"
    to > "$T/whole"
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
    [ -e /dev/full ] || continue
    to > /dev/full
    [ $got = 4 ] && one_line "$T/err" && ok || bad "$line: exit $got on a full disk: $(head -n 2 "$T/err")"
    case $(left) in '' | *changed*) ok ;; *) bad "$line: a full disk leaves $(left)" ;; esac
done 4< "$T/rows"
row=
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
