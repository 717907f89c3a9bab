# stream-line.awk - prints the line of one shard: its status and the progress of the model.
# Needs json.awk and rows.awk before it; reads the rows of all shards so far.
BEGIN { json_tables(); G_count["all"] = 0 }
row_json($0) { group_add("all", F["elements"], F["theta"], F["signal"], F["calibrated"], F["row_theta"]) }
END {
    theta = G_measured["all"] ? sprintf("%.2f", G_theta["all"] / G_measured["all"]) : "-"
    shard = ENVIRON["STREAM_SHARD"]
    if (!json) {
        print shard_no + 0 "\t" status "\t" seconds "\t" whole(G_count["all"]) "\t" (total == "" ? "-" : total) "\t" theta "\t" tsv_str(shard)
    } else {
        print "{\"shard\": " shard_no + 0 ", \"status\": \"" status "\", \"seconds\": " (seconds == "-" ? "null" : seconds) \
            ", \"tensors\": " whole(G_count["all"]) ", \"total\": " (total == "" ? "null" : total) \
            ", \"theta\": " (theta == "-" ? "null" : theta) ", \"source\": " json_str(shard) "}"
    }
}
