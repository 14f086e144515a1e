#!/bin/sh
# Prolog= of slurm.conf, on each node, as root: watches the job that begins, without a word of its user's. TaskProlog= is
# task_prolog.sh, which labels its tasks; Epilog= is epilog.sh. Never fails: a node is not drained for slowrank.
# attach-labelled.sh is looked for beside this folder, or is AGENT; records are in RECORDS (/var/lib/slowrank).
: "${AGENT:=$(dirname "$0")/../attach-labelled.sh}" "${RECORDS:=/var/lib/slowrank}" "${RUN:=/run/slowrank}"
export RECORDS
case ${SLURM_JOB_ID-} in '' | *[!0-9]*) exit 0 ;; esac
[ -x "$AGENT" ] || exit 0

(
	umask 077
	mkdir -p "$RUN" "$RECORDS" && cd / || exit
	setsid "$AGENT" --job "slurm-$SLURM_JOB_ID" </dev/null >"$RECORDS/slurm-$SLURM_JOB_ID.txt" 2>&1 &
	echo $! >"$RUN/slurm-$SLURM_JOB_ID.pid"
	# slurmd ends what is left of the prolog's session.
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		[ "$(sed 's/.*) //' "/proc/$!/stat" 2>/dev/null | cut -d ' ' -f 4)" != $! ] || break
		sleep 0.1
	done
)
exit 0
