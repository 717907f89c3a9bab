# guard.sh - no output replaces an input, even with --force, whichever tool writes it.
. "$(dirname "$0")/lib.sh"

for m in verse code base; do cp "$LAB/lab-$m-q4_k_m.gguf" "$T/$m.gguf"; done
V=$T/verse.gguf C=$T/code.gguf M=$T/base.gguf
cp $D/gguf/x-0000?-of-00003.gguf "$T"
organ-extract "$V" -q -o "$T/dir"
organ-extract "$C" -q -o "$T/dir2"
organ-lora -q -j 1 --base "$M" --tuned "$C" --rank 2 -o "$T/lora.gguf" > /dev/null
organ-compare "$V" "$C" --patch "$T/p.gguf" > /dev/null 2>&1
ln -s verse.gguf "$T/link"
ln "$V" "$T/twin"
ln -s "$(find "$T/dir" -name '*.bin' | head -n 1)" "$T/record"
cat "$V" > "$T/im.dat"
find "$T" -type f ! -name out ! -name err ! -name before | sort | xargs sha256sum > "$T/before"

# The commands, to which an output follows. The input is named by the row, and then
# every name that it has.
all() {
    while read -r command; do
        for output in "$@"; do
            eval "check_error 2 'an input' \"$output: $command\" $command '$output' --force"
        done
    done
}
all "$V" "$T/link" "$T/twin" "$T/./verse.gguf" << 'END'
organ-assemble "$V" --dtype q2_k -o
organ-assemble - -o < "$V"
organ-transplant --base "$V" --donor "$C" -o
organ-transplant --base "$C" --donor "$V" -o
organ-transplant --base "$C" --donor "$M" --blend task:1 --ancestor "$V" -o
organ-transplant --base "$V" --adapter "$T/lora.gguf" -o
organ-transplant --base "$V" --donor "$T/p.gguf" -o
organ-graft --base "$V" --donor "$C" -o "$T/new" --svg
organ-merge --method slerp --base "$V" --model "$C" -o
organ-merge --method linear --model "$C" --model "$V,weight=0.5" -o
organ-merge --method linear --model "$C" --model "$V" -o "$T/new.gguf" --card
organ-stack "$C" 0-1 "$V" 2 -o
organ-lora --base "$V" --tuned "$C" -o
organ-lora --base "$C" --tuned "$V" -o
organ-purify "$V" -o
organ-keys "$V" --set general.name=str:x -o
organ-measure "$V" --svg
organ-measure "$V" --histogram
organ-compare "$V" "$C" --svg
organ-compare "$V" "$C" --patch
organ-compare "$C" "$V" --patch
organ-assemble "$V" --dtype q4_k_s -o "$T/new.gguf" --report
organ-assemble "$V" --bpw 4 -o "$T/new.gguf" --rules
organ-assemble "$C" --dtype q4_k_s -o "$T/new.gguf" --imatrix "$V" -o
END
# These refuse all names that end in .gguf.
all "$T/link" "$T/twin" << 'END'
organ-graft --base "$V" --donor "$C" -o
organ-extract "$V" -o
END
all "$T/dir" "$T/dir/" << 'END'
organ-graft --base "$T/dir" --donor "$V" -o
organ-graft --base "$V" --donor "$T/dir" -o
organ-extract "$T/dir" -o
organ-purify "$T/dir" -o
organ-assemble "$T/dir" -o
END
all "$T/x-00001-of-00003.gguf" "$T/x-00003-of-00003.gguf" << 'END'
organ-assemble "$T/x-00002-of-00003.gguf" -o
organ-keys "$T/x-00002-of-00003.gguf" --set general.name=str:x -o
organ-measure "$T/x-00002-of-00003.gguf" --svg
organ-compare "$T/x-00002-of-00003.gguf" "$V" --svg
END
check_error 2 "also an input" "shards by another name" organ-assemble "$T/x-00001-of-00003.gguf" --shards 3 \
    -o "$T/x.gguf" --force
check_error 2 "inside the organ directory" "a link to a record" organ-assemble "$T/dir" -o "$T/record" --force
check_error 2 "(or change the model itself: --in-place)" "advice" organ-keys "$V" --delete general.name -o "$V" --force
check_error 2 "choose another name" "advice without --in-place" organ-assemble "$V" -o "$V" --force
grep -q in-place "$T/err" && bad "organ-assemble has no --in-place: $(cat "$T/err")" || ok
find "$T" -type f ! -name out ! -name err ! -name before | sort | xargs sha256sum | cmp - "$T/before" && ok \
    || bad "an input was changed"
finish
