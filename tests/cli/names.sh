#!/bin/sh
# shellcheck disable=SC1091,SC2034,SC2086,SC2154,SC2329
# names.sh - names of tensors of every length, in every kind of source, with every tool. A tool works with
# names of up to 255 bytes; it refuses longer ones in one line when it opens the source. Under sanitizers, which
# this is for, all lengths are tried with all of them, otherwise those near the limits.
. "$(dirname "$0")/lib.sh"
ASAN_OPTIONS=${ASAN_OPTIONS:+$ASAN_OPTIONS:}exitcode=99
export ASAN_OPTIONS
LIMIT=255
LENGTHS='255 256'
if exhaustive; then LENGTHS="64 $LENGTHS"; fi
[ -z "${SANITIZED:-}" ] || LENGTHS='63 64 127 255 256 1000 100000'
b=$LAB/lab-verse-q4_k_m.gguf
o=$T/out-model
mkdir "$T/api" "$T/spool"
echo 0123456789abcdef > "$T/token"

# num BYTES NUMBER...: little-endian numbers.
num() {
    width=$1 text=''
    shift
    for left in "$@"; do
        k=0
        while [ $k -lt $width ]; do
            text="$text\\0$((left / 64 % 4))$((left / 8 % 8))$((left % 8))"
            left=$((left / 256)) k=$((k + 1))
        done
    done
    printf '%b' "$text"
}

# name BYTES HEAD TAIL: HEAD, as many letters as it takes, TAIL.
name() {
    awk -v n="$1" -v head="$2" -v tail="$3" 'BEGIN {
        for (s = "abcdefgh"; length(s) < n; ) s = s s
        printf "%s%s%s", head, substr(s, 1, n - length(head) - length(tail)), tail }'
}

# The tensors of a source: head and tail of a name, and the dims, from the row on. All sizes are multiples of 32.
TENSORS="- - 32
blk.0. .weight 32 4
blk.0.ffn_ .weight 32 32
blk.0.ffn_gate_ _exps.weight 32 4 2
blk.0.attn_q. .weight 32 2 2 1 1
blk.0.ffn_ .lora_a 32 2
blk.0.ffn_ .lora_b 2 32"

# each BYTES COMMAND: runs COMMAND NAME-FILE DIM... for each tensor.
each() {
    echo "$TENSORS" > "$T/tensors"
    while read -r head tail dims; do
        [ "$head" != - ] || head='' tail=''
        name "$1" "$head" "$tail" > "$T/name"
        $2 "$T/name" $dims
    done < "$T/tensors"
}

size_of() { # DIM...: the bytes of its values
    size=4
    for d in "$@"; do size=$((size * d)); done
}

# ---- the kinds of sources ---------------------------------------------------------------------
# make_KIND BYTES sets s to the source, and `in` to a command that writes it to a pipe.

safetensors_entry() {
    printf '%s"%s":{"dtype":"F32","shape":[' "$sep" "$(cat "$1")"
    shift
    size_of "$@"
    shape=$1
    shift
    for d in "$@"; do shape=$d,$shape; done
    printf '%s],"data_offsets":[%d,%d]}' "$shape" $at $((at + size))
    at=$((at + size)) sep=,
}
make_safetensors() { # BYTES [ENTRY]
    at=0 sep=''
    s=$T/$1.safetensors
    { printf '{%s' "${2:-}" && each "$1" safetensors_entry && printf '}'; } > "$T/header"
    { num 8 "$(wc -c < "$T/header")" && cat "$T/header" && head -c 20000 /dev/zero | head -c $at; } > "$s"
}

# As the tools write it, with the keys of a model.
KEYS='[{\"key\": \"general.architecture\", \"type\": \"str\", \"value\": \"llama\"},
    {\"key\": \"llama.block_count\", \"type\": \"u32\", \"value\": 1},
    {\"key\": \"llama.expert_count\", \"type\": \"u32\", \"value\": 2},
    {\"key\": \"tokenizer.ggml.tokens\", \"type\": \"arr\", \"items\": \"str\", \"value\": [\"a\"]},
    {\"key\": \"llama.attention.head_count\", \"type\": \"u32\", \"value\": 1}]'
KEYS=$(printf '%s' "$KEYS" | tr '\n' ' ')
make_own_safetensors() {
    make_safetensors "$1" "\"__metadata__\":{\"gguf.keys\":\"$KEYS\",\"gguf.names\":\"gguf\"},"
}

# An adapter of PEFT, whose pairs have long names.
make_peft() {
    at=0 sep=''
    s=$T/peft-$1
    mkdir "$s"
    echo '{"peft_type": "LORA", "r": 2, "lora_alpha": 4, "base_model_name_or_path": "x"}' > "$s/adapter_config.json"
    {
        printf '{'
        for end in .lora_A.weight .lora_B.weight; do
            name "$1" base_model.model.model.layers.0. $end > "$T/name"
            [ $end = .lora_A.weight ] && safetensors_entry "$T/name" 32 2 || safetensors_entry "$T/name" 2 32
        done
        printf '}'
    } > "$T/header"
    { num 8 "$(wc -c < "$T/header")" && cat "$T/header" && head -c $at /dev/zero; } > "$s/adapter_model.safetensors"
}

text() { num 8 ${#1} && printf %s "$1"; }
gguf_keys() { # N: of which the caller adds more
    printf GGUF
    num 4 3
    num 8 7 $((4 + $1))
    text general.architecture && num 4 8 && text llama
    text llama.block_count && num 4 4 1
    text llama.expert_count && num 4 4 2
    text llama.attention.head_count && num 4 4 1
}
gguf_entry() {
    num 8 "$(wc -c < "$1")" && cat "$1"
    shift
    size_of "$@"
    num 4 $# && num 8 "$@" && num 4 0 && num 8 $at
    at=$((at + size))
}
make_gguf() {
    at=0
    s=$T/$1.gguf
    { gguf_keys 0 && each "$1" gguf_entry; } > "$s"
    head -c $((31 - ($(wc -c < "$s") + 31) % 32 + at)) /dev/zero >> "$s"
}
make_adapter() {
    at=0
    s=$T/adapter-$1.gguf
    {
        gguf_keys 3
        text general.type && num 4 8 && text adapter
        text adapter.type && num 4 8 && text lora
        text adapter.lora.alpha && num 4 6 1073741824
        each "$1" gguf_entry
    } > "$s"
    head -c $((31 - ($(wc -c < "$s") + 31) % 32 + at)) /dev/zero >> "$s"
}
make_pipe() {
    make_gguf "$1"
    piped=$s s=-
}

record() {
    num 4 "$(wc -c < "$1")" && cat "$1"
    shift
    num 4 $# && num 8 "$@" && num 4 0
    size_of "$@"
    head -c $size /dev/zero
}
make_records() {
    s=$T/$1.bin
    each "$1" record > "$s"
}
make_stream() {
    make_records "$1"
    piped=$s s=-
}

# A directory of names that fit, in whose manifest they become longer.
make_directory() {
    [ "$1" -le $LIMIT ] && make_gguf "$1" || make_gguf $LIMIT
    organ-extract -q "$s" -o "$T/dir-$1"
    rm "$s"
    s=$T/dir-$1
    [ "$1" -gt $LIMIT ] || return 0
    name $(($1 - LIMIT)) '' '' > "$T/name"
    awk -v file="$T/name" 'BEGIN { getline more < file } /"name": "blk/ { sub(/abcdefgh/, "abcdefgh" more) }
        { print }' "$s/manifest.json" > "$T/manifest" && mv "$T/manifest" "$s/manifest.json"
}

# ---- the commands -----------------------------------------------------------------------------
# $s is the source, $b a model, $o an output. After 0, it must succeed with a model of a GGUF file or directory.
COMMANDS='- organ-api GET info $s
0 organ-assemble $s -o $o
0 organ-assemble $s -o $o.safetensors
0 organ-assemble $s --dtype q8_0 -o $o
0 organ-assemble $s --shards 2 -o $o
- organ-prune $s --experts 1 -o $o
- organ-vocab $s
- organ-vocab $s --list
- organ-vocab $s $b
- organ-vocab add $s --pad 64 -o $o
- organ-check $s
- organ-check $s --data
0 organ-check $s --hash
- organ-check $s --target $b
- organ-check $b --target $s
0 organ-compare $s $s
- organ-compare $b $s
- organ-compare $s $b --summary
0 organ-compare $s $s --lineage
- organ-compare $s $b --align
0 organ-compare $s $s --svg $o.svg
- organ-compare $b $s --patch $o
0 organ-extract $s --list
0 organ-extract $s --list --split-experts --json
0 organ-extract $s -o $o
0 organ-extract $s --split-experts -o $o
0 organ-extract $s -o -
0 organ-extract $s --safetensors -o $o.safetensors
0 organ-graft $s $s -o $o
- organ-graft $b $s --add -o $o
- organ-graft $s $s --experts 0 --match convert -o $o
- organ-imatrix show $s
- organ-imatrix combine $s $s -o $o
0 organ-info $s
0 organ-info $s --json
0 organ-keys $s
0 organ-keys $s --set x.y=u32:1 -o $o
- organ-lora $s $s --rank 2 -o $o
- organ-lora --base $b --from $s -o $o
0 organ-measure $s
0 organ-measure $s --summary
0 organ-measure $s --split-experts --svg $o.svg
- organ-measure $b --imatrix $s
- organ-merge $s $s --method linear -o $o
- organ-merge --method task --base $b --model $s -o $o
0 organ-purify $s -o $o
0 organ-stack $s 0,0 -o $o
- organ-stack --experts-from $s,$s --base $s -o $o
0 organ-transplant $s $s -o $o
- organ-transplant $b $s --add -o $o
- organ-transplant $b --adapter $s -o $o
- organ-transplant $s $s --experts 0=1 -o $o'

# One line for each failure: how it ended, and what it said.
run() { # BYTES COMMAND
    must=${2%% *} command=${2#* }
    case $command in
    organ-api*)
        [ "$s" = - ] && return
        cp -R "$s" "$T/api/"
        PATH_INFO=/v1/info/${s##*/} REQUEST_METHOD=GET ORGAN_API_DATA=$T/api ORGAN_API_SPOOL=$T/spool \
            ORGAN_API_TOKEN_FILE=$T/token ORGAN_API_BIN=$BIN organ-api > "$T/out" 2> "$T/err" < /dev/null
        got=$?
        grep -q '^Status: ' "$T/out" || got=5
        ! grep -q '^Status: 5' "$T/out" || got=6
        rm -rf "$T/api/${s##*/}"
        ;;
    *)
        eval "$command" > "$T/out" 2> "$T/err" < "$piped"
        got=$?
        ;;
    esac
    set -- "$1" "$o"*
    [ ! -e "$2" ] || rm -rf "$o"*
    if [ -n "${SANITIZED:-}" ] && grep -q -e 'runtime error' -e Sanitizer "$T/err"; then
        bad "$what: $(grep -e error: "$T/err" | head -n 1)"
    elif [ $got -gt 4 ]; then bad "$what: exit $got"
    elif [ "$1" -le $LIMIT ]; then
        case $must$kind in
        0gguf | 0directory | 0own_safetensors)
            [ $got = 0 ] && ok || bad "$what: exit $got, 0 wanted: $(head -n 1 "$T/err" | cut -c 1-300)"
            ;;
        *) ok ;;
        esac
    elif [ "${command%% *}" = organ-api ]; then ok
    elif [ $got = 2 ] && [ "$s" = - ] || [ $got = 1 ]; then
        case $command in # a pipe cannot be read twice; organ-check prints malformed models in its table
        organ-check*) grep -q "bytes" "$T/out" && ok || bad "$what: $(head -n 2 "$T/out" | cut -c 1-300)" ;;
        *) [ $got = 2 ] && ok || bad "$what: exit 1: $(head -n 1 "$T/err" | cut -c 1-300)" ;;
        esac
    elif [ $got != 3 ]; then bad "$what: exit $got, 3 wanted: $(head -n 1 "$T/err" | cut -c 1-300)"
    elif ! grep -q -e bytes -e 'an entry has no name' -e 'name is too long' -e 'importance matrix' "$T/err"; then
        bad "$what: $(head -n 1 "$T/err" | cut -c 1-300)"
    else ok
    fi
}

echo "$COMMANDS" > "$T/commands"
for tool in "$BIN"/organ-*; do
    tool=${tool##*/}
    [ "$tool" = organ-probe ] || grep -q "^. $tool " "$T/commands" || bad "no command of $tool is tried"
done
# Each command with each kind if every case is tested, otherwise with a third of the kinds.
turn=0
for kind in safetensors own_safetensors peft gguf adapter pipe records stream directory; do
    turn=$((turn + 1))
    for n in $LENGTHS; do
        piped=/dev/null
        make_$kind $n
        count=$turn
        while read -r row; do
            count=$((count + 1))
            [ $((count % 3)) = 0 ] || [ -n "${SANITIZED:-}" ] || exhaustive || continue
            what="$kind, $n bytes: ${row#* }"
            run $n "$row"
        done < "$T/commands"
        rm -rf "$s"
    done
done
finish
