# stream-z.awk - writes z_report_NAME.json of a model measured shard by shard, complete or
# not. Needs json.awk and rows.awk before it; reads the list of shards: number, source.
BEGIN { json_tables(); G_count[""] = 0 }
{
    state = ENVIRON["STREAM_STATE"] "/" $1
    is_done = (getline line < (state ".from")) > 0
    close(state ".from")
    n = 0
    if (is_done) {
        done_file[++n_done] = state ".jsonl"
        while ((getline line < (state ".jsonl")) > 0) {
            if (!row_json(line)) continue
            scope_add("")
            n++
        }
        close(state ".jsonl")
    }
    source = substr($0, length($1) + 2)
    list = list (list ? ",\n" : "") "    {\"shard\": " $1 + 0 ", \"source\": " json_str(source) ", \"done\": " \
        (is_done ? "true" : "false") ", \"tensors\": " (is_done ? n : "null") "}"
}
END {
    total = ENVIRON["STREAM_TOTAL"]
    if (n_done == NR) total = whole(G_count[""])
    print "{\n  \"format\": \"organ-z-report\",\n  \"version\": 1,\n  \"model\": " json_str(ENVIRON["STREAM_NAME"]) ","
    print "  \"created\": \"" ENVIRON["STREAM_TIME"] "\",\n  \"sample\": " ENVIRON["STREAM_SAMPLE"] ",\n  \"complete\": " (n_done == NR ? "true" : "false") ","
    print "  \"shards\": {\"done\": " n_done + 0 ", \"total\": " NR "},"
    print "  \"tensors\": {\"done\": " whole(G_count[""]) ", \"total\": " (total == "" ? "null" : total) "},"
    print "  \"progress\": \"" whole(G_count[""]) " of " (total == "" ? "an unknown number of" : total) " tensors\","
    print "  " substr(group_json(""), index(group_json(""), "\"measured\"")) ","
    print scope_json("", "  ") ","
    print "  \"sources\": [\n" list "\n  ]" (ENVIRON["STREAM_ROWS"] ? "," : "")
    if (ENVIRON["STREAM_ROWS"]) print_rows()
    print "}"
}

# The rows as organ-measure printed them.
function print_rows(   i, line, sep) {
    printf "  \"rows\": ["
    for (i = 1; i <= n_done; i++) {
        while ((getline line < done_file[i]) > 0) {
            print sep
            printf "    %s", line
            sep = ","
        }
        close(done_file[i])
    }
    print "\n  ]"
}
