# report-md.awk - writes Z_MEASURE_REPORT.md. Needs rows.awk and report-data.awk before it.

# Formats any name as code in a table cell, so that nothing in it is markup.
function code(s,   fence) {
    gsub(/\|/, "\\|", s)
    if (s == "") return "(no name)"
    fence = "`"
    while (index(s, fence)) fence = fence "`"
    return fence (s ~ /^`|`$/ ? " " s " " : s) fence
}
function group_row(label, g) {
    if (!G_measured[g]) return label " | " whole(G_count[g]) " | " short(G_parameters[g]) " | - | - | - | - | - | - |" (By_edge ? " - |" : "")
    return label " | " whole(G_count[g]) " | " short(G_parameters[g]) " | " fixed(avg(G_theta, g), 2) " | " stars(g) " | " fixed(G_min[g], 2) " to " fixed(G_max[g], 2) \
        " | " fixed(avg(G_calibrated, g), 2) " | " fixed(avg(G_signal, g), 3) " | " fixed(avg(G_row, g), 2) " |" (By_edge ? " " edge_text(g) " |" : "")
}
function escaped(s) { gsub(/[]\\`*_<>#|&[]/, "\\\\&", s); return s }

# The exact copies, or folded the files of which only tensors are the same: their measures agree in every digit.
function same_md(copies,   i, m, n, rows) {
    for (i = 1; i <= N_same; i++) {
        m = Same_b[i]
        if (is_copy(m) != copies || ++n > 100) continue
        rows = rows "| " code(Name[m]) " | " code(Name[Same_a[m]]) " | " (copies ? size(Bytes[m]) : same_text(m)) " |\n"
    }
    if (!n) return
    if (!copies) print "\n<details><summary>" many(n, "other file has", "other files have") " tensors of another</summary>"
    printf "%s", "\n| file | " (copies ? "is a copy of | size |\n|:---|:---|---:|\n" : "has tensors of | how many |\n|:---|:---|:---|\n") rows
    if (n > 100) print "\nThe first 100 of " n "."
    if (!copies) print "\n</details>"
}

# What the owner of the models wants to know first.
function overview_md(   i, k, n, part, text) {
    print "## Problems\n"
    if (!N_problems) print "None: every file was read, and organ-check finds no errors."
    for (i = 1; i <= N_problems; i++) print "- " code(Problem_of[i]) ": " code(Problem[i])
    print "\n## Duplicates\n"
    if (!N_same) print "No two files share tensors."
    else {
        print "Without the tensors that are stored several times, " size(Saved) " would be saved."
        same_md(1)
        same_md(0)
    }
    if (N_pairs) {
        print "\n## Families\n\nModels of one lineage, by organ-compare --lineage. Grafts and merges work within a family.\n"
        for (i = 1; i <= N_families; i++) {
            n = split(Family[i], part, " ")
            text = ""
            for (k = 1; k <= n; k++) text = text (k > 1 ? ", " : "") code(Name[part[k]])
            print "- " text
        }
        if (!N_families) print "No two models have a common lineage."
    }
    print "\n## Files\n\n| file | kind | architecture | parameters | context | types | bits per weight | size |\n|:---|:---|:---|---:|---:|:---|---:|---:|"
    for (i = 1; i <= N; i++)
        print "| " code(Name[i]) (Gone[i] ? " (its file is gone)" : "") " | " or_dash(escaped(info(i, "kind"))) " | " or_dash(escaped(info(i, "architecture"))) " | " short(G_parameters[i]) " | " \
            or_dash(info(i, "context")) " | " escaped(info(i, "types") == "" ? D_top[i] : info(i, "types")) " | " bits_text(i) " | " size(Bytes[i]) " |"
}

# The lineage of every pair of a fleet.
function pairs(   i, a, b) {
    if (!N_pairs) return
    print "\n## Lineage\n\nThe verdicts of organ-compare --lineage, and the median cosine of matrices.\n"
    print "| model | model | verdict | cosine |\n|:---|:---|:---|---:|"
    for (i = 1; i <= N_pairs && i <= 500; i++) {
        a = Pair_a[i]; b = Pair_b[i]
        print "| " code(Name[a]) " | " code(Name[b]) " | " escaped(P_text[a, b]) " | " (P_cosine[a, b] == "-" ? "-" : fixed(P_cosine[a, b], 3)) " |"
    }
    if (N_pairs > 500) print "\nThe first 500 of " N_pairs " pairs; lineage.tsv has all."
}
function dissection(   i, m) {
    if (!N_dissected) return
    print "\n## Dissection\n\n| model | organs | size | seconds | MB/s |\n|:---|---:|---:|---:|---:|"
    for (i = 1; i <= N_dissected; i++) {
        m = Dissected[i]
        print "| " code(Name[m]) " | " O_files[m] " | " size(O_bytes[m]) " | " (O_seconds[m] == "" ? "-" : fixed(O_seconds[m], 2)) " | " (O_seconds[m] > 0 ? fixed(O_bytes[m] / O_seconds[m] / 1e6, 1) : "-") " |"
    }
}

BEGIN {
    a = "all"
    print "# " escaped(ENVIRON["REPORT_TITLE"]) "\n"
    print in_short() ".\n"
    print N_models + 0 " model" (N_models == 1 ? "" : "s") ", " whole(G_count[a]) " tensors, " short(G_parameters[a]) " parameters. Made " ENVIRON["REPORT_TIME"] ".\n"
    overview_md()
    pairs()
    dissection()
    print "\n## Measures\n"
    print "Angles are in degrees. theta is a score of how a tensor's values are distributed. Noise does not score 0:"
    print "calibrated is the part of theta above Gaussian noise of the same type and size, 0 to 90. row theta compares"
    print "neighbouring rows and is never ranked with theta. theta can show that a tensor differs from others of the same"
    print "role, type and size. It cannot tell signal from noise and says nothing about how good a model is. None of these"
    print "measures tells a damaged model from a healthy one; organ-validate does, because it runs the model."
    if (By_edge) print "edge is about 1 for random values and higher for structure that rows share."
    print "\n## Ranking\n"
    if (By_edge) {
        print "Models by mean edge, among those of the same type. Noise lowers it, and shuffled values have 1, but it is not a measure of quality: a model"
        print "that was put together from parts that do not fit keeps its edge.\n"
        print "| rank | model | edge | theta | stars | calibrated | signal | row theta | tensors | parameters | size | type |"
        print "|---:|:---|---:|---:|---:|---:|---:|---:|---:|---:|---:|:---|"
    } else {
        print "Models by mean theta, among those whose values mostly have the same type. theta depends on the distribution of values alone: random numbers can rank first, and"
        print "shuffling all values of a model changes nothing. With --spectral, models are ranked by edge.\n"
        print "| rank | model | theta | stars | calibrated | signal | row theta | tensors | parameters | size | type |"
        print "|---:|:---|---:|---:|---:|---:|---:|---:|---:|---:|:---|"
    }
    for (i = 1; i <= N_ranked; i++) {
        m = Rank[i]
        print "| " Place[i] " | " code(Name[m]) " | " (By_edge ? edge_text(m) " | " : "") fixed(avg(G_theta, m), 2) " | " stars(m) " | " fixed(avg(G_calibrated, m), 2) " | " fixed(avg(G_signal, m), 3) \
            " | " fixed(avg(G_row, m), 2) " | " whole(G_count[m]) " | " short(G_parameters[m]) " | " size(Bytes[m]) " | " escaped(D_top[m]) " |"
    }

    print "\n## Scale\n\nMean theta against the number of parameters, smallest model first.\n"
    print "| model | parameters | log10 | theta | calibrated |"
    print "|:---|---:|---:|---:|---:|"
    for (i = 1; i <= N_ranked; i++) S[i] = Rank[i]
    for (i = 2; i <= N_ranked; i++)
        for (k = i; k > 1 && G_parameters[S[k]] < G_parameters[S[k - 1]]; k--) { t = S[k]; S[k] = S[k - 1]; S[k - 1] = t }
    for (i = 1; i <= N_ranked; i++) {
        m = S[i]
        print "| " code(Name[m]) " | " short(G_parameters[m]) " | " (G_parameters[m] > 0 ? fixed(log10(G_parameters[m]), 3) : "-") " | " fixed(avg(G_theta, m), 2) \
            " | " fixed(avg(G_calibrated, m), 2) " |"
    }
    if (Fitted)
        print "\nA model ten times as large scores " (Slope < 0 ? "lower" : "higher") " by " fixed(Slope < 0 ? -Slope : Slope, 2) \
            " degrees (least squares over " Fit_n " models, correlation " fixed(Corr, 2) ")."
    else print "\nNo trend is fitted, because that needs language models of three different sizes."

    print "\n## Organ types\n"
    print "| class | tensors | parameters | theta | stars | range | calibrated | signal | row theta |" (By_edge ? " edge |" : "")
    print "|:---|---:|---:|---:|---:|:---:|---:|---:|---:|" (By_edge ? "---:|" : "")
    for (i = 1; i <= n_classes; i++) if (G_count[class_group(a, Class[i])]) print "| " group_row(label_of(Class[i]), class_group(a, Class[i]))
    if (Best_class != "")
        print "\nThe class whose values are least Gaussian: " label_of(Best_class) " (" Says[Best_class] "). " whole(Noise[a]) " of " whole(G_measured[a]) " tensors have calibrated 0: their values are distributed like Gaussian noise, as in many trained matrices."

    print "\n## Profile by tensor kind\n"
    print "| kind | class | tensors | parameters | theta | stars | range | calibrated | signal | row theta |" (By_edge ? " edge |" : "")
    print "|:---|:---|---:|---:|---:|---:|:---:|---:|---:|---:|" (By_edge ? "---:|" : "")
    for (i = 1; i <= ROLES[a]; i++) print "| " code(By_role[i]) " | " group_row(label_of(ROLE_CLASS[a, By_role[i]]), role_group(By_role[i]))

    print "\n## Wells\n\nThe tensors with the lowest theta, whose values are closest to Gaussian. They may be untrained, or trained\nmatrices that look like this. That is not a defect.\n"
    print "| tensor | model | class | type | values | theta | calibrated |"
    print "|:---|:---|:---|:---|---:|---:|---:|"
    for (i = 1; i <= N_wells[a]; i++) {
        split(W_row[a, i], w, "\t")
        print "| " code(w[2]) " | " code(Name[w[1]]) " | " escaped(label_of(w[3])) " | " escaped(w[4]) " | " short(w[5]) " | " fixed(W_theta[a, i], 2) " | " fixed(w[6], 2) " |"
    }
}
