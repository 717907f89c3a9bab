#!/bin/sh
# shellcheck disable=SC1091,SC2086,SC2015
# completion.sh - the completion of bash offers every option that --help lists, the
# values that are accepted, and files where a file is wanted.
. "$(dirname "$0")/lib.sh"
have bash "completion in bash" || finish
mkdir "$T/here" && mkdir "$T/here/some.organs" && touch "$T/here/a.gguf" "$T/here/a b.gguf" "$T/here/notes.txt"

sh scripts/options.sh "$BIN" > "$T/options.tsv"
made() { awk -v "shell=$1" -f scripts/completion/generate.awk "$T/options.tsv"; }
{ made bash && cat scripts/completion/organ; } > "$T/organ"

# tab WORD...: what bash offers for the last WORD, a line each.
cat > "$T/drive.bash" << END
. "$T/organ"
cd "$T/here" || exit 1
COMP_WORDS=("\$@") COMP_CWORD=\$((\$# - 1))
_organ
[ \${#COMPREPLY[@]} = 0 ] || printf '%s\n' "\${COMPREPLY[@]}"
END
tab() { bash "$T/drive.bash" "$@" 2> "$T/err"; }
offers() { # WHAT WANTED WORD...
    offers_what=$1 offers_want=$2
    shift 2
    check_text "$(tab "$@" | tr '\n' ' ' | sed 's/ $//')" "$offers_want" "$offers_what"
    check_text "$(cat "$T/err")" "" "$offers_what: silent"
}

n=0
for f in "$BIN"/organ-* scripts/organ-*; do
    t=$(basename "$f")
    case $t in *.*) continue ;; esac
    case $f in scripts/*) sh "$f" --help ;; *) "$f" --help ;; esac > "$T/help" 2> /dev/null
    # What the text up to the examples has of options.
    sed '/^examples:/,$d' "$T/help" | grep -oE -e '(^|[^a-z0-9-])--?[a-z][a-z-]*' | sed 's/^[^-]*//' | sort -u |
        grep -E -x -e '-[a-z]|--.*' > "$T/listed"
    { tab "$t" - && tab "$t" --; } | sort -u > "$T/offered"
    grep -vxFf "$T/offered" "$T/listed" > "$T/missing"
    while IFS= read -r option; do # the text may speak of another tool's
        "$f" "$option" 2>&1 < /dev/null | grep -q "unknown option" || bad "$t: $option of --help is not offered"
    done < "$T/missing"
    if [ "$(wc -l < "$T/listed")" -ge 2 ]; then ok; else bad "$t --help: no options found"; fi
    # And nothing is offered that the tool does not know.
    while IFS= read -r option; do
        case $option in --help | --version | -[a-z] | --quiet | --verbose | --threads) continue ;; esac
        if grep -qxFe "$option" "$T/listed"; then ok; else bad "$t: $option is offered, --help does not have it"; fi
    done < "$T/offered"
    if bash -c ". $T/organ && complete -p $t" > /dev/null 2>&1; then ok; else bad "$t has no completion"; fi
    n=$((n + 1))
done
if [ $n -ge 12 ]; then ok; else bad "$n tools only"; fi

offers "an option begun" "--summary" organ-measure --su
offers "classes" "attention" organ-extract --type at
offers "classes after a comma" "norm,attention" organ-extract --type norm,at
offers "classes after =" "adapter" organ-extract --type = ad
offers "classes right after =" "attention ffn embedding norm adapter other" organ-extract --type =
offers "match modes" "exact retype convert" organ-graft --match ""
offers "methods" "haar fft" organ-purify --method ""
offers "blends" "slerp:" organ-transplant --blend s
offers "dtypes" "bf16" organ-purify --dtype bf
offers "dtypes in rules" "*=bf16" organ-assemble --dtype "*=bf"
offers "dtypes in rules, as bash splits them" "bf16" organ-assemble --dtype "*" = bf
offers "dtypes in rules after an =" "bf16" organ-assemble --dtype = "*" = bf
offers "commands of the fleet" "measure" organ-fleet m
offers "formats" "html" organ-report --format h
offers "models and folders" "some.organs a b.gguf a.gguf" organ-measure ""
offers "models after a flag" "some.organs a b.gguf a.gguf" organ-measure --summary ""
offers "models after an option's value" "some.organs a b.gguf a.gguf" organ-measure --type norm ""
offers "models for --base" "a b.gguf a.gguf" organ-transplant --base a
offers "folders for --dir" "some.organs" organ-assemble --dir ""
offers "files for --names-from" "notes.txt" organ-graft --names-from n
offers "nothing for a number" "" organ-measure --sample ""
offers "nothing for --layers" "" organ-measure --layers ""
offers "a path to the tool" "--summary" /usr/local/bin/organ-measure --su
offers "an unknown tool" "" organ-nonsense --su

# Values that are offered are values that are taken.
V=$LAB/lab-verse-q4_k_m.gguf
mkmodel "$T/m.gguf" blk.0.ffn_gate.weight:F32:256x4
organ-extract "$T/m.gguf" --output "$T/m" || bad "no small model"
for t in $(tab organ-purify --dtype ""); do
    if organ-assemble "$T/m" --output "$T/o.gguf" --dtype "*=$t" --force 2> "$T/err" || grep -q "importance" \
        "$T/err"; then ok; else bad "dtype $t: $(cat "$T/err")"; fi
done
for c in $(tab organ-extract --type ""); do
    if organ-extract "$V" --list --type "$c" > "$T/out" 2>&1 || [ $? = 1 ]; then ok; else bad "class $c: $(cat \
        "$T/out")"; fi
done
for c in $(tab organ-measure --color ""); do
    check "column $c" organ-measure "$V" --imatrix "$LAB/lab-verse.imatrix.gguf" --layers 0 --sample 100 \
        --svg "$T/p.svg" --color "$c" --force
done
for m in $(tab organ-graft --match ""); do
    check "match $m" organ-graft --source "$V" --target "$V" --layers 0 --match "$m" --check
done

# ---- zsh and fish: made from the same tables ---------------------------------------------------------
made zsh > "$T/_organ"
made fish > "$T/organ.fish"
check_text "$(head -n 1 "$T/_organ" | tr ' ' '\n' | grep -c '^organ-')" "$(cells tool "$T/options.tsv" |
    sed 1d | sort -u | wc -l | tr -d ' ')" "zsh: all tools"
grep -q "^organ-graft) .* '--match=:match:(exact retype convert)' .* '--link' .* '\*:model:_files -g " "$T/_organ" \
    && ok || bad "zsh: organ-graft"
grep -q "^organ-measure) .* '--type=:type:_values -s , value attention .* '-j+:j: ' " "$T/_organ" && ok \
    || bad "zsh: organ-measure"
grep -qx "complete -c organ-graft -l match -x -a 'exact retype convert'" "$T/organ.fish" && ok \
    || bad "fish: organ-graft"
grep -qx "complete -c organ-graft -l link" "$T/organ.fish" && ok || bad "fish: a flag"
if have zsh "completion in zsh"; then check "zsh reads it" zsh -n "$T/_organ"; fi
if have fish "completion in fish"; then
    check_text "$(HOME=$T fish -c \
        "source '$T/organ.fish'; complete -C 'organ-measure --samp'; complete -C 'organ-graft --match re'" | cut -f 1 \
        | tr '\n' ' ')" \
        "--sample retype " "fish completes"
fi
finish
