#!/bin/sh
# shellcheck disable=SC2034,SC1091,SC2086,SC2015
# lists.sh - the names that the tools list (--list-types and so on) are those that they take,
# and those of the manual pages.
. "$(dirname "$0")/lib.sh"
V=$LAB/lab-verse-q4_k_m.gguf

# names TOOL LIST: the first column.
names() { "$1" "--list-$2" | sed 1d | cut -f 1; }
words() { tr -s ' \n' '\n' | sort -u; }

for list in extract:classes extract:parts extract:columns measure:columns compare:columns \
    assemble:types assemble:presets merge:methods merge:parameters check:rules; do
    t=organ-${list%:*} l=${list#*:}
    check "$t --list-$l" $t --list-$l
    cp "$T/out" "$T/rows"
    check "$t --list-$l --json" $t --json --list-$l
    check_text "$(($(wc -l < "$T/out")))" "$(sed 1d "$T/rows" | wc -l | tr -d ' ')" \
        "$t --list-$l --json: as many rows"
    first=$(head -n 1 "$T/rows" | cut -f 1)
    check_text "$(sed "s/^{\"$first\": \"\([^\"]*\)\".*/\1/" "$T/out" | words)" "$(names $t $l | words)" \
        "$t --list-$l --json: names"
    check_text "$(names $t $l | sort | uniq -d)" "" "$t --list-$l: each name once"
    check_text "$(awk -F "$TAB" \
        'NR == 1 { n = NF } { for (i = 1; i <= NF; i++) if ($i == "") bad = 1 } NF != n || bad' "$T/rows")" "" \
        "$t --list-$l: no empty cell"
    check_error 2 "a list takes no model" "$t --list-$l of a model" $t --list-$l "$V"
done
check "the old name of a list" organ-check --rules
organ-check --list-rules > "$T/rows"
check_same "$T/out" "$T/rows" "organ-check --rules"

# ---- the names are those that are printed and taken ------------------------------------------------
organ-measure "$V" --layers 0 --type norm | head -n 1 | tr '\t' '\n' > "$T/header"
check_text "$(names organ-measure columns)" "$(cat "$T/header")" "columns of organ-measure, in their order"
organ-extract "$V" --list --layers 0 | head -n 1 | tr '\t' '\n' > "$T/header"
check_text "$(names organ-extract columns)" "$(cat "$T/header")" "columns of organ-extract"
organ-compare "$V" "$V" --layers 0 | head -n 1 | tr '\t' '\n' > "$T/header"
check_text "$(names organ-compare columns)" "$(cat "$T/header")" "columns of organ-compare"
check_error 2 "only one list" "two lists" organ-extract --list-classes --list-parts
mkmodel "$T/m.gguf" blk.0.ffn_gate.weight:F32:256x4
organ-assemble --list-types | cells name,encode | sed 1d > "$T/types"
while IFS=$TAB read -r t encode; do
    organ-assemble "$T/m.gguf" --dtype "*=$t" --output "$T/o.gguf" --force > "$T/out" 2> "$T/err"
    case $?:$encode in
    0:yes) check_text "$(organ-extract "$T/o.gguf" --list | cells dtype | sed 1d)" "$t" "type $t" ;;
    2:no) ok ;;
    2:imatrix) grep -q "an importance matrix" "$T/err" && ok || bad "$t: $(cat "$T/err")" ;;
    *) bad "type $t is listed with '$encode': $(cat "$T/err")" ;;
    esac
done < "$T/types"
grep -q "${TAB}imatrix$" "$T/types" && ok || bad "no type needs an importance matrix"
check_text "$(organ-assemble --list-types | grep "^Q4_K$TAB" | tr '\t' ' ')" "Q4_K 12 256 144 4.5 yes yes" "a type"
check_text "$(organ-assemble --list-types | grep '^Q8_KV' | head -n 1 | tr '\t' ' ')" "Q8_KV 151 32 32 8 no no" \
    "a type of a fork"
for p in $(names organ-assemble presets); do
    organ-assemble "$T/m.gguf" --dtype "$p" --output "$T/o.gguf" --force > "$T/out" 2> "$T/err" ||
        grep -q "importance matrix" "$T/err" && ok || bad "preset $p: $(cat "$T/err")"
done
check_text "$(organ-assemble --list-presets | grep '^Q4_K_M' | tr '\t' ' ')" "Q4_K_M 15 Q4_K" "a preset"

organ-merge --list-methods > "$T/methods.tsv"
sed 1d "$T/methods.tsv" > "$T/methods"
check_text "$(($(wc -l < "$T/methods")))" "$(grep -c '^method ' tools/merge/methods.txt)" \
    "all methods are listed"
while IFS=$TAB read -r name alias base least most parameters meaning; do
    for m in "$name" "$alias"; do
        [ "$m" = - ] && continue
        # A parameter without a default must be given; any other may be, with its default.
        with=$(echo ",$parameters" | sed 's/,-$//; s/,\([a-z_]*\),/,\1=0.5,/; s/,\([a-z_]*\)$/,\1=0.5/')
        set -- --model "$V"
        [ "$least" = 1 ] || set -- --model "$V" --model "$LAB/lab-code-q4_k_m.gguf"
        case $base in required | optional) set -- --base "$LAB/lab-base-q4_k_m.gguf" "$@" ;; esac
        case $m in # regmean.sh tests these with samples
        regmean*) check_error 2 "activations" "method $m$with" organ-merge -q --method "$m$with" "$@" --check ;;
        *) check "method $m$with" organ-merge -q --method "$m$with" "$@" --check ;;
        esac
    done
    case $parameters in *=*) [ "$meaning" ] && ok || bad "$name has no meaning" ;; esac
done < "$T/methods"
check_error 2 "t" "a parameter without a default" organ-merge --method slerp --model "$V" --model "$V" --check
check_text "$(cells name,base,least,most,parameters "$T/methods.tsv" | grep '^iso' | cut -f 2- |
    tr '\t' ' ')" "required 1 64 t=0.6,weight=1" "a method"
check_text "$(cells parameters "$T/methods.tsv" | sed 1d | tr , '\n' | sed 's/[:=].*//; /^-$/d' | sort -u)" \
    "$(names organ-merge parameters | sort)" "all parameters"
while IFS=$TAB read -r name methods rest; do
    check_text "$(awk -F "$TAB" -v p="$name" "$BY_NAME"'
        ("," col("parameters")) ~ "," p "(=|,|$)" { printf "%s%s", sep, col("name"); sep = "," }' "$T/methods.tsv")" \
        "$methods" "methods that take $name"
done << END
$(organ-merge --list-parameters | sed 1d)
END
for c in $(names organ-extract classes); do
    organ-extract "$V" --list --type "$c" > "$T/out" 2>&1 || grep -q "no tensor" "$T/out" && ok \
        || bad "class $c: $(cat "$T/out")"
done
for p in $(names organ-extract parts); do
    organ-extract "$V" --list --part "$p" > "$T/out" 2>&1 || grep -q "no tensor" "$T/out" && ok \
        || bad "part $p: $(cat "$T/out")"
done

# ---- what is written about them has each name, and no other ----------------------------------------
section() { sed -n "/^\.S[hs] $2/,/^\.S[hs] $3/p" "docs/man/$1.1"; }
documented() { # WHAT: the words of $T/said are those of $T/names
    tr -s ' ,' '\n' < "$T/said" | grep -v '^$' | sort -u > "$T/documented"
    sort -u "$T/names" > "$T/wanted"
    check_text "$(diff "$T/documented" "$T/wanted")" "" "$1"
}
methods() { organ-merge --list-methods | cells name,alias | sed 1d | tr '\t' '\n' | grep -vx -e -; }
methods > "$T/names"
section organ-merge METHODS PARAMETERS | sed -n 's/^\.It Cm //p' | sed 's/Cm//g' > "$T/said"
documented "methods in organ-merge(1)"
organ-merge --help | sed -n '/^  --method NAME/,/^  --base/p' | sed '$d; s/--method NAME//' > "$T/said"
documented "methods in organ-merge --help"
sh scripts/options.sh "$BIN" > "$T/options"
awk -F "$TAB" "$BY_NAME"'col("tool") == "organ-merge" && col("option") == "method" {
    print col("values") }' "$T/options" > "$T/said"
documented "methods in completion"
names organ-merge parameters > "$T/names"
section organ-merge METHODS PARAMETERS | grep -v '^\.It' | grep -oE "\.Cm .*" | tr -s ' ,' '\n' | grep \
    -xFf "$T/names" > "$T/said"
documented "parameters in organ-merge(1)"
names organ-measure columns > "$T/names"
section organ-measure OUTPUT RESOURCES | sed -n 's/^\.It //p' > "$T/said"
documented "columns in organ-measure(1)"
names organ-compare columns > "$T/names"
section organ-compare OUTPUT 'EXIT' | sed -n '/^\.It name/,/^\.El/s/^\.It //p' > "$T/said"
documented "columns in organ-compare(1)"
for what in types presets; do
    organ-assemble --list-$what | sed 1d | { [ $what = presets ] && cat || grep -v "${TAB}no\$"; } | cut -f 1 | tr \
        A-Z a-z > "$T/names"
    sed -n "/^\.\\\\\" $what/,/^\.\\\\\" end/p" docs/man/organ-assemble.1 | sed -n 's/^\.Cm //; s/ \.$//; /^\./!p' \
        | tr A-Z a-z > "$T/said"
documented "$what in organ-assemble(1)"
done
organ-extract --list-classes | cells shown | sed 1d > "$T/names" # as people see them
section organ-extract Selection Conditions | sed -n '/^\.It Fl -type/,/^\.It Fl -part/p' | grep -oE '^\.Cm [a-z]+' \
    | sed 's/.* //' | grep -xFf "$T/names" > "$T/said"
documented "classes in organ-extract(1)"
organ-extract --help | sed -n 's/.*--type CLASS,\.\.\.//p' > "$T/said"
documented "classes in --help"
names organ-extract parts > "$T/names"
organ-extract --help | sed -n 's/.*--part PART,\.\.\.//p' > "$T/said"
documented "parts in --help"
section organ-extract Selection Conditions | sed -n '/^\.It Fl -part/,/^\.It Fl -layers/p' | sed -n 's/^\.Cm //p' \
    | sed 's/ \.$//; s/Fl.*//' | tr -s ' ,' '\n' | grep -xFf "$T/names" > "$T/said"
documented "parts in organ-extract(1)"
names organ-assemble types > "$T/names"
sed -n '/"dtype": {/,/]/p' docs/manifest.schema.json | grep -o '"[A-Z][A-Z0-9_]*"' | tr -d '"' > "$T/said"
documented "types in manifest.schema.json"
names organ-extract classes > "$T/names"
grep -o '"class": {"enum": \[[^]]*' docs/manifest.schema.json | grep -o '"[a-z]*"' | tr -d '"' | grep -vx -e class \
    -e enum > "$T/said"
documented "classes in manifest.schema.json"
# The page may treat a method in its own way, but has no list of them.
methods | tr _ - | awk 'length($0) > 4' | grep -wF -e karcher -e della -e breadcrumbs -e ramplus > "$T/some"
check_text "$(grep -rnwFf "$T/some" scripts/serve)" "" "methods in the page"

finish
