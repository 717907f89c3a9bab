# validate-table.awk - the rows of several models and texts as a table or as JSON Lines: the texts in their order, and of
# each the models that load, the lowest perplexity first. Needs json.awk before it.
BEGIN { json_tables() }
{
    row[NR] = $0; load[NR] = $3; perplexity[NR] = $4
    if (!($7 in place)) place[$7] = ++texts
    text[NR] = place[$7]
}
function before(a, b) {
    if (text[a] != text[b]) return text[a] < text[b]
    if (load[a] != load[b]) return load[a] == "ok"
    return perplexity[a] != "-" && (perplexity[b] == "-" || perplexity[a] + 0 < perplexity[b] + 0)
}
END {
    for (i = 1; i <= NR; i++) {
        order[i] = i
        for (k = i; k > 1 && before(order[k], order[k - 1]); k--) { t = order[k]; order[k] = order[k - 1]; order[k - 1] = t }
    }
    if (!json) print "model\tengine\tload\tperplexity\tratio\tkl\ttext"
    for (i = 1; i <= NR; i++) {
        if (!json) { print row[order[i]]; continue }
        split(row[order[i]], p, "\t")
        print "{\"model\": " json_str(p[1]) ", \"engine\": " json_str(p[2]) ", \"load\": " json_str(p[3]) ", \"perplexity\": " none(p[4]) ", \"ratio\": " none(p[5]) \
            ", \"kl\": " none(p[6]) ", \"text\": " (p[7] == "-" ? "null" : json_str(p[7])) "}"
    }
}
function none(v) { return v == "-" || v == "" ? "null" : v }
