#!/bin/sh
# remote.sh - models behind URLs: which bytes are fetched, the results of the tools, and servers that misbehave.
. "$(dirname "$0")/lib.sh"
PATH=$PWD/scripts:$PATH
have curl "models behind URLs" || finish
have python3 "models behind URLs" || finish

cp "$LAB/lab-verse-q4_k_m.gguf" "$T/verse.gguf"
organ-stack -q --drop 0-2 "$T/verse.gguf" -o "$T/small.gguf"
organ-assemble -q "$T/verse.gguf" --shards 3 -o "$T/split.gguf"
python3 tests/cli/remote_server.py "$T" "$T/log" > "$T/port" &
server=$!
trap 'kill $server 2> /dev/null; chmod -R u+w "$T" 2> /dev/null; rm -rf "$T"' EXIT
i=0
while [ ! -s "$T/port" ] && [ $i -lt 600 ]; do i=$((i + 1)); sleep 0.1; done
at=http://127.0.0.1:$(cat "$T/port")
verse=$at/good/verse.gguf
export TMPDIR="$T"

# ---- the header only --------------------------------------------------------------
for tool in organ-info organ-keys 'organ-extract --list' organ-check; do
    : > "$T/log"
    # shellcheck disable=SC2086
    check "$tool of a URL" $tool "$verse"
    grep -Ev '^ *organ-|^next' "$T/out" | sed "s|$at/good/|$T/|g" > "$T/remote"
    # shellcheck disable=SC2086
    $tool "$T/verse.gguf" 2> "$T/err" | grep -Ev '^ *organ-|^next' > "$T/local"
    check_text "$(cat "$T/remote")" "$(cat "$T/local")" "$tool: as for the file"
    check_text "$(($(wc -l < "$T/log")))" 1 "$tool: one request"
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
cp "$T/small.gguf" "$T/a\"b\\c.gguf"
check 'a URL with " and \' organ-info "$at/good/a\"b\\c.gguf"
check_error 2 "the URL has a control character" "an option of curl in a URL" organ-info "$verse
output = $T/pwned"
# What a stopped request writes while the folder is removed does not keep the folder.
mkdir "$T/late"
printf '#!/bin/sh\ncase "$*" in *organ-remote*) [ -e %s ] || { : > %s; exit 1; } ;; esac\nexec %s "$@"\n' \
    "$T/late/seen" "$T/late/seen" "$(command -v rm)" > "$T/late/rm"
chmod +x "$T/late/rm"
check_exit 4 "a file that is not there" env PATH="$T/late:$PATH" organ-info "$at/good/none.gguf" --retries 0
check_text "$(ls "$T/late") $(find "$T" -name 'organ-remote.*')" "rm
seen " "a folder that is written to while it is removed"

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
check_text "$(grep -c ': 254976 bytes of tensors are needed' "$T/err") $(($(wc -l < "$T/log")))" "1 1" \
    "--check fetches the header"
check "a donor in shards" organ-transplant "$code" "$at/good/split-00001-of-00003.gguf" --type ffn --layers 1 \
    -o "$T/shards.gguf"
check "the same from shards" cmp "$T/want.gguf" "$T/shards.gguf"
# A donor in the other form.
organ-assemble -q "$code" --dtype q8_0 -o "$T/base8.gguf"
organ-assemble -q "$T/verse.gguf" --dtype q8_0 -o "$T/donor8.gguf"
forms=qkv
if exhaustive; then forms='qkv gate_up'; fi
for form in $forms; do
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
# Some experts, blends with an ancestor, other blocks: as from the file, with few bytes.
for m in moe moe-base; do
    mkmodel "$T/$m.gguf" -s ${#m} token_embd.weight:F32:64x10 \
        blk.0.ffn_gate_inp.weight:F32:64x8 blk.0.ffn_gate_exps.weight:F32:64x512x8 \
        blk.0.ffn_up_exps.weight:F32:64x512x8
done
from_both() { # WHAT BASE DONOR OPTION...: DONOR is the name of a file in $T
    what=$1 base=$2 donor=$3
    shift 3
    organ-transplant "$base" "$T/$donor" "$@" -o "$T/want.gguf" --force 2> "$T/notes"
    : > "$T/log"
    check "$what" organ-transplant "$base" "$at/good/$donor" "$@" -o "$T/got.gguf" --force
    grep -v '^organ-remote' "$T/err" | sed "s|$at/good|$T|" > "$T/kept"
    check "$what: as from the file" cmp "$T/want.gguf" "$T/got.gguf"
    check_text "$(cat "$T/kept")" "$(cat "$T/notes")" "$what: the same notes on lineage"
}
from_both "two experts" "$T/moe-base.gguf" moe.gguf --experts 1,2=3 --type ffn
organ-transplant --reads "$T/moe-base.gguf" "$T/moe.gguf" --experts 1,2=3 --type ffn > "$T/reads"
check_text "$(awk -F '\t' '$3 == 131072' "$T/reads" | grep -c .) $(awk -F '\t' '$3 < 131072 { n += $3 }
    END { print n }' "$T/reads")" \
    "4 16384" "two experts of two stacks, and 32 rows of each to compare"
from_both "other blocks" "$code" verse.gguf --map 0=2
exhaustive && from_both "a blend" "$code" verse.gguf --blend slerp:0.5 --type attention
from_both "an ancestor in a file" "$code" verse.gguf --blend task:0.5 --ancestor "$LAB/lab-base-q4_k_m.gguf" --layers 3
from_both "strangers" "$LAB/lab-stranger-q4_k_m.gguf" verse.gguf --layers 0
cp "$LAB/lab-base-q4_k_m.gguf" "$T/base.gguf"
organ-transplant -q "$code" "$T/verse.gguf" --blend task:0.5 --ancestor "$T/base.gguf" \
    --layers 3 -o "$T/want.gguf" --force
check "an ancestor behind a URL" organ-transplant "$code" "$T/verse.gguf" --blend task:0.5 \
    --ancestor "$at/good/base.gguf" --layers 3 -o "$T/got.gguf" --force
check "an ancestor: as from the file" cmp "$T/want.gguf" "$T/got.gguf"
check_exit 2 "--align" organ-transplant "$code" "$verse" --align -o "$T/no.gguf"
check "a graft" organ-graft "$code" "$verse" --layers 1 -o "$T/graft.organs"
organ-graft -q "$code" "$T/verse.gguf" --layers 1 -o "$T/graft2.organs"
check "a graft: the same tensors" diff -r "$T/graft.organs/organs" "$T/graft2.organs/organs"
# Tensors that are compared with a list.
organ-check --hash "$T/verse.gguf" > "$T/list"
check "--verify" organ-transplant "$code" "$verse" --type ffn --layers 1 -o "$T/got.gguf" --force --verify "$T/list"
organ-transplant -q "$code" "$T/verse.gguf" --type ffn --layers 1 -o "$T/want.gguf" --force
check "--verify: the same result" cmp "$T/want.gguf" "$T/got.gguf"
sed 's/^[0-9a-f]\(.*blk.1.ffn_up\)/g\1/' "$T/list" > "$T/other.list"
check_exit 1 "another hash" organ-transplant "$code" "$verse" --type ffn --layers 1 -o "$T/no.gguf" \
    --verify "$T/other.list"
check_text "$(grep -c 'verse.gguf.*: the data of blk.1.ffn_up.weight differ from the list' "$T/err")" 1 "it is named"
check "others do not matter" organ-graft "$code" "$verse" --type attention -o "$T/verified.organs" \
    --verify="$T/other.list"
grep -v blk.1.ffn_up "$T/list" > "$T/other.list"
check_exit 1 "no hash" organ-transplant "$code" "$verse" --type ffn --layers 1 -o "$T/no.gguf" --verify "$T/other.list"
[ ! -e "$T/no.gguf" ] && ok || bad "an output with another hash"
check_exit 1 "a URL as the base" organ-transplant "$verse" "$code" -o "$T/no.gguf"
check_exit 2 "a tool that needs all bytes" organ-merge "$verse" "$code" -o "$T/no.gguf"
check "--whole" organ-merge -q --whole "$code" "$verse" -o "$T/merged.gguf"
check "--whole, without ranges" organ-merge -q --whole "$code" "$at/whole/verse.gguf" -o "$T/unranged.gguf"
check "the same merge" cmp "$T/merged.gguf" "$T/unranged.gguf"
check_exit 4 "--whole of a file that is not there" organ-merge --whole "$code" "$at/good/none.gguf" -o "$T/no.gguf"
organ-merge -q "$code" "$T/verse.gguf" -o "$T/merged-here.gguf"
check "a merge of a whole copy" cmp "$T/merged.gguf" "$T/merged-here.gguf"

# ---- measures of some rows --------------------------------------------------------------
check "organ-measure of small tensors" organ-measure "$at/good/verse.gguf"
check_text "$(without part,importance,edge "$T/out")" \
    "$(organ-measure -q "$T/verse.gguf" | without part,importance,edge)" \
    "tensors below the runs are read whole"
organ-assemble -q "$T/verse.gguf" --dtype f32 -o "$T/wide.gguf"
some='--layers 2 --type ffn'
if exhaustive; then some=; fi
for options in '--runs 3 --sample 3000 --type embedding,ffn --layers 0-1' \
    "--runs 2 --sample 600 --split-experts $some" "--blocks $some" '--spectral --layers 2'; do
    : > "$T/log"
    # shellcheck disable=SC2086
    check "organ-measure $options of a URL" organ-measure -q "$at/good/wide.gguf" $options
    # shellcheck disable=SC2086
    check_text "$(cat "$T/out")" "$(organ-measure -q "$T/wide.gguf" $options)" "$options: the rows of the file"
done
check "some bytes" organ-measure "$at/good/wide.gguf" --tensors token_embd.weight --runs 3 --sample 300
check_text "$(cells elements,sampled "$T/out" | sed 1d)" "262144${TAB}303" "the row tells how many values were read"
organ-measure --reads --runs 3 --sample 300 --tensors token_embd.weight "$T/wide.gguf" > "$T/reads"
check_text "$(awk -F '\t' '{ n += $3 } END { print NR, n }' "$T/reads")" "9 16956" \
    "--reads: three runs of 101 values, every ninth, and three pairs of rows"
check "an organ directory" organ-extract -q "$T/verse.gguf" -o "$T/verse.organs"
check "no file of it is listed" organ-measure --reads --runs 3 "$T/verse.organs"
check_text "$(($(wc -c < "$T/out")))" 0 "nothing is listed"

# A model of which runs are read, in shards: by organ-stream and by organ-fleet.
mkmodel "$T/large.gguf" -s 7 token_embd.weight:Q8_0:512x1000 blk.0.ffn_up.weight:Q4_K:512x5000 \
    blk.0.ffn_down.weight:F16:256x8000 output_norm.weight:F32:512
organ-assemble -q "$T/large.gguf" --shards 3 -o "$T/split-large.gguf"
large=$at/good/split-large-00001-of-00003.gguf
organ-measure -q --runs 8 "$T/large.gguf" > "$T/rows"
organ-measure -q "$T/large.gguf" > "$T/all-rows"
check_text "$(cells name,sampled "$T/rows" | grep -c 100008)" 2 "two tensors are sampled in runs"
check_text "$(grep -c -F -f "$T/rows" "$T/all-rows")" 3 "the others have the rows of the whole"
: > "$T/log"
check "organ-measure of large tensors" organ-measure "$large"
check_text "$(cat "$T/out")" "$(cat "$T/rows")" "organ-measure of large tensors: the rows of --runs 8"
check "organ-stream --sampled" organ-stream -q --sampled --output "$T/streamed" "$large?key=hidden"
check_same "$T/streamed/measures.tsv" "$T/rows" "organ-stream --sampled: the same rows"
check_text "$(grep -rl hidden "$T/streamed" | grep -c .)" 0 "no query of a URL is stored"
check "it continues" organ-stream -q --sampled --output "$T/streamed" "$large?key=another"
check_text "$(cells status "$T/out" | sort -u | tr '\n' ' ')" "kept status " "all shards are kept"
check "of files too" organ-stream -q --sampled --output "$T/streamed2" "$T/split-large-00001-of-00003.gguf"
check_same "$T/streamed2/measures.tsv" "$T/rows" "organ-stream --sampled of files: the same rows"
check_exit 4 "a shard that is not there" organ-stream -q --sampled --output "$T/streamed3" \
    "$at/good/x-00001-of-00002.gguf"
check_exit 2 "--sampled --store" organ-stream --sampled --store "$T" --output "$T/streamed4" "$large"
printf '%s\n' "$large" "$verse?key=hidden" "$code" > "$T/list"
check "organ-fleet measure" organ-fleet measure -q --output "$T/fleet" - < "$T/list"
check_text "$(cells model,status,tensors "$T/out" | tr '\t\n' '  ')" \
    "model status tensors split-large done 4 verse done 39 lab-code-q4_k_m done 39 " "a fleet of URLs and files"
check_same "$T/fleet/models/split-large/measures.tsv" "$T/rows" "its rows"
check_text "$(sed 1d "$T/fleet/ranking.tsv" | grep -c .)" 3 "all are ranked"
check_text "$(grep -rl hidden "$T/fleet" | grep -c .)" 0 "no query of a URL is stored by organ-fleet"
: > "$T/log"
check "organ-fleet again" organ-fleet measure -q --output "$T/fleet" "$verse"
check_text "$(cells status "$T/out" | sort -u | tr '\n' ' ') $(($(wc -l < "$T/log")))" \
    "kept status  0" "results are kept"
check_exit 1 "a URL is not dissected" organ-fleet dissect -q --output "$T/fleet2" "$verse"
check_exit 1 "--by edge" organ-fleet measure -q --by edge --output "$T/fleet2" "$verse"
check "pipeline" organ-fleet pipeline -q --output "$T/fleet3" "$verse"
check "its report" test -s "$T/fleet3/report/Z_MEASURE_REPORT.html"

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
[ ! -e "$T/hurt.gguf.repair" ] && ok || bad "a journal is left"
# A repair that was killed: some tensors are new, and the old ones are in the journal.
cp "$T/verse.gguf" "$T/hurt.gguf"
printf 'XXXXXXXX' | dd of="$T/hurt.gguf" bs=1 seek=700000 conv=notrunc 2> /dev/null
organ-transplant -q "$T/hurt.gguf" "$LAB/lab-code-q4_k_m.gguf" --tensors blk.0.attn_q.weight \
    --match exact --in-place --undo "$T/hurt.gguf.repair"
check "--repair once more" organ-check "$T/hurt.gguf" --verify "$T/hurt.list" -q --repair "$verse"
check "the repaired file, again" cmp "$T/hurt.gguf" "$T/verse.gguf"
[ ! -e "$T/hurt.gguf.repair" ] && ok || bad "a journal is left by the second repair"
# A repair that is killed before any change of the model or of its journal, or while it undoes what a killed one did:
# the next one completes it.
SO=$T/inject.so
mkmodel "$T/little.gguf" -s 1 -n 2 blk.%.attn_q.weight:F32:32x8 output_norm.weight:F32:32
organ-check --hash "$T/little.gguf" | sed 's/little.gguf/hurt.gguf/' > "$T/little.list"
hurt() {
    rm -f "$T/hurt.gguf"* "$T/n"
    cp "$T/little.gguf" "$T/hurt.gguf"
    printf 'XXXXXXXX' | dd of="$T/hurt.gguf" bs=1 seek=$(($(wc -c < "$T/little.gguf") - 200)) conv=notrunc 2> /dev/null
}
repair() { organ-remote -q --repair "$at/good/little.gguf" organ-check "$T/hurt.gguf" --verify "$T/little.list"; }
# killed N [RM]: a repair whose programs organ-transplant are killed at change N, or that is killed before it removes
# the journal
killed() {
    { (PATH=$T/killing:$PATH ORGAN_BIN=$T/killing KILL_AT=$1 KILL_RM=${2:-} TMPDIR=$T/killing &&
        export PATH ORGAN_BIN KILL_AT KILL_RM TMPDIR && repair) > "$T/out" 2> "$T/err"; } 2> "$T/shell"
}
repaired() { # WHAT
    repair > "$T/out" 2> "$T/err"
    got=$?
    [ $got = 0 ] && cmp -s "$T/hurt.gguf" "$T/little.gguf" && [ ! -e "$T/hurt.gguf.repair" ] && ok ||
        bad "a repair killed $1: exit $got: $(head -n 1 "$T/err")"
}
mkdir "$T/killing"
ln -s "$BIN"/organ-* "$T/killing"
rm "$T/killing/organ-transplant"
cat > "$T/killing/organ-transplant" << END
#!/bin/sh
LD_PRELOAD=$SO FAULT_OP=kill FAULT_NTH=\$KILL_AT FAULT_COUNT=$T/n exec $BIN/organ-transplant -j 1 "\$@"
END
printf '#!/bin/sh\ncase "$KILL_RM $*" in "x "*.repair) kill -9 $PPID; exit 1 ;; esac\nexec %s "$@"\n' \
    "$(command -v rm)" > "$T/killing/rm"
chmod +x "$T/killing/organ-transplant" "$T/killing/rm"
if [ -z "${SANITIZED:-}" ] && compile -std=gnu11 -O1 -shared -fPIC -o "$SO" tests/faults/inject.c \
    -ldl 2> "$T/err"; then
    step=3
    if exhaustive; then step=1; fi
    hurt
    killed 0 x
    calls=$(cat "$T/n" 2> /dev/null) k=1 torn=0
    [ -e "$T/hurt.gguf.repair" ] && cmp -s "$T/hurt.gguf" "$T/little.gguf" && ok ||
        bad "no repair was killed before it removed its journal"
    repaired "before the journal is removed"
    check_text "$([ "${calls:-0}" -gt 5 ] && echo many)" many "a repair: ${calls:-0} changes"
    while [ $k -le "${calls:-0}" ]; do
        hurt
        killed $k
        if [ -e "$T/hurt.gguf.repair" ]; then
            torn=$k
            cp "$T/hurt.gguf" "$T/torn"
            cp "$T/hurt.gguf.repair" "$T/torn.repair"
        fi
        repaired "at change $k of $calls"
        k=$((k + step))
    done
    check_text "$([ $torn -gt 0 ] && echo torn)" torn "a repair that leaves a journal"
    k=1 calls=2
    while [ $torn -gt 0 ] && [ $k -le "$calls" ]; do
        cp "$T/torn" "$T/hurt.gguf"
        cp "$T/torn.repair" "$T/hurt.gguf.repair"
        rm -f "$T/n"
        killed 0
        calls=$(head -n 1 "$T/n")
        cp "$T/torn" "$T/hurt.gguf"
        cp "$T/torn.repair" "$T/hurt.gguf.repair"
        killed $k
        repaired "at change $k of $calls while it undoes"
        k=$((k + step))
    done
    rm -rf "$T/killing" # with the temporary folder of what was killed with -9
fi
# Fetched tensors must agree with the list before it is written.
printf 'XXXXXXXX' | dd of="$T/hurt.gguf" bs=1 seek=700000 conv=notrunc 2> /dev/null
cp "$T/hurt.gguf" "$T/hurt.copy"
sed 's/verse.gguf/hurt.gguf/' "$T/list" > "$T/hurt.list"
check_exit 1 "a repair with other data" organ-check "$T/hurt.gguf" --verify "$T/hurt.list" \
    -q --repair "$at/good/hurt.copy"
check "the model is unchanged" cmp "$T/hurt.gguf" "$T/hurt.copy"
dd if="$T/verse.gguf" of="$T/part.gguf" bs=1000 count=777 2> /dev/null
check_exit 4 "--complete that breaks off" organ-remote -q --retries 0 --complete "$at/short/verse.gguf" "$T/part.gguf"
n=$(wc -c < "$T/part.gguf")
check_text "$(head -c "$((n))" "$T/verse.gguf" | cmp - "$T/part.gguf" 2>&1)" \
    "" "the file is still a part"
check "--complete" organ-remote -q --complete "$verse" "$T/part.gguf"
check "the completed file" cmp "$T/part.gguf" "$T/verse.gguf"
dd if="$T/verse.gguf" of="$T/part.gguf" bs=1000 count=777 2> /dev/null
check "--complete of a server that sends pages of errors" \
    organ-remote -q --complete "$at/page/verse.gguf" "$T/part.gguf"
check "these are not taken for data" cmp "$T/part.gguf" "$T/verse.gguf"
dd if="$code" of="$T/other.gguf" bs=1000 count=777 2> /dev/null
cp "$T/other.gguf" "$T/other.copy"
check_exit 4 "another file is not completed" organ-remote --complete "$verse" "$T/other.gguf"
check "it stays as it is" cmp "$T/other.gguf" "$T/other.copy"

# ---- names of Hugging Face, of which nothing is cached -----------------------------------
mkdir -p "$T/repo/resolve/main" "$T/models/org" "$T/api/models/org" "$T/org/repo/resolve/main"
cp "$T/verse.gguf" "$T/repo/resolve/main/verse-Q4_K_M.gguf"
cp "$T/small.gguf" "$T/repo/resolve/main/verse-Q8_0.gguf"
cp "$T/verse.gguf" "$T/org/repo/resolve/main/verse-Q4_K_M.gguf"
printf '{"id": "org/repo", "siblings": [{"rfilename": "README.md"}, {"rfilename": "verse-Q4_K_M.gguf"},
    {"rfilename":"verse-Q8_0.gguf"}]}' > "$T/models/org/repo"
cp "$T/models/org/repo" "$T/api/models/org/repo"
HF_HUB_CACHE=$T/none HF_ENDPOINT=$at/
export HF_HUB_CACHE HF_ENDPOINT
for name in hf:org/repo:verse-Q4_K_M.gguf hf:org/repo:q4_k_m; do
    organ-keys "$name" --get general.name > "$T/out" 2> "$T/err"
    check_text "$(cat "$T/out")" lab-verse "$name on a server"
done
check_exit 1 "a repository of two models" organ-info hf:org/repo
check_text "$(grep -c 'name one of its files: verse-Q4_K_M.gguf verse-Q8_0.gguf' "$T/err")" 1 "which it has"
check_exit 4 "a repository that is not there" organ-info hf:org/none
# The token goes to that server only, and is never printed.
HF_ENDPOINT=$at/secret HF_TOKEN=hush
export HF_TOKEN
check "with a token" organ-info hf:org/repo:Q4_K_M
grep -c hush "$T/out" "$T/err" | grep -v ':0$' && bad "a token is printed" || ok
HF_ENDPOINT=$at/good
check_exit 4 "another address gets no token" organ-info \
    "$at/secret/org/repo/resolve/main/verse-Q4_K_M.gguf" --retries 0
HF_ENDPOINT=$at/away
check "a redirect to another host gets no token" organ-info hf:org/repo:verse-Q4_K_M.gguf --retries 0
unset HF_ENDPOINT HF_TOKEN HF_HUB_CACHE

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

# Numbers that no file has, as dash, awk and curl would each take them otherwise.
numbers='9007199254740993 99999999999999999999'
if exhaustive; then numbers="$numbers 9223372036854775807 18446744073709551616"; fi
for n in $numbers; do
    refused 4 'a size that no file has' total:$n
    check_exit 4 "a length of $n" organ-info "$at/length:$n/verse.gguf" --retries 0
done
refused 4 'a range that cannot be' total:0
refused 4 'does not say which bytes it sent' total:-5
refused 4 'does not say which bytes it sent' total:1e9
check_exit 4 "a size that no disk has" organ-info "$at/total:999999999999999/verse.gguf" --retries 0
check_text "$(grep -Ec 'Illegal|rror near|bytes 524288-524287' "$T/err")" 0 "no message of a shell"
# A list of pieces is made as it is used, so that a promise of 900 TB costs nothing.
head -c 1880000 "$T/verse.gguf" > "$T/part.gguf"
check_exit 4 "a completion that is promised 900 TB" organ-remote -q --retries 0 --piece 4096 --complete \
    "$at/total:900000000000000/verse.gguf" "$T/part.gguf"
check_text "$(cmp "$T/part.gguf" "$T/verse.gguf" 2>&1 | sed 's/.*: EOF on .*part.gguf.*/a part/')" "a part" \
    "the bytes that came are right"
# --whole takes no more than was promised.
check_exit 4 "--whole without a promise" organ-merge -q --whole "$code" "$at/unending/verse.gguf" -o "$T/no.gguf"
check_text "$(grep -c 'does not say how large this file is; give --limit SIZE' "$T/err")" 1 "its reason"
check_exit 4 "--whole beyond the limit" organ-merge -q --whole --limit 3M "$code" "$at/unending/verse.gguf" \
    -o "$T/no.gguf"
check_text "$(grep -c 'the server sends more than 3000000 bytes' "$T/err")" 1 "its reason"
check_text "$(grep -c . "$T/err")" 1 "one line"
n=$(($(wc -c < "$T/verse.gguf")))
check_exit 4 "--whole that is shorter than promised" organ-merge -q --whole "$code" "$at/total:$((n + 1))/verse.gguf" \
    -o "$T/no.gguf"
check_text "$(grep -c "verse.gguf: the answer ended after $n of $((n + 1)) bytes" "$T/err")" 1 "both numbers"
check "a promise with a leading zero" organ-merge -q --whole "$code" "$at/total:0$n/verse.gguf" -o "$T/zero.gguf"
check_exit 4 "a promise beyond the limit" organ-merge -q --whole --limit 1M "$code" "$verse" -o "$T/no.gguf"
check_text "$(grep -c 'more than --limit' "$T/err")" 1 "its reason"
check_absent "$T/no.gguf" "nothing is merged"
# A signal ends the requests at once: those of a server that stalls, too.
for args in "organ-info $at/stalls/verse.gguf" \
    "--whole --limit 9G organ-merge $code $at/unending/verse.gguf -o $T/no.gguf" \
    "--complete $at/stalls/verse.gguf $T/verse-part.gguf"; do
    head -c 5000 "$T/verse.gguf" > "$T/verse-part.gguf"
    # shellcheck disable=SC2086
    organ-remote -q $args > "$T/out" 2> "$T/err" &
    pid=$!
    n=0
    while [ -z "$(find "$T"/organ-remote.* -name '*.pid' -size +0 2> /dev/null)" ] && [ $n -lt 600 ]; do
        n=$((n + 1))
        sleep 0.1
    done
    curls=$(find "$T"/organ-remote.* -name '*.pid' -exec cat {} +)
    kill -TERM $pid
    wait $pid
    check_text "$?" 143 "stopped: ${args%% *}"
    n=0
    # shellcheck disable=SC2086
    while kill -0 $curls 2> /dev/null && [ $n -lt 300 ]; do n=$((n + 1)); sleep 0.1; done
    [ $n -lt 300 ] && ok || bad "curl goes on after a signal: ${args%% *}"
    check_text "$(find "$T" -name 'organ-remote.*')" "" "nothing stays: ${args%% *}"
done

refused 4 'does not say which bytes it sent' unsaid
refused 4 'HTTP status 416' shorter
refused 4 'HTTP status 302' loop
printf 'speed-time = 1\nspeed-limit = 1000\n' > "$T/hurry"
for how in stalls slow; do
    check_exit 4 "a server: $how" organ-info "$at/$how/verse.gguf" --retries 0 --curl "$T/hurry"
    check_text "$(grep -c "$how/verse.gguf: bytes 0-524287: the answer ended after [0-9]* bytes" "$T/err")" 1 \
        "$how: the reason"
done
check "links that expire" organ-transplant "$code" "$at/expiring/verse.gguf" --layers 1,3 -o "$T/got.gguf" --force
organ-transplant -q "$code" "$T/verse.gguf" --layers 1,3 -o "$T/want.gguf" --force
check "links that expire: the result" cmp "$T/want.gguf" "$T/got.gguf"

# ---- a large header, many shards, several hosts ------------------------------------------
SHARDS=10
if exhaustive; then SHARDS=62; fi
mkmodel "$T/many.gguf" -n 100000 blk.%.attn_norm.weight:F32:8
: > "$T/log"
check "100,000 tensors" organ-extract --list "$at/good/many.gguf"
check_text "$(($(wc -l < "$T/out")))" 100001 "100,000 tensors: all are listed"
[ "$(wc -l < "$T/log")" -le 6 ] && ok || bad "$(wc -l < "$T/log") requests for a header"
rm "$T/many.gguf"
# A block's FFN in a model of many shards: at most 1.01 times its bytes, and headers.
# shellcheck disable=SC2046
set -- $(awk -v shards=$SHARDS 'BEGIN {
    for (i = 0; i < shards; i++)
        print "blk." i ".ffn_up.weight:Q8_0:1024x" (i == 2 ? 2000 : 2),
            "blk." i ".ffn_down.weight:F16:512x" (i == 2 ? 2000 : 2)
}')
mkmodel "$T/wide62.gguf" "$@"
organ-assemble -q "$T/wide62.gguf" --shards $SHARDS -o "$T/k.gguf"
mkmodel "$T/base62.gguf" -s 3 blk.2.ffn_up.weight:Q8_0:1024x2000 blk.2.ffn_down.weight:F16:512x2000
: > "$T/log"
check "headers of $SHARDS shards" organ-extract --list "$at/good/k-00001-of-000$SHARDS.gguf"
check_text "$(($(wc -l < "$T/log")))" $SHARDS "one request for each"
headers=$(awk '{ n += $2 } END { print n }' "$T/log")
: > "$T/log"
check "a block of $SHARDS shards" organ-transplant "$T/base62.gguf" "$at/good/k-00001-of-000$SHARDS.gguf" \
    --type ffn --layers 2 -o "$T/got.gguf" --force
sent=$(awk '{ n += $2 } END { print n }' "$T/log") block=$((1024 * 2000 / 32 * 34 + 512 * 2000 * 2))
[ "$((sent - headers))" -le $((block + block / 100)) ] && ok || bad "$((sent - headers)) bytes for $block"
organ-transplant -q "$T/base62.gguf" "$T/k-00001-of-000$SHARDS.gguf" --type ffn --layers 2 -o "$T/want.gguf" --force
check "a block of $SHARDS shards: as from the files" cmp "$T/want.gguf" "$T/got.gguf"
# Answers break off after 1.5 MB: only the rest is asked for again.
: > "$T/log"
check "answers that break off" organ-transplant "$T/base62.gguf" "$at/parts/k-00001-of-000$SHARDS.gguf" --type ffn \
    --layers 2 -o "$T/got.gguf" --force
check "answers that break off: the result" cmp "$T/want.gguf" "$T/got.gguf"
sent=$(awk '{ n += $2 } END { print n }' "$T/log")
[ "$((sent - headers))" -le $((block + block / 50)) ] && ok || bad "$((sent - headers)) bytes for $block in parts"
# Shards on different hosts, and requests of at most 256 KiB.
mkdir "$T/elsewhere" "$T/elsewhere/x"
mv "$T/split-00002-of-00003.gguf" "$T/elsewhere/x/second"
python3 tests/cli/remote_server.py "$T/elsewhere" "$T/log2" > "$T/port2" &
server="$server $!"
i=0
while [ ! -s "$T/port2" ] && [ $i -lt 600 ]; do i=$((i + 1)); sleep 0.1; done
printf '%s\n' "$at/good/split-00001-of-00003.gguf" "http://127.0.0.1:$(cat "$T/port2")/good/x/second?a=b" \
    "$at/moved/split-00003-of-00003.gguf" > "$T/urls"
: > "$T/log"
: > "$T/log2"
check "shards on different hosts" organ-transplant "$code" "$at/good/any" --urls "$T/urls" --piece 262144 \
    --type ffn,embedding -o "$T/got.gguf" --force
organ-transplant -q "$code" "$T/verse.gguf" --type ffn,embedding -o "$T/want.gguf" --force
check "shards on different hosts: the result" cmp "$T/want.gguf" "$T/got.gguf"
check_text "$(cat "$T/log" "$T/log2" | awk '$2 > m { m = $2 } END { print m }')" 262144 "the largest request"
check "both were asked" test -s "$T/log2"

# ---- lighttpd ----------------------------------------------------------------------------
if command -v lighttpd > /dev/null 2>&1; then
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    printf 'server.document-root = "%s"\nserver.port = %s\nserver.bind = "127.0.0.1"\n' \
        "$T" "$port" > "$T/lighttpd.conf"
    lighttpd -D -f "$T/lighttpd.conf" 2> "$T/lighttpd.log" &
    server="$server $!"
    i=0
    while ! curl -s -o /dev/null "http://127.0.0.1:$port/list" && [ $i -lt 600 ]; do i=$((i + 1)); sleep 0.1; done
    check "lighttpd: a donor" organ-transplant "$code" "http://127.0.0.1:$port/verse.gguf" \
        --type ffn,embedding -o "$T/got.gguf" --force
    check "lighttpd: the result" cmp "$T/want.gguf" "$T/got.gguf"
    check "lighttpd: large tensors" organ-measure "http://127.0.0.1:$port/split-large-00001-of-00003.gguf"
    check_text "$(cat "$T/out")" "$(cat "$T/rows")" "lighttpd: the rows"
    organ-stack -q --drop 1-3 "$T/verse.gguf" -o "$T/tiny.gguf"
    check "lighttpd: a file that one request gets" organ-check "http://127.0.0.1:$port/elsewhere/../tiny.gguf"
fi

# ---- secrets ----------------------------------------------------------------------------
printf 'header = "Authorization: Bearer hush"\n' > "$T/curlrc"
mkdir "$T/bin"
cat > "$T/bin/curl" << EOF
#!/bin/sh
echo "\$*" >> "$T/arguments"
ps -ef >> "$T/processes" 2> /dev/null
exec "$(command -v curl)" "\$@"
EOF
chmod +x "$T/bin/curl"
PATH=$T/bin:$PATH
echo "$at/secret/verse.gguf?key=hidden" > "$T/by-list"
check "a token, and a URL in a file" organ-remote --curl "$T/curlrc" --urls "$T/by-list" organ-info http://127.0.0.1/
check_text "$(cat "$T/arguments" "$T/processes" | grep -Ec 'hush|key=hidden')" 0 \
    "no process has a secret in its arguments"
check "a token" organ-info --curl "$T/curlrc" "$at/secret/verse.gguf?key=hidden"
cat "$T/out" "$T/err" > "$T/said"
check_exit 4 "no token" organ-info "$at/secret/verse.gguf?key=hidden" --retries 0
cat "$T/out" "$T/err" >> "$T/said"
check_text "$(grep -Ec 'hush|hidden' "$T/said")" 0 "no message has a secret"
check_text "$(find "$T" -name 'organ-remote.*' | grep -c .)" 0 "no temporary folder is left"
finish
