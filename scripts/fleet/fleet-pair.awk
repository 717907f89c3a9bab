# fleet-pair.awk - the row of organ-compare --lineage with the names of both models, as a row of
# lineage.tsv. Needs json.awk before it.
BEGIN { json_tables() }
FNR == 2 { print tsv_str(ENVIRON["A"]) "\t" tsv_str(ENVIRON["B"]) "\t" $0 }
