#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several nodes on one machine: network namespaces, joined by a bridge in a namespace of its own. What
# runs in a node has the node's host name, boot id, /etc/hosts, /tmp, /dev/shm and /run/slowrank; nodes share the
# tree this script lies in. Needs root, iproute2, util-linux. Touches nothing outside but /run/CLUSTER_NAME-cluster.
#
#   cluster.sh up N              makes nodes node0 .. node(N-1)
#   cluster.sh down              ends what runs in them, and removes them
#   cluster.sh exec NODE CMD...  runs a command in a node
#   cluster.sh slurm [LINE...]   starts Slurm on all nodes, its controller on the first, with these lines in slurm.conf;
#                                exec finds it
#   cluster.sh apart [LINE...]   the same, and what Slurm runs on a node sees that node's processes only
#   cluster.sh shape NODE KBIT   limits what the node sends to that rate; unshape NODE lifts it
#   cluster.sh ipv6              gives the nodes IPv6 addresses, too: fd00:213::1 is node0-ipv6
#   cluster.sh close NODE PORTS [FROM]  drops what comes to these TCP ports (FIRST-LAST) of the node over IPv4, from the
#                                node FROM alone; open NODE lets all in again
#   cluster.sh agent NODE CMD    what mpirun calls instead of ssh; also a program: /run/CLUSTER_NAME-cluster/agent
#
# CLUSTER_NAME names the cluster (default: slowrank), so that several can stand side by side.
set -euo pipefail

prefix=${CLUSTER_NAME:-slowrank}
switch=$prefix-switch
state=/run/$prefix-cluster
shared=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)

die() {
	echo "cluster.sh: $*" >&2
	exit 2
}

namespaces() {
	ip netns list | awk '{print $1}' | grep -E "^$prefix-(switch|node[0-9]+)$" || true
}

up() {
	local count=$1 i
	[[ $count =~ ^[0-9]+$ ]] && ((count >= 1 && count <= 200)) || die "up needs 1 to 200 nodes"
	[[ -z $(namespaces) ]] || die "cluster $prefix is up already: cluster.sh down"
	trap down ERR
	mkdir -m 755 "$state"
	echo "127.0.0.1 localhost" >"$state/hosts"
	printf '#!/bin/sh\nexec "%s" agent "$@"\n' "$shared/tests/cluster/cluster.sh" >"$state/agent"
	chmod 755 "$state/agent"
	ip netns add "$switch"
	ip -n "$switch" link set lo up
	ip -n "$switch" link add bridge0 type bridge
	ip -n "$switch" link set bridge0 up
	for ((i = 0; i < count; i++)); do
		ip netns add "$prefix-node$i"
		ip -n "$switch" link add "port$i" type veth peer name eth0 netns "$prefix-node$i"
		ip -n "$switch" link set "port$i" master bridge0 up
		ip -n "$prefix-node$i" link set lo up
		ip -n "$prefix-node$i" address add "10.213.0.$((i + 1))/24" dev eth0
		ip -n "$prefix-node$i" link set eth0 up
		mkdir -m 755 "$state/node$i"
		mkdir -m 1777 "$state/node$i/tmp" "$state/node$i/shm"
		mkdir -m 700 "$state/node$i/run"
		cat /proc/sys/kernel/random/uuid >"$state/node$i/boot_id"
		echo "10.213.0.$((i + 1)) node$i" >>"$state/hosts"
	done
	trap - ERR
}

down() {
	local namespace pids group
	for namespace in $(namespaces); do
		pids=$(ip netns pids "$namespace")
		[[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
	done
	for namespace in $(namespaces); do
		ip netns delete "$namespace"
	done
	rm -rf "$state"
	for group in /sys/fs/cgroup/freezer/slurm_node*; do
		[[ -d $group ]] || continue
		for _ in {1..50}; do # its slurmd may still be on its way out
			rmdir "$group" 2>/dev/null && break
			sleep 0.02
		done
	done
}

# Within the node's namespaces: /sys and most of /proc stay those of the machine.
enter() {
	local node=$1 below_tmp
	shift
	hostname "$node"
	mount --bind "$state/hosts" /etc/hosts
	mount --bind "$state/$node/boot_id" /proc/sys/kernel/random/boot_id
	mount --bind "$state/$node/shm" /dev/shm
	mkdir -p -m 700 /run/slowrank
	mount --bind "$state/$node/run" /run/slowrank
	if [[ $shared == /tmp/* ]]; then
		below_tmp=$state/$node/tmp/${shared#/tmp/}
		mkdir -p "$below_tmp"
		mount --rbind "$shared" "$below_tmp"
	fi
	mount --rbind "$state/$node/tmp" /tmp
	cd "$PWD" 2>/dev/null || cd /
	[[ ! -e $state/slurm.conf ]] || export SLURM_CONF=$state/slurm.conf
	exec "$@"
}

run_in() {
	local node=$1
	[[ -e /run/netns/$prefix-$node ]] || die "no node is called $node"
	exec nsenter --net="/run/netns/$prefix-$node" unshare --mount --uts "$0" enter "$@"
}

together() { run_in "$1" slurmd -N "$1"; }

apart() {
	run_in "$1" unshare --pid --fork --mount-proc sh -c \
		'mount --bind "$0" /proc/sys/kernel/random/boot_id && exec slurmd -D -N "$1"' "$state/$1/boot_id" "$1" </dev/null &>/dev/null &
}

# As real clusters have it, what is left of a step when its tasks end is killed, where cgroups are such
# that Slurm can do so without systemd. Daemons end with their node: down kills what runs there.
slurm() {
	local start=$1 node count tracking=linuxproc
	shift
	PATH=$PATH:/usr/sbin
	count=$(namespaces | grep -c node)
	mkdir -m 755 "$state/munge"
	head -c 32 /dev/urandom >"$state/munge/key"
	chmod 400 "$state/munge/key"
	if [[ -d /sys/fs/cgroup/freezer ]]; then
		tracking=cgroup
		echo "CgroupPlugin=cgroup/v1" >"$state/cgroup.conf"
	fi
	cat >"$state/slurm.conf" <<-END
		ClusterName=$prefix
		SlurmctldHost=node0
		SlurmUser=root
		SlurmdUser=root
		AuthType=auth/munge
		AuthInfo=socket=$state/munge/socket
		CryptoType=crypto/munge
		StateSaveLocation=$state/slurm-state
		SlurmdSpoolDir=$state/%n/slurmd
		SlurmctldPidFile=$state/slurmctld.pid
		SlurmdPidFile=$state/%n/slurmd.pid
		SlurmctldLogFile=$state/slurmctld.log
		SlurmdLogFile=$state/%n/slurmd.log
		ProctrackType=proctrack/$tracking
		TaskPlugin=task/none
		SelectType=select/cons_tres
		SelectTypeParameters=CR_CPU
		MpiDefault=none
		SlurmdParameters=config_overrides
		ReturnToService=2
		SchedulerParameters=sched_interval=1
		NodeName=node[0-$((count - 1))] CPUs=16 State=UNKNOWN
		PartitionName=all Nodes=ALL Default=YES OverSubscribe=YES State=UP
	END
	printf '%s\n' "$@" >>"$state/slurm.conf"
	(run_in node0 munged --force --key-file="$state/munge/key" --socket="$state/munge/socket" \
		--pid-file="$state/munge/pid" --log-file="$state/munge/log" --seed-file="$state/munge/seed")
	(run_in node0 slurmctld)
	for _ in {1..100}; do # a slurmd that comes before it tries again only after 10 s
		! (run_in node0 scontrol ping 2>/dev/null) | grep -q "is UP" || break
		sleep 0.1
	done
	for node in $(namespaces | grep -o 'node[0-9]*$'); do
		("$start" "$node")
	done
	for _ in {1..100}; do
		(run_in node0 srun --immediate=1 -N "$count" true) 2>/dev/null && return
		sleep 0.1
	done
	die "Slurm does not start: $(tail -n 3 "$state"/slurmctld.log "$state"/node*/slurmd.log)"
}

# A bucket of 0.1 ms only: a bigger one would let a whole collective through after each pause.
# A long queue, so that the link is slow and not lossy.
shape() {
	local node=$1 kilobits=$2 burst
	[[ $kilobits =~ ^[0-9]+$ ]] && ((kilobits >= 8)) || die "shape needs a rate of 8 kbit or more"
	burst=$((kilobits / 80))
	((burst >= 3200)) || burst=3200
	tc -n "$prefix-$node" qdisc replace dev eth0 root tbf rate "${kilobits}kbit" \
		burst "$burst" latency 400ms
}

unshape() {
	tc -n "$prefix-$1" qdisc delete dev eth0 root
}

ipv6() {
	local i
	for ((i = 1; i <= $(namespaces | grep -c node); i++)); do
		ip -n "$prefix-node$((i - 1))" address add "fd00:213::$i/64" dev eth0 nodad
		echo "fd00:213::$i node$((i - 1))-ipv6" >>"$state/hosts"
	done
}

close_ports() {
	local from=()
	[[ -z ${3:-} ]] || from=(from "10.213.0.$((${3#node} + 1))")
	# Before the table of the node's own addresses, which is asked first.
	ip -n "$prefix-$1" rule add pref 1 "${from[@]}" iif eth0 ipproto tcp dport "$2" blackhole
	ip -n "$prefix-$1" rule add pref 2 lookup local 2>/dev/null || return 0 # it is closed to others already
	ip -n "$prefix-$1" rule delete pref 0
}

open_ports() {
	while ip -n "$prefix-$1" rule delete pref 1 2>/dev/null; do
		:
	done
}

[[ $# -ge 1 ]] || die "usage: cluster.sh up N | down | exec NODE CMD... | slurm | shape NODE KBIT | unshape NODE"
((EUID == 0)) || die "needs root"
verb=$1
shift
case $verb in
up) up "${1:-}" ;;
down) down ;;
exec) run_in "$@" ;;
enter) enter "$@" ;; # of run_in
slurm) slurm together "$@" ;;
apart) slurm apart "$@" ;;
ipv6) ipv6 ;;
close) close_ports "$@" ;;
open) open_ports "$@" ;;
shape) shape "${1:-}" "${2:-}" ;;
unshape) unshape "${1:-}" ;;
# Open MPI passes the command as words that a shell at the other end would have joined.
agent) node=$1 && shift && run_in "$node" sh -c "$*" ;;
*) die "no verb is called $verb" ;;
esac
