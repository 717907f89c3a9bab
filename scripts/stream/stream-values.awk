# stream-values.awk - adds up the histograms of shards (JSON Lines of organ-measure --histogram) in bins of
# the widest width of a class. Widths are powers of two and bins begin at multiples of them, so
# each bin lies within one of the sums.
function floor(v,   i) { i = int(v); return i > v ? i - 1 : i }
function take(c, width) {
    if (!(c in Width)) Class[++n_classes] = c
    if (width > Width[c]) Width[c] = width
    n++
    Of[n] = c; Low[n] = low; High[n] = high; Values[n] = values
}
{
    gsub(/[{}"]/, "")
    if (split($0, part, ", ") != 4) next
    for (i = 1; i <= 4; i++) sub(/^[a-z]*: /, "", part[i])
    low = part[2]; high = part[3]; values = part[4]
    take(part[1], low == "null" || high == "null" ? 0 : high - low)
}
function row(c, from, to, v) {
    printf "{\"class\": \"%s\", \"low\": %s, \"high\": %s, \"values\": %.17g}\n", c, from, to, v
}
function number(v) { return sprintf("%.17g", v) }
function sums(c,   i, k, w, first, last, below, above) {
    split("", Sum)
    first = ""
    w = Width[c]
    for (i = 1; i <= n; i++) {
        if (Of[i] != c) continue
        if (Low[i] == "null") below += Values[i]
        else if (High[i] == "null") above += Values[i]
        else {
            k = floor(Low[i] / w)
            Sum[k] += Values[i]
            if (first == "") first = last = k
            if (k < first) first = k
            if (k > last) last = k
        }
    }
    if (first == "") return
    if (below) row(c, "null", number(first * w), below)
    for (k = first; k <= last && k < first + 1000; k++) row(c, number(k * w), number((k + 1) * w), Sum[k])
    if (above) row(c, number((last + 1) * w), "null", above)
}
END { for (i_class = 1; i_class <= n_classes; i_class++) sums(Class[i_class]) }
