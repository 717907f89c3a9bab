# nearest.awk - finds the first misspelt variable of a recipe and suggests the nearest name.
#   known   names, separated by blanks
#   given   names, each with a letter in front: d if an unknown name is always an error, f if
#           it is an error only when it differs by one letter from a known name
# With known_from=stdin, the known names are read from there, and only the nearest one is printed,
# if it differs by at most `most` letters.
function distance(a, b,   i, k, n, m, d) {
    n = length(a); m = length(b)
    for (i = 0; i <= n; i++) d[i, 0] = i
    for (k = 0; k <= m; k++) d[0, k] = k
    for (i = 1; i <= n; i++) for (k = 1; k <= m; k++) {
        d[i, k] = d[i - 1, k - 1] + (substr(a, i, 1) != substr(b, k, 1))
        if (d[i - 1, k] + 1 < d[i, k]) d[i, k] = d[i - 1, k] + 1
        if (d[i, k - 1] + 1 < d[i, k]) d[i, k] = d[i, k - 1] + 1
        if (i > 1 && k > 1 && substr(a, i, 1) == substr(b, k - 1, 1) && substr(a, i - 1, 1) == substr(b, k, 1) && d[i - 2, k - 2] + 1 < d[i, k])
            d[i, k] = d[i - 2, k - 2] + 1
    }
    return d[n, m]
}
BEGIN {
    if (known_from == "stdin") { getline known; bare = 1 } else most = 1
    n_known = split(known, name, " ")
    for (i = 1; i <= n_known; i++) is[name[i]] = 1
    n = split(given, word, " ")
    for (w = 1; w <= n; w++) {
        v = substr(word[w], 2)
        if (v in is) continue
        best = 0
        least = substr(word[w], 1, 1) == "f" ? most + 1 : 1e9
        for (i = 1; i <= n_known; i++) {
            apart = length(v) - length(name[i]) # the distance is at least that
            if (apart >= least || -apart >= least) continue
            d = distance(v, name[i])
            if (d < least) { best = i; least = d }
        }
        if (!best) continue
        if (bare) { print name[best]; exit }
        printf "unknown variable %s; did you mean %s?", v, name[best]
        exit
    }
}
