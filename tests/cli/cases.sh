#!/bin/sh
# cases.sh - situations that people met with real files, after public bug reports: one row per
# case and command, with the exit status and a text of the output. The inputs are made here, or are
# in tests/data. Each heading names the reports of its rows.
#
#     row CASE EXIT TEXT COMMAND...
#
# TEXT must be in the output or in the messages; with ! before it, it must not be there. '' accepts
# all. Add rows under the heading of their case, and a heading in its place if there is none. The name of a row
# begins with the number of the case, or with "real", and contains the name of the file; tests/data/cases.txt
# lists all of them, and each must have a row.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }

row() {
    case_name=$1 want=$2 text=$3
    echo "$1" >> "$T/names"
    shift 3
    "$@" > "$T/out" 2> "$T/err"
    got=$?
    case $text in
    '') found=0 ;;
    !*) if grep -qF -e "${text#!}" "$T/out" "$T/err"; then found=1; else found=0; fi ;;
    *) if grep -qF -e "$text" "$T/out" "$T/err"; then found=0; else found=1; fi ;;
    esac
    if [ $got != "$want" ]; then
        bad "$case_name: exit $got, $want wanted: $*"
        cat "$T/out" "$T/err" | head -n 4
    elif [ $found != 0 ]; then
        bad "$case_name: '$text' wanted: $*"
        cat "$T/out" "$T/err" | head -n 4
    else
        ok
    fi
}

# new TOOL ARGUMENT...: the tool writes $T/x.gguf.
new() {
    tool=$1
    shift
    "organ-$tool" "$@" -o "$T/x.gguf" --force
}

# bytes COUNT OCTAL: the bytes COUNT times.
bytes() {
    i=0
    while [ $i -lt "$1" ]; do
        printf "$2"
        i=$((i + 1))
    done
}

# u32 N: as four bytes, little-endian.
u32() {
    printf "$(awk -v n="$1" 'BEGIN { for (i = 0; i < 4; i++) { printf "\\%03o", n % 256; n = int(n / 256) } }')"
}

# dat TENSOR CALLS COLUMNS: the start of an entry of an importance matrix in the older format, whose
# values follow.
dat() {
    u32 ${#1}
    printf '%s' "$1"
    u32 "$2"
    u32 "$3"
}

# ---- 01 prediction blocks that keys declare and the file lacks: llama.cpp#24737, #26916, #24211

# declares ARCHITECTURE BLOCKS PREDICTION [TENSOR...]: a model with two stored blocks
declares() {
    arch=$1 blocks=$2 prediction=$3
    shift 3
    mkmodel "$T/x.gguf" -k "$arch.block_count=$blocks" -k "$arch.nextn_predict_layers=$prediction" "$@" \
        -n 2 blk.%.attn_norm.weight:F32:32 blk.%.attn_output.weight:F32:32x32 &&
        organ-keys "$T/x.gguf" --set "general.architecture=str:$arch" --in-place -q
}
absent="no tensor of this prediction block" eh=blk.2.nextn.eh_proj.weight:F32:64x32
for a in bailingmoe2 exaone-moe exaone4 glm4 qwen35 qwen35moe; do
    declares $a 3 1
    row "01 $a" 1 "$absent" organ-check "$T/x.gguf"
    mv "$T/x.gguf" "$T/y.gguf"
    row "01 $a: written" 1 "an engine would refuse the result" new assemble "$T/y.gguf" --strict
    declares $a 2 0
    row "01 $a-repaired" 1 "!$absent" organ-check "$T/x.gguf"
done
for a in deepseek32 glm-dsa glm4moe hy_v3 mimo2 step35; do
    declares $a 3 1
    row "01 $a" 1 "!$absent" organ-check "$T/x.gguf"
    declares $a 4 2 $eh
    row "01 $a: two declared, one stored" 1 "block-missing	block 3	the model has $absent" organ-check "$T/x.gguf"
done
declares qwen35 3 1 $eh
row "01 qwen35-whole" 1 "!$absent" organ-check "$T/x.gguf"
declares qwen35 4 2 $eh
row "01 qwen35: two declared, one stored" 1 "$absent" organ-check "$T/x.gguf"
for a in llama qwen35 glm4moe mimo2; do
    declares $a 2 2
    row "01 $a: nothing but prediction" 1 "none would be left for the trunk" organ-check "$T/x.gguf"
done
for a in qwen3next nemotron_h nemotron_h_moe; do
    declares $a 2 1
    row "01 $a: a block of the trunk declared as one of prediction" 1 "blk.1.nextn.eh_proj.weight" \
        organ-check "$T/x.gguf"
done
declares gemma3n 3 1 -k gemma3n.embedding_length=32 per_layer_model_proj.weight:F32:32x512
row "01 gemma3n: sizes for the blocks of the trunk" 1 "!per_layer_model_proj.weight" organ-check "$T/x.gguf"
declares llama 2 1
row "01 llama has none" 1 "architecture llama has no prediction blocks" organ-check "$T/x.gguf"

# ---- 02 an export with a tensor under another name: llama.cpp#25334, acestep.cpp#31

mkmodel "$T/foreign.gguf" -n 3 blk.%.ssm_dt:F32:16 blk.%.ssm_dt.scale:F32:1 blk.%.ffn_up.weight:F32:16x16
row "02 rename" 0 "3 tensors renamed" new stack "$T/foreign.gguf" --rename 'blk.*.ssm_dt=blk.*.ssm_dt.bias' -v
check_text "$(organ-extract --list "$T/x.gguf" | grep -c 'ssm_dt\.bias')" 3 "02 renamed in all blocks"
cp "$T/x.gguf" "$T/renamed.gguf"
mkmodel "$T/y.gguf" x_embedder.weight:F16:64x8 &&
    organ-keys -q "$T/y.gguf" --set 'comfy.gguf.orig_shape.x_embedder.weight=i32[]:8,4,16' -o "$T/shaped.gguf" --force
row "02 the key of a shape" 0 '' new stack "$T/shaped.gguf" -q --rename 'x_embedder.*=img_in.*'
check_text "$(organ-keys "$T/x.gguf" 'comfy.*' | sed 1d | cut -f1)" comfy.gguf.orig_shape.img_in.weight \
    "02 the key of a shape follows its tensor"
mkmodel "$T/y.gguf" img_in.weight:F32:4x4 txt_in.weight:F32:4x4
organ-keys -q "$T/y.gguf" --set comfy.gguf.orig_shape.img_in.weight=str:of-img \
    --set comfy.gguf.orig_shape.txt_in.weight=str:of-txt -o "$T/shaped.gguf" --force
row "02 two names exchanged" 0 '' organ-stack -q "$T/shaped.gguf" --rename img_in.weight=txt_in.weight \
    --rename txt_in.weight=img_in.weight -o "$T/x.gguf" --force
check_text "$(for t in img txt; do organ-keys "$T/x.gguf" --get comfy.gguf.orig_shape.${t}_in.weight; done)" \
    of-txtof-img "02 the keys of their shapes"
row "02 back" 0 '' new stack "$T/renamed.gguf" --rename 'blk.*.ssm_dt.bias=blk.*.ssm_dt'
check_same "$T/x.gguf" "$T/foreign.gguf" "02 renamed back"
row "02 exchanged" 0 "2 tensors renamed" new stack "$T/foreign.gguf" --rename blk.0.ssm_dt=blk.1.ssm_dt -v \
    --rename blk.1.ssm_dt=blk.0.ssm_dt
row "02 taken" 1 "two tensors would have this name" new stack "$T/foreign.gguf" --rename blk.0.ssm_dt=blk.1.ssm_dt
row "02 absent" 1 "there is no tensor 'blk.0.ssm'" new stack "$T/foreign.gguf" --rename blk.0.ssm=x
row "02 two stars" 2 "stands for the same text" new stack "$T/foreign.gguf" --rename 'blk.*=x'
row "02 no name" 2 "expected OLD=NEW" new stack "$T/foreign.gguf" --rename 'blk='

organ-keys -q "$T/foreign.gguf" --set general.architecture=str:qwen35 -o "$T/x.gguf" --force 2> /dev/null
row "02 qwen35" 1 "blk.0.ssm_dt	architecture qwen35 has no such tensor here" organ-check "$T/x.gguf"

# ---- 03 arrays of every type: llama.cpp#13557

mkmodel "$T/y.gguf" t:F32:4
row "03 charsmap" 0 '' new keys "$T/y.gguf" -q --set 'a.u8=u8[]:0,255' --set 'a.i8=i8[]:-128,127' \
    --set 'a.u16=u16[]:65535' \
    --set 'a.i16=i16[]:-32768' --set 'a.u32=u32[]:4294967295' --set 'a.u64=u64[]:18446744073709551615' \
    --set 'a.i64=i64[]:-9223372036854775808' --set 'a.f64=f64[]:1e300,0.1' \
    --set 'a.bool=bool[]:true,false' --set 'a.none=i32[]:'
cp "$T/x.gguf" "$T/arrays.gguf"
organ-keys "$T/arrays.gguf" --json 'a.*' > "$T/want"
row "03 charsmap: another key is set" 0 '' new keys "$T/arrays.gguf" -q --set general.name=x
organ-keys "$T/x.gguf" --json 'a.*' > "$T/got"
check_same "$T/got" "$T/want" "03 charsmap: all other keys keep their types and values"

# ---- 05 importance matrices with zeros: llama.cpp#8661, #11764, #12439, #7805, auto-round#667,
# ik_llama.cpp#202

Q=blk.1.attn_q.weight E=blk.1.ffn_gate_exps.weight
mkmodel "$T/f16.gguf" "$Q:F16:512x8" "$E:F16:256x4x4"
one='\000\000\200\077' zero='\000\000\000\000' tiny='\001\000\000\000'
{ u32 1; dat $Q 5 512; bytes 512 "$zero"; } > "$T/zero.dat"
{ u32 1; dat $Q 5 512; bytes 512 "$tiny"; } > "$T/tiny.dat"
{ u32 1; dat $Q 5 512; bytes 256 "$one"; bytes 256 "$zero"; } > "$T/columns.dat"
{ u32 1; dat $Q 5 512; bytes 128 "$one"; bytes 384 "$zero"; } > "$T/half.dat"
{ u32 1; dat $E 5 1024; bytes 256 "$one"; bytes 256 "$zero"; bytes 512 "$one"; } > "$T/expert.dat"
{ u32 1; dat $Q 5 512; bytes 511 "$one"; bytes 1 '\000\000\300\177'; } > "$T/nan.dat"
{ u32 1; dat $Q 5 512; bytes 512 '\377\377\177\177'; } > "$T/huge.dat"
{ u32 1; dat $Q 0 512; bytes 512 "$zero"; } > "$T/count-0.dat"
{ u32 1; dat $Q 5 512; bytes 512 "$one"; } > "$T/ones.dat"
for t in q2_k q3_k q4_k q5_k q6_k q4_0 q5_0 q4_1 iq4_xs; do
    for f in zero tiny columns half expert; do
        case $f in
        columns) case='zero-columns.imatrix' ;;
        expert) case=moe-dead-expert.imatrix ;;
        *) case=$f.imatrix ;;
        esac
        case $f in
        columns) text="no weights for some columns, which count as equally important: $Q (256)" ;;
        half) text="equally important: $Q (384)" ;;
        expert) text="equally important: $E (256)" ;;
        *) text="equally important: $Q (512)" ;;
        esac
        row "05 $case $t" 0 "$text" new assemble "$T/f16.gguf" --dtype "blk.*=$t" --imatrix "$T/$f.dat"
        row "05 $case $t: nothing is lost" 1 '' organ-compare --sample 0 "$T/f16.gguf" "$T/x.gguf"
        awk -F '\t' "$BY_NAME"'col("name") ~ /weight$/ && !(col("cosine") > 0.93) { bad = 1 } END {
            exit bad }' "$T/out" ||
            bad "05 $f $t: $(cat "$T/out")"
    done
done
row "05 zero: as equal weights" 0 '' new assemble "$T/f16.gguf" -q --dtype "$Q=q4_k" --imatrix "$T/zero.dat"
# The file's name is a key, so the name must be the same.
mv "$T/x.gguf" "$T/zero.gguf"
cp "$T/ones.dat" "$T/zero.dat"
new assemble "$T/f16.gguf" -q --dtype "$Q=q4_k" --imatrix "$T/zero.dat"
check_same "$T/zero.gguf" "$T/x.gguf" "05 zero: the bytes of equal weights"
row "05 ones" 0 "!equally important" new assemble "$T/f16.gguf" --dtype "blk.*=q4_k" --imatrix "$T/ones.dat"
row "05 nan.imatrix" 3 "not finite" new assemble "$T/f16.gguf" --dtype "blk.*=q4_k" --imatrix "$T/nan.dat"
row "05 huge" 3 "values above 2^64" new assemble "$T/f16.gguf" --dtype "blk.*=q4_k" --imatrix "$T/huge.dat"
row "05 count-0.imatrix" 0 "!equally important" \
    new assemble "$T/f16.gguf" --dtype "blk.*=q4_k" --imatrix "$T/count-0.dat"
row "05 unused" 0 "!equally important" new assemble "$T/f16.gguf" --dtype "blk.*=q8_0" --imatrix "$T/expert.dat"

# ---- 10 rows that do not fit the blocks of a preset: llama.cpp#26616, #28474, #14996

fitting() { # OUT ROW: a small model with rows of that length
    mkmodel "$1" -k llama.block_count=2 "token_embd.weight:F16:$2x64" "output.weight:F16:$2x64" -n 2 \
        "blk.%.attn_q.weight:F16:$2x64" "blk.%.attn_norm.weight:F32:$2" "blk.%.ffn_down.weight:F16:512x64"
}
for n in 288 320 672 72; do
    case $n in
    72) text="4 tensors as F16: their rows of 72 do not fit Q4_K or Q6_K" ;;
    *) text="3 tensors as Q5_0, 1 as Q8_0: their rows of $n do not fit Q4_K or Q6_K" ;;
    esac
    fitting "$T/rows.gguf" $n
    row "10 rows-$n" 0 "$text" new assemble "$T/rows.gguf" --dtype q4_k_m
    row "10 rows-$n --strict" 1 "$text" new assemble "$T/rows.gguf" --dtype q4_k_m --strict
    check_text "$(($(wc -l < "$T/err")))" 1 "10 rows-$n --strict: one line"
    check_text "$(organ-assemble -q "$T/rows.gguf" --dtype q4_k_m --dry-run |
        awk -F '\t' "$BY_NAME"'col("wanted") != "-" { print col("wanted") }' |
        sort | uniq -c | tr -s ' \n' ' ')" " 3 Q4_K 1 Q6_K 1 wanted " "10 rows-$n --dry-run"
done
fitting "$T/rows.gguf" 512
row "10 rows that fit" 0 "!do not fit" new assemble "$T/rows.gguf" --dtype q4_k_m
row "10 a rule that says so" 0 "!do not fit" new assemble "$T/rows.gguf" --dtype '*attn_q*=q5_0,q4_k_m'
row "10 an adapter" 1 "all 56 tensors keep their types" new assemble "$LAB/lab-lora-code.gguf" --dtype q8_0
row "10 no such tensor" 1 "no tensor matches" new assemble "$T/rows.gguf" --dtype 'ffn=q8_0'

mkmodel "$T/rows.gguf" -k llama.block_count=2 token_embd.weight:F16:256x64 -n 2 blk.%.attn_q.weight:F16:256x64 \
    blk.%.ffn_down.weight:F16:672x256
row "10 down-672" 0 "1 tensor as Q5_0, 1 as Q8_0: their rows of 672 do not fit" \
    new assemble "$T/rows.gguf" --dtype q4_k_m
mkmodel "$T/rows.gguf" -k llama.block_count=2 token_embd.weight:F32:72x64 -n 2 blk.%.attn_q.weight:F32:72x64
row "10 rows-72-f32" 0 "3 tensors as F16: their rows of 72 do not fit" new assemble "$T/rows.gguf" --dtype q4_k_m
row "10 rows-72-f32 --strict" 1 "3 tensors as F16" new assemble "$T/rows.gguf" --dtype q4_k_m --strict

# ---- 08 a value that F16 cannot hold: llama.cpp#14788, #13722

mkmodel "$T/y.gguf" t.weight:BF16:16x2 && head -c $(($(wc -c < "$T/y.gguf") - 64)) "$T/y.gguf" > "$T/big.gguf"
bytes 32 '\303\107' >> "$T/big.gguf"
row "08 bf16-1e5" 2 "32 of its values are too large for F16" new assemble "$T/big.gguf" --dtype t.weight=f16
row "08 bf16-1e5 as f32" 0 '' new assemble "$T/big.gguf" --dtype t.weight=f32
# The scales of blocks are F16 too.
mkmodel "$T/y.gguf" t.weight:BF16:256x1 && head -c $(($(wc -c < "$T/y.gguf") - 512)) "$T/y.gguf" > "$T/head"
{ cat "$T/head" && bytes 256 '\303\107'; } > "$T/big.gguf"
{ cat "$T/head" && bytes 256 '\150\123'; } > "$T/huge.gguf"
for t in q4_0 q4_1 q5_1 q8_0 q2_k q3_k q4_k q6_k iq4_xs; do
    case $t in q?_1) ;; *) row "08 1e5 as $t" 0 '' new assemble "$T/big.gguf" --dtype "t.weight=$t" ;; esac
    row "08 1e12 as $t" 2 "of its values are too large for " new assemble "$T/huge.gguf" --dtype "t.weight=$t"
done
row "08 1e12 as mxfp4" 0 '' new assemble "$T/huge.gguf" --dtype t.weight=mxfp4

# ---- 11 scalars and shapes of image models: ComfyUI-GGUF#136, #392, InvokeAI#9564

mkmodel "$T/y.gguf" scalar:F32: x_pad_token:F32:64x1 cap_embedder.1.weight:F16:64x64x1 \
    layers.0.attention.qkv.weight:F16:256x64
organ-keys -q "$T/y.gguf" --set general.architecture=str:lumina2 --set 'comfy.gguf.orig_shape.x_pad_token=i32[]:1,64' \
    -o "$T/shapes.gguf" --force
row "11 lumina" 0 '' new assemble "$T/shapes.gguf" --dtype q8_0
check_text "$(organ-extract -q --list "$T/x.gguf" | awk -F '\t' "$BY_NAME"'{ printf "%s ", col("dims") }')" \
    "dims - 64x1 64x64x1 256x64 "     "11 lumina: shapes"
check_text "$(organ-keys "$T/x.gguf" --get comfy.gguf.orig_shape.x_pad_token | tr '\n' ' ')" "1 64 " \
    "11 lumina: the key"
rm -rf "$T/shapes"
organ-extract -q "$T/shapes.gguf" -o "$T/shapes" 2> /dev/null
row "11 lumina: through a directory" 0 '' new assemble "$T/shapes" -q
check_same "$T/x.gguf" "$T/shapes.gguf" "11 lumina: through a directory"

# ---- 13 long names, five dimensions: stable-diffusion.cpp#1949, #1759, ggml#682, #825

# long NAME DIMS ARCHITECTURE
long() {
    mkmodel "$T/y.gguf" "$1:F16:$2" &&
        organ-keys -q "$T/y.gguf" --set "general.architecture=str:$3" -o "$T/x.gguf" --force
}
x62=$(printf '%062d' 0)
for n in 63 64 127; do
    long "$(printf "%0${n}d" 0)" 4x4 llama
    case $n in 63) text='!takes at most 63' ;; *) text="its name has $n bytes; llama.cpp takes at most 63" ;; esac
    row "13 name-$n" 1 "$text" organ-check "$T/x.gguf"
    row "13 name-$n: listed" 0 "$(printf "%0${n}d" 0)" organ-extract --list "$T/x.gguf"
done
for a in sd1 sdxl; do
    long "model.diffusion_model.middle_block.1.transformer_blocks.0.$x62.weight" 64x64 $a
    row "13 $a" 0 "image model" organ-info "$T/x.gguf"
    row "13 $a: a note of the limit" 0 "llama.cpp takes at most 63" organ-check "$T/x.gguf"
    cp "$T/x.gguf" "$T/long.gguf"
    rm -rf "$T/long"
    organ-extract -q "$T/long.gguf" -o "$T/long" 2> /dev/null
    row "13 $a: through a directory" 0 '' new assemble "$T/long" -q
    check_same "$T/x.gguf" "$T/long.gguf" "13 $a: through a directory"
done
long patch_embedding.weight 2x2x1x16x64 wan
row "13 wan-5d" 0 "it has 5 dimensions; llama.cpp takes at most 4" organ-check "$T/x.gguf"
row "13 wan-5d" 0 "2x2x1x16x64" organ-extract --list "$T/x.gguf"

# ---- 17, 18 importance matrices in two formats: ik_llama.cpp#2385, llama.cpp#14952

I=$LAB/lab-base.imatrix.gguf
{ u32 1 && dat $E 5 1024 && bytes 1024 "$one"; } > "$T/experts.dat"
organ-imatrix convert "$T/experts.dat" --model "$T/f16.gguf" --chunk-size 64 -o "$T/y.gguf" -q --force
organ-keys -q "$T/y.gguf" --set 'imatrix.datasets=str[]:one,two' -o "$T/moe.imatrix.gguf" --force
row "17 moe.imatrix" 0 '' organ-imatrix convert "$T/moe.imatrix.gguf" --format dat -o "$T/moe.dat" --force
row "17 moe.imatrix: back without the model" 2 "also give the model" \
    organ-imatrix convert "$T/moe.dat" -o "$T/x.gguf" --force
row "18 two.imatrix" 0 '' organ-imatrix combine "$T/moe.imatrix.gguf" "$I" -o "$T/x.gguf" --force
check_text "$(organ-keys "$T/x.gguf" --get imatrix.datasets | sed -n '1,2p' | tr '\n' ' ')" "one two " \
    "18 two.imatrix: the names"

# ---- 19 several parts in one file: llama.cpp#27349

mkmodel "$T/y.gguf" token_embd.weight:F32:64x8 blk.0.attn_q.weight:F32:64x64 v.blk.0.attn_q.weight:F32:64x64 \
    v.patch_embd.weight:F32:64x64 a.blk.0.attn_q.weight:F32:64x64
new keys "$T/y.gguf" -q --set general.architecture=str:gemma4 2> /dev/null
row "19 gemma4" 1 "v.blk.0.attn_q.weight" organ-check "$T/x.gguf"
rm -rf "$T/text"
row "19 gemma4: the text part" 0 '' organ-extract -q "$T/x.gguf" --part text -o "$T/text"
row "19 gemma4: the text part" 1 "!v.blk" organ-check "$T/text"
set --
for b in 0 1 2 3 4; do
    set -- "$@" v.blk.$b.attn_q.weight:F32:64x64 a.blk.$b.ln1.weight:F32:64 a.blk.$b.ln2.weight:F32:64
done
mkmodel "$T/y.gguf" token_embd.weight:F32:64x8 "$@" && new keys "$T/y.gguf" -q --set general.architecture=str:gemma4 \
    2> /dev/null
row "19 one finding for a tower" 1 "it and 9 more tensors are of the part audio, which" organ-check "$T/x.gguf"
check_text "$(grep -c 'tensor-unexpected.a.blk' "$T/out") $(grep -c 'tensor-unexpected.v.blk' "$T/out")" "1 5" \
    "19 one finding for a tower, and one for each of a few tensors"

# ---- 20 a block is dropped from a hybrid model: llama.cpp#27976

mkmodel "$T/y.gguf" -k lfm2.block_count=4 -n 4 blk.%.ffn_up.weight:F32:64x64
organ-keys -q "$T/y.gguf" --set general.architecture=str:lfm2 --set 'lfm2.attention.head_count_kv=u32[]:0,0,2,0' \
    -o "$T/hybrid.gguf" --force
row "20 lfm2" 0 '' new stack "$T/hybrid.gguf" --drop 3
check_text "$(organ-keys "$T/x.gguf" --get lfm2.attention.head_count_kv | tr '\n' ' ')" "0 0 2 " "20 lfm2: the array"
check_text "$(organ-keys "$T/x.gguf" --get lfm2.block_count)" 3 "20 lfm2: blocks"

# ---- 22 keys that no engine reads: llama.cpp#5910, #6836, #8728, imp#1312, mistral.rs#2215

V=$LAB/lab-verse-q4_k_m.gguf
row "22 context-u64" 0 '' new keys "$V" -q --set llama.context_length=u64:512
row "22 context-u64" 1 "its type is u64" organ-check "$T/x.gguf"
row "22 no-blocks" 0 '' new keys "$V" -q --delete llama.block_count
row "22 no-blocks" 1 "llama.block_count	this key is missing" organ-check "$T/x.gguf"
organ-keys "$V" --get tokenizer.ggml.tokens > "$T/lines" && echo 'one more' >> "$T/lines"
row "22 one-token-more" 0 '' new keys "$V" -q --set-file "tokenizer.ggml.tokens=$T/lines"
row "22 one-token-more" 1 "1025" organ-check "$T/x.gguf"
organ-keys "$V" --get tokenizer.ggml.scores | sed 1d > "$T/lines"
row "22 scores-short" 0 '' new keys "$V" -q --set-file "tokenizer.ggml.scores=$T/lines"
row "22 scores-short" 1 "tokenizer.ggml.scores" organ-check "$T/x.gguf"
{ printf GGUF && u32 3 && bytes 8 '\000' && u32 1 && u32 0 && u32 11 && u32 0 && printf split.count && u32 2 &&
    bytes 2 '\000'; } > "$T/x.gguf"
row "22 split-count-0" 1 "!split" organ-check "$T/x.gguf"
mkmodel "$T/x.gguf" t.weight:F32:4 t.weight:F32:4
row "22 tensor-twice" 3 "two tensors have this name" organ-check "$T/x.gguf"

# ---- 23 a tensor that a donor has: ferrox#201, #82

mkmodel "$T/base.gguf" token_embd.weight:F32:64x8
mkmodel "$T/donor.gguf" token_embd.weight:F32:64x8 cls.weight:F32:64x64 cls.bias:F32:64
row "23 donor" 0 '' new transplant "$T/base.gguf" "$T/donor.gguf" --add
check_same "$T/x.gguf" "$T/donor.gguf" "23 base and donor"
row "23 base" 1 "cls.weight" organ-compare "$T/base.gguf" "$T/x.gguf"

# ranking TEXT TENSOR KEY...: what organ-check says of a bert model with a classifier
ranking() {
    text=$1
    # shellcheck disable=SC2086 # one or two
    mkmodel "$T/y.gguf" -k bert.embedding_length=64 token_embd.weight:F32:64x8 $2
    shift 2
    set -- "$text" "$@" bert.pooling_type=u32:4 general.architecture=str:bert
    for one; do
        shift
        case $one in *=*) set -- "$@" --set "$one" ;; esac
    done
    organ-keys -q "$T/y.gguf" "$@" -o "$T/x.gguf" --force 2> /dev/null
    row "23 $text" 1 "$text" organ-check "$T/x.gguf"
}
ranking "its pooler is missing" cls.output.weight:F32:64x1
ranking "so that its scores mean nothing" blk.0.attn_q.weight:F32:64x64
ranking "!pooling_type" "cls.weight:F32:64x64 cls.output.weight:F32:64x1"
ranking "64x2, but the keys require 64x1" cls.output.weight:F32:64x2
ranking "!cls.output.weight" "cls.weight:F32:64x64 cls.output.weight:F32:64x2" \
    'bert.classifier.output_labels=str[]:a,b'
ranking "64x2, but the keys require 64x3" cls.output.weight:F32:64x2 'bert.classifier.output_labels=str[]:a,b,c'
organ-keys -q "$T/x.gguf" --set bert.pooling_type=u32:9 -o "$T/y.gguf" --force 2> /dev/null
row "23 no such pooling" 1 "engines know the types 0 to 4" organ-check "$T/y.gguf"

# ---- 26 adapters that do not fit: llama.cpp#9114

A=$LAB/lab-base-q4_k_m.gguf L=$LAB/lab-lora-code.gguf
organ-keys -q "$L" --delete adapter.lora.alpha -o "$T/no-alpha.gguf" --force 2> /dev/null
row "26 no-alpha" 0 '' new transplant "$A" --adapter "$T/no-alpha.gguf"
row "26 no-alpha: verdict" 0 "engines do not scale the change by alpha / rank" organ-check "$T/no-alpha.gguf"
for c in rope-freqs block-9; do
    case $c in
    rope-freqs) t="rope_freqs.weight:F32:32" text=rope_freqs.weight ;;
    *) t="blk.9.attn_q.weight.lora_a:F32:256x4 blk.9.attn_q.weight.lora_b:F32:4x256" text=blk.9.attn_q.weight ;;
    esac
    # shellcheck disable=SC2086 # one or two
    mkmodel "$T/y.gguf" $t
    organ-keys -q "$T/y.gguf" --set general.type=str:adapter --set adapter.type=str:lora \
        --set adapter.lora.alpha=f32:8 --set general.architecture=str:llama -o "$T/lora.gguf" --force
    row "26 $c" 3 "$text" new transplant "$A" --adapter "$T/lora.gguf"
done

# ---- 14 parts of files, and one verdict for files of all kinds: llama.cpp#6885,
# text-generation-webui#6080, 1bit-MONSTER#1606

V=$LAB/lab-verse-q4_k_m.gguf
head -c 1500000 "$V" > "$T/m.gguf.part1of2"
tail -c +1500001 "$V" > "$T/m.gguf.part2of2"
head -c 24000 "$V" > "$T/keys-cut.gguf"
head -c 26000 "$V" > "$T/header.gguf"
head -c $(($(wc -c < "$V") - 4096)) "$V" > "$T/last.gguf"
head -c 9000 "$LAB/lab-verse.imatrix.gguf" > "$T/cut.imatrix.gguf"
organ-assemble -q "$V" --shards 3 -o "$T/set.gguf"
rm "$T/set-00002-of-00003.gguf"
organ-extract -q "$V" -o "$T/dir"
organ-keys -q "$V" --set general.type=str:mmproj -o "$T/projector.gguf"
organ-keys -q "$V" --set general.architecture=str:controlvector -o "$T/control.gguf"
organ-keys -q "$V" --set general.architecture=str:mystery -o "$T/mystery.gguf"
organ-keys -q "$V" --set llama.embedding_length=u32:128 -o "$T/wrong.gguf" 2> /dev/null
organ-keys -q "$V" --set general.file_type=u32:7 -o "$T/note.gguf"
organ-keys -q "$LAB/lab-lora-code.gguf" --delete adapter.type -o "$T/adapter.gguf"
organ-compare -q "$V" "$LAB/lab-code-q4_k_m.gguf" --patch "$T/patch.gguf" > /dev/null 2>&1
mkmodel "$T/image.gguf" model.diffusion_model.final_layer.linear.weight:F16:64x64
organ-keys -q "$T/image.gguf" --set general.architecture=str:flux -o "$T/flux.gguf" 2> /dev/null
row "14 m.gguf.part1of2" 1 "join all parts with cat" organ-check "$T/m.gguf.part1of2"
row "14 m.gguf.part2of2" 3 "join all parts with cat" organ-check "$T/m.gguf.part2of2"
row "14 part1of2" 0 "incomplete" organ-info "$T/m.gguf.part1of2"
row "14 part2of2" 3 "join all parts with cat" organ-info "$T/m.gguf.part2of2"
for name in m.gguf.part-aa m.gguf-split-a m.gguf.001; do
    cp "$T/m.gguf.part1of2" "$T/$name"
    row "14 $name" 1 "join all parts with cat" organ-check "$T/$name"
done
row "14 header-only" 0 "next:  organ-remote --complete" organ-info "$T/header.gguf"
row "14 last-tensor-cut" 1 "the tensor needs" organ-check "$T/last.gguf"
row "14 a middle shard" 0 "1 of 3 shards is missing" organ-info "$T/set-00001-of-00003.gguf"

# verdict FILE: from the rows of organ-check: errors, warnings and the verdict.
verdict() {
    organ-check "$@" 2> /dev/null | awk -F '\t' "$BY_NAME"'NR == 1 || col("rule") == "kind" { next }
        col("rule") == "unchecked" { if (why == "") why = col("message"); next }
        { n[col("level")]++;
            if (!(col("level") in worst)) worst[col("level")] = (col("where") == "-" ? "" : col("where") ": ") \
                col("rule") ": " col("message") }
        END { w = "error" in n ? "error" : "warning" in n ? "warning" : "note" in n ? "note" : ""
            print n["error"] + 0, n["warning"] + 0, w ? worst[w] : why ? "not checked: " why : "no findings" }'
}
for f in "$V" "$LAB/lab-lora-code.gguf" "$LAB/lab-verse.imatrix.gguf" "$T/m.gguf.part1of2" "$T/header.gguf" \
    "$T/last.gguf" "$T/cut.imatrix.gguf" "$T/set-00001-of-00003.gguf" "$T/dir" "$T/projector.gguf" "$T/control.gguf" \
    "$T/mystery.gguf" "$T/wrong.gguf" "$T/note.gguf" "$T/adapter.gguf" "$T/patch.gguf" "$T/flux.gguf" \
    "$T/dir/norm/output_norm.bin"; do
    told=$(organ-info --table "$f" 2> /dev/null | cells errors,warnings,verdict | tail -n 1 | tr '\t' ' ')
    check_text "$told" "$(verdict "$f")" "one verdict: $f"
    shown=$(organ-info "$f" 2> /dev/null | sed -n 's/^  check *//p')
    case $told in
    '0 0 no findings' | '0 0 not checked'*) check_text "$shown" "${told#0 0 }" "one verdict on the screen: $f" ;;
    *) check_text "${shown#*; }" "${told#* * }" "one verdict on the screen: $f" ;;
    esac
done
for f in "$V" "$T/wrong.gguf" "$LAB/lab-lora-code.gguf"; do
    check_text "$(organ-info --table - < "$f" 2> /dev/null |
        cells errors,warnings,verdict | tail -n 1 | tr '\t' ' ')" \
        "$(verdict --data - < "$f")" "one verdict on a pipe: $f"
done
row "a kind without rules" 0 "not checked: a patch is judged by its result" organ-info "$T/patch.gguf"
row "no table" 0 "does not know architecture" organ-info "$T/mystery.gguf"
row "an image model" 0 "not checked: " organ-info "$T/flux.gguf"
row "an adapter" 0 "no findings" organ-info "$LAB/lab-lora-code.gguf"
row "a damaged adapter" 1 "error" organ-check "$T/adapter.gguf"

# ---- 06, 07 projectors: gguf-parser-go#48, llama.cpp#22656, jan#8273, koboldcpp#1662

A=tests/data/lab/lab-base-q4_k_m.gguf
# vision WIDTH [TENSOR]: a projector for embeddings of that width, without the tensor
vision() {
    set -- "$1" "${2:-none}" v.patch_embd.weight:F16:14x14x3x64 v.patch_embd.weight.1:F16:14x14x3x64 \
        v.patch_embd.bias:F32:64 v.position_embd.weight:F32:64x16 v.post_ln.weight:F32:64 mm.0.weight:F16:256x256 \
        mm.0.bias:F32:256 "mm.2.weight:F16:256x$1" "mm.2.bias:F32:$1"
    width=$1 without=$2
    shift 2
    for b in 0 1; do
        for one in ln1.weight:F32:64 ln2.weight:F32:64 attn_qkv.weight:F16:64x192 attn_qkv.bias:F32:192 \
            attn_out.weight:F16:64x64 ffn_up.weight:F16:64x128 ffn_up.bias:F32:128 ffn_down.weight:F16:128x64; do
            set -- "$@" "v.blk.$b.$one"
        done
    done
    for one; do
        shift
        case $one in "$without":*) ;; *) set -- "$@" "$one" ;; esac
    done
    k=clip.vision
    mkmodel "$T/y.gguf" -k $k.image_size=56 -k $k.patch_size=14 -k $k.embedding_length=64 -k $k.block_count=2 \
        -k $k.feed_forward_length=128 -k "$k.projection_dim=$width" -k $k.attention.head_count=4 "$@" &&
        organ-keys -q "$T/y.gguf" --set general.architecture=str:clip --set clip.has_vision_encoder=bool:true \
            --set clip.projector_type=str:qwen3vl_merger --set $k.attention.layer_norm_epsilon=f32:1e-6 \
            --set "$k.image_mean=f32[]:0.5,0.5,0.5" --set "$k.image_std=f32[]:0.5,0.5,0.5" -o "$T/ok.gguf" --force
}
# spoiled KEY=VALUE...: ok.gguf with other keys, as x.gguf
spoiled() {
    for one; do
        shift
        case $one in *=) set -- "$@" --delete "${one%=}" ;; *) set -- "$@" --set "$one" ;; esac
    done
    new keys "$T/ok.gguf" -q "$@"
}
vision 256
row "06 ok" 0 "this is a projector" organ-check "$T/ok.gguf"
row "06 ok: no finding" 0 "no findings" organ-info "$T/ok.gguf"
row "06 ok for its target" 0 "!target" organ-check "$T/ok.gguf" --target $A
spoiled clip.projector_type= clip.vision.projector_type=str:qwen3vl_merger
row "06 per-modality" 0 "no findings" organ-info "$T/x.gguf"
mkmodel "$T/y.gguf" &&
    organ-keys -q "$T/y.gguf" --set general.architecture=str:clip --set clip.has_vision_encoder=bool:true \
    --set clip.projector_type=str:qwen3vl_merger --set clip.vision.block_count=u32:2 -o "$T/x.gguf" --force
row "06 empty" 1 "clip.vision.embedding_length" organ-check "$T/x.gguf"
spoiled clip.projector_type=
row "06 no-type" 1 "clip.projector_type" organ-check "$T/x.gguf"
spoiled clip.projector_type=str:gemma4uv2
row "06 unknown-type" 1 "does not know the type 'gemma4uv2'" organ-check "$T/x.gguf"
for k in image_size patch_size embedding_length block_count feed_forward_length projection_dim attention.head_count \
    attention.layer_norm_epsilon image_mean image_std; do
    spoiled clip.vision.$k=
    case $k in image_mean) name=no-mean ;; *) name=no-$(echo $k | tr _ -) ;; esac
    row "06 $name" 1 "clip.vision.$k" organ-check "$T/x.gguf"
done
spoiled clip.vision.patch_size=u32:0
row "06 patch-0" 1 "it is 0, and llama.cpp divides by it" organ-check "$T/x.gguf"
spoiled clip.vision.patch_size=u32:16
row "06 another patch" 1 "its side 0 is 14, but patch_size is 16" organ-check "$T/x.gguf"
spoiled clip.vision.embedding_length=u32:96
row "06 another embedding" 1 "but embedding_length is 96" organ-check "$T/x.gguf"
spoiled 'clip.vision.image_mean=f32[]:0.5,0.5'
row "06 a short mean" 1 "it must be an array of three f32" organ-check "$T/x.gguf"
spoiled clip.vision.block_count=u32:3
row "06 one-block-short" 1 "v.blk.2.attn_out.weight" organ-check "$T/x.gguf"
spoiled clip.has_vision_encoder=bool:false
row "06 no part" 1 "so that llama.cpp loads nothing" organ-check "$T/x.gguf"
spoiled clip.projector_type=str:gemma3
row "06 another type" 1 "mm.input_projection.weight" organ-check "$T/x.gguf"
spoiled clip.projector_type=str:gemma4uv
row "06 a type without rules" 0 "not checked: there are no rules for tensors of projectors" organ-info "$T/x.gguf"
spoiled clip.use_gelu=bool:true clip.use_silu=bool:true
row "06 both activations" 1 "both true, and llama.cpp refuses that" organ-check "$T/x.gguf"
spoiled clip.use_gelu=bool:true clip.use_silu=bool:false
row "06 one activation" 0 "no findings" organ-info "$T/x.gguf"
spoiled clip.vision.attention.head_count=u32:3
row "06 heads of no width" 1 "64 dimensions cannot be divided among 3 heads" organ-check "$T/x.gguf"
spoiled clip.vision.block_count=u32:1
row "06 a block more than counted" 0 "v.blk.1.ln1.weight" organ-check "$T/x.gguf"
for t in v.blk.0.attn_out.weight v.blk.1.ffn_down.weight v.blk.1.attn_qkv.weight mm.2.weight mm.0.bias \
    v.patch_embd.weight v.patch_embd.weight.1 v.patch_embd.bias v.position_embd.weight; do
    vision 256 $t
    text=$t
    case $t in *attn_qkv*) text=v.blk.1.attn_k.weight ;; esac
    row "06 tensor-missing $t" 1 "$text" organ-check "$T/ok.gguf"
done
vision 256 mm.2.weight
row "06 head-missing" 1 "mm.2.weight" organ-check "$T/ok.gguf"
vision 320
row "06 for-320" 0 "no findings" organ-info "$T/ok.gguf"
row "06 for-320: another target" 1 "the width of the output is 320, but the embedding_length of the target is 256" \
    organ-check "$T/ok.gguf" --target $A
organ-keys -q $A --delete tokenizer.ggml.tokens -o "$T/x.gguf" --force
row "16 a target without a vocabulary" 0 "the target has no vocabulary" organ-check $A --target "$T/x.gguf"
row "06 a target that is a projector" 1 "the target is not a language model but: projector" \
    organ-check $A --target "$T/ok.gguf"
vision 256
spoiled clip.has_audio_encoder=bool:true clip.audio.projector_type=str:voxtral clip.projector_type= \
    clip.vision.projector_type=str:qwen3vl_merger
mkmodel "$T/y.gguf" mm.a.mlp.2.weight:F16:256x320 &&
    organ-transplant -q "$T/x.gguf" "$T/y.gguf" --add --tensors 'mm.a.*' -o "$T/z.gguf" --force
row "06 images and sound: another target" 1 "mm.a.mlp.2.weight" organ-check "$T/z.gguf" --target $A
check_text "$(grep -c "the width of the output is 320" "$T/out")" 1 "06 images and sound: the width for sound"

# Projectors that are re-encoded: llama.cpp#20159, #18122, ik_llama.cpp#1367
for t in f16 bf16; do
    mkmodel "$T/y.gguf" v.patch_embd.weight:F32:14x14x3x64 v.position_embd.weight:F32:256x16 -n 2 \
        "v.blk.%.attn_q.weight:$t:256x64" &&
        organ-keys -q "$T/y.gguf" --set general.architecture=str:clip -o "$T/p.gguf" --force
    row "07 $t" 0 "2 re-encoded" new assemble "$T/p.gguf" --dtype q4_k_m
    check_text "$(organ-extract -q --list "$T/x.gguf" | awk -F '\t' "$BY_NAME"'{ printf "%s ", col("dtype") }')" \
        "dtype F32 F32 Q4_K Q4_K " "07 $t"
done
mkmodel "$T/y.gguf" mm.input_projection.weight:F16:256x64 mm.2.weight:F16:256x64 &&
    organ-keys -q "$T/y.gguf" --set general.architecture=str:clip -o "$T/p.gguf" --force
row "07 the projection that engines transpose" 0 "1 re-encoded, 1 left: mm.input_projection.weight" \
    new assemble "$T/p.gguf" --dtype q8_0
mkmodel "$T/y.gguf" -n 2 v.blk.%.attn_q.weight:F16:256x64 v.blk.%.ffn_down.weight:F16:538x64 &&
    organ-keys -q "$T/y.gguf" --set general.architecture=str:clip -o "$T/p.gguf" --force
row "07 odd-rows" 0 "rows of 538" new assemble "$T/p.gguf" --dtype q4_k_m

# ---- files that are used with a model: --target

mkmodel "$T/y.gguf" blk.0.attn_q.weight.lora_a:F32:256x4 blk.0.attn_q.weight.lora_b:F32:4x256 \
    token_embd.weight.lora_a:F32:4x1024 token_embd.weight.lora_b:F32:4x256
organ-keys -q "$T/y.gguf" --set general.type=str:adapter --set adapter.type=str:lora --set adapter.lora.alpha=f32:8 \
    -o "$T/lora.gguf" --force
row "target: an adapter" 0 "!target" organ-check "$T/lora.gguf" --target $A
row "target: an adapter for another size" 1 "blk.0.attn_q.weight.lora_a" organ-check "$T/lora.gguf" \
    --target "$T/image.gguf"
new keys "$T/lora.gguf" -q --set general.architecture=str:qwen2
row "target: another architecture" 1 "it differs from that of the target (llama)" organ-check "$T/x.gguf" --target $A
mkmodel "$T/y.gguf" blk.0.attn_q.weight.lora_a:F32:64x4 blk.0.attn_q.weight.lora_b:F32:4x256
new keys "$T/y.gguf" -q --set general.type=str:adapter
row "target: other rows" 1 "the pair changes a matrix of 64 by 256, but that of the target has 256 by 256" \
    organ-check "$T/x.gguf" --target $A
# control TENSOR...: a control vector
control() {
    mkmodel "$T/y.gguf" "$@" && new keys "$T/y.gguf" -q --set general.architecture=str:controlvector
}
for n in 256 64; do
    control direction.1:F32:$n direction.3:F32:$n
    case $n in 256) want=0 text=!target ;; *) want=1 text="it has 64 values, but the embedding_length" ;; esac
    row "target: a control vector of $n" $want "$text" organ-check "$T/x.gguf" --target $A
done
control direction.3:F32:256 direction.4:F32:256
row "target: a layer too many" 0 "direction.4	no engine adds it, as the target has blocks 0 to 3" \
    organ-check "$T/x.gguf" --target $A

# ---- control vectors

control direction.1:F32:64 direction.2:F32:64x1
row "a sound control vector" 0 "no findings" organ-info "$T/x.gguf"
new keys "$T/y.gguf" -q --set general.type=str:controlvector --set general.architecture=str:llama
row "a control vector by general.type" 0 "control vector" organ-info "$T/x.gguf"
for t in direction.0:F32:64 direction.x:F32:64 direction.:F32:64 direction.1.5:F32:64 direction:F32:64 \
    output_norm.weight:F32:64 direction.99999999999:F32:64; do
    control direction.1:F32:64 $t
    row "control vector: $t" 1 "${t%%:*}	its name is not direction.N" organ-check "$T/x.gguf"
done
control direction.1:F16:64
row "control vector: type" 1 "its type is F16" organ-check "$T/x.gguf"
control direction.1:F32:64x2
row "control vector: a matrix" 1 "it is a matrix" organ-check "$T/x.gguf"
control direction.1:F32:64 direction.2:F32:32
row "control vector: another width" 1 "it has 32 values, but direction.1 has 64" organ-check "$T/x.gguf"
control
row "control vector: no tensors" 1 "it has no tensors" organ-check "$T/x.gguf"

control direction.1:F32:0
row "control vector: no values" 1 "it has no values" organ-check "$T/x.gguf"

# ---- adapters and importance matrices that no program can use

# adapter ALPHA TENSOR...: an adapter of llama
adapter() {
    alpha=$1
    shift
    mkmodel "$T/y.gguf" "$@" && new keys "$T/y.gguf" -q --set general.type=str:adapter --set adapter.type=str:lora \
        --set "adapter.lora.alpha=f32:$alpha" --set general.architecture=str:llama
}
la=blk.0.attn_q.weight.lora_a lb=blk.0.attn_q.weight.lora_b
adapter 8 $la:F32:64x4 $lb:F32:4x64
row "adapter: sound" 0 "no findings" organ-info "$T/x.gguf"
adapter 8 $la:Q8_0:64x4 $lb:F32:4x64
row "adapter: quantized" 0 "no findings" organ-info "$T/x.gguf"
adapter 8 $la:F32:64x4 $lb:I32:4x64
row "adapter: integers" 1 "$lb	engines load a tensor in I32" organ-check "$T/x.gguf"
adapter 8 $la:F32:64x0 $lb:F32:0x64
row "adapter: rank 0" 1 "it has no values" organ-check "$T/x.gguf"
adapter 8 $la:F32:64x4x2 $lb:F32:4x64
row "adapter: other experts" 1 "it has 2 matrices, but its partner has 1" organ-check "$T/x.gguf"
adapter nan $la:F32:64x4 $lb:F32:4x64
row "adapter: alpha is NaN" 1 "it is not a finite number" organ-check "$T/x.gguf"
adapter 0 $la:F32:64x4 $lb:F32:4x64
row "adapter: alpha 0" 0 "do not scale the change at all" organ-check "$T/x.gguf"
# sums ROWS TYPE COUNTS
sums() {
    mkmodel "$T/y.gguf" "t.in_sum2:$2:64x$1" "t.counts:F32:1x$3" &&
        new keys "$T/y.gguf" -q --set general.type=str:imatrix --set imatrix.chunk_count=u32:1 \
            --set imatrix.chunk_size=u32:64 --set 'imatrix.datasets=str[]:x'
}
sums 4 F32 4
row "imatrix: sound" 0 "no findings" organ-info "$T/x.gguf"
sums 4 F32 3
row "imatrix: other counts" 1 "it has 4 rows of sums, but there are 3 counts" organ-check "$T/x.gguf"
sums 1 F16 1
row "imatrix: another type" 1 "reads only F32" organ-check "$T/x.gguf"
row "a type of tokens that no engine knows" 0 '' new keys tests/data/lab/lab-base-q4_k_m.gguf -q \
    --set 'tokenizer.ggml.token_type[5]=i32:9'
row "a type of tokens that no engine knows" 0 "1 token has a type that no engine knows, the first of them token 5" \
    organ-check "$T/x.gguf"

# ---- files without tensors and without a vocabulary

empty="it has neither tensors nor a vocabulary"
mkmodel "$T/nothing.gguf"
for keys in "" general.architecture=str:llama general.type=str:model general.architecture=str:mystery \
    "tokenizer.ggml.tokens=str[]:"; do
    cp "$T/nothing.gguf" "$T/x.gguf"
    [ -z "$keys" ] || new keys "$T/nothing.gguf" -q --set "$keys"
    row "empty $keys" 0 "x.gguf: empty file" organ-info "$T/x.gguf"
    row "empty $keys" 1 "$empty" organ-check "$T/x.gguf"
    row "empty $keys: as a model" 1 "it is not of the kind 'model'" organ-check --as model "$T/x.gguf"
    row "empty $keys: nothing else is missing" 1 "!block_count" organ-check "$T/x.gguf"
    row "empty $keys, on a pipe" 0 "empty file" sh -c 'organ-info - < "$1"' - "$T/x.gguf"
    row "empty $keys, on a pipe" 1 "$empty" sh -c 'organ-check - < "$1"' - "$T/x.gguf"
    rm -rf "$T/nodir"
    organ-extract -q "$T/x.gguf" -o "$T/nodir" 2> /dev/null
    row "empty $keys, as a directory" 1 "$empty" organ-check "$T/nodir"
done
new keys "$T/nothing.gguf" -q --set 'tokenizer.ggml.tokens=str[]:a,b'
row "a vocabulary is not empty" 0 ": vocabulary" organ-info "$T/x.gguf"
mkmodel "$T/no-adapter.gguf"
new keys "$T/no-adapter.gguf" -q --set general.type=str:adapter --set adapter.type=str:lora \
    --set adapter.lora.alpha=f32:8 --set general.architecture=str:llama
row "an adapter without tensors" 1 "it has no tensors" organ-check "$T/x.gguf"
new keys "$T/no-adapter.gguf" -q --set general.type=str:imatrix --set imatrix.chunk_count=u32:1 \
    --set imatrix.chunk_size=u32:512 --set 'imatrix.datasets=str[]:x'
row "an importance matrix without tensors" 1 "it has no tensors" organ-check "$T/x.gguf"
row "target: no question" 0 "a file of this kind cannot be compared with a target" \
    organ-check tests/data/lab/lab-verse.imatrix.gguf --target $A

# ---- 12 image and speech models: lmstudio-bug-tracker#2280, llama.cpp#10103

mkmodel "$T/image.gguf" double_blocks.0.img_attn.qkv.weight:F16:64x192 img_in.weight:F16:64x64
for a in flux sd3 sdxl wan qwen_image z_image krea2 lumina2 another_image_model; do
    row "12 $a" 0 '' organ-keys "$T/image.gguf" -q --set "general.architecture=str:$a" -o "$T/x.gguf" --force
    row "12 $a" 0 "$T/x.gguf: image model, $a" organ-info "$T/x.gguf"
    row "12 $a: verdict" 0 "not checked: llama.cpp does not load image models" organ-info "$T/x.gguf"
    row "12 $a" 0 "this is an image model; llama.cpp does not load it" organ-check "$T/x.gguf"
    row "12 $a on a pipe" 0 "image model, $a" sh -c 'organ-info - < "$1"' - "$T/x.gguf"
    row "12 $a as a model" 1 "this is an image model" organ-check --as model "$T/x.gguf"
done
new keys "$T/image.gguf" -q --delete general.architecture
row "12 no-architecture" 0 "image model" organ-info "$T/x.gguf"
row "12 no architecture" 0 "this is an image model" organ-check "$T/x.gguf"
row "12 whisper" 0 '' new keys "$T/image.gguf" -q --set general.architecture=str:whisper
row "12 whisper" 0 "speech model, whisper" organ-info "$T/x.gguf"
row "12 a language model keeps its kind" 0 "language model, llama" organ-info tests/data/lab/lab-base-q4_k_m.gguf

# ---- 16 draft heads: Automodel#2447, EAGLE#222, ROCmFPX#44, llama.cpp#25116

A=tests/data/lab/lab-base-q4_k_m.gguf
# i64 N...: eight bytes each; N below 65536, or -1
i64() {
    for n; do
        case $n in -1) bytes 8 '\377' ;; *) u32 "$n" && bytes 4 '\000' ;; esac
    done
}
# eagle D2T [TENSOR...]: an eagle3 head for lab-base, with the numbers of d2t unless D2T is -
eagle() {
    numbers=$1
    shift
    [ "$numbers" = - ] || set -- "$@" d2t:I64:4
    mkmodel "$T/x.gguf" "$@" && head -c "$(($(wc -c < "$T/x.gguf") - 32))" "$T/x.gguf" > "$T/y.gguf"
    # shellcheck disable=SC2086 # several
    if [ "$numbers" = - ]; then mv "$T/x.gguf" "$T/y.gguf"; else i64 $numbers >> "$T/y.gguf"; fi
    organ-keys -q "$T/y.gguf" --set general.architecture=str:eagle3 --set 'eagle3.target_layers=i32[]:0,1,2' \
        --set eagle3.vocab_size=u32:1024 -o "$T/x.gguf" --force
}
fits() { organ-check --target $A "$T/x.gguf"; }
out4=output.weight:F32:64x4
eagle "1 7 5 3" $out4
row "16 d2t-ok" 1 "!d2t" fits
row "16 d2t-ok, alone" 1 "!	target	d2t" organ-check --data "$T/x.gguf"
eagle "0 0 0 0" $out4
row "16 d2t-all-zero" 1 "all of its 4 numbers are 0" fits
row "16 d2t-all-zero, alone" 1 "all of its 4 numbers are 0" organ-check --data "$T/x.gguf"
eagle "1 7 5 7" $out4
row "16 d2t-twice" 1 "1 of its numbers are there before, for example 7" fits
eagle "1 7 5 1024" $out4
row "16 d2t-past-end" 1 "number 3 is 1024, but the target has 1024 tokens" fits
eagle "1 -1 5 3" $out4
row "16 d2t below 0" 1 "number 1 is -1" fits
eagle "1 7 5 3" output.weight:F32:64x5
row "16 d2t of another length" 1 "it has 4 numbers, but output.weight has 5 rows" organ-check "$T/x.gguf"
eagle - $out4
row "16 small-output-no-d2t" 1 "it has 4 rows for 1024 tokens, and no tensor d2t" organ-check "$T/x.gguf"
eagle - output.weight:F32:64x1024
row "16 eagle3-ok" 1 "!d2t" organ-check "$T/x.gguf"
row "16 layers" 1 "!below 0" organ-check "$T/x.gguf"
row "16 layer-minus-1" 0 '' organ-keys -q "$T/x.gguf" --set 'eagle3.target_layers=i32[]:0,-1,2' -o "$T/y.gguf" --force
row "16 layer-minus-1" 1 "layer 1 of the list is below 0" organ-check "$T/y.gguf"
row "16 layer-past-end" 0 '' organ-keys -q "$T/x.gguf" --set 'eagle3.target_layers=i32[]:0,1,9' -o "$T/y.gguf" --force
row "16 layer-past-end" 1 "it names layer 9, but the target has 4 blocks" organ-check --target $A "$T/y.gguf"
row "16 target" 0 "no findings" organ-info $A
mkmodel "$T/y.gguf" $out4 d2t:I32:4
new keys "$T/y.gguf" -q --set general.architecture=str:eagle3 --set eagle3.vocab_size=u32:1024
row "16 d2t-i32" 1 "engines read it only as I64" organ-check "$T/x.gguf"
mkmodel "$T/y.gguf" -k dflash.block_count=1 blk.0.attn_gate.weight:F32:64x64
new keys "$T/y.gguf" -q --set general.architecture=str:dflash
row "16 dflash-extra-gates" 1 "blk.0.attn_gate.weight	architecture dflash has no such tensor here" \
    organ-check "$T/x.gguf"
eagle - output.weight:F32:64x1024
mask="the head drafts by filling in this token"
for a in dflash eagle3 llama; do
    case $a in dflash) text=$mask ;; *) text=!$mask ;; esac
    row "16 $a-no-mask-token" 0 '' organ-keys -q "$T/x.gguf" --set "general.architecture=str:$a" -o "$T/y.gguf" --force
    row "16 $a-no-mask-token" 1 "$text" organ-check "$T/y.gguf"
done
row "16 dflash" 0 '' organ-keys -q "$T/x.gguf" --set general.architecture=str:dflash \
    --set tokenizer.ggml.mask_token_id=u32:3 -o "$T/y.gguf" --force
row "16 dflash with a mask token" 1 "!$mask" organ-check "$T/y.gguf"

# ---- 21 long contexts without factors: llama.cpp#24820

# stretched ARCHITECTURE CONTEXT KEYS... [-- TENSOR...]
stretched() {
    arch=$1 context=$2 keys=
    shift 2
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        keys="$keys --set $arch.rope.scaling.$1"
        shift
    done
    [ $# = 0 ] || shift
    # shellcheck disable=SC2086 # several
    mkmodel "$T/y.gguf" blk.0.attn_norm.weight:F32:64 "$@" && organ-keys -q "$T/y.gguf" $keys \
        --set "general.architecture=str:$arch" --set "$arch.context_length=u32:$context" -o "$T/x.gguf" --force
}
l=rope_factors_long.weight:F32:8 s=rope_factors_short.weight:F32:8 of=original_context_length=u32:4096
lacks="so that engines rotate positions beyond the original context as those before"
for a in phi3 phimoe minicpm3; do
    stretched $a 131072 $of
    row "21 no-factors $a" 1 "lacks rope_factors_long.weight and rope_factors_short.weight, $lacks" \
        organ-check "$T/x.gguf"
    stretched $a 131072 $of -- $l $s
    row "21 ok $a" 1 "!$lacks" organ-check "$T/x.gguf"
    stretched $a 131072 $of -- $l
    row "21 only-long $a" 1 "lacks rope_factors_short.weight, $lacks" organ-check "$T/x.gguf"
    stretched $a 131072 $of -- $s
    row "21 only-short $a" 1 "lacks rope_factors_long.weight, $lacks" organ-check "$T/x.gguf"
    stretched $a 4096 $of
    row "21 $a short" 1 "!$lacks" organ-check "$T/x.gguf"
    stretched $a 131072 $of type=str:yarn
    row "21 $a yarn" 1 "!$lacks" organ-check "$T/x.gguf"
done
stretched llama 131072 $of
row "21 llama" 1 "!$lacks" organ-check "$T/x.gguf"
stretched llama 131072 $of type=str:longrope
row "21 type-but-no-factors llama" 1 "$lacks" organ-check "$T/x.gguf"

# ---- 24 tokens that the template writes, and their types: unsloth#5070, #6228

A=tests/data/lab/lab-base-q4_k_m.gguf
organ-extract -q $A -o "$T/parts" && mv "$T/parts/manifest.json" "$T/manifest" || bad "24: extract"
# tokens [OLD NEW]: a model in which the text of a token is replaced
tokens() {
    sed "s#\"${1-}\"#\"${2-}\"#" "$T/manifest" > "$T/parts/manifest.json"
    organ-assemble -q "$T/parts" -o "$T/y.gguf" --force
}
# types N TYPE: token N gets this type, and all others are normal
types() {
    awk -v n="$1" -v t="$2" 'BEGIN { for (i = 0; i < 1024; i++) printf "%s%d", i ? "," : "", (i == n) ? t : 1 }'
}
template() { new keys "$T/y.gguf" -q --set "tokenizer.chat_template=str:$1"; }
split="engines split into pieces" lacks="special tokens that the vocabulary lacks"
lack1="special token that the vocabulary lacks"
number() { organ-keys "$T/y.gguf" --get tokenizer.ggml.tokens | awk -v t="$1" '$0 == t { print NR - 1; exit }'; }
for t in '<start_of_turn>' '<|im_start|>' '<|turn>' '<turn|>' '[INST]' '[TOOL_CALLS]' '<｜User｜>' '</think>'; do
    tokens alloc "$t"
    id=$(number "$t")
    template "$t user"
    row "24 normal $t" 0 "$split" organ-check "$T/x.gguf"
    row "24 $t: its number" 0 "$t ($id)" organ-check "$T/x.gguf"
    for k in 3 4 2 5 6; do
        case $k in
        3) case=control ;;
        4) case=user-defined ;;
        5) case=unused ;;
        6) case=byte ;;
        *) case="type $k" ;;
        esac
        row "24 $case $t" 0 '' new keys "$T/y.gguf" -q --set "tokenizer.chat_template=str:$t user" \
            --set "tokenizer.ggml.token_type=i32[]:$(types "$id" $k)"
        case $k in 5 | 6) text=$split ;; *) text=!$split ;; esac
        row "24 $case $t: verdict" 0 "$text" organ-check "$T/x.gguf"
    done
done
tokens alloc '<start_of_turn>'
template '<start_of_turn>user{{ x }}'
row "24 start-normal" 0 "1 token of a type that engines split into pieces" organ-check "$T/x.gguf"
tokens '' ''
template '<|turn>user<turn|>'
row "24 gemma4-absent" 0 "2 $lacks, and that become plain text: <|turn> <turn|>" organ-check "$T/x.gguf"
template '[SYSTEM_PROMPT]{{s}}[/SYSTEM_PROMPT][INST]{{ x }}[/INST]'
row "24 mistral-absent" 0 "4 $lacks, and that become plain text: [SYSTEM_PROMPT] [/SYSTEM_PROMPT] [INST] [/INST]" \
    organ-check "$T/x.gguf"
template '[TOOL_CALLS]'
row "24 tool-calls-absent" 0 "1 $lack1, and that become plain text: [TOOL_CALLS]" organ-check "$T/x.gguf"
template '[INST] {{ m[0] }} {{ m["A"] }} [/INST]'
row "24 plain text in Llama 2" 0 "!$lacks" organ-check "$T/x.gguf"
template '<tool_call>{"name": x}</tool_call> <think> a < b | c > d <<SYS>>'
row "24 plain tags" 0 "!that the vocabulary lacks" organ-check "$T/x.gguf"
tokens alloc '<tool_call>'
template '<tool_call>{"name": x}</tool_call>'
row "24 a plain tag that is a normal token" 0 "$split" organ-check "$T/x.gguf"
row "24 a plain tag of two tokens" 0 '' new keys "$T/y.gguf" -q --set 'tokenizer.ggml.tokens[900]=tool_call>' \
    --set 'tokenizer.chat_template=str:<tool_call>'
row "24 a plain tag of two tokens: verdict" 0 "!$split" organ-check "$T/x.gguf"
tokens alloc ''
row "24 an empty token" 0 "1 token is empty, the first of them token" organ-check "$T/y.gguf"
sed 's#"alloc"#{"base64": "/2Fi"}#' "$T/manifest" > "$T/parts/manifest.json"
organ-assemble -q "$T/parts" -o "$T/y.gguf" --force
row "24 a token that is not UTF-8" 0 "1 token is not valid UTF-8, the first of them token" organ-check "$T/y.gguf"
tokens '<0xE3>' '(0xE3)'
row "24 a byte is missing" 1 "and an engine stops at a text that needs one: <0xE3>" \
    organ-check "$T/y.gguf"
tokens '<0x41>' 'AA'
row "24 a byte that is a token as text" 0 "!single bytes" organ-check "$T/y.gguf"
for name in 'my Phi-3 merge' PHI3 xphi-3.5; do
    row "24 $name" 0 "" new keys $A -q --set "general.name=str:$name"
    row "24 $name" 1 "as the vocabulary lacks <|endoftext|>" organ-check "$T/x.gguf"
    tokens alloc '<|endoftext|>'
    row "24 $name" 0 "" new keys "$T/y.gguf" -q --set "general.name=str:$name"
    row "24 $name with its tokens" 0 "!as the vocabulary lacks" organ-check "$T/x.gguf"
done
row "24 a name that causes it" 0 "as the vocabulary lacks <|endoftext|>" new keys $A --set general.name=str:phi-3-mini
row "24 phi 3 without" 0 "" new keys $A -q --set "general.name=str:phi-2 and phi 3"
row "24 phi 3 without" 0 "!as the vocabulary lacks" organ-check "$T/x.gguf"

# ---- 27 what image quantizers keep: ComfyUI-GGUF#364

mkmodel "$T/image.gguf" img_in.weight:F16:256x256 txt_in.weight:F16:256x256 time_in.in_layer.weight:F16:256x256 \
    vector_in.in_layer.weight:F16:256x256 guidance_in.in_layer.weight:F16:256x256 \
    final_layer.linear.weight:F16:256x256 cond_type_embedding.weight:F16:256x3 patch_embedding.weight:F16:256x4 \
    double_blocks.0.img_attn.qkv.weight:F16:256x768 single_blocks.0.linear1.weight:F16:256x512
organ-keys "$T/image.gguf" -q --set general.architecture=str:flux --in-place
for p in q4_k_m q8_0 iq4_xs; do
    row "27 flux $p" 0 "2 re-encoded, 8 left" new assemble "$T/image.gguf" --dtype $p
    check_text "$(organ-extract --list "$T/x.gguf" 2> "$T/err" |
        awk -F '\t' "$BY_NAME"'col("dtype") == "F16" { n++ } END { print n }')" \
        8 "27 $p: what keeps its type"
done
# Names of other models, of which only the last two are encoded.
mkmodel "$T/names.gguf" txt_in.individual_token_refiner.blocks.0.self_attn.qkv.weight:F16:256x256 \
    input_blocks.0.0.weight:F16:256x4 out.2.weight:F16:256x4 modF.1.weight:F16:256x256 \
    adaln_single.linear.weight:F16:256x256 double_stream_blocks.0.block.ff_i.gate.weight:F16:256x4 \
    all_final_layer.2-1.linear.weight:F16:256x64 double_stream_blocks.0.block.ff_i.experts.0.w1.weight:F16:256x256 \
    double_layers.0.attn.w1k.weight:F16:256x256
organ-keys "$T/names.gguf" -q --set general.architecture=str:hidream --in-place
row "27 other models" 0 "2 re-encoded, 7 left" new assemble "$T/names.gguf" --dtype q4_k_m
row "27 spelled out" 0 '' new assemble "$T/image.gguf" --dtype 'img_in*=q8_0'
check_text "$(organ-extract --list "$T/x.gguf" 2> "$T/err" |
    awk -F '\t' "$BY_NAME"'col("name") == "img_in.weight" { print col("dtype") }')" Q8_0 \
    "27 spelled out: its type"

# ---- arrays of one value per block, of which engines read the first

A=tests/data/lab/lab-base-q4_k_m.gguf
first="engines use the first for all blocks"
for v in feed_forward_length attention.head_count attention.head_count_kv; do
    one=$(organ-keys $A --get llama.$v)
    row "arrays $v" 0 '' new keys $A --set "llama.$v=u32[]:$one,$one,$one,$one"
    row "arrays $v: equal values" 0 "!$first" organ-check "$T/x.gguf"
    row "arrays $v: differing values" 0 '' new keys $A --set "llama.$v=u32[]:$one,$((one * 2)),$one,$one"
    case $v in *_kv) want=1 ;; *) want=0 ;; esac # it makes the engine fail
    row "arrays $v: differing values" $want "$first" organ-check "$T/x.gguf"
    row "arrays $v: the first" 0 '' new keys $A --set "llama.$v=u32[]:$((one * 2)),$one,$one,$one"
    row "arrays $v: the first decides all shapes" 1 "blk.3." organ-check "$T/x.gguf"
    organ-keys "$T/x.gguf" -q --rename "llama.$v=deci.$v" --set general.architecture=str:deci --in-place
    row "arrays $v: deci reads each" 1 "!$first" organ-check "$T/x.gguf"
done

# ---- 25 elements of arrays: unsloth#5070, #6228

awk 'BEGIN { for (i = 0; i < 70000; i++) print "t" i }' > "$T/array.tokens"
awk 'BEGIN { for (i = 0; i < 70000; i++) print 1 }' > "$T/array.types"
mkmodel "$T/no-array.gguf" t:F32:4
organ-keys -q "$T/no-array.gguf" --set a.tokens=str[]:x --set a.types=i32[]:1 --set a.scores=f32[]:0.5,-1e-30 \
    --set-file "a.tokens=$T/array.tokens" --set-file "a.types=$T/array.types" -o "$T/array.gguf" 2> /dev/null
check_text "$(organ-keys "$T/array.gguf" --get a.types | wc -l | tr -d ' ')" 70000 "25 an array from a file"
row "25 vocabulary-70000" 0 '' new keys "$T/array.gguf" --set 'a.types[1234]=3' --set 'a.types[69999]=i32:-4' \
    --set 'a.tokens[5]=<x y>' --set 'a.tokens[6]=str:' --set 'a.scores[1]=2'
check_text "$(organ-keys "$T/x.gguf" --get a.types | sed -n '1234p;1235p;70000p' | tr '\n' ' ')" "1 3 -4 " "25 numbers"
check_text "$(organ-keys "$T/x.gguf" --get a.tokens | sed -n '5,8p' | tr '\n' ' ')" "t4 <x y>  t7 " "25 texts"
check_text "$(organ-keys "$T/x.gguf" --get a.scores | tr '\n' ' ')" "0.5 2 " "25 floats"
cp "$T/array.gguf" "$T/place.gguf"
row "25 in place" 0 '' organ-keys "$T/place.gguf" --set 'a.types[7]=6' --set 'a.tokens[9]=xx' --in-place
check_text "$(cmp -l "$T/array.gguf" "$T/place.gguf" | wc -l | tr -d ' ')" 3 "25 in place: the bytes of the elements"
organ-keys "$T/place.gguf" --get a.tokens > "$T/array.tokens"
organ-keys "$T/place.gguf" --get a.types > "$T/array.types"
row "25 as printed" 0 '' new keys "$T/place.gguf" --set-file "a.tokens=$T/array.tokens" \
    --set-file "a.types=$T/array.types"
check_same "$T/x.gguf" "$T/place.gguf" "25 as printed"
printf '%s\n' '"a \"b\"\n\u00e9"' '\x22c"' 'tab\tx\\y' '' '"' > "$T/lines"
row "25 a line that is not a JSON string" 2 "line 5: it begins with a quotation mark" \
    new keys "$T/place.gguf" --set-file "a.tokens=$T/lines"
for i in -1 x 1-3 '' 99999999999999999999; do
    row "25 no number: [$i]" 2 "one element of an array is written as a.types[7]" \
        new keys "$T/array.gguf" --set "a.types[$i]=3"
done
row "25 a key with brackets" 0 '' new keys "$T/array.gguf" --set "a.other[x]=3"
sed '$d' "$T/lines" > "$T/four"
row "25 JSON strings and escapes" 0 '' new keys "$T/place.gguf" --set-file "a.tokens=$T/four"
check_text "$(organ-keys "$T/x.gguf" --json --get a.tokens | sed 's/.*"value": *//')" \
    '["a \"b\"\né", "\"c\"", "tab\tx\\y", ""]}' "25 JSON strings and escapes"
organ-keys "$T/x.gguf" --get a.tokens > "$T/four"
cp "$T/x.gguf" "$T/four.gguf"
row "25 quotation marks again" 0 '' new keys "$T/four.gguf" --set-file "a.tokens=$T/four"
check_same "$T/x.gguf" "$T/four.gguf" "25 quotation marks again"
row "25 past the end" 2 "has 70000 elements" new keys "$T/place.gguf" --set 'a.types[70000]=1'
row "25 no array" 2 "there is no array 'a.typo'" new keys "$T/place.gguf" --set 'a.typo[0]=1'
row "25 another type" 2 "the elements have another type" new keys "$T/place.gguf" --set 'a.types[0]=u32:1'
row "25 no number" 2 "does not fit the type" new keys "$T/place.gguf" --set 'a.types[0]=x'
printf '1\n2.5\n' > "$T/lines"
row "25 a line of another type" 2 "line 2: '2.5'" new keys "$T/place.gguf" --set-file "a.types=$T/lines"
row "25 --set-kv-file" 0 '' new assemble "$T/array.gguf" --set-kv-file "a.types=$T/array.types" --set-kv 'a.types[1]=9'
: > "$T/lines"
row "25 no lines" 0 '' new keys "$T/place.gguf" --set-file "a.types=$T/lines"
check_text "$(organ-keys "$T/x.gguf" a.types | cells count | sed 1d)" 0 "25 no lines"

# ---- changes in place: a header that becomes shorter or longer; symbolic links

P=$T/place.gguf
organ-keys -q "$V" --set general.name=str:abcdefghijklmnopqrstuvwxyz -o "$P" --force \
    --set "general.description=str:$(printf '%0300d' 0)"
fixed=$(organ-check --hash "$P" | awk -F "$TAB" "$BY_NAME"'col("kind") == "tensor"' | cksum)
size=$(wc -c < "$P")
text=
n=0
refused=0
# Names that grow and shrink by every number of bytes; the room grows with the first short name.
up=5 down=-3
if exhaustive; then up=1 down=-1; fi
for step in $up $down 3; do
    while [ $n -ge 0 ] && [ $n -le 150 ]; do
        text=$(printf "%0${n}d" 0)
        [ $n -gt 0 ] || text=
        if organ-keys -q "$P" --set "general.name=str:$text" --in-place 2> "$T/err"; then
            [ "$(organ-keys "$P" --get general.name)" = "$text" ] || bad "in place: a name of $n bytes"
        else
            refused=$((refused + 1))
            grep -q "bytes more than there is room for" "$T/err" || bad "in place: $(cat "$T/err")"
        fi
        n=$((n + step))
    done
    [ $step = $down ] && n=0 || n=150
    if [ $step = $up ]; then
        check "a long key is deleted" organ-keys -q "$P" --delete general.description --in-place
        row "in place: the room is a key" 0 "organ.padding" organ-keys "$P" 'organ.*'
    fi
done
check_text "$(organ-check --hash "$P" |
    awk -F "$TAB" "$BY_NAME"'col("kind") == "tensor"' | cksum)" "$fixed" "in place: the data"
check_text "$(wc -c < "$P")" "$size" "in place: the size"
row "in place: what was written is sound" 0 "no findings" organ-check -v "$P"
cp "$V" "$P"
long=$(printf '%0200d' 0)
row "39.6 a longer name" 1 "bytes more than there is room for" organ-keys "$P" --in-place \
    --set "general.name=str:it's $long"
check_same "$P" "$V" "39.6 nothing is changed"
sed -n 's/.*this command writes a new model: //p' "$T/err" > "$T/command"
check "39.6 the command that is printed" sh "$T/command"
check_text "$(organ-keys "$T/place-new.gguf" --get general.name)" "it's $long" "39.6 the command that is printed"
# Otherwise each remainder of the alignment by 8, at least.
for d in $(awk -v step="$(exhaustive && echo 1 || echo 7)" 'BEGIN { for (i = 1; i <= 64; i += step) print i }'); do
    cp "$V" "$P"
    check "39.6 longer by $d and a key" organ-keys -q "$P" --in-place \
        --set "general.description=str:$(printf "%0${d}d" 0)"
    check "39.6 shorter by $d and a key" organ-keys -q "$P" --delete general.description --in-place
    check "39.6 filled" organ-check -q --strict "$P"
done
mkdir "$T/blobs"
cp "$V" "$T/blobs/0a1b"
ln -s "$T/blobs/0a1b" "$T/link.gguf"
row "36.12 keys of a link" 2 "this is a symbolic link" organ-keys "$T/link.gguf" --set general.name=str:x --in-place
row "36.12 tensors of a link" 2 "this is a symbolic link" organ-transplant "$T/link.gguf" "$LAB/lab-code-q4_k_m.gguf" \
    --layers 1 --in-place --no-undo
check_same "$T/blobs/0a1b" "$V" "36.12 the file behind the link"
row "36.12 --follow" 0 '' organ-keys "$T/link.gguf" --set general.name=str:x --in-place --follow
check_text "$(organ-keys "$T/blobs/0a1b" --get general.name)" x "36.12 --follow"

# ---- values that change are named: F64 beyond the range of F32, integers that F32 rounds, shapes without axes

big='\234\165\000\210\074\344\067\176' one64='\000\000\000\000\000\000\360\077' # 1e300 and 1
tiny64='\131\363\370\302\037\156\245\001' inf64='\000\000\000\000\000\000\360\177' # 1e-300
wide='\001\000\000\001\000\000\000\000' narrow='\000\000\000\001\000\000\000\000' # 2^24 + 1 and 2^24
one32='\000\000\200\077'
# stored NAME TYPE SHAPE BYTES DATA...: a safetensors file with one tensor, t or $tensor
stored() {
    file=$1 head="{\"${tensor:-t}\":{\"dtype\":\"$2\",\"shape\":[$3],\"data_offsets\":[0,$4]}}"
    shift 4
    while [ $((${#head} % 8)) != 0 ]; do head="$head "; done
    { u32 ${#head} && bytes 4 '\000' && printf '%s' "$head" && for d; do printf "$d"; done; } > "$file"
}
stored "$T/f64.safetensors" F64 2 16 $big $one64
row "36.11 F64" 0 "!infinite" organ-check --data "$T/f64.safetensors"
row "36.11 F64" 0 "1 of 2 values are beyond the range of F32" organ-check --data "$T/f64.safetensors"
row "36.11 F64 stays" 0 '' organ-assemble "$T/f64.safetensors" -o "$T/x.safetensors" --force
check_same "$T/x.safetensors" "$T/f64.safetensors" "36.11 F64 stays"
for t in f32 f16 bf16; do
    row "36.11 F64 to $t" 3 "beyond the range of F32" organ-assemble "$T/f64.safetensors" --dtype t=$t \
        -o "$T/x.safetensors" --force
done
stored "$T/inf.safetensors" F64 2 16 $inf64 $big
row "36.11 an infinite F64" 1 "1 of 2 values are infinite" organ-check --data "$T/inf.safetensors"
stored "$T/tiny.safetensors" F64 2 16 $tiny64 $tiny64
row "36.11 F64 below the range are no zeros" 0 "!all its values are zero" organ-check --data "$T/tiny.safetensors"
stored "$T/i64.safetensors" I64 2 16 $wide $narrow
row "36.11 I64" 0 "1 of 2 values are integers that F32 would round" organ-check --data "$T/i64.safetensors"
row "36.11 I64 differ though F32 has one value for both" 0 "!the same" organ-check --data "$T/i64.safetensors"
row "36.11 I64 to f32" 2 "1 of its integers are above 2^24" organ-assemble "$T/i64.safetensors" --dtype t=f32 \
    -o "$T/x.safetensors" --force
stored "$T/i64.safetensors" I64 2 16 $narrow $narrow
row "36.11 I64 of 2^24" 0 '' organ-assemble "$T/i64.safetensors" --dtype t=f32 -o "$T/x.safetensors" --force
row "36.11 I64 of 2^24" 0 "F32" organ-extract --list "$T/x.safetensors"
stored "$T/u64.safetensors" U64 2 16 $wide $narrow
row "36.11 U64" 0 "read as F32: t (U64); integers above 2^24 are rounded" organ-assemble "$T/u64.safetensors" \
    -o "$T/x.safetensors" --force
stored "$T/bool.safetensors" BOOL 2 2 '\001\000'
row "36.11 BOOL" 0 "read as F32: t (BOOL)" organ-info "$T/bool.safetensors"
row "36.11 BOOL is exact" 0 "!rounded" organ-info "$T/bool.safetensors"
stored "$T/scalar.safetensors" F32 "" 4 "$one32"
row "36.11 a scalar" 0 '' organ-assemble "$T/scalar.safetensors" -o "$T/x.safetensors" --force
check_same "$T/x.safetensors" "$T/scalar.safetensors" "36.11 a scalar stays one"
rm -rf "$T/scalar"
organ-extract -q "$T/scalar.safetensors" -o "$T/scalar"
row "36.11 a scalar in a directory" 0 '' organ-assemble -q "$T/scalar" -o "$T/x.safetensors" --force
row "36.11 a scalar in a directory" 0 '"shape":[]' cat "$T/x.safetensors"
stored "$T/one.safetensors" F32 1 4 "$one32"
row "36.11 one axis" 0 '' organ-assemble "$T/one.safetensors" -o "$T/x.safetensors" --force
check_same "$T/x.safetensors" "$T/one.safetensors" "36.11 one axis stays"
mkmodel "$T/wide.gguf" a.weight:I64:64x64 b.weight:F32:64x64
mkmodel "$T/wide2.gguf" -s 7 a.weight:I64:64x64 b.weight:F32:64x64
row "36.11 a merge" 0 "1 tensor of integers is copied from the first model" \
    organ-merge --method linear "$T/wide.gguf" "$T/wide2.gguf" -o "$T/x.gguf" --force
row "36.11 an adapter" 0 "not in the adapter, which holds matrices only: a.weight" \
    organ-lora --base "$T/wide.gguf" --tuned "$T/wide2.gguf" --rank 2 -o "$T/x.gguf" --force
row "a list that is not there" 4 "No such file" organ-vocab trim tests/data/lab/lab-base-q4_k_m.gguf \
    --keep "$T/no-list" -o "$T/x.gguf" --force
row "36.11 a blend" 1 "I64 cannot be encoded" organ-transplant "$T/wide.gguf" "$T/wide2.gguf" --blend linear:0.5 \
    --tensors a.weight -o "$T/x.gguf" --force

# ---- files that other people published, made again here

row "real f64-big" 0 "!infinite" organ-check --data "$T/f64.safetensors"
row "real plain" 0 "safetensors file" organ-info "$T/one.safetensors"
row "real plain: its values" 0 "!error" organ-check --data "$T/one.safetensors"
cp "$T/one.safetensors" "$T/ae.sft"
row "real plain: under another name" 0 "safetensors file" organ-info "$T/ae.sft"
row "real small-header" 3 "a pipe cannot carry it" sh -c 'organ-info - < "$1"' - "$T/bool.safetensors"
stored "$T/f8.safetensors" F8_E4M3 2 2 '\070\270'
row "real f8-noscale" 0 "t (F8_E4M3)" organ-extract --list "$T/f8.safetensors"
tensor=$(printf '%080d' 0)
stored "$T/long.safetensors" F32 1 4 "$one32"
rm -rf "$T/stored"
organ-extract -q "$T/long.safetensors" -o "$T/stored" 2> /dev/null
row "real sd-lora" 0 '' organ-assemble -q "$T/stored" -o "$T/x.safetensors" --force
row "real sd-lora" 0 "$tensor" organ-extract --list "$T/x.safetensors"
control direction.1:F32:64
row "real control_vector" 0 "no findings" organ-info "$T/x.gguf"
cp "$T/x.gguf" "$T/y.gguf"
row "real control_vector: nothing can be re-encoded" 1 "keep" new assemble "$T/y.gguf" --dtype q8_0
new keys "$T/nothing.gguf" -q --set general.architecture=str:llama
row "real las7-empty" 0 "empty file" organ-info "$T/x.gguf"
row "real imatrix.dat" 3 "importance matrix in the older format" sh -c 'organ-info - < "$1"' - "$T/ones.dat"
{ printf "MZqFpD='\n" && bytes 400 '\000'; } > "$T/first"
row "real first-bytes.llamafile" 3 "llamafile" organ-info "$T/first"
{ printf lmgg && bytes 400 '\001'; } > "$T/first"
row "real whisper-cpp" 3 "whisper.cpp" organ-info "$T/first"
{ printf GGUF && u32 3 && bytes 8 '\000' && u32 1 && u32 0 &&
    printf '\357\277\275\357\277\275\357\277\275\000\000'; } > "$T/first"
row "real utf8-mangled" 3 "a program read it as text" organ-info "$T/first"
A=tests/data/lab/lab-base-q4_k_m.gguf
new keys $A -q --set "general.name=str:my Phi-3 merge"
row "real phi3-name" 1 "general.name" organ-check "$T/x.gguf"
mkmodel "$T/y.gguf"
organ-keys $A --get tokenizer.ggml.tokens > "$T/lines"
new keys "$T/y.gguf" -q --set tokenizer.ggml.tokens=str[]:a --set general.name=str:Phi3 \
    --set tokenizer.ggml.model=str:llama \
    --set-file "tokenizer.ggml.tokens=$T/lines" 2> /dev/null
row "real phi3-vocab-real" 1 "general.name" organ-check "$T/x.gguf"
row "real phi3-vocab-real: its kind" 1 "!tensor-missing" organ-check "$T/x.gguf"
tokens '<0xE3>' '(0xE3)'
row "real spm-without-byte-E3" 1 "<0xE3>" organ-check "$T/y.gguf"
tokens alloc ''
row "real hub-edited-bom" 1 "1 token is empty" organ-check --strict "$T/y.gguf"
lfs='version https://git-lfs.github.com/spec/v1'
folder() { # NAME CONFIG TEXT: a folder with adapter_config.json or config.json
    mkdir -p "$T/$1" && printf '%s' "$3" > "$T/$1/$2"
}
folder lfs adapter_config.json '{"peft_type":"LORA","r":4,"lora_alpha":8,"base_model_name_or_path":"gpt2"}'
printf '%s\noid sha256:0\nsize 1\n' "$lfs" > "$T/lfs/adapter_model.safetensors"
row "real lfs-clone" 3 "Git LFS pointer" organ-info "$T/lfs"
folder bin adapter_config.json '{"peft_type":"LORA","r":4,"lora_alpha":8,"base_model_name_or_path":"gpt2"}'
: > "$T/bin/adapter_model.bin"
row "real peft-bin-only" 3 "safetensors" organ-info "$T/bin"
for m in IA3 ADALORA LORA; do
    folder $m adapter_config.json \
        "{\"peft_type\":\"$m\",\"r\":1,\"lora_alpha\":8,\"base_model_name_or_path\":\"gpt2\"}"
    tensor=base_model.model.transformer.h.0.attn.c_attn.lora_A.weight
    stored "$T/$m/adapter_model.safetensors" F32 1,4 16 "$one32" "$one32" "$one32" "$one32"
    case $m in LORA) name=peft-gpt2 ;; *) name=peft-$(echo $m | tr A-Z a-z) ;; esac
    row "real $name" 0 "$m" organ-info "$T/$m"
    row "real $name: as an adapter" 0 "adapter" organ-info "$T/$m"
    row "real $name: not green" 0 "!no findings" organ-info "$T/$m"
    row "real $name: listed" 0 "$tensor" organ-extract --list "$T/$m"
done
folder mlx adapter_config.json '{"fine_tune_type":"lora","lora_parameters":{"rank":4,"scale":20.0},"model":"x"}'
tensor=model.layers.0.self_attn.q_proj.lora_b
stored "$T/mlx/adapters.safetensors" F32 1,4 16 "$one32" "$one32" "$one32" "$one32"
row "real mlx-lora" 0 "an adapter of MLX" organ-info "$T/mlx"
row "real mlx-lora: its rank" 0 "rank 1" organ-info "$T/mlx"
tensor=model.layers.0.self_attn.q_proj.weight
folder minicpm3 config.json '{"architectures":["MiniCPM3ForCausalLM"],"model_type":"minicpm3","hidden_size":4}'
stored "$T/minicpm3/model.safetensors" F32 4 16 "$one32" "$one32" "$one32" "$one32"
row "real minicpm3-4b" 0 "checkpoint" organ-info "$T/minicpm3"
row "real minicpm3-4b: verdict" 1 "MiniCPM3ForCausalLM are not covered" organ-check "$T/minicpm3"
row "real minicpm3-4b: listed" 0 "$tensor" organ-extract --list "$T/minicpm3"
llama='"architectures":["LlamaForCausalLM"],"model_type":"llama","hidden_size":4,"num_hidden_layers":1'
for q in gptq mlx4 fp8; do
    case $q in
    gptq) name=q-gptq config='"quantization_config":{"quant_method":"gptq","bits":4}' text=GPTQ ;;
    mlx4) name=q-mlx4 config='"quantization":{"group_size":64,"bits":4}' text=MLX ;;
    *) name=q-fp8noscale config='"quantization_config":{"quant_method":"fp8"}' text="no scale" ;;
    esac
    folder $q config.json "{$llama,$config}"
    case $q in fp8) type=F8_E4M3 size=4 ;; *) type=I32 size=16 ;; esac
    stored "$T/$q/model.safetensors" $type 4 $size "$one32" "$one32" "$one32" "$one32"
    [ $q != fp8 ] || stored "$T/$q/model.safetensors" $type 2,2 $size "$one32"
    row "real $name" 0 "checkpoint" organ-info "$T/$q"
    row "real $name: the method" 1 "$text" organ-check "$T/$q"
    row "real $name: listed" 0 "$tensor" organ-extract --list "$T/$q"
done
folder two config.json "{$llama}"
stored "$T/two/model.safetensors" F32 2,2 16 "$one32" "$one32" "$one32" "$one32"
cp "$T/two/model.safetensors" "$T/two/model.fp16.safetensors"
row "real two-variants" 0 "model.safetensors is used" organ-info "$T/two"
tensor=

# Every case of the list has a row.
while read -r number name; do
    awk -v number="$number" -v name="$name" '$1 == number && index($0, name) { found = 1 } END { exit !found }' \
        "$T/names" && ok || bad "no row tries the case $number $name"
done < tests/data/cases.txt

finish
