#!/usr/bin/env bash
# Checks who includes whom (docs/architecture.md): prints FILE:LINE for each include that breaks a
# rule, and exits with 1 when there is one.
# usage: scripts/check_includes.sh [TREE]
set -euo pipefail
cd "${1:-$(dirname "$0")/..}"

# The rules: "FOLDER-OR-FILE may include PREFIX...". The longest match counts; a room may include
# itself only where it is named. SKELETON: a generated NAME.skel.h; LOCAL: a file beside it.
rules='
analysis/            analysis/
analysis/base/       analysis/base/ analysis/policy.h analysis/explain/causes.def
analysis/steps/      analysis/base/ analysis/steps/ analysis/policy.h
analysis/join/       analysis/base/ analysis/join/ analysis/policy.h
analysis/attribute/  analysis/base/ analysis/join/ analysis/attribute/ analysis/policy.h
analysis/explain/    analysis/base/ analysis/join/ analysis/attribute/ analysis/explain/ analysis/policy.h
analysis/detect/     analysis/base/ analysis/join/ analysis/attribute/ analysis/detect/ analysis/policy.h
bpf/event_layout.h
bpf/                 bpf/ LOCAL
probe/wire/          analysis/ probe/wire/
probe/auth/          probe/auth/
probe/config/        probe/config/
probe/ring/          analysis/ probe/ring/
probe/inject/        analysis/base/step.h analysis/clock probe/ring/ probe/inject/
probe/               analysis/ bpf/ probe/ SKELETON
coordinator/         analysis/ probe/auth/ probe/config/ probe/wire/ coordinator/
main.c               analysis/base/version.h probe/commands.h probe/terminal_text.h coordinator/commands.h
tests/               ANY
bench/               ANY
'
# Libraries that only some rooms may know: "HEADER-PREFIX FOLDER-OR-FILE...".
libraries='
msgpack   probe/wire/ tests/ bench/
nng/      probe/uplink probe/auth/tls_files coordinator/ tests/ bench/
bpf/      probe/sources/ probe/stacks/ probe/cmd_doctor probe/doctor_ bpf/ tests/ bench/
openssl/  probe/auth/ tests/fuzz/
sqlite3   coordinator/export/sqlite tests/ bench/
zstd      coordinator/record/ tests/ bench/
microhttpd coordinator/http/library
curl/     coordinator/http/curl
libelf    probe/attach/ tests/
gelf      probe/attach/ tests/
infiniband probe/ tests/ bench/
'
# All that analysis needs of libc: no file, no clock, no thread, no environment.
pure='assert errno float inttypes limits math stdarg stdbool stddef stdint stdio stdlib string'

find analysis bpf probe coordinator tests bench main.c -name '*.[ch]' -type f 2>/dev/null | LC_ALL=C sort |
	xargs grep -Hn '^[[:space:]]*#[[:space:]]*include' |
	awk -v rules="$rules" -v libraries="$libraries" -v pure="$pure" '
function starts(text, prefix) { return substr(text, 1, length(prefix)) == prefix }
function complain(what) { print place ": " what; bad = 1 }
BEGIN {
	n = split(rules, lines, "\n")
	for (i = 1; i <= n; i++) {
		m = split(lines[i], words, /[ \t]+/)
		if (m == 0 || words[1] == "")
			continue
		owners[++owner_count] = words[1]
		for (j = 2; j <= m; j++)
			allowed[owner_count] = allowed[owner_count] " " words[j]
	}
	n = split(libraries, lines, "\n")
	for (i = 1; i <= n; i++) {
		m = split(lines[i], words, /[ \t]+/)
		if (m < 2)
			continue
		library[++library_count] = words[1]
		for (j = 2; j <= m; j++)
			users[library_count] = users[library_count] " " words[j]
	}
	n = split(pure, words, " ")
	for (i = 1; i <= n; i++)
		is_pure[words[i] ".h"] = 1
}
{
	match($0, /^[^:]*:[0-9]+:/)
	place = substr($0, 1, RLENGTH - 1)
	file = place
	sub(/:[0-9]+$/, "", file)
	text = substr($0, RLENGTH + 1)
	if (match(text, /"[^"]*"/))
		own = 1
	else if (match(text, /<[^>]*>/))
		own = 0
	else {
		complain("an include by macro cannot be checked")
		next
	}
	header = substr(text, RSTART + 1, RLENGTH - 2)
	if (own) {
		best = 0
		for (i = 1; i <= owner_count; i++)
			if (starts(file, owners[i]) && (!best || length(owners[i]) > length(owners[best])))
				best = i
		good = 0
		m = split(allowed[best], words, " ")
		for (j = 1; j <= m; j++) {
			if (words[j] == "ANY" || (words[j] == "LOCAL" && header !~ /\//) ||
				(words[j] == "SKELETON" && header ~ /^[a-z0-9_]+\.skel\.h$/) ||
				starts(header, words[j]))
				good = 1
		}
		if (header ~ /(^|\/)\.\.?\//)
			complain("\"" header "\" must be named from the top of the tree")
		else if (!good)
			complain("\"" header "\" is not for " (best ? owners[best] : "this folder"))
	} else {
		if (starts(file, "analysis/") && !(header in is_pure))
			complain("<" header "> is not for analysis/, which is pure")
		for (i = 1; i <= library_count; i++) {
			if (!starts(header, library[i]))
				continue
			good = 0
			m = split(users[i], words, " ")
			for (j = 1; j <= m; j++)
				if (starts(file, words[j]))
					good = 1
			if (!good)
				complain("<" header "> is for" users[i] " only")
		}
	}
}
END { exit bad }'
