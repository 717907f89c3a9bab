#!/bin/sh
# shellcheck disable=SC1091,SC2016,SC2034,SC2046,SC2086,SC2154
# mutants.sh - whatever a tool writes, organ-info and organ-check can read: files of each kind of source are damaged
# one at a time, in ways that a seed decides (tests/unit/mutant.c), and read by commands of promises.rows that write.
# No command ends by a signal or leaves anything after an error. With EXHAUSTIVE=1 there are 40 mutants of each file.
#   SEED=N   another sequence      MUTANTS=N   how many of each file
. "$(dirname "$0")/lib.sh"
. tests/rows.sh
make_forms > "$T/out" 2>&1 || { bad "the inputs: $(tail -n 3 "$T/out")"; finish; }
most=3
! exhaustive || most=40
most=${MUTANTS:-$most}

grep -e ' -o [^-]' -e --to-peft "$T/rows" |
    grep -v -e organ-probe -e organ-api -e '\$u' -e '--shards' -e ' < ' -e '\$[lp] ' > "$T/some"
rows=$(wc -l < "$T/some")
find "$I/forms" -type f ! -name '*00002*' > "$T/files"
find "$I" -maxdepth 1 -name '[ax].gguf' >> "$T/files"

readable() { # WHAT
    for w in "$O"/*; do
        case $w in
        *.gguf | *.safetensors | "$o")
            organ-info "$w" > "$T/out2" 2> "$T/err2"
            info=$?
            organ-check "$w" > "$T/out2" 2>> "$T/err2"
            check=$?
            [ $info = 0 ] && [ $check -le 1 ] && ok ||
                bad "$1: the output ${w##*/} cannot be read: $info, $check: $(head -n 1 "$T/err2")" ;;
        esac
    done
}
turn=0
while IFS= read -r file <&5; do
    cp "$file" "$T/whole"
    source=$file
    case $file in "$I"/forms/*/*) source=${file%/*} ;; esac
    case $source in "$I/forms/dir"*) source=$I/forms/dir ;; esac
    k=0
    while [ $k -lt "$most" ]; do
        k=$((k + 1)) turn=$((turn + 1))
        seed=$((${SEED:-0} + k))
        mutant "$T/whole" $seed "$file" || { bad "mutant $file"; break; }
        sed -n "$((turn * 7 % rows + 1))p" "$T/some" | formed "$source" > "$T/row"
        IFS= read -r row < "$T/row"
        parse "$row"
        once -j 1
        what="$line with mutant $seed of ${file#"$I"/}"
        case $got in
        0 | 1) readable "$what" ;;
        2 | 3) one_line "$T/err" && [ -z "$(left)" ] && ok || bad "$what leaves $(left)" ;;
        4) grep -q 'No such file' "$T/err" && [ -z "$(left)" ] && ok || bad "$what: $(head -n 1 "$T/err")" ;;
        *) bad "$what: exit $got: $(head -n 1 "$T/err")" ;;
        esac
    done
    cp "$T/whole" "$file"
done 5< "$T/files"
finish
