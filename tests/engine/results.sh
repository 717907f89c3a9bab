#!/bin/sh
# results.sh - measure what docs/results.md says, and write it anew.
#
#   LAB=DIR            the lab models, in F16 too
#   BIN=build/bin      the tools
#   SWEEP=FILE         the table of purify-sweep.sh, if it has been made already
#   OUTPUT=docs/results.md
#   KEEP=DIR           models and answers of an earlier run with KEEP are taken as they are
# shellcheck disable=SC2016 # commands in backquotes, as the page shows them
set -eu
cd "$(dirname "$0")/../.."
if [ ! -f "${LAB:-}/lab-verse-f16.gguf" ]; then echo "results.sh: LAB=DIR must hold lab-*-f16.gguf" >&2; exit 2; fi
LAB=$(cd "$LAB" && pwd)
BIN=$(cd "${BIN:-build/bin}" && pwd)
OUTPUT=${OUTPUT:-docs/results.md}
M=${KEEP:-$(mktemp -d "${TMPDIR:-/tmp}/results.XXXXXX")}
mkdir -p "$M"
[ -n "${KEEP:-}" ] || trap 'rm -rf "$M"' EXIT
trap 'exit 130' INT TERM HUP
PATH=$BIN:$PATH
LC_ALL=C
export PATH LAB M LC_ALL
sh tests/engine/install.sh
# shellcheck source=tests/engine/recipes.sh disable=SC1091
. tests/engine/recipes.sh

if [ ! -s "$M/answers" ]; then
    start_recipes
    for part in references round_trips types grafts blends adapter purified moe mtp experts; do "recipes_$part"; done
    make_model verse-in-base "organ-transplant --base \$LAB/lab-base-$kind.gguf --donor \$LAB/lab-verse-$kind.gguf --type organ --output \$OUT"
    ppl_made verse-in-base
    run_engine
    run_predict
else
    kind=f16 fine=$LAB/lab-verse-f16.gguf
fi
if [ -z "${SWEEP:-}" ]; then
    SWEEP=$M/sweep.tsv
    [ -s "$SWEEP" ] || { ENGINE_THREADS=${ENGINE_THREADS:-1} sh tests/engine/purify-sweep.sh "$LAB" > "$SWEEP.part" && mv "$SWEEP.part" "$SWEEP"; }
fi

# Four figures: the fifth may depend on the machine's kernels.
figure() {
    if [ -n "$1" ]; then awk -v x="$1" 'BEGIN { if (x >= 1000) printf "%.0f", x; else if (x >= 100) printf "%.1f", x; else if (x >= 10) printf "%.2f", x; else printf "%.3f", x }'
    else printf 'not loaded'; fi
}
both() { # MODEL [ADAPTER]: cells of the two texts
    printf '%s | %s' "$(figure "$(perplexity "$1" verse "${2:-}")")" "$(figure "$(perplexity "$1" code "${2:-}")")"
}
row() { # NAME WHAT
    echo "| $2 | $(both "$M/$1.gguf") |"
}
reference() { # NAME
    echo "| lab-$1 as it is | $(both "$LAB/lab-$1-f16.gguf") |"
}
digits() { # NAME BLOCK: all that predict.c prints
    d=$(prediction "$1" "$2")
    echo "${d:--}"
}
predicted() { # NAME WHAT
    echo "| $2 | $(digits "$1" trunk) | $(digits "$1" 0) | $(taken "$1" 0) | $(digits "$1" 1) | $(taken "$1" 1) |"
}
taken() { # NAME BLOCK: of those scored, %
    awk -F '\t' -v m="$1" -v b="block $2" '$1 == m && $2 == b { printf "%.1f %%", 100 * $5 / $4; n++ } END { if (!n) print "-" }' "$M/predictions"
}
decodes() { # do all of an architecture and trunk have the same perplexity there?
    for arch in step35 glm4moe qwen35; do
        for pair in bare:original bare:back tune:tuned tune:tuned8; do
            [ "$(perplexity "$M/$arch-${pair%:*}.gguf" verse)" = "$(perplexity "$M/$arch-${pair#*:}.gguf" verse)" ] || { echo "NOT IN $arch-${pair#*:}"; return; }
        done
    done
    echo "to all digits"
}
head2() {
    printf '\n| %s | verse text | code text |\n|---|---|---|\n' "$1"
}
# How the named models are made: the commands of recipes.sh, a name for each output.
commands() {
    printf '\nMade with\n\n'
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
    awk -F '\t' -v pair="$1, $2" 'NR == 2 { printf "| %s | %.3f | %.3f | %.3f | %s |\n", pair, $3, $4, $5, $1 }' "$M/lineage"
}

page() {
    cat << 'END'
# Results

Made by `LAB=DIR make results`; do not edit. What the tools do to the models of the lab, seen by an
engine that is not ours: llama.cpp, by the harness in tests/engine (its README has the definition).

The models: llama architecture, 2.9 M parameters, 4 blocks, vocabulary 1024, F16. *base* was trained on verse
and C code; *verse* and *code* are base trained on with one of them; *stranger* has the shape and data of
base and another seed. In DIR they are lab-base-f16.gguf and so on; below `-f16` is left out. tests/data/lab
has them in Q4_K_M. The texts were drawn from verse and code themselves (text-verse.txt, text-code.txt; 3762 and
3766 scored tokens).

Figures are perplexities: lower is better, 1024 is what guessing gives. They are of these small models and
these texts. That a thing works here shows that the tools do what they say; how well it works in a model a
thousand times the size, they cannot show. Four figures are given: on another machine the fifth may differ.
END
    printf '\n## The models as they are\n'
    head2 model
    for m in base verse code stranger; do echo "| $m | $(both "$LAB/lab-$m-f16.gguf") |"; done
    printf '\nCosine of matching matrices of blocks, all rows (`organ-compare A B --lineage --sample 0`):\n\n'
    echo '| pair | min | median | max | verdict |'
    echo '|---|---|---|---|---|'
    cosines base verse
    cosines base code
    cosines verse code
    cosines base stranger
    cosines verse stranger

    printf '\n## Round trips\n\n'
    echo 'Perplexity of lab-verse on verse after each, against before:'
    printf '\n| way | perplexity | all digits equal |\n|---|---|---|\n'
    before=$(perplexity "$LAB/lab-verse-f16.gguf" verse)
    for name in round-trip pipe split-experts shards-00001-of-00003 merged undone; do
        p=$(perplexity "$M/$name.gguf" verse)
        if [ "$p" = "$before" ]; then equal=yes; else equal=NO; fi
        echo "| $name | $(figure "$p") | $equal |"
    done
    commands round-trip pipe split-experts shards-00001-of-00003 merged undone

    printf '\n## Types\n\n'
    cat << 'END'
lab-verse with every matrix in one type, encoded without an importance matrix; norms stay F32. Bits a weight
are the type's. Relative L2 is the mean over the matrices of the blocks, against F16: the error of the
encoder.

END
    echo '| type | bits | relative L2 | perplexity on verse | of F16 |'
    echo '|---|---|---|---|---|'
    f16=$(perplexity "$M/type-f16.gguf" verse)
    for t in $TYPES_EXACT $TYPES8 q6_k q5_k q5_1 q5_0 $TYPES4 nvfp4 q3_k iq3_s iq3_xxs q2_k iq2_s iq1_m q2_0 tq2_0 tq1_0 q1_0; do
        p=$(perplexity "$M/type-$t.gguf" verse)
        bits=$(organ-extract "$M/type-$t.gguf" --tensors blk.0.attn_q.weight --list | awk 'NR == 2 { printf "%.4g", 8 * $8 / $7 }')
        l2=$(organ-compare "$fine" "$M/type-$t.gguf" --type organ,skeleton --summary 2> /dev/null | awk -F '\t' '$1 == "model" { printf "%.4f", $11 }')
        ratio=$(awk -v p="${p:-0}" -v f="$f16" 'BEGIN { if (p > 0) printf "%.3f", p / f; else print "-" }')
        echo "| $(echo "$t" | tr '[:lower:]' '[:upper:]') | $bits | $l2 | $(figure "$p") | $ratio |"
    done
    mixed=$(perplexity "$M/mixed.gguf" verse)
    echo "| mixed, see below | | | $(figure "$mixed") | $(awk -v p="$mixed" -v f="$f16" 'BEGIN { printf "%.3f", p / f }') |"
    cat << 'END'

1- and 2-bit types without an importance matrix, and ternary ones in a model that was not trained for
them, are for moving data, not for use: the table shows it.
END
    commands type-q4_k mixed

    printf '\n## Grafts\n'
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
    commands chimera chimera-12 chimera-skeleton mapped stranger-1 stranger graft-dir donor8 retype convert base8 convert-back
    cat << 'END'

Code's organs bring code's skill and cost some of verse's. A stranger's destroy both, and `organ-graft
--check` says "strangers" and exits 1 beforehand. One block's FFN from a stranger costs little here: the
verdict is about weights, and says what to expect, not what is. One block off, the organs of a
fine-tune are of as little use as a stranger's.
END
    printf '\n## Blends\n\nVerse and code, attention and FFN.\n'
    head2 blend
    for text in linear:0.25 linear:0.5 slerp:0.5 linear:0.75 linear:0..1 linear:1..0 task:0.5 task:1; do
        row "blend-$(printf %s "$text" | tr ':.' '--')" "\`$text\`"
    done
    row task-stranger '`linear:0.5` with stranger instead of code'
    commands blend-linear-0-5 blend-task-1 task-stranger

    printf '\n## Adapters\n\nlab-lora-code.gguf: rank 8, alpha 16, the leading part of code - base.\n'
    head2 model
    reference base
    echo "| base, adapter applied by the engine | $(both "$LAB/lab-base-f16.gguf" "$LAB/lab-lora-code.gguf") |"
    row folded "base, adapter folded in"
    row folded-half "base, folded in with --scale 0.5"
    commands folded folded-half

    printf '\n## Experts\n\n'
    echo "Four experts a block: the FFNs of base, verse, code and base, two used, under a router of zeros (stacked"
    echo 'by `make_moe` of tests/engine/recipes.sh). Not a trained mixture: this shows that stacks, pruning and'
    echo 'expert grafts give what they should.'
    head2 model
    row moe "four experts"
    row pruned "experts 1 and 3 removed, two left"
    row one-expert "expert 1 (verse's FFN) alone left"
    row verse-in-base "for comparison: base with verse's FFN, dense"
    row expert "experts 0 and 1 grafted onto themselves, with --router"
    commands pruned one-expert verse-in-base expert
    cat << 'END'

And base as glm4moe (see below), its FFNs shared experts, with eight more a block under a router of noise that
chooses two of them; made with other experts, the same model says what pruning and grafting must give:

| model | trunk, verse text | prediction block |
|---|---|---|
END
    for row in "eight:experts 0 to 7" "four:made with 0, 2, 5 and 7 only" "pruned8:made with 0 to 7, 1, 3, 4 and 6 removed" "others:made with 15 and 10 in place of 3 and 5" \
        "grafted:0 to 7, these two grafted, with --router" "unrouted:0 to 7, these two grafted, without"; do
        echo "| ${row#*:} | $(digits "${row%%:*}" trunk) | $(digits "${row%%:*}" 0) |"
    done
    commands pruned8 grafted unrouted

    printf '\n## Multi-token prediction\n\n'
    cat << 'END'
The lab models are llamas, which have no prediction blocks. `recast.mjs` of tests/engine makes them models of
architectures that do, of the same weights (query and key rows in another order). *step35* has keys with a value a
block and gets two prediction blocks with dense FFNs; *glm4moe* gets one with a router, experts and a shared
expert; both are the same function as the llama. *qwen35* is not: its first block is recurrent, and noise.

The prediction blocks are copies of base's last ones, with noise; nobody trained them. The engine evaluates the
trunk, then each block on the trunk's hidden states (`predict.c`; windows of 192 tokens, the first of each not
scored). "Taken" are the tokens that a block drafts and the trunk chooses too. All digits are given: equal is equal.

| model, verse text | trunk | block 0 | taken | block 1 | taken |
|---|---|---|---|---|---|
END
    for arch in step35 glm4moe qwen35; do
        predicted $arch-original "$arch, base with blocks"
        predicted $arch-bare "$arch, base without"
        predicted $arch-back "the blocks moved from the first to the second"
        predicted $arch-tune "$arch, verse: a fine-tune without"
        predicted $arch-tuned "base's blocks moved into it"
        predicted $arch-tuned8 "moved from base in Q8_0"
    done
    predicted step35-short "step35, base's first three blocks, with prediction blocks"
    predicted step35-short-back "the same without, blocks moved in from four blocks' depth"
    predicted step35-from-head "step35, base without; donor of prediction blocks alone, on a pipe"
    predicted step35-rejoined "step35, split into a trunk that announces two blocks and a file of the blocks, and joined"
    echo "| step35, moved with \`--add\`, block_count and nextn_predict_layers set, arrays left | $(awk -F '\t' '$1 == "step35-naive" { print $2 == "error" ? "refused by the engine" : "LOADED" }' "$M/predictions") | | | | |"
    echo
    echo "With blocks or without, a model decodes the same, $(decodes): there too where blocks are not loaded,"
    echo 'as in all other tables.'
    commands step35-back step35-tuned step35-original8 step35-tuned8 step35-from-head step35-rejoined step35-naive

    printf '\n## Purification\n\n'
    cat << 'END'
All FFN organs purified (`organ-purify M --type organ --method X --strength S --output P.gguf`), by strength;
relative L2 is the change of the values before encoding, "of before" the perplexity's ratio. Models and
their own texts; base on both.

END
    purification
}

# One row a strength: a pair of columns (perplexity, of before) a model and text.
purification() {
    for method in haar fft; do
        awk -F '\t' -v method=$method '
            NR > 1 && $3 == method {
                col = $1 " " $2; sub(/^lab-/, "", col); sub(/-f16/, "", col)
                if (!(col in seen)) { seen[col] = ++n; name[n] = col }
                if (!($4 in at)) { at[$4] = ++rows; strength[rows] = $4; rel[rows] = $5 }
                cell[at[$4], seen[col]] = sprintf("%.2f (%.3f)", $6, $7)
            }
            END {
                printf "| %s, strength | relative L2 |", method
                for (i = 1; i <= n; i++) { split(name[i], w, " "); printf " %s, %s text |", w[1], w[2] }
                printf "\n|---|---|"; for (i = 1; i <= n; i++) printf "---|"
                print ""
                for (r = 1; r <= rows; r++) {
                    printf "| %s | %s |", strength[r], rel[r]
                    for (i = 1; i <= n; i++) printf " %s |", cell[r, i]
                    print ""
                }
                print ""
            }' "$SWEEP"
    done
    of_default() { # METHOD: perplexity ratio of lab-verse
        awk -v p="$(perplexity "$M/purified-$1.gguf" verse)" -v b="$(perplexity "$LAB/lab-verse-f16.gguf" verse)" 'BEGIN { printf "%.3f", p / b }'
    }
    within() { # METHOD: the largest strength up to which all of the table stay within 5 %
        awk -F '\t' -v method="$1" 'NR > 1 && $3 == method { if ($7 > 1.05) { if (over == "" || $4 + 0 < over) over = $4 + 0 } all[$4 + 0] = 1 }
            END { for (s in all) if ((over == "" || s + 0 < over) && s + 0 > best) best = s + 0; print best }' "$SWEEP"
    }
    cat << END
With the default strengths (haar 0.125, fft 0.04) lab-verse on its own text has $(of_default haar) and $(of_default fft) times the
perplexity of before. All four columns stay within 5 % up to haar $(within haar) and fft $(within fft); by haar 1 the
models are broken.

It makes none of these models better: no change for the good is above a thousandth, and what the filters
take, the models use. The filters show how much detail of a tensor a model can do without.
[results-purify.md](results-purify.md) has the controls: random noise of the same size does less harm,
quantization is not undone; and what the filters do find.
END
}

page > "$OUTPUT.part"
mv "$OUTPUT.part" "$OUTPUT"
