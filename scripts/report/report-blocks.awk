# report-blocks.awk - the parts of the page on blocks and components. Needs report-data.awk, and the
# functions of report-html.awk.

# A line through the means of a model's blocks.
function series(m, sum, n, class,   k, b, out) {
    for (k = 1; k <= N_blocks[m]; k++) {
        b = m SUBSEP Block[m, k]
        if (n[b]) out = out (out == "" ? "M" : "L") px(BL_l + BL_w * (k - 0.5) / N_blocks[m]) " " px(bl_y(sum[b] / n[b]))
    }
    print "<path class=\"series " class "\" d=\"" out "\"/>"
}
function bl_y(v) { return 8 + 84 * (BL_hi - v) / (BL_hi - BL_lo) }
function level(v, class, text) {
    print "<line class=\"" class "\" x1=\"" BL_l "\" x2=\"" BL_l + BL_w "\" y1=\"" px(bl_y(v)) "\" y2=\"" px(bl_y(v)) "\"/>"
    print "<text x=\"" BL_l - 6 "\" y=\"" px(bl_y(v) + 4) "\" text-anchor=\"end\">" text "</text>"
}
function open_lines(label) { print "<svg viewBox=\"0 0 460 100\" role=\"img\" aria-label=\"" label "\">" }

# Means over the matrices of each block, without the norms.
function block_lines(m,   k, b, top) {
    if (N_blocks[m] < 2) return
    BL_l = 40; BL_w = 410; BL_lo = 0; BL_hi = 90
    print "<div class=\"lines\"><p>Means of the matrices of each block: <b class=\"a\">\316\270</b>, <b class=\"b\">row \316\270</b>; dashed: right angles</p>"
    open_lines("theta and row theta by block")
    level(90, "base", "90\302\260"); level(0, "axis", "0\302\260")
    series(m, B_theta, B_n, "a")
    series(m, B_row, B_n, "b")
    print "</svg>"
    for (k = 1; k <= N_blocks[m]; k++) {
        b = m SUBSEP Block[m, k]
        if (B_edges[b] && B_edge[b] / B_edges[b] > top) top = B_edge[b] / B_edges[b]
    }
    if (top > 0) {
        BL_hi = top > 1.2 ? top : 1.2
        print "<p><b class=\"a\">edge</b>; dashed: random values</p>"
        open_lines("edge by block")
        level(BL_hi, "grid", fixed(BL_hi, 1)); level(1, "base", "1"); level(0, "axis", "0")
        series(m, B_edge, B_edges, "a")
        print "</svg>"
    }
    print "</div>"
}

# Only for models whose classes hide such a difference.
function components(   i, g) {
    if (!Has_components) return
    print "<section id=\"components\"><h2>Components</h2><p class=\"lead\">Experts, shared experts and latent attention apart from the rest.</p>" \
        "<div class=\"card scroll\"><table class=\"sort\"><thead><tr><th class=\"l\">Component</th><th>Tensors</th><th>Parameters</th><th>\316\270</th><th class=\"l\">Stars</th><th class=\"c\">Range</th><th>Calibrated</th><th>Signal</th><th>Row \316\270</th>" (By_edge ? "<th>Edge</th>" : "") "</tr></thead><tbody>"
    for (i = 1; i <= N_components; i++) {
        g = "all" SUBSEP "component" SUBSEP Component[i]
        print "<tr><td class=\"l n strong\">" Component[i] "</td>" group_cells(g, "other") "</tr>"
    }
    print "</tbody></table></div></section>"
}
