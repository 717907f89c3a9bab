# fleet-side.awk - exit status 1 if the model of the row of organ-info in $FILE is none. Needs rows.awk before it.
BEGIN { exit is_side(info_kind(ENVIRON["FILE"])) }
