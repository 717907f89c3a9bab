#!/bin/sh
# shellcheck disable=SC1091,SC2086
# kills.sh - SIGKILL in the middle: a change in place leaves the old model or the new one, or the stated
# command restores it; and the scripts go on where they were killed. `make faults` kills at every
# call of many commands, and KILLS_MOST=0 here at every step of the scripts.
#   KILLS_MOST=N   at most N kills of each script, evenly spread (1, or 4 with EXHAUSTIVE=1; 0: all)
. "$(dirname "$0")/lib.sh"
SO=$T/inject.so
if exhaustive; then : "${KILLS_MOST:=4}"; fi
ORGAN_BIN=$BIN
export ORGAN_BIN
if [ -n "${SANITIZED:-}" ] || ! compile -std=gnu11 -O1 -shared -fPIC -o "$SO" tests/faults/inject.c \
    -ldl 2> "$T/err" ||
    ! have setsid || [ "$(LD_PRELOAD=$SO FAULT_OP=step FAULT_NTH=0 FAULT_STEPS=$T/steps cat < "$T/err" > "$T/out"
        wc -c < "$T/steps" | tr -d ' ')" != 1 ]; then
    echo "kills.sh: nothing is preloaded here, so nothing is killed"
    finish
    exit
fi
for s in 1 2; do
    mkmodel "$T/m$s.gguf" -s $s -k llama.embedding_length=32 -k llama.block_count=2 -n 2 token_embd.weight:F32:32x8 \
        blk.%.attn_q.weight:F32:32x32 blk.%.ffn_up.weight:F32:32x32 output_norm.weight:F32:32
done
organ-keys -q "$T/m1.gguf" --set general.name=str:before -o "$T/old.gguf"

# ---- a call that fails takes no note away ----------------------------------------------------------------
# shouts COMMAND...: at some reads and allocations that fail, it fails too, or has its note.
shouts() {
    for op in read alloc; do
        LD_PRELOAD=$SO FAULT_OP=$op FAULT_NTH=0 FAULT_COUNT=$T/n "$@" -j 1 > "$T/out" 2> "$T/said"
        calls=$(cat "$T/n") i=1
        rm "$T/n"
        [ -s "$T/said" ] && ok || bad "$*: no note"
        while [ $i -le "$calls" ]; do
            LD_PRELOAD=$SO FAULT_OP=$op FAULT_NTH=$i "$@" -j 1 > "$T/out" 2> "$T/err"
            got=$?
            [ $got = 4 ] || { [ $got = 0 ] && cmp -s "$T/err" "$T/said"; } && ok ||
                bad "$*: $op $i: exit $got: $(head -n 1 "$T/err")"
            i=$((i + calls / 12 + 1))
        done
    done
}
organ-stack -q "$LAB/lab-verse-q4_k_m.gguf" 0 -o "$T/verse.gguf"
organ-stack -q "$LAB/lab-stranger-q4_k_m.gguf" 0 -o "$T/stranger.gguf"
shouts organ-stack "$T/verse.gguf" 0 "$T/stranger.gguf" 0 --check
shouts organ-merge --method linear "$T/verse.gguf" "$T/stranger.gguf" --check
shouts organ-transplant "$T/verse.gguf" "$T/stranger.gguf" --type ffn --check

# ---- changes in place ----------------------------------------------------------------------------------
M=$T/k/m.gguf
fresh() {
    rm -rf "$T/k" && mkdir "$T/k" && cp "$before" "$M"
    [ -z "$undo" ] || cp "$undo" "$T/k/undo"
}
# in_place RECOVER COMMAND...: killed before each of its changes, and then RECOVER
in_place() {
    recover=$1
    shift
    fresh
    LD_PRELOAD=$SO FAULT_OP=kill FAULT_NTH=0 FAULT_COUNT=$T/n "$@" -j 1 > "$T/out" 2> "$T/err" ||
        bad "$*: $(cat "$T/err")"
    cp "$M" "$T/new.gguf"
    calls=$(cat "$T/n") i=0 torn=0
    rm "$T/n"
    while [ $i -lt "$calls" ]; do
        i=$((i + 1))
        fresh
        { (LD_PRELOAD=$SO FAULT_OP=kill FAULT_NTH=$i "$@" -j 1 > "$T/out" 2> "$T/err"); } 2> "$T/shell"
        if ! cmp -s "$M" "$before" && ! cmp -s "$M" "$T/new.gguf"; then torn=1; fi
        # What the message or the manual says; without an undo file, or a journal, nothing was changed.
        if [ -e "$T/k/undo" ] || [ "$undo$recover" = "organ-keys $M --recover" ]; then
            $recover > "$T/out" 2> "$T/err" || bad "$*: killed at $i of $calls: $(head -n 1 "$T/err")"
        fi
        if { cmp -s "$M" "$before" || cmp -s "$M" "$T/new.gguf" || cmp -s "$M" "$T/old.gguf"; } &&
            organ-info -q "$M" > "$T/out" 2> "$T/err"; then ok
        else bad "$*: killed at $i of $calls: neither the old nor the new model: $(head -n 1 "$T/err")"
        fi
    done
}
before=$T/old.gguf undo=
in_place "organ-keys $M --recover" organ-keys -q "$M" --set general.name=str:behind --in-place
in_place "organ-transplant -q $M $T/k/undo --in-place" organ-transplant -q "$M" "$T/m2.gguf" --type ffn --match exact \
    --in-place --undo "$T/k/undo"
check_text $torn 1 "a transplant can be torn, and its undo file helps"
fresh
organ-transplant -q "$M" "$T/m2.gguf" --type ffn --match exact --in-place --undo "$T/undo"
cp "$M" "$T/grafted.gguf"
before=$T/grafted.gguf undo=$T/undo
in_place "organ-transplant -q $M $T/k/undo --in-place" organ-transplant -q "$M" "$T/k/undo" --in-place
check_text $torn 1 "an undo can be torn, and works when it is repeated"
before=$T/old.gguf undo=

# ---- several outputs that replace others --------------------------------------------------------------
# Each output is the old or the new one. While one is the old one, those that were replaced have
# temporary names, as the manual says; and if a name cannot be given, all are the old ones. So too where
# names cannot be exchanged, or files have one name only; then a name may have no file for a moment.
O=$T/w
outputs='m.gguf card.md x.svg'
has_old() { # FILE: under a temporary name
    for w in "$O/.$1".*.tmp; do [ "$(cat "$w" 2> /dev/null)" != "the old $1" ] || return 0; done
    return 1
}
replace() { # OP NTH [VARIABLE]
    rm -rf "$O" "$T/n" && mkdir "$O"
    for f in $outputs; do echo "the old $f" > "$O/$f"; done
    { (env LD_PRELOAD=$SO FAULT_PLAIN=$plain FAULT_OP=$1 FAULT_NTH=$2 FAULT_COUNT=$T/n ${3:-X=} organ-merge \
        -q -j 1 --no-hash \
        "$T/m1.gguf" "$T/m2.gguf" --method linear -o "$O/m.gguf" --card "$O/card.md" --svg "$O/x.svg" --force \
        > "$T/out" 2> "$T/err"); } 2> "$T/shell"
    got=$? new='' old=''
    [ "$1" != none ] || return
    for f in $outputs; do
        if cmp -s "$O/$f" "$T/first/$f"; then new="$new $f"
        elif [ "$(cat "$O/$f" 2> /dev/null)" = "the old $f" ]; then old="$old $f"
        elif [ "$1 $plain" = "kill 2" ] && [ ! -e "$O/$f" ] && has_old "$f"; then old="$old $f"
        elif [ -n "${3:-}" ] && [ ! -e "$O/$f" ]; then continue
        else bad "several outputs, $1 $2, system $plain: $f is neither the old nor the new one"
        fi
    done
}
rm -rf "$T/first"
plain=0
replace none 0
mv "$O" "$T/first"
systems='0 2'
if exhaustive; then systems='0 1 2'; fi
for plain in $systems; do
    replace kill 0
    calls=$(cat "$T/n") i=0 mixed=0
    while [ $i -lt "$calls" ]; do
        i=$((i + 1))
        replace kill $i
        [ -z "$old" ] || [ -z "$new" ] || mixed=1
        for f in $new; do
            [ -z "$old" ] && continue
            has_old "$f" && ok || bad "several outputs, killed at $i of $calls, system $plain: the old $f is lost"
        done
    done
    check_text $mixed 1 "a kill can come between two names"
    replace rename 0
    calls=$(cat "$T/n") i=0
    while [ $i -lt "$calls" ]; do
        i=$((i + 1))
        replace rename $i
        case $got:$old:$new in
        0::*) ok ;; # another way to give the name worked
        4:*:) check_text "$(find "$O" -name '.*' -type f | wc -l | tr -d ' ')" 0 \
            "several outputs, rename $i: temporary files" ;;
        *) bad "several outputs, rename $i of $calls, system $plain: exit $got, old:$old, new:$new" ;;
        esac
    done
    # Nothing can be renamed back: the error tells where each old file is.
    i=0 told=0
    while [ $i -lt "$calls" ]; do
        i=$((i + 1))
        replace rename $i FAULT_STAY=1
        [ $got != 0 ] || continue
        for f in $outputs; do
            [ "$(cat "$O/$f" 2> /dev/null)" != "the old $f" ] || continue
            at=$(grep -o "rename back what was replaced: .*" "$T/err" | grep -o "$O/\.$f\.[0-9]*-[0-9]*\.tmp")
            told=$((told + 1))
            [ "$(cat "$at" 2> /dev/null)" = "the old $f" ] && ok ||
                bad "several outputs, renames fail from $i of $calls, system $plain: the old $f is lost: $(cat \
                "$T/err")"
        done
    done
    [ $told -gt 0 ] && ok || bad "no old file was left under a temporary name, system $plain"
    # Only its test of hard links may fail, where there are none.
    LD_PRELOAD=$SO FAULT_PLAIN=$plain "$B/test/t_output" > "$T/out" 2>&1
    check_text "$(grep -v 'names in a folder are safe' "$T/out" | grep '^FAIL'; tail -n 1 "$T/out" |
        cut -d ' ' -f 1)" "t_output:" \
        "outputs on system $plain"
done

# ---- scripts: all processes of a run are killed when a program starts, and the run is repeated -----------
# resumes WHAT RESULT COMMAND...: RESULT prints what must be equal in the end
resumes() {
    what=$1 result=$2
    shift 2
    rm -rf "$T/w" "$T/steps" && mkdir "$T/w"
    (setsid env LD_PRELOAD=$SO FAULT_OP=step FAULT_NTH=0 FAULT_STEPS=$T/steps "$@" > "$T/out" 2> "$T/err" < /dev/null)
    $result > "$T/whole"
    [ -s "$T/whole" ] && ok || bad "$what: $(head -n 3 "$T/err")"
    steps=$(($(wc -c < "$T/steps"))) most=${KILLS_MOST:-1} i=1 step=1
    [ "$most" = 0 ] || step=$((steps / most + 1)) i=$((step / 2 + 1))
    while [ $i -le "$steps" ]; do
        rm -rf "$T/w" "$T/steps" && mkdir "$T/w"
        { (setsid env LD_PRELOAD=$SO FAULT_OP=step FAULT_NTH=$i FAULT_STEPS=$T/steps "$@" > "$T/out" 2> "$T/err" \
            < /dev/null); } 2> "$T/shell"
        "$@" > "$T/out" 2> "$T/err" < /dev/null
        $result > "$T/again"
        cmp -s "$T/again" "$T/whole" && ok ||
            bad "$what: killed at step $i of $steps, the next run gives something else: $(head -n 2 "$T/err")"
        i=$((i + step))
    done
}
S=$PWD/scripts
mkdir "$T/models" "$T/www"
cp "$T/m1.gguf" "$T/m2.gguf" "$T/models"
organ-assemble -q "$T/m1.gguf" --shards 3 -o "$T/www/m.gguf"
fleet_result() {
    find "$T/w/f" -name '*.tmp*'
    cat "$T"/w/f/models/*/measures.tsv
    without edge,type "$T/w/f/ranking.tsv"
}
resumes "organ-fleet" fleet_result "$S/organ-fleet" measure -q -j 2 --output "$T/w/f" "$T/models"
stream_result() { find "$T/w/s" -name '*.tmp*'; cat "$T/w/s/measures.tsv"
    grep -c '"complete": true' "$T/w/s/z_report_m.json"; }
resumes "organ-stream" stream_result "$S/organ-stream" -q --output "$T/w/s" "$T/www/m-00001-of-00003.gguf"
echo 1 > "$T/one.txt"
cat > "$T/engine" << 'END'
#!/bin/sh
organ-compare -q "$HERE/m1.gguf" "$1" | awk -F '\t' '
    NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i }
    $c["status"] == "differs" { sum += $c["rel_l2"] } END { printf "%.9g\n", 2 + sum }'
END
cat > "$T/numbers" << 'END'
#!/bin/sh
awk '{ printf "%.9f\n", 3 + ($1 - 0.3) ^ 2 + ($2 - 2) ^ 2 / 4 }' "$1"
END
chmod +x "$T/engine" "$T/numbers"
HERE=$T
export HERE
table_result() { cut -f 1-5 "$T/w/t.tsv"; }
resumes "organ-sensitivity" table_result sh "$S/organ-sensitivity" "$T/m1.gguf" \
    --text "$T/one.txt" --output "$T/w/t.tsv" \
    --engine "$T/engine" --types q8_0,q4_0 --tensors '*attn_q*' -q
cat > "$T/recipe.mk" << 'END'
# knob a: 0..1
a := 0.5
# knob b: -1..4
b := 1
OUTPUT ?= out
$(OUTPUT):
	@echo $(a) $(b) > $@
END
search_result() { cut -f 2-6 "$T/w/best.tsv"; cat "$T/w/best.mk"; }
unset MAKEFLAGS MFLAGS MAKELEVEL
if ${MAKE:-make} --version 2> /dev/null | grep -q GNU; then
    resumes "organ-search" search_result sh "$S/organ-search" "$T/recipe.mk" --text "$T/one.txt" \
        --engine "$T/numbers" \
        --budget 6 --output "$T/w/best.mk" -q
fi
finish
