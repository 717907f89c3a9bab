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
{ printf "jartsr='\n" && head -c 4000 /dev/zero; } > "$T/f"
named "a llamafile without a Windows part" "this is a llamafile" "$T/f"
# zip_end PREFIX NAME COMMENT [zip64]: PREFIX, then the end of a ZIP archive with a file NAME: its entry in
# the directory and the last record; zip64 puts the records of large archives between them.
zip_end() {
    cat "$1"
    [ -z "$4" ] || { printf 'PK\3\4' && head -c 26 /dev/zero; }
    printf 'PK\1\2' && head -c 24 /dev/zero && num 2 3 && num 2 0 && num 2 0 && head -c 12 /dev/zero && printf 'x.h'
    printf 'PK\1\2' && head -c 24 /dev/zero && num 2 ${#2} && num 2 5 && num 2 2 && head -c 12 /dev/zero
    printf '%sextraco' "$2"
    size=$((49 + 46 + ${#2} + 7))
    if [ "$4" = zip64 ]; then
        printf 'PK\6\6' && head -c 36 /dev/zero && num 8 $size && num 8 99
        printf 'PK\6\7' && head -c 16 /dev/zero
        size=4294967295
    fi
    printf 'PK\5\6' && head -c 8 /dev/zero && num 4 $size && num 4 7 && num 2 ${#3} && printf '%s' "$3"
}
# With the name of a file, the end of it is read; a pipe has only its first bytes.
in_zip() { # WHAT TEXT FILE
    for name in x.gguf x.safetensors x.sft model x.llamafile; do
        cp "$3" "$T/n/$name"
        check_error 3 "$2" "$1 as $name" organ-info "$T/n/$name"
        rm "$T/n/$name"
    done
}
printf '\177ELF\2\1\1 and so on' > "$T/elf"
printf 'PK\3\4 and so on' > "$T/pk"
printf '#!/bin/sh\n' > "$T/shell"
for z in '' zip64; do
    for p in elf shell; do
        zip_end "$T/$p" "a/it's.gguf" "a comment" "$z" > "$T/f"
        in_zip "$p with a ZIP $z" "a program with a ZIP archive at its end, not a" "$T/f"
        in_zip "$p with a ZIP $z" "the model 'a/it's.gguf' is in it; take the model out: unzip" "$T/f"
    done
    zip_end "$T/pk" m.gguf "" "$z" > "$T/f"
    in_zip "a ZIP archive $z" "this is a ZIP archive, not a" "$T/f"
    in_zip "a ZIP archive $z" "the model 'm.gguf' is in it" "$T/f"
    zip_end "$T/elf" m.bin "" "$z" > "$T/f"
    in_zip "another ZIP $z" "this is a program, not a" "$T/f"
    # Lengths that run past the end of the directory.
    zip_end "$T/elf" m.gguf "" "$z" > "$T/g"
    for cut in 1 30 60 100; do
        tail -c $(($(wc -c < "$T/g") - 18 - cut)) "$T/g" > "$T/f"
        check_error 3 "a" "a ZIP $z cut by $cut" organ-info "$T/f"
    done
done
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
# Others take it for text in another encoding, or convert the ends of lines; here in lengths of strings.
{
    printf GGUF && num 4 3 && num 8 0 && num 8 2 && num 8 12 && printf general.name && num 4 8
    printf '\302\200\0\0\0\0\0\0\0' && head -c 300 /dev/zero
} > "$T/f"
named "a model copied as text of one byte per character" "took it for text in another encoding" "$T/f"
{
    printf GGUF && num 4 3 && num 8 0 && num 8 2
    for key in general.u1 general.u2; do printf '\r\n\0\0\0\0\0\0\0%s' $key && num 4 4 && num 4 1; done
    head -c 300 /dev/zero
} > "$T/f"
named "a model with other line ends" "converted its line ends" "$T/f"
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
