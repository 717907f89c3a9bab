#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2046
# info.sh - organ-info: the kind of every sort of file, figures of shape and memory, templates,
# shards, fitting contexts; and the front door organ.
. "$(dirname "$0")/lib.sh"
V=$LAB/lab-verse-q4_k_m.gguf
PATH=$PWD/scripts:$PATH

# cell COLUMN FILE [OPTION...]: one cell of the row of a file.
cell() {
    c_name=$1
    shift
    organ-info --table "$@" 2> "$T/err" | awk -F '\t' -v name="$c_name" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i } NR == 2 { print $at }'
}
# shows TEXT WHAT FILE [OPTION...]: a line of the screen contains TEXT.
shows() {
    s_text=$1 s_what=$2
    shift 2
    organ-info "$@" > "$T/out" 2> "$T/err"
    if grep -qF -e "$s_text" "$T/out"; then ok; else bad "$s_what: no '$s_text'"; head -n 20 "$T/out" "$T/err"; fi
}

# ---- kinds --------------------------------------------------------------------------
check_text "$(cell kind "$V")" "language model" "kind of a model"
check_text "$(cell kind "$LAB/lab-lora-code.gguf")" adapter "kind of an adapter"
check_text "$(cell kind "$LAB/lab-verse.imatrix.gguf")" "importance matrix" "kind of an importance matrix"
check_text "$(cell architecture "$LAB/lab-verse.imatrix.gguf")" - "an importance matrix has no architecture"
organ-compare -q "$V" "$LAB/lab-code-q4_k_m.gguf" --patch "$T/p.gguf" > /dev/null || bad "patch"
check_text "$(cell kind "$T/p.gguf")" patch "kind of a patch"
for pair in 'general.architecture=str:clip/projector' 'general.type=str:mmproj/projector' \
    'general.architecture=str:controlvector/control vector' 'general.architecture=str:eagle3/draft head'; do
    organ-keys -q "$V" --set "${pair%/*}" --output "$T/k.gguf" --force || bad "keys $pair"
    check_text "$(cell kind "$T/k.gguf")" "${pair##*/}" "$pair"
done
organ-extract -q "$V" --output "$T/d" || bad "extract"
check_text "$(cell form "$T/d")" "organ directory" "form of a directory"
check_text "$(cell kind "$T/d")" "language model" "kind of a directory"
check_text "$(cell form "$T/d/norm/output_norm.bin")" records "form of a record"
check_text "$(cell kind "$T/d/norm/output_norm.bin")" "organ records" "kind of a record"
check_text "$(organ-info --table - < "$V" |
    awk -F '\t' "$BY_NAME"'NR == 2 { print col("kind"), col("form"), col("parameters") }')" \
    "language model pipe 2885888" "a pipe"

# ---- figures ------------------------------------------------------------------------
check_text "$(cell parameters "$V")" 2885888 parameters
check_text "$(cell active "$V")" 2885888 "without experts all parameters are active"
check_text "$(cell bytes "$V")" 1867776 bytes
for pair in blocks=4 context=512 embedding=256 heads=4 heads_kv=2 vocabulary=1024 experts=- shards=1 missing=0 \
    template=no; do
    check_text "$(cell "${pair%=*}" "$V")" "${pair#*=}" "${pair%=*}"
done
# 4 blocks, 2 heads of 64 for keys and values, 2 bytes; 34 bytes per 32 values as q8_0.
check_text "$(cell cache_4k "$V")" $((4 * 2 * (64 + 64) * 2 * 4096)) "cache of 4096 tokens"
check_text "$(cell cache_full "$V")" $((4 * 2 * (64 + 64) * 2 * 512)) "cache of the whole context"
check_text "$(cell cache_full_q8_0 "$V")" $((4 * 2 * (64 + 64) * 512 / 32 * 34)) "cache in q8_0"
# A context is counted in steps of 256 tokens.
organ-keys -q "$V" --set llama.context_length=300 --output "$T/odd.gguf" || bad "odd context"
check_text "$(cell cache_full "$T/odd.gguf")" $((4 * 2 * (64 + 64) * 2 * 512)) "a context of 300 tokens takes 512"
# Half of the layers have a window: gemma2, a window of 100 tokens has room for 512 more.
edit_arch() { # OUT ARCH [KEY=T:V...]
    e_out=$1 e_arch=$2
    shift 2
    set -- $(for k in "$@"; do printf ' --set %s' "$k"; done)
    organ-keys -q "$V" --set general.architecture=str:$e_arch $(organ-keys "$V" 'llama.*' | awk -F '\t' \
        -v a="$e_arch" "$BY_NAME"'NR > 1 { n = col("key"); sub(/^llama/, a, n);
            print "--rename", col("key") "=" n }') --output "$T/arch1.gguf" \
        --force || bad "arch $e_arch"
    [ $# -gt 0 ] || set -- --set "$e_arch.block_count=u32:4"
    organ-keys -q "$T/arch1.gguf" "$@" --output "$e_out" --force 2> "$T/err" || bad "keys of $e_arch: $(cat "$T/err")"
}
edit_arch "$T/g2.gguf" gemma2 gemma2.attention.sliding_window=u32:100
check_text "$(cell cache_4k "$T/g2.gguf")" $((2 * 256 * 2 * 4096 + 2 * 256 * 2 * 768)) \
    "two layers of gemma2 have a window"
edit_arch "$T/g3.gguf" gemma3 gemma3.attention.sliding_window=u32:100 \
    'gemma3.attention.sliding_window_pattern=bool[]:true,true,false,true'
check_text "$(cell cache_4k "$T/g3.gguf")" $((256 * 2 * 4096 + 3 * 256 * 2 * 768)) \
    "an array tells which layers have a window"
# Of exaone4, only the model with 64 blocks has windows, of 4096 tokens, in three of four blocks.
edit_arch "$T/e4.gguf" exaone4 exaone4.context_length=u32:8192
check_text "$(cell cache_full "$T/e4.gguf")" $((4 * 256 * 2 * 8192)) "a small exaone4 has no windows"
edit_arch "$T/e4.gguf" exaone4 exaone4.context_length=u32:8192 exaone4.block_count=u32:64
check_text "$(cell cache_full "$T/e4.gguf")" $((16 * 256 * 2 * 8192 + 48 * 256 * 2 * 4608)) "exaone4 with 64 blocks"
# Heads per layer; layers without are recurrent: their state is kept in F32.
edit_arch "$T/gh.gguf" granitehybrid 'granitehybrid.attention.head_count_kv=u32[]:0,2,0,1' \
    granitehybrid.ssm.conv_kernel=u32:4 \
    granitehybrid.ssm.inner_size=u32:512 granitehybrid.ssm.state_size=u32:16 granitehybrid.ssm.group_count=u32:1
check_text "$(cell cache_4k "$T/gh.gguf")" $((3 * 128 * 2 * 4096 + 2 * 4 * (3 * (512 + 2 * 16) + 16 * 512))) \
    "a hybrid model"
edit_arch "$T/mamba.gguf" mamba mamba.ssm.conv_kernel=u32:4 mamba.ssm.inner_size=u32:512 mamba.ssm.state_size=u32:16
check_text "$(cell cache_4k "$T/mamba.gguf")" $((4 * 4 * (3 * 512 + 16 * 512))) "a recurrent model has states only"
edit_arch "$T/ds.gguf" deepseek2 deepseek2.attention.key_length_mla=u32:64 \
    deepseek2.attention.value_length_mla=u32:64 \
    deepseek2.attention.key_length=u32:72 deepseek2.attention.value_length=u32:48 \
    deepseek2.attention.head_count_kv=u32:1
check_text "$(cell cache_4k "$T/ds.gguf")" $((4 * 72 * 2 * 4096)) "latent attention stores no values"
# The last blocks of gemma4 may use the cache of earlier ones.
edit_arch "$T/g4.gguf" gemma4 gemma4.attention.sliding_window=u32:100 \
    'gemma4.attention.sliding_window_pattern=bool[]:false,false,false,false'
check_text "$(cell cache_4k "$T/g4.gguf")" $((4 * 256 * 2 * 4096)) "all layers of gemma4 have a cache"
organ-keys -q "$T/g4.gguf" --set gemma4.attention.shared_kv_layers=u32:1 --output "$T/g4s.gguf" 2> /dev/null \
    || bad "shared layers"
check_text "$(cell cache_4k "$T/g4s.gguf")" $((3 * 256 * 2 * 4096)) "one layer shares the cache of another"
edit_arch "$T/bert.gguf" bert
check_text "$(cell cache_4k "$T/bert.gguf")" 0 "an encoder has no cache"
edit_arch "$T/ds4.gguf" deepseek4
check_text "$(cell cache_4k "$T/ds4.gguf")" - "an unknown cache is not guessed"
shows "the cache of this architecture is not known" "an unknown cache" "$T/ds4.gguf"

# Sums and products that no number can hold are the largest number; none wraps. 0 is what they would be modulo 2^64.
for n in 1099511627776:4611686018427387904 1152921504606846976 4611686018427387904 9223372036854775808; do
    organ-keys -q "$V" --set "llama.attention.head_count_kv=u64:${n%:*}" --output "$T/many.gguf" --force 2> /dev/null
    case $n in *:*) want=${n#*:} ;; *) want=18446744073709551615 ;; esac
    check_text "$(cell cache_4k "$T/many.gguf")" $want "head_count_kv ${n%:*}"
    check_text "$(cell cache_32k "$T/many.gguf")" 18446744073709551615 "head_count_kv ${n%:*}, long"
done
edit_arch "$T/wide.gguf" mamba mamba.ssm.conv_kernel=u32:4 mamba.ssm.inner_size=u64:4611686018427387904 \
    mamba.ssm.state_size=u32:16
check_text "$(cell cache_4k "$T/wide.gguf")" 18446744073709551615 "a state too large to count"

# ---- a context that fits --------------------------------------------------------------
# Weights 1867776, 2048 bytes per token: 256 tokens are half a MiB. 512 tokens compute with 2 feed-forward layers of
# 512 values and 3 rows of 256, in F32.
C=$((512 * 4 * (2 * 512 + 3 * 256)))
check_text "$(cell computation "$V")" $C "memory to compute with"
check_text "$(cell fit "$V" --fit $((1867776 + C + 256 * 2048)))" 256 "room for exactly 256 tokens"
check_text "$(cell fit "$V" --fit 1G)" 512 "no more than the context of the model"
check_exit 1 "one byte too few" organ-info "$V" --fit $((1867776 + C + 256 * 2048 - 1))
check "room for a context" organ-info "$V" --fit $((1867776 + C + 1024 * 2048)) --context 1024
check_exit 1 "no room for a context" organ-info "$V" --fit $((1867776 + C + 1024 * 2048 - 1)) --context 1024
shows "3.00 MiB is too small: about 6.28 MiB are needed for 512 tokens; no type makes it that small" \
    "how much is needed" "$V" --fit 3M
organ-info -q "$V" --fit 3M > "$T/out" 2> "$T/err"
organ-assemble -q "$V" --dtype f32 -o "$T/f32.gguf"
shows "10.0 MiB is too small: about 15.5 MiB are needed for 512 tokens; as q8_0 it would fit" "which type would fit" \
    "$T/f32.gguf" --fit 10M
check_text "$(cell fit "$V" --fit 24)" 512 "24 is 24 GiB"
check_text "$(grep -c -e '--fit 24 is read as 24G' "$T/err")" 1 "which is said"
organ-keys -q "$V" --set general.architecture=str:mystery -o "$T/mystery.gguf"
check_exit 3 "a cache that is not known" organ-info "$T/mystery.gguf" --fit 1G
check_text "$(grep -c 'whether it fits is not known' "$T/err")" 1 "a cache that is not known"
check_exit 1 "weights that are too large, whatever the cache" organ-info "$T/mystery.gguf" --fit 1M
check_text "$(cell fit "$T/mystery.gguf" --fit 1G) $(cell fit "$LAB/lab-lora-code.gguf" --fit 1G) $(cell fit \
    "$T/mystery.gguf" --fit 1M)" "- - 0" "no answer, and no model"
shows "in all about 6.28 MiB for 512 tokens, with about 3.50 MiB to compute" "one total" "$V"
shows "cache 16.0 MiB for 8192 tokens" "a context" "$V" --context 8192
shows "# Q4_K 59%, = Q6_K 40%, + F32 0.5%" "the legend of the bar" "$V"
shows "size        1.80 MiB, 2.89 million" "the size of the file" "$V"
shows "adapter     rank 8, alpha 16" "rank and alpha" "$LAB/lab-lora-code.gguf"
shows "targets     attn_q, attn_k, attn_v, attn_output, ffn_gate, ffn_up, ffn_down" "targets" "$LAB/lab-lora-code.gguf"
check_text "$(cell type "$V") $(cell type "$LAB/lab-lora-code.gguf") $(cell type "$T/f32.gguf")" "Q4_K_M F32 F32" \
    "the type as people say it"
organ-assemble -q "$V" --dtype q8_0 --set-kv general.file_type=u32:15 -o "$T/wrong.gguf" 2> /dev/null
check_text "$(cell type "$T/wrong.gguf")" Q8_0 "a wrong file_type is not believed"
check_text "$(cell file_bytes "$V")" "$(($(wc -c < "$V")))" "bytes of the file"
check "room" organ-info "$V" --fit 1G
shows "room for a context of 512 tokens" "fit on the screen" "$V" --fit 1G

# ---- chat templates --------------------------------------------------------------------
organ-keys -q "$V" --set 'tokenizer.chat_template=str:{{ "<s>" }}{% if x < 3 %}hello' --output "$T/t.gguf" \
    || bad "template"
check_text "$(cell template "$T/t.gguf")" yes "a template"
organ-keys -q "$V" --set 'tokenizer.chat_template=str:<|im_start|>{{ x }}<|im_end|><|im_start|>' --output "$T/t.gguf" \
    --force || bad "template"
check_text "$(cell template "$T/t.gguf")" "unknown tokens" "a template with unknown tokens"
shows "lacks <|im_start|> <|im_end|>" "each unknown token once" "$T/t.gguf"

# ---- origin, shards, findings -----------------------------------------------------------
organ-merge -q --method linear --model "$V" --model "$LAB/lab-code-q4_k_m.gguf" --output "$T/m.gguf" 2> /dev/null \
    || bad "merge"
check_text "$(cell origin "$T/m.gguf")" "lab-verse, lab-code" "what a merge was made from"
shows "(merged: linear)" "how it was made" "$T/m.gguf"
organ-assemble -q "$V" --output "$T/s.gguf" --shards 3 || bad "shards"
check_text "$(cell shards "$T/s-00002-of-00003.gguf")" 3 "all shards"
rm "$T/s-00003-of-00003.gguf"
check_text "$(cell missing "$T/s-00002-of-00003.gguf")" 1 "one of the shards is missing"
organ-keys -q "$V" --set llama.attention.head_count=u32:3 --output "$T/bad.gguf" 2> /dev/null || bad "bad"
case $(cell verdict "$T/bad.gguf") in *head*) ok ;; *) bad "verdict: $(cell verdict "$T/bad.gguf")" ;; esac
shows "no findings" "a sound model" "$V"
# The right next thing: F16 is quantized, a broken file mended, a mixture has shares.
shows "next:  organ-validate $V" "what to do with a quantized model" "$V"
organ-assemble -q "$V" --dtype f16 -o "$T/f16.gguf"
shows "next:  organ-assemble $T/f16.gguf --dtype q4_k_m -o NEW.gguf" "with F16" "$T/f16.gguf"
organ-stack -q --experts-from "$V,$LAB/lab-code-q4_k_m.gguf" -o "$T/moe.gguf" || bad "a mixture"
shows "next:  organ-measure $T/moe.gguf --imatrix IMATRIX --rank experts" "with a mixture of experts" "$T/moe.gguf"
shows "next:  organ-check $T/bad.gguf" "with a broken model" "$T/bad.gguf"
check_text "$(grep -c -e '^next' -e '^       organ' "$T/out")" 1 "and nothing else"
head -c 1000000 "$V" > "$T/cut.gguf"
shows "organ-remote --complete URL $T/cut.gguf" "with a part of a file" "$T/cut.gguf"

# ---- several files, mistakes -------------------------------------------------------------
check "several" organ-info "$V" "$LAB/lab-base-q4_k_m.gguf"
check_text "$(($(wc -l < "$T/out")))" 3 "a header and two rows"
check "json" organ-info --json "$V"
check_text "$(grep -c '^{"file": ' "$T/out")" 1 "one JSON object"
check "where" organ-info --where 'kind=adapter' "$V" "$LAB/lab-lora-code.gguf"
check_text "$(($(wc -l < "$T/out")))" 2 "one row is selected"
echo nonsense > "$T/text.gguf"
check_exit 3 "a broken file does not hide the others" organ-info "$T/text.gguf" "$V"
check_text "$(cells kind "$T/out" | tr '\n' ',')" "kind,not readable,language model," "both have a row"
organ-info -q --json "$T/text.gguf" "$V" > "$T/out" 2> /dev/null
check_text "$(sed 's/.*"kind": "\([^"]*\)".*/\1/' "$T/out" | tr '\n' ',')" "not readable,language model," "as JSON"
check_error 3 "text file" "not a model" organ-info "$T/text.gguf"
check_error 4 "" "no such file" organ-info "$T/none.gguf"
check_error 2 "no model given" "nothing given" organ-info
evil=$(printf 'a\033[31m\nb')
organ-keys -q "$V" --set "general.name=str:$evil" --output "$T/evil.gguf" || bad "evil"
organ-info "$T/evil.gguf" > "$T/out"
if grep -q "$(printf '\033')" "$T/out"; then bad "a name is printed without escaping"; else ok; fi
shows 'a\x1b[31m\nb' "an escaped name" "$T/evil.gguf"

# ---- a pipe -----------------------------------------------------------------------------
# One tensor of 2^63 - 33 bytes: with the header, these are more than a file can have.
printf 'GGUF\003\0\0\0\001\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\001\0\0\0\0\0\0\0t\001\0\0\0' > "$T/huge.gguf"
printf '\337\377\377\377\377\377\377\177\030\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0' >> "$T/huge.gguf"
check_error 3 "bytes at offset 64, more than any file can have" "more than a file can have" \
    sh -c "cat '$T/huge.gguf' | organ-info -"

# ---- organ -----------------------------------------------------------------------------
organ > "$T/out"
check_text "$(grep -Ec 'transplant|merge|stack|quantize|extract|info' "$T/out")" 6 "organ lists six tasks"
organ "$V" > "$T/a"
organ-info "$V" > "$T/b"
check_same "$T/a" "$T/b" "organ FILE is organ-info"
check "organ VERB" organ check "$V"
check "organ quantize" organ quantize "$V" "$T/q.gguf" q8_0 -q
organ-assemble -q "$V" --dtype q8_0 --output "$T/q2.gguf" || bad "assemble"
check_same "$T/q.gguf" "$T/q2.gguf" "organ quantize is organ-assemble"
check_exit 1 "organ diff" organ diff "$V" "$LAB/lab-code-q4_k_m.gguf" --summary
# Options anywhere, and the verbs that people type.
check_exit 1 "organ diff" organ diff "$V" "$LAB/lab-code-q4_k_m.gguf"
check_text "$(grep -c -e '^verdict: same lineage, median cosine 0.9' -e '^  general.name: lab-verse -> lab-code$' \
    "$T/out")" 2 \
    "the verdict and a key"
check_exit 1 "organ diff of types" organ diff "$V" "$T/q.gguf"
check_text "$(grep -c -e '^the same model in other types' -e '^tensors: 30 differ, 9 identical$' "$T/out")" 2 \
    "the same model in other types"
check "organ diff of the same" organ diff "$V" "$V"
check_text "$(cat "$T/out")" "verdict: identical, median cosine 1.0000
keys: the same
tensors: 0 differ, 39 identical" "nothing differs"
organ-assemble -q "$V" --shards 2 --output "$T/d.gguf" && rm "$T/d-00002-of-00002.gguf"
check_exit 1 "organ diff without a shard" organ diff "$T/d-00001-of-00002.gguf" "$V"
check_text "$(grep -c 'd-00002-of-00002.gguf is missing' "$T/err")" 1 "organ diff: a shard is missing"
# shellcheck disable=SC2016 # for that shell
check_exit 3 "organ diff of what can be read once" sh -c 'cat "$2" | organ diff "$1" /dev/stdin' sh "$V" "$T/q.gguf"
check_text "$(cat "$T/out")" "" "organ diff of what can be read once: no answer"
check_exit 2 "organ quantize to a misspelt type" organ quantize "$V" q3_km
check_text "$(grep -c 'q3_km is not a type; did you mean q3_k_m?' "$T/err")" 1 "a misspelt type"
cp "$LAB/lab-verse.imatrix.gguf" "$T/im.gguf"
i=0
for args in "$V q8_0 -o $T/w.gguf" "-q $V $T/w.gguf Q8_0" "--strict $V q8_0 --output $T/w.gguf" \
    "$V $T/w.gguf --dtype q8_0"; do
    i=$((i + 1))
    rm -f "$T/w.gguf"
    # shellcheck disable=SC2086
    check "organ quantize $args" organ quantize $args
    check_same "$T/w.gguf" "$T/q2.gguf" "organ quantize, way $i"
done
(cd "$T" && organ quantize -q --imatrix im.gguf f16.gguf iq4_xs) || bad "quantize without an output"
(cd "$T" && organ-assemble -q f16.gguf --imatrix im.gguf --dtype iq4_xs -o want.gguf) || bad "quantize"
check_same "$T/f16-iq4_xs.gguf" "$T/want.gguf" "its name is that of the source and the type"
exhaustive && check "organ quantize to a size" organ quantize "$T/f16.gguf" "$T/size.gguf" --size 3M
mkdir "$T/checkpoint"
organ-assemble -q "$V" --names hf -o "$T/checkpoint/model.safetensors" || bad "a checkpoint"
check "organ convert" organ convert "$T/checkpoint" "$T/converted.gguf" q8_0
organ-assemble -q "$T/checkpoint" --dtype q8_0 -o "$T/wanted.gguf" || bad "the same"
check_same "$T/converted.gguf" "$T/wanted.gguf" "organ convert FOLDER OUT TYPE"
check "organ convert, as it is" organ convert "$T/checkpoint" "$T/kept.gguf"
organ-assemble -q "$T/checkpoint" -o "$T/wanted2.gguf" || bad "the same"
check_same "$T/kept.gguf" "$T/wanted2.gguf" "organ convert FOLDER OUT"
(cd "$T" && organ convert -q checkpoint) || bad "organ convert FOLDER"
check_same "$T/checkpoint.gguf" "$T/wanted2.gguf" "organ convert FOLDER writes FOLDER.gguf"
check "organ split" organ split "$V" 3 -o "$T/parts.gguf"
check "organ split by size" organ split "$V" "$T/sized.gguf" 1M
check_text "$(ls "$T"/parts-0000?-of-00003.gguf "$T"/sized-0000?-of-0000?.gguf | wc -l | tr -d ' ')" 5 "shards"
check "organ join" organ join "$T"/parts-0000?-of-00003.gguf "$T/joined.gguf"
check_same "$T/joined.gguf" "$V" "what was split and joined"
check_exit 2 "shards are not merged" organ merge "$T"/parts-0000?-of-00003.gguf
check_text "$(grep -c 'which organ join .*parts-00001-of-00003.gguf parts.gguf puts together' "$T/err")" 1 "but joined"
check "organ rename" organ rename "$V" "New name" "$T/renamed.gguf"
check_text "$(organ-keys "$T/renamed.gguf" --get general.name)" "New name" "the new name"
for verb in quantize convert split join rename diff duplicates version; do
    check "organ $verb --help" organ $verb --help
    check_text "$(sed 's/^\(usage: organ [a-z]*\).*/\1/; q' "$T/out")" "usage: organ $verb" \
        "organ $verb --help: its own"
    check_text "$(awk 'length($0) > 84' "$T/out"; cat "$T/err")" "" "organ $verb --help: narrow"
    cp "$T/out" "$T/help"
    check "organ help $verb" organ help $verb
    check_same "$T/out" "$T/help" "organ help $verb"
done
check "help after other arguments" organ split "$V" 3 -h
check_text "$(head -n 1 "$T/out")" "usage: organ split IN [OUT] N|SIZE [option...]" "help after other arguments"
check_exit 2 "a type with a missing underscore" organ quantize "$V" "$T/q9.gguf" Q4_KM
check_text "$(grep -c 'did you mean q4_k_m' "$T/err")" 1 "the type that was meant"
check_exit 2 "a number after the type" organ quantize "$V" "$T/q9.gguf" q4_k_m 8
check_text "$(grep -c -e '-j 8' "$T/err")" 1 "the option for threads"
for pair in quantise:quantize transplent:transplant show:info compar:compare; do
    check_exit 2 "organ ${pair%:*}" organ "${pair%:*}" "$V"
    check_text "$(grep -c "did you mean ${pair#*:}" "$T/err")" 1 "the verb ${pair#*:}"
done
cp scripts/organ "$T/organ"
check_exit 2 "a verb whose tool is in another folder" "$T/organ" compar "$V"
check_text "$(grep -c "did you mean compare" "$T/err")" 1 "a verb whose tool is in another folder"
mkdir "$T/own"
cp "$V" "$T/own/v.gguf"
(cd "$T/own" && check "organ split IN N" organ split v.gguf 2 &&
    check "organ convert FILE TYPE" organ convert v.gguf q8_0)
check_text "$(cd "$T/own" && echo *)" \
    "v-00001-of-00002.gguf v-00002-of-00002.gguf v-q8_0.gguf v.gguf" "names of outputs"
check_same "$T/own/v.gguf" "$V" "the input is left"
check_exit 2 "a shard that is an input" organ-assemble "$T/own/v-00001-of-00002.gguf" --shards 2 \
    -o "$T/own/v.gguf" --force
check "organ version" organ version
mkdir "$T/shelf"
cp "$V" "$LAB/lab-lora-code.gguf" "$T"/parts-* "$T/shelf"
check "organ FOLDER" organ "$T/shelf"
check_text "$(cells kind "$T/out" | sort | tr '\n' ',')" "adapter,kind,language model,language model," "what it holds"
mv "$T/out" "$T/shelf.tsv"
check "organ info FOLDER" organ info "$T/shelf"
check_same "$T/out" "$T/shelf.tsv" "the same as organ FOLDER"
check_exit 2 "an empty folder" organ "$T/d/norm"
check "a folder and options" organ --fit 24G "$T/shelf" "$V" --json
check_text "$(grep -c '"fit": 512,' "$T/out") $(wc -l < "$T/out" | tr -d ' ')" "3 4" "a folder, a file and options"
check "a folder among others" organ "$T/d/norm" "$V"
check_text "$(cat "$T/err")" "organ: $T/d/norm: there are no models in this folder" "an empty folder among others"
# Of two sets with one first shard, only that with equal shards is a copy.
mkdir "$T/whole" "$T/lacks" "$T/same"
organ-assemble -q "$V" --shards 3 -o "$T/whole/s.gguf"
cp "$T"/whole/s-* "$T/same"
cp "$T/whole/s-00001-of-00003.gguf" "$T/whole/s-00003-of-00003.gguf" "$T/lacks"
check "copies of split models" organ duplicates "$T/lacks" "$T/whole" "$T/same"
check_text "$(cells copy_of "$T/out" | sed "s|$T|T|" | tr '\n' ' ')" \
    "copy_of - T/whole/s-00001-of-00003.gguf " "which are copies"
head -c 60000 "$T/whole/s-00002-of-00003.gguf" > "$T/same/s-00002-of-00003.gguf"
tail -c +60001 "$T/whole/s-00002-of-00003.gguf" | tr '\000' '\001' >> "$T/same/s-00002-of-00003.gguf"
check "a shard that differs" organ duplicates "$T/whole" "$T/same"
check_text "$(cat "$T/out")" "" "no copy"

# ---- models in the caches of other programs --------------------------------------------------------------
H=$T/hub/models--org--my-repo sum=$(organ-check --hash "$V" 2> /dev/null |
    awk -F '\t' "$BY_NAME"'col("kind") == "file" { print col("sha256") }')
mkdir -p "$H/blobs" "$H/snapshots/abc" "$H/refs" "$T/llama" "$T/ollama/blobs" \
    "$T/ollama/manifests/registry.ollama.ai/library/verse" "$T/ollama/manifests/hf.co/org/other"
printf abc > "$H/refs/main"
cp "$V" "$H/blobs/$sum"
ln -s "../../blobs/$sum" "$H/snapshots/abc/verse-Q4_K_M.gguf"
cp "$T/q.gguf" "$H/snapshots/abc/verse-Q8_0.gguf"
cp "$V" "$T/ollama/blobs/sha256-$sum"
printf '{"layers":[{"mediaType":"application/vnd.ollama.image.template","digest":"sha256:%s"},
    {"mediaType": "application/vnd.ollama.image.model", "size": 5, "digest": "sha256:%s"}]}\n' 00ff "$sum" \
    > "$T/ollama/manifests/registry.ollama.ai/library/verse/latest"
cp "$T/ollama/manifests/registry.ollama.ai/library/verse/latest" "$T/ollama/manifests/hf.co/org/other/Q4"
cp "$LAB/lab-code-q4_k_m.gguf" "$T/llama/a b.gguf"
cp "$LAB/lab-code-q4_k_m.gguf" "$T/llama/copy.gguf"
export HF_HUB_CACHE="$T/hub" OLLAMA_MODELS="$T/ollama" LLAMA_CACHE="$T/llama" HOME="$T"
state_of_caches() {
    find "$T/hub" "$T/ollama" "$T/llama" | sort
    find "$T/hub" "$T/ollama" "$T/llama" -type f -exec cksum {} + | sort
}
state_of_caches > "$T/before"
check "organ models" organ models
check_text "$(cells name,type,copy_of "$T/out" | tail -n +2 |
    sed "s|$T|T|g")" "hf:org/my-repo:verse-Q4_K_M.gguf	Q4_K_M	-
hf:org/my-repo:verse-Q8_0.gguf	Q8_0	-
ollama:hf.co/org/other:Q4	Q4_K_M	hf:org/my-repo:verse-Q4_K_M.gguf
ollama:verse:latest	Q4_K_M	hf:org/my-repo:verse-Q4_K_M.gguf
T/llama/a b.gguf	Q4_K_M	-
T/llama/copy.gguf	Q4_K_M	T/llama/a b.gguf" "models and copies in four caches"
check "organ duplicates" organ duplicates "$T/llama"
check_text "$(($(wc -l < "$T/out")))" 3 "copies in a folder"
check_text "$(organ-models --json | grep -c '"copy_of": "hf:org/my-repo:verse-Q4_K_M.gguf"')" 2 "as JSON"
for name in hf:org/my-repo:Q4_K_M hf:org/my-repo:verse-Q4_K_M.gguf ollama:verse ollama:verse:latest; do
    organ-keys "$name" --get general.name > "$T/out" 2> "$T/err"
    check_text "$(cat "$T/out")" lab-verse "$name is a source"
done
check "names in a merge" organ-merge -q ollama:verse hf:org/my-repo:Q8_0 -o "$T/named.gguf"
check "organ ollama:NAME" organ ollama:verse
check_text "$(sed -n '1s/:[^:]*$//p; s/^next:  //p' "$T/out" | tr '\n' ',')" \
    "ollama:verse,organ-validate ollama:verse," "the name that was given"
(cd "$T/own" && check "a model of a cache becomes a file here" organ quantize ollama:verse q6_k)
check "its name" test -f "$T/own/verse-q6_k.gguf"
check_exit 1 "no such model" organ-info ollama:none
check_exit 2 "no such name" organ-info hf:../../etc
check_error 2 "ollama:verse is in the cache" "a key in a cache" organ-keys ollama:verse \
    --set general.name=str:x --in-place
check_error 2 "ollama:verse is in the cache" "a journal in a cache" organ-keys ollama:verse --recover
check_error 2 "ollama:verse is in the cache" "a graft in a cache" organ-transplant ollama:verse \
    "$LAB/lab-code-q4_k_m.gguf" --type ffn --in-place --no-undo
# Scripts that take models know these names, too.
check "organ-report" organ-report -q --sample 10 --output "$T/named.report" ollama:verse \
    hf:org/my-repo:Q8_0
check_text "$(grep -c -e '"model": "ollama:verse"' -e '"model": "hf:org/my-repo:Q8_0"' \
    "$T/named.report/z_measure_report.json")" 2 "organ-report: names"
check "organ-stream" organ-stream -q --sampled --output "$T/named.stream" ollama:verse
check_exit 1 "organ-fleet" organ-fleet measure -q --sample 10 --output "$T/named.fleet" ollama:verse \
    hf:org/my-repo:Q8_0 ollama:none
check_text "$(cells model,status "$T/out" | tr '\t\n' ' ;')" \
    "model status;verse done;verse-Q8_0 done;ollama:none failed;" "organ-fleet: names"
mkdir "$T/cli"
printf '#!/bin/sh\necho "The $2"\n' > "$T/cli/llama-cli"
chmod +x "$T/cli/llama-cli"
check "organ-validate" env PATH="$T/cli:$PATH" organ-validate --engine llama-cli ollama:verse
check_text "$(cells model,load "$T/out" | tail -n 1)" "ollama:verse	ok" "organ-validate: a name"
grep -q "ollama/blobs/sha256-$sum" "$T/err" && ok || bad "organ-validate: $(cat "$T/err")"
state_of_caches > "$T/after"
check_same "$T/after" "$T/before" "nothing is written into a cache"
# Names that a cache may have: a backslash, a tab, a line break, and no refs/main. organ-models changes nothing.
odd=$T/odd/models--o\\t--r/snapshots/0123abc
mkdir -p "$odd" "$T/tabs"
cp "$V" "$odd/a\\n.gguf"
: > "$T/tabs/a${TAB}b.gguf"
: > "$T/tabs/a
hf:o:c.gguf"
: > "$T/tabs/$(printf 'e\033[2J.gguf')"
OLLAMA_MODELS=$T/no LLAMA_CACHE=$T/no HF_HUB_CACHE=$T/odd organ-models "$T/tabs" > "$T/out" 2> "$T/err"
check_text "$(tail -n +2 "$T/out" | cut -f 1 | sed "s|$T|T|")" 'hf:o\\t/r:a\\n.gguf
T/tabs/e\x1b[2J.gguf' "odd names"
check_text "$(sed "s|$T|T|" "$T/err")" \
    "organ-models: T/tabs: files whose paths have a tab or a line break are left out" "what is left out"
check_text "$(HF_HUB_CACHE=$T/odd organ-models "$T/$(printf 'no\033[2J')" 2>&1 > "$T/out" | grep -c "no?\[2J")" 1 \
    "a message has no control characters"
check_exit 2 "an unknown verb" organ nonsense
check_exit 2 "quantize without a type" organ quantize "$V" "$T/q3.gguf"
finish
