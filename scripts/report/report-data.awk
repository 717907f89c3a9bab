# report-data.awk - reads the measurements of all models of a report. Needs json.awk, rows.awk and
# report-overview.awk before it. Columns of the index: name, path of the TSV, bytes ("-" if unknown), progress ("-" if
# complete), what a chimera was made of (a JSON array), seconds of its dissection; or name,
# "failed", the error; "gone" if its file is gone. Columns of the pairs: numbers of two models, verdict, median cosine, map. The groups of the whole report have the scope "all", those of a model its number.

# Files other than models appear in the list of files only. Without organ-info, the parts of the tensors tell.
function side_parts(file,   line, n, i, at, part, other) {
    if ((getline line < file) > 0) n = split(line, part, "\t")
    for (i = 1; i <= n; i++) if (part[i] == "part") at = i
    other = !at
    while (!other && (getline line < file) > 0) { split(line, part, "\t"); other = part[at] !~ /^(adapter|imatrix|vision|audio)$/ }
    close(file)
    return !other
}

# A line of a table that another program may have written: characters that are invisible, or change the order of
# others, become escapes, which the tables of organ-measure have already.
function visible(line,   n, i, part, out) {
    if (line ~ /^[\t -~]*$/) return line
    if (!ORD["a"]) json_tables()
    n = split(line, part, "\t")
    for (i = 1; i <= n; i++) {
        part[i] = tsv_str(part[i])
        gsub(/\\\\/, "\\", part[i])
        out = out (i > 1 ? "\t" : "") part[i]
    }
    return out
}

# Reads a table with the header line of organ-measure; columns are found by name.
function read_rows(m, file,   line, n, i, part, col, at) {
    split("", F)
    while ((getline line < file) > 0) {
        n = split(visible(line), part, "\t")
        if (!at) {
            for (i = 1; i <= n; i++) col[i] = part[i]
            at = n
            continue
        }
        for (i = 1; i <= n_used; i++) F[Used[i]] = "" # see rows.awk
        for (i = 1; i <= at; i++) F[col[i]] = part[i]
        if (!(F["class"] in Says)) F["class"] = "other" # a foreign table may contain any class
        take_row(m)
    }
    close(file)
}

function take_row(m,   role, t, d) {
    scope_add(m)
    role = role_of(F["name"])
    D_elements[m, F["dtype"]] += F["elements"]
    d = D_top[m]
    if (d == "" || D_elements[m, F["dtype"]] > D_elements[m, d]) D_top[m] = F["dtype"]
    if (F["theta"] != "-" && F["theta"] != "") tensor_seen(m)
    if (Side[m]) return
    scope_add("all")
    edge_seen(m, role)
    if (F["theta"] == "-" || F["theta"] == "") return
    component_add(role)
    t = F["theta"] + 0
    if (!(t >= 0 && t <= 90)) { t = 0; F["theta"] = 0 } # not an angle: the table is not from organ-measure
    Seen_from[int(2 * t)]++ # the half degrees below and above it
    Seen_to[int(2 * t) + (2 * t > int(2 * t))]++
    if (F["calibrated"] + 0 == 0) Noise["all"]++
    well(m, m)
    well("all", m)
    if (!((m, role, F["block"]) in Cell)) {
        if (F["block"] == "-") Outside[m, ++N_outside[m]] = role
        else {
            block_seen(m, F["block"] + 0)
            if (!((m, role) in Row_seen)) { Row_seen[m, role] = 1; Row[m, ++N_rows[m]] = role }
        }
    }
    if (F["block"] != "-" && F["class"] != "norm") {
        B_theta[m, F["block"]] += t
        B_row[m, F["block"]] += F["row_theta"]
        B_n[m, F["block"]]++
        if (F["edge"] != "" && F["edge"] != "-") { B_edge[m, F["block"]] += F["edge"]; B_edges[m, F["block"]]++ }
    }
    Cell[m, role, F["block"]] += t
    Cell_n[m, role, F["block"]]++
}

# Tables that were measured with --spectral have an edge per matrix.
function edge_seen(m, role,   e) {
    e = F["edge"]
    if (e !~ /^[0-9.]+(e[-+]?[0-9]+)?$/) return
    By_edge = 1
    edge_add(m, e)
    edge_add("all", e)
    edge_add(class_group(m, F["class"]), e)
    edge_add(class_group("all", F["class"]), e)
    edge_add(role_group(role), e)
}
function edge_text(g,   e) { e = edge_mean(g); return e < 0 ? "-" : fixed(e, 2) }

# Components divide the classes further for models with experts or latent attention.
function component_add(role,   c, g) {
    c = role ~ /shexp/ ? "shared expert" : \
        role ~ /_exps?$|^ffn_gate_inp$|^exp_probs/ || F["name"] ~ /ffn_(gate|up|down)\.[0-9]+\./ ? "experts and router" : \
        role ~ /^attn_(kv|q)_[ab]/ || role ~ /^attn_[kv]_b$/ ? "latent attention" : F["class"] == "skeleton" ? "attention" : \
        F["class"] == "organ" ? "dense FFN" : F["class"] == "norm" ? "norms" : F["class"] == "embed" ? "embedding" : "other"
    if (c == "experts and router" || c == "shared expert" || c == "latent attention") Has_components = 1
    g = "all" SUBSEP "component" SUBSEP c
    if (!(g in G_count)) Component[++N_components] = c
    group_add(g, F["elements"], F["theta"], F["signal"], F["calibrated"], F["row_theta"])
    edge_add(g, F["edge"])
}

# The rows of a map by class, as in the pictures of the tools, and else in their order in the model.
function sort_map(m,   c, i, n, role) {
    for (c = 1; c <= n_classes; c++)
        for (i = 1; i <= N_rows[m]; i++) {
            role = Row[m, i]
            if (ROLE_CLASS[m, role] == Class[c]) Sorted[++n] = role
        }
    for (i = 1; i <= n; i++) Row[m, i] = Sorted[i]
}

# The numbers of a model's blocks, ascending. A name may contain any number, so the numbers
# are kept as a list, and a map shows at most 400 of them.
function block_seen(m, b,   k) {
    if ((m, b) in Block_has) return
    if (N_blocks[m] == 400) { Block_more[m] = 1; return }
    Block_has[m, b] = 1
    for (k = ++N_blocks[m]; k > 1 && Block[m, k - 1] > b; k--) Block[m, k] = Block[m, k - 1]
    Block[m, k] = b
}

# Keeps the K tensors with the lowest theta, ascending; equal ones stay in their order.
function well(list, m,   k, t) {
    t = F["theta"] + 0
    k = N_wells[list]
    if (k == K && t >= W_theta[list, k]) return
    if (k < K) k = ++N_wells[list]
    for (; k > 1 && W_theta[list, k - 1] > t; k--) {
        W_theta[list, k] = W_theta[list, k - 1]
        W_row[list, k] = W_row[list, k - 1]
    }
    W_theta[list, k] = t
    W_row[list, k] = m "\t" F["name"] "\t" F["class"] "\t" F["dtype"] "\t" F["elements"] "\t" F["calibrated"] "\t" F["row_theta"]
}

# Whether a file is a model with measures, which is ranked and shown.
function has_card(m) { return G_measured[m] && !Side[m] }

# The mean by which models are ranked: that of the edge where any table has one, else of theta.
function score(m) { return By_edge ? edge_mean(m) : avg(G_theta, m) }

# The type of most values decides much of theta, so that models are ranked only among those of the
# same type. Types with more models come first, and else those with the higher score.
function ranks_before(a, b,   x, y) {
    x = D_top[a]; y = D_top[b]
    if (x == y) return score(a) > score(b)
    if (Type_n[x] != Type_n[y]) return Type_n[x] > Type_n[y]
    return Type_best[x] == Type_best[y] ? x < y : Type_best[x] > Type_best[y]
}
# Rank[1..n]: models in that order, Place[1..n]: their ranks within the type. By_role[1..]: roles of
# "all" by theta.
function rank_all(   i, k, m, t) {
    for (m = 1; m <= N; m++)
        if (has_card(m)) {
            Rank[++N_ranked] = m
            if (!Type_n[D_top[m]]++ || score(m) > Type_best[D_top[m]]) Type_best[D_top[m]] = score(m)
        }
    for (i = 2; i <= N_ranked; i++)
        for (k = i; k > 1 && ranks_before(Rank[k], Rank[k - 1]); k--) {
            t = Rank[k]; Rank[k] = Rank[k - 1]; Rank[k - 1] = t
        }
    for (i = 1; i <= N_ranked; i++) Place[i] = i > 1 && D_top[Rank[i]] == D_top[Rank[i - 1]] ? Place[i - 1] + 1 : 1
    for (i = 1; i <= ROLES["all"]; i++) By_role[i] = ROLE["all", i]
    for (i = 2; i <= ROLES["all"]; i++)
        for (k = i; k > 1 && role_mean(By_role[k]) > role_mean(By_role[k - 1]); k--) {
            t = By_role[k]; By_role[k] = By_role[k - 1]; By_role[k - 1] = t
        }
}

# The values of each class, as organ-measure --histogram counts them, TSV or JSON Lines. H_low and
# H_high: the range of the bins; H_sum: all values; H_out: those beyond the bins.
function is_number(s) { return s ~ /^-?[0-9.]+(e[-+]?[0-9]+)?$/ && s + 0 < 1e300 && s + 0 > -1e300 }
function read_values(m, file,   line, p, k) {
    while ((getline line < file) > 0) {
        if (line ~ /^\{/) {
            gsub(/[{}"]/, "", line); gsub(/, (low|high|values): /, "\t", line); gsub(/null/, "-", line)
            sub(/^class: /, "", line)
        }
        if (split(line, p, "\t") != 4 || !(p[1] in Says) || !is_number(p[4]) || p[4] < 0) continue
        k = m SUBSEP p[1]
        H_sum[k] += p[4]
        if (!is_number(p[2]) || !is_number(p[3]) || H_n[k] == 600) { H_out[k] += p[4]; continue }
        if (!H_n[k]) H_low[k] = p[2] + 0
        H_high[k] = p[3] + 0
        H_bin[k, ++H_n[k]] = p[4] + 0
        if (p[4] + 0 > H_top[k]) H_top[k] = p[4] + 0
        Has_values[m] = 1
    }
    close(file)
}

# The organs of a model, as `organ-extract --list --json` lists them.
function member(line, key, pattern,   at) {
    at = index(line, "\"" key "\": ")
    if (!at) return ""
    line = substr(line, at + length(key) + 4)
    return match(line, pattern) ? substr(line, 1, RLENGTH) : ""
}
function read_organs(m, file, seconds,   line, c, b) {
    while ((getline line < file) > 0) {
        c = member(line, "class", "^\"[a-z]*\"")
        gsub(/"/, "", c)
        if (!(c in Says)) continue
        b = member(line, "bytes", "^[0-9]*") + 0
        if (!O_files[m]++) Dissected[++N_dissected] = m
        O_bytes[m] += b; O_class[m, c] += b
        O_files["all"]++; O_bytes["all"] += b; O_class["all", c] += b
    }
    close(file)
    if (!O_files[m] || seconds !~ /^[0-9.]+$/) return
    O_seconds[m] = seconds; O_seconds["all"] += seconds; O_timed += O_bytes[m]
}

# The verdicts of organ-compare --lineage. P_word[a, b]: a word for a table; P_kind: a name for a colour.
function read_pairs(file,   line, p, a, b) {
    while ((getline line < file) > 0) {
        if (split(visible(line), p, "\t") < 5 || p[1] !~ /^[0-9]+$/ || p[2] !~ /^[0-9]+$/) continue
        a = p[1] + 0; b = p[2] + 0
        if (a == b || a < 1 || b < 1 || a > N || b > N || (a, b) in P_word) continue
        P_kind[a, b] = p[3] == "identical" ? "same" : p[3] ~ /^same lineage/ ? (p[3] == "same lineage" ? "kin" : "moved") : p[3] == "strangers" ? "far" : "unknown"
        P_word[a, b] = p[3] == "same lineage" ? "same" : p[3] ~ /permuted/ ? "permuted" : p[3] ~ /^same lineage/ ? "moved" : p[3] ~ /^(identical|strangers|undecidable)$/ ? p[3] : "not compared"
        P_text[a, b] = p[3]; P_cosine[a, b] = is_number(p[4]) ? p[4] : "-"; P_map[a, b] = p[5]
        P_kind[b, a] = P_kind[a, b]; P_word[b, a] = P_word[a, b]; P_text[b, a] = p[3]; P_cosine[b, a] = P_cosine[a, b]
        Pair_a[++N_pairs] = a; Pair_b[N_pairs] = b
        Paired[a] = Paired[b] = 1
    }
    close(file)
}

# The stars of the original project, by mean theta.
function stars(g,   t) {
    if (!G_measured[g]) return 0
    t = G_theta[g] / G_measured[g]
    return t >= 89 ? 3 : t >= 80 ? 2 : 1
}
function role_group(role) { return "all" SUBSEP "role" SUBSEP role }
# The name of a class for people.
function label_of(c) { return c in Label ? Label[c] : c }
function class_group(m, c) { return m SUBSEP "class" SUBSEP c }
function role_mean(role,   g) { g = role_group(role); return G_measured[g] ? G_theta[g] / G_measured[g] : -1 }
function avg(sum, g) { return G_measured[g] ? sum[g] / G_measured[g] : 0 }
function fixed(v, digits) { return sprintf("%." digits "f", v) }

# Not every awk has log and sqrt (Debian's busybox has neither). A foreign table may have
# values that are not positive; they count as 1.
# v = 10^e 2^k w with w in [1, 2); ln w = 2 artanh((w - 1) / (w + 1)).
function log10(v,   e, k, z, power, sum, i) {
    if (!(v > 0 && v < 1e300)) return 0
    for (; v >= 10; e++) v /= 10
    for (; v < 1; e--) v *= 10
    for (; v >= 2; k++) v /= 2
    z = (v - 1) / (v + 1)
    power = z
    for (i = 1; i < 40; i += 2) { sum += power / i; power *= z * z }
    return e + 0.30102999566398120 * k + 0.86858896380650366 * sum
}
# Newton's iteration, started above the root: it decreases until it has converged.
function root(v,   r, next_r) {
    if (!(v > 0 && v < 1e300)) return 0
    next_r = v < 1 ? 1 : v
    do { r = next_r; next_r = (r + v / r) / 2 } while (next_r < r)
    return r
}

# 2885888 as 2.89M
function short(v,   i, unit) {
    split("K M B T", unit, " ")
    for (i = 0; v >= 999.5 && i < 4; i++) v /= 1000
    if (i == 0) return sprintf("%.0f", v)
    return sprintf(v < 9.995 ? "%.2f" : v < 99.95 ? "%.1f" : "%.0f", v) unit[i]
}
function size(v,   i, unit) {
    if (v == "-" || v == "") return "-"
    split("KB MB GB TB", unit, " ")
    for (i = 0; v >= 999.5 && i < 4; i++) v /= 1000
    return i == 0 ? sprintf("%.0f B", v) : sprintf(v < 9.995 ? "%.2f %s" : v < 99.95 ? "%.1f %s" : "%.0f %s", v, unit[i])
}

# Fits theta against log10(parameters): Slope (degrees per factor of ten), Corr, Fit_n
# models. Returns 0 unless there are language models of three sizes, as two sizes show no trend.
function fit(   i, k, m, x, y, sizes, seen, sx, sy, sxx, syy, sxy, vx, vy) {
    for (i = 1; i <= N_ranked; i++) {
        m = Rank[i]
        if (G_parameters[m] <= 0 || info(m, "kind") !~ /^(language model)?$/) continue
        x = log10(G_parameters[m]); y = avg(G_theta, m)
        for (k = 1; k <= sizes && (x - seen[k] > 0.04 || seen[k] - x > 0.04); k++);
        if (k > sizes) seen[++sizes] = x
        Fit_n++; sx += x; sy += y; sxx += x * x; syy += y * y; sxy += x * y
    }
    if (sizes < 3) return 0
    vx = sxx / Fit_n - sx * sx / Fit_n / Fit_n
    vy = syy / Fit_n - sy * sy / Fit_n / Fit_n
    if (vx < 1e-9 || vy < 1e-12) return 0
    Slope = (sxy / Fit_n - sx * sy / Fit_n / Fit_n) / vx
    Intercept = (sy - Slope * sx) / Fit_n
    Corr = (sxy / Fit_n - sx * sy / Fit_n / Fit_n) / root(vx * vy)
    return 1
}

BEGIN {
    K = ENVIRON["REPORT_WELLS"] + 0
    G_count["all"] = G_measured["all"] = G_parameters["all"] = Noise["all"] = By_edge = 0
    classes_file = ENVIRON["REPORT_CLASSES"]
    if ((getline line < classes_file) > 0) # the header
        while ((getline line < classes_file) > 0) {
            split(line, part, "\t")
            Class[++n_classes] = part[1]
            Label[part[1]] = part[3]
        }
    Says["skeleton"] = "attention and its projections"
    Says["organ"] = "feed-forward layers, experts, routers"
    Says["embed"] = "token embeddings and the output head"
    Says["norm"] = "normalisation"
    Says["adapter"] = "low-rank adapters"
    Says["other"] = "no rule of the anatomy knows them"
    n_used = split("name class block dtype elements mean std min max entropy kurtosis cv theta signal calibrated row_theta edge", Used, " ")
    types_file = ENVIRON["REPORT_TYPES"]
    while ((getline line < types_file) > 0) if (split(line, type_of, "\t") >= 5) Bits[type_of[1]] = type_of[5] + 0
    index_file = ENVIRON["REPORT_INDEX"]
    while ((getline line < index_file) > 0) {
        split(line, part, "\t")
        if (part[2] == "failed") { Failed[++N_failed] = part[1]; Why[N_failed] = part[3]; continue }
        Name[++N] = part[1]
        Bytes[N] = part[3]
        Progress[N] = part[4] == "" ? "-" : part[4]
        Origins[N] = part[5] == "" ? "[]" : part[5]
        Gone[N] = part[7] == "gone"
        Base[N] = substr(part[2], 1, length(part[2]) - 4)
        read_info(N, Base[N] ".info")
        Side[N] = info(N, "kind") == "" ? side_parts(part[2]) : is_side(info(N, "kind"))
        if (!Side[N]) N_models++
        read_rows(N, part[2])
        sort_map(N)
        read_values(N, Base[N] ".values")
        read_organs(N, Base[N] ".organs", part[6])
    }
    read_pairs(ENVIRON["REPORT_PAIRS"])
    rank_all()
    overview_ready()
    Fitted = fit()
    for (i = 1; i <= n_classes; i++)
        if ((class_group("all", Class[i])) in G_measured) {
            g = class_group("all", Class[i])
            if (Best_class == "" || avg(G_calibrated, g) > avg(G_calibrated, class_group("all", Best_class))) Best_class = Class[i]
        }
}
