#!/bin/sh
# Tokenizers of checkpoints: the keys that llama.cpp's converter makes of them, the table of
# pre-tokenizers, and files that are damaged or contradict the model. HF_VECTORS=FOLDER compares all
# reference vectors too.
. "$(dirname "$0")/lib.sh"

# keys_of MODEL: every key of the tokenizer but the pre-tokenizer, with its type and value.
keys_of() {
    organ-keys "$1" 'tokenizer.*' | cells key,type,count | sed 1d | sort | while IFS=$TAB read -r k t n; do
        [ "$k" = tokenizer.ggml.pre ] && continue
        printf '# %s %s %s\n' "$k" "$t" "$n"
        organ-keys "$1" --get "$k"
    done
}

# ---- what the converter makes ---------------------------------------------------------------------
for c in falcon gptneox gemma3-vlm mamba2; do
    mkdir "$T/$c"
    cp "$D/hf/$c"/* "$D/tokenizers/$c"/* "$T/$c/"
    chmod u+w "$T/$c"/*
    check "$c: whole" organ-assemble "$T/$c" -q -o "$T/$c.gguf"
    keys_of "$T/$c.gguf" > "$T/have"
    check_same "$T/have" "$D/tokenizers/$c.keys" "$c: keys"
done
if [ -n "${HF_VECTORS:-}" ]; then
    for f in "$HF_VECTORS"/*/hf/tokenizer_config.json; do
        folder=${f%/*} c=${f%/hf/*}
        for m in "$c"/*.gguf; do
            keys_of "$m" > "$T/want"
            check "${c##*/}" organ-assemble "$folder" -q --force -o "$T/m.gguf"
            keys_of "$T/m.gguf" > "$T/have"
            check_same "$T/have" "$T/want" "${m##*/}: keys of the tokenizer"
            break
        done
    done
fi

# ---- small tokenizers -------------------------------------------------------------------------------
# checkpoint FOLDER ROWS: a llama of one block with embeddings of so many rows, all zero.
checkpoint() {
    rm -rf "${1:?}"
    mkdir "$1"
    cat > "$1/config.json" << END
{"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1,
 "num_attention_heads": 1, "num_key_value_heads": 1, "max_position_embeddings": 64, "rms_norm_eps": 1e-6,
 "vocab_size": $2, "tie_word_embeddings": true}
END
    awk -v rows="$2" 'function add(name, n, shape) {
        head = head (head == "" ? "{" : ",") "\"" name "\":{\"dtype\":\"F32\",\"shape\":[" shape \
            "],\"data_offsets\":[" at + 0 "," at + 4 * n "]}"
        at += 4 * n
    }
    BEGIN {
        add("model.embed_tokens.weight", rows * 8, rows ",8")
        add("model.norm.weight", 8, "8")
        n = split("self_attn.q_proj self_attn.k_proj self_attn.v_proj self_attn.o_proj mlp.gate_proj mlp.up_proj" \
            " mlp.down_proj", m, " ")
        for (i = 1; i <= n; i++) add("model.layers.0." m[i] ".weight", 64, "8,8")
        add("model.layers.0.input_layernorm.weight", 8, "8")
        add("model.layers.0.post_attention_layernorm.weight", 8, "8")
        head = head "}"
        while (length(head) % 8) head = head " "
        printf "%s", head
        print at > "/dev/stderr"
    }' > "$T/head" 2> "$T/bytes"
    n=$(wc -c < "$T/head")
    {
        printf '%b' "$(printf '\\0%03o\\0%03o\\0\\0\\0\\0\\0\\0' $((n % 256)) $((n / 256)))"
        cat "$T/head"
        head -c "$(cat "$T/bytes")" /dev/zero
    } > "$1/model.safetensors"
}

gpt2='{"type": "ByteLevel", "add_prefix_space": false, "use_regex": true}'
# bpe VOCAB MERGES ADDED [PRE] [MORE]: a tokenizer.json on stdout.
bpe() {
    printf '{"added_tokens": [%s], "normalizer": null, "pre_tokenizer": %s, "model": {"type": "BPE", "vocab": {%s}, ' \
        "$3" "${4:-$gpt2}" "$1"
    printf '"merges": [%s]%s}}\n' "$2" "${5:-}"
}
tokens_of() { organ-keys "$1" --get tokenizer.ggml.tokens | tr '\n' ' '; }
types_of() { organ-keys "$1" --get tokenizer.ggml.token_type | tr '\n' ' '; }
abc='"a": 0, "b": 1, "c": 2, "ab": 3, "abc": 4'
merged='"a b", ["ab", "c"]'
end='{"id": 5, "content": "<|end|>", "special": true}'

checkpoint "$T/ck" 6
bpe "$abc" "$merged" "$end" > "$T/ck/tokenizer.json"
check "a small one" organ-assemble "$T/ck" -o "$T/small.gguf"
check_text "$(tokens_of "$T/small.gguf")" "a b c ab abc <|end|> " "tokens"
check_text "$(types_of "$T/small.gguf")" "1 1 1 1 1 3 " "types"
check_text "$(organ-keys "$T/small.gguf" --get tokenizer.ggml.merges | tr '\n' '.')" "a b.ab c." "merges of both forms"
check_text "$(organ-keys "$T/small.gguf" --get tokenizer.ggml.pre)" gpt-2 "the pre-tokenizer"
check "a re-encoded model" organ-assemble "$T/ck" --dtype f16 -q -o "$T/f16.gguf"
check_text "$(tokens_of "$T/f16.gguf")" "a b c ab abc <|end|> " "tokens of a re-encoded model"

# again NAME JSON-OF-bpe...: another tokenizer.json for the same weights.
again() {
    bpe "$@" > "$T/ck/tokenizer.json"
}
# noted TEXT WHAT: it is converted, with a note that has this text.
noted() {
    check "$2" organ-assemble "$T/ck" --force -o "$T/m.gguf"
    grep -qF -e "$1" "$T/err" || bad "$2: no note '$1': $(head -n 3 "$T/err")"
}
# refused TEXT WHAT: one line on stderr, and nothing is written. Tools that need no vocabulary go on.
refused() {
    rm -f "$T/m.gguf"
    check_error 3 "$1" "$2" organ-assemble "$T/ck" -o "$T/m.gguf"
    cp "$T/err" "$T/refusal"
    check_absent "$T/m.gguf" "$2: nothing is written"
    check "$2: tensors can be read" organ-measure -q "$T/ck"
}

# ---- ids ---------------------------------------------------------------------------------------------
again '"a": 0, "b": 1, "ab": 4' '"a b"' "$end"
noted "2 ids below 6 have no token" "holes"
check_text "$(tokens_of "$T/m.gguf")" "a b [PAD2] [PAD3] ab <|end|> " "holes are filled"
check_text "$(types_of "$T/m.gguf")" "1 1 5 5 1 3 " "with unused tokens"
again '"a": 0, "b": 1, "ab": 2' '"a b"' ''
check "fewer tokens than rows" organ-assemble "$T/ck" --force -o "$T/m.gguf"
check_text "$(tokens_of "$T/m.gguf")" "a b ab [PAD3] [PAD4] [PAD5] " "are padded"
again "$abc, \"d\": 6" "$merged" "$end"
refused "has 7 tokens, but the embeddings have 6 rows" "more tokens than rows"
again "$abc" "$merged" '{"id": 6, "content": "<|end|>", "special": true}'
refused "has 7 tokens, but the embeddings have 6 rows" "an added token beyond the rows"
again "$abc, \"d\": 4" "$merged" "$end"
refused "the tokens 'abc' and 'd' have the same id, 4" "ids that repeat"
again "$abc, \"d\": 99999999999999999999" "$merged" "$end"
refused "" "an id beyond 64 bits"
again "$abc, \"d\": 18446744073709551615" "$merged" "$end"
refused "but the embeddings have 6 rows" "the largest id of 64 bits"
again "$abc, \"d\": -1" "$merged" "$end"
refused "" "an id below 0"
again "$abc" "$merged" '{"id": 1, "content": "<|end|>", "special": true}'
noted "added token '<|end|>' replaces 'b', which has the same id, 1" "an added token with another text"
check_text "$(tokens_of "$T/m.gguf")" "a <|end|> c ab abc [PAD5] " "the added token is there"
again "$abc" "$merged" '{"id": 1, "content": "\u001b[31m\n\u202e", "special": true}'
noted "added token '\\x1b[31m\\n\\xe2\\x80\\xae' replaces 'b', which has the same id, 1" \
    "a text that would act on a terminal"

again '"a": 0, "[PAD4]": 1' '' ''
noted "the tokenizer has 2 tokens for 6 rows of the embeddings: the last 4 rows get unused tokens" \
    "rows without tokens"
check_text "$(tokens_of "$T/m.gguf")" "a [PAD4] [PAD2] [PAD3] [PAD10] [PAD5] " "no unused text is there twice"
again "$abc" "$merged" '{"id": "5", "content": "<|end|>", "special": true}'
refused "" "an id that is a text"
again '"a": 0, "b": 1.5' '"a b"' ''
refused "" "an id with a fraction"
again "$abc" "$merged" '{"id": -5, "content": "<|end|>", "special": true}'
refused "" "an added token below 0"
again "$abc" "$merged" '{"content": "<|end|>", "special": true}'
refused "" "an added token without an id"

# ---- types of added tokens -----------------------------------------------------------------------------
again "$abc" "$merged" '{"id": 5, "content": "<|end|>", "special": false}'
check "looks special" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(types_of "$T/m.gguf")" "1 1 1 1 1 3 " "its type"
again "$abc" "$merged" '{"id": 5, "content": "▁▁x", "special": false}'
check "spaces" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(organ-keys "$T/m.gguf" --get 'tokenizer.ggml.tokens' | tail -n 1)" "  x" "U+2581 of a user-defined token"
check_text "$(types_of "$T/m.gguf")" "1 1 1 1 1 4 " "its type"
bpe "$abc" "$merged" '' > "$T/ck/tokenizer.json"
echo '{"added_tokens_decoder": {"5": {"content": "<tool>", "special": false}}}' > "$T/ck/tokenizer_config.json"
check "added in tokenizer_config.json" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(tokens_of "$T/m.gguf")" "a b c ab abc <tool> " "the token of tokenizer_config.json"
echo '{"added_tokens_decoder": {"5x": {"content": "<tool>"}}}' > "$T/ck/tokenizer_config.json"
refused "a key that is not the id of a token" "a word instead of an id"
rm "$T/ck/tokenizer_config.json"

# ---- merges ------------------------------------------------------------------------------------------
again "$abc" '"a b", "b z", "a c"' "$end"
noted "2 merges name a token that the vocabulary lacks; the first is 'b z'" "merges without tokens"
check_text "$(organ-keys "$T/m.gguf" --get tokenizer.ggml.merges | tr '\n' '.')" "a b.b z.a c." "all merges are kept"
again "$abc" '"ab"' "$end"
refused "a merge is not two texts" "a merge of one text"
again "$abc" '[["a", "b", "c"]]' "$end"
refused "" "a merge of three texts"
again "$abc" '' "$end"
noted "tokenizer.json has no merges" "no merges"
again '"a": 0, " ": 1, " a": 2' '[" ", "a"]' ''
check "a space in a merge" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(organ-keys "$T/m.gguf" --get tokenizer.ggml.merges)" "Ġ a" "is encoded"

# ---- pre-tokenizers ----------------------------------------------------------------------------------
# split REGEX [BEHAVIOR [INVERT]]: a pre-tokenizer.
split() {
    printf '{"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "%s"}, ' "$1"
    printf '"behavior": "%s", "invert": %s}, ' "${2:-Isolated}" "${3:-false}"
    printf '{"type": "ByteLevel", "use_regex": false}]}'
}
llama3=$(tr -d '\n' << 'END'
(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}
| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+
END
)
unknown="no pre-tokenizer of llama.cpp is known to split text as tokenizer.json does:"
pre_is() { # NAME WHAT
    check "$2" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
    check_text "$(organ-keys "$T/m.gguf" --get tokenizer.ggml.pre)" "$1" "$2"
}
again "$abc" "$merged" "$end" "$(split "$llama3")" ', "ignore_merges": true'
pre_is llama-bpe "the expression of llama 3, merges ignored"
again "$abc" "$merged" "$end" "$(split "$llama3")"
pre_is smaug-bpe "the same with merges"
again "$abc" "$merged" "$end" "$(split "$llama3" Removed true)" ', "ignore_merges": true'
pre_is llama-bpe "what does not match is removed"
again "$abc" "$merged" "$end" "$(split "$llama3" Removed false)" ', "ignore_merges": true'
refused "$unknown removed (?i:" "matches are removed"
again "$abc" "$merged" "$end" "$(split 'x+y')"
refused "$unknown split x+y" "an unknown expression"
grep -q -e 'organ-assemble --pre NAME' "$T/refusal" || bad "no advice for an unknown expression"
check "a name for it" organ-assemble "$T/ck" --pre qwen2 --force -o "$T/m.gguf"
check_text "$(organ-keys "$T/m.gguf" --get tokenizer.ggml.pre)" qwen2 "the name that was given"
check_text "$(tokens_of "$T/m.gguf")" "a b c ab abc <|end|> " "and the tokens"
check "a vocabulary instead" organ-assemble "$T/ck" --vocab-from "$T/small.gguf" --force -q -o "$T/m.gguf"
check_text "$(organ-keys "$T/m.gguf" --get tokenizer.ggml.pre)" gpt-2 "that of the model"
organ-keys -q "$T/small.gguf" --set 'tokenizer.ggml.tokens[1]=other' -o "$T/other.gguf" --force
check "a vocabulary with another word" organ-assemble "$T/small.gguf" --vocab-from "$T/other.gguf" --force \
    -o "$T/m.gguf"
grep -q "1 of its 6 tokens are others in the vocabulary that is taken: token 1, 'b', becomes 'other'" "$T/err" ||
    bad "a vocabulary with another word: $(cat "$T/err")"
check "the same vocabulary" organ-assemble "$T/small.gguf" --vocab-from "$T/small.gguf" --force -o "$T/m.gguf"
check_text "$(cat "$T/err")" "" "the same vocabulary needs no note"
again "$abc" "$merged" "$end" '{"type": "Sequence", "pretokenizers":
    [{"type": "Digits", "individual_digits": true}, {"type": "ByteLevel", "use_regex": true}]}'
pre_is smollm "digits alone, in a llama"
again "$abc" "$merged" "$end" null
refused "not at all" "no pre-tokenizer"

# ---- normalizers ---------------------------------------------------------------------------------------
again "$abc" "$merged" "$end"
sed 's/"normalizer": null/"normalizer": {"type": "NFC"}/' "$T/ck/tokenizer.json" > "$T/j" &&
    cp "$T/j" "$T/ck/tokenizer.json"
noted "changes text before it is split (NFC)" "NFC"
sed 's/"type": "NFC"/"type": "Lowercase"/' "$T/ck/tokenizer.json" > "$T/j" && cp "$T/j" "$T/ck/tokenizer.json"
noted "changes text before it is split (Lowercase)" "small letters"
again "$abc" "$merged" "$end" '{"type": "ByteLevel", "add_prefix_space": true}'
noted "puts a space before each text" "a space before each text"

# ---- special tokens, templates, generation_config.json ---------------------------------------------------
again "$abc" "$merged" "$end"
cat > "$T/ck/tokenizer_config.json" << 'END'
{"eos_token": {"content": "<|end|>"}, "bos_token": "a", "pad_token": null, "add_bos_token": false,
 "chat_template": [{"name": "default", "template": "D"}, {"name": "tool-use", "template": "T"}]}
END
echo '{"temperature": 0.5, "top_k": 40, "eos_token_id": [5, 3], "bos_token_id": 0}' > "$T/ck/generation_config.json"
noted "generation_config.json also ends a text at 'ab'" "more tokens that end a text"
key() { organ-keys "$T/m.gguf" --get "$1"; }
check_text "$(key tokenizer.ggml.eos_token_id) $(key tokenizer.ggml.bos_token_id)" "5 0" "special ids"
check_text "$(key tokenizer.ggml.add_bos_token)" false "a flag"
check_text "$(key tokenizer.chat_template) $(key tokenizer.chat_template.tool_use)" "D T" "templates by name"
check_text "$(key tokenizer.chat_templates)" tool_use "the list of templates"
check_text "$(key general.sampling.temp) $(key general.sampling.top_k)" "0.5 40" "how to sample"
rm "$T/ck/generation_config.json"
echo '{"eos_token": "<|end|>"}' > "$T/ck/tokenizer_config.json"
printf 'J' > "$T/ck/chat_template.jinja"
mkdir "$T/ck/additional_chat_templates"
printf 'R' > "$T/ck/additional_chat_templates/rag.jinja"
check "a template of its own" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.chat_template) $(key tokenizer.chat_template.rag)" "J R" "chat_template.jinja"
rm -r "$T/ck/chat_template.jinja" "$T/ck/additional_chat_templates"
echo '{"chat_template": "C"}' > "$T/ck/chat_template.json"
check "a template in JSON" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.chat_template)" C "chat_template.json"
rm "$T/ck/chat_template.json" "$T/ck/tokenizer_config.json"
echo '{"eos_token": {"content": "<|end|>"}}' > "$T/ck/special_tokens_map.json"
check "special_tokens_map.json" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.eos_token_id)" 5 "the token of special_tokens_map.json"
rm "$T/ck/special_tokens_map.json"
single='{"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<|end|>"}}, {"Sequence": {"id": "A"}}],'
single="$single \"pair\": []}"
sed "s/{\"added_tokens\"/{\"post_processor\": $single, \"added_tokens\"/" "$T/ck/tokenizer.json" > "$T/j" &&
    cp "$T/j" "$T/ck/tokenizer.json"
check "a post-processor" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.add_bos_token)" true "it adds a token before a text"

# What a post-processor does besides is noted, also in a sequence within a sequence.
processed() { # POST-PROCESSOR
    again "$abc" "$merged" "$end"
    sed "s/{\"added_tokens\"/{\"post_processor\": $1, \"added_tokens\"/" "$T/ck/tokenizer.json" > "$T/j" &&
        cp "$T/j" "$T/ck/tokenizer.json"
}
nested() { printf '{"type": "Sequence", "processors": [%s]}' "$1"; }
processed "$(nested "$(nested "$single")")"
check "a template in a nested sequence" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.add_bos_token)" true "it is read"
a='{"SpecialToken": {"id": "a"}}'
processed "{\"type\": \"TemplateProcessing\", \"single\": [$a, $a, {\"Sequence\": {\"id\": \"A\"}}], \"pair\": []}"
noted "the tokenizer puts 2 special tokens around a text, but engines put 1" "two tokens before a text"
processed '{"type": "BertProcessing", "sep": ["a", 0], "cls": ["b", 1]}'
noted "what the tokenizer does to tokens afterwards is not converted (BertProcessing)" "an unknown post-processor"

# Steps, lists and truth values of another type are refused, not left out.
spoiled() { # FROM TO: in tokenizer.json
    processed "$(nested "$single")"
    sed "s/$1/$2/" "$T/ck/tokenizer.json" > "$T/j" && cp "$T/j" "$T/ck/tokenizer.json"
}
spoiled '"normalizer": null' '"normalizer": [1]'
refused "a step of the tokenizer is not an object" "a list as normalizer"
spoiled '"normalizer": null' '"normalizer": {"type": "Sequence", "normalizers": {}}'
refused "a step of the tokenizer is not an object" "a sequence that has no list"
spoiled '"pre_tokenizer": {[^}]*}' '"pre_tokenizer": "ByteLevel"'
refused "the pre_tokenizer is not an object" "a text as pre-tokenizer"
spoiled '"use_regex": true' '"use_regex": "yes"'
refused "use_regex is neither true nor false" "a text as truth value"
spoiled '"special": true' '"special": 1'
refused "special is neither true nor false" "a number as truth value"
spoiled '"added_tokens": .*, "normalizer"' '"added_tokens": {}, "normalizer"'
refused "added_tokens is not an array" "an object as added tokens"
spoiled '"type": "TemplateProcessing"' '"type": 1'
refused "" "a post-processor without a type"
again "$abc" "$merged" "$end"
echo '{"added_tokens_decoder": [1]}' > "$T/ck/tokenizer_config.json"
refused "added_tokens_decoder is not an object" "a list as added tokens"
echo '{"added_tokens_decoder": {"5": {"content": "<|end|>", "special": "yes"}}}' > "$T/ck/tokenizer_config.json"
refused "special is neither true nor false" "a text as truth value of an added token"
rm "$T/ck/tokenizer_config.json"

# ids_are CONFIG GENERATION: fields of config.json and generation_config.json
ids_are() {
    checkpoint "$T/ck" 6
    again "$abc" "$merged" "$end"
    sed "s/{\"arch/{$1\"arch/" "$T/ck/config.json" > "$T/j" && cp "$T/j" "$T/ck/config.json"
    echo "{$2}" > "$T/ck/generation_config.json"
}
ids_are '"eos_token_id": "5", "pad_token_id": -1, ' '"bos_token_id": 0.5'
noted "eos_token_id of config.json is not the id of a token, and is left out" "an id that is a text"
grep -q "bos_token_id of generation_config.json is not the id of a token" "$T/err" || bad "an id with a fraction"
grep -q "pad_token_id" "$T/err" && bad "a note about no token: $(cat "$T/err")"
check_text "$(organ-keys "$T/m.gguf" | grep -c _token_id)" 0 "none of them is stored"
ids_are '"eos_token_id": [5, 4], ' ''
noted "config.json also ends a text at 'abc'" "a list of ends in config.json"
check_text "$(key tokenizer.ggml.eos_token_id)" 5 "the first end"
echo '{"add_bos_token": "yes", "eos_token": "abc"}' > "$T/ck/tokenizer_config.json"
ids_are '' ''
echo '{"add_bos_token": "yes", "eos_token": "abc"}' > "$T/ck/tokenizer_config.json"
noted "add_bos_token of tokenizer_config.json is neither true nor false" "a flag that is a text"
check_text "$(key tokenizer.ggml.eos_token_id)" 4 "the id of a text that no file states"
echo '{"added_tokens_decoder": {"5": {"content": "<|stop|>"}}, "chat_template": [[1], {"name": "x"}, {"name":
    "tool use", "template": "1"}, {"name": "tool-use", "template": "2"}]}' > "$T/ck/tokenizer_config.json"
noted "another text for 1 added tokens, which is not used: token 5 is '<|stop|>' there and '<|end|>' here" \
    "added tokens that differ"
grep -q "2 chat templates have no text, or no name" "$T/err" || bad "nested templates: $(cat "$T/err")"
grep -q "two chat templates have the name tool_use" "$T/err" || bad "two templates of one name: $(cat "$T/err")"
check_text "$(key tokenizer.chat_template.tool_use)" 2 "the later one counts"
printf 'J' > "$T/ck/chat_template.jinja"
echo '{"chat_template": "C"}' > "$T/ck/tokenizer_config.json"
noted "chat_template.jinja differs from chat_template of tokenizer_config.json, which is used" "two templates"
echo '{"chat_template": "J"}' > "$T/ck/tokenizer_config.json"
check "the same template twice" organ-assemble "$T/ck" --force -o "$T/m.gguf"
check_text "$(grep -c template "$T/err")" 0 "needs no note"
echo '{"chat_template": {"a": 1}}' > "$T/ck/tokenizer_config.json"
noted "chat_template of tokenizer_config.json is not a text" "a template that is an object"
check_text "$(key tokenizer.chat_template)" J "the other one counts"
checkpoint "$T/ck" 6

# ---- BPE with byte fallback, which llama.cpp calls SPM ---------------------------------------------------
again '"<0x0A>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4, "▁ab": 5' '["▁", "a"], ["▁a", "b"]' '' \
    '{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "never"}' ', "byte_fallback": true'
check "byte fallback" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.model) $(key tokenizer.ggml.add_space_prefix)" "llama false" "its model"
check_text "$(types_of "$T/m.gguf")" "6 1 1 1 1 1 " "a byte"
check_text "$(key tokenizer.ggml.scores | sed -n 5,6p | tr '\n' ' ')" "0 -1 " "scores in the order of merges"
again '"<0x0A>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4, "▁ab": 5' '["▁", "a"], ["▁a", "b"]' '' \
    '{"type": "Metaspace", "replacement": "▁", "prepend_scheme": "first"}' ', "byte_fallback": true'
check "with a space before a text" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.add_space_prefix)" true "a space before a text"

# Steps that engines do not take with pieces.
pieces() { # PRE [NORMALIZER]
    again '"<0x0A>": 0, "▁": 1, "a": 2, "b": 3, "▁a": 4, "▁ab": 5' '["▁", "a"], ["▁a", "b"]' '' "$1" \
        ', "byte_fallback": true'
    normal=${2:-null}
    sed "s/\"normalizer\": null/\"normalizer\": $normal/" "$T/ck/tokenizer.json" > "$T/j" &&
        cp "$T/j" "$T/ck/tokenizer.json"
}
replace='{"type": "Replace", "pattern": {"String": " "}, "content": "▁"}'
pieces '{"type": "Metaspace", "replacement": "_", "prepend_scheme": "never"}'
refused "another letter than U+2581 for a space" "another letter for a space"
pieces '{"type": "Sequence", "pretokenizers": [{"type": "Digits", "individual_digits": true},
    {"type": "Metaspace", "prepend_scheme": "never"}]}'
noted "splits a text before its pieces are joined (Digits)" "digits apart"
pieces '{"type": "Metaspace", "prepend_scheme": "last"}'
refused "this prepend_scheme is unknown" "an unknown scheme"
pieces "{\"type\": \"Split\", \"pattern\": {\"String\": \" \"}, \"behavior\": \"Removed\"}" "$replace"
noted "splits a text before its pieces are joined (Split)" "spaces that are removed"
pieces null
noted "does not write spaces as U+2581" "no letter for a space"
pieces null "{\"type\": \"Sequence\", \"normalizers\": [{\"type\": \"Prepend\", \"prepend\": \"x\"}, $replace]}"
noted "changes text before it is split (Prepend)" "another text before a text"
check_text "$(key tokenizer.ggml.add_space_prefix)" false "a space is not put there"
inner="{\"type\": \"Sequence\", \"normalizers\": [$replace]}"
pieces null "{\"type\": \"Sequence\", \"normalizers\": [$inner, $replace]}"
check "nested normalizers" organ-assemble "$T/ck" --force -o "$T/m.gguf"
grep -q -e "U+2581" -e "changes text" "$T/err" && bad "a note about nested normalizers: $(cat "$T/err")"

# ---- WordPiece and Unigram -------------------------------------------------------------------------------
echo '{"added_tokens": [{"id": 0, "content": "[CLS]", "special": true}], "normalizer": {"type": "BertNormalizer",
 "lowercase": true}, "model": {"type": "WordPiece", "vocab": {"[CLS]": 0, "a": 1, "##b": 2}}}' > "$T/ck/tokenizer.json"
check "WordPiece" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.model) $(tokens_of "$T/m.gguf")" \
    "bert [CLS] ▁a b [PAD3] [PAD4] [PAD5] " "its tokens"
check_text "$(key tokenizer.ggml.normalizer.lowercase)" true "it makes letters small"
# word NORMALIZER PRE MORE: a WordPiece tokenizer.
word() {
    echo "{\"normalizer\": $1, \"pre_tokenizer\": $2, \"model\": {\"type\": \"WordPiece\", $3
        \"vocab\": {\"[CLS]\": 0, \"a\": 1, \"##b\": 2}}}" > "$T/ck/tokenizer.json"
}
letters() { # the keys of a normalizer
    for k in lowercase strip_accents; do key tokenizer.ggml.normalizer.$k 2> "$T/null"; done | tr '\n' ' '
}
bert='{"type": "BertPreTokenizer"}'
word null "$bert" ''
check "WordPiece without a normalizer" organ-assemble "$T/ck" --force -o "$T/m.gguf"
check_text "$(letters)" "false false " "engines must not make letters small"
grep -q "splits a text" "$T/err" && bad "a note about the usual steps: $(cat "$T/err")"
word '{"type": "BertNormalizer", "lowercase": true, "strip_accents": false, "clean_text": false}' \
    '{"type": "Whitespace"}' '"continuing_subword_prefix": "##",'
noted "keeps control characters, or does not split at Chinese letters" "an option of BertNormalizer"
check_text "$(letters)" "true false " "accents stay"
grep -q "splits a text before its pieces are joined (Whitespace)" "$T/err" || bad "words split: $(cat "$T/err")"
word '{"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "NFD"}, {"type": "StripAccents"}]}' null ''
noted "changes text before it is split (NFKC)" "normalizers of words"
check_text "$(letters)" "false true " "accents go"
word null "$bert" '"continuing_subword_prefix": "@@",'
refused "begin with something else than ##" "another mark inside of words"
echo '{"added_tokens": [{"id": 0, "content": "<s>", "special": true}], "normalizer": {"type": "Precompiled",
 "precompiled_charsmap": "AQIDBA=="}, "pre_tokenizer": {"type": "Metaspace", "prepend_scheme": "always"}, "model":
 {"type": "Unigram", "unk_id": 1, "vocab": [["<s>", 0], ["<unk>", 0], ["▁a", -2.5]]}}' > "$T/ck/tokenizer.json"
check "Unigram" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.model) $(types_of "$T/m.gguf")" "t5 3 2 1 5 5 5 " "its types"
check_text "$(key tokenizer.ggml.scores | sed -n 3p) $(key tokenizer.ggml.precompiled_charsmap | tr '\n' ' ')" \
    "-2.5 1 2 3 4 " "its scores and its table of letters"
sed 's/AQIDBA==/A*/' "$T/ck/tokenizer.json" > "$T/j" && cp "$T/j" "$T/ck/tokenizer.json"
refused "precompiled_charsmap is not base64" "a damaged table of letters"

# ---- vocab.json and merges.txt -----------------------------------------------------------------------------
rm "$T/ck/tokenizer.json"
echo "{$abc}" > "$T/ck/vocab.json"
printf '#version: 0.2\na b\nab c\nx y z\n' > "$T/ck/merges.txt"
echo '{"<|end|>": 5}' > "$T/ck/added_tokens.json"
refused "does not say how text is split" "vocab.json without a class"
echo '{"tokenizer_class": "Qwen2Tokenizer"}' > "$T/ck/tokenizer_config.json"
noted "1 lines of merges.txt are not two words" "vocab.json and merges.txt"
check_text "$(tokens_of "$T/m.gguf")$(key tokenizer.ggml.pre)" "a b c ab abc <|end|> qwen2" "their tokens"
check_text "$(key tokenizer.ggml.merges | tr '\n' '.')" "a b.ab c." "their merges"
printf '# b\na b\nab c\n' > "$T/ck/merges.txt"
echo '{"#": 0, "a": 1, "b": 2, "#b": 3}' > "$T/ck/vocab.json"
check "merges.txt without a version" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.merges | head -n 1)" "# b" "its first merge"
printf '{"tokenizer_class": "Qwen2Tokenizer", "eos_token": "a"}' > "$T/ck/tokenizer_config.json"
echo '{"eos_token_id": [2, 9]}' > "$T/ck/generation_config.json"
noted "eos_token is token 1, 'a', but its id is stated as 2" "an id and a text that differ"
grep -q "1 ids in eos_token_id of generation_config.json are not those of a token" "$T/err" ||
    bad "an end without a token: $(cat "$T/err")"
rm "$T/ck/generation_config.json"
rm "$T/ck/vocab.json" "$T/ck/merges.txt" "$T/ck/added_tokens.json" "$T/ck/tokenizer_config.json"
check "no tokenizer" organ-assemble "$T/ck" --force -o "$T/m.gguf"
grep -q "has no tokenizer.json or tokenizer.model" "$T/err" || bad "no note about a missing tokenizer"

# ---- SentencePiece -----------------------------------------------------------------------------------------
sp=$D/hf/gemma3-vlm/tokenizer.model
checkpoint "$T/ck" 96
size=$(wc -c < "$sp")
cp "$sp" "$T/ck/tokenizer.model"
check "tokenizer.model" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
have_all=$(tokens_of "$T/m.gguf" | wc -c)
for cut in 1 2 3 10 $((size / 3)) $((size / 2)) $((size - 1)); do
    head -c "$cut" "$sp" > "$T/ck/tokenizer.model"
    organ-assemble "$T/ck" --force -q -o "$T/m.gguf" 2> "$T/err"
    status=$?
    if [ $status = 3 ] && one_line "$T/err"; then ok
    elif [ $status = 0 ] && [ "$(tokens_of "$T/m.gguf" | wc -c)" -ne "$have_all" ]; then ok # cut between two pieces
    else bad "tokenizer.model cut after $cut bytes: exit $status: $(cat "$T/err")"; fi
done
for cut in $(if exhaustive; then awk -v n="$size" 'BEGIN { for (i = 1; i < n; i++) print i }'; fi); do
    head -c "$cut" "$sp" > "$T/ck/tokenizer.model"
    organ-assemble "$T/ck" --force -o "$T/m.gguf" 2> "$T/err" || [ $? = 3 ] || bad "cut after $cut bytes"
    grep -q -e "end is missing" -e "end were missing" "$T/err" || bad "cut after $cut bytes: $(cat "$T/err")"
done
cp "$sp" "$T/ck/tokenizer.model"
noted "nothing after its 87 pieces, as if its end were missing" "a model that may be cut between two pieces"
check "a name for its pre-tokenizer" organ-assemble "$T/ck" --pre other --force -q -o "$T/m.gguf"
check_text "$(key tokenizer.ggml.pre)" other "it is taken"
# The trainer's settings follow the pieces, and then those of the normalizer: a table of one byte, no space before
{ cat "$sp"; printf '\022\002\030\002\032\005\022\001x\030\000'; } > "$T/ck/tokenizer.model"
noted "changes letters before a text is split" "a table of letters"
grep -q "takes several spaces for one" "$T/err" || bad "spaces: $(cat "$T/err")"
grep -q "puts no space before a text, but engines do" "$T/err" || bad "a space before a text: $(cat "$T/err")"
grep -q -e "end were missing" -e Unigram "$T/err" && bad "a note about a whole model: $(cat "$T/err")"
{ cat "$sp"; printf '\022\002\030\002\032\004\030\001\040\000'; } > "$T/ck/tokenizer.model"
check "a whole model" organ-assemble "$T/ck" --force -o "$T/m.gguf"
grep "tokenizer.model" "$T/err" && bad "a note about a whole model: $(cat "$T/err")"
# tokenizer.json with the same tokens, but for one, one more and one less
organ-keys "$T/m.gguf" --get tokenizer.ggml.tokens | head -n 87 > "$T/words"
json_of() { # of lines with a text, a tab and an id
    awk -F "$TAB" 'BEGIN { printf "{\"model\": {\"type\": \"BPE\", \"merges\": [], \"vocab\": {" }
        { gsub(/[\\"]/, "\\\\&", $1); printf "%s\"%s\": %d", (NR > 1 ? ", " : ""), $1, $2 }
        END { print "}}}" }' > "$T/ck/tokenizer.json"
}
awk -v OFS="$TAB" '{ print $0, NR - 1 }' "$T/words" | json_of
check "the same tokens in tokenizer.json" organ-assemble "$T/ck" --force -o "$T/m.gguf"
grep "tokenizer.json" "$T/err" && bad "a note about the same tokens: $(cat "$T/err")"
awk -v OFS="$TAB" 'NR != 8 { print (NR == 6 ? "other" : $0), (NR == 7 ? 90 : NR - 1) }' "$T/words" | json_of
noted "other tokens than tokenizer.model, which is used: 4 differ, such as token 5, which is 'other' there" \
    "another tokenizer.json"
rm "$T/ck/tokenizer.json"
{ cat "$sp"; printf '\012\377\377\377\377\377\377\377\377\377\001x'; } > "$T/ck/tokenizer.model"
refused "SentencePiece model is damaged, or its end is missing" "a piece of 2^63 bytes"
{ cat "$sp"; printf '\0'; } > "$T/ck/tokenizer.model"
refused "SentencePiece model is damaged, or its end is missing" "a field without a number"
: > "$T/ck/tokenizer.model"
refused "this SentencePiece model has no pieces; download it again" "an empty tokenizer.model"
printf 'IQ== 0\nIg== 1\n' > "$T/ck/tokenizer.model"
refused "this is a vocabulary of tiktoken, which lacks the merges; add the tokenizer.json" "a file of tiktoken"
checkpoint "$T/ck" 40
cp "$sp" "$T/ck/tokenizer.model"
refused "tokens, but the embeddings have 40 rows" "more pieces than rows"
checkpoint "$T/ck" 96
cp "$sp" "$T/ck/tokenizer.model"
echo '{"<far>": 96, "<in>": 95}' > "$T/ck/added_tokens.json"
noted "added token '<far>' has id 96, but the embeddings have 96 rows: it is left out" "an added token beyond the rows"
check_text "$(organ-keys "$T/m.gguf" --get tokenizer.ggml.tokens | tail -n 1)" "<in>" "the other one is there"
# objects N FORMAT: N values with two numbers, of which the second begins at 96.
objects() {
    awk -v n="$1" -v form="$2" 'BEGIN { for (i = 0; i < n; i++) printf "%s" form, i ? ", " : "", i, 96 + i }'
}
echo "{$(objects 20000 '"far%d": %d')}" > "$T/ck/added_tokens.json"
check "20,000 tokens beyond the rows" limited 5 organ-keys "$T/ck"
[ "$(wc -l < "$T/err")" -lt 70 ] && grep -q ' more notes on the tokenizer are left out$' "$T/err" && ok ||
    bad "20,000 tokens beyond the rows: $(wc -l < "$T/err") notes"
rm "$T/ck/added_tokens.json"
for n in 256 257; do
    echo "{\"chat_template\": [$(objects $n '{"name": "t%d", "template": "%d"}')]}" > "$T/ck/tokenizer_config.json"
    case $n in
    256) check "$n chat templates" organ-assemble "$T/ck" --force -q -o "$T/m.gguf" ;;
    *) refused "it has more than 256 chat templates" "$n chat templates" ;;
    esac
done
rm "$T/ck/tokenizer_config.json"

# ---- JSON without a tokenizer -----------------------------------------------------------------------------
checkpoint "$T/ck" 6
printf '{"model": {"type": "BPE", "vocab": {"\\ud800": 0}, "merges": []}}' > "$T/ck/tokenizer.json"
refused "surrogate" "half of a surrogate pair"
printf '{"model": {"type": "BPE", "vocab": {"a": 0, "a": 1}, "merges": []}}' > "$T/ck/tokenizer.json"
refused "appears twice" "a text that repeats"
awk 'BEGIN { for (i = 0; i < 100000; i++) printf "[" }' > "$T/ck/tokenizer.json"
refused "nest" "100,000 nested arrays"
printf '{"model": {"type": "BPE", "voc' > "$T/ck/tokenizer.json"
refused "the closing quote of a string is missing" "half a file"
echo '{"model": {"type": "Magic"}}' > "$T/ck/tokenizer.json"
refused "no model of a kind that engines know" "an unknown kind"
echo '[]' > "$T/ck/tokenizer.json"
refused "" "an array"
echo '{"model": {"type": "BPE", "vocab": [1], "merges": []}}' > "$T/ck/tokenizer.json"
refused "vocab is missing, or it is not an object" "an array of tokens"
printf '{"model"' | dd of="$T/ck/tokenizer.json" bs=1 seek=$((256 * 1024 * 1024)) 2> /dev/null
refused "the limit for this file is 268435456" "more than 256 MiB"
grep -q "take the vocabulary of a converted model (--vocab-from)" "$T/refusal" ||
    bad "advice for a large file: $(cat "$T/refusal")"
checkpoint "$T/ck" 262150
again "$abc" "$merged" "$end"
check "as many rows as may be unused" organ-assemble "$T/ck" --force -q -o "$T/m.gguf"
checkpoint "$T/ck" 262151
again "$abc" "$merged" "$end"
refused "has 6 tokens for 262151 ids; at most 262144 may be unused" "more rows than may be unused"
again "$abc" "$merged" '{"id": 262150, "content": "<|end|>", "special": true}'
refused "has 6 tokens for 262151 ids; at most 262144 may be unused" "a token that is far behind the others"
echo '{"model": {"type": "Unigram", "unk_id": 1, "vocab": [["<s>", 0], ["<unk>", 0], ["a", -2.5]]}}' \
    > "$T/ck/tokenizer.json"
refused "has 3 tokens for 262151 ids; at most 262144 may be unused" "the same for Unigram"
rm "$T/ck/tokenizer.json"
checkpoint "$T/ck" 262300
cp "$sp" "$T/ck/tokenizer.model"
refused "ids; at most 262144 may be unused" "the same for pieces"

finish
