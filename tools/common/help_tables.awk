# help_tables.awk - makes C of help.txt: two texts for each tool, as CLI_TOOL in cli.h uses them. The options between
# them are for option_table.awk.
function quoted(s,   i, c, r) {
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        r = r (c == "\\" || c == "\"" ? "\\" : "") c
    }
    return "    \"" r "\\n\"\n"
}
function finish() {
    if (tool) print "extern const char *const help_" tool "[2];\nconst char *const help_" tool "[2] = {\n" \
        text["intro"] "    ,\n" text["examples"] "};"
    text["intro"] = text["examples"] = ""
}
/^#/ || /^\$/ { next }
NF == 0 { # kept between two lines of a text
    blank = 1
    next
}
/^\[organ-.*\]$/ {
    finish()
    tool = substr($0, 8, length($0) - 8)
    part = "intro"
    blank = 0
    next
}
/^\[/ { finish(); tool = "" }
$0 == "columns:" || $0 == "options:" || $0 == "examples:" {
    part = $1
    sub(/:/, "", part)
    blank = 0
    next
}
tool != "" {
    if (blank) text[part] = text[part] quoted("")
    blank = 0
    text[part] = text[part] quoted($0)
}
END { finish() }
