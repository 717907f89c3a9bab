# report-json.awk - writes z_measure_report.json: the ranking as data. Needs json.awk, rows.awk and
# report-data.awk before it.

function entry(i, m) {
    printf "    {\"rank\": %d, \"model\": %s, \"edge\": %s, \"theta\": %s, \"calibrated\": %s, \"signal\": %s, \"row_theta\": %s,\n", Place[i], json_str(Name[m]), \
        (edge_mean(m) < 0 ? "null" : number(edge_mean(m))), number(avg(G_theta, m)), number(avg(G_calibrated, m)), number(avg(G_signal, m)), number(avg(G_row, m))
    printf "     \"tensors\": %s, \"measured\": %s, \"parameters\": %s, \"bytes\": %s, \"dtype\": %s, \"progress\": %s, \"stars\": %s, \"made_of\": %s}%s\n", whole(G_count[m]), whole(G_measured[m]), \
        whole(G_parameters[m]), (Bytes[m] ~ /^[0-9]+$/ ? Bytes[m] : "null"), json_str(D_top[m]), (Progress[m] == "-" ? "null" : json_str(Progress[m])), (stars(m) ? stars(m) : "null"), Origins[m], (i < N_ranked ? "," : "")
}
BEGIN {
    json_tables()
    print "{\n  \"format\": \"organ-measure-report\", \"version\": 1, \"created\": " json_str(ENVIRON["REPORT_TIME"]) ", \"title\": " json_str(ENVIRON["REPORT_TITLE"]) ","
    print "  \"ranking\": {\"by\": \"" (By_edge ? "edge" : "theta") "\", \"models\": ["
    for (i = 1; i <= N_ranked; i++) entry(i, Rank[i])
    print "  ]},\n  \"lineage\": ["
    for (i = 1; i <= N_pairs; i++) {
        a = Pair_a[i]; b = Pair_b[i]
        print "    {\"a\": " json_str(Name[a]) ", \"b\": " json_str(Name[b]) ", \"verdict\": " json_str(P_text[a, b]) ", \"cosine_median\": " \
            (P_cosine[a, b] == "-" ? "null" : number(P_cosine[a, b])) ", \"map\": " (P_map[a, b] == "-" ? "null" : json_str(P_map[a, b])) "}" (i < N_pairs ? "," : "")
    }
    print "  ],\n  \"problems\": ["
    for (i = 1; i <= N_problems; i++) print "    {\"model\": " json_str(Problem_of[i]) ", \"problem\": " json_str(Problem[i]) "}" (i < N_problems ? "," : "")
    print "  ],\n  \"saved\": " whole(Saved + 0) ", \"duplicates\": ["
    for (i = 1; i <= N_same; i++)
        print "    {\"model\": " json_str(Name[Same_b[i]]) ", \"of\": " json_str(Name[Same_a[Same_b[i]]]) ", \"tensors\": " Same_n[Same_a[Same_b[i]], Same_b[i]] ", \"bytes\": " whole(same_size(Same_b[i])) "}" (i < N_same ? "," : "")
    print "  ],\n  \"failed\": ["
    for (i = 1; i <= N_failed; i++) print "    {\"model\": " json_str(Failed[i]) ", \"error\": " json_str(Why[i]) "}" (i < N_failed ? "," : "")
    print "  ]\n}"
}
