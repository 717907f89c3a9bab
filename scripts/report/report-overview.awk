# report-overview.awk - what the owner of models wants to know first: which files are broken, which
# tensors are stored several times, which models belong together, and what each model is. The
# tables are filled while report-data.awk reads the measures.

# The row of `organ-info --table` of a model: I[m, column], escaped as in TSV.
function read_info(m, file,   line, n, i, part, col) {
    if ((getline line < file) > 0) n = split(line, col, "\t")
    if (n && (getline line < file) > 0 && split(visible(line), part, "\t") == n)
        for (i = 1; i <= n; i++) I[m, col[i]] = part[i]
    close(file)
}
function info(m, column) { return (m, column) in I && I[m, column] != "-" ? I[m, column] : "" }

# ---- tensors in several files ------------------------------------------------------

# Two tensors are taken for one if all figures of their values agree in every digit. Small ones and
# constants say nothing.
function tensor_seen(m) {
    if (F["elements"] + 0 < 256 || F["std"] !~ /[1-9]/ || F["kurtosis"] == "-") return
    Print[++N_prints] = F["dtype"] " " F["elements"] " " F["mean"] " " F["std"] " " F["min"] " " F["max"] " " F["kurtosis"] " " F["cv"] " " F["entropy"]
    Print_of[N_prints] = m
    Print_n[m]++
}
# Counts what each model shares with each earlier one. A block that is repeated within a model counts
# once.
function count_same(   p, k, m, i, n, bytes) {
    for (p = 1; p <= N_prints; p++) {
        k = Print[p]
        m = Print_of[p]
        split(k, Word, " ")
        bytes = Word[1] in Bits ? Word[2] * Bits[Word[1]] / 8 : 0
        n = k in Holders ? split(Holders[k], Holder, " ") : 0
        if (n && Holder[n] + 0 == m + 0) { Print_n[m]--; continue }
        if (n) Saved += bytes
        for (i = 1; i <= n; i++) { Same_n[Holder[i] + 0, m]++; Same_bytes[Holder[i] + 0, m] += bytes }
        if (n < 100) Holders[k] = (n ? Holders[k] " " : "") m
    }
}
# Same_of[1..N_same]: models that share more than small change with an earlier one, and that one. Those
# that share most come first.
function find_same(   m, a, best, i, k, t) {
    count_same()
    for (m = 2; m <= N; m++) {
        best = 0
        for (a = 1; a < m; a++) if (Same_bytes[a, m] > Same_bytes[best, m]) best = a
        if (!best || (Bytes[m] ~ /^[0-9]+$/ && Same_bytes[best, m] < 0.02 * Bytes[m])) continue
        Same_b[++N_same] = m
        Same_a[m] = best
        for (k = N_same; k > 1 && same_size(Same_b[k]) > same_size(Same_b[k - 1]); k--) { t = Same_b[k]; Same_b[k] = Same_b[k - 1]; Same_b[k - 1] = t }
    }
}
function same_size(m) { return Same_bytes[Same_a[m], m] }
function same_text(m,   n) {
    n = Same_n[Same_a[m], m]
    return n " of " whole(G_count[m]) " tensors, " size(same_size(m))
}
# All tensors are the same, and so is all that organ-info tells: the file is an exact copy.
function is_copy(m,   a, k, part) {
    a = Same_a[m]
    if (Same_n[a, m] != Print_n[m] || Print_n[a] != Print_n[m] || G_count[a] != G_count[m] || Bytes[a] != Bytes[m]) return 0
    for (k in I) {
        split(k, part, SUBSEP)
        if (part[1] == m && part[2] != "file" && I[k] != I[a, part[2]]) return 0
    }
    return 1
}

# ---- families ----------------------------------------------------------------------

function root_of(m) { while (Parent[m] != m) m = Parent[m]; return m }
# Models of one lineage are a family: N_families, Family[f] is a list of numbers.
function find_families(   i, m, a, b, f, at) {
    for (m = 1; m <= N; m++) Parent[m] = m
    for (i = 1; i <= N_pairs; i++) {
        if (P_kind[Pair_a[i], Pair_b[i]] !~ /^(same|kin|moved)$/) continue
        a = root_of(Pair_a[i]); b = root_of(Pair_b[i])
        if (a < b) Parent[b] = a
        else Parent[a] = b
    }
    for (m = 1; m <= N; m++) {
        f = root_of(m)
        if (f == m) continue
        if (!(f in at)) { at[f] = ++N_families; Family[N_families] = f }
        Family[at[f]] = Family[at[f]] " " m
    }
}

# ---- what is wrong -----------------------------------------------------------------

function problem(model, what) { Problem_of[++N_problems] = model; Problem[N_problems] = what }
# Broken[name]: the files with a problem, each counted once.
function find_problems(   i, m) {
    for (i = 1; i <= N_failed; i++) problem(Failed[i], Why[i])
    for (m = 1; m <= N; m++) {
        if (info(m, "missing") + 0) problem(Name[m], "incomplete: " info(m, "missing") " of " info(m, "shards") + info(m, "missing") " shards are missing")
        if (info(m, "errors") + 0) problem(Name[m], "an engine will not load it: " info(m, "verdict"))
    }
    for (i = 1; i <= N_problems; i++) if (!Broken[Problem_of[i]]++) N_broken++
    for (m = 1; m <= N; m++) {
        if (Broken[Name[m]]) continue
        if (Gone[m]) N_gone++
        else if (info(m, "kind") == "" || info(m, "verdict") ~ /^not checked/) N_unknown++
        else N_fine++
        if (info(m, "verdict") ~ /^not checked/) problem(Name[m], info(m, "verdict"))
    }
}

function many(n, one, more) { return n " " (n == 1 ? one : more) }
# "46 files: 42 fine, 4 broken, 2 exact copies (3.4 MB), 2 families". Of a table of measures alone nothing was checked.
function in_short(   i, m, n, bytes, text) {
    for (i = 1; i <= N_same; i++) if (is_copy(m = Same_b[i])) { n++; bytes += Bytes[m] }
    text = many(N + N_failed, "file", "files") ": " N_fine + 0 " fine, " N_broken + 0 " broken"
    if (N_unknown) text = text ", " N_unknown " not checked"
    if (N_gone) text = text ", " N_gone " gone"
    text = text ", " many(n + 0, "exact copy", "exact copies") (n ? " (" size(bytes) ")" : "")
    return text (N_pairs ? ", " many(N_families + 0, "family", "families") : "")
}

# Called once all tables are read.
function overview_ready() {
    find_problems()
    find_same()
    find_families()
}
function bits_text(m) { return info(m, "bpw") == "" ? "-" : fixed(info(m, "bpw"), 2) }
function or_dash(s) { return s == "" ? "-" : s }
