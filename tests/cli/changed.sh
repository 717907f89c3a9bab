#!/bin/sh
# changed.sh - a source that another program changes while it is read: exit 4, the file is named,
# and nothing is left. The tools are held in the middle of their work by a full pipe; promises.sh
# tests all tools in another way. And: files with several names.
. "$(dirname "$0")/lib.sh"

VERSE=$LAB/lab-verse-q4_k_m.gguf
mkfifo "$T/pipe" || { echo "changed.sh: no FIFOs here"; finish; exit; }

# held WHAT NAMED CHANGE COMMAND...: run COMMAND with stdout in a pipe that is not emptied until
# CHANGE is done. NAMED has to be in the error.
held() {
    item=$1 named=$2 change=$3
    shift 3
    "$@" > "$T/pipe" 2> "$T/err" < "${stdin:-/dev/null}" &
    pid=$!
    exec 3< "$T/pipe"
    head -c 1000 <&3 > /dev/null # it writes now, and waits once the pipe is full
    eval "$change"
    cat <&3 > /dev/null
    exec 3<&-
    wait $pid
    got=$?
    check_text "$got $(grep -cF -e "$named: was changed by another program" "$T/err")" "4 1" "$item: $(head -n 1 \
        "$T/err")"
}
fresh() {
    cp "$VERSE" "$T/m.gguf"
}

fresh
stdin=$T/m.gguf
held "a file as stdin, written to" "<stdin>" 'printf x >> "$T/m.gguf"' organ-extract -q - --output -
stdin=
fresh
held "another file under the name of a record" "$T/d/embed/output.bin" \
    'mv "$T/d/embed/output.bin" "$T/o"; cp "$T/o" "$T/d/embed/output.bin"' sh \
    -c "organ-extract -q '$T/m.gguf' --output '$T/d' && organ-assemble -q '$T/d' -o -"

# An organ directory with bytes after the tensors, in a file of their own.
fresh
head -c 5000 "$LAB/text-verse.txt" >> "$T/m.gguf"
organ-extract -q "$T/m.gguf" --output "$T/e"
raw=$(cd "$T/e" && ls trailing-* 2> /dev/null)
if [ -n "$raw" ]; then
    check "the file of trailing bytes" organ-assemble -q "$T/e" --output "$T/again.gguf"
    check_same "$T/again.gguf" "$T/m.gguf" "trailing bytes"
    held "trailing bytes" "$T/e/$raw" "cp '$T/e/$raw' '$T/copy'; rm '$T/e/$raw'; cp '$T/copy' '$T/e/$raw'" \
        organ-assemble -q "$T/e" -o - --no-verify
else
    bad "no file of trailing bytes"
fi
fresh
head -c 5000 "$LAB/text-verse.txt" >> "$T/m.gguf"
cp "$T/m.gguf" "$T/other.gguf"
held "another file under the name of a model with trailing bytes" "$T/m.gguf" 'mv "$T/other.gguf" "$T/m.gguf"' \
    organ-assemble -q "$T/m.gguf" -o -

# Measures are not stored in a manifest that someone else changed meanwhile.
if have mkmodel; then
    mkmodel "$T/many.gguf" -n 330 "blk.0.a-name-that-makes-rows-longer-than-usual-of-tensor.%:F32:4" > /dev/null
    organ-extract -q "$T/many.gguf" --output "$T/many"
    cp "$T/many/manifest.json" "$T/manifest"
    held "organ-measure --update" "$T/many/manifest.json" 'printf "\n" >> "$T/many/manifest.json"' organ-measure \
        -q "$T/many" --update
    printf '\n' >> "$T/manifest"
    check_same "$T/many/manifest.json" "$T/manifest" "the manifest keeps the other program's change"
fi

# ---- in place: a file with several names ----
fresh
ln "$T/m.gguf" "$T/second.gguf"
check_error 2 "the file has 2 names (hard links)" "keys of a file with two names" organ-keys "$T/m.gguf" \
    --set general.name=str:lab-worse --in-place
check_same "$T/second.gguf" "$VERSE" "nothing is changed"
check "--force" organ-keys "$T/m.gguf" --set general.name=str:lab-worse --in-place --force
check_same "$T/second.gguf" "$T/m.gguf" "both names have the change"
check_text "$(organ-keys "$T/second.gguf" --get general.name)" lab-worse "which is that of the key"
rm "$T/second.gguf"
check "one name" organ-keys "$T/m.gguf" --set general.name=str:lab-verse --in-place
check_same "$T/m.gguf" "$VERSE" "and back"

# ---- in place: the rules of organ-check ----
check "a change that an engine refuses" organ-keys "$T/m.gguf" --set llama.block_count=u32:5 --in-place
check_text "$(grep -c '^organ-keys: check: .*block_count' "$T/err")" 1 "is noted"
cp "$T/m.gguf" "$T/before"
check_error 1 "an engine would refuse" "--strict" organ-keys "$T/m.gguf" --set llama.block_count=u32:6 \
    --in-place --strict
check_same "$T/m.gguf" "$T/before" "--strict changes nothing"
check "what was wrong before is not noted again" organ-keys "$T/m.gguf" --set general.name=str:lab-worse --in-place
check_text "$(grep -c 'check:' "$T/err")" 0 "no note"
cp "$T/m.gguf" "$T/before"
check_error 1 "an engine would refuse" "a transplant in place, --strict" \
    organ-transplant --base "$T/m.gguf" --donor "$LAB/lab-code-q4_k_m.gguf" --type norm --in-place --undo "$T/undo" \
    --strict
check_same "$T/m.gguf" "$T/before" "nothing is changed"
check_absent "$T/undo" "no undo file"
fresh
check "strangers" organ-transplant --base "$T/m.gguf" --donor "$LAB/lab-stranger-q4_k_m.gguf" --match convert \
    --type organ --in-place --undo "$T/undo"
check_text "$(grep -c 'share no lineage' "$T/err")" 1 "strangers are noted in place too"
check "undo needs no rules" organ-transplant --base "$T/m.gguf" --donor "$T/undo" --in-place --strict
check_same "$T/m.gguf" "$VERSE" "restored"

# ---- the history of a graft names the donor's experts ----
if have mkmodel; then
    mkmodel "$T/moe.gguf" blk.0.ffn_up_exps.weight:F32:8x4x6 > /dev/null
    mkmodel "$T/moe2.gguf" -s 5 blk.0.ffn_up_exps.weight:F32:8x4x6 > /dev/null
    check "experts by a map" organ-graft -q --source "$T/moe2.gguf" --target "$T/moe.gguf" --experts 0,2=5,3=1 \
        --output "$T/g"
    check_text "$(grep -c '"experts": \[0, 2, 3\], "donor_experts": \[0, 5, 1\]' "$T/g/manifest.json")" 1 \
        "both are listed"
    check "experts by number" organ-graft -q --source "$T/moe2.gguf" --target "$T/moe.gguf" --experts 0,2 \
        --output "$T/g2"
    check_text "$(grep -c 'donor_experts' "$T/g2/manifest.json")" 0 "equal numbers are listed once"
fi
finish
