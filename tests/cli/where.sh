#!/bin/sh
# where.sh - --where: conditions on the rows of tables, and aligned tables on a terminal.
. "$(dirname "$0")/lib.sh"

VERSE=$LAB/lab-verse-q4_k_m.gguf
CODE=$LAB/lab-code-q4_k_m.gguf

# ---- the same rows as a comparison with awk chooses ----
organ-measure "$VERSE" > "$T/table"
rows() { # CONDITION...: the names of the rows that satisfy all
    organ-measure "$VERSE" "$@" | cells name | sed 1d
}
same_rows() { # AWK-CONDITION CONDITION...
    awk -F '\t' "$BY_NAME NR > 1 && ($1) { print col(\"name\") }" "$T/table" > "$T/want"
    shift
    what=$*
    for condition; do
        shift
        set -- "$@" --where "$condition"
    done
    rows "$@" > "$T/got"
    if [ -s "$T/want" ]; then check_same "$T/got" "$T/want" "$what"; else bad "$what: the test selects nothing"; fi
}
median=$(awk -F '\t' "$BY_NAME"'NR > 1 { print col("theta") }' "$T/table" | sort -g | sed -n 20p)
same_rows "col(\"theta\") < $median" "theta<$median"
same_rows "col(\"theta\") <= $median" "theta<=$median"
same_rows "col(\"theta\") > $median" "theta>$median"
same_rows "col(\"theta\") >= $median" "theta>=$median"
same_rows "col(\"theta\") == $median" "theta=$median"
same_rows "col(\"theta\") == $median" "theta==$median"
same_rows "col(\"theta\") != $median" "theta!=$median"
check_text "$(rows --where "theta=$median" | wc -l | tr -d ' ')" 1 "a printed value equals itself, to the last digit"
same_rows "col(\"theta\") < $median" "  theta   <   $median  "
same_rows 'col("mean") < -1e-4' 'mean<-1e-4'
same_rows 'col("mean") >= 0.0001' 'mean >= .0001'
same_rows 'col("elements") > 1000' 'elements>1e3'
same_rows 'col("block") != "-" && col("block") >= 2' 'block>=2'
same_rows 'col("block") == 0' 'block=0'
same_rows 'col("block") != "-" && col("block") != 0' 'block!=0'
same_rows 'col("class") == "organ"' 'class=organ'
same_rows 'col("class") == "organ"' 'class = FFN'
same_rows 'col("class") != "organ"' 'class!=ffn'
same_rows 'col("dtype") == "Q4_K"' 'dtype=q4_k'
same_rows 'col("dtype") ~ /^Q/' 'dtype=Q*'
same_rows 'col("name") ~ /norm/' 'name=*norm*'
same_rows 'col("name") !~ /norm/' 'name!=*norm*'
same_rows 'col("part") == "text"' 'part=text'
same_rows "col(\"theta\") < $median && col(\"class\") == \"organ\" && col(\"block\") == 1" \
    "theta<$median" 'class=organ' 'block=1'

# ---- values that are absent or not numbers satisfy nothing ----
# A record of a type without a decoder has "-" in all measures; one of NaN has no moments.
printf '\1\0\0\0u\1\0\0\0\0\1\0\0\0\0\0\0\213\0\0\0' > "$T/absent.bin"
head -c 144 /dev/zero >> "$T/absent.bin"
printf '\1\0\0\0n\1\0\0\0\4\0\0\0\0\0\0\0\0\0\0\0' > "$T/nan.bin"
printf '\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377\377' >> "$T/nan.bin"
organ-extract "$VERSE" --tensors output_norm.weight --output - > "$T/norm.bin"
odd() {
    organ-measure -q "$T/absent.bin" "$T/nan.bin" "$T/norm.bin" "$@" | cells name | sed 1d | tr '\n' ' '
}
check_text "$(odd)" "u n output_norm.weight " "three records"
for condition in 'theta<40' 'theta>=-1000' 'theta!=7' 'std!=1e30' 'mean>-inf' 'sampled!=7'; do
    case $(odd --where "$condition") in
    'u '*) bad "$condition matches an absent value" ;;
    *) ok ;;
    esac
done
organ-measure -q "$T/nan.bin" | awk -F '\t' 'NR == 2 { for (i = 8; i < 21; i++) if ($i == "nan") print i }' > "$T/nans"
for column in mean std min max entropy kurtosis; do
    at=$(head -n 1 "$T/table" | tr '\t' '\n' | grep -nx "$column" | cut -d : -f 1)
    grep -qx "$at" "$T/nans" || continue
    case $(odd --where "$column!=7") in
    n*) bad "$column: NaN is not equal to 7, and matches" ;;
    *) ok ;;
    esac
done
check_text "$(odd --where 'nonfinite>0')" "n " "tensors with values that are not finite"

# ---- numbers beyond the precision of a double ----
if have mkmodel; then
    mkmodel "$T/big.gguf" "a:F32:4" "b:F32:8" > /dev/null
    check_text "$(organ-extract "$T/big.gguf" --list --where 'offset=32' | cells name | sed 1d)" b "a whole number"
    check_error 1 "offset=9007199254740993" "no such offset" \
        sh -c "organ-extract -q '$T/big.gguf' --list --where offset=9007199254740993 > /dev/null"
fi

# ---- tables other than that of organ-measure ----
organ-extract "$VERSE" --list |
    awk -F '\t' "$BY_NAME"'NR == 1 || (col("bytes") > 50000 && col("role") ~ /^ffn_/)' > "$T/want"
organ-extract "$VERSE" --list --where 'bytes>50000' --where 'role=ffn_*' > "$T/got"
check_same "$T/got" "$T/want" "organ-extract --list"
organ-extract "$VERSE" --list --json | grep '"dims": \[256, 512\]' > "$T/want"
organ-extract "$VERSE" --list --json --where dims=256x512 > "$T/got"
check_same "$T/got" "$T/want" "JSON rows are chosen by the values of the table"
check_error 2 "needs --list" "--where without a table" organ-extract "$VERSE" --output "$T/x" --where 'bytes>1'
organ-compare "$VERSE" "$CODE" > "$T/table2"
awk -F '\t' "$BY_NAME"'NR == 1 || (col("cosine") != "-" && col("cosine") < 0.95)' "$T/table2" > "$T/want"
check_exit 1 "organ-compare" organ-compare "$VERSE" "$CODE" --where 'cosine<0.95'
check_same "$T/out" "$T/want" "rows of organ-compare"
check_text "$(organ-compare "$VERSE" "$CODE" --where 'status=differs' --where class=keys | cells name | sed 1d)" \
    "(keys)" "the row of keys"
check_text "$(cells part "$T/table2" | sed -n 2p)" text "part is the last column"
check_exit 0 "the exit status is that of all tensors" organ-compare "$VERSE" "$VERSE" --where 'block=0'
check_error 2 "leave out --summary" "--where with other tables" organ-compare "$VERSE" "$CODE" \
    --summary --where 'cosine<1'

# ---- summaries and the like are made of the rows that match ----
check_text "$(organ-measure "$VERSE" --summary --where 'block=1' |
    awk -F '\t' "$BY_NAME"'col("group") == "model" { print col("tensors") }')" \
    "$(awk -F '\t' "$BY_NAME"'col("block") == "1"' "$T/table" | wc -l | tr -d ' ')" "a summary of the rows"
check_text "$(organ-measure "$VERSE" --wells 3 --where 'class=norm' | cells class | sed 1d | sort -u)" norm \
    "wells among the rows"
organ-extract -q "$VERSE" --output "$T/d"
check "--update" sh -c "organ-measure '$T/d' --update --where block=1 > '$T/out2'"
check_text "$(grep -c '"z": ' "$T/d/manifest.json")" "$(sed 1d "$T/out2" | wc -l | tr -d ' ')" \
    "--update writes the rows that match"

# ---- a chain of tools ----
organ-measure "$T/d" --where 'theta<40' | organ-extract --list --names-from - "$VERSE" | cells name | sed 1d > "$T/got"
awk -F '\t' "$BY_NAME"'NR > 1 && col("theta") < 40 { print col("name") }' "$T/table" > "$T/want"
check_same "$T/got" "$T/want" "names for the next tool"

# ---- nothing found, and mistakes ----
check_exit 1 "no row" organ-measure "$VERSE" --where 'theta<0'
check_text "$(($(wc -l < "$T/out")))" 1 "only the header"
check "names the condition" sh -c \
    "organ-measure $VERSE --where 'theta<0' 2>&1 | grep -F \"no row satisfies the condition 'theta<0'\""
check_exit 1 "no row with both" organ-measure "$VERSE" --where "theta<$median" --where "theta>$median"
check_text "$(grep -c 'no row satisfies all 2 conditions' "$T/err")" 1 "says so"
check_exit 1 "the one that nothing satisfies" organ-measure "$VERSE" --where 'block=1' --where 'block=77'
check_text "$(grep -c "'block=77'" "$T/err")" 1 "is named"
wrong() { # TEXT CONDITION
    check_error 2 "$1" "--where '$2'" organ-measure "$VERSE" --where "$2"
}
wrong "did you mean 'theta'" 'thata<40'
wrong "the columns are: name class block dtype" 'nothing-like-it<40'
wrong "expected COLUMN<VALUE" 'theta'
wrong "expected COLUMN<VALUE" ''
wrong "expected COLUMN<VALUE" 'theta!40'
wrong "unknown column ''" '<40'
wrong "expected a number" 'theta<'
wrong "expected a number" 'theta<4O'
wrong "expected a number" 'theta<nan'
wrong "expected a number" 'theta=<40'
wrong "expected a number" 'theta<0x10'
wrong "expected a number" 'theta<40 50'
wrong "use = or !=" 'name<blk'
wrong "expected a name or a pattern" 'name='
wrong "unknown column 'theta calibrated'" 'theta calibrated<40'
check_error 2 "unknown option '--where'" "a tool without tables of measures" organ-stack --where 'x<1' "$VERSE" 0

# ---- on a terminal ----
if have script "output on a terminal" bsdutils && script -qec true /dev/null > /dev/null 2>&1; then
    terminal() { # COMMAND LINE
        script -qec "$1" /dev/null < /dev/null | tr -d '\r'
    }
    terminal "organ-extract $VERSE --list" > "$T/seen"
    check_text "$(($(wc -l < "$T/seen")))" "$(organ-extract "$VERSE" --list | wc -l | tr -d ' ')" \
        "all rows on a terminal"
    check_text "$(grep -c "$TAB" "$T/seen")" 0 "no tabs"
    # Texts begin and numbers end in one place: below the header's last letter.
    check_text "$(awk 'NR == 1 { at = index($0, " elements") + 8 }
        { print substr($0, at, 1) ~ /[0-9s]/, (substr($0, at + 1, 1) == " ") }' "$T/seen" | sort -u)" "1 1" \
            "numbers are aligned to the right"
    check_text "$(awk \
        'NR == 1 { at = index($0, "class") } { print (substr($0, at - 1, 1) == " "), (substr($0, at, 1) != " ") }' \
        "$T/seen" | sort -u)" "1 1" "texts are aligned to the left"
    awk -v OFS='\t' '{ $1 = $1; print }' "$T/seen" > "$T/got"
    organ-extract "$VERSE" --list |
        sed "s/${TAB}skeleton$TAB/${TAB}attention$TAB/; s/${TAB}organ$TAB/${TAB}ffn$TAB/; \
            s/${TAB}embed$TAB/${TAB}embedding$TAB/" > "$T/want"
    check_same "$T/got" "$T/want" "the same cells"
    terminal "organ-measure $VERSE --where block=1 --columns $(organ-measure "$VERSE" | head -n 1 | tr '\t' ,)" \
        > "$T/seen"
    check_text "$(awk 'NR > 1 { for (i = 8; i <= 20; i++) { x = $i; sub(/e.*/, "", x);
        gsub(/[-.]/, "", x); sub(/^0+/, "", x); if (length(x) > 4) print $i } }' "$T/seen")" \
            "" "four significant digits"
    terminal "organ-measure $VERSE --where block=1 --json" > "$T/seen"
    organ-measure "$VERSE" --where block=1 --json > "$T/want"
    check_same "$T/seen" "$T/want" "JSON is not rounded"
    terminal "organ-measure $VERSE --where 'theta<0'" > "$T/seen"
    check_text "$(($(wc -l < "$T/seen")))" 2 "a table without rows has its header"
    if have mkmodel; then
        # More rows than are held back at once, with a longer name among the last.
        mkmodel "$T/many.gguf" -n 1100 "t.%:F32:1" "a-name-that-is-longer-than-the-others:F32:1" > /dev/null
        terminal "organ-extract -q $T/many.gguf --list" > "$T/seen"
        check_text "$(($(wc -l < "$T/seen")))" "$(organ-extract -q "$T/many.gguf" --list | wc -l | tr -d ' ')" \
            "rows are printed when there are many"
        check_text "$(grep -c '^name' "$T/seen")" 1 "with one header"
    fi
fi
finish
