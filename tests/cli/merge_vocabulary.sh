#!/bin/sh
# organ-merge --vocabulary: the matrices of all models get the rows of one vocabulary before they are merged. The
# rows are compared with those that the rules give, computed here from the rows of the models.
. "$(dirname "$0")/lib.sh"

key() { organ-keys "$1" --get "$2"; }
list_of() { key "$1" tokenizer.ggml.tokens | tr '\n' ' '; }
str() { printf '{"key": "tokenizer.ggml.%s", "type": "str", "value": "%s"},\n' "$1" "$2"; }
list() { printf '{"key": "tokenizer.ggml.%s", "type": "arr", "items": "%s", "value": [%s]},\n' "$1" "$2" "$3"; }
id() { printf '{"key": "tokenizer.ggml.%s", "type": "u32", "value": %s},\n' "$1" "$2"; }
# model SEED FILE TOKENS TYPES MERGES EOS [PRE [TENSOR...]]: rows of 4 values, as many as types
model() {
    seed=$1 out=$2 tokens=$3 types=$4 merges=$5 eos=$6 pre=${7:-gpt-2}
    n=$(echo "$types" | tr ',' '\n' | wc -l | tr -d ' ')
    if [ $# -gt 7 ]; then shift 7; else set -- "token_embd.weight:f32:4x$n" "output.weight:f32:4x$n"; fi
    made "$out" "$(str model gpt2; str pre "$pre"; list tokens str "$tokens"; list token_type i32 "$types"
        list merges str "$merges"; id eos_token_id "$eos")" -s "$seed" "$@" blk.0.attn_norm.weight:f32:4 2> "$T/null"
}
# rows MODEL TENSOR: one line per row of four F32 values
rows() {
    data "$1" "$2" | od -A n -v -t f4 | awk '{ for (i = 0; i++ < NF; ) printf "%s%s", $i, ++n % 4 ? " " : "\n" }'
}
# names MODEL: its tokens, one per line, beside the rows of a tensor
table() { key "$1" tokenizer.ggml.tokens > "$T/names"; rows "$1" "$2" | paste "$T/names" -; }
# want TENSOR RESULT EXPRESSION...: the rows of the result are these sums. An expression is a list of
# FILE:TOKEN:WEIGHT, or 0, with one argument per row.
want() {
    tensor=$1 result=$2
    shift 2
    for f in a b c; do table "$T/$f.gguf" "$tensor" | sed "s/^/$f$TAB/"; done > "$T/all"
    rows "$result" "$tensor" > "$T/have"
    for e in "$@"; do echo "$e"; done | awk -v all="$T/all" -v have="$T/have" '
        BEGIN { while ((getline line < all) > 0) { split(line, f, "\t"); row[f[1] ":" f[2]] = f[3] } }
        { for (i = 0; i++ < 4; ) sum[i] = 0
          for (k = 0; k++ < NF; ) { if ($k == "0") continue
              split($k, p, ":"); if (!((p[1] ":" p[2]) in row)) { print "no row " $k; bad = 1 }
              split(row[p[1] ":" p[2]], v, " "); for (i = 0; i++ < 4; ) sum[i] += v[i] * p[3] }
          if ((getline line < have) <= 0) { print "row " NR " is missing"; bad = 1 }
          split(line, v, " ")
          for (i = 0; i++ < 4; ) { d = v[i] - sum[i]; if (d < 0) d = -d; s = sum[i] < 0 ? -sum[i] : sum[i]
              if (d > 0.00001 * (1 + s)) { print "row " NR " (" $0 "): " v[i] ", " sum[i] " wanted"; bad = 1 } } }
        END { if ((getline line < have) > 0) { print "more rows"; bad = 1 } exit bad }' > "$T/why" && ok ||
        bad "$tensor of $result: $(head -n 3 "$T/why")"
}
merge() { organ-merge --no-hash --force "$@"; }

model 1 "$T/a.gguf" '"a", "b", "c", "ab", "<|end|>", "[PAD5]"' "1, 1, 1, 1, 3, 5" '"a b"' 4
bwords='"<|end|>", "c", "e", "b", "ce", "<|x|>", "a", "bc"'
model 2 "$T/b.gguf" "$bwords" "3, 1, 1, 1, 1, 3, 1, 1" '"c e", "b c", "a b"' 0
model 3 "$T/c.gguf" '"a", "e", "c", "b", "<|x|>", "<u>", "ce"' "1, 1, 1, 1, 3, 4, 1" '"c e"' 4
A=$T/a.gguf B=$T/b.gguf C=$T/c.gguf
two() { merge --method linear "$A,weight=0.75" "$B,weight=0.25" "$@"; }

# ---- that of the base -------------------------------------------
check_error 1 "its vocabulary (8 tokens) differs" "without the option" two -o "$T/x.gguf"
grep -q -e "--vocabulary" "$T/err" || bad "the advice names the option: $(cat "$T/err")"
check "base" two --vocabulary base -o "$T/m.gguf"
check_text "$(list_of "$T/m.gguf")" "a b c ab <|end|> [PAD5] " "the tokens of the first"
for t in token_embd.weight output.weight; do
    want $t "$T/m.gguf" "a:a:0.75 b:a:0.25" "a:b:0.75 b:b:0.25" "a:c:0.75 b:c:0.25" a:ab:1 \
        "a:<|end|>:0.75 b:<|end|>:0.25" "a:[PAD5]:1"
done
grep -q "b.gguf: rows of the vocabulary that are not its own: 2 of .*a.gguf" "$T/err" || bad "notes: $(cat "$T/err")"
grep -q "b.gguf: 4 of its tokens are not in the vocabulary, .* for example 'e'" "$T/err" ||
    bad "lost: $(cat "$T/err")"
check_text "$(key "$T/m.gguf" organ.merge.vocabulary)" base "the choice is stored"
check_text "$(key "$T/m.gguf" tokenizer.ggml.eos_token_id)" 4 "ids are those of the first"
rows "$A" blk.0.attn_norm.weight > "$T/x"
rows "$B" blk.0.attn_norm.weight | paste -d ' ' "$T/x" - > "$T/y"
rows "$T/m.gguf" blk.0.attn_norm.weight | paste -d ' ' "$T/y" - |
    awk '{ for (i = 1; i < 5; i++) { d = $i * 0.75 + $(i + 4) * 0.25 - $(i + 8); if (d * d > 1e-9) exit 1 } }' ||
    bad "other tensors are merged as before"

# ---- that of another model --------------------------------------
check "that of b" two --vocabulary "$B" -o "$T/m.gguf"
check_text "$(list_of "$T/m.gguf")" "<|end|> c e b ce <|x|> a bc " "the tokens of b"
check_text "$(key "$T/m.gguf" tokenizer.ggml.eos_token_id) $(key "$T/m.gguf" tokenizer.ggml.merges | tr '\n' '.')" \
    "0 c e.b c.a b." "its ids and merges"
want output.weight "$T/m.gguf" "a:<|end|>:0.75 b:<|end|>:0.25" "a:c:0.75 b:c:0.25" b:e:1 "a:b:0.75 b:b:0.25" b:ce:1 \
    "b:<|x|>:1" "a:a:0.75 b:a:0.25" b:bc:1
check "that of a model that is not merged" two --vocabulary "$C" -o "$T/m.gguf"
want output.weight "$T/m.gguf" "a:a:0.75 b:a:0.25" b:e:1 "a:c:0.75 b:c:0.25" "a:b:0.75 b:b:0.25" "b:<|x|>:1" 0 b:ce:1
grep -q "1 zero, for example '<u>'" "$T/err" || bad "a row that no model has: $(cat "$T/err")"

# ---- the union --------------------------------------------------
three() { merge --method linear "$A,weight=0.5" "$B,weight=0.25" "$C,weight=0.25" "$@"; }
check "union" three --vocabulary union -o "$T/m.gguf"
check_text "$(list_of "$T/m.gguf")" "a b c ab <|end|> [PAD5] e ce bc <|x|> <u> " "words first, then special tokens"
check_text "$(key "$T/m.gguf" tokenizer.ggml.token_type | tr '\n' ' ')" "1 1 1 1 3 5 1 1 1 3 4 " "their types"
check_text "$(key "$T/m.gguf" tokenizer.ggml.merges | tr '\n' '.')" "a b.c e.b c." "each word has its merge once"
# e is in b and c, so a gets their mean; ab is in a only, and <|end|> in a and b.
union() {
    want "$1" "$2" "a:a:0.5 b:a:0.25 c:a:0.25" "a:b:0.5 b:b:0.25 c:b:0.25" "a:c:0.5 b:c:0.25 c:c:0.25" a:ab:1 \
        "a:<|end|>:0.625 b:<|end|>:0.375" "a:[PAD5]:1" "b:e:0.5 c:e:0.5" "b:ce:0.5 c:ce:0.5" b:bc:1 \
        "b:<|x|>:0.5 c:<|x|>:0.5" "c:<u>:1"
}
union token_embd.weight "$T/m.gguf"
union output.weight "$T/m.gguf"
grep -q "a.gguf: rows .* not its own: 1 of .*b.gguf, 1 of .*c.gguf, 3 means of several models" "$T/err" ||
    bad "notes of a union: $(cat "$T/err")"
cp "$T/m.gguf" "$T/one.gguf"
check "on one thread" three --vocabulary union -q -j 1 -o "$T/m.gguf"
check_same "$T/m.gguf" "$T/one.gguf" "the same bytes on one thread"
check "to a pipe" three --vocabulary union -q -o -
check_same "$T/out" "$T/one.gguf" "the same bytes in a pipe"
check_text "$(organ-check -q "$T/m.gguf" | cells rule | grep -c vocabulary)" 0 "organ-check on a union"
organ-extract -q "$B" -o "$T/bdir"
check "a model in a folder" merge --method linear "$A,weight=0.5" "$T/bdir,weight=0.25" "$C,weight=0.25" -q \
    --vocabulary union -o "$T/m.gguf"
union output.weight "$T/m.gguf"

# With a base, its rows are preferred to a mean: e of c, the base, for a.
check "with a base" merge --method task,lambda=1 --base "$C" "$A,weight=0.5" "$B,weight=0.25" --vocabulary union \
    -o "$T/m.gguf"
check_text "$(list_of "$T/m.gguf")" "a e c b <|x|> <u> ce ab bc <|end|> " "the tokens of the base come first"
want token_embd.weight "$T/m.gguf" "c:a:0.25 a:a:0.5 b:a:0.25" "c:e:0.75 b:e:0.25" "c:c:0.25 a:c:0.5 b:c:0.25" \
    "c:b:0.25 a:b:0.5 b:b:0.25" "c:<|x|>:0.75 b:<|x|>:0.25" "c:<u>:1" "c:ce:0.75 b:ce:0.25" a:ab:1 b:bc:1 \
    "a:<|end|>:0.625 b:<|end|>:0.375"
# A base that gives only keys counts, too, and may be one of the models.
check "a base of keys" merge --method linear --base "$C" "$C,weight=0.5" "$B,weight=0.5" --vocabulary base \
    -o "$T/m.gguf"
want token_embd.weight "$T/m.gguf" "c:a:0.5 b:a:0.5" "c:e:0.5 b:e:0.5" "c:c:0.5 b:c:0.5" "c:b:0.5 b:b:0.5" \
    "c:<|x|>:0.5 b:<|x|>:0.5" "c:<u>:1" "c:ce:0.5 b:ce:0.5"

# ---- the same vocabulary changes nothing ------------------------------
V=$LAB/lab-verse-q4_k_m.gguf W=$LAB/lab-code-q4_k_m.gguf
check "without a choice" merge -q --method linear "$V" "$W" -o "$T/x.gguf"
check "union of the same" merge --method linear "$V" "$W" --vocabulary union -o "$T/y.gguf"
check_text "$(differing "$T/x.gguf" "$T/y.gguf")" "" "the same tensors"
grep -q "vocabulary" "$T/err" && bad "a note about nothing: $(cat "$T/err")"

# ---- trained models: trimmed in two ways, the union is the whole again ------------------------------
# Each token is in one of the two or in both, so a merge of the trims gives the rows of the whole models.
organ-vocab "$V" --list > "$T/list"
{ head -n 700 "$T/list"; tail -n 200 "$T/list"; } > "$T/keep"
organ-vocab trim "$V" --keep "$T/keep" -q -o "$T/v.gguf" || bad trim
sed -n 400,1025p "$T/list" > "$T/keep"
organ-vocab trim "$W" --keep "$T/keep" -q -o "$T/w.gguf" || bad trim
check "trained models" merge --method slerp,t=0 "$T/v.gguf" "$T/w.gguf" --vocabulary "$V" -o "$T/m.gguf"
# With t = 0 the result is the first model, with the second's rows of the words that it lacks. Those keep their bytes,
# because both have the same type.
key "$T/v.gguf" tokenizer.ggml.tokens > "$T/first"
key "$V" tokenizer.ggml.tokens > "$T/words"
data "$V" output.weight > "$T/v.rows"
data "$W" output.weight > "$T/w.rows"
data "$T/m.gguf" output.weight > "$T/m.rows"
size=$(($(wc -c < "$T/v.rows") / 1024)) i=0
awk 'NR == FNR { has[$0] = 1; next } { print ($0 in has) ? "v" : "w" }' "$T/first" "$T/words" > "$T/from"
check_text "$(sort -u "$T/from" | tr -d '\n')" vw "rows of both"
for i in 3 100 300 699 700 701 705 750 800 820 823 824 900 1023; do
    f=$(sed -n $((i + 1))p "$T/from")
    tail -c +$((i * size + 1)) "$T/$f.rows" | head -c "$size" > "$T/want"
    tail -c +$((i * size + 1)) "$T/m.rows" | head -c "$size" > "$T/have"
    check_same "$T/have" "$T/want" "row $i is that of $f"
done
# Letters that only the second has are not the bytes of the first.
organ-vocab "$V" --list | head -n 800 > "$T/keep"
organ-vocab trim "$V" --keep "$T/keep" -q -o "$T/f.gguf" || bad trim
organ-vocab "$V" --list | tail -n 400 > "$T/keep"
organ-vocab trim "$V" --keep "$T/keep" -q -o "$T/l.gguf" || bad trim
check "letters and bytes" merge --method slerp,t=0 "$T/f.gguf" "$T/l.gguf" --vocabulary union -o "$T/m.gguf"
check_text "$(key "$T/m.gguf" tokenizer.ggml.tokens | sort | cksum)" "$(sort "$T/words" | cksum)" "no letter is lost"
data "$T/m.gguf" output.weight > "$T/m.rows"
n=$(($(key "$T/m.gguf" tokenizer.ggml.tokens | grep -n '^#$' | cut -d : -f 1) - 1))
i=$(($(grep -n '^#$' "$T/words" | cut -d : -f 1) - 1))
tail -c +$((i * size + 1)) "$T/v.rows" | head -c "$size" > "$T/want"
tail -c +$((n * size + 1)) "$T/m.rows" | head -c "$size" > "$T/have"
check_same "$T/have" "$T/want" "and it keeps its row"
check "their union" merge --method linear "$T/v.gguf" "$T/w.gguf" --vocabulary union -o "$T/m.gguf"
check_text "$(key "$T/m.gguf" tokenizer.ggml.tokens | sort | cksum)" "$(sort "$T/words" | cksum)" "all tokens once"
# Scores of added words are below all others, in their order.
n=$(wc -l < "$T/first")
key "$T/m.gguf" tokenizer.ggml.scores > "$T/scores"
awk -v n="$n" 'NR <= n { if ($1 < low && $1 > -900) low = $1; next } $1 >= low { bad++ } $1 > before { bad++ }
    { before = $1 } END { exit bad > 0 || NR != 1024 }' "$T/scores" || bad "scores of added words"

# ---- types, tied embeddings, shards ------------------------------
wide() { # SEED FILE TOKENS TYPES TENSOR...
    seed=$1 f=$2 t=$3 y=$4
    shift 4
    model "$seed" "$f" "$t" "$y" '"a b"' 0 gpt-2 "$@"
}
wide 4 "$T/wa.gguf" '"a", "b", "c"' "1, 1, 1" token_embd.weight:f32:256x3 output.weight:f32:256x3
wide 5 "$T/wb.gguf" '"d", "a"' "1, 1" token_embd.weight:f32:256x2
organ-assemble -q "$T/wa.gguf" --dtype '*.weight=q4_k' -o "$T/qa.gguf" 2> "$T/null"
organ-assemble -q "$T/wb.gguf" --dtype '*.weight=q4_k' -o "$T/qb.gguf" 2> "$T/null"
check "one quantized model with other words" merge --method passthrough "$T/qa.gguf" --vocabulary "$T/qb.gguf" \
    -o "$T/m.gguf"
data "$T/qa.gguf" token_embd.weight | head -c 144 > "$T/want"
data "$T/m.gguf" token_embd.weight | tail -c 144 > "$T/have"
check_same "$T/have" "$T/want" "a row of q4_k keeps its bytes"
data "$T/m.gguf" token_embd.weight | head -c 144 | tr -d '\000' > "$T/have"
check_text "$(($(wc -c < "$T/have")))" 0 "a token of no merged model has the row 0"
# The second has no output of its own: its embeddings count. d is only there.
check "tied and untied" merge --method linear,normalize=1 "$T/qa.gguf" "$T/qb.gguf" --vocabulary union -o "$T/m.gguf"
check_text "$(list_of "$T/m.gguf")" "a b c d " "the union of both"
data "$T/qb.gguf" token_embd.weight | head -c 144 > "$T/want"
check "the other way" merge --method passthrough "$T/qb.gguf" --vocabulary "$T/qa.gguf" -q -o "$T/x.gguf"
data "$T/m.gguf" output.weight | tail -c 144 > "$T/have"
check_same "$T/have" "$T/want" "d has the row of the tied model"
check "a head that only the second has" merge --method linear "$T/qb.gguf" "$T/qa.gguf" --vocabulary union \
    -o "$T/m.gguf"
check_text "$(list_of "$T/m.gguf") $(organ-extract --list "$T/m.gguf" | grep -c '^output.weight')" "d a b c  1" \
    "the result has a head"
check "shards" merge --method linear "$T/qa.gguf" "$T/wb.gguf" --vocabulary union --shards 2 -q -o "$T/s.gguf"
check "other types" merge --method linear "$T/qa.gguf" "$T/wb.gguf" --vocabulary union -q -o "$T/m.gguf"
check_text "$(differing "$T/m.gguf" "$T/s-00001-of-00002.gguf")" "" "the same in shards"
check "aligned" merge --method linear --align "$T/v.gguf" "$T/w.gguf" --vocabulary base -q -o "$T/m.gguf"
check_text "$(key "$T/m.gguf" tokenizer.ggml.tokens | wc -l)" "$(key "$T/v.gguf" tokenizer.ggml.tokens | wc -l)" \
    "aligned models with one vocabulary"

# ---- between kinds of tokenizers, tokens match by their bytes ------------------------------
sp() { # SEED FILE TOKENS TYPES
    n=$(echo "$4" | tr ',' '\n' | wc -l | tr -d ' ')
    made "$2" "$(str model llama; list tokens str "$3"; list token_type i32 "$4"
        list scores f32 "$(awk -v n="$n" 'BEGIN { while (i++ < n) printf "%s-%d", (i > 1 ? ", " : ""), i }')")" \
        -s "$1" "token_embd.weight:f32:4x$n" "output.weight:f32:4x$n" blk.0.attn_norm.weight:f32:4 2> "$T/null"
}
model 6 "$T/a.gguf" '"a", "Ġthe", "<|end|>"' "1, 1, 3" '"a b"' 2
sp 7 "$T/b.gguf" '"<unk>", "▁the", "a", "<0x41>", "A", "b"' "2, 1, 1, 6, 1, 1"
check "SentencePiece words for BPE" merge --method linear "$T/b.gguf" "$T/a.gguf" --vocabulary base -o "$T/m.gguf"
want token_embd.weight "$T/m.gguf" "b:<unk>:1" "b:▁the:0.5 a:Ġthe:0.5" "b:a:0.5 a:a:0.5" "b:<0x41>:1" b:A:1 b:b:1
check_error 1 "its tokenizer is 'llama', but that of" "no union of kinds" \
    merge --method linear "$T/a.gguf" "$T/b.gguf" --vocabulary union -o "$T/x.gguf"
model 1 "$T/pa.gguf" '"a", "b"' "1, 1" '"a b"' 0
model 2 "$T/pb.gguf" '"b", "c"' "1, 1" '"b c"' 0 qwen2
check "other pre-tokenizers" merge --method linear "$T/pa.gguf" "$T/pb.gguf" --vocabulary union -o "$T/m.gguf"
grep -q "its pre-tokenizer is 'qwen2', but texts will be divided by 'gpt-2'" "$T/err" || bad "pre: $(cat "$T/err")"

# ---- configurations ---------------------------------------------
model 1 "$T/a.gguf" '"a", "b", "c", "ab", "<|end|>", "[PAD5]"' "1, 1, 1, 1, 3, 5" '"a b"' 4
model 2 "$T/b.gguf" "$bwords" "3, 1, 1, 1, 1, 3, 1, 1" '"c e", "b c", "a b"' 0
# config TOKENIZER: the two models
config() {
    echo "{\"merge_method\": \"linear\", \"models\": [{\"model\": \"$A\", \"parameters\": {\"weight\": 0.75}},
        {\"model\": \"$B\", \"parameters\": {\"weight\": 0.25}}], $1}" > "$T/config.json"
    merge --config "$T/config.json" -o "$T/m.gguf"
}
for one in '"tokenizer_source": "union"' '"tokenizer": {"source": "union"}' '"tokenizer": {}'; do
    check "$one" config "$one"
    check_text "$(list_of "$T/m.gguf")" "a b c ab <|end|> [PAD5] e ce bc <|x|> " "tokens of $one"
done
check "a path" config "\"tokenizer_source\": \"$B\""
check_text "$(list_of "$T/m.gguf")" "<|end|> c e b ce <|x|> a bc " "tokens of a path"
check "rows of tokens" config "\"tokenizer\": {\"source\": \"base\", \"pad_to_multiple_of\": 5, \"tokens\": {
    \"a\": {\"source\": \"$B\", \"force\": true}, \"b\": {\"source\": \"$B\"},
    \"<new>\": {\"source\": {\"kind\": \"model_token\", \"model\": \"$B\", \"token\": \"<|x|>\"}},
    \"ab\": {\"source\": {\"kind\": \"model_token\", \"model\": \"$B\", \"token_id\": 7}},
    \"<z>\": {\"source\": {\"kind\": \"zero\"}}}}"
check_text "$(list_of "$T/m.gguf")" "a b c ab <|end|> [PAD5] <new> <z> [PAD8] [PAD9] " "tokens that are added"
check_text "$(key "$T/m.gguf" tokenizer.ggml.token_type | tr '\n' ' ')" "1 1 1 1 3 5 4 4 5 5 " "their types"
want token_embd.weight "$T/m.gguf" b:a:1 "a:b:0.75 b:b:0.25" "a:c:0.75 b:c:0.25" "a:ab:0.75 b:bc:0.25" \
    "a:<|end|>:0.75 b:<|end|>:0.25" "a:[PAD5]:1" "b:<|x|>:1" 0 0 0
check "a choice on the command line" merge -q --config "$T/config.json" --vocabulary union -o "$T/m.gguf"

# An id in another key than those of the tokenizer follows its token.
echo '{"key": "llama.decoder_start_token_id", "type": "u32", "value": 1},' > "$T/start"
made "$T/s.gguf" "$(str model gpt2; str pre gpt-2; list tokens str '"a", "b"'; list token_type i32 "1, 1"
    list merges str '"a b"'; cat "$T/start")" token_embd.weight:f32:4x2 output.weight:f32:4x2 \
    blk.0.attn_norm.weight:f32:4 2> "$T/null"
check "an id of the architecture" merge --method linear "$T/s.gguf" "$B" --vocabulary "$B" -q -o "$T/m.gguf"
check_text "$(key "$T/m.gguf" llama.decoder_start_token_id)" 3 "it is that of the same token"
model 8 "$T/small.gguf" '"a", "z"' "1, 1" '"a z"' 1
check_error 1 "llama.decoder_start_token_id has token 1, which the new vocabulary lacks" "an id without a token" \
    merge --method linear "$T/s.gguf" "$B" --vocabulary "$T/small.gguf" -q -o "$T/x.gguf"
# Padding has texts that no token has.
model 8 "$T/pads.gguf" '"a", "[PAD3]"' "1, 1" '"a z"' 1
check "padding" config "\"tokenizer\": {\"source\": \"$T/pads.gguf\", \"pad_to_multiple_of\": 5}"
check_text "$(list_of "$T/m.gguf")" "a [PAD3] [PAD2] [PAD4] [PAD5] " "its texts"

# ---- what cannot be ---------------------------------------------
no() { check_error "$@"; check_absent "$T/no.gguf" "$3: nothing is written"; }
no 2 "give --vocabulary or --embed-from, not both" "with the embeddings of the base" \
    two --vocabulary base --embed-from base -o "$T/no.gguf"
no 4 "cannot open" "no such model" two --vocabulary "$T/nothing.gguf" -o "$T/no.gguf"
model 9 "$T/bad.gguf" '"a", "b"' "1, 1" '"a b"' 0 gpt-2 token_embd.weight:f32:4x3
no 3 "it has 3 rows, but the vocabulary has 2 tokens" "more rows than tokens" \
    merge --method linear "$A" "$T/bad.gguf" --vocabulary base -o "$T/no.gguf"
model 9 "$T/bad.gguf" '"a", "b"' "1, 1" '"a b"' 0 gpt-2 token_embd.weight:f32:5x2
no 1 "its rows have 5 values, but those of" "rows of another width" \
    merge --method linear "$A" "$T/bad.gguf" --vocabulary base -o "$T/no.gguf"
organ-keys -q "$A" --delete tokenizer.ggml.tokens --force -o "$T/bad.gguf" 2> "$T/null"
no 1 "it has no vocabulary" "a model without a vocabulary" \
    merge --method linear "$A" "$T/bad.gguf" --vocabulary base -o "$T/no.gguf"
slices() { # MODEL MODEL
    echo "{\"merge_method\": \"passthrough\", \"tokenizer_source\": \"union\", \"slices\": [
        {\"sources\": [{\"model\": \"$1\", \"layer_range\": [0, 2]}]},
        {\"sources\": [{\"model\": \"$2\", \"layer_range\": [1, 3]}]}]}" > "$T/config.json"
}
slices "$V" "$W"
check "slices of models with the same vocabulary" merge --config "$T/config.json" -q -o "$T/x.gguf"
slices "$V" "$T/v.gguf"
no 3 "slices keep the vocabulary of the first model" "slices and a union" \
    merge --config "$T/config.json" -o "$T/no.gguf"
# refused STATUS TEXT TOKENIZER
refused() {
    check_exit "$1" "refused: $3" config "$3"
    grep -q -e "$2" "$T/err" || bad "$3: $(cat "$T/err")"
}
refused 1 "it has no token for the row of 'a'" "\"tokenizer\": {\"tokens\": {\"a\": {\"force\": true, \"source\":
    {\"kind\": \"model_token\", \"model\": \"$B\", \"token\": \"zz\"}}}}"
refused 1 "it has no token for the row of 'a'" "\"tokenizer\": {\"tokens\": {\"a\": {\"force\": true, \"source\":
    {\"kind\": \"model_token\", \"model\": \"$B\", \"token_id\": 8}}}}"
refused 3 "not one of the models" "\"tokenizer\": {\"tokens\": {\"a\": {\"source\": \"$C\"}}}"
refused 3 "needs a source" '"tokenizer": {"tokens": {"a": {}}}'
refused 3 "must have token or token_id" "\"tokenizer\": {\"tokens\": {\"a\": {\"source\":
    {\"kind\": \"model_token\", \"model\": \"$B\"}}}}"
refused 3 "has 'size' in tokenizer" '"tokenizer": {"size": 3}'
refused 3 "pad_to_multiple_of is larger than 1048576" '"tokenizer": {"pad_to_multiple_of": 1048577}'
refused 3 "but not both" '"tokenizer": {}, "tokenizer_source": "base"'
refused 3 "tokens of the configuration must be an object" '"tokenizer": {"tokens": []}'

finish
