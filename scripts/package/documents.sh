#!/bin/sh
# Man pages and completions for bash and zsh, of the program's own help texts.
# usage: scripts/package/documents.sh OUT_DIR PROGRAM...       PROGRAM with what runs it before it, if anything
set -eu
export LC_ALL=C

here=$(dirname "$(readlink -f "$0")")
out=${1:?usage: documents.sh OUT_DIR PROGRAM...}
shift
mkdir -p "$out"
version=$("$@" --version | cut -d' ' -f2)
# A page is as old as the text that it is made of; a given time makes two builds the same.
date=$(date -u -d "@${SOURCE_DATE_EPOCH:-$(stat -c %Y "$here/../../CHANGELOG.md")}" +%Y-%m-%d)

parse() { "$@" --help | awk -f "$here/help.awk"; }

commands=$(parse "$@" | awk -F '\t' '/^text\t/ { listed = $2 == "commands:" } listed && /^item/ { print $2 }' | tr '\n' ' ')
page() { # NAME COMMAND SUMMARY, and a parsed text
	awk -v command="$2" -v summary="$3" -v all="$commands" -v version="$version" -v date="$date" \
		-f "$here/page.awk" >"$out/$1.1"
	gzip -9nf "$out/$1.1"
}

parse "$@" | page slowrank "" ""
for command in $commands; do
	summary=$(parse "$@" | awk -F '\t' -v command="$command" '$1 == "item" && $2 == command { print $3 }')
	parse "$@" "$command" | page "slowrank-$command" "$command" "${summary%: slowrank *}"
done

cases() { # SHELL PROGRAM...
	shell=$1
	shift
	for command in $commands; do
		parse "$@" "$command" | awk -v shell="$shell" -v command="$command" -f "$here/completion.awk"
	done
}

cat >"$out/slowrank.bash" <<BASH
# bash completion for slowrank
_slowrank() {
	local word=\$2 previous=\$3 command=\${COMP_WORDS[1]} words= options= files= i
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		COMPREPLY=(\$(compgen -W "$commands--help --version" -- "\$word"))
		return
	fi
	for ((i = 2; i < COMP_CWORD; i++)); do # behind it is the job's own command
		[[ \${COMP_WORDS[i]} == -- ]] || continue
		if declare -F _command_offset >/dev/null; then _command_offset \$((i + 1)); fi
		return
	done
	case \$command:\$previous in
$(cases bash "$@")
	*) return ;;
	esac
	[[ \$word != -* ]] || words=\$options
	[[ -z \$words ]] || COMPREPLY=(\$(compgen -W "\$words" -- "\$word"))
	[[ -z \$files || \$word == -* ]] || COMPREPLY+=(\$(compgen -f -- "\$word"))
}
complete -o filenames -o bashdefault -F _slowrank slowrank
BASH

cat >"$out/_slowrank" <<ZSH
#compdef slowrank
if ((CURRENT == 2)); then
	_values command ${commands}--help --version
	return
fi
local command=\${words[2]}
shift words
((CURRENT--))
case \$command in
$(cases zsh "$@")
esac
ZSH
