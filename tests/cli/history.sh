#!/bin/sh
# history.sh - what grafts, adapters, removed experts and units, and new orders of blocks record in the keys of
# the result; what leaves the keys alone; --no-history.
. "$(dirname "$0")/lib.sh"
V=$LAB/lab-verse-q4_k_m.gguf C=$LAB/lab-code-q4_k_m.gguf

# recorded FILE NAME LINE...: its general.name, and organ.history from the first line to the last.
recorded() {
    file=$1
    check_text "$(organ-keys "$file" --get general.name)" "$2" "name of ${file##*/}"
    shift 2
    for line; do echo "$line"; done > "$T/want"
    organ-keys "$file" --get organ.history > "$T/got" 2> "$T/err"
    check_same "$T/want" "$T/got" "steps of ${file##*/}"
}
# nothing FILE: neither.
nothing() {
    check_text "$(organ-keys "$1" --get general.name)" lab-verse "name of ${1##*/}"
    check_exit 1 "no steps of ${1##*/}" organ-keys "$1" --get organ.history
}

check "a graft" organ-transplant -q $V $C --type ffn -o "$T/graft.gguf"
recorded "$T/graft.gguf" "lab-verse + lab-code (graft)" "graft: 12 of 39 tensors from lab-code"
check "a blend" organ-transplant -q $V $C --layers 1 --blend linear:0.5 -o "$T/blend.gguf"
recorded "$T/blend.gguf" "lab-verse + lab-code (graft)" "graft: 9 of 39 tensors, blend linear:0.5, from lab-code"
check "a graft into a directory" organ-graft -q $V $C --type ffn -o "$T/graft"
check "assembled" organ-assemble -q "$T/graft" -o "$T/graft2.gguf"
check_same "$T/graft.gguf" "$T/graft2.gguf" "by a directory"
check "an adapter" organ-transplant -q "$T/graft.gguf" --adapter $LAB/lab-lora-code.gguf --scale 0.5 -o "$T/lora.gguf"
recorded "$T/lora.gguf" "lab-verse + lab-code (graft) + lab-lora-code (adapter)" \
    "graft: 12 of 39 tensors from lab-code" "adapter: 28 of 39 tensors, scale 0.5, from lab-lora-code"
check "units" organ-prune -q $V --keep-units 256 --imatrix $LAB/lab-verse.imatrix.gguf -o "$T/thin.gguf"
recorded "$T/thin.gguf" "lab-verse (prune)" "prune: 256 of 512 hidden units per block"
check "blocks" organ-stack -q $V 0-1,3 $C 2-3 -o "$T/stack.gguf"
recorded "$T/stack.gguf" "lab-verse + lab-code (stack)" "stack: 0-1, 3 of lab-verse, 2-3 of lab-code"
check "one less" organ-stack -q --drop 2 "$T/thin.gguf" -o "$T/less.gguf"
recorded "$T/less.gguf" "lab-verse (prune) (stack)" "prune: 256 of 512 hidden units per block" \
    "stack: 0-1, 3 of lab-verse (prune)"
check "a mixture" organ-stack -q --experts-from $V,$C --base $LAB/lab-base-q4_k_m.gguf --used 1 \
    -o "$T/mix.gguf"
recorded "$T/mix.gguf" "lab-base (mixture)" "mixture: experts from lab-verse, lab-code"
check "experts" organ-prune -q "$T/mix.gguf" --experts 0 -o "$T/one.gguf"
recorded "$T/one.gguf" "lab-base (mixture) (prune)" "mixture: experts from lab-verse, lab-code" \
    "prune: 1 of 2 experts per block"
check "an expert" organ-transplant -q "$T/mix.gguf" "$T/mix.gguf" --experts 1 -o "$T/expert.gguf"
check_text "$(organ-keys "$T/expert.gguf" --get organ.history | tail -n 1)" \
    "graft: experts in 12 of 43 tensors from lab-base (mixture)" "an expert"

# The name that the user gives is used, and the step is recorded.
check "a name" organ-transplant -q $V $C --type ffn --set-kv general.name=mine -o "$T/mine.gguf"
recorded "$T/mine.gguf" mine "graft: 12 of 39 tensors from lab-code"
# A merge has keys of its own for what was merged, and a model without a name gets none.
check "a merge" organ-merge -q --method linear "$T/graft.gguf" $V -o "$T/merge.gguf"
check_exit 1 "no steps of a merge" organ-keys "$T/merge.gguf" --get organ.history
organ-keys -q $V --delete general.name -o "$T/noname.gguf"
check "no name" organ-transplant -q "$T/noname.gguf" $C --type ffn -o "$T/c.gguf"
check_exit 1 "no name" organ-keys "$T/c.gguf" --get general.name
check "a donor without a name" organ-transplant -q $V "$T/noname.gguf" --type ffn -o "$T/c2.gguf"
recorded "$T/c2.gguf" "lab-verse + noname.gguf (graft)" "graft: 12 of 39 tensors from noname.gguf"
# A key of that name with another type is replaced.
organ-keys -q $V --set organ.history=u32:7 -o "$T/odd.gguf"
check "another type" organ-transplant -q "$T/odd.gguf" $C --type ffn -o "$T/c3.gguf"
recorded "$T/c3.gguf" "lab-verse + lab-code (graft)" "graft: 12 of 39 tensors from lab-code"

# ---- nothing recorded ----

check "--no-history" organ-transplant -q $V $C --type ffn --no-history -o "$T/plain.gguf"
nothing "$T/plain.gguf"
cp $V "$T/in.gguf"
check "in place" organ-transplant -q "$T/in.gguf" $C --type ffn --in-place --no-undo
check_same "$T/in.gguf" "$T/plain.gguf" "in place as with --no-history"
check "no history of a graft" organ-graft -q $V $C --type ffn --no-history -o "$T/plain"
check "assembled" organ-assemble -q "$T/plain" -o "$T/plain2.gguf"
check_same "$T/plain.gguf" "$T/plain2.gguf" "organ-graft --no-history"
check "no history of blocks" organ-stack -q --drop 2 $V --no-history -o "$T/three.gguf"
nothing "$T/three.gguf"
check "no history of units" organ-prune -q $V --keep-units 256 --imatrix $LAB/lab-verse.imatrix.gguf --no-history \
    -o "$T/thin2.gguf"
nothing "$T/thin2.gguf"
check "all tensors of the donor" organ-transplant -q $V $V -o "$T/same.gguf"
check_same $V "$T/same.gguf" "a model into itself"
check "some of the same model" organ-transplant -q $V $V --type ffn -o "$T/ffn.gguf"
check_same $V "$T/ffn.gguf" "a part of a model into itself"
check "another place" organ-transplant -q $V $V --type ffn --map 1=2 -o "$T/moved.gguf"
recorded "$T/moved.gguf" "lab-verse + lab-verse (graft)" "graft: 3 of 39 tensors from lab-verse"
check "all blocks" organ-stack -q $V 0-3 -o "$T/all.gguf"
check_same $V "$T/all.gguf" "all blocks in their order"
check "types" organ-assemble -q $V --dtype q8_0 -o "$T/q8.gguf"
nothing "$T/q8.gguf"
finish
