#!/bin/sh
# Drains Slurm nodes whose hardware slows a job down: no new job is put there, the running ones go on.
#   slowrank run --on-incident /opt/slowrank/slurm-drain.sh -- srun ...
# The coordinator's user must be one that Slurm lets drain nodes (root, SlurmUser, an operator). DRAIN_CAUSES: for which
# causes (docs/operations.md, Causes); what the job does to itself, such as checkpoints, is no reason.
set -eu
: "${DRAIN_CAUSES:=gpu-error gpu-clock longer-kernels cpu-clock cpu-steal nic-link}"

case $INCIDENT_EVENT in alert | update) ;; *) exit 0 ;; esac
case " $DRAIN_CAUSES " in *" $INCIDENT_CAUSE "*) ;; *) exit 0 ;; esac
for host in $INCIDENT_HOSTS; do
	scontrol update NodeName="${host%%.*}" State=DRAIN \
		Reason="slowrank: $INCIDENT_CAUSE of rank $INCIDENT_RANKS, job $INCIDENT_JOB ${INCIDENT_SLOWDOWN}x slower"
done
