# rank.awk - how well do columns foretell another? Input: TSV with a header. Prints per column of
# -v columns=A,B,... Spearman's rank correlation with the column -v target=NAME, and with
# -v broken=NAME (cells yes and no) the AUC: the probability that a broken row and a whole one,
# drawn at random, are told apart by the column. The better of the two directions is taken, so 0.5
# is chance. Cells that are "-" are left out.
BEGIN { FS = OFS = "\t" }
NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{ n++; for (i = 1; i <= NF; i++) v[n, i] = $i }

# Ranks of column c over the rows in list[1..m], equal values get their mean rank.
function ranks(c, list, m, out,    i, j, less, same) {
    for (i = 1; i <= m; i++) {
        less = same = 0
        for (j = 1; j <= m; j++) {
            if (v[list[j], c] + 0 < v[list[i], c] + 0) less++
            else if (v[list[j], c] + 0 == v[list[i], c] + 0) same++
        }
        out[i] = less + (same + 1) / 2
    }
}
function correlation(x, y, m,    i, mx, my, xy, xx, yy) {
    for (i = 1; i <= m; i++) { mx += x[i] / m; my += y[i] / m }
    for (i = 1; i <= m; i++) {
        xy += (x[i] - mx) * (y[i] - my)
        xx += (x[i] - mx) ^ 2
        yy += (y[i] - my) ^ 2
    }
    return xx > 0 && yy > 0 ? xy / sqrt(xx * yy) : 0
}
function auc(c, list, m,    i, j, wins, pairs) {
    for (i = 1; i <= m; i++) {
        if (v[list[i], at[broken]] != "yes") continue
        for (j = 1; j <= m; j++) {
            if (v[list[j], at[broken]] == "yes") continue
            pairs++
            if (v[list[i], c] + 0 > v[list[j], c] + 0) wins++
            else if (v[list[i], c] + 0 == v[list[j], c] + 0) wins += 0.5
        }
    }
    wins = pairs ? wins / pairs : 0.5
    return wins < 0.5 ? 1 - wins : wins
}
END {
    m = split(columns, name, ",")
    for (k = 1; k <= m; k++) {
        c = at[name[k]]
        count = 0
        for (i = 1; i <= n; i++) if (v[i, c] != "-") list[++count] = i
        ranks(c, list, count, x)
        ranks(at[target], list, count, y)
        printf "%s\t%d\t%.2f", name[k], count, correlation(x, y, count)
        if (broken != "") printf "\t%.2f", auc(c, list, count)
        print ""
    }
}
