#!/bin/sh
# units.sh - organ-assemble --keep-units and --expert-share: which hidden units stay, in gate, up, down
# and their biases; keys and the importance matrix follow; scores from a table; refusals.
. "$(dirname "$0")/lib.sh"
have mkmodel || { bad "mkmodel is not built"; finish; }
MOE="-k llama.block_count=1 -k llama.expert_count=4 -k llama.expert_used_count=2 -k llama.feed_forward_length=8
    token_embd.weight:F32:16x4 blk.0.ffn_gate_inp.weight:F32:16x4 blk.0.ffn_gate_exps.weight:F16:16x8x4
    blk.0.ffn_up_exps.weight:F16:16x8x4 blk.0.ffn_up_exps.bias:F32:8x4 blk.0.ffn_down_exps.weight:F32:8x16x4"
# shellcheck disable=SC2086 # words
mkmodel "$T/m.gguf" $MOE
# Of the columns 0 to 7 of each expert, 2^3, 2^6, 2^1, 2^4, 2^7, 2^2, 2^5 and 2^0: the best four are
# 1, 3, 4 and 6. Expert 3 has most, then 1 and 0; 2 has none.
imatrix "$T/im.gguf" blk.0.ffn_down_exps.weight:x8:2,4,0,64:10,30,0,20 \
    blk.0.ffn_gate_exps.weight:16:1,1,0,1:10,30,0,20 \
    blk.0.ffn_gate_inp.weight:16:1:30
thin() { # OPTIONS...
    organ-assemble "$T/m.gguf" --imatrix "$T/im.gguf" -o "$T/c.gguf" --force "$@"
}
values() { # FILE TENSOR TYPE: its values, one per line
    rm -rf "$T/v"
    organ-extract -q "$1" --tensors "$2" -o "$T/v"
    set -- "$T/v/organs/"*.bin "$3"
    bytes=$(organ-extract --list "$1" | awk -F"$TAB" "$BY_NAME"'NR == 2 { print col("bytes") }')
    tail -c "$bytes" "$1" | od -A n -v -t "$2" | tr -s ' ' '\n' | sed '/^$/d'
}
# rows TENSOR TYPE WIDTH EXPERT...: rows 1, 3, 4 and 6 of these experts, and nothing else
rows() {
    tensor=$1 type=$2 width=$3
    shift 3
    values "$T/m.gguf" "$tensor" "$type" | awk -v w="$width" -v experts="$*" '{ x[NR - 1] = $1 } END {
        n = split(experts, e, " ")
        for (k = 1; k <= n; k++) for (i = 1; i <= 4; i++) for (j = 0; j < w; j++)
            print x[(e[k] * 8 + substr("1346", i, 1)) * w + j] }' > "$T/want"
    values "$T/c.gguf" "$tensor" "$type" > "$T/got"
    check_same "$T/got" "$T/want" "$tensor of experts $*"
}
# columns EXPERT...: columns 1, 3, 4 and 6 of the down projections, times a gain that keeps the score
columns() {
    values "$T/c.gguf" blk.0.ffn_down_exps.weight f4 > "$T/got"
    values "$T/m.gguf" blk.0.ffn_down_exps.weight f4 |
        mathawk -v experts="$*" -v got="$T/got" '{ x[NR - 1] = $1 } END {
        n = split(experts, e, " ")
        for (k = 1; k <= n; k++) {
            all = kept = 0
            for (r = 0; r < 16; r++) for (j = 0; j < 8; j++) {
                s = x[(e[k] * 16 + r) * 8 + j]; s = s * s * 2 ^ (3 * (j + 1) % 8)
                all += s; kept += j ~ /[1346]/ ? s : 0
            }
            for (r = 0; r < 16; r++) for (i = 1; i <= 4; i++) {
                getline y < got
                d = y - x[(e[k] * 16 + r) * 8 + substr("1346", i, 1)] * sqrt(all / kept)
                if (d > 1e-4 || d < -1e-4) bad++
            }
        }
        exit bad > 0 || (getline y < got) > 0
    }' && ok || bad "down projections of experts $*"
}

check "fewer units" thin --keep-units 4 --imatrix-out "$T/c.im.gguf"
if grep -q "4 of 8 hidden units per expert are left" "$T/err"; then ok; else bad "no note: $(cat "$T/err")"; fi
values "$T/c.gguf" blk.0.ffn_gate_inp.weight f4 > "$T/got"
values "$T/m.gguf" blk.0.ffn_gate_inp.weight f4 > "$T/want"
check_same "$T/got" "$T/want" "the router stays"
check_text "$(organ-keys "$T/c.gguf" --get llama.feed_forward_length)" 4 "the length of the FFN"
check_text "$(organ-keys "$T/c.gguf" --get llama.expert_count)" 4 "the number of experts"

check "fewer experts and units" thin --keep-experts 3 --by importance --keep-units 4 --imatrix-out "$T/c.im.gguf"
rows blk.0.ffn_gate_exps.weight x2 16 0 1 3
rows blk.0.ffn_up_exps.weight x2 16 0 1 3
rows blk.0.ffn_up_exps.bias f4 1 0 1 3
columns 0 1 3
check_text "$(organ-keys "$T/c.gguf" --get llama.expert_count)" 3 "fewer experts"
cell() { # NAME COLUMN EXPERT of the importance matrix
    organ-imatrix show "$T/c.im.gguf" --experts | awk -F"$TAB" -v n="$1" -v c="$2" -v e="$3" "$BY_NAME"'
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == c) at = i }
        col("name") == n && col("expert") == e { print $at }'
}
check_text "$(cell blk.0.ffn_down_exps.weight columns 1) $(cell blk.0.ffn_down_exps.weight count 1)" "4 30" \
    "columns and counts that follow"
check_text "$(cell blk.0.ffn_down_exps.weight sum 2)" 768 "64 (2^6 + 2^4 + 2^7 + 2^5) / 20 tokens of the last expert"
check_text "$(cell blk.0.ffn_gate_exps.weight count 2) $(cell blk.0.ffn_gate_inp.weight count -)" "20 30" \
    "other entries"
check "it fits the new model" organ-assemble -q "$T/c.gguf" --imatrix "$T/c.im.gguf" \
    --dtype 'blk.0.ffn_gate_exps.weight=bf16' -o "$T/x.gguf" --force
cp "$T/c.gguf" "$T/first.gguf"
check "experts by number" thin --keep-experts 0-1,3 --keep-units 4
organ-compare "$T/c.gguf" "$T/first.gguf" > "$T/compared" && ok || bad "listed experts: $(cat "$T/compared")"
organ-extract -q "$T/m.gguf" -o "$T/dir"
check "from a directory" organ-assemble -q "$T/dir" --imatrix "$T/im.gguf" --keep-experts 3 --by importance \
    --keep-units 4 -o "$T/d.gguf"
check_same "$T/d.gguf" "$T/first.gguf" "from a directory"
check "to a pipe" sh -c "organ-assemble -q '$T/m.gguf' --imatrix '$T/im.gguf' --keep-experts 3 \
    --by importance --keep-units 4 -o - > '$T/pipe.gguf'"
check_same "$T/pipe.gguf" "$T/first.gguf" "to a pipe"

# A share of the weights: the split that keeps most, and what each text loses.
imatrix "$T/text.gguf" blk.0.ffn_down_exps.weight:x8:8,8,8,8:10,10,30,10
check "a share" thin --expert-share 50% --text-imatrix "$T/text.gguf"
if grep -q "2 experts of 8 units keep" "$T/err" && grep -q "3 experts of 5 units keep .* (chosen)" "$T/err" &&
    grep -q "4 experts of 4 units keep" "$T/err"; then ok; else bad "candidates: $(cat "$T/err")"; fi
if grep -q "text.gguf: block 0 keeps" "$T/err" &&
    grep -q "expert 2 of block 0 is removed, but carries [1-4][0-9]" "$T/err"
then ok; else bad "what the text loses: $(cat "$T/err")"; fi
check_text "$(organ-keys "$T/c.gguf" --get llama.expert_count) $(organ-keys "$T/c.gguf" \
    --get llama.feed_forward_length)" "3 5" "the split"

check "what would go" thin --keep-experts 2 --by importance --dry-run
if grep -q "im.gguf: block 0 keeps [0-9.]* % of its score, without experts 0, 2$" "$T/err"; then ok; else
    bad "what would go: $(cat "$T/err")"
fi
check "which units" thin --keep-units 4 --dry-run
if grep -q "im.gguf: block 0 keeps [0-9.]* % of its score$" "$T/err"; then ok
else bad "units that would go: $(cat "$T/err")"; fi

# Scores from a table.
scores() { printf "block\texpert\tscore\n0\t0\t1\n0\t1\t5\n0\t2\t9\n0\t3\t%s\n" "$1" > "$T/scores.tsv"; }
scores 0.5
check "scores from a table" organ-assemble -q "$T/m.gguf" --keep-experts 2 --by "$T/scores.tsv" -o "$T/c.gguf" --force
check "which would go" organ-assemble "$T/m.gguf" --keep-experts 2 --by "$T/scores.tsv" --dry-run
if grep -q "block 0 keeps 2 of 4 experts, without experts 0, 3$" "$T/err"; then ok
else bad "would go: $(cat "$T/err")"; fi
check "the same experts by number" organ-assemble -q "$T/m.gguf" --keep-experts 1-2 -o "$T/x.gguf" --force
check_same "$T/c.gguf" "$T/x.gguf" "scores from a table"

# A dense FFN, with gate and up in one matrix and a type with blocks.
mkmodel "$T/dense.gguf" -k llama.block_count=2 -k llama.feed_forward_length=96 token_embd.weight:F32:32x4 \
    -n 2 blk.%.ffn_up.weight:Q8_0:32x192 blk.%.ffn_down.weight:Q8_0:96x32
imatrix "$T/dense.im.gguf" blk.0.ffn_down.weight:96:1:10 blk.1.ffn_down.weight:96:1:10
check "a dense FFN" organ-assemble "$T/dense.gguf" --imatrix "$T/dense.im.gguf" --keep-units 70 -o "$T/c.gguf" --force
if grep -q "64 units are kept instead of 70: Q8_0 has blocks of 32" "$T/err"; then ok; else bad \
    "no note on blocks: $(cat "$T/err")"; fi
check_text "$(organ-extract --list "$T/c.gguf" | awk -F"$TAB" "$BY_NAME"'/blk.1/ { print col("dims") }' |
    tr '\n' ' ')" \
    "32x128 64x32 " "dims of a dense FFN"
check_text "$(organ-keys "$T/c.gguf" --get llama.feed_forward_length)" 64 "its length"
check_error 1 "3 experts cannot be kept: block 0 has 1" "experts of a dense FFN" organ-assemble "$T/dense.gguf" \
    --imatrix "$T/dense.im.gguf" --keep-experts 3 --by importance --keep-units 64 -o "$T/no.gguf"

# ---- --refit: the units that are left stand for the others, by least squares on samples
mkmodel "$T/act.gguf" -s 7 blk.0.ffn_down_exps.weight.sample:F32:8x40x4
check "--refit" thin -q --keep-experts 3 --by importance --keep-units 4 --refit "$T/act.gguf"
values "$T/c.gguf" blk.0.ffn_down_exps.weight f4 > "$T/got"
values "$T/act.gguf" blk.0.ffn_down_exps.weight.sample f4 > "$T/samples"
# For each expert: the equations (K'K + ridge) a = K'D for the columns K that are left and D that are not.
values "$T/m.gguf" blk.0.ffn_down_exps.weight f4 | awk -v experts="0 1 3" -v got="$T/got" -v samples="$T/samples" '
    { w[NR - 1] = $1 }
    END {
        while ((getline v < samples) > 0) x[n++] = v
        split("1346", k, ""); split("0257", d, ""); split(experts, e, " ")
        for (t = 1; t <= 3; t++) {
            for (i = 1; i <= 4; i++) for (j = 1; j <= 8; j++) {
                g[i, j] = 0
                for (r = 0; r < 40; r++) g[i,
                    j] += x[(e[t] * 40 + r) * 8 + k[i]] * x[(e[t] * 40 + r) * 8 + (j > 4 ? d[j - 4] : k[j])]
            }
            trace = g[1, 1] + g[2, 2] + g[3, 3] + g[4, 4]
            for (i = 1; i <= 4; i++) g[i, i] += 0.01 * trace / 4
            for (p = 1; p <= 4; p++) for (i = 1; i <= 4; i++) if (i != p) {
                f = g[i, p] / g[p, p]
                for (j = 1; j <= 8; j++) g[i, j] -= f * g[p, j]
            }
            for (r = 0; r < 16; r++) for (i = 1; i <= 4; i++) {
                want = w[(e[t] * 16 + r) * 8 + k[i]]
                for (j = 1; j <= 4; j++) want += g[i, j + 4] / g[i, i] * w[(e[t] * 16 + r) * 8 + d[j]]
                if ((getline y < got) <= 0 || y - want > 1e-4 || want - y > 1e-4) bad++
                moved += y != w[(e[t] * 16 + r) * 8 + k[i]]
            }
        }
        exit bad > 0 || !(moved > 0) || (getline y < got) > 0
    }' && ok || bad "the least-squares solution"
cp "$T/c.gguf" "$T/fit.gguf"
check "with one thread, to a pipe" sh -c "organ-assemble -q -j 1 '$T/m.gguf' --imatrix '$T/im.gguf' --keep-experts 3 \
    --by importance --keep-units 4 --refit '$T/act.gguf' -o - > '$T/pipe.gguf'"
check_same "$T/pipe.gguf" "$T/fit.gguf" "with one thread, to a pipe"
cp "$T/act.gguf" "$T/none.gguf"
dd if=/dev/zero of="$T/none.gguf" bs=1 seek=$(($(wc -c < "$T/none.gguf") - 5120)) count=5120 conv=notrunc 2> "$T/dd"
check "experts without samples" thin -q --keep-experts 3 --by importance --keep-units 4 --refit "$T/none.gguf"
check_same "$T/c.gguf" "$T/first.gguf" "they get their factor"
mkmodel "$T/dense.act.gguf" -n 2 blk.%.ffn_down.weight.sample:F16:96x50
check "a dense FFN" organ-assemble -q "$T/dense.gguf" --imatrix "$T/dense.im.gguf" --keep-units 64 \
    --refit "$T/dense.act.gguf" -o "$T/c.gguf" --force
organ-assemble -q "$T/dense.gguf" --imatrix "$T/dense.im.gguf" --keep-units 64 -o "$T/x.gguf" --force
check_exit 1 "both blocks change" organ-compare -q "$T/c.gguf" "$T/x.gguf" --tensors '*ffn_down*'
check_text "$(cells name,status "$T/out" | grep differs | grep -c '^blk')" 2 "both blocks change"

# ---- --refit where whole experts are removed: what the outputs of the block then lack, on samples
# of its inputs, is added to the down projections by ridge regression, all experts together.
# shellcheck disable=SC2086 # words
mkmodel "$T/m4.gguf" -k llama.block_count=1 -k llama.expert_count=4 -k llama.expert_used_count=2 \
    -k llama.feed_forward_length=8 \
    token_embd.weight:F32:16x4 blk.0.ffn_gate_inp.weight:F32:16x4 blk.0.ffn_gate_exps.weight:F32:16x8x4 \
    blk.0.ffn_up_exps.weight:F32:16x8x4 blk.0.ffn_down_exps.weight:F32:8x16x4
mkmodel "$T/in.gguf" -s 9 blk.0.ffn_down_exps.weight.sample:F32:8x40x4 blk.0.ffn_gate_inp.weight.sample:F32:16x40
mkmodel "$T/units.gguf" -s 9 blk.0.ffn_down_exps.weight.sample:F32:8x40x4
for units in 8 4; do
    more=
    [ $units = 8 ] || more="--imatrix $T/im.gguf --keep-units 4"
    # shellcheck disable=SC2086 # words
    organ-assemble -q "$T/m4.gguf" --keep-experts 0,2,3 $more --refit "$T/in.gguf" -o "$T/c.gguf" --force ||
        bad "refit of experts"
    # shellcheck disable=SC2086 # words
    organ-assemble -q "$T/m4.gguf" --keep-experts 0,2,3 $more ${more:+--refit "$T/units.gguf"} \
        -o "$T/x.gguf" --force ||
        bad "without it"
    for t in gate_inp gate_exps up_exps down_exps; do values "$T/m4.gguf" blk.0.ffn_$t.weight f4 > "$T/m.$t"; done
    for t in gate_exps up_exps down_exps; do values "$T/x.gguf" blk.0.ffn_$t.weight f4 > "$T/x.$t"; done
    values "$T/c.gguf" blk.0.ffn_down_exps.weight f4 > "$T/got"
    values "$T/in.gguf" blk.0.ffn_gate_inp.weight.sample f4 > "$T/samples"
    mathawk -v dir="$T" -v units=$units '
        function load(file, to,   n, v) { while ((getline v < (dir "/" file)) > 0) to[n++] = v }
        # The outputs for sample s of expert e, its place p in the stacks, times the weight; the hidden units in h.
        function visit(s, e, p, gate, up, down, n, weight, sign, kept,   i, j, g, u) {
            for (i = 0; i < n; i++) {
                g = u = 0
                for (j = 0; j < 16; j++) { g += x[s * 16 + j] * gate[(p * n + i) * 16 + j];
                    u += x[s * 16 + j] * up[(p * n + i) * 16 + j] }
                u *= g / (1 + exp(-g)) * weight
                if (kept) h[s, p, i] = u
                for (j = 0; j < 16; j++) lack[s, j] += sign * u * down[(p * 16 + j) * n + i]
            }
        }
        BEGIN {
            load("samples", x); load("m.gate_inp", r); load("got", got)
            load("m.gate_exps", mg); load("m.up_exps", mu); load("m.down_exps", md)
            load("x.gate_exps", xg); load("x.up_exps", xu); load("x.down_exps", xd)
            for (s = 0; s < 40; s++) {
                for (e = 0; e < 4; e++) { v = 0; for (j = 0; j < 16; j++) v += x[s * 16 + j] * r[e * 16 + j];
                    l[e] = exp(v) }
                for (kept = 0; kept < 2; kept++) {
                    a = b = -1
                    for (e = 0; e < 4; e++) if (!(kept && e == 1) && (a < 0 || l[e] > l[a])) a = e
                    for (e = 0; e < 4; e++) if (!(kept && e == 1) && e != a && (b < 0 || l[e] > l[b])) b = e
                    if (!kept) { visit(s, a, a, mg, mu, md, 8, l[a] / (l[a] + l[b]), 1);
                        visit(s, b, b, mg, mu, md, 8, l[b] / (l[a] + l[b]), 1) }
                    else { visit(s, a, a - (a > 0), xg, xu, xd, units, l[a] / (l[a] + l[b]), -1, 1);
                        visit(s, b, b - (b > 0), xg, xu, xd, units, l[b] / (l[a] + l[b]), -1, 1) }
                }
            }
            for (s = 0; s < 40; s++) for (t = 0; t < 40; t++) {
                for (p = 0; p < 3; p++) for (i = 0; i < units; i++) k[s, t] += h[s, p, i] * h[t, p, i]
                if (s == t) trace += k[s, t]
            }
            for (s = 0; s < 40; s++) k[s, s] += trace / 40
            for (p = 0; p < 40; p++) for (s = 0; s < 40; s++) if (s != p) {
                f = k[s, p] / k[p, p]
                for (t = p; t < 40; t++) k[s, t] -= f * k[p, t]
                for (j = 0; j < 16; j++) lack[s, j] -= f * lack[p, j]
            }
            for (p = 0; p < 3; p++) for (j = 0; j < 16; j++) for (i = 0; i < units; i++) {
                want = 0
                for (s = 0; s < 40; s++) want += h[s, p, i] * lack[s, j] / k[s, s]
                d = got[(p * 16 + j) * units + i] - xd[(p * 16 + j) * units + i] - want
                if (d > 1e-4 || d < -1e-4) bad++
                moved += want * want
            }
            printf "%d %s\n", bad, (moved > 0.01 ? "moved" : moved)
        }' > "$T/fit"
    check_text "$(cat "$T/fit")" "0 moved" "ridge regression with $units units"
done
check "with one thread, to a pipe" sh -c "organ-assemble -q -j 1 '$T/m4.gguf' --imatrix '$T/im.gguf' \
    --keep-experts 0,2,3 \
    --keep-units 4 --refit '$T/in.gguf' -o - > '$T/pipe.gguf'"
check_same "$T/pipe.gguf" "$T/c.gguf" "with one thread, to a pipe"
check "without samples of the inputs" organ-assemble "$T/m4.gguf" --imatrix "$T/im.gguf" \
    --keep-experts 0,2,3 --keep-units 4 \
    --refit "$T/units.gguf" -o "$T/x.gguf" --force
if grep -q "removed experts are not replaced: the activations have no samples of the inputs of routers" \
    "$T/err"; then ok; else
    bad "no note: $(cat "$T/err")"
fi

# Refusals.
refuse() { # STATUS TEXT OPTIONS...
    want=$1 text=$2
    shift 2
    rm -f "$T/c.gguf"
    check_error "$want" "$text" "$text" thin -q "$@"
    check_absent "$T/c.gguf" "$text"
}
refuse 1 "9 units cannot be kept: there are 8" --keep-units 9
refuse 3 "2 are used at a time" --keep-experts 1 --by importance --keep-units 4
refuse 1 "has no expert 4" --keep-experts 0,4 --keep-units 4
refuse 2 "use a share such as" --expert-share 200%
refuse 2 "re-encode the whole model first" --keep-units 4 --dtype q8_0
refuse 2 "chooses the number of units" --keep-units 4 --expert-share 50%
refuse 2 "refit needs --keep-units, --share, --keep-experts or --experts" --refit "$T/act.gguf"
refuse 1 "removed experts cannot be replaced: its experts have biases" --keep-experts 0,1,3 --refit "$T/act.gguf"
# A router without a best expert: NaN, the last of its values.
cp "$T/m4.gguf" "$T/nan.gguf"
printf '\000\000\300\177' | dd of="$T/nan.gguf" bs=1 seek=$(($(wc -c < "$T/nan.gguf") - 6148)) conv=notrunc 2> "$T/dd"
check_error 3 "tensor 'blk.0.ffn_down_exps.weight': the outputs of its router are NaN" "a router with NaN" \
    organ-assemble -q "$T/nan.gguf" --keep-experts 0,2,3 --refit "$T/in.gguf" -o "$T/c.gguf" --force
check_error 1 "the activations have no samples of the inputs" "no samples of inputs" organ-assemble "$T/m4.gguf" \
    --keep-experts 0,1,3 --refit "$T/act.gguf" -o "$T/c.gguf"
# Activations name the model that they were computed with.
organ-keys -q "$T/units.gguf" --set "activations.model.sha256=str:$(organ-check "$T/m4.gguf" --hash |
    awk -F"$TAB" "$BY_NAME"'
    col("kind") == "file" { print col("sha256") }')" -o "$T/named.gguf"
check "activations of the model" organ-assemble "$T/m4.gguf" --imatrix "$T/im.gguf" \
    --keep-units 4 --refit "$T/named.gguf" \
    -o "$T/c.gguf" --force
if grep -q "another file" "$T/err"; then bad "a note on its own activations: $(cat "$T/err")"; else ok; fi
check "activations of another file" organ-assemble "$T/m.gguf" --imatrix "$T/im.gguf" \
    --keep-units 4 --refit "$T/named.gguf" \
    -o "$T/c.gguf" --force
if grep -q "named.gguf: these are the activations of another file" "$T/err"; then ok
else bad "no note: $(cat "$T/err")"; fi
refuse 1 "it has no samples of the model's hidden units" --keep-units 4 --refit "$T/dense.act.gguf"
mkmodel "$T/wide.gguf" blk.0.ffn_down_exps.weight.sample:F32:8x40x3
refuse 1 "its samples have 8 columns of 3 matrices, but the tensor has 8 of 4" --keep-units 4 --refit "$T/wide.gguf"
printf '\000\000\300\177' | dd of="$T/none.gguf" bs=1 seek=$(($(wc -c < "$T/none.gguf") - 5120)) \
    conv=notrunc 2> "$T/dd"
refuse 3 "NaN or infinite" --keep-units 4 --refit "$T/none.gguf"
scores 2
printf '7\t0\t1\n' >> "$T/scores.tsv"
refuse 1 "the model has no expert 0 in block 7" --keep-experts 2 --by "$T/scores.tsv"
printf '0\t0\t1\n' > "$T/scores.tsv"
refuse 1 "it has no score for expert 1 of block 0" --keep-experts 2 --by "$T/scores.tsv"
scores -2
refuse 2 "line 5: expected block, tab, expert, tab, score" --keep-experts 2 --by "$T/scores.tsv"
check_error 2 "needs --imatrix" "no importance matrix" organ-assemble "$T/m.gguf" --keep-units 4 -o "$T/c.gguf"
check_error 1 "16 units cannot be kept" "less than a block" organ-assemble -q "$T/dense.gguf" \
    --imatrix "$T/dense.im.gguf" --keep-units 16 -o "$T/c.gguf"
imatrix "$T/zero.gguf" blk.0.ffn_down_exps.weight:x8:0,0,0,0:0,0,0,0 blk.0.ffn_gate_inp.weight:16:1:30
check_error 1 "counts no inputs for any expert of block 0" "counts of zero" organ-assemble -q "$T/m.gguf" \
    --imatrix "$T/zero.gguf" --keep-experts 2 --by importance -o "$T/c.gguf"
imatrix "$T/other.gguf" blk.0.ffn_down_exps.weight:x16:1,1,1,1:9,9,9,9
check_error 1 "its rows have 8 columns, but the importance matrix has 16" "another model" organ-assemble \
    -q "$T/m.gguf" --imatrix "$T/other.gguf" --keep-units 4 -o "$T/c.gguf"

# ---- a side of 0 -------------------------------------------------------------------------------------------

# Whatever side of an FFN is 0: one line, no output, no temporary file.
imatrix "$T/flat.im.gguf" blk.0.ffn_down.weight:8:2:10
for shapes in 0x8:8x8:8x8 8x0:8x8:8x8 8x8:0x8:8x8 8x8:8x0:8x8 8x8:8x8:0x8 8x8:8x8:8x0 0x0:0x0:0x0; do
    mkmodel "$T/flat.gguf" -k llama.feed_forward_length=8 "blk.0.ffn_gate.weight:F32:${shapes%%:*}" \
        "blk.0.ffn_up.weight:F32:$(echo "$shapes" | cut -d: -f2)" "blk.0.ffn_down.weight:F32:${shapes##*:}" ||
        bad "mkmodel $shapes"
    for options in "--keep-units 4" "--share 50%" "--keep-units 4 --imatrix-out $T/flat.out.gguf"; do
        mkdir "$T/empty"
        # shellcheck disable=SC2086 # words
        organ-prune -q "$T/flat.gguf" --imatrix "$T/flat.im.gguf" $options -o "$T/empty/c.gguf" > "$T/out" 2> "$T/err"
        got=$?
        case $got in 1 | 3) ok ;; *) bad "$shapes $options: exit $got: $(cat "$T/err")" ;; esac
        one_line "$T/err" && ok || bad "$shapes $options: $(cat "$T/err")"
        rmdir "$T/empty" && ok || bad "$shapes $options: $(ls -A "$T/empty")"
    done
done
mkmodel "$T/flat.gguf" blk.0.ffn_down.weight:F32:8x0
organ-transplant -q "$T/flat.gguf" "$T/flat.gguf" --imatrix "$T/flat.im.gguf" --donor-imatrix "$T/flat.im.gguf" \
    --imatrix-out "$T/flat.out.gguf" -o "$T/c.gguf" --force > "$T/out" 2> "$T/err"
got=$?
[ $got -le 4 ] && ok || bad "a donor of height 0: exit $got"

# ---- organ-prune and the options of organ-assemble ----------------------------------------------------------

# alias "OPTIONS OF ORGAN-ASSEMBLE" "OPTIONS OF ORGAN-PRUNE": they write the same.
alias_of() {
    # shellcheck disable=SC2086 # words
    check "organ-assemble $1" organ-assemble -q "$T/m.gguf" --imatrix "$T/im.gguf" $1 -o "$T/old.gguf" --force
    # shellcheck disable=SC2086
    check "organ-prune $2" organ-prune -q "$T/m.gguf" --imatrix "$T/im.gguf" $2 -o "$T/new.gguf" --force
    check_same "$T/old.gguf" "$T/new.gguf" "$1"
}
alias_of "--keep-experts 0,2" "--experts 0,2"
alias_of "--keep-experts=2 --by=importance" "--keep-experts 2"
alias_of "--keep-experts 2 --by importance --keep-units 4" "--keep-units 4 --by importance --keep-experts 2"
alias_of "--expert-share 50%" "--share 50%"
check_error 2 "--experts 2 keeps the expert of that number" "a number without a ranking" \
    organ-prune -q "$T/m.gguf" --keep-experts 2 -o "$T/never.gguf"
check_error 2 "to keep expert number 2, use organ-prune --experts 2" "a bare number" \
    organ-assemble -q "$T/m.gguf" --keep-experts 2 -o "$T/never.gguf"
check_error 2 "give --keep-experts, --experts, --keep-units or --share" "nothing to remove" \
    organ-prune -q "$T/m.gguf" -o "$T/never.gguf"
check_absent "$T/never.gguf" "refused"
# Every option of organ-assemble does with organ-prune what it does afterwards. An option without a line here fails.
mkmodel "$T/big.gguf" -k llama.block_count=1 -k llama.expert_count=4 -k llama.expert_used_count=2 \
    token_embd.weight:F16:64x1024 blk.0.ffn_gate_inp.weight:F32:64x4 blk.0.ffn_gate_exps.weight:F16:64x32x4 \
    blk.0.ffn_up_exps.weight:F16:64x32x4 blk.0.ffn_down_exps.weight:F32:32x64x4
imatrix "$T/big.im.gguf" blk.0.ffn_down_exps.weight:32:2,4,1,64:10,30,1,20 \
    blk.0.ffn_up_exps.weight:64:1,1,2,1:10,30,5,20
organ-prune -q "$T/big.gguf" --experts 0,2 --imatrix "$T/big.im.gguf" --imatrix-out "$T/cut.im.gguf" \
    -o "$T/cut.gguf" 2> "$T/err" || bad "two experts: $(cat "$T/err")"
echo "a text" > "$T/text"
organ-assemble --list-options | awk -F"$TAB" 'BEGIN {
    n = split("dir model output keep-experts by keep-units expert-share refit imatrix-out text-imatrix list-types " \
        "list-presets threads quiet verbose help version json", own, " ")
    for (i = 1; i <= n; i++) other[own[i]] = 1
}
NR > 1 && !($1 in other) { print $1 }' > "$T/names"
for option in $(cat "$T/names"); do
    more='' side='' with="--$option"
    case $option in
    vocab-from) with="$with $LAB/lab-verse-q4_k_m.gguf" ;;
    names) with="$with gguf" ;;
    dtype) with="$with q8_0" ;;
    fallback) with="--dtype *=q4_k $with q8_0" ;;
    imatrix) with="$with $T/cut.im.gguf" more="--imatrix $T/big.im.gguf" ;;
    set-kv) with="$with general.name=pruned" ;;
    set-kv-file) with="$with general.description=$T/text" ;;
    shards) with="$with 2" ;;
    shard-size) with="$with 64K" ;;
    size) with="$with 120K --types q8_0,keep" ;;
    bpw) with="$with 12 --types q8_0,keep" ;;
    types) with="--bpw 12 $with q8_0,keep" ;;
    sensitivity) with="--bpw 12 --types q8_0,keep $with $T/loss.tsv" ;;
    rules) with="--bpw 12 --types q8_0,keep $with $T/side.tsv" side=1 ;;
    report) with="--dtype q8_0 $with $T/side.tsv" side=1 ;;
    dry-run) side=1 ;;
    strict)
        check_error 1 "an engine would refuse the result" "organ-prune --strict" \
            organ-prune -q "$T/big.gguf" --experts 0,2 --strict -o "$T/never.gguf"
        continue
        ;;
    no-strict) ;;
    pre) with="$with llama-bpe" ;;
    no-verify) ;;
    no-history) continue ;; # see history.sh
    card) continue ;;       # see prune.sh
    partial) ;;
    force) ;;
    *) bad "no test of organ-prune --$option" && continue ;;
    esac
    [ "$option" = sensitivity ] && printf 'tensor\ttype\tloss\nblk.0.ffn_up_exps.weight\tq8_0\t0.5\n' > "$T/loss.tsv"
    mkdir "$T/after" "$T/with"
    # shellcheck disable=SC2086 # words
    check "organ-assemble $with" organ-assemble -q "$T/cut.gguf" $with --force -o "$T/after/x.gguf"
    [ ! -f "$T/side.tsv" ] || mv "$T/side.tsv" "$T/out"
    [ -z "$side" ] || sed "s|$T/after|D|" "$T/out" > "$T/side"
    # shellcheck disable=SC2086
    check "organ-prune $with" organ-prune -q "$T/big.gguf" --experts 0,2 ${more:-$with} --force -o "$T/with/x.gguf"
    [ ! -f "$T/side.tsv" ] || mv "$T/side.tsv" "$T/out"
    [ -z "$side" ] || sed "s|$T/with|D|" "$T/out" > "$T/other"
    [ -z "$side" ] || check_same "$T/side" "$T/other" "the table of --$option"
    for file in "$T"/after/*; do
        [ "$option" = dry-run ] || check_same "$file" "$T/with/${file##*/}" "--$option after and with the removal"
    done
    rm -rf "$T/after" "$T/with"
done
check_error 2 "prune first, then use --names" "names of Hugging Face" \
    organ-prune -q "$T/big.gguf" --experts 0,2 --names hf -o "$T/never.safetensors"
check_absent "$T/never.safetensors" "refused"
finish
