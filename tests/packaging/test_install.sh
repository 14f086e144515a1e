#!/usr/bin/env bash
# What `cmake --install` makes: the program finds its libraries, pages and completions have every option.
# usage: tests/packaging/test_install.sh BUILD_DIR
set -euo pipefail
export LC_ALL=C

build=$(readlink -f "${1:?usage: test_install.sh BUILD_DIR}")
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
bad=0
fail() {
	echo "install: $*" >&2
	bad=1
}

(umask 077 && DESTDIR=$folder cmake --install "$build" --prefix /opt/slowrank >/dev/null)
root=$folder/opt/slowrank
closed=$(find "$root" ! -type l ! \( -type d -perm 755 -o -perm 644 -o -perm 755 \) -printf '%M %P; ')
[[ -z $closed ]] || fail "not for all users: $closed"
slowrank=$root/bin/slowrank
share=$root/share

# As the device's library is found, so are the others, beside it.
for library in inject marker verbs; do
	[[ -e $root/lib/slowrank/libslowrank_$library.so ]] || fail "no libslowrank_$library.so"
done
for platform in x86_64 haswell xeon_phi i686; do # where the build has them
	[[ ! -e $build/libslowrank_nothing_32.so || -e $root/lib/slowrank/$platform/libslowrank_verbs.so ]] || fail "no $platform/libslowrank_verbs.so"
done
found=$(cd "$folder" && "$slowrank" run --quiet --sources device --record "$folder/job.slr" -- printenv NCCL_PROFILER_PLUGIN)
[[ $(readlink -f "$found") == "$root/lib/slowrank/libslowrank_inject.so" ]] || fail "the library of ranks: $found"
for file in "$root/include/slowrank.h" "$share"/doc/slowrank/{LICENSE,README.md,docs/operations.md,examples/hooks/mail.sh}; do
	[[ -e $file ]] || fail "no ${file#"$root"}"
done
[[ -x $share/doc/slowrank/examples/hooks/mail.sh ]] || fail "an example that cannot be run"

# What bash offers for words, the last of which is being typed.
complete_words() {
	COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
	_slowrank slowrank "${*: -1}" "${*: -2:1}"
	printf '%s\n' "${COMPREPLY[@]:-}"
}
# shellcheck source=/dev/null
. "$share/bash-completion/completions/slowrank"
! command -v zsh >/dev/null || zsh -n "$share/zsh/site-functions/_slowrank" || fail "zsh does not read its completion"

commands=$("$slowrank" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p')
page=$(zcat "$share/man/man1/slowrank.1.gz" | sed 's/\\-/-/g')
offered=$(complete_words slowrank "")
for command in $commands; do
	grep -qx "$command" <<<"$offered" || fail "bash does not offer $command"
done
count=0
for command in $commands; do
	help=$("$slowrank" "$command" --help)
	grep -q "slowrank-$command" <<<"$page" || fail "slowrank(1) does not name $command"
	text=$(zcat "$share/man/man1/slowrank-$command.1.gz" | sed 's/\\-/-/g')
	offered=$(complete_words slowrank "$command" -)
	while read -r option; do
		count=$((count + 1))
		grep -qwF -- "$option" <<<"$text" || fail "slowrank-$command(1) has no $option"
	done < <(grep -oE -- '--[a-z][a-z-]+' <<<"$help" | sort -u)
	# In the list of options one stands in front, or beside another one.
	while read -r option; do
		count=$((count + 1))
		grep -qxF -- "$option" <<<"$offered" || fail "bash does not offer $option of $command"
		grep -qF -- "'*${option}[" "$share/zsh/site-functions/_slowrank" || fail "zsh does not offer $option of $command"
	done < <({
		grep -oE '^  -.*' <<<"$help" | sed 's/^  //; s/   *.*//' | grep -oE -- '(^|, )--?[a-z-]+' | sed 's/^, //'
		grep -oE -- '--tls-[a-z]+' <<<"$help"
	} | sort -u)
	for section in NAME SYNOPSIS DESCRIPTION OPTIONS "EXIT STATUS" ENVIRONMENT FILES "SEE ALSO"; do
		grep -qx ".SH $section" <<<"$text" || fail "slowrank-$command(1) has no $section"
	done
done
((count > 200)) || fail "only $count options were looked for"

expect() { # WORDS, and what is offered for the last one
	local offered
	read -ra typed <<<"$1"
	[[ $1 != *" " ]] || typed+=("")
	offered=$(complete_words "${typed[@]}" | sort | tr '\n' ' ')
	[[ $offered == "$2 " ]] || fail "offered for '$1': $offered"
}
expect "slowrank run --deep o" "off on"
expect "slowrank export --format " "csv perfetto sqlite"
expect "slowrank export --table inc" "incident_ranks incidents"
expect "slowrank report --format " "flame folded html json text"
expect "slowrank report --of " "control difference suspect"
expect "slowrank report --explain " "all transfers"
expect "slowrank history --format j" "json"
expect "slowrank import --from " "whatif"
expect "slowrank stacks --format f" "folded"
expect "slowrank run --sources " "all none"
expect "slowrank key " "http webhook"
expect "slowrank run --record $share/doc/slowrank/LIC" "$share/doc/slowrank/LICENSE"
expect "slowrank run --job " ""
expect "slowrank histor" "history"

((!bad)) || exit 1
echo "$count options are in pages and completions"
