# tables.awk - makes the C tables of arch.h from architectures.txt. A mistake in the form of the text ends it with
# the number of the line; t_arch finds those in the names that it has.
function fail(text) {
    print FILENAME ":" FNR ": " text > "/dev/stderr"
    exit failed = 1
}
function words(from,   i, s) {
    for (i = from; i <= NF; i++) s = s (i > from ? " " : "") $i
    return s
}
function text(s) { return "\"" s "\"" }
function flag(name) { return (" " flags " ") ~ (" " name " ") ? "true" : "false" }
function add(table, row) { row_of[table, ++rows[table]] = row }
# The number of a word in the list of all words, from 2 on; new words are appended.
function word_code(word) {
    if (!(word in code_of)) {
        code_of[word] = ++codes + 1
        word_list[codes] = word
    }
    return code_of[word]
}
# The number of the text of a field: its line, and its words. A line break of the file is one of the text, so that the
# line of each word is known. Text 0 is a field that is not stated.
function field_text(arch, f,   lines, word, n, m, i, k, row) {
    while (!((arch, f) in value) && arch in like) arch = like[arch]
    if (!((arch, f) in value)) return 0
    if ((arch, f) in text_number) return text_number[arch, f]
    row = line[arch, f]
    n = value[arch, f] == "-" ? 0 : split(value[arch, f], lines, "\\\\n")
    for (i = 1; i <= n; i++) {
        if (i > 1) room++
        row = row (i > 1 ? ", 1" : "")
        m = split(lines[i], word, " ")
        for (k = 1; k <= m; k++) {
            row = row ", " word_code(word[k])
            room += length(word[k]) + 1
        }
    }
    text_row[++texts] = row ", 0"
    room++
    return text_number[arch, f] = texts
}
function begin_record() {
    arch = $2
    if (NF != 2 && !(NF == 4 && $3 == "like")) fail("expected 'arch NAME' or 'arch NAME like OTHER'")
    if (arch in number) fail("there is a record of " arch " already")
    if (NF == 4 && !($4 in number)) fail("there is no record of " $4 " before this line")
    number[arch] = FNR
    order[++archs] = arch
    if (NF == 4) like[arch] = $4
}
function begin_field() {
    if (!arch) fail("'" $1 "' is not in a record")
    if ((arch, $1) in value) fail("the record of " arch " has '" $1 "' already")
    if (NF == 1) fail("'" $1 "' has no value; '-' is a field without one")
    value[arch, $1] = words(2)
    line[arch, $1] = FNR
    at = FNR
}
# "NAME KEY FLAG... = FORMULA"
function name_row(   part, n) {
    n = split(words(3), part, " = ")
    flags = part[1]
    sub(/^[^ ]+ ?/, "", flags)
    sub(/ .*/, "", part[1])
    add("name", text($2) ", " (part[1] == "-" ? "NULL" : text(part[1])) ", " (n > 1 ? text(part[2]) : "NULL") ", " \
        flag("per-block") ", " flag("positive") ", " flag("strict") ", " FNR)
}
function print_table(declaration, table, end,   i) {
    print "\nconst " declaration "[] = {"
    for (i = 1; i <= rows[table]; i++) print "    { " row_of[table, i] " },"
    print "    { " end " },\n};"
}
BEGIN {
    fields = "kind keys globals block experts weights mixture window recurrent state cache reads arrays traits"
    n_fields = split(fields, field, " ")
    for (i = 1; i <= n_fields; i++) is_field[field[i]] = 1
}
/^#/ || NF == 0 { next }
/^ / {
    for (breaks = ""; at < FNR; at++) breaks = breaks "\\n"
    if (kind == "table") table_text[tables] = table_text[tables] breaks words(1)
    else if (kind == "field") value[arch, last] = value[arch, last] breaks words(1)
    else fail("there is nothing that this line continues")
    next
}
$1 == "arch" { kind = "arch"; begin_record(); next }
$1 in is_field { kind = "field"; last = $1; begin_field(); next }
$1 == "trait" {
    kind = arch = ""
    sub(/:$/, "", $2)
    add("trait", text($2) ", " text(words(3)) ", " FNR)
    next
}
$1 == "shape" || $1 == "type" || $1 == "agree" {
    kind = "table"
    arch = ""
    table_kind[++tables] = $1
    table_line[tables] = at = FNR
    head[tables] = $2
    if ($1 == "type") {
        if ($3 != "of_all" && $3 != "if_read") fail("expected 'of_all' or 'if_read' after the type")
        common[tables] = $3 == "of_all" ? "true" : "false"
    }
    table_text[tables] = words($1 == "type" ? 4 : 3)
    next
}
$1 == "name" { kind = arch = ""; name_row(); next }
{ fail("'" $1 "' is neither a field of a record nor a table") }
END {
    if (failed) exit 1
    print "/* Made by tables.awk. */\n#include \"arch/records.h\"\n\nconst gg_arch_row gg_arch_rows[] = {"
    for (i = 1; i <= archs; i++) {
        row = ""
        for (k = 1; k <= n_fields; k++) row = row (k > 1 ? ", " : "") field_text(order[i], field[k])
        print "    { " word_code(order[i]) ", " number[order[i]] ", { " row " } },"
    }
    print "    { 0, 0, { 0 } },\n};\n\nconst uint16_t gg_arch_texts[] = {"
    for (i = 1; i <= texts; i++) print "    " text_row[i] ","
    print "    0,\n};\n\nconst char gg_arch_words_of_all[] = {"
    for (i = 1; i <= codes; i++) {
        row = ""
        for (k = 1; k <= length(word_list[i]); k++) {
            letter = substr(word_list[i], k, 1)
            row = row (letter == "'" || letter == "\\" ? "'\\" : "'") letter "', "
        }
        print "    " row "0,"
    }
    print "};\n"
    print "gg_arch gg_arch_room[" archs + 1 "];"
    print "gg_arch_words gg_arch_text_room[" texts + 1 "];"
    print "const char *gg_arch_word_room[" codes + 2 "];"
    print "char gg_arch_letter_room[" room + 1 "];"
    print "const size_t gg_arch_counts[] = { " archs ", " texts ", " codes " };"
    for (i = 1; i <= tables; i++)
        add(table_kind[i], text(head[i]) ", " text(table_text[i]) ", " (table_kind[i] == "type" ? common[i] ", " : "") table_line[i])
    print_table("gg_arch_trait gg_arch_traits", "trait", "NULL, NULL, 0")
    print_table("gg_arch_shape gg_arch_shapes", "shape", "NULL, NULL, 0")
    print_table("gg_arch_agreement gg_arch_agreements", "agree", "NULL, NULL, 0")
    print_table("gg_arch_name gg_arch_names", "name", "NULL, NULL, NULL, false, false, false, 0")
    print_table("gg_arch_key_type gg_arch_key_types", "type", "NULL, NULL, false, 0")
}
