# shellcheck shell=sh disable=SC2016,SC2034,SC2086,SC2154,SC3045
# rows.sh - the inputs of tests/cli/promises.rows, and how its rows are run. promises.sh, zerodims.sh and
# tests/faults/run.sh read it after lib.sh.
#   ONLY_ROWS=TEXT   only the rows that contain the text
I=$T/in O=$T/o
mkdir "$I" "$O"

# ---- inputs -----------------------------------------------------------------------------------
model() { # FILE SEED
    file=$1 seed=$2
    shift 2
    [ "$I" = "$T/in" ] || set -- "blk.0.<script>alert(1)</script>.weight:F32:32" \
        "blk.0.a${ESC}[31m$(printf '\rb').weight:F32:32" \
        'blk.1.`touch pwned`$(touch pwned);|&"'"'"'.weight:F32:32' \
        "blk.1.$BIDI${ZERO}x${NEWLINE}y${TAB}z.weight:F32:32" \
        "blk.1.$(printf '\377\376').weight:F32:32" "../../pwned:F32:32"
    mkmodel "$I/$file" -s "$seed" -k llama.embedding_length=32 -k llama.block_count=2 -n 2 token_embd.weight:F32:32x8 \
        blk.%.attn_norm.weight:F32:32 blk.%.attn_q.weight:F32:32x32 blk.%.ffn_norm.weight:F32:32 \
        blk.%.ffn_gate.weight:F32:32x32 blk.%.ffn_up.weight:F32:32x32 blk.%.ffn_down.weight:F32:32x32 \
        output_norm.weight:F32:32 "$@" || return 1
    [ "$I" = "$T/in" ] && return
    organ-keys -q "$I/$file" --set "general.name=str:$WILD" --set "x$WILD=str:$WILD" \
        --set "general.license=str:$WILD" \
        -o "$I/wild.gguf" && mv "$I/wild.gguf" "$I/$file"
}
ESC=$(printf '\033') CR=$(printf '\r') BIDI=$(printf '\342\200\256') ZERO=$(printf '\342\200\213') NEWLINE='
'
WILD="<script>alert(1)</script> ${ESC}[2J$BIDI$ZERO\`touch pwned\` \$(touch pwned) | \"'&;${NEWLINE}[x](javascript:x)"
probed() { # what organ-probe reads: a model that the engine runs, and what it stores of it
    m=$I/run.gguf
    organ-stack -q "$LAB/lab-verse-q4_k_m.gguf" 0 -o "$m" &&
        { [ "$I" = "$T/in" ] || { organ-keys -q "$m" --set "general.name=str:$WILD" -o "$m.new" &&
        mv "$m.new" "$m"; }; } &&
        organ-probe -q "$m" --text "$t" --save-base "$I/base" > "$T/out" &&
        printf 'ppl\t%s\t%s\nkl\t%s\t%s\nppl\t%s\t%s\n' "$m" "$t" "$m" "$t" "$I/a.gguf" "$t" > "$I/requests"
}
inputs() {
    model a.gguf 1 && model b.gguf 2 && model c.gguf 3 &&
        mkmodel "$I/x.gguf" -s 4 -k llama.expert_count=4 -k llama.expert_used_count=1 \
        -k llama.feed_forward_length=32 token_embd.weight:F32:32x8 \
            blk.0.ffn_gate_inp.weight:F32:32x4 blk.0.ffn_gate_exps.weight:F32:32x32x4 \
            blk.0.ffn_up_exps.weight:F32:32x32x4 blk.0.ffn_down_exps.weight:F32:32x32x4 &&
        imatrix "$I/i.gguf" blk.0.attn_q.weight:32:1:2 blk.1.ffn_up.weight:32:x3:4 &&
        imatrix "$I/j.gguf" blk.0.ffn_gate_exps.weight:32:1,2,3,4:1,2,3,4 \
            blk.0.ffn_up_exps.weight:32:1,2,3,4:1,2,3,4 blk.0.ffn_down_exps.weight:32:4,3,2,1:1,2,3,4 &&
        mkmodel "$I/act.gguf" -s 5 blk.0.ffn_down_exps.weight.sample:F32:32x40x4 &&
        made "$I/v.gguf" "$(
            printf '{"key": "tokenizer.ggml.tokens", "type": "arr", "items": "str", '
            printf '"value": ["a","b","c","d","e","f","g","h"]},\n'
            printf '{"key": "tokenizer.ggml.model", "type": "str", "value": "llama"},')" \
            token_embd.weight:F32:32x8 &&
        organ-extract -q "$I/a.gguf" -o "$I/d" && organ-extract -q "$I/b.gguf" -o "$I/e" &&
        organ-assemble -q "$I/a.gguf" --shards 3 -o "$I/s.gguf" &&
        organ-lora -q "$I/a.gguf" "$I/b.gguf" --rank 2 -o "$I/l.gguf" &&
        organ-imatrix convert "$I/j.gguf" --format dat -o "$I/old.dat" -q &&
        organ-check "$I/a.gguf" --hash > "$I/hashes" || return 1
    organ-compare -q "$I/a.gguf" "$I/b.gguf" --patch "$I/p.gguf" > "$T/out"
    cp "$I/v.gguf" "$I/w.gguf"
    mkdir "$I/peft" && cp "$D"/hf/lora-falcon/* "$I/peft" && cp -r "$D/hf/falcon" "$I/falcon"
    organ-lora -q --base "$I/falcon" --from "$I/peft" -o "$I/adapter.gguf"
    printf 'blk.0.attn_q.weight\nblk.1.ffn_up.weight\n' > "$I/names"
    echo 'To be, or not to be, that is the question.' > "$I/${t##*/}"
    [ ! -x "$BIN/organ-probe" ] || probed || return 1
    printf 'tensor\ttype\tloss\nblk.0.attn_q.weight\tq8_0\t0.02\nblk.0.attn_q.weight\tq4_0\t0.1\n' > "$I/losses"
    printf '*.attn_q.*=q8_0\n' > "$I/rules"
    printf '1\n3\n' > "$I/ids"
    printf '2\t2\n' > "$I/counts"
    printf 'a\tb\n' > "$I/pairs"
    printf '<tool>\n' > "$I/tokens"
    printf '0\t0,2\n' > "$I/experts"
    printf 'block\texpert\tscore\n0\t0\t1\n0\t1\t2\n0\t2\t3\n0\t3\t4\n' > "$I/ranks"
    printf '{"merge_method": "linear", "models": [{"model": "a.gguf", "parameters": {"weight": 1}},
        {"model": "b.gguf", "parameters": {"weight": 1}}]}\n' > "$I/merge.json"
}
names() { # the inputs in $I
    a=$I/a.gguf b=$I/b.gguf c=$I/c.gguf d=$I/d e=$I/e s=$I/s-00002-of-00003.gguf x=$I/x.gguf p=$I/p.gguf l=$I/l.gguf
    i=$I/i.gguf j=$I/j.gguf m=$I/run.gguf t=$I/text
}
names
inputs > "$T/out" 2>&1 || { bad "the inputs: $(tail -n 3 "$T/out")"; finish; }
names
o=$O/out u=$O/changed
mkdir "$T/spool" "$T/spool/jobs"
echo 0123456789abcdef > "$T/token"
HTTP_AUTHORIZATION='Bearer 0123456789abcdef'
export HTTP_AUTHORIZATION
find "$I" -type f -exec cksum {} + | sort > "$T/before"
inputs_kept() { # WHAT
    find "$I" -type f -exec cksum {} + | sort | cmp -s - "$T/before" && return
    bad "$1: an input was changed"
    find "$I" -type f -exec cksum {} + | sort > "$T/before"
}

# ---- the kinds of sources ---------------------------------------------------------------------
# What a path may name, besides a GGUF file: for the tests that give each of them to every tool.
FORMS='- checkpoint dir records shards-00001-of-00002.gguf model.safetensors split-checkpoint tokenizer mamba peft'
# make_forms: one of each in $I/forms, of $a where a form can have it.
make_forms() {
    f=$I/forms
    mkdir "$f" && organ-extract -q "$a" -o "$f/dir" && organ-extract -q "$a" -o - > "$f/records" &&
        organ-extract -q "$a" --safetensors -o "$f/model.safetensors" &&
        organ-assemble -q "$a" --shards 2 -o "$f/shards.gguf" &&
        cp -r "$D/hf/falcon" "$f/checkpoint" && cp -r "$D/hf/gemma3-vlm" "$f/tokenizer" &&
        cp -r "$D/hf/mamba2" "$f/mamba" && cp -r "$D/hf/lora-falcon" "$f/peft" || return 1
    sed "s|\"base_model_name_or_path\": \"[^\"]*\"|\"base_model_name_or_path\": \"$f/checkpoint\"|" \
        "$D/hf/lora-falcon/adapter_config.json" > "$f/peft/adapter_config.json"
    ( # in two files, which the index names
        . tests/checkpoints.sh
        s=$f/split-checkpoint
        llama "$s" "" && rm "$s/model.safetensors" &&
            printf '%s\n' "$ends" "$head" | stored "$s/one.safetensors" &&
            blocks 2 "$attn" | stored "$s/two.safetensors" &&
            { printf '%s\n' "$ends" "$head"; blocks 2 "$attn"; } | awk '{
                    all = all (NR > 1 ? "," : "") "\"" $1 "\":\"" (/layers/ ? "two" : "one") ".safetensors\""
                } END { print "{\"weight_map\":{" all "}}" }' > "$s/model.safetensors.index.json"
    )
}

# formed PATH: rows in which the models that are read are this source.
formed() {
    awk -v path="$1" '{
        for (w = 3; w <= NF; w++)
            if ($w ~ /^\$([abcxi]|I\/v\.gguf)$/ && (path != "-" || !done++)) {
                at = index($0 " ", " " $w " ")
                $0 = substr($0, 1, at) path substr($0, at + 1 + length($w))
            }
        print $0 (path == "-" ? " < $a" : "")
        done = 0
    }'
}

# ---- rows ---------------------------------------------------------------------------------------
grep -v '^#' tests/cli/promises.rows | grep -F -e "${ONLY_ROWS:-organ}" > "$T/rows"
if [ ! -x "$BIN/organ-probe" ]; then
    grep -v ' organ-probe ' "$T/rows" > "$T/built"
    mv "$T/built" "$T/rows"
    echo "left out: promises of organ-probe, which tests/engine/probe.sh runs (make probe)"
fi

empty() { # whether $O is; many runs leave it so, and no program needs to look
    for f in "$O"/* "$O"/.[!.]*; do [ ! -e "$f" ] && [ ! -L "$f" ] || return 1; done
}
# reset: an empty $O, with the model that is changed in place.
reset() {
    if [ ! -d "$O" ]; then mkdir "$O"; elif ! empty; then rm -rf "${O:?}"/* "${O:?}"/.[!.]*; fi
    case $row in
    *'$u.d'*) cp -r "$d" "$u.d" ;;
    *'$u.gguf'*) cp "$a" "$u.gguf" ;;
    *'$u.txt'*) cp "$t" "$u.txt" ;;
    *'$u'*) cp "$a" "$u" ;;
    esac
}

# run ARGUMENT...: the command with these arguments besides; its status in $got. Its stdin is that of
# the row, and it gets the variables in $pre. $deadly is the status of a signal that the test sends.
pre='' limit=
run() {
    query=
    case "$tool $*" in 'organ-api --force') query=QUERY_STRING=force=1 ;; esac
    { ([ -z "$limit" ] || ulimit -v $limit; eval "$start $query $line -q \"\$@\" > \"\$T/out\" 2> \"\$T/err\"") \
        < /dev/null; } 2> "$T/shell"
    got=$?
    [ $got -lt 128 ] || [ $got = 143 ] || [ $got = "${deadly:-}" ] || bad "$line: ends by signal $((got - 128))"
    answered "$T/out"
}
start='exec ${pre:+env} ${pre:-${vars:+env}} $vars'
# answered FILE: an error that organ-api answered becomes the exit status and the message of a tool.
answered() {
    [ $tool.$got = organ-api.0 ] || return
    case $(head -n 1 "$1") in
    'Status: 2'*) return ;;
    'Status: 5'*) got=4 ;;
    *) got=2 ;;
    esac
    [ -s "$T/err" ] || sed -n 's/.*"message": "\(.*\)"}}$/organ-api: \1/p' "$1" > "$T/err"
}

# once: an empty $O, then run.
once() {
    reset
    run "$@"
}
left() { empty || (cd "$O" && find . -mindepth 1 | sort | tr '\n' ' '); }

# Sets what the promises need to know: $want, $line, $words (expanded), $vars, $outs and $reads.
parse() {
    row=$1
    want=${row%% *} line=${row#* }
    words=
    set -f
    for w in ${line%% < *}; do words="$words \"$w\""; done
    set +f
    eval "set -- $words"
    words=$* tool=$1
    outs='' reads='' vars=''
    if [ "$tool" = organ-api ]; then
        vars="REQUEST_METHOD=$2 PATH_INFO=/v1/$3/${4##*/}${5:-} ORGAN_API_DATA=${4%/*} ORGAN_API_SPOOL=$T/spool
            ORGAN_API_TOKEN_FILE=$T/token ORGAN_API_BIN=$BIN ${6:-}"
        case $row in *' < '*) eval "w=${row##* < }"; vars="$vars CONTENT_LENGTH=$(($(wc -c < "$w")))" ;; esac
    fi
    for w; do
        w=${w#*=} w=${w#@}
        w=${w%%,*}
        case $w in
        "$u"*) ;;
        "$O"/*) outs="$outs $w" ;;
        "$I") reads="$reads $I/merge.json $a" ;;
        "$I"/*) [ -d "$w" ] || reads="$reads $w" ;;
        -) case $row in *' < $a') reads="$reads $a" ;; esac ;;
        esac
        if [ -e "$w/manifest.json" ] && [ "${w#"$I"}" != "$w" ]; then
            reads="$reads $w/manifest.json"
            [ "$tool" = organ-api ] || reads="$reads $w/skeleton/blk_0_attn_q.bin"
        fi
        [ ! -e "$w/adapter_config.json" ] || reads="$reads $w/adapter_model.safetensors"
    done
}
