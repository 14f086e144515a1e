#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts one rank of an unmodified MPI program under a CPU quota, by a cgroup of its own:
#     mpirun -n 4 throttle_rank.sh RANK PERCENT PROGRAM [ARG...]
# The cgroup is called slowrank-fault-PID; who started the job removes it afterwards.
set -euo pipefail
rank=$1 percent=$2
shift 2
if [[ $OMPI_COMM_WORLD_RANK == "$rank" ]]; then
	root=$(awk '$3 == "cgroup" && $4 ~ /(^|,)cpu(,|$)/ {print $2; exit}' /proc/self/mounts)
	if [[ -n $root ]]; then
		group=$root/slowrank-fault-$$
		mkdir "$group"
		echo 100000 >"$group/cpu.cfs_period_us"
		echo $((percent * 1000)) >"$group/cpu.cfs_quota_us"
	else
		root=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/self/mounts)
		group=$root/slowrank-fault-$$
		echo +cpu >"$root/cgroup.subtree_control"
		mkdir "$group"
		echo "$((percent * 1000)) 100000" >"$group/cpu.max"
	fi
	echo $$ >"$group/cgroup.procs"
fi
exec "$@"
