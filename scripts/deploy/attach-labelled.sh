#!/bin/sh
# Watches each job of this host whose processes have SLOWRANK_JOB=NAME in their environment: a label that the job gives
# itself. Of a job over several hosts its environment also has SLOWRANK_LEADER=HOST (of rank 0) or
# SLOWRANK_COORDINATOR=tcp://HOST:PORT, which is where the coordinator is to be found. A job that has a slowrank of its
# own (slowrank run) is left alone. Without end, or with --job NAME that job only.
#   RECORDS: folder of the records (/var/lib/slowrank); PERIOD: seconds between two looks (5); SLOWRANK: the program
set -u
: "${RECORDS:=/var/lib/slowrank}" "${PERIOD:=5}" "${SLOWRANK:=slowrank}"
only=
case ${1-} in
--job) only=${2:?usage: attach-labelled.sh [--job NAME]} ;;
?*)
	echo "usage: attach-labelled.sh [--job NAME]" >&2
	exit 2
	;;
esac
unset SLOWRANK_JOB SLOWRANK_LEADER SLOWRANK_COORDINATOR # in a job's own script: they are not this one's

known=$(mktemp -d) || exit 1
end() {
	trap '' TERM INT
	# shellcheck disable=SC2046 # several processes
	kill $(jobs -p) 2>/dev/null
	wait
	rm -rf "$known"
	exit 0
}
trap end TERM INT

# What a job says is not trusted: a value with a character that is not in PATTERN's set counts as none.
value() { # FILE NAME PATTERN
	{ tr '\0' '\n' <"$1"; } 2>/dev/null | sed -n "s/^$2=\\($3\\)\$/\\1/p" | head -n 1
}
job_of() { value "/proc/$1/environ" SLOWRANK_JOB '[A-Za-z0-9][A-Za-z0-9_.-]\{0,62\}'; }
field() { sed 's/.*) //' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f "$2"; } # 2: the parent, 20: when it started

watch() { # JOB PID...: one attach for these processes and all below them
	job=$1
	shift
	environment=/proc/$1/environ
	coordinator=$(value "$environment" SLOWRANK_COORDINATOR '\(tls+\)\{0,1\}tcp:\/\/[A-Za-z0-9][][A-Za-z0-9.:-]*')
	leader=$(value "$environment" SLOWRANK_LEADER '[A-Za-z0-9][A-Za-z0-9.:-]*')
	"$SLOWRANK" attach --job "$job" ${coordinator:+--coordinator "$coordinator"} ${leader:+--leader "$leader"} \
		--record "$RECORDS/$job-$(date +%Y%m%dT%H%M%S).slr" --pid "$@" &
}

# "JOB/PID" of labelled processes that are not known yet, without those below them; jobs with a slowrank of their own
# are not among them.
look() {
	# shellcheck disable=SC2013 # such a name has no space
	for file in $(grep -alz '^SLOWRANK_JOB=' /proc/[0-9]*/environ 2>/dev/null); do
		pid=${file#/proc/}
		pid=${pid%/environ}
		job=$(job_of "$pid")
		if [ -z "$job" ] || [ "${only:-$job}" != "$job" ]; then continue; fi
		started=$(field "$pid" 20)
		if [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = slowrank ]; then
			echo "own $job"
		elif [ -n "$started" ] && [ ! -e "$known/$pid-$started" ] && [ "$(job_of "$(field "$pid" 2)")" != "$job" ]; then
			echo "new $job/$pid"
		fi
	done | awk '$1 == "own" { own[$2] = 1 } $1 == "new" { new[$2] = 1 }
		END { for (process in new) { split(process, parts, "/"); if (!own[parts[1]]) print process } }'
}

while :; do
	found=$(look)
	# Those of a job that are new since the last look are watched together, when they have had time to come.
	sleep "$PERIOD" &
	wait $!
	for job in $(echo "$found" | cut -d / -f 1 | sort -u); do
		set --
		for process in $found; do
			pid=${process#*/}
			started=$(field "$pid" 20)
			if [ "${process%/*}" = "$job" ] && [ -n "$started" ]; then
				touch "$known/$pid-$started"
				set -- "$@" "$pid"
			fi
		done
		if [ $# -gt 0 ]; then watch "$job" "$@"; fi
	done
done
