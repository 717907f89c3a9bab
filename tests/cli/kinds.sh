#!/bin/sh
# kinds.sh - files that are not GGUF are named, with what to do; words that are misspelt get the
# nearest known one; and counts with a unit.
. "$(dirname "$0")/lib.sh"

VERSE=$LAB/lab-verse-q4_k_m.gguf

kind() { # BYTES TEXT FIX
    # shellcheck disable=SC2059 # escapes of the bytes
    printf "$1" > "$T/k.gguf"
    check_error 3 "$2" "a file: $2" organ-extract "$T/k.gguf" --list
    check_text "$(grep -cF -e "$3" "$T/err")" 1 "the cure: $2"
    check_error 3 "$2" "a pipe: $2" sh -c "cat '$T/k.gguf' | organ-keys -"
}
kind '<!DOCTYPE html><html>' "this is an HTML page, not a GGUF model" "fetch the model again"
kind '<!doctype html>' "this is an HTML page" "fetch the model again"
kind '<html lang="en">' "this is an HTML page" "fetch the model again"
kind '<?xml version="1.0"?><Error>' "this is an XML document" "fetch the model again"
kind 'version https://git-lfs.github.com/spec/v1\noid sha256:00\n' "this is a Git LFS pointer" "git lfs pull"
kind 'PK\003\004abcdef' "this is a ZIP archive" "convert a PyTorch model"
kind '\037\213\010\0abcd' "this is a gzip file" "gunzip -c"
kind '\050\265\057\375abcd' "this is a zstd file" "zstd -d"
kind '\3757zXZ\0abc' "this is an xz file" "xz -dc"
kind 'BZh91AY' "this is a bzip2 file" "bzip2 -dc"
kind 'lmgg\1\0\0\0' "this is a ggml file" "use a GGUF version of the model"
kind 'fmgg\1\0\0\0' "this is a GGMF file" "convert the original model again"
kind 'tjgg\1\0\0\0' "this is a GGJT file" "convert the original model again"
kind '\200\002ctorch' "this is a Python pickle" "convert the PyTorch model"
kind '{"error":"Repository not found"}' "error message: {\"error\":\"Repository not found\"}" "check the address"
kind 'Entry not found' "this is a text file, not a GGUF model: Entry not found" "check the address"
kind '\n  <!DocType HTML><p>' "this is an HTML page" "fetch the model again"
kind '\357\273\277<?xml version="1.0"?>' "this is an XML document" "fetch the model again"
kind '\200\004\225\211\0\0\0' "this is a Python pickle" "convert the PyTorch model"
kind '\223NUMPY\1\0v\0' "this is an array of NumPy" "from which it was made"
kind '\211HDF\r\n\032\n' "this is an HDF5 file" "convert the PyTorch model"
kind '\010\007\022\007pytorch' "this is a protocol buffer, as ONNX" "from which it was made"
kind '\034\0\0\0TFL3\024\0' "this is a TFLite model" "from which it was made"
kind '\004\042\115\030abcd' "this is an lz4 file" "lz4 -d"
kind '\317\372\355\376\7\0\0\1' "this is a program" "give a GGUF model"
kind '\377\376G\0G\0U\0F\0' "this is text in UTF-16" "copy it as binary"
kind '\357\273\277GGUF\3\0\0\0' "a GGUF file that a program for text has copied" "copy it as binary"
{ printf '%-257s' model.gguf | tr ' ' '\000' && printf 'ustar\00000' && head -c 249 /dev/zero; } > "$T/k.gguf"
check_error 3 "this is a tar archive" "a tar archive" organ-extract "$T/k.gguf" --list
kind 'word: "quoted"\tand\nmore\n' "this is not a GGUF model (first bytes 77 6f 72 64)" "give a GGUF model"
kind '\1\2\3\4\5\6' "this is not a GGUF model (first bytes 01 02 03 04)" "give a GGUF model"
head -c 5000 /dev/zero > "$T/zero.gguf"
check_error 3 "all zeros: the download did not finish" "zeros" organ-measure "$T/zero.gguf" --summary
printf 'PK\003\004abcdefghijklmnop' > "$T/pytorch_model.bin"
check_error 3 "this is a ZIP archive" "a PyTorch model, named as organ records" organ-extract "$T/pytorch_model.bin" \
    --list
# A beginning that is cut short is not taken for the whole.
printf 'PK\003' > "$T/k.gguf"
check_exit 3 "three bytes" organ-extract "$T/k.gguf" --list
# Nothing of the content reaches the terminal as it is.
printf '{"a\033[31m"}' > "$T/k.gguf"
check_exit 3 "an escape sequence" organ-extract "$T/k.gguf" --list
check_text "$(tr -d '\n -~' < "$T/err" | wc -c | tr -d ' ')" 0 "is not printed"

# A partial download, with both sizes.
head -c 500000 "$VERSE" > "$T/part.gguf"
check_error 3 "500000 of at least $(($(wc -c < "$VERSE"))) bytes" "an incomplete download" organ-extract \
    "$T/part.gguf" --output "$T/d"

# ---- did you mean ----
check_error 2 "did you mean 'attention'?" "a class" organ-extract "$VERSE" --list --type atention
check_error 2 "did you mean 'embedding'?" "the second class" organ-extract "$VERSE" --list --type ffn,embeding
check_error 2 "'zzz': expected attention, ffn, embedding, norm, adapter or other" "a word that resembles none" \
    organ-extract "$VERSE" --list --type zzz
check_error 2 "did you mean 'vision'?" "a part" organ-extract "$VERSE" --list --part vison
check_error 2 "did you mean 'Q4_K'?" "a type" organ-assemble "$VERSE" --dtype '*=q4k' --output "$T/x.gguf"
check_error 2 "did you mean 'Q8_0'?" "a type of organ-purify" organ-purify "$VERSE" --dtype q80 --dry-run
for script in fleet stream report validate; do
    check_exit 2 "organ-$script: a misspelt option" sh "scripts/organ-$script" --hepl
    check_text "$(grep -c "unknown option '--hepl' (did you mean '--help'?)" "$T/err")" 1 \
        "organ-$script: the option that was meant"
    check_exit 2 "organ-$script: an unknown option" sh "scripts/organ-$script" --no-such-thing-at-all=3
    check_text "$(grep -c "did you mean" "$T/err")" 0 "organ-$script: none was meant"
done

# ---- counts ----
check_text "$(organ-measure "$VERSE" --sample 1k | cells sampled | sort -u |
    tr '\n' ' ')" "1000 256 sampled " "--sample 1k"
check_text "$(organ-measure "$VERSE" --sample 1K --type norm | cells sampled | sort -u | tr '\n' ' ')" "256 sampled " \
    "--sample 1K"
organ-measure "$VERSE" --sample 100k > "$T/a"
organ-measure "$VERSE" > "$T/b"
check_same "$T/a" "$T/b" "100k is the default"
for wrong in k 1kk 1kb -1k 1.5k 99999999999999999G ''; do
    check_error 2 "use a whole number, such as 5000, 100k or 2M" "--sample '$wrong'" organ-measure "$VERSE" \
        --sample "$wrong"
done

# ---- a table on standard input ----
organ-measure "$VERSE" > "$T/table.tsv"
check "organ-report -" sh -c "sh scripts/organ-report -q --output '$T/r' - < '$T/table.tsv'"
check_text "$(grep -c 'blk.0.attn_v.weight' "$T/r/Z_MEASURE_REPORT.md")" 1 "its rows are reported"
check "JSON Lines" sh -c "organ-measure '$VERSE' --json | sh scripts/organ-report -q --output '$T/r2' -"
check_exit 1 "no table" sh -c "echo nothing | sh scripts/organ-report -q --output '$T/r3' -"
check_text "$(grep -c 'standard input holds no table' "$T/err")" 1 "says so"
check_exit 2 "a count with a unit" sh scripts/organ-report --output "$T/r4" --sample k "$VERSE"
check "a count with a unit" sh scripts/organ-report -q --output "$T/r4" --sample 1k "$VERSE"
finish
