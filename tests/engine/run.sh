#!/bin/sh
# run.sh - does a real engine load what the suite makes, and do its probabilities say
# what they should? Ends with "engine: N passed, M failed"; exit 1 if anything failed.
#
#   BIN=build/bin      the tools
#   LAB=tests/data/lab a folder of lab models; with lab-*-f16.gguf in it those are used,
#                      and the figures known for them are held too
#   KEEP=DIR           leave the models, their commands and the answers there
#
# Without node and npm nothing is tried, and the exit status is 0.
set -u
cd "$(dirname "$0")/../.." || exit 1
for tool in node npm; do
    command -v $tool > /dev/null 2>&1 || { echo "engine: skipped, $tool is not installed"; exit 0; }
done
sh tests/engine/install.sh || { echo "engine: the engine could not be installed"; exit 1; }
BIN=${BIN:-build/bin}
LAB=$(cd "${LAB:-tests/data/lab}" && pwd) || exit 1
M=${KEEP:-$(mktemp -d "${TMPDIR:-/tmp}/engine.XXXXXX")}
mkdir -p "$M" || exit 1
[ -n "${KEEP:-}" ] || trap 'rm -rf "$M"' EXIT
trap 'exit 130' INT TERM HUP
PATH=$(cd "$BIN" && pwd):$PATH
LC_ALL=C
export PATH LAB M LC_ALL
# shellcheck source=tests/engine/recipes.sh
. tests/engine/recipes.sh

passed=0 failed=0
ok() {
    passed=$((passed + 1))
}
bad() {
    failed=$((failed + 1))
    echo "FAIL engine: $1"
}
# hold WHAT AWK-CONDITION-of-x-and-y X Y
hold() {
    if [ -z "$3" ] || [ -z "$4" ]; then bad "$1: the engine gave no perplexity"
    elif awk -v x="$3" -v y="$4" "BEGIN { exit !($2) }"; then ok
    else bad "$1: $3 against $4"
    fi
}
same() { # WHAT A B: all digits
    if [ -n "$2" ] && [ "$2" = "$3" ]; then ok; else bad "$1: '$2', '$3' wanted"; fi
}
lab() { perplexity "$LAB/lab-$1-$kind.gguf" "$2"; }
made() { perplexity "$M/$1.gguf" "$2"; }
tokens() { awk -F '\t' -v m="$1" '$1 == m && $2 == "The " { print $3 " | " $5 }' "$M/answers"; }

progress "making models"
start_recipes
for part in references round_trips types grafts blends adapter lora purified moe mtp experts tied stack checkpoints \
    vocabulary; do
    "recipes_$part"
done
if [ -s "$M/failed" ]; then
    while read -r name; do bad "$name could not be made: $(awk -F '\t' -v n="$name" '$1 == n { print $2 }' \
        "$M/commands")"; done < "$M/failed"
fi
run_engine
run_predict || { cat "$M/predict.log"; echo \
    "engine: prediction blocks are loaded by nothing here: that needs git and a C compiler"; }
# A model that the engine refuses has one line of its own.
# shellcheck disable=SC2013 # names without spaces
for name in $(awk -F '\t' -v m="$M/" '$3 == "error" { sub(m, "", $1); print $1 }' "$M/answers" | sort -u); do
    case $name in
    type-*.gguf) ;; # below: some types are older or newer than the engine
    *) bad "$name: $(grep -F "$name$(printf '\t')" "$M/answers" | head -n 1 | cut -f 4)" ;;
    esac
done

# ---- known figures ---------------------------------------------------------------------
known() { # MODEL TEXT FIGURE
    hold "lab-$1-f16 on $2: the known figure" 'x >= y - 0.00501 && x <= y + 0.00501' "$(lab "$1" "$2")" "$3"
}
if [ $kind = f16 ]; then
    known base verse 20.76
    known base code 7.17
    known verse verse 16.94
    known verse code 21.04
    known code verse 48.25
    known code code 5.63
    known stranger verse 25.01
    known stranger code 10.51
fi

# ---- round trips: every digit --------------------------------------------------------------
for name in round-trip pipe split-experts shards-00001-of-00003 merged undone; do
    same "$name" "$(made $name verse)" "$(lab verse verse)"
done
same "greedy tokens after a round trip" "$(tokens "$M/round-trip.gguf")" "$(tokens "$LAB/lab-verse-$kind.gguf")"
case $(tokens "$M/chimera.gguf") in *[0-9]*) ok ;; *) bad "the chimera writes nothing" ;; esac

# ---- types -------------------------------------------------------------------------------------
f16=$(made type-f16 verse)
hold "F16 from what it was" 'x < 1.001 * y && x > 0.999 * y' "$f16" "$(perplexity "$fine" verse)"
for t in f32 bf16; do hold "$t against F16" 'x < 1.01 * y && x > 0.99 * y' "$(made type-$t verse)" "$f16"; done
for t in $TYPES8; do hold "$t against F16" 'x < 1.03 * y && x > 0.97 * y' "$(made "type-$t" verse)" "$f16"; done
for t in $TYPES4 q6_k q5_k q5_0 q5_1; do hold "$t against F16" 'x < 1.1 * y && x > 0.9 * y' "$(made "type-$t" verse)" \
    "$f16"; done
hold "a mixture of types against F16" 'x < 1.1 * y' "$(made mixed verse)" "$f16"
for t in $TYPES_OTHER; do
    p=$(made "type-$t" verse)
    if [ -n "$p" ]; then ok; else
        # Only loading is tested. A type that this version of the engine lacks is not a failure.
        why=$(awk -F '\t' -v m="$M/type-$t.gguf" '$1 == m { print $4; exit }' "$M/answers")
        case $why in *"invalid ggml type"* | *"unknown type"*) echo "engine: $t is not known to this engine" ;; *) \
            bad "$t: $why" ;; esac
    fi
    echo "engine: $t: perplexity ${p:-none} (F16: $f16)"
done

# ---- grafts ----------------------------------------------------------------------------------------
hold "code's FFN in verse: better at code" 'x < 0.8 * y' "$(made chimera code)" "$(lab verse code)"
hold "code's FFN in verse: not as good as code" 'x > y' "$(made chimera code)" "$(lab code code)"
hold "code's FFN in verse: worse at verse" 'x > y' "$(made chimera verse)" "$(lab verse verse)"
hold "code's FFN in verse: still speaks verse" 'x < 2 * y' "$(made chimera verse)" "$(lab verse verse)"
same "graft of directories and transplant" "$(made graft-dir code)" "$(made chimera code)"
for name in retype convert; do
    hold "$name against exact" 'x < 1.05 * y && x > 0.95 * y' "$(made $name code)" "$(made chimera code)"
done
hold "convert back against exact" 'x < 1.05 * y && x > 0.95 * y' "$(made convert-back code)" "$(made chimera code)"
for name in chimera-skeleton chimera-12; do
    hold "$name: better at code" 'x < y' "$(made $name code)" "$(lab verse code)"
done
for text in verse code; do
    hold "a stranger's FFN breaks the model, $text" 'x > 20 * y' "$(made stranger $text)" "$(lab verse $text)"
done
hold "a stranger's FFN in one block harms" 'x > 1.05 * y' "$(made stranger-1 verse)" "$(lab verse verse)"
check() { # EXIT TEXT DONOR
    organ-graft --source "$LAB/lab-$3-$kind.gguf" --target "$LAB/lab-verse-$kind.gguf" --type ffn --check > "$M/out" \
        2> "$M/err"
    status=$?
    if [ $status = "$1" ] && grep -q "lineage: $2" "$M/err"; then ok; else \
        bad "--check of lab-$3: exit $status, $(tail -n 2 "$M/err")"; fi
}
check 1 strangers stranger
check 0 "same lineage" code

# ---- layers ----------------------------------------------------------------------------------------
for text in verse code; do
    same "all blocks in their order" "$(made stack-all $text)" "$(lab verse $text)"
    for b in 0 1 2 3; do
        hold "without block $b: worse, $text" 'x > y' "$(made stack-drop$b $text)" "$(lab verse $text)"
        hold "block $b twice: loads, $text" 'x > y' "$(made stack-repeat$b $text)" 1
    done
    hold "eight blocks: loads, $text" 'x > y' "$(made stack-both $text)" 1
done
hold "verse below code: better at code than verse" 'x < y' "$(made stack-verse-code code)" "$(lab verse code)"
hold "code below verse: better at verse than code" 'x < y' "$(made stack-code-verse verse)" "$(lab code verse)"

# ---- blends -----------------------------------------------------------------------------------------
for name in blend-linear-0-5 blend-slerp-0-5 blend-linear-0-25 blend-linear-0-75 blend-linear-0--1 blend-linear-1--0; \
    do
    hold "$name: better at code than verse" 'x < y' "$(made $name code)" "$(lab verse code)"
    hold "$name: better at verse than code" 'x < y' "$(made $name verse)" "$(lab code verse)"
done
hold "more of code is better at code" 'x < y' "$(made blend-linear-0-75 code)" "$(made blend-linear-0-25 code)"
hold "task: code's part added to verse" 'x < y' "$(made blend-task-1 code)" "$(lab verse code)"
hold "half a stranger breaks the model" 'x > 3 * y' "$(made task-stranger code)" "$(lab verse code)"

# ---- adapter ----------------------------------------------------------------------------------------
for text in verse code; do
    hold "folded adapter against the engine's own, $text" 'x < 1.02 * y && x > 0.98 * y' \
        "$(made folded $text)" "$(perplexity "$LAB/lab-base-$kind.gguf" $text "$LAB/lab-lora-code.gguf")"
done
hold "the adapter helps with code" 'x < y' "$(made folded code)" "$(lab base code)"
hold "half of it: between" 'x < y' "$(made folded-half code)" "$(lab base code)"

# ---- adapters made from a difference ----------------------------------------------------------------
rank() { perplexity "$LAB/lab-base-$kind.gguf" code "$M/lora-$1.gguf"; }
hold "an adapter of rank 4 helps with code" 'x < y' "$(rank 4)" "$(lab base code)"
hold "rank 16 is nearer to code than rank 4" 'x < y' "$(rank 16)" "$(rank 4)"
hold "rank 64 is nearer to code than rank 16" 'x < y' "$(rank 64)" "$(rank 16)"
hold "full rank is nearer to code than rank 64" 'x < y' "$(rank 256)" "$(rank 64)"
for text in verse code; do
    hold "full rank and the norms are code, $text" 'x < 1.001 * y && x > 0.999 * y' \
        "$(perplexity "$M/base-norms.gguf" $text "$M/lora-256.gguf")" "$(lab code $text)"
done

# ---- purified ------------------------------------------------------------------------------------------
for method in haar fft; do
    hold "purified with the defaults, $method" 'x < 1.05 * y' "$(made purified-$method verse)" "$(lab verse verse)"
done

# ---- experts -------------------------------------------------------------------------------------------
for text in verse code; do
    hold "four experts speak, $text" 'x < 3 * y' "$(made moe $text)" "$(lab base $text)"
    hold "two of them left speak, $text" 'x < 3 * y' "$(made pruned $text)" "$(lab base $text)"
    same "experts onto themselves, $text" "$(made expert $text)" "$(made moe $text)"
done
make_model verse-in-base \
    "organ-transplant --base \$LAB/lab-base-$kind.gguf --donor \$LAB/lab-verse-$kind.gguf --type ffn --output \$OUT"
node tests/engine/engine.mjs ppl "$M/verse-in-base.gguf" "$LAB/text-verse.txt" >> "$M/answers"
hold "one expert left is verse's FFN in base" 'x < 1.001 * y && x > 0.999 * y' "$(made one-expert verse)" "$(made \
    verse-in-base verse)"

# ---- prediction blocks -----------------------------------------------------------------------------------
# They take no part in ordinary decoding: the same digits with and without, the same tokens.
for arch in step35 glm4moe qwen35; do
    [ $arch = qwen35 ] || hold "base as $arch" 'x < 1.001 * y && x > 0.999 * y' "$(made $arch-bare verse)" "$(lab \
        base verse)"
    for name in original back; do same "$arch-$name decodes as the bare one" "$(made $arch-$name verse)" "$(made \
        $arch-bare verse)"; done
    for name in tuned tuned8; do same "$arch-$name decodes as the fine-tune" "$(made $arch-$name verse)" "$(made \
        $arch-tune verse)"; done
    same "$arch: greedy tokens" "$(tokens "$M/$arch-tuned.gguf")" "$(tokens "$M/$arch-tune.gguf")"
done
same "a base of three blocks" "$(made step35-short-back verse)" "$(made step35-short verse)"
same "a donor of prediction blocks alone" "$(made step35-from-head verse)" "$(made step35-bare verse)"
# What they predict: the same digits as in the model they come from.
lines() { awk -F '\t' -v m="$1" '$1 == m { sub(/^[^\t]*\t/, ""); print }' "$M/predictions"; }
if [ -s "$M/predictions" ]; then
    for arch in step35 glm4moe qwen35; do same "$arch-back predicts as the original" "$(lines $arch-back)" "$(lines \
        $arch-original)"; done
    same "renumbered, they predict the same" "$(lines step35-short-back)" "$(lines step35-short)"
    same "from a donor of them alone" "$(lines step35-from-head)" "$(lines step35-original)"
    same "split from their trunk and joined" "$(lines step35-rejoined)" "$(lines step35-original)"
    for block in 0 1; do
        hold "block $block of step35 says something" 'x < y' "$(prediction step35-original $block)" 1100
        hold "block $block of step35 from Q8_0" 'x < 1.02 * y && x > 0.98 * y' "$(prediction step35-tuned8 $block)" \
            "$(prediction step35-tuned $block)"
    done
    for arch in glm4moe qwen35; do
        hold "block 0 of $arch from Q8_0" 'x < 1.02 * y && x > 0.98 * y' "$(prediction $arch-tuned8 0)" "$(prediction \
            $arch-tuned 0)"
    done
    hold "a fine-tune's trunk makes them say something else" 'x != y' "$(prediction step35-tuned 0)" "$(prediction \
        step35-original 0)"
    same "moved with --add" "$(lines step35-added)" "$(lines step35-original)"
    for name in pruned8:four grafted:others; do same "${name%:*} predicts as ${name#*:}" "$(lines "${name%:*}")" \
        "$(lines "${name#*:}")"; done
    for name in $(awk -F '\t' '$2 == "error" { print $1 }' "$M/predictions"); do bad "$name: $(head -n 2 \
        "$M/$name.err")"; done
fi

# ---- experts under a router that chooses -------------------------------------------------------------------
same "four of eight experts left" "$(made pruned8 verse)" "$(made four verse)"
hold "which is another model than with eight" 'x != y' "$(made four verse)" "$(made eight verse)"
same "two experts with their router rows" "$(made grafted verse)" "$(made others verse)"
hold "without them: another model" 'x != y' "$(made unrouted verse)" "$(made others verse)"
hold "and not the one of before" 'x != y' "$(made unrouted verse)" "$(made eight verse)"
organ-extract "$M/four.gguf" --split-experts --output "$M/few.d" && sed '/ffn_[a-z]*\.[123]\.weight/d' \
    "$M/few.d/manifest.json" > "$M/few.json" && mv "$M/few.json" "$M/few.d/manifest.json"
organ-assemble "$M/few.d" --output "$M/few.gguf" 2> "$M/err" # the engine would abort
status=$?
if [ $status = 3 ] && grep -q "keeps 1 expert, but 2 are used at a time" "$M/err" && [ ! -e "$M/few.gguf" ]; then ok
else bad "fewer experts than are used: exit $status, $(cat "$M/err")"; fi

# ---- a head that is the token embedding ---------------------------------------------------------------------
same "merged from checkpoints, or from GGUF files" "$(made from-checkpoints code)" "$(made from-gguf code)"
same "a checkpoint without the keys, with a vocabulary" "$(made from-config code)" "$(made code-f16 code)"
same "without a head: the embedding in its place" "$(made tied verse)" "$(made untied verse)"
same "with its head back" "$(made head-back verse)" "$(lab base verse)"
hold "which is not the embedding" 'x > 2 * y' "$(made tied verse)" "$(lab base verse)"

# ---- vocabularies ---------------------------------------------------------------------------------------------
# The tokens of a union stand in another order, so that sums round in another way.
hold "the union of two trims is the whole" 'x < y * 1.000001 && y < x * 1.000001' "$(made trims-joined verse)" \
    "$(lab verse verse)"
# Without the rare tokens, texts are divided in another way and are harder to predict.
hold "a trim without rare words still speaks" 'x < 400 && x > y' "$(made trim-first verse)" "$(lab verse verse)"
hold "60,000 more tokens have a share of the probability" 'x > y && x < 1000 * y' "$(made many-tokens verse)" \
    "$(lab verse verse)"

# ---- organ-check against the engine ---------------------------------------------------------------------------
# What was made above and loads has no errors.
awk -F '\t' '{ name = $1; sub(/\+.*/, "", name) } $3 == "error" { bad[name] = 1; next } { good[name] = 1 }
    END { for (m in good) if (!(m in bad)) print m }' "$M/answers" | sort > "$M/loaded"
while read -r model; do
    if organ-check -q "$model" > "$M/check"; then ok; else bad "organ-check on $model: $(awk -F '\t' \
        '$2 == "error" { print $3 ": " $5; exit }' "$M/check")"; fi
done < "$M/loaded"
# A part that ended early is a failure where the programs that it needs are there.
left_out() { # SCRIPT TEXT
    clear_progress
    cc=${CC:-cc} # of several words
    if command -v git > /dev/null && command -v "${cc%% *}" > /dev/null; then bad "$1.sh: $(tail -n 3 "$M/$1")"
    else echo "engine: $2; that needs git and a C compiler"; fi
}
progress "loading damaged models, to compare organ-check with the engine"
if sh tests/engine/checks.sh > "$M/checks" 2>&1; then
    clear_progress
    cat "$M/checks"
    # shellcheck disable=SC2046 # three numbers
    set -- $(sed -n 's/^checks: //p' "$M/checks")
    hold "no model that loads is called an error" 'x == y' "$1" 0
    hold "at least 99 % of the refused models are called an error or warned" 'x <= 0.01 * y' "$2" "$3"
    hold "enough models are refused to tell" 'x >= y' "$3" 100
else
    left_out checks "organ-check was not compared with the engine"
fi
progress "loading fused and stacked models"
if sh tests/engine/forms.sh > "$M/forms" 2>&1; then
    clear_progress
    cat "$M/forms"
    # shellcheck disable=SC2046 # four numbers
    set -- $(sed -n 's/^forms: //p' "$M/forms")
    hold "models of most architectures are fused" 'x >= y' "$1" 100
    hold "blocks are ordered in many ways" 'x >= y' "$2" 500
    hold "every result loads" 'x == y' "$3" 0
    hold "fused and divided, models are the same" 'x == y' "$4" 0
else
    left_out forms "fused and stacked models were not loaded"
fi
progress "reserving caches, to compare organ-info with the engine"
if sh tests/engine/memory.sh > "$M/memory" 2>&1; then
    clear_progress
    cat "$M/memory"
    # shellcheck disable=SC2046 # three numbers
    set -- $(sed -n 's/^memory: //p' "$M/memory")
    hold "at least ten architectures are compared" 'x >= y' "$1" 10
    hold "the engine reserves what organ-info says, within 2 %" 'x == y' "$3" 0
else
    left_out memory "the memory for caches was not compared"
fi
progress "comparing token ids of real tokenizers"
sh tests/engine/tokenizers.sh > "$M/tokenizers" 2> "$M/tokenizers.err"
case $? in
0) ok ;;
2) clear_progress && echo "engine: token ids were not compared; the packages could not be installed" ;;
*) bad "tokenizers: $(tail -n 3 "$M/tokenizers.err")" ;;
esac
progress "running organ-probe"
if sh tests/engine/probe.sh > "$M/probe" 2>&1; then ok; else bad "organ-probe: $(grep FAIL "$M/probe" || tail -n 3 \
    "$M/probe")"; fi
clear_progress
tail -n 1 "$M/probe"

echo "engine: $passed passed, $failed failed"
[ $failed -eq 0 ]
