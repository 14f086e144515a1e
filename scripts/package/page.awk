# A man page of what help.awk prints. Variables: command, summary, all (all commands, with spaces), version, date.
function roff(text) {
	gsub(/\\/, "\\e", text)
	gsub(/-/, "\\-", text)
	gsub(/~/, "\\(ti", text)
	gsub(/\^/, "\\(ha", text)
	gsub(/'/, "\\(aq", text)
	return text ~ /^\./ ? "\\&" text : text
}
function section(title) {
	if (title != current)
		print ".SH " title
	started = started && title == current
	current = title
}
function paragraph(text) {
	if (text == "")
		return
	print (started ? ".PP\n" : "") roff(text)
	started = 1
}
BEGIN {
	FS = "\t"
	page = command == "" ? "slowrank" : "slowrank-" command
	printf ".TH %s 1 \"%s\" \"slowrank %s\" \"User Commands\"\n", toupper(roff(page)), date, version
}
!usages && $1 == "text" { # that of the program itself says first what it is for
	sub(/^slowrank [^:]*: /, "", $2)
	summary = $2
	next
}
$1 == "usage" {
	if (!usages++) {
		section("NAME")
		print roff(page) " \\- " roff(summary)
		section("SYNOPSIS")
	}
	print (usages > 1 ? ".br\n" : "") ".B " roff($2)
	next
}
current == "SYNOPSIS" && $2 != "commands:" { section("DESCRIPTION") }
$1 == "item" {
	if ($2 ~ /^-/)
		section("OPTIONS")
	print ".TP\n.B " roff($2) "\n" roff($3)
	started = 1
	next
}
$1 == "text" && $2 == "commands:" {
	section("COMMANDS")
	next
}
$1 == "text" {
	text = $2
	if (match(text, /Exit status:? .*/)) {
		status = substr(text, RSTART)
		sub(/^Exit status:? /, "", status)
		text = substr(text, 1, RSTART - 1)
	} else if (match(text, /The exit status is [^.]*\./))
		status = substr(text, RSTART, RLENGTH)
	if (match(text, /(Each|The) option has an environment variable: ([^.]|\.[^ ])*/)) {
		environment = substr(text, RSTART, RLENGTH)
		text = substr(text, 1, RSTART - 1) substr(text, RSTART + RLENGTH)
		sub(/^\.( |$)/, "", text)
		sub(/\.?$/, ".", environment)
	}
	gsub(/^ +| +$/, "", text)
	paragraph(text)
}
END {
	section("EXIT STATUS")
	paragraph(status != "" ? status : \
		"0, or 2 with one line that says why, for bad usage and for what cannot be done.")
	if (command == "")
		paragraph("That of run is the command's own; 1 is doctor's, where collectives cannot be seen.")
	section("ENVIRONMENT")
	paragraph(environment)
	paragraph("What the command line does not say is taken from variables named as options are, SLOWRANK_RECORD for " \
		"--record; an empty one counts as not set.")
	section("FILES")
	for (i = 1; i <= file_count; i++)
		print ".TP\n.I " roff(files[i]) "\n" roff(said_of[i])
	section("SEE ALSO")
	count = split("slowrank " all, pages, " ")
	for (i = 1; i <= count; i++) {
		name = i == 1 ? pages[i] : "slowrank-" pages[i]
		if (name != page)
			list = list (list == "" ? "" : ",\n") ".BR " roff(name) " (1)"
	}
	gsub(/\(1\),/, "(1),", list)
	print list
	print ".PP\nThe pages of docs, among them operations.md, are installed in share/doc/slowrank."
}
function file(name, said) {
	files[++file_count] = name
	said_of[file_count] = said
}
BEGIN {
	if (command ~ /^(|run|attach|coordinator|report)$/) {
		file("slowrank-JOB.slr", "the record of a run, in the folder where it was started")
		file("/etc/slowrank.conf, ~/.config/slowrank/config", "what not to alert of, a line each: alert-after = 30s")
	}
	if (command !~ /^(report|export|history|import|doctor)$/) {
		file("~/.config/slowrank/key", "the key that probes and coordinator prove to each other")
		file("/run/slowrank, $XDG_RUNTIME_DIR/slowrank, /tmp/slowrank-UID",
			"sockets and locks; the last has what a probe keeps while its coordinator is away, too")
	}
	if (command ~ /^(run|attach|doctor)$/)
		file("../lib/slowrank/libslowrank_inject.so", "beside the program's folder: what goes into ranks on GPUs, for " \
			"times of the device; libslowrank_verbs.so there is for RDMA, libslowrank_marker.so for programs " \
			"that mark their steps")
	if (command ~ /^(export|history|import)$/)
		file("*.slr", "records of runs")
}
