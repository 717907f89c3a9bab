# tables.awk - reads the tables of tests/engine/results, and puts them into pages or compares them.
# See tables.sh, which calls it with job=fill, claims or compare.

function fail(text) {
    print text > "/dev/stderr"
    failed = 1
}

# Reads DIR/NAME.tsv into head, cell[row, column], rows and columns. False if there is none.
function load(dir, name,    file, line, f, n, i) {
    file = dir "/" name ".tsv"
    rows = columns = 0
    split("", cell)
    split("", head)
    split("", tolerance)
    while ((getline line < file) > 0) {
        if (line ~ /^# tolerance\t/) {
            n = split(line, f, "\t")
            tolerance[f[2]] = f[3]
        }
        if (line ~ /^#/) continue
        n = split(line, f, "\t")
        if (!columns) {
            columns = n
            for (i = 1; i <= n; i++) head[i] = f[i]
            continue
        }
        rows++
        for (i = 1; i <= columns; i++) cell[rows, i] = f[i]
    }
    close(file)
    return columns > 0
}

function print_table(    r, c, line, rule) {
    line = rule = "|"
    for (c = 1; c <= columns; c++) {
        line = line " " head[c] " |"
        rule = rule "---|"
    }
    print line
    print rule
    for (r = 1; r <= rows; r++) {
        line = "|"
        for (c = 1; c <= columns; c++) line = line " " cell[r, c] " |"
        print line
    }
}

# Prints DIR/NAME.txt, or the table NAME.
function print_block(name,    line, any) {
    while ((getline line < (dir "/" name ".txt")) > 0) {
        print line
        any = 1
    }
    close(dir "/" name ".txt")
    if (any) return
    if (load(dir, name)) print_table()
    else fail(FILENAME ": there is neither " name ".tsv nor " name ".txt in " dir)
}

# ---- fill: a page with every block between its markers written anew --------------------------

job == "fill" && skipping && /^<!-- end -->$/ { skipping = 0 }
job == "fill" && /^<!-- table [a-z0-9-]+ -->$/ {
    if (skipping) fail(FILENAME ":" FNR ": a table begins before <!-- end --> of the last one")
    print
    print ""
    print_block($3)
    print ""
    skipping = 1
    next
}
job == "fill" && !skipping { print }

# ---- claims: figures in sentences --------------------------------------------------------------

# The row whose first cell is `key`, or whose first two are "ONE, TWO"; 0 if there is none.
function row_of(key,    r) {
    for (r = 1; r <= rows; r++) if (cell[r, 1] == key || cell[r, 1] ", " cell[r, 2] == key) return r
    return 0
}

function column_of(name,    c) {
    for (c = 1; c <= columns; c++) if (head[c] == name) return c
    return 0
}

# The text of a page in one line.
function page_text(page,    line, text) {
    if (page in pages) return pages[page]
    text = " "
    while ((getline line < page) > 0) text = text line " "
    close(page)
    gsub(/[ \t]+/, " ", text)
    pages[page] = text
    return text
}

# Digits after the point.
function digits(x) { return index(x, ".") ? length(x) - index(x, ".") : 0 }

# Is `shown` the value, rounded to its digits? Half a unit may be rounded either way.
function rounds_to(value, shown,    d, unit, i) {
    d = value - shown
    unit = 1
    for (i = digits(shown); i > 0; i--) unit /= 10
    return (d < 0 ? -d : d) <= unit / 2 + 1e-9 * (value < 0 ? -value : value) + 1e-12
}

# The number that stands in the page where the claim has {}; "" if the sentence is not there.
function figure_in(page, claim,    text, before, after, at, rest) {
    text = page_text(page)
    before = substr(claim, 1, index(claim, "{}") - 1)
    after = substr(claim, index(claim, "{}") + 2)
    while ((at = index(text, before)) > 0) {
        rest = substr(text, at + length(before))
        if (match(rest, /^-?[0-9]+(\.[0-9]+)?/) && index(substr(rest, RLENGTH + 1), after) == 1)
            return substr(rest, 1, RLENGTH)
        text = substr(text, at + 1)
    }
    return ""
}

job == "claims" && !/^#/ && NF {
    n = split($0, f, "\t")
    where = FILENAME ":" FNR ": "
    if (n != 5 || !index(f[2], "{}") || f[2] == "{}") { fail(where "expected PAGE, TEXT with {}, TABLE, ROW and COLUMN"); next }
    if (!load(dir, f[3])) { fail(where "no table " f[3]); next }
    r = row_of(f[4])
    c = column_of(f[5])
    if (!r || !c) { fail(where "table " f[3] " has no row '" f[4] "' with a column '" f[5] "'"); next }
    shown = figure_in(f[1], f[2])
    value = cell[r, c]
    if (shown == "") fail(where f[1] " has no sentence with: " f[2])
    # A figure is the value of the table, rounded to the digits that it has.
    else if (!rounds_to(value + 0, shown))
        fail(f[1] ": '" f[2] "' has " shown ", but the table " f[3] " has " value)
}

# ---- compare: the tables `old` and `name` in two folders -----------------------------------------

# Takes the first number off `rest`: number and what is before it are in `number` and `before`.
function next_number(    has) {
    has = match(rest, /-?[0-9]+(\.[0-9]+)?/)
    number = has ? substr(rest, RSTART, RLENGTH) : ""
    before = has ? substr(rest, 1, RSTART - 1) : rest
    rest = has ? substr(rest, RSTART + RLENGTH) : ""
    return has
}

function near(x, y, limit,    d, most, unit, i) {
    d = x - y < 0 ? y - x : x - y
    if (limit == "exact") return x == y
    unit = 1
    for (i = digits(x); i > 0; i--) unit /= 10
    most = limit ~ /%$/ ? (x < 0 ? -x : x) * limit / 100 : limit + 0
    if (most < unit) most = unit
    return d <= most * (1 + 1e-9)
}

# Texts must be equal, and numbers near.
function same_cell(x, y, limit,    a, b, na, nb, has) {
    if (x == y) return 1
    for (;;) {
        rest = x; has = next_number(); na = number; a = before; x = rest
        rest = y; if (next_number() != has) return 0
        nb = number; b = before; y = rest
        if (a != b) return 0
        if (!has) return 1
        if (!near(na, nb, limit)) return 0
    }
}

function compare(    r, c, i, n, limit, new, new_head, new_limit, new_rows, new_columns) {
    if (!load(dir, name)) return 0
    for (i in cell) new[i] = cell[i]
    for (i in head) new_head[i] = head[i]
    for (i in tolerance) new_limit[i] = tolerance[i]
    new_rows = rows
    new_columns = columns
    if (!load(old, name)) { print name ": a new table"; return 1 }
    if (rows != new_rows || columns != new_columns) { print name ": another number of rows or columns"; return 1 }
    for (c = 1; c <= columns; c++) {
        if (head[c] != new_head[c]) { print name ": another column: " new_head[c]; n++ }
        limit = (head[c] in new_limit) ? new_limit[head[c]] : ("*" in new_limit) ? new_limit["*"] : "0.5%"
        for (r = 1; r <= rows; r++)
            if (!same_cell(cell[r, c], new[r, c], limit)) {
                printf "%s: %s, %s: %s, but it was %s (tolerance %s)\n", name, new[r, 1], head[c], new[r, c], cell[r, c], limit
                n++
            }
    }
    return n > 0
}

BEGIN { if (job == "compare") exit compare() }
END {
    if (job == "fill" && skipping) fail(FILENAME ": the last table has no <!-- end -->")
    if (failed) exit 1
}
