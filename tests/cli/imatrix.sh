#!/bin/sh
# imatrix.sh - encoding with an importance matrix: which types it makes possible, that its weights
# reach the encoders at the right columns, the keys it leaves, and refusals.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }

Q8=$LAB/lab-verse-q8_0.gguf
IM=$LAB/lab-verse.imatrix.gguf
OLD=$LAB/lab-verse.imatrix.dat

enc() {
    out=$1
    shift
    organ-assemble "$Q8" -o "$T/$out" --force "$@"
}

# The weights change the result, and it does not depend on threads or on the way it is written.
check "q2_k without" enc plain.gguf -q --dtype q2_k
check "q2_k with" enc m.gguf -q --dtype q2_k --imatrix "$IM"
if cmp -s "$T/plain.gguf" "$T/m.gguf"; then bad "the importance matrix had no effect"; else ok; fi
enc one.gguf -q --dtype q2_k --imatrix "$IM" -j 1
check_same "$T/m.gguf" "$T/one.gguf" "-j 1"
organ-assemble - -q -o - --dtype q2_k --imatrix "$IM" < "$Q8" > "$T/piped.gguf"
check_same "$T/m.gguf" "$T/piped.gguf" "from and to a pipe"
organ-extract "$Q8" --output "$T/d" -q
organ-assemble "$T/d" -o "$T/dir.gguf" -q --dtype q2_k --imatrix "$IM"
check_same "$T/m.gguf" "$T/dir.gguf" "from an organ directory"

# noted TEXT WHAT: the note has the text.
noted() {
    if grep -qF -e "$1" "$T/note"; then ok; else bad "$2: $(cat "$T/note")"; fi
}

# Types that need one.
for t in iq2_xxs iq2_xs iq1_s; do
    check_error 3 "--imatrix" "$t without" enc none.gguf -q --dtype "blk.*=$t"
    check "$t with" enc "$t.gguf" -q --dtype "blk.*=$t" --imatrix "$IM"
done
check_exit 3 "preset without" enc none.gguf -q --dtype iq2_m
check "preset with" enc iq2_m.gguf -q --dtype iq2_m --imatrix "$IM"
check_error 3 "token_embd.weight" "a tensor that the file lacks" enc none.gguf -q --dtype 'token_embd.weight=iq2_xs' --imatrix "$IM"
check_absent "$T/none.gguf" "nothing is written"

# Tensors that the file lacks are noted, and the keys tell of the file.
enc m.gguf --dtype 'blk.*=q4_k,token_embd*=q4_k' --imatrix "$OLD" 2> "$T/note"
noted "lacks 1 of the 29 tensors that are encoded: token_embd.weight" "lacking tensors"
check_text "$(organ-keys "$T/m.gguf" --get quantize.imatrix.file)" "$OLD" "file"
check_text "$(organ-keys "$T/m.gguf" --get quantize.imatrix.dataset)" "calib-verse.txt" "dataset"
check_text "$(organ-keys "$T/m.gguf" --get quantize.imatrix.entries_count)" 29 "entries"
check_text "$(organ-keys "$T/m.gguf" --get quantize.imatrix.chunks_count)" 36 "chunks"
enc n.gguf --imatrix "$IM" 2> "$T/note"
noted "no effect" "nothing is encoded"
check_same "$Q8" "$T/n.gguf" "nothing is encoded: the same bytes"

# In a transplant: tensors that are converted get the same weights.
check "convert" organ-transplant -q --base "$T/iq2_xs.gguf" --donor "$Q8" --match convert --imatrix "$IM" -o "$T/back.gguf"
check_same "$T/iq2_xs.gguf" "$T/back.gguf" "the same values in the same type"
check_exit 1 "convert without" organ-transplant -q --base "$T/iq2_xs.gguf" --donor "$Q8" --match convert -o "$T/none.gguf"
check_exit 2 "in place" organ-transplant -q --base "$T/m.gguf" --donor "$Q8" --match convert --imatrix "$IM" --in-place --no-undo

# Files that do not match or are none.
head -c 20000 "$OLD" > "$T/cut.dat"
check_exit 3 "cut short" enc none.gguf -q --dtype q4_k --imatrix "$T/cut.dat"
check_exit 3 "a model" enc none.gguf -q --dtype q4_k --imatrix "$Q8"
check_exit 4 "missing file" enc none.gguf -q --dtype q4_k --imatrix "$T/no-such"
check_absent "$T/none.gguf" "nothing is written"
finish
