#!/bin/sh
# run.sh - make faults: the commands of tests/cli/promises.rows, and more below, are run again and again, and in
# each run another call fails: an allocation, read, write, sync, rename, open, close, a question about a file, or a
# signal arrives (inject.c). Commands that write are also killed. The first commands of each tool are run with every
# kind of source, too. Afterwards the result must be that of an undisturbed run, or there must be status 4, one line
# that names the cause, and no trace of the output: never another output, and never another status.
#
#   FAULTS_ONLY=REGEX     only the commands that match, such as '^[0-9] organ-merge' or 'forms/tokenizer'
#   FAULTS_OPS='OP...'    only these kinds of failure, such as alloc
#   FAULTS_MOST=N         at most N failures per command and kind, evenly spread (0: all; 25)
#   FAULTS_KILLS=N        at most N kills per command (0: all; 10)
#   FAULTS_TSV=FILE       write the number of failures of each command to it
# shellcheck disable=SC1091,SC2016,SC2034,SC2086,SC2154,SC3045
. "$(dirname "$0")/../cli/lib.sh"
. tests/rows.sh
SO=${INJECT:-$B/faults/inject.so}
case $SO in /*) ;; *) SO=$PWD/$SO ;; esac # organ-api goes to its folder
R=$T/ref         # what an undisturbed run leaves in $O
BEFORE=$T/start  # the contents of $O before a run

# ---- the commands -------------------------------------------------------------------------------------------
verse=$I/verse.gguf code=$I/code.gguf # two blocks of the bundled models
organ-stack -q "$LAB/lab-verse-q4_k_m.gguf" 0-1 -o "$I/verse.gguf" &&
    organ-stack -q "$LAB/lab-code-q4_k_m.gguf" 0-1 -o "$I/code.gguf" &&
    organ-assemble -q "$I/verse.gguf" --dtype '*attn_v*=q4_k' -o "$I/q.gguf" &&
    mkmodel "$I/samples" blk.0.attn_k.weight.sample:F16:256x8 blk.1.attn_k.weight.sample:F16:256x8 &&
    make_forms > "$T/out" 2>&1 || { echo "faults: the inputs: $(tail -n 3 "$T/out")"; exit 1; }
cat > "$I/slerp.json" << END
{"merge_method": "slerp", "base_model": "$a", "models": [{"model": "$b"}], "parameters": {"t": [0, 1]}}
END
find "$I" -type f -exec cksum {} + | sort > "$T/before"
# Commands besides the rows. $u.undone is a model that was changed in place, with its undo file.
cat >> "$T/rows" << 'END'
0 organ-extract $b -o $u.d --force
0 organ-assemble $b -o $u --force
0 organ-transplant $u.undone $u.undo --in-place
0 organ-transplant --align --base $verse --donor $code --type organ -o $o.gguf
0 organ-merge --method linear --align --model $verse --model $code -o $o.gguf
0 organ-merge --method ties,density=0.5 --base $a --model $b -o $o.gguf
0 organ-merge --config $I/slerp.json --shards 2 --card $o.md -o $o.gguf
0 organ-merge --method regmean --model $verse,activations=$I/samples --model $code,activations=$I/samples -o $o.gguf
0 organ-merge --method model_stock --base $a --model $b --model $e --dtype *attn_q*=q8_0 -o $o.gguf
0 organ-purify $d -o $o --method haar --strength 0.1
0 organ-stack $I/q.gguf --fuse qkv -o $o.gguf
0 organ-stack $a --drop 1 -o $o.gguf
0 organ-keys $a --set a=u32[]:1,2 --rename general.name=b --delete llama.block_count --set-file c=$I/rules -o $o.gguf
0 organ-lora --base $d --tuned $b --energy 0.5 -o $o.gguf
END
# The first command of each tool that reads a model, and the first that writes one, with each kind of source.
awk '$2 !~ /^organ-(api|probe)$/ && (/ (--model |--dir |--base |--source )?\$[axi]( |$)/ || /\$I\/v\.gguf/) &&
    !first[$2, / -o /]++ { print "?" substr($0, 2) }' "$T/rows" > "$T/first"
for form in $FORMS; do
    case $form in
    -) grep ' $a' "$T/first" | formed - ;;
    *) formed "\$I/forms/$form" < "$T/first" ;;
    esac
done > "$T/more"
cat "$T/more" >> "$T/rows"
if [ -n "${FAULTS_ONLY:-}" ]; then
    grep -E -e "$FAULTS_ONLY" "$T/rows" > "$T/more"
    mv "$T/more" "$T/rows"
fi

# ---- one run ------------------------------------------------------------------------------------------------
undone=
changed_before() { # makes the model of $u.undone and its undo file once
    undone=$T/undone
    mkdir "$undone" && cp "$a" "$undone/base" &&
        organ-transplant -q "$undone/base" "$b" --type ffn --match exact --in-place --undo "$undone/undo"
}
before() { # fills $O for the run
    reset
    case $row in *'$u.undone'*)
        [ -n "$undone" ] || changed_before
        cp "$undone/base" "$u.undone" && cp "$undone/undo" "$u.undo"
        rm -f "$u" ;;
    *'-o $u --force') chmod 640 "$u" ;; esac
}
go() { # OP NTH: the command with this failure; $got, $T/out, $T/err
    before
    ours=
    [ "$tool" != organ-probe ] || ours=FAULT_OURS=1 # what an engine allocates is its own matter
    pre="$ours LD_PRELOAD=$SO FAULT_OP=$1 FAULT_NTH=$2 $count"
    deadly=
    [ $1 != kill ] || deadly=137
    run -j 1
    pre=
}
count=

# same_state FOLDER FOLDER: the same names, bytes and modes.
same_state() {
    diff -r "$1" "$2" > /dev/null 2>&1 && [ "$(modes "$1")" = "$(modes "$2")" ]
}
modes() { (cd "$1" && ls -lnA) | awk 'NR > 1 { print $1, $3, $4, $NF }'; }

# Whether each name in $O is what it was before, or what it becomes. Of an adapter of PEFT, each of the two files is.
each_whole() {
    find "$O" -name '.*.tmp' -prune -exec rm -rf {} +
    set -- "$O"/*
    case $row in *' --to-peft '*) set -- "$o"/* ;; esac
    for f; do
        case $row in *' --to-peft '*) [ ! -e "$f" ] || cmp -s "$f" "$R/${f#"$O"/}" || return 1; continue ;; esac
        [ ! -e "$f" ] || diff -r "$f" "$R/${f##*/}" > /dev/null 2>&1 ||
            diff -r "$f" "$BEFORE/${f##*/}" > /dev/null 2>&1 || return 1
    done
}
# A change in place that failed: the model is the old or the new one, or it can be restored.
restorable() {
    model=$u undo=$o.undo
    case $row in *'$u.undone'*) model=$u.undone undo=$u.undo ;; esac
    whole=$R/${model##*/} old=$BEFORE/${model##*/}
    cmp -s "$model" "$old" || cmp -s "$model" "$whole" && return
    case $tool in
    organ-keys) organ-keys "$model" --recover > /dev/null 2> "$T/err2" || return 1 ;;
    *) organ-transplant -q "$model" "$undo" --in-place > /dev/null 2> "$T/err2" || return 1 ;;
    esac
    cmp -s "$model" "$old" || cmp -s "$model" "$whole" || cmp -s "$model" "$a"
}

cause() { # OP: what a message about it contains
    case $1 in
    alloc) echo memory ;;
    write | make) echo 'No space left' ;;
    open) echo 'Too many open files' ;;
    *) echo 'Input/output error' ;;
    esac
}
judge() { # OP NTH
    what="$line: $1 $2"
    case $1:$got in
    kill:137 | signal:143 | *:"$want") ;;
    kill:* | signal:4) ;;
    *:4) one_line "$T/err" && grep -qF "$(cause "$1")" "$T/err" ||
        bad "$what: exit 4: $(head -n 3 "$T/err")" ;;
    *) bad "$what: exit $got: $(head -n 1 "$T/err")" ;;
    esac
    # A request of a batch that fails is answered with an error, and the others go on.
    case $got in "$want") cmp -s "$T/out" "$T/table" ||
        case $row in *--batch*) grep -q "error.*$(cause "$1")" "$T/out" ;; *) false ;; esac ||
        bad "$what: exit $got and another text" ;;
    esac
    if [ "$got" = "$want" ]; then same_state "$O" "$R" ||
        bad "$what: exit $got and another output: $(ls -A "$O" | tr '\n' ' ')"
    elif case $row in *--in-place*) true ;; *) false ;; esac; then
        restorable || bad "$what: the model cannot be restored: $(head -n 1 "$T/err2")"
    # A request has changed the model before its answer is written, and a folder that cannot be synced has its name.
    elif case $tool.$1 in organ-api.* | *.sync) same_state "$O" "$R" ;; *) false ;; esac; then :
    elif [ "$1" = kill ]; then each_whole || bad "$what: half an output"
    else same_state "$O" "$BEFORE" || bad "$what: exit $got leaves $(ls -A "$O" | tr '\n' ' ')"
    fi
}

# ---- run ------------------------------------------------------------------------------------------
[ "$(LD_PRELOAD=$SO FAULT_OP=open FAULT_NTH=0 FAULT_COUNT=$T/n organ-extract \
    "$a" --list > "$T/out" 2> "$T/err"; head -n 1 "$T/n")" -gt 0 ] ||
    { echo "faults: $SO cannot be preloaded here"; exit 1; }
total=0 kills=0
ops=${FAULTS_OPS:-alloc read write sync rename make open look close signal kill}
for op in $ops; do printf '%7s' $op; done
echo "  findings  command"
while IFS= read -r row <&3; do
    found=$failed
    parse "$row"
    count=
    before
    rm -rf "$BEFORE" && cp -rp "$O" "$BEFORE"
    go none 0
    case $want in
    "$got") ;;
    '?') want=$got; line="$line ($got)" ;;
    *) bad "$line: exit $got: $(head -n 1 "$T/err")"; continue ;;
    esac
    line=${line% (*)}
    rm -rf "$R" && cp -rp "$O" "$R" && cp "$T/out" "$T/table"
    for op in $ops; do
        [ $op != kill ] || ! same_state "$R" "$BEFORE" || { printf '%7s' -; continue; }
        rm -f "$T/n"
        count=FAULT_COUNT=$T/n
        go $op 0
        count=
        n=$(head -n 1 "$T/n") most=${FAULTS_MOST:-25} done=0 nth=1
        [ $op != kill ] || most=${FAULTS_KILLS:-10}
        step=1
        [ "$most" = 0 ] || [ "$n" -le "$most" ] || step=$(((n + most - 1) / most))
        while [ $nth -le "$n" ]; do
            go $op $nth
            judge $op $nth >> "$T/all" 2>&1
            [ $op != kill ] || kills=$((kills + 1))
            done=$((done + 1)) nth=$((nth + step))
        done
        total=$((total + done))
        printf '%7s' $done
    done
    printf '%10s  %s\n' $((failed - found)) "$(printf '%s' "$line" | cut -c 1-100)"
done 3< "$T/rows" 2> "$T/shell"
grep -v -e Terminated -e Killed "$T/shell" # what the shell says of signals
inputs_kept "all commands" >> "$T/all"
echo "faults: $total failures injected, $kills of them kills, in $(wc -l < "$T/rows") commands; $failed findings"
[ ! -s "$T/all" ] || head -n "${FAULTS_SHOW:-60}" "$T/all"
[ $failed -eq 0 ]
