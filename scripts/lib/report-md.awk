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
    if (!G_measured[g]) return label " | " whole(G_count[g]) " | " short(G_parameters[g]) " | - | - | - | - | - |"
    return label " | " whole(G_count[g]) " | " short(G_parameters[g]) " | " fixed(avg(G_theta, g), 2) " | " fixed(G_min[g], 2) " to " fixed(G_max[g], 2) \
        " | " fixed(avg(G_calibrated, g), 2) " | " fixed(avg(G_signal, g), 3) " | " fixed(avg(G_row, g), 2) " |"
}
function escaped(s) { gsub(/[\\`*_<>#|&\[\]]/, "\\\\&", s); return s }

BEGIN {
    a = "all"
    print "# " escaped(ENVIRON["REPORT_TITLE"]) "\n"
    print N " model" (N == 1 ? "" : "s") ", " whole(G_count[a]) " tensors, " short(G_parameters[a]) " parameters. Made " ENVIRON["REPORT_TIME"] ".\n"
    print "Angles are in degrees. theta is a score of how a tensor's values are distributed; for pure noise it is"
    print "about " fixed(avg(Null, a), 1) " here, not 0 (noise of the same types and sizes). calibrated is the part of theta above noise:"
    print "0 for noise, at most 90. row theta compares neighbouring rows and is never ranked with theta. theta can show"
    print "that a tensor differs from others of the same role, type and size, but it cannot tell signal from noise and"
    print "says nothing about how good a model is.\n"

    print "## Ranking\n"
    print "| rank | model | theta | above noise | calibrated | signal | row theta | tensors | parameters | size | type |"
    print "|---:|:---|---:|---:|---:|---:|---:|---:|---:|---:|:---|"
    for (i = 1; i <= N_ranked; i++) {
        m = Rank[i]
        print "| " i " | " code(Name[m]) " | " fixed(avg(G_theta, m), 2) " | " fixed(avg(G_theta, m) - avg(Null, m), 2) " | " fixed(avg(G_calibrated, m), 2) " | " fixed(avg(G_signal, m), 3) \
            " | " fixed(avg(G_row, m), 2) " | " whole(G_count[m]) " | " short(G_parameters[m]) " | " size(Bytes[m]) " | " escaped(D_top[m]) " |"
    }

    print "\n## Scale\n\nMean theta against the number of parameters, smallest model first.\n"
    print "| model | parameters | log10 | theta | null theta | calibrated |"
    print "|:---|---:|---:|---:|---:|---:|"
    for (i = 1; i <= N_ranked; i++) S[i] = Rank[i]
    for (i = 2; i <= N_ranked; i++)
        for (k = i; k > 1 && G_parameters[S[k]] < G_parameters[S[k - 1]]; k--) { t = S[k]; S[k] = S[k - 1]; S[k - 1] = t }
    for (i = 1; i <= N_ranked; i++) {
        m = S[i]
        print "| " code(Name[m]) " | " short(G_parameters[m]) " | " (G_parameters[m] > 0 ? fixed(log10(G_parameters[m]), 3) : "-") " | " fixed(avg(G_theta, m), 2) \
            " | " fixed(avg(Null, m), 2) " | " fixed(avg(G_calibrated, m), 2) " |"
    }
    if (Fitted)
        print "\nA model ten times as large scores " (Slope < 0 ? "lower" : "higher") " by " fixed(Slope < 0 ? -Slope : Slope, 2) \
            " degrees (least squares over " Fit_n " models, correlation " fixed(Corr, 2) ")."
    else print "\nNo trend is fitted, because that needs models of three different sizes, not counting adapters."

    print "\n## Organ types\n"
    print "| class | tensors | parameters | theta | range | calibrated | signal | row theta |"
    print "|:---|---:|---:|---:|:---:|---:|---:|---:|"
    for (i = 1; i <= n_classes; i++) if (G_count[class_group(a, Class[i])]) print "| " group_row(Class[i], class_group(a, Class[i]))
    if (Best_class != "")
        print "\nThe class farthest above noise: " Best_class " (" Says[Best_class] "). " whole(Noise[a]) " of " whole(G_measured[a]) " tensors " (Noise[a] == 1 ? "does" : "do") " not score above noise."

    print "\n## Profile by tensor kind\n"
    print "| kind | class | tensors | parameters | theta | range | calibrated | signal | row theta |"
    print "|:---|:---|---:|---:|---:|:---:|---:|---:|---:|"
    for (i = 1; i <= ROLES[a]; i++) print "| " code(By_role[i]) " | " group_row(ROLE_CLASS[a, By_role[i]], role_group(By_role[i]))

    print "\n## Wells\n\nThe tensors with the lowest theta, whose values are closest to Gaussian.\n"
    print "| tensor | model | class | type | values | theta | calibrated |"
    print "|:---|:---|:---|:---|---:|---:|---:|"
    for (i = 1; i <= N_wells[a]; i++) {
        split(W_row[a, i], w, "\t")
        print "| " code(w[2]) " | " code(Name[w[1]]) " | " escaped(w[3]) " | " escaped(w[4]) " | " short(w[5]) " | " fixed(W_theta[a, i], 2) " | " fixed(w[6], 2) " |"
    }
    if (N_failed) {
        print "\n## Not measured\n"
        for (i = 1; i <= N_failed; i++) print "- " code(Failed[i]) ": " code(Why[i])
    }
}
