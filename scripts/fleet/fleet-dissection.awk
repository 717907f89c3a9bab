# fleet-dissection.awk - writes dissection_report.json from the index of a fleet. Needs
# json.awk and rows.awk before it. Columns of the index: source status bytes dissect-seconds
# measure-seconds error name.
function value(line, key, pattern,   at, rest) {
    at = index(line, "\"" key "\": ")
    if (!at) return ""
    rest = substr(line, at + length(key) + 4)
    return match(rest, pattern) ? substr(rest, 1, RLENGTH) : ""
}
function classes_json(scope, pad,   i, c, out, sep) {
    out = "["
    for (i = 1; i <= n_classes; i++) {
        c = class[i]
        if (!T[scope, c]) continue
        out = out sep "\n" pad "  {\"class\": \"" c "\", \"tensors\": " whole(T[scope, c]) \
            ", \"parameters\": " whole(P[scope, c]) ", \"bytes\": " whole(B[scope, c]) "}"
        sep = ","
    }
    return out (sep ? "\n" pad : "") "]"
}
# The rows of `organ-extract --list --json`.
function read_organs(file, scope,   line, c, n) {
    while ((getline line < file) > 0) {
        c = value(line, "class", "\"[a-z]*\"")
        gsub(/"/, "", c)
        T[scope, c]++; T["", c]++
        n = value(line, "elements", "[0-9]*"); P[scope, c] += n; P["", c] += n; parameters += n
        n = value(line, "bytes", "[0-9]*"); B[scope, c] += n; B["", c] += n
        tensors++
    }
    close(file)
}
# Returns the raw JSON of a key of "model", from the start of the manifest.
function head_of(file, key,   line, v, n) {
    while (n++ < 16 && (getline line < file) > 0 && v == "")
        v = value(line, key, "\"([^\"\\\\]|\\\\.)*\"|[{][^}]*[}]|null")
    close(file)
    return v == "" ? "null" : v
}
BEGIN {
    json_tables()
    n_classes = split(ENVIRON["ORGAN_CLASSES"], class, " ")
    out = ENVIRON["FLEET_OUT"]
    print "{\n  \"format\": \"organ-dissection-report\",\n  \"version\": 1,\n  \"created\": \"" ENVIRON["FLEET_TIME"] "\",\n  \"models\": ["
}
{
    dir = out "/models/" $7
    tensors = parameters = 0
    read_organs(dir "/organs.jsonl", $7)
    if (tensors == 0 && $2 != "failed") next # an organ directory, or only measured
    printf "%s    {\"model\": %s, \"source\": %s, \"status\": \"%s\", \"error\": %s,\n", sep, json_str(model_name($7)), json_str($1), $2, \
        ($2 == "failed" ? json_str($6) : "null")
    sep = ",\n"
    printf "     \"architecture\": %s, \"bytes\": %s, \"seconds\": %s, \"mb_per_s\": %s, \"tensors\": %s, \"parameters\": %s,\n", \
        head_of(dir "/organs/manifest.json", "architecture"), ($3 == "" ? "null" : $3), ($4 == "" ? "null" : number($4)), \
        ($4 > 0 ? sprintf("%.1f", $3 / $4 / 1e6) : "null"), whole(tensors), whole(parameters)
    printf "     \"classes\": %s}", classes_json($7, "     ")
    models++; bytes += $3; seconds += $4; all_tensors += tensors; all_parameters += parameters
    if ($2 == "failed") failures++
}
END {
    print (sep ? "\n" : "") "  ],\n  \"totals\": {\"models\": " whole(models) ", \"failed\": " whole(failures) ", \"bytes\": " whole(bytes) \
        ", \"seconds\": " number(seconds) ", \"tensors\": " whole(all_tensors) ", \"parameters\": " whole(all_parameters) ",\n    \"classes\": " \
        classes_json("", "    ") "}\n}"
}
