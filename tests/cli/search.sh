#!/bin/sh
# shellcheck disable=SC1091,SC2016
# search.sh - organ-search with recipes that write numbers, and engines made of shell that compute
# a perplexity from these numbers, with a known best place. The real engine is in tests/engine.
. "$(dirname "$0")/lib.sh"
S=$PWD/scripts/organ-search
ORGAN_BIN=$BIN
export ORGAN_BIN
unset MAKEFLAGS MFLAGS MAKELEVEL
${MAKE:-make} --version 2> /dev/null | grep -q GNU || { check_text "no GNU make" "no GNU make" ""; finish; }

# The log of the perplexity of text k is k + (a - 0.3 k)^2 + (b - 2)^2 / 4 + (a - 0.3 k)(b - 2) / 4
# + (n - 3)^2 / 100, and 0.1 more for each type but q5.
cat > "$T/formula.awk" << 'END'
FNR == NR { split($0, x, " "); next }
FNR == 1 {
    k = $1
    a = x[1] - 0.3 * k; b = x[2] - 2
    f = k + a * a + b * b / 4 + a * b / 4 + (x[3] - 3) ^ 2 / 100 + (x[4] == "q5" ? 0 : 0.1)
    printf "%.9f\n", exp(f)
}
END
cat > "$T/engine" << 'END'
#!/bin/sh
# engine MODEL TEXT...: counts its calls; `stop` names the call at which it ends the search
m=$1
shift
echo >> "$HERE/calls"
n=$(wc -l < "$HERE/calls")
if [ "$((n))" = "$(cat "$HERE/stop" 2> /dev/null)" ]; then kill "$(cat "$HERE/pid")"; sleep 2; fi
[ ! -e "$HERE/broken" ] || { echo "engine: model not found" >&2; exit 1; }
if [ -e "$HERE/fails" ]; then case $(cat "$m") in "0.5 1 1 q4"*) ;; *) echo nan; echo nan; exit 0 ;; esac; fi
for t; do $MATH -f "$HERE/formula.awk" "$m" "$t"; done
END
cat > "$T/batch" << 'END'
#!/bin/sh
echo >> "$HERE/starts"
while IFS='	' read -r op model text; do
    printf '%s\t%s\t%s\t9\n' "$model" "$text" "$($MATH -f "$HERE/formula.awk" "$model" "$text")"
    [ ! -e "$HERE/dies" ] || exit 3
done
END
chmod +x "$T/engine" "$T/batch"
HERE=$T MATH=$(math_awk)
export HERE MATH
echo 1 > "$T/one.txt"
echo 2 > "$T/two.txt"
cat > "$T/r.mk" << 'END'
# knob a: 0..1
a := 0.5        # kept
  # knob b: -1..4
b ?= 1
# knob last: 0..6/1
last = 1
# knob type: q4 | q5|q6
type := q4
OUTPUT ?= out
$(OUTPUT):
	@echo $(a) $(b) $(last) $(type) $(more) > $@
END
sed -e 's/last/n/' "$T/r.mk" > "$T/recipe.mk"
search() { sh "$S" "$T/recipe.mk" --text "$T/one.txt" --text "$T/two.txt" --engine '"$HERE/engine"' "$@"; }
cell() { # TABLE ROW COLUMN
    awk -F "$TAB" -v r="$2" -v c="$3" 'NR == r + 1 { print $c }' "$1"
}
rows() { echo $(($(wc -l < "$1") - 1)); }
told() { # TEXT WHAT
    if grep -qF -e "$1" "$T/err"; then ok; else bad "$2: no '$1' in: $(head -n 2 "$T/err")"; fi
}

# ---- it finds the best place, and nothing but the best is written ----------------------------------
check "search" search --budget 60 --output "$T/best.mk" --report "$T/two.txt"
cp "$T/out" "$T/answer"
t=$T/best.tsv
check_text "$(head -n 1 "$t" | cut -f 1-8,10)" \
    "try${TAB}score${TAB}recipe${TAB}a${TAB}b${TAB}n${TAB}type${TAB}$T/one.txt${TAB}seconds" "header"
check_text "$(cell "$t" 1 4) $(cell "$t" 1 5) $(cell "$t" 1 6) $(cell "$t" 1 7)" "0.5 1 1 q4" \
    "the first evaluation is the recipe as it is"
if [ "$(rows "$t")" -le 60 ] && [ "$(rows "$t")" -ge 12 ]; then ok; else bad "$(rows "$t") evaluations"; fi
check_text "$(($(wc -l < "$T/calls")))" "$(($(rows "$t") + 2))" \
    "one call of the engine per evaluation and per report"
# Over both texts the best place is a = 0.45, b = 2, and the sum of the logarithms there is 3.045.
sed -n 's/^[a-z]* *[:?]*= *\([^ ]*\).*/\1/p' "$T/best.mk" | head -n 4 | tr '\n' ' ' > "$T/values"
awk '{ exit !($1 > 0.42 && $1 < 0.48 && $2 > 1.9 && $2 < 2.1 && $3 == 3 && $4 == "q5") }' "$T/values" && ok \
    || bad "found $(cat "$T/values")"
awk -F "$TAB" "$BY_NAME"'col("recipe") == "best" && col("text") == "(score)" { exit !(col("perplexity") >= 3.045 &&
    col("perplexity") < 3.048) }' "$T/answer" && ok || bad "$(cat \
    "$T/answer")"
check_text "$(awk -F "$TAB" "$BY_NAME"'col("use") == "report" && col("recipe") == "start" { print col("perplexity");
    exit }' "$T/answer")" \
    "$(awk -F "$TAB" -v t="$T/two.txt" "$BY_NAME"'col("use") == "tune" && col("recipe") == "start" &&
        col("text") == t { print col("perplexity") }' "$T/answer")" \
    "the report of the first recipe"
check_text "$(awk -F "$TAB" "$BY_NAME"'col("use") == "report" && col("recipe") == "best" { print col("perplexity");
    exit }' "$T/answer")" \
    "$(awk -F "$TAB" -v t="$T/two.txt" "$BY_NAME"'col("use") == "tune" && col("recipe") == "best" &&
        col("text") == t { print col("perplexity") }' "$T/answer")" \
    "the report of the best recipe"
grep -q '^a := 0\.[0-9]*        # kept$' "$T/best.mk" && ok || bad "the rest of a line is lost"
check_text "$(sed -e 1d -e 's/^\([a-z]* *[:?]*=\) *[^ ]*/\1/' "$T/best.mk")" "$(sed \
    -e 's/^\([a-z]* *[:?]*=\) *[^ ]*/\1/' "$T/recipe.mk")" "only values differ"
check_text "$(${MAKE:-make} -s -f "$T/best.mk" OUTPUT="$T/made" && cat "$T/made")" "$(sed 's/ $//' "$T/values")" \
    "the best recipe makes the best model"

# ---- budget, interruption and going on --------------------------------------------------------------
cut -f 2-9 "$t" > "$T/whole"
sofar() { cut -f 2-9 "$1" | cmp -s - "$T/part" && ok || bad "$2: another table"; }
rm "$T/calls"
check "budget" search --budget 4 --output "$T/b.mk"
check_text "$(rows "$T/b.tsv") $(($(wc -l < "$T/calls")))" "4 4" "budget"
check "a budget that is used up" search --budget 4 --output "$T/b.mk"
check_text "$(($(wc -l < "$T/calls")))" "4" "a budget that is used up"
echo 7 > "$T/stop"
mkdir "$T/tmp"
sh -c 'echo $$ > "$HERE/pid"; TMPDIR=$HERE/tmp exec sh "$@"' sh "$S" "$T/recipe.mk" --text "$T/one.txt" \
    --text "$T/two.txt" \
    --engine '"$HERE/engine"' --budget 11 --output "$T/b.mk" > "$T/out" 2> "$T/err"
check_text "$? $(rows "$T/b.tsv")" "143 6" "interrupted"
told "interrupted after 6 evaluations" "interrupted"
check_text "$(ls "$T/tmp")" "" "interrupted: no files in TMPDIR"
printf '7\t3.1\t12' >> "$T/b.tsv"
check "go on" search --budget 11 --output "$T/b.mk"
head -n 12 "$T/whole" > "$T/part"
sofar "$T/b.tsv" "a search that was interrupted"
check "time" search --budget 60 --minutes 0.0005 --output "$T/b.mk"
case $(date +%N) in
*N*) [ "$(rows "$T/b.tsv")" -le 60 ] ;; # a clock of whole seconds
*) [ "$(rows "$T/b.tsv")" -le 14 ] ;;
esac && ok || bad "no time: $(rows "$T/b.tsv") evaluations"
before=$(rows "$T/b.tsv")

# ---- a table of something else ----------------------------------------------------------------------
check_error 2 "--force to start again" "another variable" search --budget 11 --output "$T/b.mk" more=1
check_error 2 "--force to start again" "another text" sh "$S" "$T/recipe.mk" --text "$T/one.txt" --engine true \
    --output "$T/b.mk"
check_error 2 "--force to start again" "another weight" sh "$S" "$T/recipe.mk" --text "$T/one.txt" \
    --text "$T/two.txt,weight=2" --engine true --output "$T/b.mk"
sed 's/ > \$@/ 1&/' "$T/recipe.mk" > "$T/other.mk"
check_error 2 "--force to start again" "another recipe" sh "$S" "$T/other.mk" --text "$T/one.txt" --text "$T/two.txt" \
    --engine true --output "$T/b.mk"
check_text "$(rows "$T/b.tsv")" "$before" "a table of something else is kept"
sed 's/a: 0\.\.1/a: 0.1..1/' "$T/recipe.mk" > "$T/narrow.mk"
check "another range" sh "$S" "$T/narrow.mk" --text "$T/one.txt" --text "$T/two.txt" --engine '"$HERE/engine"' \
    --output "$T/b.mk" --budget $((before + 1))
check_text "$(rows "$T/b.tsv")" $((before + 1)) "another range goes on"
check "force" search --budget 2 --force --output "$T/b.mk"
check_text "$(rows "$T/b.tsv")" 2 "--force starts again"
rm "$T/b.tsv"
check_error 2 "use --force to replace it" "an output without its table" search --output "$T/b.mk"
check_error 2 "this is the recipe itself" "the recipe as output" search --force --output "$T/recipe.mk"
check_error 2 "this is the recipe itself" "the recipe as table" search --force --output "$T/b.mk" \
    --table "$T/recipe.mk"

# ---- threads of organ-probe ---------------------------------------------------------------------------
printf '#!/bin/sh\necho "$*" > "$HERE/probe.options"\nexec "$HERE/batch"\n' > "$T/probe"
chmod +x "$T/probe"
check "threads" env ORGAN_PROBE="$T/probe" sh "$S" "$T/recipe.mk" --text "$T/one.txt" \
    -j 3 --budget 1 --output "$T/j.mk"
check_text "$(cat "$T/probe.options")" "-q -j 3 --batch" "threads"
check_exit 2 "no number of threads" search -j x --output "$T/j.mk"
rm -f "$T/starts"

# ---- weights, and an engine that keeps running ------------------------------------------------------
check "batch" sh "$S" "$T/recipe.mk" --text "$T/one.txt,weight=3" --text "$T/two.txt" --engine-batch '"$HERE/batch"' \
    --output "$T/w.mk" --budget 3
check_text "$(($(wc -l < "$T/starts"))) $(rows "$T/w.tsv")" "1 3" "the engine is started once"
$MATH -F "$TAB" 'NR > 1 { d = $2 - 3 * log($8) - log($9); if (d < -1e-5 || d > 1e-5) exit 1 }' "$T/w.tsv" && ok \
    || bad "weights"
: > "$T/dies"
check_error 3 "the engine cannot measure" "an engine that ends" sh "$S" "$T/recipe.mk" --text "$T/one.txt" \
    --text "$T/two.txt" --engine-batch '"$HERE/batch"' --output "$T/d.mk"
check_absent "$T/d.mk" "an engine that ends"

# ---- failures ---------------------------------------------------------------------------------------
: > "$T/fails"
check_exit 3 "an engine that fails for all but the first" search --output "$T/f.mk"
told "the last 5 evaluations failed" "five failures"
check_text "$(awk -F "$TAB" '$2 == "failed"' "$T/f.tsv" | wc -l | tr -d ' ') $(grep -c '^a := 0.5' "$T/f.mk")" "5 1" \
    "five failures"
rm "$T/fails"
: > "$T/broken"
check_error 3 "model not found" "an engine that fails" search --output "$T/g.mk"
rm "$T/broken"
check_error 3 "the recipe cannot be made" "a recipe that fails" sh "$S" "$T/recipe.mk" --text "$T/one.txt" \
    --engine true --output "$T/g.mk" a=1 OUTPUT=/dev/null/x
wrong() { # MESSAGE LINES: a recipe with these lines at its start
    { printf '%b\n' "$2"; sed -n '/^OUTPUT/,$p' "$T/r.mk"; } > "$T/wrong.mk"
    check_error 3 "$1" "$2" sh "$S" "$T/wrong.mk" --text "$T/one.txt" --engine true --output "$T/g.mk"
}
wrong "it has no knobs" "a := 1"
wrong "no line of the recipe defines it" "# knob a: 0..1"
wrong "more than one line defines it" "# knob a: 0..1\na := 1\na := 0"
wrong "is given twice" "# knob a: 0..1\n# knob a: 0..2\na := 1"
wrong "expected LOW..HIGH" "# knob a: 0-1\na := 1"
wrong "expected LOW..HIGH" "# knob a: 0..x\na := 1"
wrong "is empty" "# knob a: 2..1\na := 1"
wrong "is empty" "# knob a: 0..1/0\na := 1"
wrong "not within 0..1" "# knob a: 0..1\na := 2"
wrong "not within x|y" "# knob a: x|y\na := z"
wrong "not a number" "# knob a: 0..1\na := x"
wrong "different words" "# knob a: x|x\na := x"
wrong "expected '# knob NAME" "# knob a/b: 0..1"
wrong "chimera.mk itself uses the variable 'last'" "# knob last: 0..2\nlast := 1"
check_absent "$T/g.mk" "wrong recipes"
check_error 2 "give one or more texts" "no text" sh "$S" "$T/recipe.mk" --engine true --output "$T/g.mk"
check_error 2 "give --output" "no output" sh "$S" "$T/recipe.mk" --engine true --text "$T/one.txt"
check_error 2 "after the recipe, give variables" "two recipes" search --output "$T/g.mk" x.mk
check_error 2 "use a number above 0" "weight" search --output "$T/g.mk" --text "$T/one.txt,weight=-1"
check_error 2 "did you mean '--budget'" "misspelt" search --budgte 3
check_error 4 "cannot read" "no such text" search --output "$T/g.mk" --text "$T/none"

# ---- names ------------------------------------------------------------------------------------------
odd="a b'c\$(touch x)\"=;%#"
mkdir "$T/$odd"
cp "$T/recipe.mk" "$T/$odd/-r $odd.mk"
cp "$T/one.txt" "$T/$odd/-$odd,weight.txt"
(cd "$T/$odd" && TMPDIR="$T/$odd" sh "$S" --budget 3 --output "-o $odd.mk" --text "-$odd,weight.txt,weight=2" \
    --text "$T/two.txt" \
    --engine '"$HERE/engine"' -- "-r $odd.mk" "more=x,y") > "$T/out" 2> "$T/err"
check_text "$?" 0 "odd names: $(cat "$T/err")"
check_text "$(rows "$T/$odd/-o $odd.tsv") $(ls "$T/$odd" | wc -l | tr -d ' ')" "3 4" "odd names: the files"
# ---- links: to the script, and to the recipe ----------------------------------------------------------
mkdir "$T/links"
ln -s recipe.mk "$T/link.mk"
ln -s ../link.mk "$T/links/link.mk"
check_error 2 "this is the recipe itself" "a link to the recipe" search --output "$T/links/link.mk"
ln -s "$S" "$T/links/first"
ln -s first "$T/links/organ-search"
check "a link to a link to the script" "$T/links/organ-search" --help
check "the same, found in PATH" env PATH="$T/links:$PATH" organ-search --help

# ---- whatever awk there is: the same scores, also without a logarithm -------------------
same_scores() {
    rm -f "$T"/awk.mk "$T"/awk.tsv
    search --budget 12 --output "$T/awk.mk" || return
    cut -f 1-9 "$T/awk.tsv" > "$T/scores"
    [ -e "$T/scores.want" ] || cp "$T/scores" "$T/scores.want"
    cmp "$T/scores" "$T/scores.want"
}
check "scores" same_scores
each_awk same_scores

finish
