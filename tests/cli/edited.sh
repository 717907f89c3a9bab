#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2016
# edited.sh - a manifest that was changed by hand, with sed or jq, is honoured. If it
# contradicts its files, it is refused with exit 3 and no output.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
VERSE=$LAB/lab-verse-q4_k_m.gguf
organ-extract $VERSE --output "$T/verse" || bad "extract"
cp "$T/verse/manifest.json" "$T/manifest"
MF=$T/verse/manifest.json

reset() {
    cp "$T/manifest" "$MF"
    rm -f "$T/out.gguf"
}

# edit WHAT SED-SCRIPT: the manifest edited (and really changed), assembled to out.gguf
edit() {
    reset
    sed "$2" "$T/manifest" > "$MF"
    if cmp -s "$MF" "$T/manifest"; then bad "$1: the edit changed nothing"; fi
    check "$1: assemble" organ-assemble "$T/verse" --output "$T/out.gguf"
    rm -rf "$T/again"
    check "$1: extract" organ-extract "$T/out.gguf" --output "$T/again"
}

# The line of a metadata key in the result.
kv() {
    sed -n "s/^ *{\"key\": \"$1\", \(.*\)},*\$/\1/p" "$T/again/manifest.json"
}

count() {
    organ-extract "$T/out.gguf" --list | sed 1d | wc -l | tr -d ' '
}

tensors=$(organ-extract $VERSE --list | sed 1d | wc -l | tr -d ' ')
keys=$(grep -c '{"key": ' "$T/manifest")

arch=$(sed -n 's/.*"general.architecture", "type": "str", "value": "\([^"]*\)".*/\1/p' "$T/manifest")
edit "a changed value" "s/\(\"$arch.context_length\", \"type\": \"u32\", \"value\": \)[0-9]*/\18192/"
check_text "$(kv "$arch.context_length")" '"type": "u32", "value": 8192' "a changed value"
check_text "$(grep -c '{"key": ' "$T/again/manifest.json")" "$keys" "no key more or less"
edit "a changed type" \
    "s/\(\"$arch.context_length\", \"type\": \)\"u32\", \"value\": [0-9]*/\1\"u64\", \"value\": 18446744073709551615/"
check_text "$(kv "$arch.context_length")" '"type": "u64", "value": 18446744073709551615' "a changed type"
edit "a deleted key" '/"general.file_type"/d'
check_text "$(kv general.file_type)" "" "a deleted key"
check_text "$(grep -c '{"key": ' "$T/again/manifest.json")" $((keys - 1)) "one key less"
note='"key": "my.note", "type": "arr", "items": "f32", "value": [0.1, {"bits": "7fc00001"}, -0]'
edit "an added key" 's/^  "metadata": \[/&{'"$note"'},/'
check_text "$(kv my.note)" '"type": "arr", "items": "f32", "value": [0.1, {"bits": "7fc00001"}, -0.0]' "an added key"
# Programs that make an integer of -0 would lose the sign on the way through.
check_text "$(grep -c -e '[[ ]-0[],}]' "$T/manifest")" 0 "no negative zero without its point"
check_text "$(grep -c -e ', -0\.0[],]' "$T/manifest")" 1 "negative zeros in the scores of the vocabulary"
edit "an added string that is not UTF-8" \
    's/^  "metadata": \[/&{"key": "my.bytes", "type": "str", "value": {"base64": "\/wD+"}},/'
check_text "$(kv my.bytes)" '"type": "str", "value": {"base64": "/wD+"}' "a string that is not UTF-8"

edit "members that are null" '/"name": "blk.1.attn_q.weight"/s/}\(,*\)$/, "history": null, "z": null}\1/'
check_same "$T/out.gguf" $VERSE "members that are null"

# The manifest has the name in two places. Either one is enough, and the key wins.
edit "renamed by the key" 's/\("general.name", "type": "str", "value": "\)[^"]*/\1by key/'
check_text "$(kv general.name)" '"type": "str", "value": "by key"' "renamed by the key"
edit "renamed by model.name" 's/^\(    "name": "\)[^"]*\(",\)$/\1by model\2/'
check_text "$(kv general.name)" '"type": "str", "value": "by model"' "renamed by model.name"
edit "renamed in both" \
    's/\("general.name", "type": "str", "value": "\)[^"]*/\1by key/; s/^\(    "name": "\)[^"]*\(",\)$/\1by model\2/'
check_text "$(kv general.name)" '"type": "str", "value": "by key"' "the key wins"

# So do the architecture and the alignment.
edit "architecture by model.architecture" 's/^\(    "architecture": \)"[^"]*",$/\1"mine",/'
check_text "$(kv general.architecture)" '"type": "str", "value": "mine"' "architecture by model.architecture"
edit "architecture by both" 's/^\(    "architecture": \)"[^"]*",$/\1"mine",/;
    s/\("general.architecture", "type": "str", "value": "\)[^"]*/\1by key/'
check_text "$(kv general.architecture)" '"type": "str", "value": "by key"' "architecture: the key wins"
edit "alignment by model.alignment" 's/^\(    "alignment": \)32,$/\1512,/'
check_text "$(kv general.alignment)" '"type": "u32", "value": 512' "alignment by model.alignment"
organ-extract "$T/out.gguf" --list | awk -F '\t' "$BY_NAME"'NR > 1 && col("offset") % 512' > "$T/a"
check_text "$(cat "$T/a")" "" "alignment by model.alignment: offsets"
edit "alignment by both" 's/^\(    "alignment": \)32,$/\1512,/;
    s/^  "metadata": \[/&{"key": "general.alignment", "type": "u32", "value": 64},/'
check_text "$(kv general.alignment)" '"type": "u32", "value": 64' "alignment: the key wins"

# A plain sed over the file finds the member of "model" and nothing else.
edit "renamed by a plain sed" "s/\"name\": \"lab-verse\"/\"name\": \"by sed\"/"
check_text "$(kv general.name)" '"type": "str", "value": "by sed"' "renamed by a plain sed"

# Tensors out and in another order.
edit "a removed tensor" '/"name": "blk.2.ffn_up.weight"/d'
check_text "$(count)" $((tensors - 1)) "one tensor less"
check_text "$(organ-extract "$T/out.gguf" --list | grep -c 'blk.2.ffn_up')" 0 "that tensor is gone"
organ-extract "$T/out.gguf" --tensors 'blk.3.*' --output - > "$T/a"
organ-extract $VERSE --tensors 'blk.3.*' --output - > "$T/b"
check_same "$T/a" "$T/b" "the others are as they were"
reset
awk '/"name": "blk.1.attn_q.weight"/ { kept = $0; next } { print } /"name": "blk.3.attn_q.weight"/ { print kept }' \
    "$T/manifest" > "$MF"
check "reordered" organ-assemble "$T/verse" --output "$T/out.gguf"
organ-extract "$T/out.gguf" --list | without offset,part | sort > "$T/a"
organ-extract $VERSE --list | without offset,part | sort > "$T/b"
check_same "$T/a" "$T/b" "reordered: the same tensors"
check_text "$(organ-extract "$T/out.gguf" --list | cells name | grep -A 1 '^blk.3.attn_q.weight' | tail -n 1)" \
    blk.1.attn_q.weight "reordered: the place"
organ-extract "$T/out.gguf" --output - | cksum > "$T/a"
organ-extract "$T/verse" --output - | cksum > "$T/b"
check_same "$T/a" "$T/b" "reordered: the data follow"
edit "another alignment" 's/^  "metadata": \[/&{"key": "general.alignment", "type": "u32", "value": 4096},/'
check_text "$(sed -n 's/^    "alignment": \([0-9]*\),/\1/p' "$T/again/manifest.json")" 4096 "another alignment"
organ-extract "$T/out.gguf" --list | awk -F '\t' "$BY_NAME"'NR > 1 && col("offset") % 4096' > "$T/a"
check_text "$(cat "$T/a")" "" "offsets are aligned to 4096"

if have jq "JSON read by jq"; then
    reset
    jq '(.metadata[] | select(.key == "general.name") | .value) = "by jq" |
        del(.tensors[] | select(.class == "organ" and .block == 1))' "$T/manifest" > "$MF"
    check "rewritten by jq" organ-assemble "$T/verse" --output "$T/out.gguf"
    check_text "$(organ-extract "$T/out.gguf" --list |
        awk -F '\t' "$BY_NAME"'col("class") == "organ" && col("block") == 1' | wc -l | tr -d ' ')" 0 \
        "jq took the organs of block 1 out"
    jq . "$T/manifest" > "$MF"
    rm -f "$T/out.gguf"
    check "reformatted by jq" organ-assemble "$T/verse" --output "$T/out.gguf"
    check_same "$T/out.gguf" $VERSE "reformatted by jq: the same model"
    # odd bytes survive jq (integers above 2^53 do not: old versions of it round them)
    for f in kv-strings-binary kv-odd-keys padding-nonzero trailing-bytes names-not-utf8; do
        rm -rf "$T/v" "$T/v.gguf"
        organ-extract -q $D/gguf/$f.gguf --output "$T/v"
        jq -S . "$T/v/manifest.json" > "$T/v.json" && cp "$T/v.json" "$T/v/manifest.json"
        check "$f through jq" organ-assemble "$T/v" --output "$T/v.gguf"
        check_same "$T/v.gguf" $D/gguf/$f.gguf "$f through jq: the same model"
    done
fi

# refuse WHAT TEXT SED-SCRIPT: exit 3, one line with TEXT, and no output
refuse() {
    reset
    sed "$3" "$T/manifest" > "$MF"
    if cmp -s "$MF" "$T/manifest"; then bad "$1: the edit changed nothing"; fi
    check_error 3 "$2" "$1" organ-assemble "$T/verse" --output "$T/out.gguf"
    check_text "$(grep -c '; ' "$T/err")" 1 "$1: what to do"
    check_absent "$T/out.gguf" "$1"
}
Q='"name": "blk.1.attn_q.weight"'
refuse "a wrong size" "blk.1.attn_q.weight" "/$Q/s/\"bytes\": [0-9]*/\"bytes\": 77/"
refuse "a wrong dtype" "dtype" "/\"name\": \"blk.1.attn_norm.weight\"/s/\"F32\"/\"I32\"/"
refuse "a wrong dtype of another size" "blk.1.attn_q.weight" "/$Q/s/\"dtype\": \"[^\"]*\"/\"dtype\": \"F32\"/"
refuse "wrong dims" "dims" "/$Q/s/\"dims\": \[\([0-9]*\), \([0-9]*\)\]/\"dims\": [\1, \2, 1]/"
refuse "a wrong name" "name" "s/$Q/\"name\": \"blk.1.attn_z.weight\"/"
refuse "another tensor's file" "different values" "/$Q/s/blk_1_attn_q\.bin/blk_2_attn_q.bin/"
refuse "a missing file" "does not exist" "/$Q/s/blk_1_attn_q\.bin/blk_1_attn_z.bin/"
refuse "a path out of the folder" "path" "/$Q/s/\"file\": \"[^\"]*\"/\"file\": \"..\/manifest\"/"
refuse "a wrong sha256" "sha256" "/$Q/s/\"sha256\": \"[0-9a-f]\{8\}/\"sha256\": \"01234567/"
refuse "a tensor twice" "twice" "/$Q/{p;}"
refuse "a key twice" "twice" '/"general.name", "type"/{p;}'
refuse "a model.alignment that is none" "power of two" 's/^\(    "alignment": \)32,$/\148,/'
refuse "a model.alignment beyond 32 bits" "alignment" 's/^\(    "alignment": \)32,$/\14294967328,/'
refuse "a layout that is none" '"layout" must be' 's/^  "layout": {/  "layout": 5, "was": {/'
refuse "a model that is none" '"model" must be' 's/^  "model": {/  "model": [], "was": {/'
refuse "files that are no list" '"files" must be' 's/^  "layout": {/&"files": {},/'
refuse "a history that is none" '"history" must be' "/$Q/s/}\\(,*\\)\$/, \"history\": {}}\\1/"
refuse "no JSON" "offset" '$d'
refuse "an alignment that is none" "alignment" \
    's/^  "metadata": \[/&{"key": "general.alignment", "type": "u32", "value": 48},/'
reset
sed "/$Q/s/\"sha256\": \"[0-9a-f]\{8\}/\"sha256\": \"01234567/" "$T/manifest" > "$MF"
check "--no-verify" organ-assemble "$T/verse" --no-verify --output "$T/out.gguf"
check_same "$T/out.gguf" $VERSE "--no-verify"

# Data changed behind the manifest's back.
reset
f=$T/verse/skeleton/blk_1_attn_q.bin
cp "$f" "$T/saved"
printf x | dd of="$f" bs=1 seek=5000 conv=notrunc 2> /dev/null
check_error 3 "blk.1.attn_q.weight" "changed data" organ-assemble "$T/verse" --output "$T/out.gguf"
check_absent "$T/out.gguf" "changed data"
head -c 5000 "$T/saved" > "$f"
check_error 3 "blk_1_attn_q.bin" "data cut short" organ-assemble "$T/verse" --output "$T/out.gguf"
rm "$f"
check_error 3 "blk_1_attn_q.bin" "a file removed" organ-assemble "$T/verse" --output "$T/out.gguf"
ln -s ../../saved "$f"
check "a link to the data" organ-assemble "$T/verse" --output "$T/out.gguf"
check_same "$T/out.gguf" $VERSE "a link to the data"
check_error 4 "nothing" "no directory" organ-assemble "$T/nothing" --output "$T/out2.gguf"
organ-extract -q $VERSE --output - > "$T/records.bin"
check_error 2 "consists of organ records" "records for a model" organ-assemble "$T/records.bin" --output "$T/out2.gguf"
check_absent "$T/out2.gguf" "after mistakes"

# An edited class counts wherever organs are selected, listed or copied.
organ-extract -q $LAB/lab-verse-q4_k_m.gguf --output "$T/cls"
sed '/"blk.0.attn_q.weight"/s/"class": "skeleton"/"class": "other"/' "$T/cls/manifest.json" > "$T/cls.json"
mv "$T/cls.json" "$T/cls/manifest.json"
class_of() { "$@" | awk -F '\t' "$BY_NAME"'col("name") == "blk.0.attn_q.weight" { print col("class") }'; }
check "class edited, listed" test "$(class_of organ-extract "$T/cls" --list)" = other
check "class edited, measured" test "$(class_of organ-measure -q "$T/cls" --type other)" = other
check "class edited, left out of its old one" test -z "$(class_of organ-measure -q "$T/cls" --type skeleton)"
organ-extract -q "$T/cls" --output "$T/cls2"
organ-purify -q "$T/cls" --method haar --type organ --layers 0 --output "$T/cls3"
organ-graft -q --source $LAB/lab-code-q4_k_m.gguf --target "$T/cls" --type other --output "$T/cls4"
for d in cls2 cls3 cls4; do
    check "class edited, in $d" test "$(class_of organ-extract "$T/$d" --list)" = other
done
organ-compare -q "$T/cls" "$T/cls4" > "$T/table"
check "class edited, grafted by it" awk -F '\t' \
    "$BY_NAME"'col("status") == "differs" { n++; ok = col("name") == "blk.0.attn_q.weight" } END { exit !(ok &&
        n == 1) }' "$T/table"

# Bytes that follow a model are never read through a link, even if it leads to the same bytes.
organ-extract -q $D/gguf/trailing-bytes.gguf --output "$T/linked" || bad "trailing bytes"
mv "$T/linked/trailing-00001.raw" "$T/outside.raw"
ln -s "$T/outside.raw" "$T/linked/trailing-00001.raw"
check_error 3 "trailing-00001.raw" "trailing bytes through a link" organ-assemble "$T/linked" --output "$T/linked.gguf"
check_absent "$T/linked.gguf" "trailing bytes through a link"
finish
