# report-html.awk - writes the report as one page. Needs rows.awk and report-data.awk before
# it. Every name is escaped by h(). The style and the script are separate files.

function h(s) {
    gsub(/&/, "\\&amp;", s)
    gsub(/</, "\\&lt;", s)
    gsub(/>/, "\\&gt;", s)
    gsub(/"/, "\\&quot;", s)
    gsub(/'/, "\\&#39;", s)
    return s
}
# Cuts a name to n characters, but never inside a UTF-8 sequence.
function cut(s, n) {
    if (length(s) <= n) return s
    s = substr(s, 1, n - 1)
    sub(/[\300-\377][\200-\277]*$/, "", s)
    return s "\342\200\246"
}
function named(s) { return s == "" ? "(no name)" : h(s) }
# The same, but lines may break after a point.
function broken(s) { s = named(s); gsub(/\./, ".<wbr>", s); return s }
function include(file,   line) {
    while ((getline line < file) > 0) print line
    close(file)
}
function plural(n, word) { return commas(n) " " word (n == 1 ? "" : "s") }
function num_cell(v, digits) { return "<td data-v=\"" number(v) "\">" fixed(v, digits) "</td>" }
function int_cell(v, text) { return "<td data-v=\"" whole(v) "\">" text "</td>" }
function commas(v,   s, out) {
    s = whole(v)
    for (; length(s) > 3; s = substr(s, 1, length(s) - 3)) out = "," substr(s, length(s) - 2) out
    return s out
}
# "181 of 1096 tensors" with commas in its numbers.
function grouped(text,   n, i, word, out) {
    n = split(text, word, " ")
    for (i = 1; i <= n; i++) out = out (i > 1 ? " " : "") (word[i] ~ /^[0-9]+$/ ? commas(word[i]) : word[i])
    return out
}
function edge_cell(g,   e) { e = edge_mean(g); return e < 0 ? "<td data-v=\"\">-</td>" : num_cell(e, 2) }
function star_cell(g,   n, s) {
    n = stars(g)
    s = substr("\342\230\205\342\230\205\342\230\205", 1, 3 * n)
    return n ? "<td class=\"l stars\" data-v=\"" n "\"><span role=\"img\" aria-label=\"" plural(n, "star") "\">" s "</span></td>" : "<td class=\"l\" data-v=\"\">-</td>"
}
function px(v) { return sprintf("%.1f", v) }

# ---- the parts of a table ---------------------------------------------------------

# A bar from the lowest to the highest theta, with a mark at the mean.
function range_bar(g,   lo, hi) {
    lo = 100 * (G_min[g] - R_lo) / (R_hi - R_lo)
    hi = 100 * (G_max[g] - R_lo) / (R_hi - R_lo)
    return "<span class=\"range\" title=\"" fixed(G_min[g], 2) " to " fixed(G_max[g], 2) "\"><i style=\"left:" px(lo) "%;width:" px(hi - lo) "%\"></i>" \
        "<b style=\"left:" px(100 * (avg(G_theta, g) - R_lo) / (R_hi - R_lo)) "%\"></b></span>"
}
function group_cells(g, class) {
    if (!G_measured[g]) return int_cell(G_count[g], whole(G_count[g])) int_cell(G_parameters[g], short(G_parameters[g])) "<td data-v=\"\">-</td>" star_cell(g) "<td data-v=\"\"></td><td data-v=\"\">-</td><td data-v=\"\">-</td><td data-v=\"\">-</td>" (By_edge ? edge_cell(g) : "")
    return int_cell(G_count[g], whole(G_count[g])) int_cell(G_parameters[g], short(G_parameters[g])) \
        "<td class=\"strong\" data-v=\"" number(avg(G_theta, g)) "\">" fixed(avg(G_theta, g), 2) "</td>" star_cell(g) \
        "<td class=\"c " h(class) "\" data-v=\"" number(G_max[g] - G_min[g]) "\">" range_bar(g) "</td>" \
        num_cell(avg(G_calibrated, g), 2) num_cell(avg(G_signal, g), 3) num_cell(avg(G_row, g), 2) (By_edge ? edge_cell(g) : "")
}
function wells_rows(list, with_model,   i, w) {
    for (i = 1; i <= N_wells[list]; i++) {
        split(W_row[list, i], w, "\t")
        print "<tr><td class=\"l n\"><code>" broken(w[2]) "</code></td>" (with_model ? "<td class=\"l n\"><a href=\"#m" w[1] "\">" h(Name[w[1]]) "</a></td>" : "") \
            "<td class=\"l " h(w[3]) "\"><span class=\"dot\"></span>" h(label_of(w[3])) "</td><td class=\"l\">" h(w[4]) "</td>" int_cell(w[5], short(w[5])) \
            "<td class=\"strong\" data-v=\"" number(W_theta[list, i]) "\">" fixed(W_theta[list, i], 2) "</td>" num_cell(w[6], 2) "</tr>"
    }
}

# The hash of report.js, the only script that the page may run. It is stored in a file,
# because not every system has a program to compute it; a test compares the two.
function script_hash(   file, hash) {
    file = ENVIRON["REPORT_ROOM"] "/report.js.sha256"
    getline hash < file
    close(file)
    return h(hash)
}

# ---- sections ---------------------------------------------------------------------

function head() {
    print "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">"
    print "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-" script_hash() "'; img-src data:; base-uri 'none'; form-action 'none'\">"
    print "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>" h(ENVIRON["REPORT_TITLE"]) "</title>\n<style>"
    include(ENVIRON["REPORT_ROOM"] "/report.css")
    print "</style>\n</head>\n<body>\n<div class=\"page\">\n<header>\n<h1>" h(ENVIRON["REPORT_TITLE"]) "</h1>"
    print "<p class=\"short\">" h(in_short()) "</p><p class=\"sub\">Made " h(ENVIRON["REPORT_TIME"]) ".</p>\n</header>"
    print "<nav aria-label=\"Sections\"><a href=\"#problems\">Problems</a><a href=\"#duplicates\">Duplicates</a>" (N_pairs ? "<a href=\"#families\">Families</a>" : "") "<a href=\"#files\">Files</a>" (N_pairs ? "<a href=\"#lineage\">Lineage</a>" : "") (N_dissected ? "<a href=\"#dissection\">Dissection</a>" : "") "<a href=\"#ranking\">Ranking</a>" (N_ranked > 1 ? "<a href=\"#scale\">Scale</a>" : "") \
        "<a href=\"#types\">Organ types</a><a href=\"#kinds\">Tensor kinds</a><a href=\"#models\">Anatomy</a><a href=\"#wells\">Wells</a>" \
        "<a href=\"#reading\">Reading</a><button type=\"button\" id=\"theme\" hidden>Dark</button></nav>\n<main" (N_ranked > MANY ? " class=\"many\"" : "") ">"
}
function tile(value, label) { print "<div class=\"card tile\"><b>" value "</b><span>" label "</span></div>" }
function summary() {
    print "<div class=\"tiles\">"
    tile(N_models, N_models == 1 ? "model" : "models")
    tile(G_count["all"] < 1e6 ? commas(G_count["all"]) : short(G_count["all"]), "tensors")
    tile(short(G_parameters["all"]), "parameters")
    tile(fixed(avg(G_theta, "all"), 1) "\302\260", "mean \316\270")
    tile(fixed(avg(G_calibrated, "all"), 1) "\302\260", "calibrated (Gaussian noise: 0\302\260)")
    if (By_edge) tile(edge_text("all"), "mean edge (random values: 1)")
    print "</div>"
}
function findings(   g) {
    if (!N_ranked) return
    print "<ul class=\"card findings\">"
    g = class_group("all", Best_class)
    print "<li>The class whose values are least Gaussian: <b>" label_of(Best_class) "</b> (" Says[Best_class] "), " fixed(avg(G_calibrated, g), 2) "\302\260 calibrated.</li>"
    print "<li>" commas(Noise["all"]) " of " commas(G_measured["all"]) " tensors have calibrated 0: their values are distributed like Gaussian noise, as in many trained matrices.</li>"
    if (Fitted)
        print "<li>A model with ten times the parameters scores " fixed(Slope < 0 ? -Slope : Slope, 2) "\302\260 " (Slope < 0 ? "lower" : "higher") \
            " (correlation " fixed(Corr, 2) " over " Fit_n " models).</li>"
    print "</ul>"
}
function ranking(   i, m, lo, hi, v) {
    print "<section id=\"ranking\"><h2>Ranking</h2><p class=\"lead\">" (By_edge ? \
        "Models by the mean edge of their matrices, among those of the same type: about 1 for random or shuffled values, higher for structure that rows share. It is not a measure of quality: a model put together from parts that do not fit keeps its edge." : \
        "Models by the mean \316\270 of their tensors, each of which counts once, among those whose values mostly have the same type. \316\270 depends on the distribution of values alone: random numbers can rank first, and shuffling all values changes nothing. With --spectral, models are ranked by edge.") \
        " Neither tells a damaged model from a healthy one; organ-validate does, because it runs the model.</p><div class=\"card scroll\"><table class=\"sort\"><thead><tr>" \
        "<th class=\"l\">Rank</th><th class=\"l\">Model</th>" (By_edge ? "<th>Edge</th>" : "") "<th>\316\270</th><th class=\"l\">Stars</th><th>Calibrated</th><th>Signal</th><th>Row \316\270</th><th>Tensors</th><th>Parameters</th><th>Size</th><th class=\"l\">Type</th></tr></thead><tbody>"
    for (i = 1; i <= N_ranked; i++) {
        v = score(Rank[i])
        if (i == 1 || v < lo) lo = v
        if (i == 1 || v > hi) hi = v
    }
    if (hi - lo < 1e-9) lo = hi - 1
    for (i = 1; i <= N_ranked; i++) {
        m = Rank[i]
        v = score(m)
        print "<tr><td class=\"l dim\" data-v=\"" i "\">" Place[i] "</td><td class=\"l n\"><a href=\"#m" m "\">" h(Name[m]) "</a>" (Origins[m] == "[]" ? "" : " <span class=\"dim\">chimera</span>") (Progress[m] == "-" ? "" : " <span class=\"dim\">" h(grouped(Progress[m])) "</span>") "</td>" \
            "<td class=\"strong\" data-v=\"" number(v) "\">" "<span class=\"bar\"><i style=\"width:" px(15 + 85 * (v - lo) / (hi - lo)) "%\"></i></span>" (By_edge ? edge_text(m) : fixed(v, 2)) "</td>" \
            (By_edge ? num_cell(avg(G_theta, m), 2) : "") star_cell(m) num_cell(avg(G_calibrated, m), 2) num_cell(avg(G_signal, m), 3) num_cell(avg(G_row, m), 2) int_cell(G_count[m], whole(G_count[m])) \
            int_cell(G_parameters[m], short(G_parameters[m])) (Bytes[m] ~ /^[0-9]+$/ ? int_cell(Bytes[m], size(Bytes[m])) : "<td data-v=\"\">-</td>") "<td class=\"l\">" h(D_top[m]) "</td></tr>"
    }
    print "</tbody></table></div></section>"
}
function types(   i, g) {
    print "<section id=\"types\"><h2>Organ types</h2><p class=\"lead\">The same measures by class of tensor. The bar runs from the lowest to the highest tensor; the mark shows the mean.</p>" \
        "<div class=\"card scroll\"><table class=\"sort\"><thead><tr><th class=\"l\">Class</th><th>Tensors</th><th>Parameters</th><th>\316\270</th><th class=\"l\">Stars</th><th class=\"c\">Range</th><th>Calibrated</th><th>Signal</th><th>Row \316\270</th>" (By_edge ? "<th>Edge</th>" : "") "</tr></thead><tbody>"
    for (i = 1; i <= n_classes; i++) {
        g = class_group("all", Class[i])
        if (G_count[g]) print "<tr><td class=\"l n " Class[i] "\"><span class=\"dot\"></span><span class=\"strong\">" label_of(Class[i]) "</span> <span class=\"dim\">" Says[Class[i]] "</span></td>" group_cells(g, Class[i]) "</tr>"
    }
    print "</tbody></table></div></section>"
}
function kinds(   i, c, n) {
    n = ROLES["all"] > 60 ? 60 : ROLES["all"]
    if (N_ranked > MANY && n > 24) n = 24
    print "<section id=\"kinds\"><h2>Tensor kinds</h2><p class=\"lead\">The same tensors by their role within a block, highest mean \316\270 first" (n < ROLES["all"] ? "; the first " n " of " ROLES["all"] : "") ".</p>" \
        "<div class=\"card scroll\"><table class=\"sort\"><thead><tr><th class=\"l\">Kind</th><th>Tensors</th><th>Parameters</th><th>\316\270</th><th class=\"l\">Stars</th><th class=\"c\">Range</th><th>Calibrated</th><th>Signal</th><th>Row \316\270</th>" (By_edge ? "<th>Edge</th>" : "") "</tr></thead><tbody>"
    for (i = 1; i <= n; i++) {
        c = ROLE_CLASS["all", By_role[i]]
        print "<tr><td class=\"l n " h(c) "\"><span class=\"dot\" title=\"" h(label_of(c)) "\"></span><code>" broken(By_role[i]) "</code></td>" group_cells(role_group(By_role[i]), c) "</tr>"
    }
    print "</tbody></table></div></section>"
}
function wells() {
    print "<section id=\"wells\"><h2>Wells</h2><p class=\"lead\">The tensors with the lowest \316\270 of all models. Their values are closest to Gaussian, which is not a defect.</p><div class=\"card scroll\"><table class=\"sort\"><thead><tr>" \
        "<th class=\"l\">Tensor</th><th class=\"l\">Model</th><th class=\"l\">Class</th><th class=\"l\">Type</th><th>Values</th><th>\316\270</th><th>Calibrated</th></tr></thead><tbody>"
    wells_rows("all", 1)
    print "</tbody></table></div></section>"
}
function reading() {
    print "<section id=\"reading\"><h2>Reading the numbers</h2><p class=\"lead\">All are computed from the dequantized values; angles are in degrees.</p><dl class=\"card\">"
    print "<dt>\316\270</dt><dd>A score of how a tensor\342\200\231s values are distributed: 90 if entropy, kurtosis and the spacing of the values all reach their thresholds. Noise does not score 0, and some noise scores 90. It can show that a tensor differs from others of the same role, type and size, but it cannot tell signal from noise and says nothing about how good a model is.</dd>"
    print "<dt>Stars</dt><dd>Those of the original project: two from a mean \316\270 of 80, three from 89, otherwise one. Noise with heavy tails has three.</dd>"
    print "<dt>Calibrated</dt><dd>The part of \316\270 above Gaussian noise with as many values in the same type, rescaled: 0 for Gaussian noise, 90 if all three thresholds are reached. Noise with heavy tails reaches 90 too.</dd>"
    if (By_edge) print "<dt>Edge</dt><dd>The largest singular value of a matrix, squared, relative to that of a random matrix: about 1 for random or shuffled values, higher for structure that rows share. The more noise is added, the lower it is.</dd>"
    print "<dt>Signal</dt><dd>The mean of sin \316\270 over the tensors.</dd>"
    print "<dt>Row \316\270</dt><dd>The angle between neighbouring rows: 90 if they are uncorrelated. It is not comparable with \316\270 and never ranked together with it.</dd>"
    print "<dt>Wells</dt><dd>The tensors with the lowest \316\270, whose values are closest to Gaussian. They may be untrained, but many trained matrices look like this too.</dd></dl></section>"
}

# ---- theta against parameters -----------------------------------------------------

function x_at(p) { return P_l + (P_w - P_l - P_r) * (log10(p) - X_lo) / (X_hi - X_lo) }
function y_at(t) { return P_h - P_b - (P_h - P_t - P_b) * (t - Y_lo) / (Y_hi - Y_lo) }

function plot_bounds(   i, m, x, t, lo, hi) {
    P_w = 1040; P_h = 400; P_l = 52; P_r = 20; P_t = 16; P_b = 46
    for (i = 1; i <= N_ranked; i++) {
        m = Rank[i]
        x = log10(G_parameters[m])
        if (i == 1 || x < X_lo) X_lo = x
        if (i == 1 || x > X_hi) X_hi = x
        t = avg(G_theta, m); if (i == 1 || t > hi) hi = t; if (i == 1 || t < lo) lo = t
    }
    t = X_hi - X_lo
    X_lo -= t < 0.6 ? (1 - t) / 2 : 0.1 * t
    X_hi += t < 0.6 ? (1 - t) / 2 : 0.22 * t
    t = hi - lo < 2 ? 2 : hi - lo
    Y_lo = lo - 0.1 * t; Y_hi = hi + 0.1 * t
    if (Y_lo < 0) Y_lo = 0
}
function plot_grid(   step, v, e, k, n, man, p) {
    step = Y_hi - Y_lo > 40 ? 10 : Y_hi - Y_lo > 16 ? 5 : Y_hi - Y_lo > 7 ? 2 : 1
    for (v = step * int(Y_lo / step + 0.999); v <= Y_hi; v += step)
        print "<line class=\"grid\" x1=\"" P_l "\" x2=\"" P_w - P_r "\" y1=\"" px(y_at(v)) "\" y2=\"" px(y_at(v)) "\"/><text x=\"" P_l - 8 "\" y=\"" px(y_at(v) + 4) "\" text-anchor=\"end\">" v "\302\260</text>"
    print "<line class=\"axis\" x1=\"" P_l "\" x2=\"" P_w - P_r "\" y1=\"" P_h - P_b "\" y2=\"" P_h - P_b "\"/>"
    n = split(X_hi - X_lo < 2.5 ? "1 2 5" : "1", man, " ")
    for (e = int(X_lo) - 1; e <= X_hi; e++) {
        p = 1
        for (k = 1; k <= e; k++) p *= 10
        for (k = 1; k <= n && e >= 0; k++) {
            v = man[k] * p
            if (log10(v) < X_lo || log10(v) > X_hi) continue
            print "<line class=\"axis\" x1=\"" px(x_at(v)) "\" x2=\"" px(x_at(v)) "\" y1=\"" P_h - P_b "\" y2=\"" P_h - P_b + 5 "\"/><text" (man[k] == 1 ? "" : " class=\"minor\"") " x=\"" px(x_at(v)) "\" y=\"" P_h - P_b + 20 "\" text-anchor=\"middle\">" tick(v) "</text>"
        }
    }
    print "<text x=\"" px((P_l + P_w - P_r) / 2) "\" y=\"" P_h - 6 "\" class=\"minor\" text-anchor=\"middle\">parameters, logarithmic</text>"
}
function tick(v,   s) { s = short(v); sub(/\.00/, "", s); sub(/\.0/, "", s); return s }

# Names are placed in a column beside points of similar size, moved apart where they would
# touch, with a line to their point. Points that a neighbour's names would cover share its
# column. If there are many models, only the first and the last ones are named.
function plot_labels(   i, k, m, n, t, from, to, at) {
    for (i = 1; i <= N_ranked; i++)
        if (N_ranked <= 24 || i <= 16 || i > N_ranked - 8) Labelled[++n] = Rank[i]
    for (i = 2; i <= n; i++)
        for (k = i; k > 1 && G_parameters[Labelled[k]] < G_parameters[Labelled[k - 1]]; k--) {
            t = Labelled[k]; Labelled[k] = Labelled[k - 1]; Labelled[k - 1] = t
        }
    for (from = 1; from <= n; from = to + 1) {
        to = from
        while (to < n && x_at(G_parameters[Labelled[to + 1]]) - x_at(G_parameters[Labelled[to]]) < 44 + 6.6 * length(cut(Name[Labelled[to]], 30)) &&
            x_at(G_parameters[Labelled[to + 1]]) - x_at(G_parameters[Labelled[from]]) < 200) to++
        plot_column(from, to)
    }
}
# Counts the points of other columns between a and b.
function crowd(a, b, left, right,   i, x, n) {
    if (a < P_l || b > P_w) return 1000
    for (i = 1; i <= N_ranked; i++) {
        x = x_at(G_parameters[Rank[i]])
        if (x > a && x < b && (x < left - 1 || x > right + 1)) n++
    }
    for (i = 1; i <= N_columns; i++) if (Col_to[i] > a && Col_from[i] < b) n += 4
    return n
}
function plot_column(from, to,   i, k, m, t, left, right, wide, w, side, x, y, n, gap) {
    left = x_at(G_parameters[Labelled[from]])
    right = x_at(G_parameters[Labelled[to]])
    for (i = from; i <= to; i++) { m = Labelled[i]; w = 6.6 * length(cut(Name[m], 30)); if (w > wide) wide = w }
    side = crowd(left - 22 - wide, left - 8, left, right) < crowd(right + 8, right + 22 + wide, left, right) ? -1 : 1
    x = side > 0 ? right + 22 : left - 22
    N_columns++
    Col_from[N_columns] = side > 0 ? right : x - wide
    Col_to[N_columns] = side > 0 ? x + wide : left
    for (i = from + 1; i <= to; i++)
        for (k = i; k > from && avg(G_theta, Labelled[k]) > avg(G_theta, Labelled[k - 1]); k--) {
            t = Labelled[k]; Labelled[k] = Labelled[k - 1]; Labelled[k - 1] = t
        }
    gap = 15
    n = to - from
    for (i = from; i <= to; i++) {
        Label_y[i] = y_at(avg(G_theta, Labelled[i]))
        if (i > from && Label_y[i] < Label_y[i - 1] + gap) Label_y[i] = Label_y[i - 1] + gap
    }
    # names were only moved down so far: centre the column on its points
    t = (Label_y[to] - y_at(avg(G_theta, Labelled[to]))) / 2
    y = Label_y[from] - t < P_t + 6 ? Label_y[from] - P_t - 6 : t
    for (i = from; i <= to; i++) {
        Label_y[i] -= y
        m = Labelled[i]
        print "<path class=\"lead-line\" d=\"M" px(x_at(G_parameters[m]) + side * 6) " " px(y_at(avg(G_theta, m))) "L" px(x - side * 4) " " px(Label_y[i]) "\"/>"
        print "<text class=\"name\" x=\"" px(x) "\" y=\"" px(Label_y[i] + 4) "\"" (side < 0 ? " text-anchor=\"end\"" : "") ">" h(cut(Name[m], 30)) "</text>"
    }
}
function scale(   i, m, x, y) {
    if (N_ranked < 2) return
    plot_bounds()
    print "<section id=\"scale\"><h2>Scale</h2><p class=\"lead\">Mean \316\270 against the number of parameters.</p>"
    print "<div class=\"card plot scroll\"><svg viewBox=\"0 0 " P_w " " P_h "\" role=\"img\" aria-label=\"Mean theta of each model against its parameters\">"
    plot_grid()
    if (Fitted) {
        x = Intercept + Slope * X_lo; y = Intercept + Slope * X_hi
        if (x > Y_lo && x < Y_hi && y > Y_lo && y < Y_hi) print "<path class=\"fit\" d=\"M" P_l " " px(y_at(x)) "L" P_w - P_r " " px(y_at(y)) "\"/>"
    }
    plot_labels()
    for (i = 1; i <= N_ranked; i++) {
        m = Rank[i]
        print "<a href=\"#m" m "\"><circle class=\"point\" cx=\"" px(x_at(G_parameters[m])) "\" cy=\"" px(y_at(avg(G_theta, m))) "\" r=\"5.5\"><title>" h(Name[m]) ": " \
            fixed(avg(G_theta, m), 2) "\302\260, " short(G_parameters[m]) " parameters</title></circle></a>"
    }
    print "</svg></div></section>"
}

# ---- anatomy maps -----------------------------------------------------------------

# The limits of the colours are those of the pictures of organ-measure (set_scale in tools/common/picture.c): the 5 %
# and 95 % quantiles of all tensors or, if these are equal, the least and the largest value, to multiples of 5 degrees.
function color_bounds(   i, k, n, out) {
    for (i = 0; i <= 180; i++) n += Seen_from[i]
    if (!n) { Q_hi = 5; return }
    out = int(0.05 * (n - 1) + 0.5)
    do {
        n = out + 1
        for (i = 0; (n -= Seen_from[i]) > 0 && i < 180; i++);
        n = out + 1
        for (k = 180; (n -= Seen_to[k]) > 0 && k > 0; k--);
        out = out && k - i <= 1 ? 0 : -1
    } while (out == 0)
    Q_lo = 5 * int(i / 10)
    Q_hi = 5 * int((k + 9) / 10)
    if (Q_hi <= Q_lo) Q_hi = Q_lo + 1
}
function shade(t,   q) {
    q = int(10 * (t - Q_lo) / (Q_hi - Q_lo))
    return q < 0 || t < Q_lo ? 0 : q > 9 ? 9 : q
}
function map_cell(m, role, block, x, y, w, tall,   t, q) {
    if (!((m, role, block) in Cell)) return
    t = Cell[m, role, block] / Cell_n[m, role, block]
    q = shade(t)
    print "<rect class=\"q" q "\" x=\"" x "\" y=\"" y "\" width=\"" w "\" height=\"" tall "\" rx=\"3\"><title>" (block == "-" ? "" : "block " h(block) " ") h(role) ": " fixed(t, 2) "\302\260" \
        (Cell_n[m, role, block] > 1 ? ", mean of " Cell_n[m, role, block] : "") "</title></rect>"
    if (w >= 38) print "<text class=\"" (q >= 5 ? "t1" : "t0") "\" x=\"" x + w / 2 "\" y=\"" y + tall / 2 + 4 "\" text-anchor=\"middle\" pointer-events=\"none\">" fixed(t, 1) "</text>"
}
function map_label(text, x, y) { print "<text x=\"" x - 8 "\" y=\"" y "\" text-anchor=\"end\"><title>" named(text) "</title>" named(cut(text, 24)) "</text>" }
# Models with many blocks get the whole width.
function is_wide(m) { return N_blocks[m] > 36 }
function anatomy(m,   i, k, left, w, tall, y, n, out, every, wide, high) {
    for (i = 1; i <= N_rows[m]; i++) if (length(cut(Row[m, i], 24)) > n) n = length(cut(Row[m, i], 24))
    out = N_outside[m] > 12 ? 12 : N_outside[m]
    for (i = 1; i <= out; i++) if (length(cut(Outside[m, i], 24)) > n) n = length(cut(Outside[m, i], 24))
    left = int(6.9 * n) + 14
    if (left < 60) left = 60
    n = N_blocks[m] > 0 ? N_blocks[m] : 1
    w = int(((is_wide(m) ? 1084 : 456) - left) / n)
    if (w > 92) w = 92
    if (w < 9) w = 9
    tall = 20
    wide = left + n * w + 4
    high = (N_rows[m] ? 20 + N_rows[m] * tall : 0) + (out ? 8 + out * tall : 0) + 4
    # on a narrow screen it shrinks as long as its numbers are readable
    print "<div class=\"map scroll\" tabindex=\"0\" role=\"group\" aria-label=\"Anatomy\"><svg width=\"" wide "\" height=\"" high "\" viewBox=\"0 0 " wide " " high \
        "\" style=\"--least:" left + n * (w > 46 ? 46 : w) "px\" role=\"img\" aria-label=\"theta by block and tensor kind\">"
    y = 0
    if (N_rows[m]) {
        every = w >= 20 ? 1 : w >= 14 ? 2 : 5
        for (k = 1; k <= N_blocks[m]; k++)
            if ((k - 1) % every == 0) print "<text x=\"" left + (k - 0.5) * w "\" y=\"12\" text-anchor=\"middle\">" Block[m, k] "</text>"
        y = 18
        for (i = 1; i <= N_rows[m]; i++) {
            map_label(Row[m, i], left, y + 14)
            for (k = 1; k <= N_blocks[m]; k++) map_cell(m, Row[m, i], Block[m, k], left + (k - 1) * w, y, w, tall)
            y += tall
        }
        y += 8
    }
    for (i = 1; i <= out; i++) {
        map_label(Outside[m, i], left, y + 14)
        map_cell(m, Outside[m, i], "-", left, y, w < 38 ? 44 : w, tall)
        y += tall
    }
    print "</svg></div>"
    if (Block_more[m]) print "<p class=\"dim\">Only the first " N_blocks[m] " blocks are shown.</p>"
    if (N_outside[m] > out) print "<p class=\"dim\">and " N_outside[m] - out " more outside the blocks</p>"
}
# With many models, each is folded into a line, which printing leaves folded.
function model_card(m) {
    if (N_ranked > MANY) print "<details class=\"fold\" id=\"f" m "\"><summary>" h(Name[m]) " <span class=\"dim\">" fixed(avg(G_theta, m), 2) "\302\260, " short(G_parameters[m]) " parameters, " h(D_top[m]) "</span></summary>"
    print "<article class=\"card model" (is_wide(m) ? " wide" : "") "\" id=\"m" m "\"><div class=\"head\"><h3>" h(Name[m]) "</h3><b title=\"mean theta\">" fixed(avg(G_theta, m), 2) "\302\260</b></div>"
    print "<p class=\"facts\">" short(G_parameters[m]) " parameters, " plural(G_count[m], "tensor") ", " h(D_top[m]) (Bytes[m] ~ /^[0-9]+$/ ? ", " size(Bytes[m]) : "") \
        "; calibrated " fixed(avg(G_calibrated, m), 2) "\302\260" (By_edge ? ", edge " edge_text(m) : "") (Progress[m] == "-" ? "" : "; <b>" h(grouped(Progress[m])) "</b>") "</p>"
    anatomy(m)
    block_lines(m)
    values_of(m)
    picture(Base[m] ".svg", "Where its tensors come from", \
        "The map has too many tensors for this page; organ-graft --svg and organ-merge --svg draw it.")
    picture(Base[m] ".experts.svg", "Importance of its experts", \
        "There are too many experts for this page; organ-measure --rank experts --svg draws them.")
    print "<details><summary>" N_wells[m] " wells</summary><div class=\"scroll\"><table class=\"sort\"><thead><tr><th class=\"l\">Tensor</th><th class=\"l\">Class</th><th class=\"l\">Type</th><th>Values</th><th>\316\270</th><th>Calibrated</th></tr></thead><tbody>"
    wells_rows(m, 0)
    print "</tbody></table></div></details></article>" (N_ranked > MANY ? "</details>" : "")
}
function maps(   i, q) {
    color_bounds()
    print "<section id=\"models\"><h2>Anatomy</h2><p class=\"lead\">Blocks run across, tensor kinds down; each cell is a tensor. Tensors outside the blocks are below the gap.</p><div class=\"legend\"><span>\316\270 " fixed(Q_lo, 1) "\302\260 or less<svg width=\"180\" height=\"12\" viewBox=\"0 0 180 12\" aria-hidden=\"true\">"
    for (q = 0; q < 10; q++) print "<rect class=\"q" q "\" x=\"" q * 18 "\" width=\"18\" height=\"12\"/>"
    print "</svg>" fixed(Q_hi, 1) "\302\260 or more</span></div><div class=\"" (N_ranked > MANY ? "folded" : "models") "\">"
    for (i = 1; i <= N_ranked; i++) model_card(Rank[i])
    print "</div></section>"
}

BEGIN {
    MANY = 12
    if (N_ranked) {
        for (i = 1; i <= n_classes; i++) {
            g = class_group("all", Class[i])
            if (!G_measured[g]) continue
            if (R_hi == "" || G_min[g] < R_lo) R_lo = G_min[g]
            if (R_hi == "" || G_max[g] > R_hi) R_hi = G_max[g]
        }
        if (R_hi - R_lo < 1) R_hi = R_lo + 1
    }
    head()
    summary()
    overview_html()
    lineage()
    dissection()
    print "<h2 class=\"part\">Measures</h2>"
    findings()
    ranking()
    scale()
    types()
    components()
    kinds()
    maps()
    wells()
    reading()
    print "</main>\n<footer>Made by organ-report. This page loads nothing from elsewhere.</footer>\n</div>\n<script>"
    include(ENVIRON["REPORT_ROOM"] "/report.js")
    print "</script>\n</body>\n</html>"
}
