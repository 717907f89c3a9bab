# shellcheck shell=sh
# goal.sh - read by the other scripts: goal NAME VALUE RELATION LIMIT adds a line to the table that
# run.sh prints. RELATION is "at most" or "at least".
goal() {
	printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"${GOALS:-/dev/null}"
	printf '%s\t%s\t%s %s\n' "$1" "$2" "$3" "$4"
}
