#!/bin/sh
# remote.sh - models behind URLs: which bytes are fetched, the results of the tools, and servers that misbehave.
. "$(dirname "$0")/lib.sh"
PATH=$PWD/scripts:$PATH
for program in curl python3; do
    command -v $program > /dev/null 2>&1 || { echo "$NAME: $program is not here, so nothing was tested"; finish; }
done

cp "$LAB/lab-verse-q4_k_m.gguf" "$T/verse.gguf"
organ-stack -q --drop 0-2 "$T/verse.gguf" -o "$T/small.gguf"
organ-assemble -q "$T/verse.gguf" --shards 3 -o "$T/split.gguf"
python3 tests/cli/remote_server.py "$T" "$T/log" > "$T/port" &
server=$!
trap 'kill $server; chmod -R u+w "$T" 2> /dev/null; rm -rf "$T"' EXIT
i=0
while [ ! -s "$T/port" ] && [ $i -lt 200 ]; do i=$((i + 1)); sleep 0.1; done
at=http://127.0.0.1:$(cat "$T/port")
verse=$at/good/verse.gguf
export TMPDIR="$T"

# ---- the header only --------------------------------------------------------------
for tool in organ-info organ-keys 'organ-extract --list' organ-check; do
    : > "$T/log"
    # shellcheck disable=SC2086
    check "$tool of a URL" $tool "$verse"
    grep -v '^ *organ-\|^next' "$T/out" | sed "s|$at/good/|$T/|g" > "$T/remote"
    # shellcheck disable=SC2086
    $tool "$T/verse.gguf" 2> "$T/err" | grep -v '^ *organ-\|^next' > "$T/local"
    check_text "$(cat "$T/remote")" "$(cat "$T/local")" "$tool: as for the file"
    check_text "$(wc -l < "$T/log" | tr -d ' ')" 1 "$tool: one request"
done
check "options before the tool" organ-remote -q organ-info "$verse"
check "organ and a URL" organ "$verse"
check "a redirect" organ-info "$at/moved/verse.gguf"
check "small ranges behind redirects" organ-measure "$at/moved/verse.gguf" --tensors output_norm.weight
check "an answer that is repeated" organ-info "$at/busy/verse.gguf"
check_text "$(grep -c 'HTTP status 503: retrying (1 of 3)' "$T/err")" 1 "a busy server"
check "an answer that broke off is repeated" organ-info "$at/stops/verse.gguf"
check "all shards by the name of the first" organ-extract --list "$at/good/split-00001-of-00003.gguf"
check_text "$(wc -l < "$T/out")" "$(organ-extract -q --list "$T/verse.gguf" | wc -l)" "tensors of all shards"

# ---- a donor: exactly the selected tensors ----------------------------------------------
code=$LAB/lab-code-q4_k_m.gguf
organ-transplant -q "$code" "$T/verse.gguf" --type ffn --layers 1 -o "$T/want.gguf"
: > "$T/log"
check "a donor" organ-transplant "$code" "$verse" --type ffn --layers 1 --output "$T/got.gguf"
check "the same as from the file" cmp "$T/want.gguf" "$T/got.gguf"
sent=$(awk '{ n += $2 } END { print n }' "$T/log")
[ "$sent" -le $((524288 + 254976 + 8192)) ] && ok || bad "$sent bytes for a header and three tensors"
: > "$T/log"
check "what would be fetched" organ-transplant "$code" "$verse" --type ffn --layers 1 --check
check_text "$(grep -c '3 tensors of the donor, 254976 bytes' "$T/err") $(wc -l < "$T/log" | tr -d ' ')" "1 1" \
    "--check fetches the header"
check "a donor in shards" organ-transplant "$code" "$at/good/split-00001-of-00003.gguf" --type ffn --layers 1 \
    -o "$T/shards.gguf"
check "the same from shards" cmp "$T/want.gguf" "$T/shards.gguf"
# A donor in the other form.
organ-assemble -q "$code" --dtype q8_0 -o "$T/base8.gguf"
organ-assemble -q "$T/verse.gguf" --dtype q8_0 -o "$T/donor8.gguf"
for form in qkv gate_up; do
    organ-stack -q --fuse $form "$T/donor8.gguf" -o "$T/fused.gguf" 2> "$T/err" || continue
    for kind in attention ffn; do
        organ-transplant -q "$T/base8.gguf" "$T/fused.gguf" --type $kind --layers 3 -o "$T/want8.gguf" --force
        check "$kind of a donor with fused $form" organ-transplant "$T/base8.gguf" "$at/good/fused.gguf" \
            --type $kind --layers 3 -o "$T/got8.gguf" --force
        check "$kind, fused $form: as from the file" cmp "$T/want8.gguf" "$T/got8.gguf"
        organ-transplant -q "$T/fused.gguf" "$T/donor8.gguf" --type $kind --layers 3 -o "$T/want8.gguf" --force
        check "$kind for a base with fused $form" organ-transplant "$T/fused.gguf" "$at/good/donor8.gguf" \
            --type $kind --layers 3 -o "$T/got8.gguf" --force
        check "$kind, base with fused $form: as from the file" cmp "$T/want8.gguf" "$T/got8.gguf"
    done
done
check_exit 2 "a URL as the base" organ-transplant "$verse" "$code" -o "$T/no.gguf"
check_exit 2 "a tool that needs all bytes" organ-merge "$verse" "$code" -o "$T/no.gguf"
check "--whole" organ-merge -q --whole "$code" "$verse" -o "$T/merged.gguf"
check "--whole, without ranges" organ-merge -q --whole "$code" "$at/whole/verse.gguf" -o "$T/unranged.gguf"
check "the same merge" cmp "$T/merged.gguf" "$T/unranged.gguf"
check_exit 4 "--whole of a file that is not there" organ-merge --whole "$code" "$at/good/none.gguf" -o "$T/no.gguf"
organ-merge -q "$code" "$T/verse.gguf" -o "$T/merged-here.gguf"
check "a merge of a whole copy" cmp "$T/merged.gguf" "$T/merged-here.gguf"

# ---- measures of some rows --------------------------------------------------------------
check "organ-measure of small tensors" organ-measure "$at/good/verse.gguf"
check_text "$(cut -f 1-20 "$T/out")" "$(organ-measure -q "$T/verse.gguf" | cut -f 1-20)" \
    "tensors below the runs are read whole"
organ-assemble -q "$T/verse.gguf" --dtype f32 -o "$T/wide.gguf"
check "organ-measure of runs" organ-measure "$at/good/wide.gguf" --tensors token_embd.weight --runs 2
check_text "$(sed 1d "$T/out" | cut -f 1,4,5)" "token_embd.weight${TAB}F32${TAB}32768" "two runs of 64 KiB"

# ---- repair and completion --------------------------------------------------------------
organ-check --hash "$T/verse.gguf" > "$T/list"
cp "$T/verse.gguf" "$T/hurt.gguf"
printf 'XXXXXXXX' | dd of="$T/hurt.gguf" bs=1 seek=700000 conv=notrunc 2> /dev/null
: > "$T/log"
cp "$T/list" "$T/hurt.list"
sed 's/verse.gguf/hurt.gguf/' "$T/list" > "$T/hurt.list"
check_exit 2 "--verify of a URL" organ-check --verify "$T/list" "$verse"
check "--repair" organ-check "$T/hurt.gguf" --verify "$T/hurt.list" -q --repair "$verse"
check "the repaired file" cmp "$T/hurt.gguf" "$T/verse.gguf"
[ ! -e "$T/hurt.gguf.undo" ] && ok || bad "a journal is left"
dd if="$T/verse.gguf" of="$T/part.gguf" bs=1000 count=777 2> /dev/null
check "--complete" organ-remote -q --complete "$verse" "$T/part.gguf"
check "the completed file" cmp "$T/part.gguf" "$T/verse.gguf"
dd if="$code" of="$T/other.gguf" bs=1000 count=777 2> /dev/null
cp "$T/other.gguf" "$T/other.copy"
check_exit 4 "another file is not completed" organ-remote --complete "$verse" "$T/other.gguf"
check "it stays as it is" cmp "$T/other.gguf" "$T/other.copy"

# ---- servers that misbehave -------------------------------------------------------------
refused() { # STATUS TEXT HOW
    check_exit "$1" "a server: $3" organ-transplant "$code" "$at/$3/verse.gguf" --type ffn --layers 1 -o "$T/no.gguf" \
        --retries 1
    check_text "$(grep -c "verse.gguf: bytes [0-9]*-[0-9]*: .*$2" "$T/err")" 1 "$3: one message has the reason"
    [ ! -e "$T/no.gguf" ] && ok || bad "$3: an output"
}
refused 4 'ignores ranges' whole
refused 4 'sent bytes 1-' shifted
refused 4 'changed on the server' changed
refused 4 'changed on the server' grown
refused 4 'HTTP status 404' good/none
check_exit 4 "half of each answer" organ-info "$at/short/verse.gguf" --retries 0
check_exit 4 "endless headers" organ-info "$at/endless/verse.gguf" --retries 0
check_exit 4 "more than was asked for" organ-info "$at/more/verse.gguf" --retries 0
printf 'a text, no model' > "$T/text.gguf"
check_exit 3 "no model" organ-info "$at/good/text.gguf"
dd if="$T/verse.gguf" bs=100 count=10 of="$T/cut.gguf" 2> /dev/null
check_exit 3 "a header that ends" organ-info "$at/good/cut.gguf"

# ---- secrets ----------------------------------------------------------------------------
printf 'header = "Authorization: Bearer hush"\n' > "$T/curlrc"
check "a token" organ-info --curl "$T/curlrc" "$at/secret/verse.gguf?key=hidden"
cat "$T/out" "$T/err" > "$T/said"
check_exit 4 "no token" organ-info "$at/secret/verse.gguf?key=hidden" --retries 0
cat "$T/out" "$T/err" >> "$T/said"
check_text "$(grep -c 'hush\|hidden' "$T/said")" 0 "no message has a secret"
check_text "$(find "$T" -name 'organ-remote.*' | grep -c .)" 0 "no temporary folder is left"
finish
