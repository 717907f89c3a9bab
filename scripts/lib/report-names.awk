# report-names.awk - the index of a report with names that are safe and tell models
# apart; after json.awk.
BEGIN { json_tables() }
{
    $1 = tsv_str($1)
    if (n[$1]++) $1 = $1 " (" n[$1] ")"
    print
}
