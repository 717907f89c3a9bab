# search-knobs.awk - reads the knobs of a recipe for organ-search. A knob is a comment line
#
#     # knob NAME: LOW..HIGH         a number
#     # knob NAME: LOW..HIGH/STEP    LOW, LOW + STEP, ...
#     # knob NAME: A|B|C             one of these words
#
# and NAME is defined in one line of the recipe, with the value to start from.
#
# Without `values`, prints one line per knob: name, n (a number) or c (a choice), start, and then
# low, high and step, or the choices. With `values` (NAME TAB VALUE lines in that file), prints
# the recipe with these values. With skeleton=1, prints it without knobs and values, to tell
# whether two recipes differ in more than that. An error is printed as "!message", with exit 1.
function fail(text) { print "!" text; failed = 1; exit 1 }
function number(s) { return s ~ /^-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$/ }
function trim(s) { sub(/^[ \t]+/, "", s); sub(/[ \t\r]+$/, "", s); return s }

# Is this line a definition? Sets name, value, and the text before and after the value.
function definition(line,    rest) {
    if (!match(line, /^ *[A-Za-z_][-A-Za-z0-9_.]*[ \t]*(:=|::=|\?=|=)[ \t]*/)) return 0
    before = substr(line, 1, RLENGTH)
    rest = substr(line, RLENGTH + 1)
    name = before
    sub(/[ \t]*(:=|::=|\?=|=)[ \t]*$/, "", name)
    name = trim(name)
    value = rest
    after = ""
    if (match(rest, /[ \t]*(#.*)?\r?$/)) { value = substr(rest, 1, RSTART - 1); after = substr(rest, RSTART) }
    return 1
}

# The text of a knob line becomes kind, low, high, step or choices of knob k.
function parse(k, text,    dots, slash, i, n, seen, word) {
    spec[k] = text
    if (index(text, "|") > 0) {
        kind[k] = "c"
        n = split(text, word, "|")
        for (i = 1; i <= n; i++) {
            word[i] = trim(word[i])
            if (word[i] == "" || word[i] in seen) fail("knob " knob[k] ": give different words, separated by |")
            seen[word[i]] = 1
            choices[k] = choices[k] "\t" word[i]
        }
        return
    }
    kind[k] = "n"
    dots = index(text, "..")
    low[k] = trim(substr(text, 1, dots - 1))
    high[k] = trim(substr(text, dots + 2))
    step[k] = 0
    slash = index(high[k], "/")
    if (slash) { step[k] = trim(substr(high[k], slash + 1)); high[k] = trim(substr(high[k], 1, slash - 1)) }
    if (!dots || !number(low[k]) || !number(high[k]) || !number(step[k]))
        fail("knob " knob[k] ": expected LOW..HIGH, LOW..HIGH/STEP or A|B|C, not '" text "'")
    if (low[k] + 0 >= high[k] + 0 || step[k] < 0 || (slash && step[k] + 0 == 0))
        fail("knob " knob[k] ": the range " text " is empty")
}

function is_knob(line) { return line ~ /^ *# *knob[ \t]/ }

values != "" && FILENAME == values { at = index($0, "\t"); set[substr($0, 1, at - 1)] = substr($0, at + 1); next }
{ lines[++n_lines] = $0 }
is_knob($0) {
    text = $0
    sub(/^ *# *knob[ \t]+/, "", text)
    colon = index(text, ":")
    name = trim(substr(text, 1, colon - 1))
    if (!colon || name !~ /^[A-Za-z_][-A-Za-z0-9_.]*$/) fail("line " FNR ": expected '# knob NAME: LOW..HIGH'")
    if (name in knob_of) fail("knob " name " is given twice")
    knob[++n] = name
    knob_of[name] = n
    parse(n, trim(substr(text, colon + 1)))
}

function check(k,    word, i, m, good) {
    if (count[k] != 1)
        fail("knob " knob[k] ": " (count[k] ? "more than one line defines it" : "no line of the recipe defines it, such as " knob[k] " := VALUE"))
    if (kind[k] == "n") {
        if (!number(start[k])) fail("knob " knob[k] ": it starts from '" start[k] "', which is not a number")
        good = start[k] + 0 >= low[k] + 0 && start[k] + 0 <= high[k] + 0
    } else {
        m = split(choices[k], word, "\t")
        for (i = 2; i <= m; i++) if (word[i] == start[k]) good = 1
    }
    if (!good) fail("knob " knob[k] ": it starts from '" start[k] "', which is not within " spec[k])
}

END {
    if (failed) exit 1
    for (i = 1; i <= n_lines; i++) {
        if (!definition(lines[i]) || !(name in knob_of)) continue
        k = knob_of[name]
        count[k]++
        start[k] = value
        lines[i] = before (skeleton ? "" : (name in set) ? set[name] : value) after
    }
    if (!n) fail("it has no knobs: add lines such as '# knob weight: 0.1..0.9' before the variables to search")
    for (k = 1; k <= n; k++) check(k)
    if (values != "" || skeleton) {
        for (i = 1; i <= n_lines; i++) if (!(skeleton && is_knob(lines[i]))) print lines[i]
        exit 0
    }
    for (k = 1; k <= n; k++)
        print knob[k] "\t" kind[k] "\t" start[k] (kind[k] == "n" ? "\t" low[k] "\t" high[k] "\t" step[k] : choices[k])
}
