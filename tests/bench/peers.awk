# peers.awk - draws the table of peers.sh: awk -f peers.awk build/bench/peers.tsv > docs/peers.svg
# One bar per row: how many times as fast ours was as the other program, by the clock. A line marks
# equal times.
BEGIN { FS = "\t" }
$5 != "-" && $2 > 0 { name[++n] = $1; ratio[n] = $5 / $2; equal[n] = $11; if (ratio[n] > most) most = ratio[n] }
function escape(s) { gsub(/&/, "\\&amp;", s); gsub(/</, "\\&lt;", s); return s }
END {
	left = 330; right = 60; width = 820; step = 24; top = 40
	unit = (width - left - right) / most
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\"", width, top + n * step + 14, width,
		top + n * step + 14
	print " font-family=\"system-ui, sans-serif\" font-size=\"13\" role=\"img\">"
	print "<title>Times as fast as the other program</title>"
	print "<style>text { fill: #222 } .bar { fill: #2a7d6f } .slow { fill: #b4602a } line { stroke: #888 }"
	print "@media (prefers-color-scheme: dark) { text { fill: #ddd } .bar { fill: #4fb3a1 } .slow { fill: #e0935f } }</style>"
	printf "<text x=\"%d\" y=\"20\">times as fast as the other program; the line marks equal times</text>\n", left
	for (i = 1; i <= n; i++) {
		y = top + (i - 1) * step
		printf "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>\n", left - 8, y + 13, escape(name[i])
		printf "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"16\"/>\n", (ratio[i] < 1 ? "slow" : "bar"), left, y,
			ratio[i] * unit
		printf "<text x=\"%.1f\" y=\"%d\">%.1f</text>\n", left + ratio[i] * unit + 5, y + 13, ratio[i]
	}
	printf "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n</svg>\n", left + unit, top - 6, left + unit, top + n * step
}
