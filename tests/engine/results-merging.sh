#!/bin/sh
# results-merging.sh - the methods of organ-merge on the lab models: the table merging of
# docs/merging.md. results.sh runs it; ten minutes or more.
#
#   MERGES=FILE   the table of merge-sweep.sh, if it has been made already
set -eu
cd "$(dirname "$0")/../.."
if [ -z "${MERGES:-}" ]; then
    MERGES=$M/merges.tsv
    BIN=$(dirname "$(command -v organ-merge)") sh tests/engine/merge-sweep.sh "$LAB" > "$MERGES"
fi
{
    printf '# tolerance\t*\t0.5%%\n'
    printf 'method\tparameters\ttried\tverse text\tcode text\tsum of logs\n'
    # The rank is that of the better setting; 0 and 1 keep the order of the lines of a method.
    node tests/engine/engine.mjs ppl "$LAB/lab-base-f16.gguf" "$LAB/text-verse.txt" "$LAB/text-code.txt" |
        awk -F '\t' '{ p[NR] = $3 } END { printf "0\t0\t(base alone)\t\t\t%.2f\t%.3f\t%.3f\n",
        p[1], p[2], log(p[1]) + log(p[2]) }'
    awk -F '\t' '
        NR == 1 { next }
        {
            method = $1; sub(/,.*/, "", method)
            setting = $1 == method ? "" : substr($1, length(method) + 2)
            if (!(method in tried)) name[++n] = method
            tried[method]++
            tune = log($2) + log($3); sum = log($4) + log($5)
            line = sprintf("%.2f\t%.3f\t%.3f", $4, $5, sum)
            if (setting == "") { has[method] = 1; plain[method] = line }
            if (!(method in best) || tune < best[method]) { best[method] = tune;
                with[method] = setting; shown[method] = line; rank[method] = sum }
        }
        END {
            for (i = 1; i <= n; i++) {
                m = name[i]
                says = m (m ~ /^(nearswap|arcee-fusion)$/ ? " (code onto verse)" : "")
                printf "%.6f\t0\t%s\t%s\t%d\t%s\n", rank[m], says, (with[m] == "" ? "default" : "`" with[m] "`"),
                    tried[m], shown[m]
                if (with[m] != "" && has[m]) printf "%.6f\t1\t%s\tdefault\t\t%s\n", rank[m], says, plain[m]
            }
        }' "$MERGES" | sort -t "$TAB" -s -k 1,1n -k 3,3 -k 2,2n
} | awk -F '\t' -v OFS='\t' '/^#/ || NR == 2 { print; next } { print $3, $4, $5, $6, $7, $8 }' > "$M/merging.tsv"
$TABLE put merging < "$M/merging.tsv"
