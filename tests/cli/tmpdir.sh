#!/bin/sh
# tmpdir.sh - TMPDIR is a folder that is not there or cannot be written, or a file: every script and every tool that
# needs it says so in one line. In a folder with spaces all of them work, and leave nothing.
# shellcheck source=tests/cli/lib.sh disable=SC1091
. "$(dirname "$0")/lib.sh"
PATH=$PWD/scripts:$PATH ORGAN_BIN=$BIN
export ORGAN_BIN
V=$LAB/lab-verse-q4_k_m.gguf C=$LAB/lab-code-q4_k_m.gguf O=$T/made
organ-stack -q --drop 1-3 "$V" -o "$T/small.gguf"
S=$T/small.gguf
mkdir "$T/stubs" "$T/data"
for stub in curl llama-perplexity organ-probe; do
    printf '#!/bin/sh\nexit 1\n' > "$T/stubs/$stub" && chmod +x "$T/stubs/$stub"
done
printf '#!/bin/sh\necho httpd\n' > "$T/stubs/busybox" && chmod +x "$T/stubs/busybox"
printf 'a = 0.5 # search 0..1\nall:\n' > "$T/r.mk"
echo a text > "$T/text"

# Each script with its arguments; those with a + run to their end here, and the others need an engine or a server.
cat > "$T/scripts" << END
+ organ diff $S $S
- organ-models
- organ-remote organ-info http://127.0.0.1:1/x.gguf
+ organ-report -q --output $O $S
- organ-search $T/r.mk --text $T/text --engine true --output $O
- organ-sensitivity $S --text $T/text --output $O
- organ-serve --data $T/data --server busybox
+ organ-stream -q --output $O $S
- organ-validate $S --text $T/text --engine llama-perplexity
- organ-validate $S $V --text $T/text --engine llama-perplexity
END
needless='organ-fleet' # its files are in the folder of its output
for script in scripts/organ scripts/organ-*; do
    grep -q "^. ${script##*/} " "$T/scripts" || grep -qx ". ${script##*/}" "$T/scripts" && ok && continue
    check_text "${script##*/}" "$needless" "a script without a row"
done
# Tools whose second model is stdin, which they store.
cat > "$T/tools" << END
organ-graft $C - -o $O
organ-transplant $C - -o $O
organ-merge $C - --method linear -o $O
organ-assemble - --dtype q8_0 --shards 2 -o $O.gguf
END

touch "$T/file"
mkdir "$T/closed" "$T/a folder  for files"
chmod 555 "$T/closed"
[ -w "$T/closed" ] && closed='' || closed=$T/closed
for tmp in "$T/nowhere" "$T/file" $closed; do
    while read -r how command; do
        rm -rf "$O"
        # shellcheck disable=SC2086 # words
        env TMPDIR="$tmp" PATH="$T/stubs:$PATH" ORGAN_PROBE="$T/stubs/organ-probe" $command > "$T/out" 2> "$T/err" \
            < /dev/null
        check_text "$? $(sed "s|^${command%% *}: .* in $tmp; set TMPDIR to a .*|one line|" "$T/err")" "4 one line" \
            "${tmp##*/}: $command"
        check_text "$(find "$O" -type f 2> /dev/null)" "" "${tmp##*/}: no output of $command"
    done < "$T/scripts"
    while read -r command; do
        rm -rf "$O"*
        # shellcheck disable=SC2086
        TMPDIR=$tmp $command < "$V" > "$T/out" 2> "$T/err"
        got=$?
        case $got in
        4) one_line "$T/err" && grep -q TMPDIR "$T/err" && ok || bad "$command: $(cat "$T/err")" ;;
        0 | 1) ok ;; # it was read front to back
        *) bad "$command: exit $got: $(cat "$T/err")" ;;
        esac
    done < "$T/tools"
done

export TMPDIR="$T/a folder  for files"
while read -r how command; do
    [ "$how" = + ] || continue
    rm -rf "$O"
    # shellcheck disable=SC2086
    check "spaces: $command" $command < /dev/null
    check_text "$(ls -A "$TMPDIR")" "" "spaces: $command leaves nothing"
done < "$T/scripts"
check "spaces: organ-fleet" organ-fleet pipeline -q --output "$T/a fleet" "$S"
check_text "$(ls -A "$TMPDIR")" "" "spaces: organ-fleet leaves nothing"
while read -r command; do
    rm -rf "$O"*
    # shellcheck disable=SC2086
    $command < "$V" > "$T/out" 2> "$T/err"
    [ $? -le 1 ] && ok || bad "spaces: $command: $(cat "$T/err")"
    check_text "$(ls -A "$TMPDIR")" "" "spaces: $command leaves nothing"
done < "$T/tools"
finish
