#!/bin/sh
# lora.sh - organ-lora: adapters from differences, what they leave out, and that they give back
# the adapter that was folded in.
. "$(dirname "$0")/lib.sh"
BASE=$LAB/lab-base-q4_k_m.gguf CODE=$LAB/lab-code-q4_k_m.gguf LORA=$LAB/lab-lora-code.gguf

# Two blocks are enough. In F32, so that folding rounds nothing.
check "base" organ-stack -q "$BASE" 0-1 --output "$T/b.gguf"
check "tuned" organ-stack -q "$CODE" 0-1 --output "$T/c.gguf"
check "base in F32" organ-assemble -q "$T/b.gguf" --dtype '*=f32' --output "$T/b32.gguf"

# ---- what was folded in comes back ----
check "an adapter for two blocks" organ-extract -q "$LORA" --layers 0-1 --output "$T/two.d"
check "assembled" organ-assemble -q "$T/two.d" --output "$T/two.gguf"
check "folded" organ-transplant -q --base "$T/b32.gguf" --adapter "$T/two.gguf" --output "$T/folded.gguf"
check "extracted" organ-lora --base "$T/b32.gguf" --tuned "$T/folded.gguf" --rank 8 --output "$T/back.gguf"
check_text "$(head -n 1 "$T/out" | tr '\t' ' ')" "name rows cols experts rank kept" "columns"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 && (col("rank") != 8 ||
    col("kept") < 0.999999)' "$T/out")" "" "the pairs hold all of the difference"
check_text "$(($(wc -l < "$T/out")))" 15 "one row per matrix of two blocks"
check_text "$(cat "$T/err")" "" "no notes: nothing else differs"
check "folded again" organ-transplant -q --base "$T/b32.gguf" --adapter "$T/back.gguf" --output "$T/again.gguf"
check_exit 1 "compared" organ-compare "$T/folded.gguf" "$T/again.gguf"
awk -F '\t' -v f="$T/columns" \
    'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next } $c["rel_l2"] != "-" && $c["rel_l2"] > 1e-5' "$T/out" \
    > "$T/far"
check_text "$(cat "$T/far")" "" "the product is the adapter's"
# NaN and infinite values of an adapter go nowhere.
bad_values() { check_error 3 "1 of its values are NaN or infinite" "$@"; }
for value in NaN infinity; do
    case $value in NaN) bits='\0300\0177' ;; *) bits='\0200\0377' ;; esac
    { head -c $(($(wc -c < "$T/back.gguf") - 2)) "$T/back.gguf"; printf '%b' "$bits"; } > "$T/bad.gguf"
    bad_values "$value folded" organ-transplant -q "$T/b32.gguf" --adapter "$T/bad.gguf" -o "$T/worse.gguf"
    bad_values "$value copied" organ-lora --from "$T/bad.gguf" -o "$T/worse.gguf"
    bad_values "$value for PEFT" organ-lora --from "$T/bad.gguf" --base "$T/b32.gguf" --to-peft "$T/worse.gguf"
    check_absent "$T/worse.gguf" "an adapter with $value"
done
# An engine and the suite read the same: alpha is the rank, the shapes are llama.cpp's.
check "alpha" organ-keys "$T/back.gguf" --get adapter.lora.alpha
check_text "$(cat "$T/out")" 8 "alpha is the rank"
for key in general.type=adapter adapter.type=lora general.architecture=llama; do
    check_text "$(organ-keys "$T/back.gguf" --get "${key%=*}")" "${key#*=}" "$key"
done
check_text "$(organ-extract --list "$T/back.gguf" |
    awk -F '\t' "$BY_NAME"'col("name") ~ /^blk.1.ffn_up/ { print col("name"), col("dtype"), col("dims") }')" \
    "blk.1.ffn_up.weight.lora_a F32 256x8
blk.1.ffn_up.weight.lora_b F32 8x512" "shapes"
check "organ-check" organ-check -q "$T/back.gguf"
check_text "$(cells rule "$T/out" | sed 1d)" kind "organ-check finds only the kind"
# A rank that is too small keeps less; a larger one than the difference has keeps all of it.
check "rank 4" organ-lora --base "$T/b32.gguf" --tuned "$T/folded.gguf" --rank 4 --output "$T/four.gguf"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 && !(col("kept") > 0.4 &&
    col("kept") < 0.98)' "$T/out")" "" "half of the rank keeps a part"
check "energy" organ-lora --base "$T/b32.gguf" --tuned "$T/folded.gguf" --energy 0.9999999 --output "$T/energy.gguf"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 && (col("rank") > 12 ||
    col("kept") < 0.9999999)' "$T/out")" "" "--energy finds the rank"

# ---- a whole fine-tune ----
pair() { # OPTION... : base and tuned, the embedding and the head included
    organ-lora --base "$T/b.gguf" --tuned "$T/c.gguf" "$@"
}
check "one thread" pair --rank 16 -j 1 --output "$T/l16.gguf"
cp "$T/out" "$T/rows"
check_has_all() { for w in "$@"; do grep -q -e "$w" "$T/err" || bad "no note about $w"; done; ok; }
check_has_all "matrices only" blk.0.attn_norm.weight output_norm.weight
check "three threads" pair --rank 16 -j 3 -q --output "$T/l16-3.gguf"
check_same "$T/l16.gguf" "$T/l16-3.gguf" "the same bytes with three threads"
check_same "$T/out" "$T/rows" "the same rows"
GG_ISA=0 organ-lora -q --base "$T/b.gguf" --tuned "$T/c.gguf" --rank 16 --output "$T/l16-plain.gguf" > "$T/out" 2>&1
check_same "$T/l16.gguf" "$T/l16-plain.gguf" "the same bytes with plain C"
check "to stdout" sh -c "organ-lora -q --base '$T/b.gguf' --tuned '$T/c.gguf' --rank 16 --output - > '$T/piped.gguf'"
check_same "$T/l16.gguf" "$T/piped.gguf" "the same bytes on stdout"
check "from a pipe" sh -c \
    "cat '$T/c.gguf' | organ-lora -q --base '$T/b.gguf' --tuned - --rank 16 --output '$T/l16-pipe.gguf'"
check_same "$T/l16.gguf" "$T/l16-pipe.gguf" "the same bytes from a pipe"
check_text "$(organ-extract --list "$T/l16.gguf" |
    awk -F '\t' "$BY_NAME"'col("name") ~ /^(token_embd|output)\./ { print col("name"), col("dims") }')" \
    "token_embd.weight.lora_a 16x1024
token_embd.weight.lora_b 16x256
output.weight.lora_a 256x16
output.weight.lora_b 16x1024" "the embedding has the other form"
check "organ-check" organ-check -q "$T/l16.gguf"
check_text "$(cells rule "$T/out" | sed 1d)" kind "organ-check finds only the kind"
# The full rank takes most of the time of this file, so it is for some matrices only.
distance() { # ADAPTER: mean relative L2 between base + adapter and the tuned model, of these matrices
    organ-transplant -q --base "$T/b32.gguf" --adapter "$1" --output "$T/sum.gguf" --force &&
        organ-compare -q "$T/sum.gguf" "$T/c.gguf" |
        awk -F '\t' "$BY_NAME"'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
        col("name") ~ /^(token_embd|blk.1.attn_[qkv])\./ { s += $c["rel_l2"]; n++ } END { printf "%.9f", s / n }'
}
check "rank 64" pair -q --rank 64 --output "$T/l64.gguf"
check "full rank" pair -q --rank 256 --tensors 'token_embd.*,blk.1.attn_[qkv].*' --output "$T/full.gguf"
check_text "$(awk -v a="$(distance "$T/l16.gguf")" -v b="$(distance "$T/l64.gguf")" -v c="$(distance "$T/full.gguf")" \
    'BEGIN { print (a > 1.3 * b && b > 100 * c && c < 1e-5) ? "falls" : a " " b " " c }')" falls \
    "more rank is nearer, full rank is exact"
check "attention of block 1" pair -q --rank 4 --type skeleton --layers 1 --output "$T/part.gguf"
check_text "$(organ-extract --list "$T/part.gguf" | awk -F '\t' "$BY_NAME"'NR > 1 { print col("name") }' |
    grep -vc '^blk.1.attn_')" 0 \
    "only selected tensors"
check_text "$(tail -n +2 "$T/out" | wc -l | tr -d ' ')" 4 "four rows"
check "JSON" pair -q --json --rank 4 --tensors output.weight --output "$T/json.gguf"
case $(cat "$T/out") in '{"name": "output.weight", "rows": 1024, "cols": 256, "experts": 1, "rank": 4, "kept": 0.'*) \
    ok ;; *) bad "JSON: $(cat "$T/out")" ;; esac

# ---- stacks, and a model without a head ----
small() { # NAME SEED
    mkmodel "$T/$1.keyless" -s "$2" token_embd.weight:F32:8x10 blk.0.attn_q.weight:F32:8x8 \
        blk.0.ffn_up_exps.weight:F32:8x12x3 blk.0.ffn_up.bias:F32:12 &&
        organ-keys -q "$T/$1.keyless" --set general.architecture=str:llama --output "$T/$1.gguf" 2> "$T/err" \
            || bad "$1: $(cat "$T/err")"
}
small small-a 1
small small-b 2
check "a stack" organ-lora --base "$T/small-a.gguf" --tuned "$T/small-b.gguf" --rank 8 --output "$T/stack.gguf"
check_text "$(cells name,rows,cols,experts,rank "$T/out" | tail -n +2)" "$(printf \
    'blk.0.attn_q.weight\t8\t8\t1\t8\nblk.0.ffn_up_exps.weight\t12\t8\t3\t8')" "rows of a stack"
check_has_all token_embd.weight blk.0.ffn_up.bias
check_text "$(organ-extract --list "$T/stack.gguf" |
    awk -F '\t' "$BY_NAME"'/exps/ { print col("name"), col("dims") }')" \
    "blk.0.ffn_up_exps.weight.lora_a 8x8x3
blk.0.ffn_up_exps.weight.lora_b 8x12x3" "shapes of a stack"
check "folded" organ-transplant -q --base "$T/small-a.gguf" --adapter "$T/stack.gguf" --output "$T/stacked.gguf"
organ-compare -q "$T/stacked.gguf" "$T/small-b.gguf" > "$T/out" 2> "$T/err"
check_text "$(awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
    /attn_q|exps/ { print ($c["rel_l2"] == "-" || $c["rel_l2"] < 1e-5) }' "$T/out" | sort -u)" 1 \
        "every expert becomes the tuned one"
# Experts without a difference, the first and the last of them: their factors are 0.
check "a graft of an expert" organ-transplant -q --base "$T/small-a.gguf" --donor "$T/small-b.gguf" --experts 1 \
    --output "$T/one-expert.gguf"
check "one of three experts" organ-lora --base "$T/small-a.gguf" --tuned "$T/one-expert.gguf" --rank 8 \
    --output "$T/stack2.gguf"
check "folded" organ-transplant -q --base "$T/small-a.gguf" --adapter "$T/stack2.gguf" --output "$T/stacked.gguf" \
    --force
organ-compare -q --split-experts "$T/stacked.gguf" "$T/one-expert.gguf" > "$T/out" 2> "$T/err"
check_text "$(awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
    /ffn_up[.][0-2]/ { n++; if ($c["rel_l2"] != "-" && $c["rel_l2"] > 1e-5) print } END { print n }' "$T/out")" 3 \
        "the other experts stay"

# Experts by number: the adapter moves the selected experts to those of the tuned model, as a graft does. In
# stacks, in fused stacks and where each expert is a tensor of its own.
by_number() { # FORM TENSOR...
    form=$1
    shift
    mkmodel "$T/e-a.gguf" -s 1 -k llama.expert_count=3 "$@" && mkmodel "$T/e-b.gguf" \
        -s 2 -k llama.expert_count=3 "$@" ||
        bad "models of $form"
    organ-transplant -q "$T/e-a.gguf" "$T/e-b.gguf" --experts 0=2,1 -o "$T/e-want.gguf" --force ||
        bad "a graft of $form"
    check "experts of $form" organ-lora "$T/e-a.gguf" "$T/e-b.gguf" --experts 0=2,1 \
        --rank 8 -o "$T/e-lora.gguf" --force
    if grep -Eq "attn_q|gate_inp" "$T/out"; then bad "more than experts of $form: $(cat "$T/out")"; else ok; fi
    organ-transplant -q "$T/e-a.gguf" --adapter "$T/e-lora.gguf" -o "$T/e-got.gguf" --force || bad "folded into $form"
    organ-compare -q "$T/e-got.gguf" "$T/e-want.gguf" > "$T/out" 2> "$T/err"
    check_text "$(awk -F '\t' 'NR == 1 { for (i = 1; i <= NF; i++) c[$i] = i; next }
        $c["rel_l2"] != "-" && $c["rel_l2"] > 1e-5 { n++ } END { print (NR > 3), n + 0 }' "$T/out")" \
            "1 0" "the graft of $form"
}
by_number stacks blk.0.attn_q.weight:F32:8x8 blk.0.ffn_gate_inp.weight:F32:8x3 blk.0.ffn_up_exps.weight:F32:8x12x3 \
    blk.0.ffn_down_exps.weight:F32:12x8x3
by_number "fused stacks" blk.0.attn_q.weight:F32:8x8 blk.0.ffn_gate_inp.weight:F32:8x3 \
    blk.0.ffn_gate_up_exps.weight:F32:8x24x3 \
    blk.0.ffn_down_exps.weight:F32:12x8x3
check_error 1 "no expert 7" "an expert that the tuned stack lacks" organ-lora "$T/e-a.gguf" "$T/e-b.gguf" \
    --experts 0=7 --rank 8 \
    -o "$T/none.gguf"
by_number "separate experts" blk.0.attn_q.weight:F32:8x8 blk.0.ffn_gate_inp.weight:F32:8x3 \
    blk.0.ffn_up.0.weight:F32:8x12 \
    blk.0.ffn_up.1.weight:F32:8x12 blk.0.ffn_up.2.weight:F32:8x12
check_error 1 "expert 3 is not in the model" "an expert that does not exist" organ-lora "$T/e-a.gguf" "$T/e-b.gguf" \
    --experts 3 --rank 8 -o "$T/none.gguf"
check_error 1 "does not have blk.0.ffn_up.7.weight" "an expert that the tuned model lacks" organ-lora \
    "$T/e-a.gguf" "$T/e-b.gguf" --experts 0=7 --rank 8 \
    -o "$T/none.gguf"

# ---- what only the tuned model has, and the base ----
check "a deeper model" organ-stack -q "$T/c.gguf" 0-1,0 --output "$T/deeper.gguf"
check "an adapter of a deeper model" organ-lora --base "$T/b.gguf" --tuned "$T/deeper.gguf" \
    --tensors 'blk.*.attn_[qk].*' --output "$T/deep.gguf"
grep -q "2 tensors of the tuned model are not in the base, so the adapter lacks them: all of block 2$" "$T/err" ||
    bad "no list of additions: $(cat "$T/err")"
check_text "$(awk -F '\t' "$BY_NAME"'NR > 1 { print col("rank") }' "$T/out" | sort -u)" 32 "the default rank"
check_text "$(organ-keys "$T/deep.gguf" --get adapter.lora.alpha)" 32 "its alpha"
check_text "$(organ-keys "$T/deep.gguf" --get general.base_model.0.name)" \
    "$(organ-keys "$T/b.gguf" --get general.name)" "the name of the base"
check_text "$(organ-keys "$T/deep.gguf" --get adapter.base.tensor)" blk.0.attn_q.weight "a tensor of the base"
check_text "$(organ-keys "$T/deep.gguf" --get adapter.base.sha256)" \
    "$(organ-check --hash "$T/b.gguf" |
        awk -F "$TAB" "$BY_NAME"'col("name") == "blk.0.attn_q.weight" { print col("sha256") }')" "its hash"
check "folded into its base" organ-transplant --base "$T/b.gguf" --adapter "$T/deep.gguf" --output "$T/f1.gguf"
grep -q 'was made from' "$T/err" && bad "a note about the right base"
check "folded into another model" organ-transplant --base "$T/c.gguf" --adapter "$T/deep.gguf" --output "$T/f2.gguf"
grep -q 'was made from .*whose blk.0.attn_q.weight has other bytes' "$T/err" || bad "no note about another base"
organ-lora --base "$T/small-a.gguf" --tuned "$T/small-b.gguf" --output "$T/large.gguf" > "$T/out" 2> "$T/err"
grep -q 'the adapter has [0-9]* bytes, but the tuned model only' "$T/err" || bad "no note about a large adapter"

# ---- refusals ----
none() { if [ -e "$T/none.gguf" ]; then bad "$1: something was written"; rm -f "$T/none.gguf"; else ok; fi; }
check_error 1 "no selected matrix differs" "equal models" organ-lora --base "$T/b.gguf" --tuned "$T/b.gguf" \
    --output "$T/none.gguf"
none "equal models"
check_exit 1 "only vectors" pair --type norm --output "$T/none.gguf"
none "only vectors"
check_exit 1 "nothing selected" pair --layers 77 --output "$T/none.gguf"
none "nothing selected"
check "one block" organ-stack -q "$T/c.gguf" 0 --output "$T/one.gguf"
check_exit 1 "a tensor is missing" organ-lora --base "$T/b.gguf" --tuned "$T/one.gguf" --rank 2 --output "$T/none.gguf"
if grep -q "blk.1.*does not have" "$T/err"; then ok; else bad "a tensor is missing: $(cat "$T/err")"; fi
none "a tensor is missing"
mkmodel "$T/wide.keyless" token_embd.weight:F32:8x10 blk.0.attn_q.weight:F32:8x16 blk.0.ffn_up_exps.weight:F32:8x12x3 \
    blk.0.ffn_up.bias:F32:12 &&
    organ-keys -q "$T/wide.keyless" --set general.architecture=str:llama --output "$T/wide.gguf" 2> "$T/err" \
        || bad "wide: $(cat "$T/err")"
check_error 1 "blk.0.attn_q.weight': the tuned model has this tensor with other dimensions" "other dimensions" \
    organ-lora -q --base "$T/small-a.gguf" --tuned "$T/wide.gguf" --output "$T/none.gguf"
none "other dimensions"
# The last value of the stack, which is followed by 64 bytes of the bias.
cp "$T/small-b.gguf" "$T/nan.gguf"
printf '\000\000\300\177' | dd of="$T/nan.gguf" bs=1 seek=$(($(wc -c < "$T/nan.gguf") - 68)) conv=notrunc 2> /dev/null
for pair in "small-a nan" "nan small-a"; do
    check_exit 3 "a value that is not a number: $pair" organ-lora --base "$T/${pair% *}.gguf" \
        --tuned "$T/${pair#* }.gguf" --output "$T/none.gguf"
    if grep -q "ffn_up_exps.*1 values of the difference are not finite" "$T/err"; then ok; else bad "$pair: $(cat \
        "$T/err")"; fi
    none "a value that is not a number"
done
for model in small-a small-b; do
    check_error 2 "this output is also an input" "$model as output" organ-lora -q --json --base "$T/small-a.gguf" \
        --tuned "$T/small-b.gguf" --output "$T/$model.gguf" --force
done
check_exit 2 "an output that exists" pair --output "$T/l16.gguf"
check_same "$T/l16.gguf" "$T/l16-3.gguf" "the old file stays"
check_error 2 "not both" "rank and energy" pair --rank 3 --energy 0.5 --output "$T/none.gguf"
check_error 2 "--energy 2" "too much energy" pair --energy 2 --output "$T/none.gguf"
check_error 2 "--energy 0" "no energy" pair --energy 0 --output "$T/none.gguf"
check_error 2 "give --tuned or --from" "one model" organ-lora --base "$T/b.gguf" --output "$T/none.gguf"
check_exit 1 "experts of a dense model" pair --experts 0 --output "$T/none.gguf"
organ-keys -q "$LAB/lab-code-q4_k_m.gguf" --set llama.rope.freq_base=f32:5e5 -o "$T/turned.gguf"
organ-lora "$LAB/lab-base-q4_k_m.gguf" "$T/turned.gguf" --layers 0 --rank 1 -o "$T/l.gguf" > "$T/out" 2> "$T/err"
check_text "$(grep -c "not in the adapter.*: llama.rope.freq_base" "$T/err")" 1 "a note names a key that differs"
check_error 3 "this is not a LoRA adapter" "a model as an adapter" organ-lora --from "$T/b.gguf" -o "$T/none.gguf"
check_error 2 "give --from or --experts, not both" "a conversion of some experts" organ-lora \
    --from "$LAB/lab-lora-code.gguf" \
    --experts 0 -o "$T/none.gguf"
if [ -z "${VALGRIND:-}" ]; then # which needs TMPDIR itself
    TMPDIR=$T/nowhere check_exit 4 "no room" pair --rank 2 --output "$T/none.gguf"
fi
none "no room"

# ---- an adapter where a model is wanted: what to do instead ----
check_error 1 "this is an adapter, which has no tensors of a model; fold it into the base (--adapter)" \
    "an adapter as donor" organ-transplant "$BASE" "$LORA" -o "$T/none.gguf"
check_exit 1 "an adapter in a merge" organ-merge -q --method linear "$BASE" "$LORA" -o "$T/none.gguf"
check_text "$(sed 's/.*gguf: this/this/' "$T/err")" \
    "this is an adapter; fold it into its base: organ-transplant BASE --adapter FILE -o NEW.gguf" "how to fold it"
none "an adapter where a model is wanted"
finish
