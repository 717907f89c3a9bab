# fleet-z.awk - writes z_report_complete.json from the index of a fleet. Needs json.awk and
# rows.awk before it. Columns of the index: see fleet-dissection.awk.
BEGIN {
    json_tables()
    out = ENVIRON["FLEET_OUT"]
    by = ENVIRON["FLEET_BY"]
    print "{\n  \"format\": \"organ-z-report-complete\",\n  \"version\": 1,\n  \"created\": \"" ENVIRON["FLEET_TIME"] "\",\n  \"sample\": " ENVIRON["FLEET_SAMPLE"] ",\n  \"models\": ["
}
{
    if ($2 == "failed") {
        failed = failed (failed ? "," : "") "\n    {\"model\": " json_str(model_name($7)) ", \"source\": " json_str($1) ", \"error\": " json_str($6) "}"
        next
    }
    file = out "/models/" $7 "/measures.jsonl"
    n = 0
    side = is_side(info_kind(out "/models/" $7 "/info.tsv"))
    while ((getline line < file) > 0) {
        if (!row_json(line)) continue
        scope_add($7)
        if (!side) scope_add("")
        edge_add($7, F["edge"])
        n++
    }
    close(file)
    if (!n) next
    printf "%s    {\"model\": %s, \"source\": %s, \"bytes\": %s, \"seconds\": %s,\n     %s,\n%s}", sep, json_str(model_name($7)), json_str($1), \
        ($3 == "" ? "null" : $3), ($5 == "" ? "null" : number($5)), group_json($7), scope_json($7, "     ")
    sep = ",\n"
    value = by == "signal" ? G_signal[$7] : by == "calibrated" ? G_calibrated[$7] : by == "row_theta" ? G_row[$7] : G_theta[$7]
    if (G_measured[$7] && !side) { ranked[++n_ranked] = $7; score[n_ranked] = by == "edge" ? edge_mean($7) : value / G_measured[$7] }
}
END {
    print (sep ? "\n" : "") "  ],"
    print "  \"all\": {" group_json("") ",\n" scope_json("", "    ") "},"
    print "  \"ranking\": {\"by\": \"" by "\", \"models\": ["
    for (i = 2; i <= n_ranked; i++)
        for (k = i; k > 1 && score[k] > score[k - 1]; k--) {
            t = score[k]; score[k] = score[k - 1]; score[k - 1] = t
            t = ranked[k]; ranked[k] = ranked[k - 1]; ranked[k - 1] = t
        }
    for (i = 1; i <= n_ranked; i++)
        print "    {\"rank\": " i ", \"model\": " json_str(model_name(ranked[i])) ", \"" by "\": " (score[i] < 0 ? "null" : number(score[i])) "}" (i < n_ranked ? "," : "")
    print "  ]},\n  \"failed\": [" failed (failed ? "\n  " : "") "]\n}"
}
