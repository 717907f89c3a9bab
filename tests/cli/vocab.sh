#!/bin/sh
# organ-vocab: what it prints, and models with fewer, other and more tokens. Rows that stay must keep their
# bytes, and every list and id must follow.
. "$(dirname "$0")/lib.sh"

m=$LAB/lab-verse-q4_k_m.gguf
key() { organ-keys "$1" --get "$2"; }
texts() { key "$1" tokenizer.ggml.tokens; }
# row MODEL TENSOR BYTES ROW...: these rows of a tensor, of so many bytes each.
row() {
    data "$1" "$2" > "$T/data"
    size=$3
    shift 3
    for r in "$@"; do tail -c +$((r * size + 1)) "$T/data" | head -c "$size"; done
}
list_of() { texts "$1" | tr '\n' ' '; }
types_of() { key "$1" tokenizer.ggml.token_type | tr '\n' ' '; }

# ---- looking -----------------------------------------------------------------------------------------
check "a screen" organ-vocab "$m"
grep -q "^tokens${TAB}-${TAB}1024" "$T/out" || bad "the number of tokens"
grep -q "^special${TAB}bos_token_id${TAB}1${TAB}-${TAB}<s>" "$T/out" || bad "a special token"
grep -q "^type${TAB}byte${TAB}256" "$T/out" || bad "the bytes"
grep -q "^rows${TAB}output.weight${TAB}1024" "$T/out" || bad "the rows of a matrix"
check "a screen as JSON" organ-vocab "$m" --json
check_text "$(grep -c '^{"item": "special"' "$T/out" | tr -d ' ')" 3 "special tokens in JSON"
check "a list" organ-vocab "$m" --list
check_text "$(sed -n 281p "$T/out")" "279${TAB}▁the${TAB}normal${TAB}-20${TAB}-" "a row of the list"
check_text "$(($(wc -l < "$T/out")))" 1025 "rows of the list"
check "a search" organ-vocab "$m" --find "▁thee"
check_text "$(cells id "$T/out" | sed 1d | tr '\n' ' ')" "631 " "what it finds"
check "a search with a space" organ-vocab "$m" --find " thee"
check_text "$(cells id "$T/out" | sed 1d | tr '\n' ' ')" "631 " "U+2581 is a space"
check_error 1 "no token contains 'zzz'" "nothing found" organ-vocab "$m" --find zzz
check "with itself" organ-vocab "$m" "$LAB/lab-code-q4_k_m.gguf"
grep -q "can draft for the second" "$T/out" || bad "the same vocabulary can draft"

# ---- a small model with BPE --------------------------------------------------------------------------
str() { printf '{"key": "tokenizer.ggml.%s", "type": "str", "value": "%s"},\n' "$1" "$2"; }
list() { printf '{"key": "tokenizer.ggml.%s", "type": "arr", "items": "%s", "value": [%s]},\n' "$1" "$2" "$3"; }
id() { printf '{"key": "tokenizer.ggml.%s", "type": "u32", "value": %s},\n' "$1" "$2"; }
# model FILE TOKENS TYPES MERGES EOS ROWS [TYPE]
model() {
    made "$1" "$(str model gpt2; str pre gpt-2; list tokens str "$2"; list token_type i32 "$3"
        list merges str "$4"; id eos_token_id "$5"; list suppress_tokens i32 "$5, 0")" \
        "token_embd.weight:${7:-f32}:256x$6" "output.weight:${7:-f32}:256x$6" output.bias:f32:"$6" \
        blk.0.attn_norm.weight:f32:256
}
eleven='"z", "a", "b", "c", "x", "y", "ab", "abc", "xy", "<|end|>", "[PAD10]"'
model "$T/b.gguf" "$eleven" "1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 5" '"a b", "ab c", "x y", "c x"' 9 11
R=1024

# Of two tokens with the same text the first is what a merge makes, also if the second follows the token of the
# merge before.
model "$T/twice.gguf" "$(echo "$eleven" | sed 's/"<|end|>"/"ab"/')" "1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 5" \
    '"x y", "a b", "ab c"' 10 11
check "a list with two equal tokens" organ-vocab "$T/twice.gguf" --list
check_text "$(awk -F "$TAB" '$5 ~ /[0-9]/ { printf "%s:%s ", $1, $5 }' "$T/out")" "6:1 7:2 8:0 " \
    "ranks of equal tokens"

# ---- trim --------------------------------------------------------------------------------------------
# abc needs ab; the letters are bytes; [PAD10] and xy go.
echo abc > "$T/keep"
check "trim" organ-vocab trim "$T/b.gguf" --keep "$T/keep" -o "$T/t.gguf"
check_text "$(list_of "$T/t.gguf")" "z a b c x y ab abc <|end|> " "tokens that stay"
check_text "$(types_of "$T/t.gguf")" "1 1 1 1 1 1 1 1 3 " "their types"
check_text "$(key "$T/t.gguf" tokenizer.ggml.merges | tr '\n' '.')" "a b.ab c." "merges that stay"
check_text "$(key "$T/t.gguf" tokenizer.ggml.eos_token_id)" 8 "an id in a key"
check_text "$(key "$T/t.gguf" tokenizer.ggml.suppress_tokens | tr '\n' ' ')" "8 0 " "ids in a list"
for t in token_embd.weight output.weight; do
    row "$T/b.gguf" $t $R 0 1 2 3 4 5 6 7 9 > "$T/want"
    data "$T/t.gguf" $t > "$T/have"
    check_same "$T/have" "$T/want" "rows of $t"
done
row "$T/b.gguf" output.bias 4 0 1 2 3 4 5 6 7 9 > "$T/want"
data "$T/t.gguf" output.bias > "$T/have"
check_same "$T/have" "$T/want" "values of output.bias"
data "$T/b.gguf" blk.0.attn_norm.weight > "$T/want"
data "$T/t.gguf" blk.0.attn_norm.weight > "$T/have"
check_same "$T/have" "$T/want" "other tensors"
said="9 of 11 tokens stay: 1 named, 7 special or bytes, 1 that others are made of, 0 more; 2 of 4 merges"
grep -q "$said" "$T/err" || bad "the note of a trim: $(cat "$T/err")"
organ-check -q "$T/t.gguf" | grep -q "vocabulary" && bad "organ-check on a trimmed model"
printf 'id\tcount\n8\t3\n7\t1\n' > "$T/counts"
check "counts" organ-vocab trim "$T/b.gguf" --used "$T/counts" --least 2 --force -q -o "$T/t.gguf"
check_text "$(list_of "$T/t.gguf")" "z a b c x y xy <|end|> " "tokens that are used often enough"
check "a multiple" organ-vocab trim "$T/b.gguf" --keep "$T/keep" --multiple 5 --force -q -o "$T/t.gguf"
check_text "$(list_of "$T/t.gguf")" "z a b c x y ab abc xy <|end|> " "one more token for a multiple"
organ-assemble "$T/b.gguf" --dtype 'token_embd.weight=q4_k,output.weight=q6_k' -q -o "$T/bq.gguf"
check "quantized rows" organ-vocab trim "$T/bq.gguf" --keep "$T/keep" --force -q -o "$T/t.gguf"
row "$T/bq.gguf" token_embd.weight 144 0 1 2 3 4 5 6 7 9 > "$T/want"
data "$T/t.gguf" token_embd.weight > "$T/have"
check_same "$T/have" "$T/want" "rows of q4_k keep their bytes"
check "on one thread, to a pipe" organ-vocab trim "$T/bq.gguf" --keep "$T/keep" -j 1 -q -o -
check_same "$T/out" "$T/t.gguf" "the same bytes"
check "everything stays" sh -c "organ-vocab --list $T/b.gguf > $T/all; organ-vocab trim $T/b.gguf --keep $T/all -q -o \
$T/same.gguf"
check_text "$(differing "$T/b.gguf" "$T/same.gguf")" "" "a trim that keeps everything"
# SentencePiece: what a token is made of follows from the scores.
echo '▁their' > "$T/keep"
check "trim of a SentencePiece vocabulary" organ-vocab trim "$m" --keep "$T/keep" -q -o "$T/sp.gguf"
texts "$T/sp.gguf" | sed 1,259d | tr '\n' ' ' > "$T/have"
for part in ▁ t h e i r ▁t he ▁their; do
    grep -q -e "$part " "$T/have" || bad "$part is missing: $(cat "$T/have")"
done
[ "$(wc -w < "$T/have")" -lt 20 ] || bad "too many tokens stay"
check_text "$(key "$T/sp.gguf" tokenizer.ggml.scores | wc -l | tr -d ' ')" \
    "$(texts "$T/sp.gguf" | wc -l | tr -d ' ')" "as many scores as tokens"
check_text "$(key "$T/sp.gguf" llama.vocab_size 2> "$T/null" || echo none)" \
    "$(if organ-keys "$m" --get llama.vocab_size > "$T/null" 2>&1; then texts "$T/sp.gguf" | wc -l | tr -d ' '
    else echo none; fi)" "llama.vocab_size"
echo abc > "$T/keep"
organ-keys -q "$T/b.gguf" --set 'tokenizer.huggingface.json=str:{}' -o "$T/copy.gguf"
check "trim with a copy of the tokenizer" organ-vocab trim "$T/copy.gguf" --keep "$T/keep" --force -o "$T/t.gguf"
check_text "$(organ-keys "$T/t.gguf" | grep -c huggingface)" 0 "a copy of the old tokens does not stay"
grep -q "tokenizer.huggingface.json is left out" "$T/err" || bad "a note about the copy: $(cat "$T/err")"
# A draft head: the rows of its output are those of the tokens that d2t names, which are 8, 2, 9 and 7 here.
head_model() { # FILE NUMBERS: as bytes for printf
    made "$T/head" "$(str model gpt2; str pre gpt-2; list tokens str "$eleven"
        list token_type i32 "1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 5"; list merges str '"a b", "ab c", "x y", "c x"'
        id eos_token_id 9)" token_embd.weight:f32:256x11 output.weight:f32:256x4 t2d:i8:11 d2t:i64:4 2> "$T/null"
    head -c $(($(wc -c < "$T/head") - 32)) "$T/head" > "$1"
    for n in $2; do printf '%b\000\000\000\000\000\000\000' "$n"; done >> "$1"
}
numbers() { data "$1" d2t | od -A n -v -t u1 | awk '{ for (i = 0; i++ < NF; ) if (n++ % 8 == 0) printf "%s ", $i }'; }
head_model "$T/h.gguf" '\0010 \0002 \0011 \0007'
check_text "$(numbers "$T/h.gguf")" "8 2 9 7 " "the tokens of a draft head"
echo abc > "$T/keep"
check "trim a draft head" organ-vocab trim "$T/h.gguf" --keep "$T/keep" -o "$T/t.gguf" --force
check_text "$(numbers "$T/t.gguf")" "2 8 7 " "d2t has the new ids of the tokens that stay"
row "$T/h.gguf" output.weight $R 1 2 3 > "$T/want"
data "$T/t.gguf" output.weight > "$T/have"
check_same "$T/have" "$T/want" "the rows of a draft head follow d2t"
row "$T/h.gguf" token_embd.weight $R 0 1 2 3 4 5 6 7 9 > "$T/want"
data "$T/t.gguf" token_embd.weight > "$T/have"
check_same "$T/have" "$T/want" "its embeddings have a row per token"
grep -q "3 of 4 rows of the draft head stay" "$T/err" || bad "the note of a draft head: $(cat "$T/err")"
head_model "$T/h2.gguf" '\0010 \0012 \0010 \0012'
check_error 1 "none of its tokens is left" "a draft head without tokens" \
    organ-vocab trim "$T/h2.gguf" --keep "$T/keep" -o "$T/x.gguf"
head_model "$T/h2.gguf" '\0010 \0013 \0010 \0012'
check_error 3 "number 1 is 11, but the vocabulary has 11 tokens" "a number beyond the last token" \
    organ-vocab trim "$T/h2.gguf" --keep "$T/keep" -o "$T/x.gguf"
# Numbers of experts per token move with their tokens; an order of all tokens cannot.
made "$T/tid.gguf" "$(str model gpt2; str pre gpt-2; list tokens str "$eleven"
    list token_type i32 "1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 5")" token_embd.weight:f32:256x11 \
    blk.0.ffn_gate_tid2eid.weight:i32:3x11 2> "$T/null"
echo c > "$T/keep"
check "trim with numbers of experts" organ-vocab trim "$T/tid.gguf" --keep "$T/keep" -q -o "$T/t.gguf" --force
row "$T/tid.gguf" blk.0.ffn_gate_tid2eid.weight 12 0 1 2 3 4 5 9 > "$T/want"
data "$T/t.gguf" blk.0.ffn_gate_tid2eid.weight > "$T/have"
check_same "$T/have" "$T/want" "numbers of experts stay with their tokens"
made "$T/order.gguf" "$(str model gpt2; list tokens str '"a", "b"')" token_embd.weight:f32:256x2 \
    masked_embd_ordering:i32:2 2> "$T/null"
echo a > "$T/keep"
check_error 3 "it has an order of all tokens" "an order of all tokens" \
    organ-vocab trim "$T/order.gguf" --keep "$T/keep" -o "$T/x.gguf"
# ---- ids in keys ---------------------------------------------------------------------------------------
# Every key that states an id, or several: those that are none stay, and the others follow their tokens.
roles="bos eos eot eom unknown seperator padding cls mask prefix suffix middle fim_pre fim_suf fim_mid fim_pad fim_rep
fim_sep eog"
keyed() { # FILE TOKENS TYPES MERGES ID ARRAYS-OF-THE-ARCHITECTURE
    made "$1" "$(str model gpt2; str pre gpt-2; list tokens str "$2"; list token_type i32 "$3"; list merges str "$4"
        for r in $roles; do id "${r}_token_id" "$5"; done; list suppress_tokens i32 "-1, $5, 0, 4000"
        list eog_token_ids u32 "$5, 0"; list eog_tokens i64 "0, $5"; echo "$6")" \
        token_embd.weight:f32:256x11 blk.0.attn_norm.weight:f32:256 2> "$T/null"
}
keyed "$T/k.gguf" "$eleven" "1, 1, 1, 1, 1, 1, 1, 1, 7, 3, 5" '"a b", "ab c", "x y", "c x"' 9 \
    "$(arr adapters.token_ids_activate i32 "9, -1, 6"; arr adapters.token_ids_substitute i32 "-1, 1, -1"
    echo '{"key": "llama.decoder_start_token_id", "type": "u32", "value": 9},')"
ids_of() { # MODEL: all of them, one per line
    for r in $roles; do key "$1" "tokenizer.ggml.${r}_token_id"; done | sort -u
    for k in tokenizer.ggml.suppress_tokens tokenizer.ggml.eog_token_ids tokenizer.ggml.eog_tokens \
        llama.adapters.token_ids_activate llama.adapters.token_ids_substitute llama.decoder_start_token_id; do
        key "$1" $k | tr '\n' ' '
        echo
    done
}
echo c > "$T/keep"
check "trim with many ids" organ-vocab trim "$T/k.gguf" --keep "$T/keep" -q -o "$T/t.gguf" --force
check_text "$(list_of "$T/t.gguf")" "z a b c x y ab <|end|> " "tokens that keys name stay"
check_text "$(ids_of "$T/t.gguf" | tr '\n' '.')" \
    "7.-1 7 0 4000 .7 0 .0 7 .7 -1 6 .-1 1 -1 .7 ." "ids of each key after a trim"
check "trim with a type that engines do not know" sh -c \
    "echo xy > $T/keep; organ-vocab trim $T/k.gguf --keep $T/keep -q -o $T/t.gguf --force"
check_text "$(types_of "$T/t.gguf")" "1 1 1 1 1 1 1 7 3 " "it stays as it is"
check "it is shown" organ-vocab "$T/t.gguf"
grep -q "^type${TAB}other${TAB}1" "$T/out" || bad "the type is counted: $(cat "$T/out")"
# The donor has c, a and ab, and its own end.
model "$T/d1.gguf" '"c", "a", "ab", "yx", "<|stop|>", "b"' "1, 1, 1, 1, 3, 1" '"a b"' 4 6
check "transplant with many ids" organ-vocab transplant "$T/k.gguf" --from "$T/d1.gguf" -q -o "$T/t.gguf" --force
check_text "$(for k in adapters.token_ids_activate adapters.token_ids_substitute decoder_start_token_id; do
    key "$T/t.gguf" llama.$k | tr '\n' ' '; done)" "4 -1 2 -1 1 -1 4 " "ids of the architecture after a transplant"
check_text "$(key "$T/t.gguf" tokenizer.ggml.suppress_tokens | tr '\n' ' ')" "4 0 " "those of the donor's tokenizer"
check_text "$(organ-keys "$T/t.gguf" | grep -c fim)" 0 "and no others"
model "$T/d2.gguf" '"c", "a", "abc", "yx", "<|stop|>", "b"' "1, 1, 1, 1, 3, 1" '"a b"' 4 6
check_error 1 "llama.adapters.token_ids_activate has token 6, which the new vocabulary lacks" "an id without a token" \
    organ-vocab transplant "$T/k.gguf" --from "$T/d2.gguf" -q -o "$T/x.gguf"
printf 'yx\tab\n' > "$T/map"
check "with a map" organ-vocab transplant "$T/k.gguf" --from "$T/d2.gguf" --map "$T/map" -q -o "$T/t.gguf" --force
check_text "$(key "$T/t.gguf" llama.adapters.token_ids_activate | tr '\n' ' ')" "4 -1 3 " "the token of the map"
# A draft head has no row of a token that is made, or of the second of two that were the same.
made "$T/head" "$(str model gpt2; str pre gpt-2; list tokens str "$eleven"
    list token_type i32 "1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 5"; list merges str '"a b", "ab c", "x y", "c x"'
    id eos_token_id 9)" token_embd.weight:f32:256x11 output.weight:f32:256x4 markov_w1.weight:f32:256x11 \
    markov_w2.weight:f32:256x4 selector_predecessor.weight:f32:256x11 t2d:i8:11 d2t:i64:4 2> "$T/null"
# t2d and d2t are the last two tensors: 11 and 32 bytes, each at a multiple of 32
head -c $(($(wc -c < "$T/head") - 64)) "$T/head" > "$T/h3.gguf"
{
    printf '\000\001\000\001\000\000\000\000\001\001\000'
    head -c 21 /dev/zero
    for n in '\0010' '\0003' '\0011' '\0001'; do printf '%b\000\000\000\000\000\000\000' "$n"; done
} >> "$T/h3.gguf"
bytes_of() { data "$1" "$2" | od -A n -v -t u1 | tr -s ' \n' ' '; }
check_text "$(numbers "$T/h3.gguf")$(bytes_of "$T/h3.gguf" t2d)" "8 3 9 1  0 1 0 1 0 0 0 0 1 1 0 " "a draft head"
echo 'ab' > "$T/keep"
check "trim a draft head with t2d" organ-vocab trim "$T/h3.gguf" --keep "$T/keep" -q -o "$T/t.gguf" --force
check_text "$(numbers "$T/t.gguf")$(bytes_of "$T/t.gguf" t2d)" "3 7 1  0 1 0 1 0 0 0 1 " \
    "t2d follows the tokens that stay"
printf 'yx\tc\n' > "$T/map"
model "$T/d3.gguf" '"c", "a", "cab", "yx", "<|stop|>", "b"' "1, 1, 1, 1, 3, 1" '"a b"' 4 6
check "transplant into a draft head" organ-vocab transplant "$T/h3.gguf" --from "$T/d3.gguf" --map "$T/map" -q \
    -o "$T/t.gguf" --force
check_text "$(numbers "$T/t.gguf")$(bytes_of "$T/t.gguf" t2d)" "0 4 1  1 1 0 0 1 0 " "its tokens, and t2d agrees"
row "$T/h3.gguf" output.weight $R 1 2 3 > "$T/want"
data "$T/t.gguf" output.weight > "$T/have"
check_same "$T/have" "$T/want" "the rows of these tokens"
row "$T/h3.gguf" markov_w2.weight $R 1 2 3 > "$T/want"
data "$T/t.gguf" markov_w2.weight > "$T/have"
check_same "$T/have" "$T/want" "those of its second matrix"
for t in markov_w1.weight selector_predecessor.weight; do
    row "$T/h3.gguf" $t $R 3 1 > "$T/want"
    row "$T/t.gguf" $t $R 0 1 > "$T/have"
    check_same "$T/have" "$T/want" "$t has one row per token"
    check_text "$(data "$T/t.gguf" $t | wc -c | tr -d ' ')" $((6 * R)) "rows of $t"
done
# Lists of a type that no engine reads.
made "$T/bad.gguf" "$(str model gpt2; list tokens str '"a", "b"'; list token_type f32 "1, 3")" \
    token_embd.weight:f32:256x2 2> "$T/null"
check_error 3 "tokenizer.ggml.token_type must be an array of i32" "types that are not integers" \
    organ-vocab "$T/bad.gguf"
made "$T/bad.gguf" "$(str model gpt2; list tokens str '"a", "b"'; list merges i32 "1, 3")" \
    token_embd.weight:f32:256x2 2> "$T/null"
check_error 3 "tokenizer.ggml.merges must be an array of strings" "merges that are not strings" \
    organ-vocab "$T/bad.gguf"

# Types of a fork whose rows lie together: to move single rows would mix them up.
model "$T/r4.gguf" '"a", "b", "c", "d", "e", "f", "g", "h"' "1, 1, 1, 1, 1, 1, 1, 1" '"a b"' 0 8 q4_k_r4
echo c > "$T/keep"
for action in "trim $T/r4.gguf --keep $T/keep" "add $T/r4.gguf --pad 16" "transplant $T/r4.gguf --from $T/b.gguf"; do
    # shellcheck disable=SC2086 # words
    check_error 3 "4 rows of Q4_K_R4 lie together" "${action%% *}: interleaved rows" \
        organ-vocab $action -o "$T/x.gguf"
done

# What cannot be.
echo nothing > "$T/keep"
check_error 1 "line 1: there is no token 'nothing'" "an unknown text" \
    organ-vocab trim "$T/b.gguf" --keep "$T/keep" -o "$T/x.gguf"
echo 11 > "$T/keep"
check_error 1 "there is no token 11; the vocabulary has 11" "an id beyond the last" \
    organ-vocab trim "$T/b.gguf" --keep "$T/keep" -o "$T/x.gguf"
echo 7 > "$T/counts"
check_error 2 "expected an id, a tab and a count" "a list without counts" \
    organ-vocab trim "$T/b.gguf" --used "$T/counts" -o "$T/x.gguf"
check_error 2 "trim needs --keep FILE or --used COUNTS" "no list" organ-vocab trim "$T/b.gguf" -o "$T/x.gguf"
check_error 2 "belongs to the action trim" "an option of another action" \
    organ-vocab add "$T/b.gguf" --keep "$T/keep" -o "$T/x.gguf"
check_error 2 "needs --output" "no output" organ-vocab trim "$T/b.gguf" --keep "$T/keep"
model "$T/bad.gguf" "$eleven" "1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 5" '"a b"' 9 12
echo 1 > "$T/keep"
check_error 3 "it has 12 rows, but the vocabulary has 11 tokens" "more rows than tokens" \
    organ-vocab trim "$T/bad.gguf" --keep "$T/keep" -o "$T/x.gguf"
model "$T/bad.gguf" "$eleven" "1, 1" '"a b"' 9 11
check_error 3 "tokenizer.ggml.token_type has 2 elements for 11 tokens" "too few types" organ-vocab "$T/bad.gguf"
check_absent "$T/x.gguf" "nothing is written"

# ---- transplant ----------------------------------------------------------------------------------------
# The donor's tokens: c and a, two that the base divides into ab + c and x + y, its own end, and one more.
model "$T/d.gguf" '"c", "a", "cab", "yx", "<|stop|>", "<|x|>"' "1, 1, 1, 1, 3, 3" '"a c"' 4 6
check "transplant" organ-vocab transplant "$T/b.gguf" --from "$T/d.gguf" --force -o "$T/t.gguf"
check_text "$(list_of "$T/t.gguf")" "c a cab yx <|stop|> <|x|> " "the donor's tokens"
check_text "$(key "$T/t.gguf" tokenizer.ggml.eos_token_id)" 4 "the donor's ids"
grep -q "of 6 tokens 2 have the same text, 1 the same role, 0 are mapped; 3 rows are made (mean)" "$T/err" ||
    bad "the note of a transplant: $(cat "$T/err")"
row "$T/b.gguf" output.weight $R 3 1 > "$T/want"
row "$T/t.gguf" output.weight $R 0 1 > "$T/have"
check_same "$T/have" "$T/want" "rows of tokens with the same text"
row "$T/b.gguf" output.weight $R 9 > "$T/want"
row "$T/t.gguf" output.weight $R 4 > "$T/have"
check_same "$T/have" "$T/want" "the row of a token with the same role"
# The mean of two rows, and by length: c + ab are a third and two thirds.
f32_of() { od -A n -v -t f4 | tr -s ' ' '\n' | sed '/^$/d'; }
mean_is() { # WHAT ROW A WEIGHT B WEIGHT
    row "$T/b.gguf" token_embd.weight $R "$3" | f32_of > "$T/a"
    row "$T/b.gguf" token_embd.weight $R "$5" | f32_of > "$T/bb"
    row "$T/t.gguf" token_embd.weight $R "$2" | f32_of > "$T/c"
    paste "$T/a" "$T/bb" "$T/c" | awk -v u="$4" -v w="$6" '{ d = $1 * u + $2 * w - $3; if (d < 0) d = -d
        n++; if (d > 0.00001 * (1 + ($3 < 0 ? -$3 : $3))) bad++ } END { exit bad > 0 || n != 256 }' || bad "$1"
}
mean_is "the mean of c and ab" 2 3 0.5 6 0.5
mean_is "the mean of y and x" 3 5 0.5 4 0.5
check "by length" organ-vocab transplant "$T/b.gguf" --from "$T/d.gguf" --method length --force -q -o "$T/t.gguf"
mean_is "c and ab by length" 2 3 0.33333333 6 0.66666667
printf '<|x|>\txy\nyx\tz\n' > "$T/map"
check "a map" organ-vocab transplant "$T/b.gguf" --from "$T/d.gguf" --map "$T/map" --force -q -o "$T/t.gguf"
row "$T/b.gguf" token_embd.weight $R 8 0 > "$T/want"
row "$T/t.gguf" token_embd.weight $R 5 3 > "$T/have"
check_same "$T/have" "$T/want" "rows that the map names"
echo '<|x|> xy' > "$T/map"
check_error 2 "line 1: expected a token of the donor, a tab" "a map without tabs" \
    organ-vocab transplant "$T/b.gguf" --from "$T/d.gguf" --map "$T/map" -o "$T/x.gguf"
for method in omp random; do
    check "$method" organ-vocab transplant "$T/b.gguf" --from "$T/d.gguf" --method $method --force -q -o "$T/t.gguf"
    row "$T/b.gguf" output.weight $R 3 1 > "$T/want"
    row "$T/t.gguf" output.weight $R 0 1 > "$T/have"
    check_same "$T/have" "$T/want" "$method: rows of tokens with the same text"
    cp "$T/t.gguf" "$T/t-$method.gguf"
    check "$method again" organ-vocab transplant "$T/b.gguf" --from "$T/d.gguf" --method $method -j 1 --force -q \
        -o "$T/t.gguf"
    check_same "$T/t.gguf" "$T/t-$method.gguf" "$method: the same bytes on one thread"
done
model "$T/own.gguf" "$eleven" "1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 5" '"a b", "ab c", "x y", "c x"' 9 11
check "into its own vocabulary" organ-vocab transplant "$T/b.gguf" --from "$T/own.gguf" -q -o "$T/same2.gguf"
check_text "$(differing "$T/b.gguf" "$T/same2.gguf")" "token_embd.weight differs
output.weight differs
output.bias differs" "only the unused token has another row"
row "$T/b.gguf" token_embd.weight $R 0 1 2 3 4 5 6 7 8 9 > "$T/want"
row "$T/same2.gguf" token_embd.weight $R 0 1 2 3 4 5 6 7 8 9 > "$T/have"
check_same "$T/have" "$T/want" "all others are the same"
# Between SentencePiece and BPE on bytes, tokens match by the bytes they stand for.
check "into the words of SentencePiece" organ-vocab transplant "$T/b.gguf" --from "$m" --force -q -o "$T/t.gguf"
a=$(organ-vocab "$m" --list | awk -F "$TAB" "$BY_NAME"'col("text") == "a" { print col("id") }')
row "$T/b.gguf" token_embd.weight $R 1 > "$T/want"
row "$T/t.gguf" token_embd.weight $R "$a" > "$T/have"
check_same "$T/have" "$T/want" "the letter a"
# Between two vocabularies of SentencePiece, the byte <0x41> is not the letter A.
organ-vocab "$m" --list > "$T/all"
organ-assemble -q "$m" --dtype f32 -o "$T/wide.gguf"
check "into the same words of SentencePiece" organ-vocab transplant "$T/wide.gguf" --from "$m" -q --force -o \
    "$T/t.gguf"
check_text "$(differing "$T/wide.gguf" "$T/t.gguf")" "" "all rows stay in their places, bytes too"
check_error 2 "transplant needs --from DONOR" "no donor" organ-vocab transplant "$T/b.gguf" -o "$T/x.gguf"

# ---- add -------------------------------------------------------------------------------------------------
printf '<tool>\n<|call|>\tcontrol\t1 2\nqq\tuser\n' > "$T/add"
check "add" organ-vocab add "$T/b.gguf" --tokens "$T/add" -o "$T/a.gguf"
check_text "$(list_of "$T/a.gguf")" "z a b c x y ab abc xy <|end|> <tool> <|call|> qq " "unused tokens are used first"
check_text "$(types_of "$T/a.gguf")" "1 1 1 1 1 1 1 1 1 3 4 3 4 " "types of added tokens"
data "$T/a.gguf" token_embd.weight | head -c $((10 * R)) > "$T/have"
data "$T/b.gguf" token_embd.weight | head -c $((10 * R)) > "$T/want"
check_same "$T/have" "$T/want" "rows before keep their bytes"
cp "$T/a.gguf" "$T/t.gguf"
mean_is "a row of the ids that were given" 11 1 0.5 2 0.5
check "a multiple" organ-vocab add "$T/b.gguf" --pad 8 --force -q -o "$T/a.gguf"
check_text "$(texts "$T/a.gguf" | tail -n 6 | tr '\n' ' ')" "[PAD10] [PAD11] [PAD12] [PAD13] [PAD14] [PAD15] " \
    "padding"
check "cut" organ-vocab add "$T/a.gguf" --resize 10 --force -q -o "$T/c.gguf"
check_text "$(list_of "$T/c.gguf")" "z a b c x y ab abc xy <|end|> " "unused tokens are cut"
check_error 1 "token 9, '<|end|>', is used by tokenizer.ggml.suppress_tokens: at least 10 tokens must stay" \
    "cut too far" organ-vocab add "$T/a.gguf" --resize 9 -o "$T/x.gguf"
echo ab > "$T/add"
check_error 1 "token 6 has the text 'ab' already" "a token that is there" \
    organ-vocab add "$T/b.gguf" --tokens "$T/add" -o "$T/x.gguf"
printf 'one\ntwo\none\n' > "$T/add"
check_error 1 "line 3: line 1 has the same text" "a token twice" \
    organ-vocab add "$T/b.gguf" --tokens "$T/add" -o "$T/x.gguf"
# Unused tokens that keys name are neither replaced nor cut, an id of no token must not become one, and the text of an
# unused token is new.
model "$T/u.gguf" '"a", "[PAD1]", "[PAD2]", "[PAD9]"' "1, 5, 5, 5" '"a a"' 3 4
printf 'one\ntwo\n[PAD6]\n' > "$T/add"
check "add with an unused end" organ-vocab add "$T/u.gguf" --tokens "$T/add" --pad 8 -q -o "$T/a2.gguf" --force
check_text "$(list_of "$T/a2.gguf")" "a one two [PAD9] [PAD6] [PAD5] [PAD7] [PAD8] " "it is not replaced"
check_text "$(types_of "$T/a2.gguf")" "1 4 4 5 4 5 5 5 " "types of the new vocabulary"
check "new texts" organ-vocab add "$T/u.gguf" --pad 12 -q -o "$T/a2.gguf" --force
check_text "$(texts "$T/a2.gguf" | sort -u | wc -l | tr -d ' ')" 12 "no text is there twice"
check_error 1 "is used by tokenizer.ggml.suppress_tokens: at least 4 tokens must stay" "cut an unused token of a key" \
    organ-vocab add "$T/u.gguf" --resize 3 -o "$T/x.gguf"
model "$T/u.gguf" '"a", "b"' "1, 1" '"a b"' 2 2
check_error 1 "tokenizer.ggml.eos_token_id has the id 2, which only a new token would have" "an id of no token" \
    organ-vocab add "$T/u.gguf" --pad 4 -o "$T/x.gguf"
printf 'new\tstrange\n' > "$T/add"
check_error 2 "the type of a token is user or control" "an unknown type" \
    organ-vocab add "$T/b.gguf" --tokens "$T/add" -o "$T/x.gguf"
printf 'new\tuser\t99\n' > "$T/add"
check_error 2 "are not ids of tokens below 11" "an id beyond the last" \
    organ-vocab add "$T/b.gguf" --tokens "$T/add" -o "$T/x.gguf"
check_absent "$T/x.gguf" "nothing is written"

check_text "$(key "$T/b.gguf" organ.history 2> "$T/null") $(key "$T/c.gguf" organ.history | tr '\n' '.')" \
    " add: 0 tokens, 5 rows of padding.add: 0 tokens, 0 rows of padding." "the steps are recorded"
check "no history" organ-vocab add "$T/b.gguf" --pad 8 --force -q --no-history -o "$T/c.gguf"
check_text "$(organ-keys "$T/c.gguf" | grep -c organ.history)" 0 "with --no-history they are not"

# ---- two vocabularies --------------------------------------------------------------------------------------
check_exit 1 "two vocabularies" organ-vocab "$T/b.gguf" "$T/a.gguf"
grep -q "^only${TAB}-${TAB}11${TAB}\[PAD11\]" "$T/out" || bad "a token that only the second has"
check_exit 1 "moved tokens" organ-vocab "$T/b.gguf" "$T/d.gguf"
grep -q "^moved${TAB}3${TAB}0${TAB}c" "$T/out" || bad "a token with another id"
grep -q "cannot draft for the second" "$T/out" || bad "it cannot draft"
organ-keys -q "$T/b.gguf" --set tokenizer.ggml.pre=qwen2 --set 'tokenizer.ggml.merges[0]=b c' \
    --delete tokenizer.ggml.eos_token_id -o "$T/k.gguf" --force
check_exit 1 "the same tokens with other keys" organ-vocab "$T/b.gguf" "$T/k.gguf"
check_text "$(sed -n "s/^key$TAB-$TAB-$TAB//p" "$T/out" | sort | tr '\n' '.')" \
    "tokenizer.ggml.eos_token_id${TAB}only in the first.tokenizer.ggml.merges${TAB}other value.$(
    )tokenizer.ggml.pre${TAB}other value." "keys that differ"
check_exit 1 "the other way" organ-vocab "$T/k.gguf" "$T/b.gguf"
grep -q "^key$TAB-$TAB-${TAB}tokenizer.ggml.eos_token_id${TAB}only in the second" "$T/out" || bad "a key of the second"
check_exit 1 "organ-compare" organ-compare "$T/b.gguf" "$T/d.gguf"
grep -q "their vocabularies differ, so rows of the embeddings are not those of the same tokens" "$T/err" ||
    bad "organ-compare tells of vocabularies: $(cat "$T/err")"
check_exit 0 "organ-compare with itself" organ-compare "$T/b.gguf" "$T/b.gguf"
check_text "$(cat "$T/err")" "" "nothing about the same vocabulary"

# ---- omp, exactly --------------------------------------------------------------------------------------------
# Rows of four values, the same in both models: the row of a token that only the donor has is a sum of four others.
narrow() { # FILE TOKENS
    made "$1" "$(str model gpt2; str pre gpt-2; list tokens str "$2"; list token_type i32 "1, 1, 1, 1, 1, 1, 1, 1"
        list merges str '"a b"')" token_embd.weight:f32:4x8 blk.0.attn_norm.weight:f32:4
}
narrow "$T/n.gguf" '"z", "a", "b", "c", "x", "y", "ab", "r"' 2> "$T/null"
narrow "$T/n2.gguf" '"q", "a", "b", "c", "x", "y", "ab", "r"' 2> "$T/null"
check "omp with narrow rows" organ-vocab transplant "$T/n.gguf" --from "$T/n2.gguf" --method omp -q -o "$T/n3.gguf"
data "$T/n.gguf" token_embd.weight | f32_of > "$T/a"
data "$T/n3.gguf" token_embd.weight | f32_of > "$T/bb"
paste "$T/a" "$T/bb" | awk '{ d = $1 - $2; if (d < 0) d = -d; if (d > 0.001 * ($1 < 0 ? 1 - $1 : 1 + $1)) bad++ }
    END { exit bad > 0 || NR != 32 }' || bad "the sum of four rows: $(paste "$T/a" "$T/bb" | head -n 4 | tr '\n' ' ')"
check "omp with one term" organ-vocab transplant "$T/n.gguf" --from "$T/n2.gguf" --method omp --terms 1 -q -o \
    "$T/n4.gguf"
cmp -s "$T/n3.gguf" "$T/n4.gguf" && bad "one term gives another row than four"

# ---- a large vocabulary ------------------------------------------------------------------------------------
# 262,144 tokens and 514,906 merges are read and written in 300 MB. The copy has the words of one token in seven.
if exhaustive; then
    mkmodel "$T/large.gguf" -v 262144,514906 token_embd.weight:F16:32x262144 || bad "mkmodel"
    awk 'BEGIN { for (i = 256; i < 262144; i += 7) print i }' > "$T/few"
    # shellcheck disable=SC2154 # lib.sh
    cost organ-vocab trim "$T/large.gguf" --keep "$T/few" -q -o "$T/few.gguf" > "$T/cost" ||
        bad "trim of a large vocabulary"
    awk '{ exit !($3 > 1000 && $3 < 300000) }' "$T/cost" || bad "time and memory of a large trim: $(cat "$T/cost")"
    check_text "$(organ-keys "$T/few.gguf" | awk '/ggml.(tokens|merges)\t/ { print $3 }' |
        tr '\n' ' ')" "53313 104267 " \
        "words and what they are made of"
    rm -f "$T/large.gguf" "$T/few.gguf"
fi

# ---- the page ----------------------------------------------------------------------------------------------
# Every command of docs/vocabulary.md, in its order. Each section must work alone, so it has a folder of its own.
awk '/^## / { section++ }
    /^    [a-z]/ || more { line = $0; sub(/^ +/, "", line); if (!more) printf "%s ", section
        more = sub(/\\$/, "", line); printf "%s%s", line, more ? "" : "\n" }' docs/vocabulary.md > "$T/page"
check_text "$(($(wc -l < "$T/page")))" 10 "commands of the page"
while read -r section line; do
    mkdir -p "$T/page$section"
    line=$(printf '%s\n' "$line" | sed "s|/tmp/|$T/page$section/|g")
    check "docs/vocabulary.md: $line" sh -c "$line" < /dev/null
done < "$T/page"
check_text "$(cd "$T" && echo page*/*.gguf)" \
    "page1/whole.gguf page2/small.gguf page3/draft.gguf page4/more.gguf page5/merged.gguf page5/tool.gguf" \
    "what the page makes"
check "what the page makes can be read" organ-vocab "$T/page4/more.gguf" --find "<tool_call>"

finish
