# report-fleet.awk - the parts of the page on a fleet: problems, duplicates, families, what each model
# is, what was dissected, and the lineage of every pair.
# Needs report-data.awk, and the functions of report-html.awk.

function link(m) { return G_measured[m] ? "<a href=\"#m" m "\">" h(Name[m]) "</a>" : h(Name[m]) }
function overview_html(   i, k, n, part, text) {
    print "<section id=\"problems\"><h2>Problems</h2>"
    if (!N_problems) print "<p class=\"lead\">None: every file was read, and organ-check finds no errors.</p>"
    else {
        print "<div class=\"card scroll\"><table><thead><tr><th class=\"l\">Model</th><th class=\"l\">What is wrong</th></tr></thead><tbody>"
        for (i = 1; i <= N_problems; i++) print "<tr><td class=\"l n\">" h(Problem_of[i]) "</td><td class=\"l n\"><code>" h(Problem[i]) "</code></td></tr>"
        print "</tbody></table></div>"
    }
    print "</section><section id=\"duplicates\"><h2>Duplicates</h2><p class=\"lead\">" \
        (N_same ? "Tensors whose measures agree in every digit. Without the copies, <b>" size(Saved) "</b> would be saved." : "No two files share tensors.") (N_same > 30 ? " The first 30 of " N_same " pairs." : "") "</p>"
    if (N_same) {
        print "<div class=\"card scroll\"><table><thead><tr><th class=\"l\">Model</th><th class=\"l\">has tensors of</th><th class=\"l\">How many</th></tr></thead><tbody>"
        for (i = 1; i <= N_same && i <= 30; i++)
            print "<tr><td class=\"l n\">" link(Same_b[i]) "</td><td class=\"l n\">" link(Same_a[Same_b[i]]) "</td><td class=\"l\">" same_text(Same_b[i]) (is_copy(Same_b[i]) ? ": <b>all</b>" : "") "</td></tr>"
        print "</tbody></table></div>"
    }
    print "</section>"
    if (N_pairs) {
        print "<section id=\"families\"><h2>Families</h2><p class=\"lead\">" (N_families ? "Models of one lineage. Grafts and merges work within a family." : "No two models have a common lineage.") "</p><ul class=\"card findings\">"
        for (i = 1; i <= N_families; i++) {
            n = split(Family[i], part, " ")
            text = ""
            for (k = 1; k <= n; k++) text = text (k > 1 ? ", " : "") link(part[k])
            print "<li>" text "</li>"
        }
        print "</ul></section>"
    }
    print "<section id=\"files\"><h2>Models</h2><div class=\"card scroll\"><table class=\"sort\"><thead><tr><th class=\"l\">Model</th><th class=\"l\">Kind</th><th class=\"l\">Architecture</th><th>Parameters</th><th>Context</th><th class=\"l\">Types</th><th>Bits per weight</th><th>Size</th></tr></thead><tbody>"
    for (i = 1; i <= N; i++)
        print "<tr><td class=\"l n\">" link(i) "</td><td class=\"l\">" or_dash(h(info(i, "kind"))) "</td><td class=\"l\">" or_dash(h(info(i, "architecture"))) "</td>" int_cell(G_parameters[i], short(G_parameters[i])) \
            (info(i, "context") == "" ? "<td data-v=\"\">-</td>" : int_cell(info(i, "context"), commas(info(i, "context")))) "<td class=\"l\">" h(info(i, "types") == "" ? D_top[i] : info(i, "types")) "</td>" \
            (info(i, "bpw") == "" ? "<td data-v=\"\">-</td>" : num_cell(info(i, "bpw"), 2)) (Bytes[i] ~ /^[0-9]+$/ ? int_cell(Bytes[i], size(Bytes[i])) : "<td data-v=\"\">-</td>") "</tr>"
    print "</tbody></table></div></section>"
}

function dissected_row(m, label,   i, rate, seconds) {
    seconds = m == "all" ? O_seconds["all"] : O_seconds[m]
    rate = seconds > 0 ? (m == "all" ? O_timed : O_bytes[m]) / seconds / 1e6 : 0
    print "<tr><td class=\"l n\">" label "</td>" int_cell(O_files[m], whole(O_files[m])) int_cell(O_bytes[m], size(O_bytes[m])) \
        (seconds == "" ? "<td data-v=\"\">-</td>" : "<td data-v=\"" number(seconds) "\">" fixed(seconds, 2) "</td>") \
        (rate > 0 ? "<td class=\"strong\" data-v=\"" number(rate) "\">" sprintf(rate < 10 ? "%.1f" : "%.0f", rate) "</td>" : "<td data-v=\"\">-</td>")
    for (i = 1; i <= n_classes; i++)
        if (O_class["all", Class[i]]) print "<td data-v=\"" whole(O_class[m, Class[i]] + 0) "\">" (O_class[m, Class[i]] ? size(O_class[m, Class[i]]) : "-") "</td>"
    print "</tr>"
}
function dissection(   i, m) {
    if (!N_dissected) return
    print "<section id=\"dissection\"><h2>Dissection</h2><p class=\"lead\">What was extracted from each model: its organs, one file per tensor, their size and how long that took; then the size of each class.</p>" \
        "<div class=\"card scroll\"><table class=\"sort\"><thead><tr><th class=\"l\">Model</th><th>Organs</th><th>Size</th><th>Seconds</th><th>MB/s</th>"
    for (i = 1; i <= n_classes; i++) if (O_class["all", Class[i]]) print "<th class=\"" Class[i] "\"><span class=\"dot\"></span>" label_of(Class[i]) "</th>"
    print "</tr></thead><tbody>"
    for (i = 1; i <= N_dissected; i++) dissected_row(Dissected[i], (G_measured[Dissected[i]] ? "<a href=\"#m" Dissected[i] "\">" h(Name[Dissected[i]]) "</a>" : h(Name[Dissected[i]])))
    print "</tbody>"
    if (N_dissected > 1) { print "<tfoot>"; dissected_row("all", "<span class=\"strong\">all</span>"); print "</tfoot>" }
    print "</table></div></section>"
}

# A cell has a word and the median cosine besides its colour.
function pair_cell(a, b) {
    if (a == b) return "<td class=\"pair self\">\302\267</td>"
    if (!((a, b) in P_word)) return "<td class=\"pair\"><span>-</span></td>"
    return "<td class=\"pair " P_kind[a, b] "\" title=\"" h(Name[a]) " and " h(Name[b]) ": " h(P_text[a, b]) "\"><span>" P_word[a, b] "</span>" \
        (P_cosine[a, b] == "-" ? "" : "<b>" fixed(P_cosine[a, b], 2) "</b>") "</td>"
}
function lineage(   i, k, n, all, list) {
    if (!N_pairs) return
    for (i = 1; i <= N_ranked; i++) if (Paired[Rank[i]] && ++all <= 30) list[++n] = Rank[i]
    print "<section id=\"lineage\"><h2>Lineage</h2><p class=\"lead\">Every pair of models: the verdict of organ-compare --lineage, and the median cosine of their matrices. Grafts and merges work within a lineage; strangers share nothing." \
        (all > 30 ? " The first 30 models; lineage.tsv has all." : "") "</p>"
    print "<div class=\"card scroll\"><table class=\"pairs\"><thead><tr><th class=\"l\" scope=\"col\">Model</th>"
    for (i = 1; i <= n; i++) print "<th class=\"c\" scope=\"col\" title=\"" h(Name[list[i]]) "\">" i "</th>"
    print "</tr></thead><tbody>"
    for (i = 1; i <= n; i++) {
        print "<tr><th class=\"l n\" scope=\"row\"><span class=\"dim\">" i "</span> <a href=\"#m" list[i] "\">" h(Name[list[i]]) "</a></th>"
        for (k = 1; k <= n; k++) print pair_cell(list[i], list[k])
        print "</tr>"
    }
    print "</tbody></table></div></section>"
}
