# tables.awk - makes the C tables of hf.h from hf_tables.txt, those of hf_files.h from files.txt, those of hf_fields.h
# from a table of fields for each kind of JSON file, those of hf_quantized.h from quantization.txt, and that of
# tokenizer_parts.h from pretokenizers.txt.
function text(s) { return s == "" ? "NULL" : "\"" s "\"" }
# The part of `rest` behind the mark, which is cut off with it; "" if there is none.
function cut(mark,   i, s) {
    i = index(rest, mark)
    s = i ? substr(rest, i + length(mark)) : ""
    if (i) rest = substr(rest, 1, i - 1)
    return s
}
# The words of a text, with lists in place of their names.
function expanded(s,   n, word, i) {
    n = split(s, word, " ")
    s = ""
    for (i = 1; i <= n; i++) s = s (i > 1 ? " " : "") (word[i] ~ /^\$/ ? list[substr(word[i], 2)] : word[i])
    return s
}
# A record is complete when the next begins.
function finish(   part, archs, value, row) {
    if (kind == "list") {
        value = rest
        sub(/^[^ ]+ /, "", value)
        sub(/ .*/, "", rest)
        list[rest] = expanded(value)
    } else if (kind == "words") {
        value = rest
        sub(/ .*/, "", value)
        sub(/^[^ ]+ /, "", rest)
        words = words "const char gg_hf_" value "[] = \"" rest "\";\n"
    } else if (kind ~ /^(method|end|part|foreign|foreign_adapter)$/) {
        value = expanded(cut(" -- "))
        row = text(expanded(cut(" = ")))
        if (kind == "method") list["METHODS"] = (list["METHODS"] == "" ? "" : list["METHODS"] " ") rest
        row = text(rest) ", " row (value == "" ? "" : ", " text(value))
    } else if (kind == "beside") {
        split(rest, part, " ")
        row = text(part[1]) ", (uint64_t)" part[2] " << 20"
    } else if (kind == "class") {
        split(rest, part, " ")
        row = text(part[1]) ", " text(part[2]) ", " text(part[3]) ", " text(part[4])
    } else if (kind == "trait") {
        archs = text(expanded(cut(" : ")))
        traits++
        rows["trait"] = rows["trait"] "    [GG_HF_" toupper(rest) "] = " archs ",\n"
    } else if (kind ~ /^(used|harmless|noted|refused)$/) {
        value = text(cut(" -- "))
        archs = text(expanded(cut(" : ")))
        row = cut(" if ")
        row = archs ", " text(expanded(cut(" = "))) ", " text(row) ", " value
        rows[table] = rows[table] "    { GG_FIELD_" toupper(kind) ", " text(rest) ", " row " },\n"
        row = ""
    } else if (kind != "") {
        archs = text(expanded(cut(" : ")))
        value = cut(" = ")
        split(rest, part, " ")
        if (kind == "tensor") row = archs ", " text(part[1]) ", " text(part[3]) ", " text(value)
        else if (kind ~ /^(key|yarn)$/) {
            rest = value
            cut(" else ")
            sub(/ else /, " ", value)
            row = archs ", " text(part[1]) ", GG_TYPE_" toupper(part[2]) ", " text(value) ", " text(rest)
        }
        else {
            rest = value
            value = cut(" / ")
            row = archs ", " text(part[1]) ", " text(rest) ", " text(value)
        }
    }
    if (row != "") rows[kind] = rows[kind] "    { " row " },\n"
    kind = ""
}
function print_table(type, name, kind, end) {
    print "\nconst " type " " name "[] = {\n" rows[kind] "    { " end " },\n};"
}
# A text as the inside of a C string.
function quoted(s,   i, c, out) {
    for (i = 1; i <= length(s); i++) {
        c = substr(s, i, 1)
        out = out (c == "\\" || c == "\"" || c == "?" ? "\\" : "") c
    }
    return out
}
# A row of gg_pre_rows is complete when the next begins.
function finish_pre() {
    if (pre_name != "") pre_rows = pre_rows "    { \"" pre_name "\", " pre_archs ", " text(classes[pre_name]) ", " pre_merges ", " pre_differs ",\n" pre_steps " },\n"
    pre_name = ""
}
FILENAME ~ /pretokenizers/ {
    if (/^#/ || NF == 0) next
    if (/^differs /) { differs[$2] = substr($0, length($2) + 10); next }
    if (/^classes /) { classes[$2] = substr($0, length($2) + 10); next }
    if (/^  /) { pre_steps = pre_steps "      \"" quoted(substr($0, 3)) "\\n\"\n"; next }
    finish_pre()
    pre_name = $2
    pre_differs = differs[pre_name] == "" ? "NULL" : "\"" quoted(differs[pre_name]) "\""
    pre_merges = $3 ~ /^merges=/ ? "\"" substr($3, 8) "\"" : "NULL"
    pre_archs = index($0, " : ") ? "\"" substr($0, index($0, " : ") + 3) "\"" : "NULL"
    pre_steps = ""
    next
}
/^#/ || NF == 0 { next }
{ sub(/^ +/, " ") }
/^ / {
    rest = rest $0
    next
}
{
    finish()
    kind = $1
    table = FILENAME
    sub(/.*\//, "", table)
    sub(/\.txt$/, "", table)
    rest = substr($0, length($1) + 2)
}
END {
    finish()
    finish_pre()
    print "/* Made by tables.awk. */\n#include \"hf/hf.h\"\n#include \"hf/hf_fields.h\"\n#include \"hf/hf_files.h\"\n#include \"hf/hf_quantized.h\"\n#include \"hf/tokenizer_parts.h\""
    print_table("gg_hf_class", "gg_hf_classes", "class", "NULL, NULL, NULL, NULL")
    print_table("gg_hf_key", "gg_hf_keys", "key", "NULL, NULL, 0, NULL, NULL")
    print_table("gg_hf_key", "gg_hf_yarn_keys", "yarn", "NULL, NULL, 0, NULL, NULL")
    print_table("gg_hf_field_row", "gg_hf_fields", "field", "NULL, NULL, NULL, NULL")
    print_table("gg_hf_field_row", "gg_hf_flags", "flag", "NULL, NULL, NULL, NULL")
    for (i = split("config adapter quantization index", table_name, " "); i > 0; i--)
        print_table("gg_field_rule", "gg_" table_name[i] "_fields", table_name[i],
            "GG_FIELD_USED, NULL, NULL, NULL, NULL, NULL")
    print "\nconst char *const gg_hf_traits[GG_HF_TRAITS] = {\n" rows["trait"] "};"
    print "_Static_assert(GG_HF_TRAITS == " traits ", \"each trait of hf.h has a row in hf_tables.txt\");"
    print_table("gg_hf_name", "gg_hf_names", "tensor", "NULL, NULL, NULL, NULL")
    print_table("gg_hf_part", "gg_hf_parts", "part", "NULL, NULL")
    print_table("gg_hf_beside_file", "gg_hf_beside_files", "beside", "NULL, 0")
    print_table("gg_hf_foreign", "gg_hf_foreign_weights", "foreign", "NULL, NULL, NULL")
    print_table("gg_hf_foreign", "gg_hf_foreign_adapters", "foreign_adapter", "NULL, NULL, NULL")
    print_table("gg_hf_method", "gg_hf_methods", "method", "NULL, NULL, NULL")
    print_table("gg_hf_method_end", "gg_hf_method_ends", "end", "NULL, NULL")
    print "\n" words
    print "\nconst gg_pre_row gg_pre_rows[] = {\n" pre_rows "    { NULL, NULL, NULL, NULL, NULL, NULL },\n};"
}
