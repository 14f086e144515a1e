#!/bin/sh
# TaskProlog= of slurm.conf: labels each task, so that the agent of prolog.sh finds it; what is printed here becomes its
# environment. The coordinator of a job over several nodes is on the first of them.
case ${SLURM_JOB_ID-} in '' | *[!0-9]*) exit 0 ;; esac
[ -z "${SLOWRANK_JOB-}" ] || exit 0 # the user has a name for it
echo "export SLOWRANK_JOB=slurm-$SLURM_JOB_ID"
if [ "${SLURM_JOB_NUM_NODES:-1}" -gt 1 ]; then
	first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" 2>/dev/null | head -n 1)
	[ -z "$first" ] || echo "export SLOWRANK_LEADER=$first"
fi
exit 0
