#!/bin/sh
# shellcheck disable=SC1091,SC2016,SC2034,SC2086,SC2154,SC3045
# promises.sh - what every tool promises about its inputs and outputs. promises.rows has the
# commands. Each promise is tested with the first row of each tool and with each sixteenth of the others, which
# differ from promise to promise, or with all of them if EXHAUSTIVE is set. An option of a tool that reads or writes a
# file, and no row names, is a failure.
#   ONLY_ROWS=TEXT   only the rows that contain the text
. "$(dirname "$0")/lib.sh"
. tests/rows.sh

turn=0
chosen() { # whether this promise is tested with row n, of the tool $tool
    exhaustive || [ -n "${ONLY_ROWS:-}" ] || [ "$tool" != "$previous" ] || [ $(((n + turn) % 16)) = 0 ]
}
each() { # FUNCTION [all]: calls it for the chosen rows, or for all. n is the number of the row.
    n=0 turn=$((turn + 1)) tool=
    while IFS= read -r row <&4; do
        previous=$tool n=$((n + 1)) tool=${row#* }
        tool=${tool%% *}
        [ -n "${2:-}" ] || chosen || continue
        parse "$row"
        "$1"
    done 4< "$T/rows"
}

# ---- all of it has a row ----------------------------------------------------------------------
[ -n "${ONLY_ROWS:-}" ] || for tool in "$BIN"/organ-*; do
    tool=${tool##*/}
    "$tool" --list-options > "$T/options" || bad "$tool --list-options"
    # shellcheck disable=SC2030
    missing=$(grep -e "^[0-9] $tool " "$T/rows" | awk -F "$TAB" -v file="$T/options" '
        { rows = rows $0 "\n" }
        END {
            if (rows == "") print "no row"
            while ((getline < file) > 0)
                if ($4 ~ /^(model|params|dir|file|key-file|range-file|new-model|new-dir|new-file|into)$/ && $7 == "-" \
                    && !index(rows, " --" $1 " ") && !($2 != "-" && index(rows, " -" $2 " "))) printf "--%s ", $1
        }')
    [ -z "$missing" ] && ok || bad "promises.rows has no row of $tool for $missing"
done
# organ-api has routes instead of options.
[ -n "${ONLY_ROWS:-}" ] || for route in $(awk -F '[/:]' '/^  \/v1\// { name = $3 }
        /^    (get|put|post|delete):/ { sub(/^ */, ""); print toupper($1) "/" name }' docs/openapi.yaml | sort -u); do
    grep -q -e "^[0-9] organ-api ${route%/*} ${route#*/} " -e "^# not organ-api ${route%/*} ${route#*/}: " \
        tests/cli/promises.rows && ok ||
        bad "promises.rows has no row of organ-api for ${route%/*} ${route#*/}"
done

# ---- the outputs, and the same bytes on each level and with any number of threads -----------------
same() {
    [ -n "${SANITIZED:-}" ] || [ "$tool" = organ-probe ] ||
        limit=163840 # memory is bounded: KiB of addresses for small models
    once -j 1
    limit=
    [ $got = "$want" ] || { bad "$line: exit $got: $(head -n 1 "$T/err")"; return; }
    for w in $outs; do
        [ -e "$w" ] || [ -e "${w%.gguf}-00001-of-00002.gguf" ] || bad "$line: no ${w##*/}"
    done
    rm -rf "$T/ref.$n"
    mv "$O" "$T/ref.$n" && mv "$T/out" "$T/ref.$n.out"
    chosen || return
    once -j 3
    same_as_ref "-j 3"
    pre=GG_ISA=0 once -j 2
    pre=
    same_as_ref "GG_ISA=0"
    inputs_kept "$line"
}
same_as_ref() {
    if [ "$got" = "$want" ] && cmp -s "$T/out" "$T/ref.$n.out" && diff -r "$O" "$T/ref.$n" > "$T/diff" 2>&1; then ok
    else bad "$line: other results with $1 (exit $got)"
    fi
}
each same all

# ---- what exists is kept without --force and replaced with it -------------------------------------
kept() {
    for w in $outs; do
        reset
        case $row in *--shards*) w=${w%.gguf}-00002-of-00002.gguf ;; esac
        echo precious > "$w"
        run
        if [ $got = 2 ] && one_line "$T/err" && [ "$(cat "$w")" = precious ]; then ok
        else bad "$line: exit $got where ${w##*/} exists: $(head -n 1 "$T/err")"
        fi
        rm -f "$w"
        case $(left) in '' | *changed*) ;; *) bad "$line: leaves $(left)" ;; esac
    done
    [ -n "$outs" ] || return
    rm -rf "$O"
    cp -r "$T/ref.$n" "$O"
    case $row in *'$u'*) cp "$a" "$u" ;; esac
    run --force
    same_as_ref "--force"
}
each kept

# ---- no output replaces an input or lies in one, by no name and not with --force -----------------------------------
guarded() {
    case $row in *--shards*) return ;; esac # shards have other names than the output; see below
    for out in $outs; do
        for in in $reads; do
            case $in:$tool in *.bin:* | *manifest.json:*) in=${in%/*} in=${in%/skeleton} ;; esac
            reset
            ln -s "$in" "$O/link"
            names="$in $O/link"
            # nothing may be written into an organ directory that is read: it could take the manifest's name
            if [ -d "$in" ]; then names="$names $in/organs/new $in/organs/../manifest.json $O/link/manifest.json"
            else ln "$in" "$O/twin" && names="$names $O/twin"
            fi
            for name in $names; do
                other=$(printf '%s\n' "$line" |
                    awk -v from="${out#"$o"}" -v to="$name" '{ gsub(/\$o[a-z.]*/, "&="); n = split($0, w, " ")
                        for (k = 1; k <= n; k++) {
                            if (w[k] ~ /^\$o[a-z.]*=$/) { sub(/=$/, "", w[k]); if (w[k] == "$o" from) w[k] = to }
                            printf "%s ", w[k]
                        } }')
                (eval "$start $other -q --force > \"\$T/out\" 2> \"\$T/err\"") < /dev/null
                got=$?
                [ $got = 2 ] && ok || bad "$other: exit $got: $(head -n 1 "$T/err")"
            done
            rm -f "$O/twin"
            inputs_kept "$line > $in"
        done
    done
}
each guarded

check_error 2 "also an input" "shards by another name" organ-assemble "$s" --shards 3 -o "$I/s.gguf" --force
check_error 2 "inside the organ directory" "a new file in a directory" organ-assemble $d -o $d/norm/x.bin
check_error 2 "(or change the model itself: --in-place)" "advice" organ-keys $a --delete general.name -o $a --force
check_error 2 "choose another name" "advice without --in-place" organ-assemble $a -o $a --force
grep -q in-place "$T/err" && bad "organ-assemble has no --in-place: $(cat "$T/err")" || ok
inputs_kept "outputs that are inputs"

# ---- names and texts made to do harm: they are escaped for what they are printed to ----------------------
# Python checks all files of the test that are JSON or SVG at once.
kept=0
mkdir "$T/parse"
keep_for_python() { # FILE MEDIUM
    kept=$((kept + 1))
    cp "$1" "$T/parse/$kept.$2"
    echo "$line" > "$T/parse/$kept.line"
}
parse_kept() {
    have python3 "what Python checks" || return 0
    python3 -c 'import json, os, sys, xml.dom.minidom
os.chdir(sys.argv[1])
for name in os.listdir("."):
    if name.endswith("line"): continue
    try:
        if name.endswith("svg"): xml.dom.minidom.parse(name)
        elif name.endswith("object"): json.load(open(name))
        else: [json.loads(line) for line in open(name)]
    except Exception as e: print(open(name.split(".")[0] + ".line").read().strip(), name.split(".")[1], repr(e))' \
        "$T/parse" > "$T/out" 2>&1
    check_text "$?$(cat "$T/out")" 0 "JSON and SVG can be parsed"
}
# safe FILE MEDIUM: no control characters, nothing invisible, and what the medium needs
safe() {
    if ! tr -d '\000-\010\013-\037\177' < "$1" | cmp -s - "$1"; then
        why='a control character'
    elif grep -q -e "$BIDI" -e "$ZERO" "$1"; then why='an invisible character'
    else
        why=
        case $2 in
        tsv) why=$(awk -F "$TAB" '/^#/ { next } !n { n = NF } NF != n { print NF " columns instead of " n;
            exit }' "$1") ;;
        object | json) keep_for_python "$@" ;;
        html | mk) ! grep -qiE '<script>alert|<img src=x' "$1" || why='<script' ;;
        svg | md) # names may be code, whose fences are longer than those in the name
            ! sed 's/``.*``//g; s/`[^`]*`//g' "$1" | grep -qiE '(^|[^\\])<script' || why='<script'
            [ "$2" = md ] || keep_for_python "$@"
            [ "$2" != md ] || ! grep -qF -e '[x](javascript' "$1" || why='a link' ;;
        esac
    fi
    [ -z "$why" ] && ok || bad "$line: $why in ${1##*/} ($2)"
}
wild() {
    case $line in *--get*) return ;; esac # prints the bytes of a string as they are
    once
    [ $got -le 4 ] && ok || bad "$line: exit $got with wild names"
    safe "$T/err" text
    medium=tsv
    case " $line " in
    *' -o - '* | *' --lineage '*) medium= ;; # a model; a row
    *' --json '*) medium=json ;;
    *' --svg - '*) medium=svg ;;
    *' --card - '*) medium=md ;;
    *' organ-info $a '*) medium=text ;;
    esac
    if [ "$tool" = organ-api ]; then
        case $line in *' files '*) medium= ;; *' lists '*) medium=json ;; *) medium=object ;; esac
        sed "1,/^$CR\$/d" "$T/out" > "$T/body"
        tr -d '\r' < "$T/out" | sed '/^$/,$d' > "$T/head"
        safe "$T/head" text
        mv "$T/body" "$T/out"
    fi
    [ -z "$medium" ] || safe "$T/out" $medium
    for w in $outs; do
        case $w in *.svg | *.md | *.tsv) [ ! -e "$w" ] || safe "$w" "${w##*.}" ;; *.rules) [ ! -e "$w" ] ||
            safe "$w" text ;; esac
    done
}
I=$T/wild
mkdir "$I"
names
t=$I/b${ESC}[31m$BIDI.txt
inputs > "$T/out" 2>&1 || { bad "the wild inputs: $(tail -n 3 "$T/out")"; finish; }
each wild

# Scripts, with models whose file names are made to do harm, too. organ-remote, which needs a server, and
# organ-validate and organ-serve, which write no such files, have their own tests; kills.sh has the signals.
W=$I/models
mkdir "$W"
cp "$I/a.gguf" "$W/<script>alert(1)<;touch pwned\`touch pwned\`\$(touch pwned)\"'&|.gguf"
cp "$I/b.gguf" "$W/b${ESC}[31m$BIDI$ZERO \\.gguf"
printf '#!/bin/sh\nwc -c < "$1"\n' > "$T/engine"
chmod +x "$T/engine"
printf '# knob a: 0..1\na := 0.5\nOUTPUT ?= out\n$(OUTPUT):\n\t@echo $(a) > $@\n' > "$T/recipe.mk"
cat > "$T/scripts" << 'END'
organ-fleet pipeline --output $o $W
organ-fleet dissect --output $o $W --json
organ-stream --output $o $I/s-00001-of-00003.gguf
organ-report --output $o $W
organ-sensitivity $W/b* --text $T/recipe.mk --output $o.tsv --engine $T/engine --types q8_0 --tensors *attn_q*
organ-search $T/recipe.mk --text $T/recipe.mk --output $o.mk --engine $T/engine --budget 3
END
for name in $(awk -F "$TAB" "$BY_NAME"'col("kind") ~ /^(new-|into)/ { print col("tool") }' scripts/options.tsv |
    sort -u); do
    grep -q "^$name .*--output" "$T/scripts" && ok || bad "no row of $name"
done
export ORGAN_BIN="$BIN"
find "$I" -type f -exec cksum {} + | sort > "$T/wild.before"
grep -F -e "${ONLY_ROWS:-organ}" "$T/scripts" > "$T/chosen"
while IFS= read -r line <&4; do
    case $line in organ-search*) "${MAKE:-make}" --version 2> /dev/null | grep -q GNU || continue ;; esac
    rm -rf "$O" && mkdir "$O"
    words=$(printf '%s' "$line" | sed 's/[^ ]*\$[^ ]*/"&"/g; s/"\$W\/b\*"/"$W"\/b*/; s/\*attn_q\*/"&"/')
    (unset MAKEFLAGS MFLAGS MAKELEVEL; eval "exec sh scripts/$words -q") > "$T/out" 2> "$T/err" < /dev/null
    got=$?
    [ $got -le 1 ] && ok || bad "$line: exit $got with wild names: $(head -n 1 "$T/err")"
    safe "$T/err" text
    case $line in *--json) safe "$T/out" json ;; *) safe "$T/out" text ;; esac
    find "$O" -type f > "$T/files"
    [ -s "$T/files" ] && ok || bad "$line: no outputs"
    while IFS= read -r w; do
        case $w in
        *.jsonl) safe "$w" json ;;
        *.json) safe "$w" object ;;
        *.tsv | *.html | *.md | *.mk) safe "$w" "${w##*.}" ;;
        *.tmp*) bad "$line: leaves $w" ;;
        esac
    done < "$T/files"
done 4< "$T/chosen"
find "$I" -type f -exec cksum {} + | sort | cmp -s - "$T/wild.before" && ok || bad "a script changed an input"
parse_kept
check_text "$(find . "$T" -name '*pwned' | grep -v '/obj/')" "" "nothing was run, and no file was written elsewhere"
I=$T/in
names

# ---- stdout that is full or closed ------------------------------------------------------------------
lost() {
    [ -s "$T/ref.$n.out" ] || return
    reset
    (eval "$start $line -q > /dev/full 2> \"\$T/err\"") < /dev/null
    full=$?
    # A request has changed the model before its answer is written.
    case $tool.$(left) in organ-api.* | "$tool." | *changed*) ok ;; *) bad "$line: a full disk leaves $(left)" ;; esac
    reset
    (eval "$start $line -q >&- 2> \"\$T/err2\"") < /dev/null
    closed=$?
    if [ $full = 4 ] && [ $closed = 4 ] && one_line "$T/err" && one_line "$T/err2"; then ok
    else bad "$line: exit $full on a full disk, $closed with a closed stdout: $(head -n 1 "$T/err" "$T/err2")"
    fi
}
[ ! -e /dev/full ] || each lost

# ---- a disk without room -------------------------------------------------------------------------------
# (a limit of the size of files; messages go through a pipe, which it does not limit)
full() {
    [ -n "$outs" ] || return
    reset
    (ulimit -f 0 && eval "exec $line -q 2>&1 > /dev/null"; echo $? > "$T/never") < /dev/null | cat > "$T/err"
    got=$(grep -cE "($tool|organ-prune): " "$T/err")
    if [ "$got" = 1 ] && one_line "$T/err" && [ -z "$(left | sed 's/[^ ]*changed[^ ]*//g; s/ //g')" ]; then ok
    else bad "$line: no room, $(left): $(head -n 2 "$T/err")"
    fi
}
each full

# ---- calls that fail, signals, and inputs that change while they are read ------------------------------
SO=$T/inject.so
cat > "$T/works.c" << 'END'
#include <stdlib.h>
int main(void) { return malloc(1) == NULL; }
END
if [ -n "${SANITIZED:-}" ] || ! compile -std=gnu11 -O1 -shared -fPIC -o "$SO" tests/faults/inject.c \
    -ldl 2> "$T/err" ||
    [ "$(LD_PRELOAD=$SO FAULT_OP=open FAULT_NTH=1 organ-info "$a" 2>&1 > "$T/out" | grep -c 'Too many')" != 1 ]; then
    echo "promises.sh: nothing is preloaded here: failing calls and changing inputs are left out"
    finish
    exit
fi

# fault OP NTH [FILE]: once, with this failure.
stay=
fault() {
    pre="$stay LD_PRELOAD=$SO FAULT_OP=$1 FAULT_NTH=$2 FAULT_COUNT=$T/n FAULT_PATH=${3:-/}"
    : > "$T/n"
    once -j 1
    pre='' calls=0
    read -r calls < "$T/n" || :
}

changed() {
    for file in $reads; do
        stay=
        fault touch 0 "$file"
        reads_of=$calls
        if [ "$reads_of" = 0 ]; then # stdio, whose reads are not seen, reads it; others come later
            stay=FAULT_STAY=1
            fault touch 0 "$file"
            reads_of=$calls
        fi
        cp -p "$file" "$T/kept"
        fault touch "$reads_of" "$file"
        if [ $got = 4 ] && grep -qF "was changed by another program" "$T/err" && one_line "$T/err"; then ok
        else bad "$line: exit $got when $file changes at read $reads_of: $(head -n 1 "$T/err")"
        fi
        case $(left) in '' | *changed*) ;; *) bad "$line: leaves $(left)when $file changes" ;; esac
        cp -p "$T/kept" "$file"
    done
}
each changed
stay=

# Of each kind of call, the last and one before fail; signals come at some of all calls.
broken() {
    ops='write sync rename open signal'
    [ -n "$outs" ] || ops='write signal'
    for op in $ops; do
        fault $op 0
        all=$calls last=
        case $op in
        signal) list="$((all / 2)) $(more $((all * 3 / 4)) $all)" ;;
        *) list="$((all / 2)) $all" ;;
        esac
        for k in $list; do
            [ "$k" != "$last" ] && [ "$k" -gt 0 ] && [ "$k" -le "$all" ] || continue
            last=$k
            fault $op "$k"
            case $op:$got in
            signal:143 | signal:4 | *:"$want") ;;
            signal:*) bad "$line: signal $k: exit $got: $(head -n 1 "$T/err")" ;;
            *:4) one_line "$T/err" || bad "$line: $op $k: $(head -n 3 "$T/err")" ;;
            *) bad "$line: $op $k: exit $got: $(head -n 1 "$T/err")" ;;
            esac
            whole "$op $k"
        done
    done
    ok
}
# All outputs are in $O, as they should be, or none. A model that is changed in place does not count.
whole() {
    ! empty || [ "$got" = "$want" ] || return 0
    diff -r "$O" "$T/ref.$n" > "$T/diff" 2>&1 && return
    if [ "$got" = "$want" ]; then bad "$line: $1: exit $got, and other outputs"; return; fi
    case $(left) in '' | *changed*) ;; *) bad "$line: $1: exit $got leaves $(left)" ;; esac
}
each broken
finish
