# report-values.awk - the histograms of a model's values, and the map of where the tensors of a chimera
# come from. Needs report-data.awk, and the functions of report-html.awk.

# Three significant digits, as short as they can be.
function brief(v) { return sprintf("%.3g", v) }
function percent(part, all,   p) {
    if (!all || !part) return "0 %"
    p = 100 * part / all
    return (p < 0.01 ? "under 0.01" : sprintf("%.2g", p)) " %"
}

# One histogram, 160 x 84: the bars as one path, the range below, a tick at zero.
function histogram(m, c,   k, i, d, w, y, zero) {
    k = m SUBSEP c
    if (!H_n[k] || !(H_high[k] > H_low[k]) || !(H_top[k] > 0)) return
    w = 156 / H_n[k]
    for (i = 1; i <= H_n[k]; i++) {
        y = px(66 - 62 * H_bin[k, i] / H_top[k])
        d = d (i == 1 ? "M2 66V" y : "V" y) "H" px(2 + i * w)
    }
    print "<figure class=\"" c "\"><figcaption><span class=\"dot\"></span>" label_of(c) "</figcaption><svg viewBox=\"0 0 160 84\" role=\"img\" aria-label=\"Values of " label_of(c) ", from " brief(H_low[k]) " to " brief(H_high[k]) "; " percent(H_out[k] + 0, H_sum[k]) " lie beyond\">"
    print "<path class=\"bars\" d=\"" d "V66Z\"/><line class=\"axis\" x1=\"2\" x2=\"158\" y1=\"66\" y2=\"66\"/>"
    zero = 2 - 156 * H_low[k] / (H_high[k] - H_low[k])
    if (zero > 55 && zero < 105) print "<line class=\"axis\" x1=\"" px(zero) "\" x2=\"" px(zero) "\" y1=\"66\" y2=\"70\"/><text x=\"" px(zero) "\" y=\"81\" text-anchor=\"middle\">0</text>"
    print "<text x=\"2\" y=\"81\">" brief(H_low[k]) "</text><text x=\"158\" y=\"81\" text-anchor=\"end\">" brief(H_high[k]) "</text></svg></figure>"
}
function values_of(m,   i) {
    if (!Has_values[m]) return
    print "<h4>Values of each class, without the outermost 0.1\302\240%</h4><div class=\"values\">"
    for (i = 1; i <= n_classes; i++) histogram(m, Class[i])
    print "</div>"
}

# A picture of organ-graft, organ-merge or organ-measure, which escape the names in it, with this page's own style.
function picture(file, heading, why,   line, n, i, skip) {
    while (n <= 20000 && (getline line < file) > 0) {
        if (line ~ /^<style>/) skip = 1
        if (!skip && line !~ /class="ground"/) Line[++n] = line
        if (line ~ /<\/style>/) skip = 0
    }
    close(file)
    if (!n) return
    print "<h4>" heading "</h4>"
    if (n > 20000) { print "<p class=\"dim\">" why "</p>"; return }
    sub(/ width="[0-9]*" height="[0-9]*"/, "", Line[1])
    print "<div class=\"origins scroll\" tabindex=\"0\" role=\"group\" aria-label=\"" heading "\">"
    for (i = 1; i <= n; i++) print Line[i]
    print "</div>"
}
