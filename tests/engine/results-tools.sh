#!/bin/sh
# results-tools.sh - the tables of docs/results.md that show what the tools do. results.sh runs it.
#
#   SWEEP=FILE   the table of purify-sweep.sh, if it has been made already
#   KEEP=DIR     models and answers of an earlier run with KEEP are taken as they are
# shellcheck disable=SC2016 # commands in backquotes, as the page shows them
set -eu
cd "$(dirname "$0")/../.."
M=${KEEP:-$M}
mkdir -p "$M"
# shellcheck source=tests/engine/recipes.sh disable=SC1091
. tests/engine/recipes.sh

if [ ! -s "$M/answers" ]; then
    start_recipes
    for part in references round_trips types grafts blends adapter purified moe mtp experts stack; do \
        "recipes_$part"; done
    make_model verse-in-base \
        "organ-transplant --base \$LAB/lab-base-$kind.gguf --donor \$LAB/lab-verse-$kind.gguf \
        --type ffn --output \$OUT"
    ppl_made verse-in-base
    run_engine
    run_predict
else
    kind=f16 fine=$LAB/lab-verse-f16.gguf
fi
if [ -z "${SWEEP:-}" ]; then
    SWEEP=$M/sweep.tsv
    [ -s "$SWEEP" ] || { ENGINE_THREADS=${ENGINE_THREADS:-1} sh tests/engine/purify-sweep.sh "$LAB" > "$SWEEP.part" \
        && mv "$SWEEP.part" "$SWEEP"; }
fi

# Four figures: the fifth may depend on the machine's kernels.
figure() {
    if [ -n "$1" ]; then awk -v x="$1" \
        'BEGIN { if (x >= 1000) printf "%.0f", x; else if (x >= 100) printf "%.1f", x;
        else if (x >= 10) printf "%.2f", x; else printf "%.3f", x }'
    else printf 'not loaded'; fi
}
line() { # CELL...: a row of a table
    first=
    for c; do printf '%s%s' "$first" "$c"; first=$TAB; done
    echo
}
both() { # MODEL [ADAPTER]: cells of the two texts
    printf '%s\t%s' "$(figure "$(perplexity "$1" verse "${2:-}")")" "$(figure "$(perplexity "$1" code "${2:-}")")"
}
row() { # NAME WHAT
    line "$2" "$(both "$M/$1.gguf")"
}
reference() { # NAME
    line "lab-$1, original" "$(both "$LAB/lab-$1-f16.gguf")"
}
digits() { # NAME BLOCK: all that predict.c prints
    d=$(prediction "$1" "$2")
    echo "${d:--}"
}
predicted() { # NAME WHAT
    line "$2" "$(digits "$1" trunk)" "$(digits "$1" 0)" "$(taken "$1" 0)" "$(digits "$1" 1)" "$(taken "$1" 1)"
}
taken() { # NAME BLOCK: of those scored, %
    awk -F '\t' -v m="$1" -v b="block $2" \
        '$1 == m && $2 == b { printf "%.1f %%", 100 * $5 / $4; n++ } END { if (!n) print "-" }' "$M/predictions"
}
# In ordinary decoding all models of an architecture and a trunk have the same perplexity.
decodes() {
    for arch in step35 glm4moe qwen35; do
        for pair in bare:original bare:back tune:tuned tune:tuned8; do
            [ "$(perplexity "$M/$arch-${pair%:*}.gguf" verse)" = "$(perplexity "$M/$arch-${pair#*:}.gguf" verse)" ] ||
                { echo "results-tools.sh: $arch-${pair#*:} decodes differently than $arch-${pair%:*}" >&2; return 1; }
        done
    done
}
head2() {
    line "$1" "verse text" "code text"
}
# How the named models are made: the commands of recipes.sh, a name for each output.
commands() {
    for name; do
        awk -F '\t' -v n="$name" '$1 == n {
            c = $2
            gsub(/\$\{OUT%-00001\*\}/, "shards", c)
            gsub(/\$LAB\//, "", c); gsub(/\$M\//, "", c); gsub(/\$OUT/, n ".gguf", c)
            gsub(/-f16\.gguf/, ".gguf", c); gsub(/\.gguf\.d/, ".organs", c)
            print "    " c; exit }' "$M/commands"
    done
}
cosines() { # A B
    organ-compare "$LAB/lab-$1-f16.gguf" "$LAB/lab-$2-f16.gguf" --lineage --sample 0 > "$M/lineage" || true
    awk -F '\t' -v pair="$1, $2" 'NR == 2 { printf "%s\t%.3f\t%.3f\t%.3f\t%s\n", pair, $3, $4, $5, $1 }' "$M/lineage"
}


originals() {
    head2 model
    for m in base verse code stranger; do line $m "$(both "$LAB/lab-$m-f16.gguf")"; done
}
lineage() {
    line pair min median max verdict
    for pair in "base verse" "base code" "verse code" "base stranger" "verse stranger"; do
        # shellcheck disable=SC2086 # two words
        cosines $pair
    done
}
round_trips() {
    line way perplexity "all digits equal"
    before=$(perplexity "$LAB/lab-verse-f16.gguf" verse)
    for name in round-trip pipe split-experts shards-00001-of-00003 merged undone; do
        p=$(perplexity "$M/$name.gguf" verse)
        if [ "$p" = "$before" ]; then equal=yes; else equal=NO; fi
        line $name "$(figure "$p")" $equal
    done
}
types() {
    line type bits "relative L2" "perplexity on verse" "of F16"
    f16=$(perplexity "$M/type-f16.gguf" verse)
    for t in $TYPES_EXACT $TYPES8 q6_k q5_k q5_1 q5_0 $TYPES4 nvfp4 q3_k iq3_s iq3_xxs q2_k iq2_s iq1_m q2_0 tq2_0 \
        tq1_0 q1_0; do
        p=$(perplexity "$M/type-$t.gguf" verse)
        bits=$(organ-extract "$M/type-$t.gguf" --tensors blk.0.attn_q.weight --list | awk \
            'NR == 2 { printf "%.4g", 8 * $8 / $7 }')
        l2=$(organ-compare "$fine" "$M/type-$t.gguf" --type ffn,attention --summary 2> /dev/null | awk -F '\t' \
            '$1 == "model" { printf "%.4f", $11 }')
        ratio=$(awk -v p="${p:-0}" -v f="$f16" 'BEGIN { if (p > 0) printf "%.3f", p / f; else print "-" }')
        line "$(echo "$t" | tr '[:lower:]' '[:upper:]')" "$bits" "$l2" "$(figure "$p")" "$ratio"
    done
    mixed=$(perplexity "$M/mixed.gguf" verse)
    line "mixed, see below" "" "" "$(figure "$mixed")" "$(awk -v p="$mixed" -v f="$f16" \
        'BEGIN { printf "%.3f", p / f }')"
}
grafts() {
    head2 model
    reference verse
    reference code
    row chimera "verse with code's FFN"
    row chimera-12 "verse with code's FFN in blocks 1 and 2"
    row chimera-skeleton "verse with code's attention"
    row mapped "verse with code's FFN one block up (0-2 from 1-3)"
    row stranger-1 "verse with stranger's FFN in block 1"
    row stranger "verse with stranger's FFN"
    row graft-dir "verse with code's FFN, over organ directories"
    row retype "code's FFN in Q8_0, kept (retype)"
    row convert "code's FFN from Q8_0 to F16 (convert)"
    row convert-back "verse in Q8_0, code's F16 FFN to Q8_0 (convert)"
}
blends() {
    head2 blend
    for text in linear:0.25 linear:0.5 slerp:0.5 linear:0.75 linear:0..1 linear:1..0 task:0.5 task:1; do
        row "blend-$(printf %s "$text" | tr ':.' '--')" "\`$text\`"
    done
    row blend-blocks '`linear:0.5` of attention and FFN only'
    row task-stranger '`linear:0.5` with stranger instead of code'
    row merge-iso '`iso` of both onto base (organ-merge)'
}
adapters() {
    head2 model
    reference base
    line "base, adapter applied by the engine" "$(both "$LAB/lab-base-f16.gguf" "$LAB/lab-lora-code.gguf")"
    row folded "base, adapter folded in"
    row folded-half "base, folded in with --scale 0.5"
}
experts() {
    head2 model
    row moe "four experts"
    row pruned "experts 1 and 3 removed, two left"
    row one-expert "only expert 1 (verse's FFN) left"
    row verse-in-base "for comparison: base with verse's FFN, dense"
    row expert "experts 0 and 1 grafted onto themselves, with --router"
}
experts_chosen() {
    line model "trunk, verse text" "prediction block"
    for row in "eight:experts 0 to 7" "four:made with 0, 2, 5 and 7 only" \
        "pruned8:made with 0 to 7, then 1, 3, 4 and 6 removed" "others:made with 15 and 10 in place of 3 and 5" \
        "grafted:0 to 7, then 3 and 5 replaced by grafts of 15 and 10, with --router" \
        "unrouted:the same graft without --router"; do
        line "${row#*:}" "$(digits "${row%%:*}" trunk)" "$(digits "${row%%:*}" 0)"
    done
}
prediction_blocks() {
    line "model, verse text" trunk "block 0" taken "block 1" taken
    for arch in step35 glm4moe qwen35; do
        predicted $arch-original "$arch, base with blocks"
        predicted $arch-bare "$arch, base without"
        predicted $arch-back "the blocks moved from the first to the second"
        predicted $arch-tune "$arch, verse: a fine-tune without"
        predicted $arch-tuned "base's blocks moved into it"
        predicted $arch-tuned8 "moved from base in Q8_0"
    done
    predicted step35-short "step35, base's first three blocks, with prediction blocks"
    predicted step35-short-back "the same without, blocks moved in from the model with four blocks"
    predicted step35-from-head "step35, base without; the donor has only prediction blocks and is read from a pipe"
    predicted step35-rejoined \
        "step35, split into a trunk that announces two blocks and a file with the blocks, then joined"
    predicted step35-added "step35, the blocks moved with \`--add\`"
}
layers() {
    head2 model
    reference verse
    reference code
    row stack-all "verse, blocks 0-3: the same bytes"
    for b in 0 1 2 3; do row stack-drop$b "verse without block $b"; done
    for b in 0 1 2 3; do row stack-repeat$b "verse with block $b twice"; done
    row stack-verse-code "verse 0-1, code 2-3"
    row stack-code-verse "code 0-1, verse 2-3"
    row stack-both "verse 0-3, code 0-3: eight blocks"
}

# One row per strength. A column per model and text: perplexity, and its ratio to that of the original.
purification() { # METHOD
    awk -F '\t' -v method="$1" '
        NR > 1 && $3 == method {
            col = $1 " " $2; sub(/^lab-/, "", col); sub(/-f16/, "", col)
            if (!(col in seen)) { seen[col] = ++n; name[n] = col }
            if (!($4 in at)) { at[$4] = ++rows; strength[rows] = $4; rel[rows] = $5 }
            cell[at[$4], seen[col]] = sprintf("%.2f (%.3f)", $6, $7)
        }
        END {
            printf "%s, strength\trelative L2", method
            for (i = 1; i <= n; i++) { split(name[i], w, " "); printf "\t%s, %s text", w[1], w[2] }
            print ""
            for (r = 1; r <= rows; r++) {
                printf "%s\t%s", strength[r], rel[r]
                for (i = 1; i <= n; i++) printf "\t%s", cell[r, i]
                print ""
            }
        }' "$SWEEP"
}
of_default() { # METHOD: perplexity ratio of lab-verse
    awk -v p="$(perplexity "$M/purified-$1.gguf" verse)" -v b="$(perplexity "$LAB/lab-verse-f16.gguf" verse)" \
        'BEGIN { printf "%.3f", p / b }'
}
within() { # METHOD: the largest strength up to which all of the table stay within 5 %
    awk -F '\t' -v method="$1" \
        'NR > 1 && $3 == method { if ($7 > 1.05) { if (over == "" || $4 + 0 < over) over = $4 + 0 } all[$4 + 0] = 1 }
        END { for (s in all) if ((over == "" || s + 0 < over) && s + 0 > best) best = s + 0; print best }' "$SWEEP"
}
purification_limits() {
    line method "default strength" "verse, of the original" "strength up to which all are within 5 %"
    line haar 0.125 "$(of_default haar)" "$(within haar)"
    line fft 0.04 "$(of_default fft)" "$(within fft)"
}

status=0
put() { # NAME COMMAND...: the table that COMMAND prints
    table=$1
    shift
    { "$@" > "$M/$table.tsv" && $TABLE put "$table" < "$M/$table.tsv"; } || status=1
}
text() { # NAME MODEL...: the commands that make the models
    table=$1
    shift
    commands "$@" | $TABLE text "$table"
}
decodes || status=1
put originals originals
put lineage lineage
put round-trips round_trips
put types types
put grafts grafts
put blends blends
put adapters adapters
put experts experts
put experts-chosen experts_chosen
put prediction prediction_blocks
put layers layers
for method in haar fft; do put purification-$method purification $method; done
put purification-limits purification_limits
text made-round-trips round-trip pipe split-experts shards-00001-of-00003 merged undone
text made-types type-q4_k mixed
text made-grafts chimera chimera-12 chimera-skeleton mapped stranger-1 stranger graft-dir donor8 retype convert base8 \
    convert-back
text made-blends blend-linear-0-5 blend-task-1 blend-blocks task-stranger merge-iso
text made-adapters folded folded-half
text made-experts pruned one-expert verse-in-base expert
text made-experts-2 pruned8 grafted unrouted
text made-prediction step35-back step35-tuned step35-original8 step35-tuned8 step35-from-head step35-rejoined \
    step35-added
text made-layers stack-drop2 stack-repeat2 stack-verse-code stack-both
exit $status
