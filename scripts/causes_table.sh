#!/usr/bin/env bash
# The tables of causes in docs/operations.md and docs/analysis.md are what analysis/explain/causes.def says. Prints how they
# differ and exits with 1 when they do; with --update it writes the tables instead. Exit 2: there is no program that prints them.
# usage: scripts/causes_table.sh [--update] [PROGRAM]    default: build/causes_table
set -euo pipefail
cd "$(dirname "$0")/.."
update=0
[[ ${1:-} == --update ]] && update=1 && shift
program=${1:-build/causes_table}
[[ -x $program ]] || {
	echo "causes_table: no program $program: build it first (ninja -C build causes_table)" >&2
	exit 2
}
status=0
compare() { # PAGE [OPTION of the program]
	local page=$1 made
	made=$("$program" "${@:2}" | awk -v page="$page" '
		{ rows = rows $0 "\n" }
		END {
			while ((getline line < page) > 0) {
				if (line == "<!-- end of causes -->")
					inside = 0
				if (!inside)
					print line
				if (line ~ /^<!-- causes: /) {
					printf "%s", rows
					inside = marks = 1
				}
			}
			if (inside || !marks)
				print "no marks for the table of causes"
		}')
	if ((update)); then
		printf '%s\n' "$made" >"$page"
	elif ! diff "$page" - <<<"$made"; then
		echo "causes_table: $page is not what causes.def says: scripts/causes_table.sh --update" >&2
		status=1
	fi
}
compare docs/operations.md
compare docs/analysis.md --rules
exit $status
