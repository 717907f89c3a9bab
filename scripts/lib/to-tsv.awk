# to-tsv.awk - converts JSON Lines of organ-measure to its TSV table. Needs json.awk and
# rows.awk before it, and the names of the columns, separated by spaces, in `columns`.
BEGIN {
    json_tables()
    n_columns = split(columns, column, " ")
    for (i = 1; i <= n_columns; i++) printf "%s%s", column[i], (i < n_columns ? "\t" : "\n")
}
row_json($0) {
    line = json_to_tsv(F["name"])
    for (i = 2; i <= n_columns; i++) line = line "\t" (F[column[i]] == "null" || F[column[i]] == "" ? "-" : F[column[i]])
    print line
}
