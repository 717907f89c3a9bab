#!/bin/sh
# options.sh DIR - prints one table of the options of all tools and scripts. Tools in DIR are asked for
# theirs (--list-options); those of scripts are in scripts/options.tsv. RUN may name an emulator for tools of
# another machine. A value @TOOL OPTION stands for the words of that option. The words of
# rules are presets, "|", and the types after an "=". organ-probe, which is optional, is not for HTTP.
set -eu
here=$(dirname "$0") bin=$1
{
    cat "$here/options.tsv"
    for path in "$bin"/organ-*; do
        tool=${path##*/}
        case $tool in organ-api | *.*) continue ;; esac
        # shellcheck disable=SC2086
        ${RUN:-} "$path" --list-options | awk -v "tool=$tool" 'NR > 1 { print tool "\t" $0 }'
    done
} | awk -F '\t' 'BEGIN { OFS = FS }
    { rows[NR] = $0; words[$1 " " $2] = $11 }
    END { for (i = 1; i <= NR; i++) { $0 = rows[i]; if ($11 ~ /^@/) $11 = words[substr($11, 2)]
        if ($5 == "rules") $11 = $11 " | " words[$1 " fallback"] " keep"
        if ($1 == "organ-probe") $7 = "false"
        if ($2 ~ /^(dtype|fallback|types)$/) $11 = tolower($11)
        print } }'
