# report-fleet.awk - the parts of the page on a fleet: problems, duplicates, families, what each model
# is, what was dissected, and the lineage of every pair.
# Needs report-data.awk, and the functions of report-html.awk.

function link(m) { return has_card(m) ? "<a href=\"#m" m "\">" h(Name[m]) "</a>" : h(Name[m]) }
# The exact copies, or folded the files of which only tensors are the same: their measures agree in every digit.
function same_table(copies,   i, m, n, rows) {
    for (i = 1; i <= N_same; i++) {
        m = Same_b[i]
        if (is_copy(m) != copies || ++n > 100) continue
        rows = rows "<tr><td class=\"l n\">" link(m) "</td><td class=\"l n\">" link(Same_a[m]) "</td>" \
            (copies ? (Bytes[m] ~ /^[0-9]+$/ ? int_cell(Bytes[m], size(Bytes[m])) : "<td>-</td>") : "<td class=\"l\">" same_text(m) "</td>") "</tr>\n"
    }
    if (!n) return
    print (copies ? "<div class=\"card scroll\">" : "<details class=\"shared\"><summary>" many(n, "other file has", "other files have") " tensors of another</summary><div class=\"card scroll\">") \
        "<table><thead><tr><th class=\"l\">File</th><th class=\"l\">" (copies ? "is a copy of</th><th>Size" : "has tensors of</th><th class=\"l\">How many") "</th></tr></thead><tbody>\n" \
        rows "</tbody></table></div>" (n > 100 ? "<p class=\"dim\">The first 100 of " n ".</p>" : "") (copies ? "" : "</details>")
}
function overview_html(   i, k, n, part, text) {
    print "<section id=\"problems\"><h2>Problems</h2>"
    if (!N_problems) print "<p class=\"lead\">None: every file was read, and organ-check finds no errors.</p>"
    else {
        print "<div class=\"card scroll\"><table><thead><tr><th class=\"l\">Model</th><th class=\"l\">What is wrong</th></tr></thead><tbody>"
        for (i = 1; i <= N_problems; i++) print "<tr><td class=\"l n\">" h(Problem_of[i]) "</td><td class=\"l n\"><code>" h(Problem[i]) "</code></td></tr>"
        print "</tbody></table></div>"
    }
    print "</section><section id=\"duplicates\"><h2>Duplicates</h2><p class=\"lead\">" \
        (N_same ? "Without the tensors that are stored several times, <b>" size(Saved) "</b> would be saved." : "No two files share tensors.") "</p>"
    same_table(1)
    same_table(0)
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
    print "<section id=\"files\"><h2>Files</h2><div class=\"card scroll\"><table class=\"sort\"><thead><tr><th class=\"l\">File</th><th>Size</th><th class=\"l\">Kind</th><th class=\"l\">Architecture</th><th>Parameters</th><th class=\"l\">Types</th><th>Bits per weight</th><th>Context</th></tr></thead><tbody>"
    for (i = 1; i <= N; i++)
        print "<tr><td class=\"l n\">" link(i) (Gone[i] ? " <span class=\"dim\">its file is gone</span>" : "") "</td>" (Bytes[i] ~ /^[0-9]+$/ ? int_cell(Bytes[i], size(Bytes[i])) : "<td data-v=\"\">-</td>") \
            "<td class=\"l\">" or_dash(h(info(i, "kind"))) "</td><td class=\"l\">" or_dash(h(info(i, "architecture"))) "</td>" int_cell(G_parameters[i], short(G_parameters[i])) \
            "<td class=\"l\">" h(info(i, "types") == "" ? D_top[i] : info(i, "types")) "</td>" (info(i, "bpw") == "" ? "<td data-v=\"\">-</td>" : num_cell(info(i, "bpw"), 2)) \
            (info(i, "context") == "" ? "<td data-v=\"\">-</td>" : int_cell(info(i, "context"), commas(info(i, "context")))) "</tr>"
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
    for (i = 1; i <= N_dissected; i++) dissected_row(Dissected[i], (has_card(Dissected[i]) ? "<a href=\"#m" Dissected[i] "\">" h(Name[Dissected[i]]) "</a>" : h(Name[Dissected[i]])))
    print "</tbody>"
    if (N_dissected > 1) { print "<tfoot>"; dissected_row("all", "<span class=\"strong\">all</span>"); print "</tfoot>" }
    print "</table></div></section>"
}

# A small cell: its colour is the verdict, its number the median cosine in percent; the title has both in words.
function pair_cell(a, b) {
    if (a == b) return "<td class=\"pair self\"></td>"
    if (!((a, b) in P_word)) return "<td class=\"pair unknown\" title=\"" h(Name[a]) " and " h(Name[b]) ": not compared\">-</td>"
    return "<td class=\"pair " P_kind[a, b] "\" title=\"" h(Name[a]) " and " h(Name[b]) ": " h(P_text[a, b]) (P_cosine[a, b] == "-" ? "" : ", " fixed(P_cosine[a, b], 3)) "\">" \
        (P_kind[a, b] == "same" ? "=" : P_cosine[a, b] == "-" ? (P_kind[a, b] == "unknown" ? "?" : "") : hundredths(P_cosine[a, b])) "</td>"
}
function hundredths(v,   s) { s = sprintf("%.0f", 100 * v); return s == "-0" ? 0 : s }
# Order[1..n]: the models of each family side by side, then those without one.
function family_order(most,   i, k, n, m, part, seen) {
    for (i = 1; i <= N_families; i++) {
        split(Family[i], part, " ")
        for (k = 1; k in part; k++) { seen[part[k] + 0] = 1; if (n < most) Order[++n] = part[k] + 0 }
    }
    for (i = 1; i <= N_ranked; i++) {
        m = Rank[i]
        if (Paired[m] && !seen[m] && n < most) Order[++n] = m
    }
    return n
}
function lineage(   i, k, n, all) {
    if (!N_pairs) return
    for (i = 1; i <= N; i++) all += Paired[i]
    n = family_order(80)
    print "<section id=\"lineage\"><h2>Lineage</h2><p class=\"lead\">Every pair of models, those of a family side by side: the verdict of organ-compare --lineage, and the median cosine of their matrices in percent. Grafts and merges work within a lineage; strangers share nothing." \
        (all > n ? " The first " n " models; lineage.tsv has all." : "") "</p>"
    print "<div class=\"legend\"><span><i class=\"pair swatch same\">=</i>identical</span><span><i class=\"pair swatch kin\"></i>same lineage</span><span><i class=\"pair swatch moved\"></i>with units in other places</span><span><i class=\"pair swatch far\"></i>strangers</span><span><i class=\"pair swatch unknown\">?</i>undecidable</span></div>"
    print "<div class=\"card scroll\"><table class=\"pairs\"><thead><tr><th class=\"l\" scope=\"col\">Model</th>"
    for (i = 1; i <= n; i++) print "<th class=\"c\" scope=\"col\" title=\"" h(Name[Order[i]]) "\">" i "</th>"
    print "</tr></thead><tbody>"
    for (i = 1; i <= n; i++) {
        print "<tr><th class=\"l n\" scope=\"row\"><span class=\"dim\">" i "</span> " link(Order[i]) "</th>"
        for (k = 1; k <= n; k++) print pair_cell(Order[i], Order[k])
        print "</tr>"
    }
    print "</tbody></table></div></section>"
}
