#!/usr/bin/env bash
# The tables of causes in docs/operations.md and docs/analysis.md are what analysis/explain/causes.def says, and each cause has
# its page in docs/causes. Prints what differs and exits with 1 when something does; with --update it writes the tables
# instead. Exit 2: there is no program that prints them.
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
# Each cause, a hang, and what has no cause: a page with its name, its class and all parts; and no page of anything else.
check_pages() {
	local table name class page
	table=$("$program")
	while IFS='|' read -r _ name class _; do
		[[ $name =~ \(causes/(.+)\.md\) ]] || continue
		check_page "${BASH_REMATCH[1]}" "^Class${class% }\\."
	done <<<"$table"
	check_page hang
	check_page unknown
	for page in docs/causes/*.md; do
		name=$(basename "$page")
		[[ $name == hang.md || $name == unknown.md || $table == *"(causes/$name)"* ]] && continue
		echo "causes_table: $page: causes.def has no such cause" >&2
		status=1
	done
}
check_page() { # NAME [PATTERN...]
	local page=docs/causes/$1.md part
	for part in "^# $1\$" "${@:2}" '^## What it looks like$' '^## How to be sure$' '^## What to do$' \
		'^## Easily mistaken for$' '^## What slowrank needs to see it$'; do
		grep -qs "$part" "$page" && continue
		echo "causes_table: $page: no line like $part" >&2
		status=1
	done
}
compare docs/operations.md
compare docs/analysis.md --rules
check_pages
exit $status
