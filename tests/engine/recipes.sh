# shellcheck shell=sh disable=SC2016 # commands are noted as they are typed
# recipes.sh - the models that run.sh tries and results.sh tabulates, each with the
# command that makes it. Source it with LAB (a folder of lab models) and M (the folder of
# the results) set and BIN on the PATH. `kind` is f16 or q4_k_m: which of LAB's files.
#
# progress TEXT: prints TEXT and the time so far on stderr, as a line that is rewritten on a terminal
# and as one of its own elsewhere.
engine_start=$(date +%s)
progress() {
    seconds=$(($(date +%s) - engine_start))
    text=$(printf 'engine: %s, %d:%02d so far' "$1" $((seconds / 60)) $((seconds % 60)))
    if [ -t 2 ]; then printf '\r%s\033[K' "$text" >&2; else printf '%s\n' "$text" >&2; fi
}
# watch WHAT TOTAL FILE...: on a terminal, counts the names in the first column of the files until
# it is killed; elsewhere tells only how many there will be.
watch() {
    watched=$1 watched_total=$2
    shift 2
    [ -t 2 ] || { progress "$watched, $watched_total in all"; return; }
    while [ -d "$M" ]; do
        progress "$watched, $(cat "$@" 2> /dev/null | cut -f 1 | sort -u | wc -l | tr -d ' ') of $watched_total done"
        sleep 1
    done
}
watched() { # ends the watch
    kill "$1" 2> /dev/null || : # it may have ended
    wait "$1" 2> /dev/null || :
    clear_progress
}
clear_progress() { [ ! -t 2 ] || printf '\r\033[K' >&2; }

# make_model NAME COMMAND: COMMAND, in which $OUT is the model to write, is run and
# noted in $M/commands; $M/NAME.gguf is there or NAME is noted in $M/failed.
make_model() {
    OUT=$M/$1.gguf
    [ ! -t 2 ] || progress "making $1.gguf"
    rm -rf "$OUT" "$OUT.d"
    printf '%s\t%s\n' "$1" "$2" >> "$M/commands"
    if (eval "$2") > "$M/$1.log" 2>&1 && [ -s "$OUT" ]; then
        rm -rf "$OUT.d"
    else
        echo "$1" >> "$M/failed"
        clear_progress
        sed "s/^/  $1: /" "$M/$1.log" | head -n 3
    fi
}

# ppl MODEL TEXT: a job for the engine, TEXT is verse or code; [ADAPTER]
ppl() {
    printf 'ppl\t%s\t%s\t\t%s\n' "$1" "$LAB/text-$2.txt" "${3:-}" >> "$M/jobs"
}
ppl_made() { # NAME: both texts
    ppl "$M/$1.gguf" verse
    ppl "$M/$1.gguf" code
}
gen() { # MODEL PROMPT N
    printf 'gen\t%s\t%s\t%s\n' "$1" "$2" "$3" >> "$M/jobs"
}

# 8 and 4 bits a weight have bounds to keep; the others are loaded and reported.
TYPES8="q8_0"
TYPES4="q4_0 q4_1 q4_k iq4_nl iq4_xs mxfp4"
TYPES_EXACT="f32 f16 bf16"
TYPES_OTHER="q6_k q5_k q5_0 q5_1 q3_k q2_k iq3_s iq3_xxs iq2_s iq1_m tq1_0 tq2_0 nvfp4 q1_0 q2_0"

recipes_references() {
    for m in base verse code stranger; do
        ppl "$LAB/lab-$m-$kind.gguf" verse
        ppl "$LAB/lab-$m-$kind.gguf" code
    done
    ppl "$fine" verse
    ppl "$fine" code
    gen "$LAB/lab-verse-$kind.gguf" "The " 24
}

recipes_round_trips() {
    make_model round-trip \
        "organ-extract \$LAB/lab-verse-$kind.gguf --output \$OUT.d && organ-assemble \$OUT.d --output \$OUT"
    make_model pipe \
        "organ-extract - --output \$OUT.d < \$LAB/lab-verse-$kind.gguf && organ-assemble \$OUT.d --output \$OUT"
    make_model split-experts \
        "organ-extract \$LAB/lab-verse-$kind.gguf --split-experts --output \$OUT.d && \
        organ-assemble \$OUT.d --output \$OUT"
    make_model shards-00001-of-00003 \
        "organ-extract \$LAB/lab-verse-$kind.gguf --output \$OUT.d && organ-assemble \$OUT.d \
        --shards 3 --output \${OUT%-00001*}.gguf"
    make_model merged \
        "organ-extract \$M/shards-00001-of-00003.gguf --output \$OUT.d && organ-assemble \$OUT.d --output \$OUT"
    make_model undone \
        "cp \$LAB/lab-verse-$kind.gguf \$OUT && organ-transplant --base \$OUT --donor \$LAB/lab-code-$kind.gguf \
        --in-place --all --undo \$OUT.undo && organ-transplant --base \$OUT --donor \$OUT.undo \
        --in-place && rm \$OUT.undo"
    for name in round-trip pipe split-experts shards-00001-of-00003 merged undone; do ppl "$M/$name.gguf" verse; done
    gen "$M/round-trip.gguf" "The " 24
}

# Every type that is encoded without an importance matrix, from the finest model there is.
recipes_types() {
    for t in $TYPES_EXACT $TYPES8 $TYPES4 $TYPES_OTHER; do
        make_model "type-$t" \
            "organ-extract $fine_text --output \$OUT.d && organ-assemble \$OUT.d --dtype '*=$t' --output \$OUT"
        ppl "$M/type-$t.gguf" verse
    done
    make_model mixed \
        "organ-extract $fine_text --output \$OUT.d && organ-assemble \$OUT.d \
        --dtype 'blk.*.ffn_*=q4_k,output*=q6_k,*=f16' --output \$OUT"
    ppl "$M/mixed.gguf" verse
}

recipes_grafts() {
    V="\$LAB/lab-verse-$kind.gguf" C="\$LAB/lab-code-$kind.gguf" S="\$LAB/lab-stranger-$kind.gguf" \
        A="\$LAB/lab-base-$kind.gguf"
    make_model chimera "organ-transplant --base $V --donor $C --type ffn --output \$OUT"
    make_model graft-dir \
        "organ-graft --source $C --target $V --type ffn --output \$OUT.d && organ-assemble \$OUT.d --output \$OUT"
    make_model chimera-skeleton "organ-transplant --base $V --donor $C --type attention --output \$OUT"
    make_model chimera-12 "organ-transplant --base $V --donor $C --type ffn --layers 1-2 --output \$OUT"
    make_model stranger "organ-transplant --base $V --donor $S --type ffn --output \$OUT"
    make_model stranger-1 "organ-transplant --base $V --donor $S --type ffn --layers 1 --output \$OUT"
    make_model mapped "organ-transplant --base $V --donor $C --map 0-2=1-3 --type ffn --output \$OUT"
    make_model donor8 "organ-extract $C --output \$OUT.d && organ-assemble \$OUT.d --dtype '*=q8_0' --output \$OUT"
    make_model retype "organ-transplant --base $V --donor \$M/donor8.gguf --match retype --type ffn --output \$OUT"
    make_model convert "organ-transplant --base $V --donor \$M/donor8.gguf --match convert --type ffn --output \$OUT"
    make_model base8 "organ-extract $V --output \$OUT.d && organ-assemble \$OUT.d --dtype '*=q8_0' --output \$OUT"
    make_model convert-back \
        "organ-transplant --base \$M/base8.gguf --donor $C --match convert --type ffn --output \$OUT"
    for name in chimera chimera-skeleton chimera-12 stranger stranger-1 mapped graft-dir retype convert convert-back; \
        do ppl_made $name; done
    gen "$M/chimera.gguf" "The " 24
}

recipes_blends() {
    for text in linear:0.25 linear:0.5 linear:0.75 slerp:0.5 linear:0..1 linear:1..0 task:0.5 task:1; do
        name=blend-$(printf %s "$text" | tr ':.' '--')
        more=
        case $text in task*) more=" --ancestor $A" ;; esac
        make_model "$name" "organ-transplant --base $V --donor $C --blend $text$more --output \$OUT"
        ppl_made "$name"
    done
    make_model blend-blocks \
        "organ-transplant --base $V --donor $C --type ffn,attention --blend linear:0.5 --output \$OUT"
    make_model task-stranger "organ-transplant --base $V --donor $S --blend linear:0.5 --output \$OUT"
    make_model merge-iso "organ-merge --method iso --base $A --model $V --model $C --output \$OUT"
    for name in blend-blocks task-stranger merge-iso; do ppl_made $name; done
}

# Adapters from the difference of base and code. The norms, which no adapter holds, are moved first.
recipes_lora() {
    make_model base-norms \
        "organ-transplant --base \$LAB/lab-base-$kind.gguf --donor \$LAB/lab-code-$kind.gguf \
        --type norm --output \$OUT"
    for r in 4 16 64 256; do
        make_model "lora-$r" \
            "organ-lora --base \$LAB/lab-base-$kind.gguf --tuned \$LAB/lab-code-$kind.gguf --rank $r --output \$OUT"
        ppl "$LAB/lab-base-$kind.gguf" code "$M/lora-$r.gguf"
    done
    for text in verse code; do ppl "$M/base-norms.gguf" $text "$M/lora-256.gguf"; done
}

recipes_adapter() {
    make_model folded \
        "organ-graft --adapter \$LAB/lab-lora-code.gguf --target $A --output \$OUT.d && \
        organ-assemble \$OUT.d --output \$OUT"
    make_model folded-half \
        "organ-graft --adapter \$LAB/lab-lora-code.gguf --scale 0.5 --target $A \
        --output \$OUT.d && organ-assemble \$OUT.d --output \$OUT"
    ppl_made folded
    ppl_made folded-half
    ppl "$LAB/lab-base-$kind.gguf" verse "$LAB/lab-lora-code.gguf"
    ppl "$LAB/lab-base-$kind.gguf" code "$LAB/lab-lora-code.gguf"
}

recipes_purified() {
    for method in haar fft; do
        make_model "purified-$method" "organ-purify $V --type ffn --method $method --output \$OUT"
        ppl_made "purified-$method"
    done
}

# A record's head, little-endian: NAME DTYPE-NUMBER DIM...
record_head() {
    # shellcheck disable=SC2059 # its escapes are the bytes
    printf "$(echo "$@" | awk '
        function le(v, n) { while (n-- > 0) { printf "\\%03o", v % 256; v = int(v / 256) } }
        { le(length($1), 4); printf "%s", $1; le(NF - 2, 4); for (i = 3; i <= NF; i++) le($i, 8); le($2, 4) }')"
}

# Four experts a block, stacked from the FFNs of base, verse, code and base, with a
# router whose rows are all the same: which two are used does not depend on the text.
make_moe() {
    for m in base verse code; do organ-extract "$LAB/lab-$m-$kind.gguf" --type ffn --output "$M/moe-$m" || return 1; \
        done
    for b in 0 1 2 3; do
        for role in gate up down; do
            type=$(organ-extract "$LAB/lab-base-$kind.gguf" --tensors "blk.$b.ffn_$role.weight" --list | awk \
                'NR == 2 { print $5 }')
            case $type in F16) type=1 ;; Q4_K) type=12 ;; Q6_K) type=14 ;; *) return 1 ;; esac
            case $role in down) dims="512 256" ;; *) dims="256 512" ;; esac
            # shellcheck disable=SC2086
            record_head "blk.$b.ffn_${role}_exps.weight" $type $dims 4
            for m in base verse code base; do
                tail -c "+$((1 + 4 + $(printf 'blk.%s.ffn_%s.weight' "$b" "$role" | wc -c) + 4 + 16 + 4))" \
                    "$M/moe-$m/organs/blk_${b}_ffn_$role.bin"
            done
        done
        record_head "blk.$b.ffn_gate_inp.weight" 0 256 4
        dd if=/dev/zero bs=4096 count=1 2> /dev/null
    done > "$M/stacks.bin"
    organ-extract "$LAB/lab-base-$kind.gguf" --output "$OUT.d" || return 1
    sed '/"name": "blk\.[0-9]*\.ffn_\(gate\|up\|down\)\.weight"/d' "$OUT.d/manifest.json" > "$M/moe.json" && mv \
        "$M/moe.json" "$OUT.d/manifest.json"
    organ-transplant --base "$OUT.d" --donor "$M/stacks.bin" --add --set-kv llama.expert_count=u32:4 \
        --set-kv llama.expert_used_count=u32:2 --output "$OUT"
}

recipes_moe() {
    make_model moe "make_moe"
    make_model pruned \
        "organ-extract \$M/moe.gguf --split-experts --output \$OUT.d && \
        sed '/ffn_[a-z]*\.[13]\.weight/d' \$OUT.d/manifest.json > \$M/pruned.json && \
        mv \$M/pruned.json \$OUT.d/manifest.json && organ-assemble \$OUT.d --output \$OUT"
    make_model expert \
        "organ-graft --source \$M/moe.gguf --target \$M/moe.gguf --experts 0,1 \
        --router --output \$OUT.d && organ-assemble \$OUT.d --output \$OUT"
    for name in moe pruned expert; do ppl_made $name; done
    make_model one-expert \
        "organ-extract \$M/moe.gguf --split-experts --output \$OUT.d && sed -e '/ffn_[a-z]*\.[023]\.weight/d' \
        -e '/llama.expert_used_count/s/\"value\": 2/\"value\": 1/' \$OUT.d/manifest.json > \$M/one.json && \
        mv \$M/one.json \$OUT.d/manifest.json && organ-assemble \$OUT.d --output \$OUT"
    ppl_made one-expert
}

# A lab model in an architecture with prediction blocks: MODEL ARCH BLOCKS NEXTN [EXPERTS]
recast() {
    organ-extract "$LAB/lab-$1-$kind.gguf" --output "$OUT.d" || return 1
    shift
    node tests/engine/recast.mjs "$OUT.d" "$@" && organ-assemble "$OUT.d" --output "$OUT"
}
predict() { # NAME...: by the engine's binding, and by predict.c with prediction blocks and all
    for name; do
        ppl "$M/$name.gguf" verse
        printf '%s\n' "$name" >> "$M/predict"
    done
}

# An original with prediction blocks, a fine-tune without: does it get them back?
recipes_mtp() {
    for arch in step35 glm4moe qwen35; do
        case $arch in step35) n=2 ;; *) n=1 ;; esac
        make_model $arch-original "recast base $arch 4 $n"
        make_model $arch-bare "recast base $arch 4 0"
        make_model $arch-tune "recast verse $arch 4 0"
        make_model $arch-back \
            "organ-transplant --base \$M/$arch-bare.gguf --donor \$M/$arch-original.gguf --mtp --output \$OUT"
        make_model $arch-tuned \
            "organ-transplant --base \$M/$arch-tune.gguf --donor \$M/$arch-original.gguf --mtp --output \$OUT"
        make_model $arch-original8 \
            "organ-extract \$M/$arch-original.gguf --output \$OUT.d && organ-assemble \$OUT.d \
            --dtype '*=q8_0' --output \$OUT"
        make_model $arch-tuned8 \
            "organ-transplant --base \$M/$arch-tune.gguf --donor \$M/$arch-original8.gguf --mtp --output \$OUT"
        predict $arch-original $arch-bare $arch-tune $arch-back $arch-tuned $arch-tuned8
        gen "$M/$arch-tune.gguf" "The " 24
        gen "$M/$arch-tuned.gguf" "The " 24
    done
    # a base of another depth; a donor that is its prediction blocks alone, on a pipe
    make_model step35-short "recast base step35 3 2"
    make_model step35-short-bare "recast base step35 3 0"
    make_model step35-short-back \
        "organ-transplant --base \$M/step35-short-bare.gguf --donor \$M/step35-original.gguf --mtp --output \$OUT"
    make_model step35-head \
        "organ-extract \$M/step35-original.gguf --output \$OUT.d && sed '/\"name\": \"blk.[0-3]\\./d' \
        \$OUT.d/manifest.json > \$M/head.json && mv \$M/head.json \$OUT.d/manifest.json && \
        organ-assemble \$OUT.d --output \$OUT"
    make_model step35-from-head \
        "organ-transplant --base \$M/step35-bare.gguf --donor - --mtp --output \$OUT < \$M/step35-head.gguf"
    # a base that announces the blocks which are in that donor
    make_model step35-trunk \
        "organ-extract \$M/step35-original.gguf --output \$OUT.d && sed '/\"name\": \"blk.[45]\\./d' \
        \$OUT.d/manifest.json | sed -z 's/,\n  \]/\n  ]/g' > \$M/trunk.json && \
        mv \$M/trunk.json \$OUT.d/manifest.json && organ-assemble \$OUT.d --output \$OUT"
    make_model step35-rejoined \
        "organ-transplant --base \$M/step35-trunk.gguf --donor \$M/step35-head.gguf --mtp --output \$OUT"
    predict step35-short step35-short-back step35-from-head step35-rejoined
    # the same blocks with --add
    make_model step35-added \
        "organ-transplant --base \$M/step35-bare.gguf --donor \$M/step35-original.gguf \
        --layers 4-5 --add --output \$OUT"
    predict step35-added
}

# Blocks dropped, repeated, joined.
recipes_stack() {
    make_model stack-all "organ-stack \$LAB/lab-verse-$kind.gguf 0-3 --output \$OUT"
    for b in 0 1 2 3; do
        make_model stack-drop$b "organ-stack --drop $b \$LAB/lab-verse-$kind.gguf --output \$OUT"
        make_model stack-repeat$b "organ-stack \$LAB/lab-verse-$kind.gguf 0-$b,$b-3 --output \$OUT"
    done
    make_model stack-verse-code \
        "organ-stack \$LAB/lab-verse-$kind.gguf 0-1 \$LAB/lab-code-$kind.gguf 2-3 --output \$OUT"
    make_model stack-code-verse \
        "organ-stack \$LAB/lab-code-$kind.gguf 0-1 \$LAB/lab-verse-$kind.gguf 2-3 --output \$OUT"
    make_model stack-both "organ-stack \$LAB/lab-verse-$kind.gguf 0-3 \$LAB/lab-code-$kind.gguf 0-3 --output \$OUT"
    for name in all drop0 drop1 drop2 drop3 repeat0 repeat1 repeat2 repeat3 verse-code code-verse both; do ppl_made \
        stack-$name; done
}

# Eight experts a block and a router that has something to choose, prediction block
# included; models that are made with other experts say what pruning and grafting must give.
recipes_experts() {
    make_model eight "recast base glm4moe 4 1 0,1,2,3,4,5,6,7"
    make_model four "recast base glm4moe 4 1 0,2,5,7"
    make_model pruned8 \
        "organ-extract \$M/eight.gguf --split-experts --output \$OUT.d && \
        sed '/ffn_[a-z]*\.[1346]\.weight/d' \$OUT.d/manifest.json > \$M/pruned8.json && \
        mv \$M/pruned8.json \$OUT.d/manifest.json && organ-assemble \$OUT.d --output \$OUT"
    make_model others "recast base glm4moe 4 1 0,1,2,15,4,10,6,7"
    make_model grafted \
        "organ-graft --source \$M/others.gguf --target \$M/eight.gguf --experts 3,5 \
        --router --output \$OUT.d && organ-assemble \$OUT.d --output \$OUT"
    make_model unrouted \
        "organ-graft --source \$M/others.gguf --target \$M/eight.gguf --experts 3,5 \
        --output \$OUT.d && organ-assemble \$OUT.d --output \$OUT"
    predict eight four pruned8 others grafted unrouted
}

# Without output.weight the engine takes the token embedding in its place: so the same as
# with it under that name. And with the head back, the model as it was.
# Two models as checkpoints, of which one keeps only config.json, merged from there and from GGUF files.
checkpoint() { # NAME
    organ-assemble -q "$LAB/lab-$1-$kind.gguf" --dtype f16 --force -o "$M/$1-f16.gguf" &&
        organ-assemble -q "$M/$1-f16.gguf" --names hf --force -o "$M/checkpoint-$1/model.safetensors"
}
recipes_checkpoints() {
    make_model from-gguf \
        "checkpoint verse && checkpoint code && organ-merge -q --method slerp,t=0.3 --base \$M/verse-f16.gguf \
        --model \$M/code-f16.gguf -o \$OUT"
    make_model from-checkpoints \
        "organ-merge -q --method slerp,t=0.3 --base \$M/checkpoint-verse --model \$M/checkpoint-code -o \$OUT"
    # Other programs do not keep the keys, so the name of the metadata is changed.
    make_model from-config "printf x | dd of=\$M/checkpoint-code/model.safetensors bs=1 seek=45 conv=notrunc && \
        organ-assemble -q \$M/checkpoint-code --vocab-from \$LAB/lab-base-$kind.gguf -o \$OUT"
    make_model code-f16 "organ-assemble -q \$LAB/lab-code-$kind.gguf --dtype f16 -o \$OUT"
    for name in from-gguf from-checkpoints from-config code-f16; do ppl "$M/$name.gguf" code; done
}

make_tied() {
    organ-extract "$LAB/lab-base-$kind.gguf" --output "$OUT.d" || return 1
    cp "$OUT.d/embed/token_embd.bin" "$M/embedding.bin"
    sed '/"name": "output.weight"/d' "$OUT.d/manifest.json" | sed -z 's/,\n  \]/\n  ]/g' > "$M/tied.json" && mv \
        "$M/tied.json" "$OUT.d/manifest.json"
    organ-assemble "$OUT.d" --output "$OUT"
}
make_untied() {
    case $kind in f16) type=1 ;; *) type=12 ;; esac
    { record_head output.weight $type 256 1024 && tail -c +46 "$M/embedding.bin"; } > "$M/head.bin"
    organ-transplant --base "$LAB/lab-base-$kind.gguf" --donor "$M/head.bin" --match retype --output "$OUT"
}
# The union of two trims is the whole again: with t = 0 all rows keep their bytes.
recipes_vocabulary() {
    make_model trim-first "organ-vocab $V --list | head -n 800 > \$OUT.txt && \
        organ-vocab trim $V --keep \$OUT.txt --output \$OUT"
    make_model trim-last "organ-vocab $V --list | tail -n 400 > \$OUT.txt && \
        organ-vocab trim $V --keep \$OUT.txt --output \$OUT"
    make_model trims-joined "organ-merge --method slerp,t=0 \$M/trim-first.gguf \$M/trim-last.gguf \
        --vocabulary union --output \$OUT"
    make_model many-tokens "awk 'BEGIN { while (i++ < 60000) print \"<t\" i \">\" }' > \$OUT.txt && \
        organ-vocab add $V --tokens \$OUT.txt --output \$OUT"
    for name in trim-first trims-joined many-tokens; do ppl "$M/$name.gguf" verse; done
}

recipes_tied() {
    make_model tied "make_tied"
    make_model untied "make_untied"
    make_model head-back \
        "organ-transplant --base \$M/tied.gguf --donor \$LAB/lab-base-$kind.gguf \
        --tensors output.weight --add --output \$OUT"
    for name in tied untied head-back; do ppl "$M/$name.gguf" verse; done
}

# Answers of the engine, in $M/answers: perplexity MODEL TEXT [ADAPTER] prints all its digits.
perplexity() {
    awk -F '\t' -v m="$1${3:+${3:++}$3}" -v t="$LAB/text-$2.txt" \
        '$1 == m && $2 == t { v = $3 } END { if (v != "" && v != "error") print v }' "$M/answers"
}

start_recipes() { # sets kind and the model that types are made from
    if [ -f "$LAB/lab-verse-f16.gguf" ] && [ -f "$LAB/lab-code-f16.gguf" ]; then
        kind=f16
        fine=$LAB/lab-verse-f16.gguf fine_text='$LAB/lab-verse-f16.gguf'
    else
        kind=q4_k_m
        fine=$M/lab-verse-q8_0.gguf fine_text='$M/lab-verse-q8_0.gguf'
        organ-assemble -q "$LAB/lab-verse-q4_k_m.gguf" --dtype q8_0 -o "$fine" --force
    fi
    rm -f "$M/jobs" "$M/commands" "$M/failed" "$M/predict"
}

# Two engines of one thread each: faster than one of two, above all on a busy machine;
# the digits are the same. Jobs on one model stay together.
run_engine() {
    clear_progress
    workers=
    awk '!seen[$0]++' "$M/jobs" | sort -s -t "$(printf '\t')" -k 2,2 -k 5,5 |
        awk -F '\t' -v half="$M/half" '$2 != last { last = $2; k = 1 - k } { print > (half k) }'
    for k in 0 1; do
        ENGINE_THREADS=1 node tests/engine/engine.mjs batch < "$M/half$k" > "$M/answers$k" &
        workers="$workers $!"
    done
    watch "trying models" "$(cut -f 2 "$M/jobs" | sort -u | wc -l | tr -d ' ')" "$M/answers0" "$M/answers1" &
    watcher=$!
    # shellcheck disable=SC2086 # several
    wait $workers
    watched $watcher
    cat "$M/answers0" "$M/answers1" > "$M/answers"
}

# predict.c wants the header of the engine's own release: the binding's package has its
# sources, as a git bundle.
# tests/engine/NAME.c, against the engine, as $M/NAME.run; sets `engine`.
build_engine_program() {
    modules=tests/engine/node_modules include=tests/engine/node_modules/.include
    engine=$modules/@node-llama-cpp/linux-x64/bins/linux-x64
    command -v git > /dev/null 2>&1 || return 1
    if [ ! -f $include/include/llama.h ]; then
        rm -rf $include && mkdir $include && git init -q $include || return 1
        git -C $include fetch -q "$PWD/$modules/node-llama-cpp/llama/gitRelease.bundle" HEAD || return 1
        git -C $include archive FETCH_HEAD include ggml/include > $include/headers.tar || return 1
        tar -x -f $include/headers.tar -C $include && rm -rf $include/.git $include/headers.tar
    fi
    ${CC:-cc} -std=gnu11 -O1 -I $include/include -I $include/ggml/include -o "$M/$1.run" "tests/engine/$1.c" \
        $engine/libllama.v*.so $engine/libggml.v*.so $engine/libggml-base.so -lm -Wl,-rpath,"$PWD/$engine" \
        -Wl,--allow-shlib-undefined
}

# start_part NAME: for a script that runs by itself: installs the engine, sets BIN, LAB and the temporary folder
# M, which is removed at the end, and puts the tools on the PATH. Call it from the top of the tree.
start_part() {
    sh tests/engine/install.sh || exit 1
    BIN=$(cd "${BIN:-build/bin}" && pwd) LAB=$(cd "${LAB:-tests/data/lab}" && pwd)
    M=$(mktemp -d "${TMPDIR:-/tmp}/$1.XXXXXX") || exit 1
    trap 'rm -rf "$M"' EXIT
    trap 'exit 130' INT TERM HUP
    LC_ALL=C GGML_NO_BACKTRACE=1 PATH=$BIN:$PATH
    export LC_ALL GGML_NO_BACKTRACE M BIN LAB PATH
}
# start_program NAME: builds tests/engine/NAME.c as $M/NAME.run, or ends the script.
start_program() { build_engine_program "$1" > "$M/$1.log" 2>&1 || { cat "$M/$1.log"; exit 1; }; }

# Builds organ-probe beside the other tools, with what build_engine_program found.
build_probe() {
    build_engine_program memory || return 1 # unpacks the headers
    make -s probe B="${BIN%/bin}" LLAMA_CFLAGS="-I$PWD/$include/include -I$PWD/$include/ggml/include" \
        LLAMA_LIBS="$(echo "$PWD"/$engine/libllama.v*.so "$PWD"/$engine/libggml.v*.so \
        "$PWD/$engine/libggml-base.so") -Wl,-rpath,$PWD/$engine -Wl,--allow-shlib-undefined"
}

# $M/predictions: MODEL, then what predict.c prints of it, or the word error.
run_predict() {
    : > "$M/predictions"
    build_engine_program predict > "$M/predict.log" 2>&1 || return 1
    workers=
    for k in 0 1; do
        awk -v k=$k 'NR % 2 == k' "$M/predict" | while read -r name; do
            "$M/predict.run" $engine "$M/$name.gguf" "$LAB/text-verse.txt" > "$M/$name.said" 2> "$M/$name.err" \
                || echo error > "$M/$name.said"
            sed "s/^/$name$(printf '\t')/" "$M/$name.said"
        done > "$M/predictions$k" &
        workers="$workers $!"
    done
    watch "trying prediction blocks" "$(wc -l < "$M/predict" | tr -d ' ')" "$M/predictions0" "$M/predictions1" &
    watcher=$!
    # shellcheck disable=SC2086 # several
    wait $workers
    watched $watcher
    cat "$M/predictions0" "$M/predictions1" > "$M/predictions"
}
prediction() { # NAME trunk|0|1..., [4: drafts that the trunk would take, of 5]
    awk -F '\t' -v m="$1" -v b="$2" -v f="${3:-3}" \
        '$1 == m && ($2 == b || $2 == "block " b) { print (f == 3 ? $3 : $f) }' "$M/predictions"
}
