# report-pairs.awk - the lineage of the pairs of a fleet, with the numbers of the models instead of their
# names. Needs json.awk before it. First file: number and name of each model; second: lineage.tsv.
BEGIN { json_tables(); OFS = "\t" }
FNR == 1 { files++ }
files == 1 { number[tsv_str($2)] = $1; next }
FNR > 1 && ($1 in number) && ($2 in number) { print number[$1], number[$2], tsv_str($3), $6, tsv_str($NF) }
