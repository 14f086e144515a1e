#!/usr/bin/env bash
# The way of a new user on a bare Debian 12, and how long each part takes: README's quickstart to the first right verdict,
# then the part "Live" of docs/tutorial.md to the page and to an alert in Alertmanager, its blocks as they stand there.
# A script neither reads nor errs: for a person it is the least. Where other work keeps the CPUs busy, the causes of
# alerts are what that makes of them.
# usage: tests/fresh/new_user.sh       exit 77: cannot run here, with the reason
set -euo pipefail
. "$(dirname "$0")/tree.sh"
tree_enter "$@"
tree_make
cat >"$tree/srv/walk.sh" <<'WALK'
set -euo pipefail
shopt -s lastpipe
SECONDS=0
export DEBIAN_FRONTEND=noninteractive
told=
tell() { # seconds since the start, and what there is then
	printf -v row 'walk: %3d:%02d  %s' $((SECONDS / 60)) $((SECONDS % 60)) "$*"
	told+=$row$'\n'
	echo "$row"
}
right='ALERT rank 2 .* host-slow: cgroup-throttle'

scripts/quickstart.sh 2>&1 | while read -r line; do
	echo "$line"
	case $line in
	"== building") tell "packages are installed" ;;
	"== a job of"*) tell "built" ;;
	*) [[ ! $line =~ $right ]] || [[ $told == *verdict* ]] || tell "the first right verdict" ;;
	esac
done
[[ $told == *verdict* ]]
tell "the quickstart has ended"

# The blocks of a page that are marked so, each in a file.
awk -v mark='<!-- run: live -->' '$0 == mark { marked = NR } NR == marked + 1 && /^```sh$/ { inside = 1; file++; next }
	/^```$/ { inside = 0 } inside { print >("/srv/live." file) }' docs/tutorial.md
wait_for() { # COMMAND, and what its output is to have
	local tries said
	for ((tries = 0; tries < 600; tries++)); do
		said=$(eval "$1" 2>/dev/null) || :
		[[ ! $said =~ $2 ]] || return 0
		sleep 0.2
	done
	echo "no '$2' of: $1" >&2
	return 1
}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # as the tutorial says before
. /srv/live.1
job=$!
apt-get install -y -qq curl >/dev/null
wait_for "curl -s http://127.0.0.1:9400/" '<title>'
tell "the page of a job that runs"
wait_for "curl -s http://127.0.0.1:9400/metrics" 'slowrank_incident_info.*ranks="rank 2"'
tell "its metrics name the rank"
service() { # nothing has started them, as there is no init in the tree
	command service prometheus-alertmanager start && command service prometheus start
}
. /srv/live.2 >/srv/live.log 2>&1 || {
	cat /srv/live.log >&2
	echo "the second block of 'Live' ends with an error" >&2
	exit 1
}
tell "Prometheus and Alertmanager are installed"
wait_for ". /srv/live.3" 'SlowrankIncident .*rank 2 '
tell "Alertmanager has the alert"
. /srv/live.3
kill "$job"
wait || :
echo "$told" | grep -E "verdict|page|Alertmanager has" | sed 's/^walk: *//' | paste -sd ';' | sed 's/;/; /g'
WALK
tree_run root bash /srv/walk.sh
