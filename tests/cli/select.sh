#!/bin/sh
# select.sh - an item of a selection that matches nothing is an error that names it, in all
# tools, and before anything is written.
. "$(dirname "$0")/lib.sh"

VERSE=$LAB/lab-verse-q4_k_m.gguf
CODE=$LAB/lab-code-q4_k_m.gguf
organ-extract -q "$VERSE" --output "$T/verse"
printf 'blk.0.attn_q.weight\nno.such\n' > "$T/names"
printf 'x1\nx2\nx3\nx4\noutput.weight\nx1\n' > "$T/many"
: > "$T/none"
printf 'name\tclass\n' > "$T/heading"

# refused TEXT OPTION...: in each tool that selects.
refused() {
    text=$1
    shift
    item=$*
    check_error 1 "$text" "extract: $item" organ-extract "$VERSE" --output "$T/new" "$@"
    check_error 1 "$text" "extract from a pipe: $item" sh -c 'organ-extract - --output - "$@" < "$0"' "$VERSE" "$@"
    check_error 1 "$text" "purify: $item" organ-purify "$T/verse" --output "$T/new" "$@"
    check_error 1 "$text" "purify a file: $item" organ-purify "$VERSE" --output "$T/new.gguf" "$@"
    check_error 1 "$text" "graft: $item" organ-graft --source "$CODE" --target "$VERSE" --output "$T/new" "$@"
    check_error 1 "$text" "graft --check: $item" organ-graft --source "$CODE" --target "$VERSE" --check "$@"
    check_error 1 "$text" "transplant: $item" organ-transplant --base "$VERSE" --donor "$CODE" --output "$T/new.gguf" \
        "$@"
    check_error 1 "$text" "compare: $item" organ-compare "$VERSE" "$CODE" "$@"
    check_error 1 "$text" "compare --lineage: $item" organ-compare "$VERSE" "$CODE" --lineage "$@"
    for tool in "organ-extract --list $VERSE" "organ-measure $VERSE" "organ-measure $T/verse"; do
        # shellcheck disable=SC2086
        check_error 1 "$text" "$tool: $item" $tool "$@"
    done
    cp "$VERSE" "$T/base.gguf"
    check_error 1 "$text" "in place: $item" organ-transplant --base "$T/base.gguf" --donor "$CODE" \
        --in-place --undo "$T/undo" "$@"
    check_same "$T/base.gguf" "$VERSE" "unchanged: $item"
    if [ -e "$T/new" ] || [ -e "$T/new.gguf" ] || [ -e "$T/undo" ]; then bad "something was written: $item"; rm \
        -rf "$T/new" "$T/new.gguf" "$T/undo"; else ok; fi
}

refused "no tensor matches 'nosuch*'; patterns match whole names; try '*nosuch**'" --tensors 'output*,nosuch*'
refused "no tensor matches 'output'" --tensors output,output_norm.weight
refused "block 99 is not in the model; the last block is 3" --layers 0,99
refused "blocks 4-9 are not in the model; the last block is 3" --layers 1-3,4-9
refused "expert 99 is not in the model; it has no experts" --experts 99
refused "no tensor is of class adapter" --type adapter
refused "no tensor is of class other" --type organ,OTHER
refused "no tensor is of part vision" --part text,vision
refused "1 of the 2 names in the list is not in the model: 'no.such'" --names-from "$T/names"
refused "4 of the 5 names in the list are not in the model: 'x1', 'x2', 'x3', ..." --names-from "$T/many"
refused "the list of names is empty" --names-from "$T/none"
refused "the list of names is empty" --names-from "$T/heading"
# Items that match alone, but no tensor satisfies all kinds.
check_error 1 "no tensor is selected" "nothing satisfies both" organ-extract "$VERSE" --output "$T/new" --type embed \
    --layers 0

# ---- selections without errors ----
is() { # COUNT WHAT OPTION...
    count=$1 what=$2
    shift 2
    check_text "$(organ-extract "$VERSE" --list "$@" | sed 1d | wc -l | tr -d ' ')" "$count" "$what"
}
is 18 "a range of which a part exists" --layers 2-90
is 2 "two patterns for one tensor, and another" --tensors 'output.weight,output.w*,output_norm*'
organ-compare "$VERSE" "$CODE" --where 'status!=identical' > "$T/table"
check_text "$(grep -c '^(keys)' "$T/table")" 1 "a table with a row for keys"
is 39 "the row for keys is not a tensor" --names-from "$T/table"
printf 'output.weight\noutput.weight\noutput_norm.weight\noutput.weight\n' > "$T/twice"
is 2 "a name given twice" --names-from "$T/twice"

# A graft may name tensors and blocks that only the donor has.
if have mkmodel; then
    mkmodel "$T/small.gguf" blk.0.ffn_up.weight:F32:8x8 > /dev/null
    mkmodel "$T/large.gguf" blk.0.ffn_up.weight:F32:8x8 blk.1.ffn_up.weight:F32:8x8 > /dev/null
    check "--add takes the donor's blocks" organ-transplant -q --base "$T/small.gguf" --donor "$T/large.gguf" \
        --add --layers 1 --output "$T/grown.gguf"
    # compare: names of either model.
    check_exit 1 "a tensor that only B has" organ-compare "$T/small.gguf" "$T/large.gguf" --tensors 'blk.1.*'
    check_error 1 "no tensor matches 'blk.2.*'" "a tensor that none has" organ-compare "$T/small.gguf" \
        "$T/large.gguf" --tensors 'blk.2.*'

    # Experts of stacks, by number and by name.
    mkmodel "$T/moe.gguf" blk.0.ffn_up_exps.weight:F32:8x4x6 blk.0.ffn_gate_inp.weight:F32:8x6 > /dev/null
    check "an expert of a stack" organ-extract -q "$T/moe.gguf" --list --experts 5
    check_exit 1 "no such expert" organ-extract -q "$T/moe.gguf" --list --experts 0,6-8
    check_text "$(grep -c 'experts 6-8 are not in the model; the last expert is 5' "$T/err")" 1 "which is named"
    check "an expert's name, of split stacks" organ-extract -q "$T/moe.gguf" \
        --list --split-experts --tensors blk.0.ffn_up.3.weight
    check_exit 1 "stacks are not split" organ-extract -q "$T/moe.gguf" --list --tensors blk.0.ffn_up.3.weight
    check_exit 1 "no such expert by name" organ-extract -q "$T/moe.gguf" \
        --list --split-experts --tensors blk.0.ffn_up.6.weight
    organ-measure -q "$T/moe.gguf" --split-experts > "$T/experts"
    check "a table of experts" organ-extract -q "$T/moe.gguf" --list --split-experts --names-from "$T/experts"
    check_exit 1 "a map of experts" organ-graft -q --source "$T/moe.gguf" --target "$T/moe.gguf" --experts 2=1,7=1 \
        --check
    check_text "$(grep -c 'expert 7 is not in the model; the last expert is 5' "$T/err")" 1 \
        "an expert that the base lacks"
fi

# A pipe of records shows its tensors one by one, so the error comes at the end.
organ-extract -q "$VERSE" --output - > "$T/records"
check "records from a pipe" sh -c "organ-extract - --list --layers 3 < '$T/records'"
check_exit 1 "an item that no record matches" sh -c "organ-extract - --output '$T/new' --layers 3,4 < '$T/records'"
check_text "$(grep -c 'block 4 is not in the model; the last block is 3' "$T/err")" 1 "is named"
check_exit 1 "measured from a pipe" sh -c "organ-measure - --layers 3,4 < '$T/records'"
check_text "$(sed 1d "$T/out" | wc -l | tr -d ' ')" 9 "the rows come first"
if [ -e "$T/new" ]; then bad "an organ directory in spite of the error"; else ok; fi
finish
