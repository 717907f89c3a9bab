#!/bin/sh
# prune.sh - experts removed from the manifest of a --split-experts directory: a model
# with fewer, its routers and expert_count cut to match; what does not fit together is
# refused by name, and nothing is written.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }

# Two blocks of six experts and a dense one; gates in two dtypes, a router in Q8_0.
moe() {
    out=$1
    shift
    mkmodel "$out" "$@" token_embd.weight:F32:64x10 \
        blk.0.ffn_gate.weight:F16:64x8 \
        blk.1.ffn_gate_inp.weight:F32:64x6 blk.1.ffn_gate_inp.bias:F32:6 blk.1.exp_probs_b.bias:F32:6 \
        blk.1.ffn_gate_exps.weight:Q8_0:64x32x6 blk.1.ffn_up_exps.weight:Q4_0:64x32x6 \
        blk.1.ffn_down_exps.weight:F16:32x64x6 blk.1.ffn_down_exps.bias:F32:64x6 blk.1.ffn_down_exps.scale:F32:6 \
        blk.1.ffn_gate_inp_shexp.weight:F32:64 blk.1.ffn_gate_shexp.weight:F16:64x6 blk.1.attn_q.weight:F16:64x6 \
        blk.2.ffn_gate_inp.weight:Q8_0:64x6 blk.2.ffn_gate_exps.weight:Q4_0:64x32x6 \
        blk.2.ffn_up_exps.weight:F16:64x32x6 blk.2.ffn_down_exps.weight:F16:32x64x6 output.weight:F32:64x10
}
KEYS="-k llama.expert_count=6 -k llama.expert_used_count=2 -k llama.expert_group_count=2"
# shellcheck disable=SC2086
moe "$T/m.gguf" $KEYS
check "extract" organ-extract "$T/m.gguf" --split-experts --output "$T/d"
cp "$T/d/manifest.json" "$T/all"

# without AWK-PATTERN...: the manifest without the lines that match
without() {
    awk "!($1)" "$T/all" > "$T/d/manifest.json"
}

# bytes FILE TENSOR: its data, whatever its shape
bytes() {
    organ-extract "$1" --tensors "$2" --output - > "$T/record"
    n=$(organ-extract "$1" --tensors "$2" --list | awk "$BY_NAME"'NR == 2 { print col("bytes") }')
    tail -c "$n" "$T/record"
}

# same_slices TENSOR BYTES EXPERT...: the new tensor is those slices of the old
same_slices() {
    name=$1 step=$2
    shift 2
    bytes "$T/m.gguf" "$name" > "$T/old"
    for e in "$@"; do
        tail -c +$((e * step + 1)) "$T/old" | head -c "$step"
    done > "$T/want"
    bytes "$T/p.gguf" "$name" > "$T/got"
    if [ -s "$T/want" ]; then check_same "$T/want" "$T/got" "$name holds experts $*"; else bad "$name is empty"; fi
}

dims() {
    organ-extract "$T/p.gguf" --list | awk -v n="$1" "$BY_NAME"'col("name") == n { print col("dims") }'
}

check "nothing removed" organ-assemble "$T/d" --output "$T/p.gguf"
check_same "$T/m.gguf" "$T/p.gguf" "nothing removed: the same bytes"

# Block 1 keeps 0 2 3 5, block 2 keeps 1 2 3 4.
P1='/"blk\.1\.ffn_[a-z]*\.[14]\./' P2='/"blk\.2\.ffn_[a-z]*\.[05]\./'
without "$P1 || $P2"
check "two of six removed" organ-assemble "$T/d" --output "$T/p.gguf" --force
same_slices blk.1.ffn_gate_inp.weight 256 0 2 3 5
same_slices blk.1.ffn_gate_inp.bias 4 0 2 3 5
same_slices blk.1.exp_probs_b.bias 4 0 2 3 5
same_slices blk.1.ffn_gate_exps.weight 2176 0 2 3 5
same_slices blk.1.ffn_up_exps.weight 1152 0 2 3 5
same_slices blk.1.ffn_down_exps.weight 4096 0 2 3 5
same_slices blk.1.ffn_down_exps.bias 256 0 2 3 5
same_slices blk.1.ffn_down_exps.scale 4 0 2 3 5
same_slices blk.2.ffn_gate_inp.weight 68 1 2 3 4
same_slices blk.2.ffn_down_exps.weight 4096 1 2 3 4
for t in blk.1.ffn_gate_inp_shexp.weight:64 blk.1.ffn_gate_shexp.weight:64x6 blk.1.attn_q.weight:64x6 \
    blk.1.ffn_gate_inp.weight:64x4 blk.1.exp_probs_b.bias:4 blk.1.ffn_gate_exps.weight:64x32x4; do
    check_text "$(dims "${t%:*}")" "${t##*:}" "dims of ${t%:*}"
done
organ-extract "$T/p.gguf" --output "$T/k" --force
check_text "$(grep -c '"key": "llama.expert_count", "type": "u32", "value": 4' "$T/k/manifest.json")" 1 "expert_count"
check_text "$(organ-extract "$T/p.gguf" --list | cells name)" "$(organ-extract "$T/m.gguf" --list | cells name)" \
    "same tensors, same order"
organ-assemble "$T/d" --output "$T/p1.gguf" -j 1 -q
check_same "$T/p.gguf" "$T/p1.gguf" "-j 1"
check "and in another dtype" organ-assemble "$T/d" --output "$T/p.gguf" \
    --force --dtype '*_exps.weight=f16,*gate_inp.weight=bf16'
check_text "$(dims blk.2.ffn_gate_inp.weight) $(dims blk.2.ffn_gate_exps.weight)" "64x4 64x32x4" \
    "dims in another dtype"

# A block that is gone altogether takes part in nothing.
without "$P1 || (/\"blk\\.2\\./ && /\"file\"/)"
check "a block without any tensor" organ-assemble "$T/d" --output "$T/p.gguf" --force
rm -f "$T/p.gguf"

# Refused.
refuse() {
    check_error 3 "$1" "$2" organ-assemble "$T/d" --output "$T/p.gguf" -q
    check_absent "$T/p.gguf" "$2"
}
without '/ffn_gate\.3\.weight/'
refuse "blk.1.ffn_up_exps.weight" "a gate without its up"
without "$P1 || /\"blk\\.2\\.ffn_[a-z]*\\.0\\./"
refuse "blk.2.ffn_gate_inp.weight" "blocks keep different numbers"
without "$P1"
refuse "blk.2.ffn_gate_inp.weight" "one block keeps all"
without "$P1 || /\"blk\\.2\\.ffn_[a-z]*\\.[0-9]\\./"
refuse "blk.2.ffn_gate_inp.weight" "a router without experts"
without '/"blk\.2\.ffn_[a-z]*\.[0-9]\./'
refuse "blk.2.ffn_gate_inp.weight" "a router without experts, the other block whole"
without '/ffn_[a-z]*\.[0-9]\./'
refuse "blk.1.ffn_gate_inp.weight" "routers without experts"
without '/ffn_[a-z]*\.[0-4]\./'
refuse "expert_used_count" "fewer than are used"
without '/ffn_[a-z]*\.5\./'
refuse "expert_group_count" "not as many in each group"
without '/ffn_(gate|up)\.[14]\./ || /ffn_down\.[25]\./'
refuse "do not keep the same experts" "gate and down keep different experts"
without '/"output.weight"/'
refuse "remove the comma before it" "the last line taken out with sed"
# Some architectures use a number of experts of its own in each block.
used() {
    numbers="\"type\": \"arr\", \"items\": \"u32\", \"value\": [$1]"
    sed "s/\(\"llama.expert_used_count\", \)\"type\": \"u32\", \"value\": 2/\1$numbers/" "$T/d/manifest.json" > "$T/x"
    cmp -s "$T/x" "$T/d/manifest.json" && bad "expert_used_count stays one number"
    cp "$T/x" "$T/d/manifest.json"
}
without "$P1 || $P2"
used "0, 2, 4"
check "a number of used experts a block" organ-assemble "$T/d" --output "$T/p.gguf"
rm -f "$T/p.gguf"
without "$P1 || $P2"
used "0, 5, 2"
refuse "a block keeps 4 experts, but 5 are used at a time" "fewer than one block uses"
without "$P1 || $P2"
sed 's/"llama.expert_count", "type": "u32", "value": 6/"llama.expert_count", "type": "u32", "value": 5/' \
    "$T/d/manifest.json" > "$T/x"
cp "$T/x" "$T/d/manifest.json"
refuse "expert_count" "an expert_count that fits nothing"
sed 's/"value": 5/"value": 4/' "$T/x" > "$T/d/manifest.json"
check "the new expert_count by hand" organ-assemble "$T/d" --output "$T/p.gguf"
rm -f "$T/p.gguf"
without "$P1 || $P2"
printf 'xx' | dd of="$T/d/organs/blk_1_ffn_gate_inp.bin" bs=1 seek=100 conv=notrunc 2> /dev/null
refuse "sha256" "a router with other bytes"
check "unless not asked to look" organ-assemble "$T/d" --output "$T/p.gguf" --no-verify
rm -f "$T/p.gguf"
sed '/"blk.1.ffn_gate_inp.weight"/s/, "sha256": "[0-9a-f]*"//' "$T/all" > "$T/d/manifest.json"
printf 'xx' | dd of="$T/d/organs/blk_2_ffn_up_3.bin" bs=1 seek=100 conv=notrunc 2> /dev/null
refuse "'blk.2.ffn_up.3.weight': the data does not match the sha256" "an expert with other bytes is named"
rm -rf "$T/p.gguf" "$T/d"

# shellcheck disable=SC2086
moe "$T/m.gguf" $KEYS blk.1.ffn_gate_tid2eid.weight:I32:6x10
organ-extract "$T/m.gguf" --split-experts --output "$T/d"
cp "$T/d/manifest.json" "$T/all"
check "tid2eid, all there" organ-assemble "$T/d" --output "$T/p.gguf"
rm -f "$T/p.gguf"
without "$P1 || $P2"
refuse "blk.1.ffn_gate_tid2eid" "a table of experts"
rm -rf "$T/d"

# shellcheck disable=SC2086
moe "$T/m.gguf" $KEYS blk.1.ffn_up_chexps.weight:F16:64x32x3
organ-extract "$T/m.gguf" --split-experts --output "$T/d"
cp "$T/d/manifest.json" "$T/all"
check "experts of groups, all there" organ-assemble "$T/d" --output "$T/p.gguf"
check_same "$T/m.gguf" "$T/p.gguf" "experts of groups, all there"
rm -f "$T/p.gguf"
without "$P1 || $P2"
refuse "blk.1.ffn_up_chexps.weight" "experts of groups"
rm -rf "$T/d"

# shellcheck disable=SC2086
moe "$T/m.gguf" $KEYS blk.3.ffn_gate_inp.weight:F32:64x6 blk.3.ffn_up_exps.weight:F16:64x32x5
organ-extract "$T/m.gguf" --split-experts --output "$T/d"
cp "$T/d/manifest.json" "$T/all"
without '/ffn_[a-z]*\.[14]\./ || /"blk\.3\.ffn_[a-z]*\.0\./'
refuse "it is for 5 experts, but other tensors are for 6" "stacks of different heights"
rm -rf "$T/d"
mkmodel "$T/m.gguf" token_embd.weight:F32:4x4 blk.1.ffn_norm.0.weight:F32:4x4
organ-extract "$T/m.gguf" --output "$T/d"
stack='{"name": "blk.1.ffn_norm_exps.weight", "dims": [4, 4, 3], "dtype": "F32"}'
sed "s|^    \"general.name\": \"made\"\$|&, \"stacked\": [$stack]|" "$T/d/manifest.json" > "$T/x"
cp "$T/x" "$T/d/manifest.json"
refuse "which cannot lose any" "a stack of something else"
rm -rf "$T/d"

# ---- --keep-experts: the same without an edited manifest -----------------------------------------
# shellcheck disable=SC2086
moe "$T/m.gguf" $KEYS
organ-extract "$T/m.gguf" --split-experts --output "$T/d" --force
organ-extract "$T/m.gguf" --output "$T/w" --force
cp "$T/d/manifest.json" "$T/all"
without "$P1 || $P2"
check "by the manifest" organ-assemble -q "$T/d" --output "$T/p.gguf" --force
cp "$T/all" "$T/d/manifest.json"
printf 'block\texperts\n2\t1-4\n\n1\t0,5,2-3\n' > "$T/keep"
keep() { # FROM LIST-OR-FILE
    rm -f "$T/c.gguf"
    organ-assemble -q "$1" --keep-experts "$2" --output "$T/c.gguf"
}
for from in d w; do # records and stacks
    check "--keep-experts FILE, $from" keep "$T/$from" "$T/keep"
    check_same "$T/c.gguf" "$T/p.gguf" "--keep-experts FILE is as an edited manifest, $from"
    check "all experts, $from" keep "$T/$from" 0-5
    check_same "$T/c.gguf" "$T/m.gguf" "all experts: the same bytes, $from"
done
check "of a GGUF file" keep "$T/m.gguf" "$T/keep"
check_same "$T/c.gguf" "$T/p.gguf" "--keep-experts on a GGUF file"
check "from a pipe to a pipe" sh \
    -c "organ-assemble -q - --keep-experts '$T/keep' --output - < '$T/m.gguf' > '$T/c.gguf'"
check_same "$T/c.gguf" "$T/p.gguf" "--keep-experts from a pipe to a pipe"
check "a list for every block" keep "$T/w" 0-1,4-5
cp "$T/c.gguf" "$T/p.gguf"
same_slices blk.1.ffn_up_exps.weight 1152 0 1 4 5
same_slices blk.2.ffn_gate_inp.weight 68 0 1 4 5
check_exit 2 "--by without a number" organ-assemble "$T/w" --by importance \
    --imatrix "$LAB/lab-verse.imatrix.gguf" --output "$T/c.gguf" --force
check_exit 2 "--by without a matrix" organ-assemble "$T/w" --keep-experts 2 --by importance --output "$T/c.gguf" \
    --force
check_exit 4 "--by norm, a table that does not exist" organ-assemble "$T/w" --keep-experts 2 --by norm \
    --imatrix "$LAB/lab-verse.imatrix.gguf" --output "$T/c.gguf" --force
check_error 1 "has none of the model's experts" "a matrix of another model" organ-assemble -q "$T/w" \
    --keep-experts 2 --by importance --imatrix "$LAB/lab-verse.imatrix.gguf" --output "$T/x.gguf"
check_absent "$T/x.gguf" "a matrix of another model"
# An older file with block 1's ffn_up alone, whose experts 3, 0, 5 and 1 have large inputs: block 2 is
# ranked by its weights.
{
    printf '\001\0\0\0\030\0\0\0blk.1.ffn_up_exps.weight\001\0\0\0\200\001\0\0'
    for e in 0 1 2 3 4 5; do
        for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do
            case $e in 0 | 1 | 3 | 5) printf '\0\0\200\102\0\0\200\102\0\0\200\102\0\0\200\102' ;; *) printf \
                '\0\0\200\077\0\0\200\077\0\0\200\077\0\0\200\077' ;; esac
        done
    done
} > "$T/im.dat"
by() { # FROM
    rm -f "$T/c.gguf"
    organ-assemble "$1" --keep-experts 4 --by importance --imatrix "$T/im.dat" --output "$T/c.gguf"
}
for from in m.gguf w d; do
    check "by importance, $from" by "$T/$from"
    if grep -q "lacks the experts of 1 of 2 blocks" "$T/err"; then ok; else bad "no note: $(cat "$T/err")"; fi
    [ $from = m.gguf ] && mv "$T/p.gguf" "$T/was.gguf" && cp "$T/c.gguf" "$T/p.gguf"
    check_same "$T/c.gguf" "$T/p.gguf" "by importance, $from"
done
same_slices blk.1.ffn_gate_exps.weight 2176 0 1 3 5
same_slices blk.1.ffn_gate_inp.weight 256 0 1 3 5
mv "$T/was.gguf" "$T/p.gguf"
check_error 2 "a pipe can be read only once" "by importance, a pipe" sh \
    -c "organ-assemble -q - --keep-experts 4 --by importance --imatrix '$T/im.dat' --output - < '$T/m.gguf'"
check "in shards" organ-assemble -q "$T/w" --keep-experts 0-1,4-5 --shards 2 --output "$T/s.gguf" --force
organ-extract "$T/s-00001-of-00002.gguf" --output "$T/s" --force -q
organ-assemble -q "$T/s" --output "$T/c.gguf" --force
organ-extract "$T/c.gguf" --tensors 'blk*' --output - > "$T/x" &&
    organ-extract "$T/p.gguf" --tensors 'blk*' --output - > "$T/y"
check_same "$T/x" "$T/y" "shards hold the same"
check "and re-encoded" organ-assemble -q "$T/w" --keep-experts 0-1,4-5 --dtype 'blk.*_exps.weight=q8_0' \
    --output "$T/x.gguf" --force
organ-extract "$T/p.gguf" --output "$T/s" --force -q
organ-assemble -q "$T/s" --dtype 'blk.*_exps.weight=q8_0' --output "$T/y.gguf" --force
check_same "$T/x.gguf" "$T/y.gguf" "cut and re-encoded, as one after the other"
# Of experts that are taken out of the manifest, the others are counted from 0 again.
without "$P1 || $P2"
check "both" keep "$T/d" 0,2
cp "$T/c.gguf" "$T/p.gguf"
same_slices blk.1.ffn_gate_exps.weight 2176 0 3
same_slices blk.2.ffn_gate_exps.weight 1152 1 3
cp "$T/all" "$T/d/manifest.json"
cp "$T/w/organs/blk_1_ffn_up_exps.bin" "$T/was.bin"
printf x | dd of="$T/w/organs/blk_1_ffn_up_exps.bin" bs=1 seek=200 conv=notrunc 2> /dev/null
check_error 3 "sha256" "a tampered stack" keep "$T/w" 0-3
check_absent "$T/c.gguf" "a tampered stack"
cp "$T/was.bin" "$T/w/organs/blk_1_ffn_up_exps.bin"
keep_no() { # STATUS TEXT LIST
    check_error "$1" "$2" "--keep-experts: $2" keep "$T/w" "$3"
    check_absent "$T/c.gguf" "$2"
}
keep_no 1 "tensor 'blk.1.ffn_gate_inp.weight': its block has no expert 6, only 0 to 5" 4-6
keep_no 3 "2 are used at a time" 3-3
keep_no 2 "to keep expert number 3, use organ-prune --experts 3" 3
keep_no 3 "divided into 2 groups" 0-2
keep_no 2 "expected numbers and ranges" ''
keep_no 2 "expected numbers and ranges" 3-
keep_no 4 "cannot open the list of experts" "$T/no-such-list"
bad_list() { # STATUS TEXT CONTENT
    printf "$3" > "$T/bad"
    keep_no "$1" "$2" "$T/bad"
}
bad_list 1 "has no line for block 1" '2\t0-3\n'
bad_list 1 "its block would keep 2 experts, others 4" '1\t0-3\n2\t0-1\n'
bad_list 1 "lists block 0, which has no experts" '0\t0-3\n1\t0-3\n2\t0-3\n'
bad_list 2 "block 1 is listed twice" '1\t0-3\n1\t0-3\n2\t0-3\n'
bad_list 2 "line 2: expected a block number, a tab and experts" '1\t0-3\n2 0-3\n'
bad_list 2 "expected numbers and ranges" '1\t0-3\n2\t\n'
bad_list 2 "the file lists no experts" '\n'
mkmodel "$T/dense.gguf" blk.0.ffn_up.weight:F32:8x8
organ-extract -q "$T/dense.gguf" --output "$T/dense" --force
check_error 1 "the model has no stacks of experts" "a dense model" keep "$T/dense" 0-0
rm -rf "$T/d" "$T/p.gguf"

# One expert has another dtype. Its record and its line agree, and it has as many bytes as the
# others, but a stack has one dtype.
for type in F16 BF16; do
    mkmodel "$T/$type.gguf" blk.0.ffn_up_exps.weight:$type:32x8x3 blk.0.attn_q.weight:F32:32
    organ-extract "$T/$type.gguf" --split-experts --output "$T/$type.d"
done
for e in 0 1 2; do
    rm -rf "$T/d"
    cp -R "$T/F16.d" "$T/d"
    cp "$T/BF16.d/organs/blk_0_ffn_up_$e.bin" "$T/d/organs/"
    line=$(grep "\"blk.0.ffn_up.$e.weight\"" "$T/BF16.d/manifest.json")
    awk -v name="\"blk.0.ffn_up.$e.weight\"" -v line="$line" 'index($0, name) { $0 = line } { print }' \
        "$T/F16.d/manifest.json" > "$T/d/manifest.json"
    check "expert $e of another dtype is listed" organ-extract "$T/d" --list
    check_text "$(awk "$BY_NAME"'col("dtype") == "BF16" || col("elements") == "BF16"' "$T/out" | wc -l |
        tr -d ' ')" 1 "expert $e has another dtype"
    refuse "blk.0.ffn_up." "expert $e has another dtype than the others"
done

# ---- the card of what was done ----------------------------------------------------------------
check "a mixture" organ-stack -q --experts-from $LAB/lab-base-q4_k_m.gguf,$LAB/lab-verse-q4_k_m.gguf \
    -o "$T/mix.gguf"
check "a card" organ-prune -q "$T/mix.gguf" --experts 0,1 --set-kv 'general.name=str:a|b <i>' -o "$T/c.gguf" \
    --card "$T/c.md"
check "a second step" organ-transplant -q "$T/c.gguf" $LAB/lab-code-q4_k_m.gguf --type attention -o "$T/cc.gguf" \
    --card "$T/cc.md"
check_text "$(sed -n '1p; /^- /p; /^| arch/p; /^| check/p' "$T/cc.md")" "# a\\|b \\<i\\> + lab-code (graft)
- mixture: experts from lab-base, lab-verse
- graft: 16 of 43 tensors from lab-code
| architecture | llama |
| check | no findings |" "each step"
mkdir "$T/card"
check "a card by organ-assemble, which starts organ-prune" organ-assemble -q "$T/mix.gguf" --keep-experts 0,1 \
    -o "$T/card/c.gguf" --card "$T/card/c.md"
check_text "$(ls -A "$T/card" | tr '\n' ' ')" "c.gguf c.md " "no other file is left"
check_error 2 "already exists" "an existing card, before the work" organ-stack "$T/c.gguf" 0-1 -o "$T/none.gguf" \
    --card "$T/c.md"
check_error 2 "a model in one file" "shards" organ-assemble "$T/c.gguf" --shards 2 -o "$T/none.gguf" --card "$T/d.md"
check_error 2 "a model that is written" "a plan" organ-assemble "$T/c.gguf" --dry-run -o "$T/none.gguf" \
    --card "$T/d.md"
check_error 2 "name the output" "stdout" organ-assemble "$T/c.gguf" -o - --card "$T/d.md"
check_exit 1 "a run that fails" organ-transplant "$T/c.gguf" $LAB/lab-code-q4_k_m.gguf --tensors none \
    -o "$T/none.gguf" --card "$T/d.md"
for f in none.gguf d.md; do check_absent "$T/$f" "nothing was written"; done
finish
