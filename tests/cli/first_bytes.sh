#!/bin/sh
# shellcheck disable=SC1091
# first_bytes.sh - files of other formats are named alike by path, on a pipe, and under any name; and files
# that are models are opened under any name.
. "$(dirname "$0")/lib.sh"

# num BYTES NUMBER: a little-endian number.
num() {
    text='' left=$2 k=0
    while [ $k -lt "$1" ]; do
        text=$text$(printf '\\0%03o' $((left % 256)))
        left=$((left / 256)) k=$((k + 1))
    done
    printf '%b' "$text"
}

# named WHAT TEXT FILE: every reader says TEXT of the file, under any name.
named() {
    for name in x.gguf x.bin x.safetensors x.sft x.dat model x.json; do
        mkdir -p "$T/n"
        cp "$3" "$T/n/$name"
        check_error 3 "$2" "$1 as $name" organ-info "$T/n/$name"
        rm "$T/n/$name"
    done
    check_error 3 "$2" "$1 on a pipe" organ-info - < "$3"
    check_error 3 "$2" "$1, measured on a pipe" organ-measure - < "$3"
    # shellcheck disable=SC2002 # a pipe, not a file
    cat "$3" | check_error 3 "$2" "$1, assembled from a pipe" organ-assemble - -o "$T/never.gguf"
    check_absent "$T/never.gguf" "$1"
}

organ-imatrix convert "$LAB/lab-base.imatrix.gguf" --format dat -o "$T/im" -q || bad "imatrix"
named "an importance matrix" "this is an importance matrix in the older format" "$T/im"
printf 'version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n' > "$T/f"
named "an LFS pointer" "this is a Git LFS pointer" "$T/f"
printf '<!DOCTYPE html>\n<html>\n' > "$T/f"
named "a web page" "this is an HTML page" "$T/f"
printf '{"error": "not found"}' > "$T/f"
named "an answer" 'this is JSON, not a' "$T/f"
printf '\357\273\277 \n{\n  "architectures": ["LlamaForCausalLM"]\n}\n' > "$T/f"
named "a configuration" "this is JSON, not a" "$T/f"
printf '[\n  1\n]\n' > "$T/f"
named "a list" "this is JSON, not a" "$T/f"
{ printf "MZqFpD='\n" && head -c 4000 /dev/zero; } > "$T/f"
named "a llamafile" "this is a llamafile" "$T/f"
{ printf '\177ELF\2\1\1' && head -c 4000 /dev/zero; } > "$T/f"
named "a program" "this is a program" "$T/f"
{ printf lmgg && num 4 51864 && num 4 1500 && head -c 4000 /dev/zero; } > "$T/f"
named "a model of whisper.cpp" "whisper.cpp" "$T/f"
{ printf tjgg && num 4 3 && head -c 4000 /dev/zero; } > "$T/f"
named "a GGJT file" "this is a GGJT file" "$T/f"
printf 'PK\3\4 and so on' > "$T/f"
named "a ZIP archive" "this is a ZIP archive" "$T/f"

# A model that was copied as text: bytes outside of UTF-8 are replaced, here in the length of a string.
{
    printf GGUF && num 4 3 && num 8 0 && num 8 2 && num 8 20 && printf general.architecture && num 4 8
    num 8 5 && printf llama && num 8 12
    printf 'general.name' && num 4 8 && printf '\357\277\275\0\0\0\0\0\0\0' && head -c 300 /dev/zero
} > "$T/f"
named "a model copied as text" "U+FFFD" "$T/f"
# The same character in a name does not count as damage.
{
    printf GGUF && num 4 3 && num 8 0 && num 8 1 && num 8 12 && printf general.name && num 4 8
    num 8 3 && printf '\357\277\275'
} > "$T/f"
check "U+FFFD in a name" organ-keys "$T/f"

# Models under other names. The length of a header may look like the beginning of another format.
for kind in safetensors gguf; do
    if [ $kind = gguf ]; then cp "$LAB/lab-verse-q4_k_m.gguf" "$T/m"
    else
        header='{"a":{"dtype":"F32","shape":[2,2],"data_offsets":[0,16]}}'
        # 35615 is 1f 8b, as in gzip files
        { num 8 35615 && printf '%s%*s' "$header" $((35615 - ${#header})) '' && head -c 16 /dev/zero; } > "$T/m"
    fi
    organ-extract --list "$T/m" > "$T/want" 2> "$T/err" || bad "$kind: $(cat "$T/err")"
    for name in y.gguf y.bin y.safetensors y.sft y.dat y; do
        cp "$T/m" "$T/$name"
        check "$kind as $name" organ-extract --list "$T/$name"
        check_same "$T/out" "$T/want" "$kind as $name"
        rm "$T/$name"
    done
done
check_error 3 "this is a safetensors file" "safetensors on a pipe" organ-info - < "$D/hf/falcon/model.safetensors"
header='{"a":{"dtype":"BOOL","shape":[3],"data_offsets":[0,3]}}'
{ num 8 ${#header} && printf '%s123' "$header"; } > "$T/m"
check_error 3 "this is a safetensors file" "a short header on a pipe" organ-measure - < "$T/m"
finish
