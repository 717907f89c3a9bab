# tables.awk - makes the C tables of check_context.h from the texts in this folder.
function add(name, value,   n) {
    n = ++rows[name]
    row[name, n] = value
}
function words(from,   i, s) {
    for (i = from; i <= NF; i++) s = s (i > from ? " " : "") $i
    return s
}
function text(s) { return "\"" s "\"" }
function flag(name) { return (" " flags " ") ~ (" " name " ") ? "true" : "false" }
# "KEY FLAG... = FORMULA"
function name_row(   n, part, key) {
    n = split(field["name"], part, " = ")
    key = flags = part[1]
    sub(/ .*/, "", key)
    sub(/^[^ ]+ ?/, "", flags)
    return text(head) ", " (key == "-" ? "NULL" : text(key)) ", " (n > 1 ? text(part[2]) : "NULL") ", " \
        flag("per-block") ", " flag("positive") ", " flag("strict")
}
# A record is complete when the next begins.
function finish() {
    if (kind == "arch") add(kind, text(field["arch"]) ", " text(field["keys"]) ",\n      " text(field["globals"]) ",\n      " text(field["block"]))
    if (kind == "type") add(kind, text(field["type"]) ", " text(field["keys"]) ",\n      " text(field["archs"]))
    if (kind == "shape") add(kind, text(field["shape"]) ", " text(head))
    if (kind == "name") add(kind, name_row())
    if (kind == "window") add(kind, text(field["window"]) ", " head ", " tokens ", " flag("first") ", " flag("keyed") ", " flag("order"))
    if (kind == "rule") add(kind, text(head) ", GG_CHECK_" toupper(second) ", " text(field["rule"]))
    if (kind == "kind") add(kind, text(head) ", " text(second) ", GG_KIND_" toupper(field["kind"]))
    if (kind == "limit") add(kind, text(head) ", GG_CHECK_" toupper(second) ", " limit ",\n      " \
        text(field["archs"]) ", " text(field["if"]) ",\n      " text(field["text"]))
    if (kind == "list") lists = lists "\nconst char gg_check_" head "[] = " text(field["list"]) ";"
    kind = ""
}
function print_table(declaration, name, end,   i) {
    print "\nconst " declaration "[] = {"
    for (i = 1; i <= rows[name]; i++) print "    { " row[name, i] " },"
    print "    { " end " },\n};"
}
/^#/ || NF == 0 { next }
/^ / {
    field[last] = field[last] " " words(1)
    next
}
{
    last = $1 == "else" ? "limit" : $1
    if (last ~ /^(arch|type|shape|list|name|window|rule|kind|limit)$/) {
        finish()
        kind = last
        head = $2
        second = $3
    }
    if (last == "limit") {
        limit = text($4) ", " text($5) ", " ($1 == "else" ? "true" : "false")
        field["archs"] = field["if"] = ""
    }
    if (last == "window") {
        tokens = $3
        flags = $4
        gsub(/,/, " ", flags)
    }
    field[last] = words(last ~ /^(shape|list|name)$/ ? 3 : last ~ /^(rule|kind)$/ ? 4 : last == "window" ? 5 : 2)
}
END {
    finish()
    print "/* Made by tables.awk. */\n#include \"check/check_context.h\""
    print_table("check_arch gg_check_tables", "arch", "NULL, NULL, NULL, NULL")
    print_table("check_key_types gg_check_key_types", "type", "NULL, NULL, NULL")
    print_table("check_usual_shape gg_check_shapes", "shape", "NULL, NULL")
    print_table("check_name gg_check_names", "name", "NULL, NULL, NULL, false, false, false")
    print_table("gg_window_rule gg_check_windows", "window", "NULL, 0, 0, false, false, false")
    print_table("check_kind_word gg_check_kind_words", "kind", "NULL, NULL, GG_KIND_MODEL")
    print_table("check_limit gg_check_limit_rows", "limit", "NULL, GG_CHECK_NOTE, NULL, NULL, false, NULL, NULL, NULL")
    print_table("gg_check_rule gg_check_rule_list", "rule", "NULL, GG_CHECK_NOTE, NULL")
    print lists
}
