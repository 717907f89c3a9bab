#!/bin/sh
# validate.sh - organ-validate: which engine it takes, what it makes of the engine's
# words, ratios and exit statuses. With engines made of shell; the real one is in
# tests/engine.
. "$(dirname "$0")/lib.sh"
V=$PWD/scripts/organ-validate
ORGAN_BIN=$BIN
ORGAN_ENGINE_DIR=$T/none
export ORGAN_BIN ORGAN_ENGINE_DIR
mkdir "$T/perplexity" "$T/cli" "$T/node" "$T/harness" "$T/harness/node_modules" "$T/plain"
# A PATH with the usual utilities, but no engine that this machine may have.
for f in sh sed awk grep head tail dirname mktemp rm cat printf expr tr readlink; do
    p=$(command -v $f)
    case $p in /*) ln -s "$p" "$T/plain/$f" ;; esac
done

# Perplexity by the model's name; a broken model fails as llama.cpp does.
cat > "$T/perplexity/llama-perplexity" << 'END'
#!/bin/sh
while [ $# -gt 0 ]; do
    case $1 in -m) m=$2 ;; -c) c=$2 ;; esac
    shift
done
case $m in
*broken*) echo "llama_model_load: error loading model: invalid magic" >&2; exit 1 ;;
*good*) p=10.5 ;;
*bad*) p=11.5 ;;
*nan*) p=nan ;;
*) p=10.0 ;;
esac
[ "$c" != 4096 ] || {
    echo "perplexity: you need at least 8192 tokens to evaluate perplexity with a context of 4096"
    exit 0
}
echo "[1]9.0,[2]10.1,"
echo "Final estimate: PPL = $p +/- 0.5"
END
cat > "$T/cli/llama-cli" << 'END'
#!/bin/sh
case "$*" in *broken*) echo "error: failed to load" >&2; exit 1 ;; esac
echo "The words"
END
cat > "$T/node/node" << 'END'
#!/bin/sh
# node engine.mjs ppl MODEL TEXT | gen MODEL PROMPT N
case $3 in
*broken*) printf '%s\tx\terror\tFailed to load model\n' "$3"; exit 1 ;;
*bad*) p=20.25 ;;
*) p=10.0625 ;;
esac
[ "$2" = ppl ] || p="1 2 3"
printf '%s\tx\t%s\t9\n' "$3" "$p"
END
: > "$T/harness/engine.mjs"
chmod +x "$T"/*/llama-* "$T/node/node"
for m in reference good bad broken nan; do echo x > "$T/$m.gguf"; done
echo words > "$T/text"
ENGINE=perplexity
try() { # organ-validate with the engines of $ENGINE and no others
    path=
    for e in $ENGINE; do path=$path$T/$e:; done
    (PATH=$path$T/plain exec sh "$V" "$@")
}
cell() { # MODEL COLUMN of $T/out
    awk -F "$TAB" -v m="$T/$1.gguf" -v c="$2" "$BY_NAME"'col("model") == m { print $c }' "$T/out"
}

check "perplexity" try "$T/good.gguf" --text "$T/text"
check_text "$(head -n 1 "$T/out")" "model${TAB}engine${TAB}load${TAB}perplexity${TAB}ratio${TAB}kl" "header"
check_text "$(cell good 2) $(cell good 3) $(cell good 4) $(cell good 5)" "llama-perplexity ok 10.5 -" "row"
check "as good as the reference" try "$T/good.gguf" --text "$T/text" --reference "$T/reference.gguf"
check_text "$(cell reference 4) $(cell good 4) $(cell good 5)" "10.0 10.5 1.0500" "ratio, and just allowed"
: > "$T/empty"
check_exit 2 "an empty text" try "$T/good.gguf" --text "$T/empty"
check_exit 1 "worse" try "$T/bad.gguf" --text "$T/text" --reference "$T/reference.gguf"
check_text "$(cell bad 5)" "1.1500" "worse: the ratio"
if grep -q "1.1500 times the reference's" "$T/err"; then ok; else bad "worse: not told"; fi
check "worse, as allowed" try "$T/bad.gguf" --text="$T/text" --reference="$T/reference.gguf" --max-ratio=1.2
check_exit 1 "a model that does not load" try "$T/broken.gguf" --text "$T/text"
check_text "$(cell broken 3) $(cell broken 4)" "failed -" "a model that does not load"
if grep -q "invalid magic" "$T/err"; then ok; else bad "the engine's reason is not told: $(cat "$T/err")"; fi
check_exit 1 "no finite perplexity" try "$T/nan.gguf" --text "$T/text"
check_exit 3 "a broken reference" try "$T/good.gguf" --text "$T/text" --reference "$T/broken.gguf"
check_exit 3 "a text too short" try "$T/good.gguf" --text "$T/text" --context 4096
check "json" try "$T/good.gguf" --text "$T/text" --reference "$T/reference.gguf" --json
check_text "$(tail -n 1 "$T/out")" \
    "{\"model\": \"$T/good.gguf\", \"engine\": \"llama-perplexity\", \"load\": \"ok\", \"perplexity\": 10.5, \
\"ratio\": 1.0500, \"kl\": null}" "json"

ENGINE=cli
check "llama-cli: loads" try "$T/good.gguf"
check_text "$(cell good 2) $(cell good 3) $(cell good 4)" "llama-cli ok -" "llama-cli"
check_text "$(cat "$T/err")" "organ-validate: $T/good.gguf: after \"The\" it writes: words" "llama-cli: a sample"
check "llama-cli: -q" try -q "$T/good.gguf"
check_text "$(cat "$T/err")" "" "llama-cli: no sample"
check_exit 1 "llama-cli: does not load" try "$T/broken.gguf"
check_exit 3 "llama-cli has no perplexity" try "$T/good.gguf" --text "$T/text"

ENGINE="node" ORGAN_ENGINE_DIR=$T/harness
check "the harness" try "$T/good.gguf" --text "$T/text" --reference "$T/reference.gguf"
check_text "$(cell good 2) $(cell good 4) $(cell good 5)" "node 10.0625 1.0000" "the harness"
check_exit 1 "the harness: worse" try "$T/bad.gguf" --text "$T/text" --reference "$T/reference.gguf"
check "the harness: load only" try "$T/good.gguf"
check_text "$(cell good 3) $(cell good 4)" "ok -" "the harness: load only"
check_exit 1 "the harness: does not load" try "$T/broken.gguf"
ENGINE="node perplexity cli"
check "the first of all" try "$T/good.gguf" --text "$T/text"
check_text "$(cell good 2)" llama-perplexity "the first of all"
check "without a text" try "$T/good.gguf"
check_text "$(cell good 2)" node "without a text another that loads"
check "--engine" try "$T/good.gguf" --engine llama-cli
check_text "$(cell good 2)" llama-cli "--engine"

# organ-probe: figures by the model's name, and blocks by a file beside it.
cat > "$T/probe" << 'END'
#!/bin/sh
echo "$*" >> "$HERE/probe.calls"
m=$2
case $1 in -j) m=$4 ;; esac
case $m in
*broken*) echo "organ-probe: it does not load" >&2; exit 3 ;;
*words*) echo "organ-probe: its vocabulary differs" >&2; exit 1 ;;
esac
case "$*" in *--trace*)
    printf 'block\ttokens\tin\tattention\tffn\tout\n0\t63\t1\t2\t10\t10\n1\t63\t10\t%s\t3\t12\n' \
        "$(cat "${m%.gguf}.adds" 2> /dev/null || echo 3)"
    exit ;;
*--save-base*) : > "$HERE/saved" ; for f; do [ "$last" = --save-base ] && : > "$f"; last=$f; done ;;
esac
case $m in *bad*) p=300 kl=2.5 ;; *nan*) p=20 kl=0.2 ;; *) p=10 kl=0.001 ;; esac
case "$*" in *--against*) printf 'text\ttokens\tloss\terror\tperplexity\tkl\nt\t128\t2\t0.1\t%s\t%s\n' $p $kl ;;
*) printf 'text\ttokens\tloss\terror\tperplexity\nt\t128\t2\t0.1\t%s\n' $p ;; esac
END
chmod +x "$T/probe"
HERE=$T ORGAN_PROBE=$T/probe
export HERE ORGAN_PROBE
check "organ-probe first" try "$T/good.gguf" --threads 1
check_text "$(cell good 2) $(cell good 3) $(cell good 4) $(cell good 6)" "probe ok 10 -" "organ-probe"
check_text "$(grep -c -e '-j 1 .*good.gguf --text .*plain-text.txt --tokens 129' "$T/probe.calls")" 1 \
    "128 tokens of its own text"
check "a reference without a text" try "$T/good.gguf" --reference "$T/reference.gguf"
check_text "$(cell good 5) $(cell good 6)" "1.0000 0.001" "ratio and divergence"
check "with a text" try "$T/good.gguf" --text "$T/text" --context 99
check_text "$(grep -c -e "--context 99 .*good.gguf --text $T/text\$" "$T/probe.calls")" 1 "the whole text"
check_exit 1 "diverges" try "$T/bad.gguf" --reference "$T/reference.gguf" --max-ratio 100
if grep -q "broken: its predictions diverge from the reference by 2.5 nats per token" "$T/err"; then ok; else \
    bad "no reason: $(cat "$T/err")"; fi
check_exit 1 "worse without a text" try "$T/nan.gguf" --reference "$T/reference.gguf"
echo 120 > "$T/good.adds"
check_exit 1 "attention adds too much" try "$T/good.gguf" --reference "$T/reference.gguf"
if grep -q "broken: block 1: what attention adds is 40 times the reference's" "$T/err"; then ok; else \
    bad "no reason: $(cat "$T/err")"; fi
check "far too much would be 100 times" try "$T/good.gguf"
echo 1200 > "$T/good.adds"
check_exit 1 "far too much" try "$T/good.gguf"
if grep -q "broken: block 1: what attention adds is 120 times what comes in" "$T/err"; then ok; else \
    bad "no reason: $(cat "$T/err")"; fi
echo nan > "$T/good.adds"
check_exit 1 "not a number" try "$T/good.gguf"
rm "$T/good.adds"
mkmodel "$T/bad-vocabulary.gguf" token_embd.weight:F32:32x1024
check_exit 1 "does not load" try "$T/broken.gguf"
: > "$T/words.gguf"
check_exit 3 "another vocabulary" try "$T/words.gguf" --reference "$T/reference.gguf"
ORGAN_PROBE=''

ENGINE='' ORGAN_ENGINE_DIR=$T/none
rm -r "$T/harness/node_modules"
check_error 4 "no engine" "no engine" env ORGAN_ENGINE_DIR="$T/harness" PATH="$T/plain" sh "$V" "$T/good.gguf" \
    --text "$T/text"
check_error 4 "llama-perplexity" "an engine that is not there" try "$T/good.gguf" --engine llama-perplexity \
    --text "$T/text"
ENGINE=perplexity
check_error 2 "no model" "no model" try --text "$T/text"
check_error 2 "--text" "a reference without a text" try "$T/good.gguf" --reference "$T/bad.gguf"
check_error 2 "--max-ratio" "a ratio that is none" try "$T/good.gguf" --text "$T/text" --max-ratio x
check_error 2 "--engine" "an unknown engine" try "$T/good.gguf" --engine some
check_error 2 "unknown option" "an unknown option" try "$T/good.gguf" --nonsense
check_error 4 "none.gguf" "a model that is not there" try "$T/none.gguf" --text "$T/text"
check_error 3 "folder" "a folder" try "$T/harness" --text "$T/text"
check "help" "$V" --help
check_text "$(awk 'length($0) > 80' "$T/out" | wc -l | tr -d ' ')" 0 "help fits 80 columns"
check "version" "$V" --version
# Several models and texts: one table, the best model of each text first.
echo one > "$T/one.txt"
echo two > "$T/two.txt"
for m in good bad plain broken; do echo x > "$T/m-$m.gguf"; done
check_exit 1 "several models and texts" env PATH="$T/perplexity:$PATH" "$V" --engine llama-perplexity \
    --text "$T/one.txt" --text "$T/two.txt" "$T/m-bad.gguf" "$T/m-good.gguf" "$T/m-broken.gguf" "$T/m-plain.gguf"
check_text "$(cells model,load,perplexity,text "$T/out" | sed "s|$T/||g" |
    tr '\t\n' ' ;')" "model load perplexity text;\
m-plain.gguf ok 10.0 one.txt;m-good.gguf ok 10.5 one.txt;m-bad.gguf ok 11.5 one.txt;m-broken.gguf failed - one.txt;\
m-plain.gguf ok 10.0 two.txt;m-good.gguf ok 10.5 two.txt;m-bad.gguf ok 11.5 two.txt;m-broken.gguf failed - two.txt;" \
    "one table, best first"
# On a terminal, columns that fit it, with four digits.
if have script "output on a terminal" bsdutils && script -qec true /dev/null < /dev/null > /dev/null 2>&1; then
    for texts in "" "--text $T/two.txt"; do
        script -qec "env PATH='$T/perplexity:$PATH' $V -q --engine llama-perplexity --text '$T/one.txt' $texts \
            '$T/m-bad.gguf' '$T/m-good.gguf'" /dev/null < /dev/null | tr -d '\r' > "$T/seen"
        check_text "$(grep -c "^$T/m-good.gguf  llama-perplexity  ok     *10[.]5  *-  *-  $T/one.txt" \
            "$T/seen") $(grep -c "$TAB" "$T/seen")" "1 0" "columns on a terminal${texts:+, two texts}"
    done
fi
cat > "$T/cli.sh" << 'END'
#!/bin/sh
echo The sun is warm
END
mkdir "$T/says" && mv "$T/cli.sh" "$T/says/llama-cli" && chmod +x "$T/says/llama-cli"
check "several models without a text" env PATH="$T/says:$PATH" "$V" --engine llama-cli "$T/m-good.gguf" \
    "$T/m-plain.gguf"
check_text "$(grep -c 'after "The" it writes: sun is warm' "$T/err")" 2 "what each of several models writes"
check "quiet" env PATH="$T/says:$PATH" "$V" -q --engine llama-cli "$T/m-good.gguf" "$T/m-plain.gguf"
check_text "$(cat "$T/err")" "" "quiet: nothing is said"
finish
