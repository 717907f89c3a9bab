# models-list.awk - the table of organ-models: what organ-info tells of each file in $LIST (name, path, copy), in that
# order. Needs json.awk before it.
BEGIN {
    json_tables()
    while ((getline line < ENVIRON["LIST"]) > 0) { split(line, p, "\t"); name[++n] = p[1]; path[n] = p[2]; copy[n] = p[3] }
    if (!json) print "name\tkind\ttype\tparameters\tbytes\tcontext\tcheck\tcopy_of\tpath"
}
FNR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
{
    k++
    errors = $at["errors"]
    check = $at["kind"] == "not readable" ? "not readable" : errors > 0 ? errors (errors == 1 ? " error" : " errors") : $at["verdict"] ~ /^(no findings|not checked)/ ? substr($at["verdict"], 1, 11) : "findings"
    if (json)
        print "{\"name\": " json_str(name[k]) ", \"kind\": " text($at["kind"]) ", \"type\": " text($at["type"]) ", \"parameters\": " number_of($at["parameters"]) ", \"bytes\": " number_of($at["file_bytes"]) \
            ", \"context\": " number_of($at["context"]) ", \"check\": " json_str(check) ", \"copy_of\": " text(copy[k]) ", \"path\": " json_str(path[k]) "}"
    else print tsv_str(name[k]) "\t" $at["kind"] "\t" $at["type"] "\t" $at["parameters"] "\t" $at["file_bytes"] "\t" $at["context"] "\t" check "\t" tsv_str(copy[k]) "\t" tsv_str(path[k])
}
function text(s) { return s == "-" || s == "" ? "null" : json_str(s) }
function number_of(s) { return s ~ /^[0-9]+$/ ? s : "null" }
