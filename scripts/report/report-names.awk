# report-names.awk - makes the names in the index of a report safe and unique. Needs json.awk
# before it.
BEGIN { json_tables() }
{
    $1 = tsv_str($1)
    if (n[$1]++) $1 = $1 " (" n[$1] ")"
    print
}
