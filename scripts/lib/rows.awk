# rows.awk - reads rows of organ-measure, JSON Lines or TSV, and computes means over groups.

# Reads a row of `organ-measure --json` into F[column]. F["name"] stays JSON. A JSON string
# cannot contain an unescaped quote, so the end of the name is found reliably.
function row_json(line,   at, rest, n, i, part, colon, key) {
    split("", F)
    at = index(line, ", \"class\": ")
    if (substr(line, 1, 9) != "{\"name\": " || !at) return 0
    F["name"] = substr(line, 10, at - 10)
    rest = substr(line, at + 2, length(line) - at - 2)
    n = split(rest, part, ", \"")
    for (i = 1; i <= n; i++) {
        sub(/^"/, "", part[i])
        colon = index(part[i], "\": ")
        key = substr(part[i], 1, colon - 1)
        F[key] = substr(part[i], colon + 3)
        gsub(/"/, "", F[key])
    }
    return 1
}

# The role of a tensor: its name without "blk.N.", ".weight" and an expert's number, as in
# organ-measure --summary. Takes a plain or a JSON name.
function role_of(name,   quote, block) {
    if (name ~ /^\{/) return name
    quote = name ~ /^"/ ? "\"" : ""
    if (quote) name = substr(name, 2, length(name) - 2)
    if (match(name, /^(model\.)?(diffusion_model\.)?(txt_in\.individual_token_refiner\.)?((v\.sam|v|a|enc|dec)\.)?([a-z_]*blocks?|layers|(noise|context)_refiner|blk)\.[0-9]+\./)) {
        block = substr(name, 1, RLENGTH)
        sub(/(blk\.)?[0-9]+\.$/, "", block)
        name = block substr(name, RLENGTH + 1)
    }
    if (name != ".weight") sub(/\.weight$/, "", name)
    if (name ~ /^ffn_(gate|up|down)\.[0-9]+$/) sub(/\.[0-9]+$/, "", name)
    return quote name quote
}

# Adds a tensor to group g; theta is "null" or "-" if no codec decodes the tensor.
function group_add(g, elements, theta, signal, calibrated, row,   v) {
    G_count[g]++
    G_parameters[g] += elements
    if (theta == "null" || theta == "-" || theta == "") return
    v = theta + 0
    if (!G_measured[g]++ || v < G_min[g]) G_min[g] = v
    if (G_measured[g] == 1 || v > G_max[g]) G_max[g] = v
    G_theta[g] += v
    G_signal[g] += signal
    G_calibrated[g] += calibrated
    G_row[g] += row
}

# The edge of a tensor, where organ-measure --spectral computed one.
function edge_add(g, edge) {
    if (edge == "" || edge == "null" || edge == "-") return
    G_edge[g] += edge
    G_edges[g]++
}
# -1 without any, which ranks last.
function edge_mean(g) { return G_edges[g] ? G_edge[g] / G_edges[g] : -1 }

# Other files than models, whose tensors can be measured: they are never ranked with models.
function is_side(kind) { return kind ~ /^(adapter|importance matrix|projector|control vector|patch|organ records|vocabulary)$/ }
# The kind in the row of `organ-info --table`, "" if there is no such file.
function info_kind(file,   line, n, i, at, part, kind) {
    if ((getline line < file) > 0) n = split(line, part, "\t")
    for (i = 1; i <= n; i++) if (part[i] == "kind") at = i
    if (at && (getline line < file) > 0 && split(line, part, "\t") == n) kind = part[at]
    close(file)
    return kind
}
# The name of a model of a fleet, whose folder cannot have a slash.
function model_name(folder) { gsub(/%2F/, "/", folder); return folder }

function number(v) { return sprintf("%.9g", v) }
function whole(v) { return sprintf("%.0f", v) }
function mean(sum, g) { return G_measured[g] ? number(sum / G_measured[g]) : "null" }

# The members of a group's JSON object, without the braces. (gawk 5.2 may crash when an
# element that was never set is an argument: those that may be are set first, here and
# where this is included.)
function group_json(g) {
    G_count[g] += 0; G_measured[g] += 0; G_parameters[g] += 0
    return "\"count\": " whole(G_count[g]) ", \"measured\": " whole(G_measured[g]) \
        ", \"parameters\": " whole(G_parameters[g]) \
        ", \"mean_theta\": " mean(G_theta[g], g) \
        ", \"min_theta\": " (G_measured[g] ? number(G_min[g]) : "null") \
        ", \"max_theta\": " (G_measured[g] ? number(G_max[g]) : "null") \
        ", \"mean_signal\": " mean(G_signal[g], g) \
        ", \"mean_calibrated\": " mean(G_calibrated[g], g) \
        ", \"mean_row_theta\": " mean(G_row[g], g)
}

# Adds the row in F to the groups of a scope: the whole, its class and its role. A scope
# keeps its roles in order of appearance.
function scope_add(scope,   role, c, r) {
    role = role_of(F["name"])
    group_add(scope, F["elements"], F["theta"], F["signal"], F["calibrated"], F["row_theta"])
    c = scope SUBSEP "class" SUBSEP F["class"]
    r = scope SUBSEP "role" SUBSEP role
    if (!(r in G_count)) { ROLE[scope, ++ROLES[scope]] = role; ROLE_CLASS[scope, role] = F["class"] }
    group_add(c, F["elements"], F["theta"], F["signal"], F["calibrated"], F["row_theta"])
    group_add(r, F["elements"], F["theta"], F["signal"], F["calibrated"], F["row_theta"])
}

# "classes": [...], "roles": [...] of a scope, each line indented by `pad`.
function scope_json(scope, pad,   out, i, n, names, c, sep) {
    n = split(ENVIRON["ORGAN_CLASSES"], names, " ") # see class_words
    out = pad "\"classes\": ["
    for (i = 1; i <= n; i++) {
        c = scope SUBSEP "class" SUBSEP names[i]
        if (!(c in G_count)) continue
        out = out sep "\n" pad "  {\"class\": \"" names[i] "\", " group_json(c) "}"
        sep = ","
    }
    out = out (sep ? "\n" pad : "") "],\n" pad "\"roles\": ["
    sep = ""
    for (i = 1; i <= ROLES[scope]; i++) {
        c = scope SUBSEP "role" SUBSEP ROLE[scope, i]
        out = out sep "\n" pad "  {\"role\": " ROLE[scope, i] ", \"class\": \"" ROLE_CLASS[scope, ROLE[scope, i]] "\", " group_json(c) "}"
        sep = ","
    }
    return out (sep ? "\n" pad : "") "]"
}
