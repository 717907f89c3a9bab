# fleet-pair.awk - the row of organ-compare --lineage with the names of both models, as a row of
# lineage.tsv. Needs json.awk and rows.awk before it.
BEGIN { json_tables() }
FNR == 2 { print tsv_str(model_name(ENVIRON["A"])) "\t" tsv_str(model_name(ENVIRON["B"])) "\t" $0 }
