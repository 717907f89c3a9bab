# peers.awk - draws the table of peers.sh: awk -f peers.awk build/bench/peers.tsv > docs/peers.svg
# One bar per row: how many times as fast ours was as the other program, by the clock, on a
# logarithmic scale. A line marks equal times.
BEGIN { FS = "\t" }
$5 != "-" && $2 > 0 {
	name[++n] = $1
	ratio[n] = $5 / $2
	if (ratio[n] > most) most = ratio[n]
	if (n == 1 || ratio[n] < least) least = ratio[n]
}
function escape(s) {
	gsub(/&/, "\\&amp;", s)
	gsub(/</, "\\&lt;", s)
	return s
}
END {
	left = 350; width = 840; step = 24; top = 40; height = top + n * step + 14
	if (least > 0.5) least = 0.5
	unit = (width - left - 60) / log(most / least)
	one = left + unit * log(1 / least)
	printf "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" height=\"%d\" role=\"img\">\n",
		width, height, width, height
	print "<title>Times as fast as the other program</title>"
	print "<style>"
	print "text { fill: #222; font: 13px sans-serif } .right { text-anchor: end }"
	print ".ground { fill: #fff } .bar { fill: #2a7d6f } .slow { fill: #b4602a } line { stroke: #888 }"
	print "@media (prefers-color-scheme: dark) {"
	print "text { fill: #ddd } .ground { fill: #17171a } .bar { fill: #4fb3a1 } .slow { fill: #e0935f } }"
	print "</style>"
	print "<rect class=\"ground\" width=\"100%\" height=\"100%\"/>"
	printf "<text x=\"%d\" y=\"20\">times as fast, on a logarithmic scale; the line marks equal times</text>\n", left
	for (i = 1; i <= n; i++) {
		y = top + (i - 1) * step
		end = left + unit * log(ratio[i] / least)
		from = end < one ? end : one
		printf "<text class=\"right\" x=\"%d\" y=\"%d\">%s</text>\n", left - 8, y + 13, escape(name[i])
		printf "<rect class=\"%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"16\"/>\n", (ratio[i] < 1 ? "slow" : "bar"),
			from, y, (end < one ? one - end : end - one)
		printf "<text x=\"%.1f\" y=\"%d\">%.1f</text>\n", (end > one ? end : one) + 5, y + 13, ratio[i]
	}
	printf "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\"/>\n</svg>\n", one, top - 6, one, top + n * step
}
