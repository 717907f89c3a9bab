# tokens.awk - list the changes of one token that random.sh can make in C sources: file, line,
# column, number of bytes to replace, replacement and kind, separated by tabs. Comments, strings,
# characters and preprocessor lines have none; neither has a line outside of a function.
function blank(s,    i, c, out, q) { # comments and literals become spaces, so that columns stay
    out = ""
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        if (inside) {
            if (substr(s, i, 2) == "*/") { inside = 0; out = out "  "; i++ }
            else out = out " "
        } else if (substr(s, i, 2) == "/*") { inside = 1; out = out "  "; i++ }
        else if (c == "\"" || c == "'") {
            out = out " "
            for (q = c; ++i <= length(s) && (c = substr(s, i, 1)) != q; out = out " ")
                if (c == "\\") { i++; out = out " " }
            out = out " "
        } else out = out c
    }
    return out
}
function put(col, len, new, kind) { printf "%s\t%d\t%d\t%d\t%s\t%s\n", FILENAME, FNR, col, len, new, kind }
# Each operator with spaces around it, as clang-format writes binary ones.
function operators(s,    i, k, from) {
    for (k = 1; k <= n_ops; k++)
        for (from = 1; (i = index(substr(s, from), " " old[k] " ")) > 0; from += i)
            put(from + i, length(old[k]), new_op[k], kind_op[k])
}
function numbers(s,    at, c, prev, m) {
    for (at = 1; match(substr(s, at), /[0-9]+/); at += RSTART + RLENGTH - 1) {
        prev = at + RSTART - 2 > 0 ? substr(s, at + RSTART - 2, 1) : " "
        c = substr(s, at + RSTART - 1 + RLENGTH, 1)
        m = substr(s, at + RSTART - 1, RLENGTH)
        if (prev !~ /[A-Za-z0-9_.]/ && c !~ /[A-Za-z0-9_.]/ && length(m) < 9) put(at + RSTART - 1, RLENGTH, m + 1, "constant")
    }
}
BEGIN {
    n_ops = split("== != < <= > >= && || + - * / += -= & | << >>", old, " ")
    split("!= == <= < >= > || && - + / * -= += | & >> <<", new_op, " ")
    for (k = 1; k <= n_ops; k++)
        kind_op[k] = k <= 2 ? "equality" : k <= 6 ? "off by one" : k <= 8 ? "logic" : "arithmetic"
}
FNR == 1 { inside = 0; body = 0 }
{
    s = blank($0)
    if ($0 ~ /^#/) next
    if ($0 == "{") body = 1
    if ($0 == "}") body = 0
    if (!body) next
    operators(s)
    numbers(s)
    if (match(s, /(if|while) \(/) && s ~ /\) [a-z{]|\)$/) {
        if (match(s, /(if|while) \(![a-z(]/)) put(RSTART + RLENGTH - 2, 1, "", "condition")
        else { match(s, /(if|while) \([a-z][a-z_>.-]*\)/); if (RSTART) { m = index(substr(s, RSTART), "("); put(RSTART + m, 0, "!", "condition") } }
    }
    if (match(s, /[^a-z_](true|false)[^a-z_]/)) {
        m = substr(s, RSTART + 1, RLENGTH - 2)
        put(RSTART + 1, length(m), m == "true" ? "false" : "true", "constant")
    }
}
