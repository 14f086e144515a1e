#!/bin/sh
# Epilog= of slurm.conf, on each node, as root: ends what prolog.sh started, once the record is written. Never fails.
: "${RUN:=/run/slowrank}"
case ${SLURM_JOB_ID-} in '' | *[!0-9]*) exit 0 ;; esac
file=$RUN/slurm-$SLURM_JOB_ID.pid
[ -r "$file" ] || exit 0
read -r agent <"$file" || exit 0
rm -f "$file"

# Still the process that prolog.sh started, and not another one with its number.
is_agent() { { tr '\0' ' ' <"/proc/$agent/cmdline"; } 2>/dev/null | grep -q -e "--job slurm-$SLURM_JOB_ID \$"; }
is_agent || exit 0
kill "$agent"
for _ in 1 2 3 4 5 6 7 8 9 10; do
	is_agent || exit 0
	sleep 1
done
kill -KILL -- "-$agent" 2>/dev/null # setsid: with all that it started
exit 0
