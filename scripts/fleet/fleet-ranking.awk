# fleet-ranking.awk - writes ranking.tsv: the models of a fleet, sorted by one measure, the
# highest first. The type of most values decides much of theta, so that ranks are those among models of
# the same type; types with more models come first. Needs json.awk and rows.awk before it. Columns of the index: see fleet-dissection.awk.
function cell(sum) { return sprintf("%.4f", sum / G_measured[g]) }
BEGIN { json_tables() }
$2 != "failed" && !is_side(info_kind(ENVIRON["FLEET_OUT"] "/models/" $7 "/info.tsv")) {
    file = ENVIRON["FLEET_OUT"] "/models/" $7 "/measures.jsonl"
    g = $7
    while ((getline line < file) > 0)
        if (row_json(line)) {
            group_add(g, F["elements"], F["theta"], F["signal"], F["calibrated"], F["row_theta"])
            edge_add(g, F["edge"])
            values[g, F["dtype"]] += F["elements"]
            if (values[g, F["dtype"]] > most[g]) { most[g] = values[g, F["dtype"]]; type[g] = F["dtype"] }
        }
    close(file)
    if (!G_measured[g]) next
    by = ENVIRON["FLEET_BY"]
    e = edge_mean(g)
    score[++n] = by == "edge" ? e : (by == "signal" ? G_signal[g] : by == "calibrated" ? G_calibrated[g] : by == "row_theta" ? G_row[g] : G_theta[g]) / G_measured[g]
    kind[n] = type[g]
    count[type[g]]++
    if (!(type[g] in best) || score[n] > best[type[g]]) best[type[g]] = score[n]
    text[n] = tsv_str(model_name($7)) "\t" cell(G_theta[g]) "\t" cell(G_calibrated[g]) "\t" cell(G_signal[g]) "\t" cell(G_row[g]) "\t" \
        whole(G_count[g]) "\t" whole(G_parameters[g]) "\t" $3 "\t" (e < 0 ? "-" : sprintf("%.4f", e)) "\t" type[g]
}
function before(a, b,   x, y) {
    x = kind[a]; y = kind[b]
    if (x == y) return score[a] > score[b]
    if (count[x] != count[y]) return count[x] > count[y]
    return best[x] == best[y] ? x < y : best[x] > best[y]
}
END {
    print "rank\tmodel\ttheta\tcalibrated\tsignal\trow_theta\ttensors\tparameters\tbytes\tedge\ttype"
    for (i = 1; i <= n; i++) order[i] = i
    for (i = 2; i <= n; i++)
        for (k = i; k > 1 && before(order[k], order[k - 1]); k--) { t = order[k]; order[k] = order[k - 1]; order[k - 1] = t }
    for (i = 1; i <= n; i++) {
        rank = i > 1 && kind[order[i]] == kind[order[i - 1]] ? rank + 1 : 1
        print rank "\t" text[order[i]]
    }
}
