# fleet-line.awk - prints the summary line of one model from its rows. Needs json.awk and
# rows.awk before it, -v status bytes seconds json, and $name in the environment.
BEGIN { json_tables(); F["name"] = "" }
row_json($0) { group_add("all", F["elements"], F["theta"], F["signal"], F["calibrated"], F["row_theta"]) }
END {
    g = "all"
    rate = seconds > 0 && status == "done" ? sprintf("%.1f", bytes / seconds / 1e6) : "-"
    if (status != "done") seconds = "-"
    theta = G_measured[g] ? sprintf("%.2f", G_theta[g] / G_measured[g]) : "-"
    calibrated = G_measured[g] ? sprintf("%.2f", G_calibrated[g] / G_measured[g]) : "-"
    tensors = G_count[g] ? whole(G_count[g]) : "-"
    if (!json) {
        print tsv_str(model_name(ENVIRON["name"])) "\t" status "\t" bytes "\t" seconds "\t" rate "\t" tensors "\t" theta "\t" calibrated
    } else {
        print "{\"model\": " json_str(model_name(ENVIRON["name"])) ", \"status\": \"" status "\", \"bytes\": " bytes \
            ", \"seconds\": " none(seconds) ", \"mb_per_s\": " none(rate) ", \"tensors\": " none(tensors) \
            ", \"theta\": " none(theta) ", \"calibrated\": " none(calibrated) "}"
    }
}
function none(v) { return v == "-" ? "null" : v }
