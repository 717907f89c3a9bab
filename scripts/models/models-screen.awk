# models-screen.awk - the table of organ-models for a terminal of `wide` columns: short words, rounded numbers, and of a
# copy only the name of the other. A name that is too long, which one may want to copy, has a line of its own.
function size(n,  i) {
    for (i = 0; n >= 1023.5 && i < 4; i++) n /= 1024
    return sprintf(i == 0 ? "%d %s" : n >= 99.95 ? "%.0f %s" : n >= 9.995 ? "%.1f %s" : "%.2f %s", n, substr("B  KiBMiBGiBTiB", 3 * i + 1, 3))
}
function count(n,  i) {
    if (n !~ /^[0-9]+$/) return n
    for (i = 0; n >= 999.5 && i < 4; i++) n /= 1000
    return sprintf(i == 0 ? "%d%s" : n >= 99.95 ? "%.0f%s" : n >= 9.995 ? "%.1f%s" : "%.2f%s", n, substr(" KMBT", i + 1, 1))
}
function word(kind) { return kind == "language model" ? "model" : kind == "importance matrix" ? "imatrix" : kind == "not readable" ? "broken" : kind }
NR == 1 { next }
{ name[++n] = $1; kind[n] = word($2); type[n] = $3; parameters[n] = count($4); bytes[n] = $5 ~ /^[0-9]+$/ ? size($5) : "-"; context[n] = $6; check[n] = $7; copy[n] = $8 }
END {
    if (wide < 1) wide = 80
    columns = 56 # of the others
    for (i = 1; i <= n; i++) if (length(name[i]) > w && length(name[i]) <= wide - columns) w = length(name[i])
    if (w < 4) w = 4
    all = "%-" w "s  %-8s %-8s %6s  %8s  %7s  %s\n" # busybox has no * in formats
    printf all, "name", "kind", "type", "params", "size", "context", "check"
    for (i = 1; i <= n; i++) {
        if (length(name[i]) > w) { print name[i]; name[i] = "" }
        if (copy[i] != "-") printf "%-" w "s  copy of %s\n", name[i], copy[i]
        else printf all, name[i], kind[i], type[i], parameters[i], bytes[i], context[i], check[i]
    }
}
