#!/bin/sh
# imatrix_out.sh - the importance matrix follows a transplant: blocks, experts and units, of base and donor.
. "$(dirname "$0")/lib.sh"
unrecorded organ-transplant organ-graft
have permute || { bad "permute is not built"; finish; }
KEYS='{"key": "llama.attention.head_count", "type": "u32", "value": 4},
{"key": "llama.attention.head_count_kv", "type": "u32", "value": 2},
{"key": "llama.expert_count", "type": "u32", "value": 4},
{"key": "llama.embedding_length", "type": "u32", "value": 64},'
experts() { # BLOCK
    echo "blk.$1.ffn_gate_inp.weight:F32:64x4 blk.$1.ffn_gate_exps.weight:F16:64x96x4
        blk.$1.ffn_up_exps.weight:F16:64x96x4 blk.$1.ffn_down_exps.weight:F16:96x64x4"
}
# shellcheck disable=SC2046 # words
made "$T/base.gguf" "$KEYS" $(experts 0) $(experts 1) 2> "$T/err" || bad "base: $(cat "$T/err")"
permute "$T/base.gguf" "$T/donor.gguf" none 0.3 > "$T/none" || bad "donor"
imatrix "$T/base.im" blk.0.ffn_down_exps.weight:96:1,2,3,4:10,20,30,40 \
    blk.1.ffn_down_exps.weight:96:5,6,7,8:50,60,70,80 \
    blk.0.ffn_gate_inp.weight:64:9:90 blk.1.ffn_gate_inp.weight:64:10:100
imatrix "$T/donor.im" blk.0.ffn_down_exps.weight:96:16,32,64,128:1,2,3,4 \
    blk.1.ffn_down_exps.weight:96:1,1,1,1:5,6,7,8 \
    blk.0.ffn_gate_inp.weight:64:11:110
moved() { # OPTIONS...
    rm -f "$T/out.im"
    organ-transplant "$T/base.gguf" "$T/donor.gguf" --imatrix "$T/base.im" -o "$T/x.gguf" --force \
        --imatrix-out "$T/out.im" "$@"
}
# Counts, and sums of the first column (S of column j is S * j), of all matrices.
entries() {
    organ-imatrix show "$1" --experts | awk -F"$TAB" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        $2 != "-" || $1 ~ /inp/ { n = $at["columns"]; sub(/^blk\./, "", $1); sub(/\.ffn_/, " ", $1);
            sub(/_exps\.weight|\.weight/, "", $1)
            printf "%s %s %.4g %.4g\n", $1, $2, $at["count"], $at["sum"] * $at["count"] / (n * (n + 1) / 2) }'
}
wanted() { # NAME LINES...
    name=$1
    shift
    entries "$T/out.im" | tr '\n' ';' > "$T/got"
    check_text "$(cat "$T/got")" "$*" "$name"
}
B0="0 down 0 10 1;0 down 1 20 2;0 down 2 30 3;0 down 3 40 4;" R0="0 gate_inp - 90 9;" R1="1 gate_inp - 100 10;"
B1="1 down 0 50 5;1 down 1 60 6;1 down 2 70 7;1 down 3 80 8;"
D0="down 0 1 16;1 down 1 2 32;1 down 2 3 64;1 down 3 4 128;"

check "a block from another one" moved -q --map 1=0 --donor-imatrix "$T/donor.im"
wanted "the entries of the donor's block" "$B0${R0}1 ${D0}1 gate_inp - 110 11;"
check "experts by number" moved -q --layers 0 --tensors '*_exps.weight,*_inp.weight' \
    --experts 0,3=1 --donor-imatrix "$T/donor.im"
wanted "experts of the donor, router of the base" "0 down 0 1 16;0 down 1 20 2;0 down 2 30 3;0 down 3 2 32;$R0$B1$R1"
check "a blend" moved -q --layers 0 --type ffn --blend linear:0.5 --donor-imatrix "$T/donor.im"
wanted "sums of both" "0 down 0 11 17;0 down 1 22 34;0 down 2 33 67;0 down 3 44 132;0 gate_inp - 200 20;$B1$R1"
check "a blend without the donor's" moved -q --layers 0 --type ffn --blend linear:0.5
wanted "those of the base" "$B0$R0$B1$R1"
check "without that of the donor" moved --layers 0 --type ffn --experts 2
wanted "what moved is left out" "$R0$B1$R1"
if grep -q "lacks 1 tensor with matrices of the donor: give that of the donor too" "$T/err"; then ok; else
    bad "no note: $(cat "$T/err")"
fi
check "a tensor that the donor's lacks" moved --layers 1 --type ffn --donor-imatrix "$T/donor.im"
if grep -q "lacks 1 tensor .*that of the donor does not have them" "$T/err"; then ok
else bad "no note: $(cat "$T/err")"; fi
check "an organ directory" organ-graft -q "$T/base.gguf" "$T/donor.gguf" --map 1=0 \
    --imatrix "$T/base.im" --donor-imatrix \
    "$T/donor.im" --imatrix-out "$T/out.im" --force -o "$T/dir"
wanted "the same entries" "$B0${R0}1 ${D0}1 gate_inp - 110 11;"

check "a copy" organ-assemble -q "$T/base.gguf" --imatrix "$T/base.im" --imatrix-out "$T/out.im" -o "$T/x.gguf" --force
wanted "all entries" "$B0$R0$B1$R1"
organ-extract -q "$T/base.gguf" --split-experts -o "$T/fewer"
sed '/ffn_[a-z]*\.1\.weight/d' "$T/fewer/manifest.json" > "$T/fewer.json"
mv "$T/fewer.json" "$T/fewer/manifest.json"
check "experts that were removed from a directory" organ-assemble -q "$T/fewer" --imatrix "$T/base.im" --force \
    --imatrix-out "$T/out.im" -o "$T/x.gguf"
wanted "entries of the others" \
    "0 down 0 10 1;0 down 1 30 3;0 down 2 40 4;${R0}1 down 0 50 5;1 down 1 70 7;1 down 2 80 8;$R1"
# With a smaller number in the keys too, expert 3 is past the end of an entry of three.
sed '/expert_count/s/"value": 4/"value": 3/' "$T/fewer/manifest.json" > "$T/fewer.json"
mv "$T/fewer.json" "$T/fewer/manifest.json"
imatrix "$T/three.im" blk.0.ffn_down_exps.weight:96:1,2,3:10,20,30 blk.1.ffn_down_exps.weight:96:5,6,7:50,60,70
check_error 3 "tensor 'blk.0.ffn_down_exps.weight': the importance matrix has no expert 3 of it" \
    "an expert past the end" \
    organ-assemble -q "$T/fewer" --imatrix "$T/three.im" --imatrix-out "$T/no.im" -o "$T/x.gguf" --force
check_absent "$T/no.im" "an expert past the end"
# A model of single experts, but entries of stacks.
for m in a b; do
    mkmodel "$T/$m.gguf" -k llama.block_count=1 -k llama.expert_count=3 blk.0.ffn_up.0.weight:F32:96x8 \
        blk.0.ffn_up.1.weight:F32:96x8 blk.0.ffn_up.2.weight:F32:96x8
done
imatrix "$T/three.im" blk.0.ffn_up_exps.weight:96:1,2,3:10,20,30
for donor in "" "--donor-imatrix $T/three.im"; do
    # shellcheck disable=SC2086 # words
    check_error 1 "tensor 'blk.0.ffn_up.0.weight': the importance matrix has a stack" \
        "single experts $donor" organ-transplant -q \
        "$T/a.gguf" "$T/b.gguf" --layers 0 --imatrix "$T/three.im" $donor --imatrix-out "$T/no.im" \
        -o "$T/x.gguf" --force
done

# Units and experts in another order: the donor becomes the base, so its entries must fit the base.
imatrix "$T/mixed.im" blk.0.ffn_down_exps.weight:x96:1,2,3,4:10,20,30,40 \
    blk.1.ffn_down_exps.weight:96:5,6,7,8:50,60,70,80 \
    blk.0.ffn_gate_exps.weight:64:1,2,3,4:10,20,30,40
permute "$T/base.gguf" "$T/p.gguf" experts,ffn 0 4 > "$T/p.tsv"
check "--align" organ-transplant -q "$T/p.gguf" "$T/base.gguf" --align --imatrix "$T/mixed.im" \
    --donor-imatrix "$T/mixed.im" \
    --imatrix-out "$T/p.im" -o "$T/x.gguf" --force
check_same "$T/x.gguf" "$T/p.gguf" "the base again"
outputs() { # MODEL IMATRIX: the mean squared outputs
    organ-measure -q "$1" --imatrix "$2" --split-experts --tensors '*_exps*' | awk -F"$TAB" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == "importance") at = i; next }
        $at != "-" { sub(/\.[0-9]+\.weight$/, "", $1); printf "%s %.6g\n", $1, $at }' | sort
}
outputs "$T/base.gguf" "$T/mixed.im" > "$T/want"
outputs "$T/p.gguf" "$T/p.im" > "$T/got"
check_same "$T/got" "$T/want" "each expert keeps its importance"
check_text "$(($(wc -l < "$T/got")))" 12 "experts"

imatrix "$T/other.im" blk.0.ffn_down_exps.weight:96:1,2,3:10,20,30
check_error 1 "it has 4 matrices of 96 columns" "a donor's of another model" moved -q --layers 0 --type ffn \
    --donor-imatrix "$T/other.im"
check_absent "$T/out.im" "a donor's of another model"
# It is found before a model is written: nothing of it comes out of a pipe.
other="it has 4 matrices of 96 columns"
check_error 1 "$other" "a donor's of another model, to a pipe" organ-transplant -q "$T/base.gguf" "$T/donor.gguf" \
    --layers 0 --type ffn --imatrix "$T/base.im" --donor-imatrix "$T/other.im" --imatrix-out "$T/no.im" -o -
organ-keys -q "$T/base.gguf" --set llama.block_count=u32:2 -o "$T/counted.gguf"
check_error 1 "$other" "another model's, stacked to a pipe" organ-stack -q "$T/counted.gguf" 0 \
    --imatrix "$T/other.im" --imatrix-out "$T/no.im" -o -
check_error 1 "$other" "another model's, assembled to a pipe" organ-assemble -q "$T/base.gguf" \
    --imatrix "$T/other.im" --imatrix-out "$T/no.im" -o -
check_absent "$T/no.im" "an importance matrix of another model"
check_error 2 "imatrix-out needs --imatrix" "no importance matrix" organ-transplant "$T/base.gguf" "$T/donor.gguf" \
    -o "$T/y.gguf" --imatrix-out "$T/y.im"
check_error 2 "this output is also an input" "its own input" moved --imatrix-out "$T/base.im"
organ-extract -q "$T/base.gguf" --split-experts -o "$T/split"
check_error 2 "single experts" "a directory of single experts" organ-graft -q "$T/split" "$T/split" \
    --imatrix "$T/base.im" \
    --imatrix-out "$T/out.im" -o "$T/split2"
finish
