#!/bin/sh
# shellcheck disable=SC1091
# inputs.sh - the files that a checkpoint or an adapter may be read from: none is replaced by an output, with
# --force either, a change of each is noticed, none is larger than its limit, and each is listed in docs/security.md.
. "$(dirname "$0")/lib.sh"

# The names that the library reads beside weights.
sed -n 's/^beside //p' src/hf/files.txt > "$T/names"
[ "$(wc -l < "$T/names")" -ge 13 ] && ok || bad "the table of files has $(wc -l < "$T/names") rows"
while read -r name most; do
    grep -F "| $most MiB " docs/security.md | grep -qF "$name" && ok ||
        bad "docs/security.md has no $name with $most MiB"
done < "$T/names"

fill() { # FOLDER: a checkpoint with each of these files
    cp -r "$D/hf/falcon" "$1" && mkdir "$1/additional_chat_templates" || bad "a copy of falcon"
    while read -r name most; do [ -e "$1/$name" ] || echo '{}' > "$1/$name"; done < "$T/names"
    echo '{{ x }}' > "$1/additional_chat_templates/tool.jinja"
    rm -f "$1/adapter_config.json" "$1/model.safetensors.index.json" "$1/tokenizer.model"
}

# kept FOLDER COMMAND...: no file below FOLDER becomes its output.
kept() {
    folder=$1
    shift
    find "$folder" -type f > "$T/files"
    while IFS= read -r file; do
        cp "$file" "$T/before"
        check_error 2 "also an input" "$* -o $file" "$@" -o "$file" --force -q
        check_same "$file" "$T/before" "$file is kept"
        ln -s "$file" "$T/link"
        check_error 2 "also an input" "a link to $file" "$@" -o "$T/link" --force -q
        rm "$T/link"
    done < "$T/files"
}

fill "$T/ck"
kept "$T/ck" organ-keys "$T/ck" --set general.name=str:x
kept "$T/ck" organ-keys "$T/ck/model.safetensors" --set general.name=str:x
mkdir "$T/ad"
cp "$D/hf/lora-falcon/adapter_model.safetensors" "$T/ad"
sed "s|\"base_model_name_or_path\": \"[^\"]*\"|\"base_model_name_or_path\": \"$T/ck\"|" \
    "$D/hf/lora-falcon/adapter_config.json" > "$T/ad/adapter_config.json"
kept "$T/ad" organ-lora --from "$T/ad"
kept "$T/ck" organ-lora --from "$T/ad"
kept "$T/ad" organ-lora --from "$T/ad/adapter_model.safetensors"

# An adapter that names itself, or another adapter, as its base.
for base in ad2 ad; do
    rm -rf "$T/ad2"
    cp -r "$T/ad" "$T/ad2"
    cp "$D/hf/falcon/config.json" "$T/ad2"
    sed "s|$T/ck|$T/$base|" "$T/ad/adapter_config.json" > "$T/ad2/adapter_config.json"
    organ-info "$T/ad2" > "$T/out" 2> "$T/err"
    [ $? -le 3 ] && ok || bad "an adapter whose base is $base: $(head -n 1 "$T/err")"
done

# Limits of those that this checkpoint is read from. A file with a hole takes no room.
read=" config.json generation_config.json tokenizer_config.json special_tokens_map.json added_tokens.json \
tokenizer.json "
while read -r name most; do
    case $read in *" $name "*) ;; *) continue ;; esac
    rm -rf "$T/big"
    cp -r "$T/ck" "$T/big"
    dd if=/dev/null of="$T/big/$name" bs=1048576 seek=$((most + 1)) 2> "$T/dd"
    organ-keys "$T/big" > "$T/out" 2> "$T/err"
    got=$?
    case $name in config.json) want=3 ;; *) want=0 ;; esac # without a tokenizer it is a model still
    [ $got = $want ] && grep -q "the limit for this file is $((most * 1048576))" "$T/err" && ok ||
        bad "$name of $((most + 1)) MiB: exit $got: $(head -n 1 "$T/err")"
done < "$T/names"
finish
