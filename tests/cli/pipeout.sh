#!/bin/sh
# pipeout.sh - models written to stdout have the same bytes as in a file and are written front
# to back, with every kind of computation. Also errors and reports.
. "$(dirname "$0")/lib.sh"
VERSE=$LAB/lab-verse-q4_k_m.gguf CODE=$LAB/lab-code-q4_k_m.gguf BASE=$LAB/lab-base-q4_k_m.gguf

# same WHAT COMMAND...: with --output FILE and with -o - through a pipe, at -j 1 and -j 3,
# the same bytes.
same() {
    what=$1
    shift
    rm -f "$T/file"
    check "$what, to a file" "$@" --output "$T/file"
    for j in 1 3; do
        "$@" -j $j -o - 2> "$T/err" | cat > "$T/piped"
        check_same "$T/file" "$T/piped" "$what, to a pipe, -j $j"
    done
    "$@" -o - > "$T/redirected" 2> "$T/err"
    check_same "$T/file" "$T/redirected" "$what, redirected"
    echo "before" > "$T/appended"
    "$@" -o- >> "$T/appended" 2> "$T/err"
    { echo "before"; cat "$T/file"; } > "$T/want"
    check_same "$T/want" "$T/appended" "$what, appended"
}

check "extract" organ-extract $VERSE --output "$T/verse"
same "assemble" organ-assemble "$T/verse"
check_same "$T/file" $VERSE "assemble gives the model back"
same "assemble --dtype" organ-assemble "$T/verse" --dtype 'blk.*=q5_k,*=f16'
for f in $D/gguf/*.gguf; do # odd padding, alignments, trailing bytes
    case $f in *-of-0*) continue ;; esac
    rm -rf "$T/odd"
    organ-extract -q "$f" --output "$T/odd" 2> /dev/null || continue
    organ-assemble -q "$T/odd" -o - > "$T/odd.gguf"
    check_same "$f" "$T/odd.gguf" "$f through a directory to stdout"
done

move="--donor $CODE --type organ"
same "transplant" organ-transplant --base $VERSE $move
same "transplant --match convert" organ-transplant --base "$(verse_q8)" $move --match convert
for blend in linear:0.5 slerp:0.3 task:0.7; do
    same "transplant $blend" organ-transplant --base $VERSE $move --blend $blend --ancestor $BASE
done

# Refused, and reported.
check_absent "-" "a file named -"
check_error 2 "cannot be written to stdout" "shards to stdout" organ-assemble "$T/verse" -o - --shards 2
check_error 2 "-o needs a value" "-o without a value" organ-assemble "$T/verse" -o
check_error 2 "unknown option '-o'" "-o of a tool without --output" organ-compare $VERSE $CODE -o x
check "-oFILE" organ-assemble "$T/verse" -o"$T/glued.gguf"
check_same $VERSE "$T/glued.gguf" "-oFILE"
# A pipe whose reader has ended, and a full disk: exit 4 and one line.
{ organ-assemble "$T/verse" -o - 2> "$T/err"; echo $? > "$T/status"; } | head -c 10 > /dev/null
check_text "$(cat "$T/status")" 4 "a closed pipe"
check_text "$(cat "$T/err")" "" "a closed pipe: no message"
mkfifo "$T/gone"
: < "$T/gone" &
exec 7> "$T/gone"
wait # the reader has ended before the tool starts
for c in "organ-measure --dir $T/verse --sample 0" "organ-keys $VERSE" "organ-extract $VERSE --output -" \
    "organ-compare $VERSE $CODE" "organ-check --hash $VERSE"; do
    $c >&7 2> "$T/err" 7>&-
    check_text "$? $(cat "$T/err")" "4 " "$c: a closed pipe: exit 4, no message"
done
exec 7>&-
if [ -w /dev/full ]; then
    organ-assemble "$T/verse" -o - > /dev/full 2> "$T/err"
    check_text $? 4 "a full disk"
    grep -q "stdout" "$T/err" && ok || bad "a full disk: $(cat "$T/err")"
fi
# A byte behind the last record of a stream.
organ-extract -q $VERSE --tensors output_norm.weight --output "$T/one"
{ cat "$T/one/norm/output_norm.bin"; printf x; } > "$T/records"
check_error 3 "ends within the header of organ record 2" "a byte behind a record" \
    sh -c "organ-extract - --list < '$T/records' > /dev/null"
finish
