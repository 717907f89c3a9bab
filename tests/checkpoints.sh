#!/bin/sh
# checkpoints.sh - small checkpoints, most of them of zeros, and checks of notes. hf_cases.sh, hf_shapes.sh and
# surgery.sh of tests/cli read it after lib.sh.
# shellcheck disable=SC2034,SC2154 # variables of these tests, and of lib.sh

# stored FILE [TYPE]: a safetensors file of zeros with the tensors that stdin lists, one per line: name and dims.
# A third form, name:TYPE, gives one tensor another type. METADATA is the text of its __metadata__, if not empty.
METADATA=''
stored() {
    bytes=$(stored_header "$@")
    head -c "$bytes" /dev/zero >> "$1"
}
# stored_header FILE [TYPE]: only the header; prints the number of bytes that must follow.
stored_header() {
    awk -v usual="${2:-F32}" -v metadata="$METADATA" 'BEGIN {
        size["F32"] = size["I32"] = size["U32"] = 4; size["F16"] = size["BF16"] = size["U16"] = size["I16"] = 2
        size["U8"] = size["I8"] = size["F8_E4M3"] = size["F8_E5M2"] = size["F8_E8M0"] = size["BOOL"] = 1
        size["F4"] = size["F6_E2M3"] = size["X9"] = 1; size["C64"] = size["I64"] = 8
        if (metadata != "") head = "{\"__metadata__\":{" metadata "}"
    } {
        type = usual
        if (split($1, part, ":") == 2) type = part[2]
        n = size[type]
        shape = ""
        for (i = 2; i <= NF; i++) { n *= $i; shape = shape (i > 2 ? "," : "") $i }
        head = head (head == "" ? "{" : ",") "\"" part[1] "\":{\"dtype\":\"" type "\",\"shape\":[" shape \
            "],\"data_offsets\":[" at + 0 "," at + n "]}"
        at += n
    } END {
        head = head "}"
        while (length(head) % 8) head = head " "
        printf "%s", head
        print at + 0 > "/dev/stderr"
    }' > "$T/header" 2> "$T/bytes"
    n=$(wc -c < "$T/header")
    printf '%b' "$(printf '\\0%03o\\0%03o\\0%03o\\0\\0\\0\\0\\0' $((n % 256)) $((n / 256 % 256)) $((n / 65536)))" \
        > "$1"
    cat "$T/header" >> "$1"
    cat "$T/bytes"
}

# blocks N LINES: each line N times, with % replaced by the number of the block.
blocks() {
    echo "$2" | awk -v n="$1" '{ line[NR] = $0 } END {
        for (l = 0; l < n; l++) for (i = 1; i <= NR; i++) { s = line[i]; gsub(/%/, l, s); print s }
    }'
}
l=model.layers.%
attn="$l.input_layernorm.weight 8
$l.post_attention_layernorm.weight 8
$l.self_attn.q_proj.weight 8 8
$l.self_attn.k_proj.weight 4 8
$l.self_attn.v_proj.weight 4 8
$l.self_attn.o_proj.weight 8 8
$l.mlp.gate_proj.weight 16 8
$l.mlp.up_proj.weight 16 8
$l.mlp.down_proj.weight 8 16"
qk="$l.self_attn.q_norm.weight 4
$l.self_attn.k_norm.weight 4"
four="$l.pre_feedforward_layernorm.weight 8
$l.post_feedforward_layernorm.weight 8"
ends="model.embed_tokens.weight 12 8
model.norm.weight 8"
head="lm_head.weight 12 8"

two=$(blocks 2 "$attn") # the tensors of two dense blocks
tied='"tie_word_embeddings": true'

# config CLASS LAYERS MEMBERS: config.json on stdout.
config() {
    echo "{\"architectures\": [\"$1\"], \"num_hidden_layers\": $2, \"hidden_size\": 8, \"intermediate_size\": 16,
        \"num_attention_heads\": 2, \"num_key_value_heads\": 1, \"head_dim\": 4, \"vocab_size\": 12,
        \"rms_norm_eps\": 1e-6, \"max_position_embeddings\": 64, \"rope_theta\": 10000.0${3:+, $3}}"
}
# model FOLDER CLASS LAYERS MEMBERS TENSORS
model() {
    rm -rf "$1"
    mkdir "$1"
    config "$2" "$3" "$4" > "$1/config.json"
    echo "$5" | stored "$1/model.safetensors"
}
llama() { model "$1" LlamaForCausalLM 2 "$2" "$ends
$head
$(blocks 2 "$attn")"; }

# noted TEXT WHAT COMMAND...: it succeeds, and a note has the text.
noted() {
    text=$1
    shift
    check "$@"
    grep -qF -e "$text" err || bad "$1: no '$text' in: $(cat err)"
}
# quiet WHAT COMMAND...: it succeeds without a note.
quiet() {
    check "$@"
    [ ! -s err ] || bad "$1: $(cat err)"
}

# config_only CLASS LAYERS MEMBERS: the folder m with config.json and nothing else.
config_only() {
    rm -rf m
    mkdir m
    config "$@" > m/config.json
}
# edit COMMAND: changes m/config.json with a command of sed.
edit() { sed "$1" m/config.json > edited && cp edited m/config.json; }

# The last tensor of the file gets a value, so that a head behind the others differs from the embeddings.
differ() { printf '\001' | dd of=m/model.safetensors bs=1 seek=$(($(wc -c < m/model.safetensors) - 1)) conv=notrunc \
    2> ./dd; }
