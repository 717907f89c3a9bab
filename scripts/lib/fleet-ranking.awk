# fleet-ranking.awk - writes ranking.tsv: the models of a fleet, sorted by one measure, the
# highest first. Needs json.awk and rows.awk before it. Columns of the index: see fleet-dissection.awk.
function cell(sum) { return sprintf("%.4f", sum / G_measured[g]) }
BEGIN { json_tables() }
$2 != "failed" {
    file = ENVIRON["FLEET_OUT"] "/models/" $7 "/measures.jsonl"
    g = $7
    while ((getline line < file) > 0)
        if (row_json(line)) {
            group_add(g, F["elements"], F["theta"], F["signal"], F["calibrated"], F["row_theta"])
            edge_add(g, F["edge"])
        }
    close(file)
    if (!G_measured[g]) next
    by = ENVIRON["FLEET_BY"]
    e = edge_mean(g)
    score[++n] = by == "edge" ? e : (by == "signal" ? G_signal[g] : by == "calibrated" ? G_calibrated[g] : by == "row_theta" ? G_row[g] : G_theta[g]) / G_measured[g]
    text[n] = tsv_str($7) "\t" cell(G_theta[g]) "\t" cell(G_calibrated[g]) "\t" cell(G_signal[g]) "\t" cell(G_row[g]) "\t" \
        whole(G_count[g]) "\t" whole(G_parameters[g]) "\t" $3 "\t" (e < 0 ? "-" : sprintf("%.4f", e))
}
END {
    print "rank\tmodel\ttheta\tcalibrated\tsignal\trow_theta\ttensors\tparameters\tbytes\tedge"
    for (i = 2; i <= n; i++)
        for (k = i; k > 1 && score[k] > score[k - 1]; k--) {
            t = score[k]; score[k] = score[k - 1]; score[k - 1] = t
            t = text[k]; text[k] = text[k - 1]; text[k - 1] = t
        }
    for (i = 1; i <= n; i++) print i "\t" text[i]
}
