# Cases of a completion, of what help.awk prints of one command: for bash (shell=bash) or for zsh.
function words(argument,    count, i, parts, found) { # that one can choose from, of "all|RANK" all; "": none
	count = split(argument, parts, "|")
	for (i = 1; i <= count; i++)
		if (parts[i] ~ /^[a-z]/)
			found = found (found == "" ? "" : " ") parts[i]
	return found
}
function is_file(argument) { return argument ~ /^(FILE|OUT|RECORD|FOLDER|OUTPUT)/ }
function option(name, argument, said,    choice, action) {
	if (name in seen)
		return
	seen[name] = 1
	all = all " " name
	choice = words(argument)
	if (shell == "bash") {
		if (argument == "")
			return
		cases = cases sprintf("\t%s:%s) %s ;;\n", command, name, \
			choice != "" ? "words=\"" choice "\"" : is_file(argument) ? "files=1" : "return")
		return
	}
	sub(/(;|:| \().*/, "", said)
	gsub(/['\[\]\\]/, "", said)
	action = choice != "" ? "(" choice ")" : is_file(argument) ? "_files" : ""
	print "\t\t\t'*" name "[" said "]" (argument == "" ? "" : ":" argument ":" action) "' \\"
}
# "-o, --output OUT" or "--key-file FILE, --insecure": options, each with its argument.
function options_of(names, said,    count, i, option_list, parts, argument) {
	count = split(names, option_list, ", ")
	for (i = 1; i <= count; i++) {
		split(option_list[i], parts, " ")
		argument = parts[2]
		if (argument == "" && i < count && option_list[i] ~ /^-[a-z]$/) {
			split(option_list[i + 1], parts, " ")
			argument = parts[2]
			split(option_list[i], parts, " ")
		}
		sub(/\.\.\.$/, "", argument)
		option(parts[1], argument, said)
	}
}
BEGIN {
	FS = "\t"
	if (shell == "zsh")
		print "\t" command ")\n\t\t_arguments \\"
}
$1 == "usage" {
	count = split($2, parts, " ")
	for (i = 3; i <= count; i++) {
		argument = parts[i]
		if (parts[i - 1] ~ /^\[?--/)
			continue
		if (words(argument) != "" && argument !~ /^\[/)
			positional = words(argument)
		else if (is_file(argument))
			files = 1
	}
}
$1 == "item" && $2 ~ /^-/ {
	names = $2
	options_of(names, $3)
	while (match($3, /--tls-[a-z]+/)) { # "with --tls-key and --tls-ca": as this one
		beside[++mentions] = substr($3, RSTART, RLENGTH)
		$3 = substr($3, RSTART + RLENGTH)
	}
}
END {
	for (i = 1; i <= mentions; i++)
		option(beside[i], "FILE", "as --tls-cert")
	if (shell == "bash") {
		printf "%s", cases
		printf "\t%s:*) options=\"%s\"%s%s ;;\n", command, substr(all, 2), \
			positional != "" ? " words=\"" positional "\"" : "", files ? " files=1" : ""
		exit
	}
	print positional != "" ? "\t\t\t'1:what:(" positional ")'" : \
		files ? "\t\t\t'*:file:_files'" : command == "run" ? "\t\t\t'*::command:_normal'" : "\t\t\t'*: :'"
	print "\t\t;;"
}
