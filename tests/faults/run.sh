#!/bin/sh
# run.sh - make faults: each allocation, read, write, sync, rename, folder, open, close and signal
# of each main command fails once, one after another (inject.c), and commands are killed before each
# write, sync, rename and removal. Afterwards the result must be complete, or there must be a clean error
# and no trace of the output.
#
#   FAULTS_ONLY=REGEX     only the commands whose names match
#   FAULTS_OPS='OP...'    only these kinds of failure, such as alloc
#   FAULTS_MOST=N         at most N failures per command and kind, evenly spread (0: all)
#   FAULTS_KILLS=N        at most about N kills in total (0: all)
# shellcheck disable=SC1091,SC2086,SC2317
. "$(dirname "$0")/../cli/lib.sh"
SO=${INJECT:-$B/faults/inject.so}
O=$T/o     # outputs, empty before each run
I=$T/in    # inputs
R=$T/ref   # what an undisturbed run leaves in $O
mkdir "$I"

# ---- inputs: two blocks of the bundled models ------------------------------------------------
organ-stack -q "$LAB/lab-verse-q4_k_m.gguf" 0-1 --output "$I/v.gguf" || exit 1
organ-stack -q "$LAB/lab-code-q4_k_m.gguf" 0-1 --output "$I/c.gguf" || exit 1
organ-extract -q "$I/v.gguf" --output "$I/v" && organ-extract -q "$I/c.gguf" --output "$I/c" || exit 1
organ-compare -q "$I/v.gguf" "$I/c.gguf" --patch "$I/patch" > /dev/null
[ -s "$I/patch" ] || exit 1
printf 'blk.0.attn_q.weight\nblk.1.attn_q.weight\n' > "$I/names"
printf 'tensor\ttype\tloss\nblk.0.attn_q.weight\tq3_k\t0.02\nblk.0.attn_q.weight\tq4_0\t0.01\n' > "$I/losses"
printf '# keys\n*.attn_k.*=q8_0\n' > "$I/rules"
organ-assemble -q "$I/v.gguf" --dtype '*attn_v*=q4_k' --output "$I/q.gguf" || exit 1
mkmodel "$I/samples" blk.0.attn_k.weight.sample:F16:256x8 blk.1.attn_k.weight.sample:F16:256x8 || exit 1
cat > "$I/merge.json" << END
{"merge_method": "slerp", "base_model": "$I/v.gguf", "models": [{"model": "$I/c.gguf"}],
 "parameters": {"t": [0, 1]}}
END

# ---- the commands: name, kind, exit status, command line ---------------------------------------
# Kinds: table (stdout), output (files in $O), place (a change of $O/base.gguf), keys (the same, in
# the header).
commands() {
    cat << END
list table 0 organ-extract $I/v.gguf --list
list-names table 0 organ-extract $I/v.gguf --list --names-from $I/names
extract output 0 organ-extract $I/v.gguf --output $O/d
extract-replace output 0 organ-extract $I/v.gguf --output $O/d --force
measure table 0 organ-measure $I/v.gguf --tensors *.attn_k.* --sample 100
measure-svg output 0 organ-measure $I/v.gguf --tensors *.attn_k.* --sample 100 --svg $O/x.svg
compare table 1 organ-compare $I/v.gguf $I/c.gguf --tensors *.attn_k.* --sample 100
compare-svg output 1 organ-compare $I/v.gguf $I/c.gguf --tensors *.attn_k.* --sample 100 --svg $O/x.svg
compare-align table 0 organ-compare $I/v.gguf $I/c.gguf --align --tensors *.attn_k.*
compare-patch output 0 organ-compare $I/v.gguf $I/c.gguf --patch $O/p
purify output 0 organ-purify $I/v --output $O/d --method haar --strength 0.1
graft output 0 organ-graft --source $I/c --target $I/v --type organ --output $O/d
graft-svg output 0 organ-graft -q --source $I/c --target $I/v --type organ --layers 1 --output $O/d --svg $O/x.svg
assemble output 0 organ-assemble $I/v --output $O/m.gguf
assemble-dtype output 0 organ-assemble -q $I/v.gguf --dtype *=q8_0 --output $O/m.gguf
assemble-rules output 0 organ-assemble -q $I/v.gguf --dtype @$I/rules --output $O/m.gguf
assemble-size output 0 organ-assemble -q $I/v.gguf --bpw 4 --types q3_k,q4_0,keep --sensitivity $I/losses \
    --output $O/m.gguf
assemble-imatrix output 0 organ-assemble -q $I/v.gguf --imatrix $LAB/lab-verse.imatrix.gguf --dtype *attn_k*=q4_0 \
    --output $O/m.gguf
assemble-shards output 0 organ-assemble $I/v.gguf --shards 2 --output $O/m.gguf
transplant output 0 organ-transplant --base $I/v.gguf --donor $I/c.gguf --type organ --output $O/m.gguf
transplant-align output 0 organ-transplant -q --align --base $I/v.gguf --donor $I/c.gguf --type organ \
    --output $O/m.gguf
apply-patch output 0 organ-transplant --base $I/v.gguf --donor $I/patch --output $O/m.gguf
in-place place 0 organ-transplant --base $O/base.gguf --donor $I/c.gguf --type organ --in-place --undo $O/undo
undo undo 0 organ-transplant --base $O/base.gguf --donor $O/undo --in-place
keys output 0 organ-keys $I/v.gguf --set general.name=str:Other --output $O/m.gguf
keys-in-place keys 0 organ-keys $O/base.gguf --set general.name=str:lab-versa --in-place
stack output 0 organ-stack $I/v.gguf 0,1,0 --output $O/m.gguf
keys-table table 0 organ-keys $I/v.gguf --json
keys-many output 0 organ-keys $I/v.gguf --set a=u32[]:1,2 --rename general.name=b --delete general.file_type \
    --set-file c=$I/rules --output $O/m.gguf
stack-fuse output 0 organ-stack -q $I/q.gguf --fuse qkv --output $O/m.gguf
stack-drop output 0 organ-stack -q $I/v.gguf --drop 1 --output $O/m.gguf
stack-svg output 0 organ-stack -q $I/v.gguf 0,1,0 --output $O/m.gguf --svg $O/x.svg
merge output 0 organ-merge --method ties,density=0.5 --base $I/v.gguf --model $I/c.gguf --output $O/m.gguf
merge-align output 0 organ-merge -q --method linear --align --model $I/v.gguf --model $I/c.gguf --output $O/m.gguf
merge-config output 0 organ-merge --config $I/merge.json --shards 2 --card $O/card.md --output $O/m.gguf
merge-regmean output 0 organ-merge -q --method regmean --model $I/v.gguf,activations=$I/samples \
    --model $I/c.gguf,activations=$I/samples --output $O/m.gguf
merge-stock output 0 organ-merge -q --method model_stock --base $I/v.gguf --model $I/c.gguf --model $I/c \
    --dtype *attn_k*=q8_0 --output $O/m.gguf
lora-energy output 0 organ-lora -q --base $I/v --tuned $I/c.gguf --tensors *.attn_k.* --energy 0.5 --output $O/a.gguf
lora output 0 organ-lora --base $I/v.gguf --tuned $I/c.gguf --tensors *.attn_k.* --output $O/a.gguf
check table 0 organ-check $I/v.gguf --data
END
    [ ! -x "$BIN/organ-probe" ] || cat << END
probe output 0 organ-probe -q $I/v.gguf --text $LAB/text-verse.txt --tokens 12 --activations $O/act --save-base $O/base
probe-trace table 0 organ-probe -q $I/v.gguf --random 12 --trace
probe-against table 0 organ-probe -q $I/v.gguf --text $LAB/text-verse.txt --tokens 12 --against $I/c.gguf
END
}

prepare() { # what lies in $O before a run
    rm -rf "$O"
    mkdir "$O"
    case $name in extract-replace) cp -r "$I/c" "$O/d" ;; esac
    case $kind in place | keys) cp "$I/v.gguf" "$O/base.gguf" ;; undo) cp "$T/changed/"* "$O" ;; esac
}

# run OP NTH: the command with this failure; $got, $T/out, $T/err
run() {
    prepare
    set -f
    case $name in probe*) ours=FAULT_OURS=1 ;; *) ours=FAULT_OP= ;; esac # what an engine allocates is its own matter
    env $ours FAULT_OP="$1" FAULT_NTH="$2" LD_PRELOAD="$SO" $line -j 1 > "$T/out" 2> "$T/err" < /dev/null
    got=$?
    set +f
}

same_dir() {
    diff -r "$1" "$2" > /dev/null 2>&1
}

# What may be in $O after a failure: what was there before, or the complete output.
untouched() {
    case $name in
    extract-replace) [ "$(ls -A "$O")" = d ] && same_dir "$O/d" "$I/c" ;;
    *) [ -z "$(ls -A "$O")" ] ;;
    esac
}

# A change in place that failed: the model is the old or the new one, or the undo file restores it.
restorable() {
    cmp -s "$O/base.gguf" "$old" && return
    cmp -s "$O/base.gguf" "$R/base.gguf" && return
    case $kind in
    keys) organ-keys "$O/base.gguf" --recover > /dev/null 2> "$T/err2" || return 1 ;;
    *) organ-transplant -q --base "$O/base.gguf" --donor "$O/undo" --in-place > /dev/null 2> "$T/err2" || return 1 ;;
    esac
    cmp -s "$O/base.gguf" "$I/v.gguf" || cmp -s "$O/base.gguf" "$R/base.gguf"
}

judge() { # OP NTH
    what="$name: $1 $2"
    case $1 in
    kill) [ $got = 137 ] || [ $got = "$want" ] || bad "$what: exit $got" ;;
    signal) [ $got = 143 ] || [ $got = 4 ] || [ $got = "$want" ] || bad "$what: exit $got: $(head -n 1 "$T/err")" ;;
    *)
        if [ $got = 4 ]; then
            if ! one_line "$T/err"; then bad "$what: not one line: $(head -n 3 "$T/err")"; fi
        elif [ $got != "$want" ]; then bad "$what: exit $got: $(head -n 1 "$T/err")"
        fi ;;
    esac
    old=$I/v.gguf
    [ "$kind" != undo ] || old=$T/changed/base.gguf
    rest=$(find "$O" -mindepth 1 -maxdepth 1 ! -name base.gguf ! -name undo)
    case $kind in
    table) [ $got != "$want" ] || cmp -s "$T/out" "$T/table" || bad "$what: exit $got and another table" ;;
    output)
        if same_dir "$O" "$R"; then [ $got = "$want" ] || :
        elif [ $got = "$want" ]; then bad "$what: exit $got and another output: $(ls -A "$O" | tr '\n' ' ')"
        elif [ "$1" = kill ]; then
            rm -rf "$O"/.??* # only what has the final name counts
            case $name in
            extract-replace) same_dir "$O/d" "$I/c" || same_dir "$O" "$R" || [ -z "$(ls "$O")" ] \
                || bad "$what: half an output" ;;
            assemble-shards | merge-config | *-svg) for f in "$O"/*; do [ ! -e "$f" ] ||
                diff -r "$f" "$R/${f##*/}" > /dev/null \
                || bad "$what: half a shard"; done ;;
            *) untouched || same_dir "$O" "$R" || bad "$what: half an output" ;;
            esac
        else untouched || bad "$what: exit $got leaves $(ls -A "$O" | tr '\n' ' ')"
        fi ;;
    *)
        [ "$1" = kill ] || [ -z "$rest" ] || [ "$kind" = keys ] || bad "$what: exit $got leaves $rest"
        [ $got != "$want" ] || cmp -s "$O/base.gguf" "$R/base.gguf" || bad "$what: exit $got and another model"
        restorable || bad "$what: the model cannot be restored: $(head -n 1 "$T/err2")" ;;
    esac
}

# ---- run ------------------------------------------------------------------------------------------
[ "$(organ-extract --version > "$T/out"; LD_PRELOAD=$SO FAULT_OP=open FAULT_NTH=0 FAULT_COUNT=$T/n organ-extract \
    "$I/v.gguf" --list > "$T/out" 2> "$T/err"; head -n 1 "$T/n")" -gt 0 ] ||
    { echo "faults: $SO cannot be preloaded here"; exit 1; }
prefix() { printf '%-16s' "$1"; }
total=0 kills=0
prefix command
ops=${FAULTS_OPS:-alloc read write sync rename make open close signal kill}
for op in $ops; do printf '%8s' $op; done
echo "  findings"
commands > "$T/commands"
writers=$(grep -cv ' table ' "$T/commands")
each=0
[ "${FAULTS_KILLS:-0}" = 0 ] || each=$((FAULTS_KILLS / writers + 1))
while read -r name kind want line <&3; do
    echo "$name" | grep -Eq "${FAULTS_ONLY:-.}" || continue
    before=${failed:=0}
    if [ "$kind" = undo ]; then # a model that was changed in place, and its undo file
        mkdir -p "$T/changed"
        cp "$I/v.gguf" "$T/changed/base.gguf"
        organ-transplant -q --base "$T/changed/base.gguf" --donor "$I/c.gguf" --type organ \
            --in-place --undo "$T/changed/undo"
    fi
    run none 0
    [ $got = "$want" ] || { bad "$name: exit $got: $(head -n 1 "$T/err")"; continue; }
    rm -rf "$R" && cp -r "$O" "$R" && cp "$T/out" "$T/table"
    prefix "$name"
    for op in $ops; do
        [ $op != kill ] || [ "$kind" != table ] || { printf '%8s' -; continue; }
        rm -f "$T/n"
        FAULT_COUNT=$T/n
        export FAULT_COUNT
        run $op 0
        unset FAULT_COUNT
        n=$(head -n 1 "$T/n") most=${FAULTS_MOST:-0} done=0 i=1
        [ $op != kill ] || most=$each
        step=1
        [ "$most" = 0 ] || [ "$n" -le "$most" ] || step=$(((n + most - 1) / most))
        while [ $i -le "$n" ]; do
            run $op $i
            judge $op $i >> "$T/all" 2>&1
            [ $op != kill ] || kills=$((kills + 1))
            done=$((done + 1)) i=$((i + step))
        done
        total=$((total + done))
        printf '%8s' $done
    done
    echo "  $((failed - before))"
done 3< "$T/commands"
echo "faults: $total failures injected, $kills of them kills; $failed findings"
[ ! -s "$T/all" ] || head -n "${FAULTS_SHOW:-60}" "$T/all"
[ $failed -eq 0 ]
