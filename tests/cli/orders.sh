#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2154
# orders.sh - the shards of a model in every order on standard input: each tool that reads a model there takes the
# right order, refuses the five others and leaves nothing.
. "$(dirname "$0")/lib.sh"
. tests/rows.sh

organ-assemble -q "$a" --shards 3 -o "$T/p.gguf" || bad "three shards"
for order in 123 132 213 231 312 321; do
    for shard in $(echo $order | sed 's/./& /g'); do cat "$T/p-0000$shard-of-00003.gguf"; done > "$T/$order"
done
first_keys() { # those of the header that comes first
    cp "$T/out" "$T/keys"
    status=$got
    line="${line% < *} < $T/p-0000${order%??}-of-00003.gguf"
    once
    [ $got = $status ] && ok || bad "$line: exit $got, not $status"
    check_same "$T/keys" "$T/out" "$line"
}
refused() {
    if [ "$unread" ]; then
        [ $got -ge 2 ]
    else
        [ $got = 3 ] && grep -Eq 'in order|all shards of one model' "$T/err"
    fi && one_line "$T/err" && ok || bad "$line: exit $got: $(head -n 2 "$T/err")"
    case $(left) in '' | './changed '*) ok ;; *) bad "$line leaves $(left)" ;; esac
}
# The first row of each tool that reads a model there, and the first that writes one.
{
    grep ' < \$a$' "$T/rows"
    grep ' \$a' "$T/rows" | grep -v ' < ' | formed -
} | grep -v ' organ-api ' | if exhaustive; then cat; else awk '!first[$2, / -o /]++'; fi > "$T/piped"
while IFS= read -r row <&4; do
    parse "$row"
    unread=
    for order in 123 132 213 231 312 321; do
        line=$(printf '%s' "${row#* }" | sed "s| < \$a\$| < $T/$order|")
        once
        case $order.$row in
        123.*)
            if [ $got != "$want" ] && grep -Eq 'pipe|one GGUF file' "$T/err"; then
                unread=yes # it cannot be done with a pipe, or with shards
            fi
            [ $got = "$want" ] || [ "$unread" ] && ok || bad "$line: exit $got: $(head -n 1 "$T/err")"
            ;;
        *.*' organ-check '*) if [ $got = 1 ]; then ok; else refused; fi ;; # a finding, or unreadable data
        *.*' organ-compare '*' --keys <'* | *.*' organ-keys '*)
            case $row in *' -o '*) refused ;; *) first_keys ;; esac ;;
        *) refused ;;
        esac
    done
    echo "$tool" >> "$T/tools"
done 4< "$T/piped"
# Which shard it is, where only keys are read.
for order in 123 231 312; do
    shard=${order%??}
    for line in "organ-keys -" "organ-compare - $a --keys"; do
        $line < "$T/$order" > "$T/out" 2> "$T/said"
        if [ $shard = 1 ]; then
            grep -q "keys of" "$T/said" && bad "$line: $(cat "$T/said")" || ok
        else
            check "$line: shard $shard" grep -q "<stdin>: these are the keys of shard $shard of 3" "$T/said"
        fi
    done
done
[ "$(sort -u "$T/tools" | wc -l)" -ge 13 ] && ok || bad "only $(sort -u "$T/tools" | tr '\n' ' ') read pipes"
finish
