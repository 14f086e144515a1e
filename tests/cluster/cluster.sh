#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Several nodes on one machine: network namespaces, joined by a bridge in a namespace of its own.
# Needs root, iproute2, util-linux. Touches nothing outside the namespaces it makes.
#
#   cluster.sh up N              makes nodes node0 .. node(N-1)
#   cluster.sh down              ends what runs in them, and removes them
#   cluster.sh exec NODE CMD...  runs a command in a node, with the node's host name
#   cluster.sh shape NODE KBIT   limits what the node sends to that rate; unshape NODE lifts it
#   cluster.sh agent NODE CMD    what mpirun calls instead of ssh
#
# CLUSTER_NAME names the cluster (default: slowrank), so that several can stand side by side.
set -euo pipefail

prefix=${CLUSTER_NAME:-slowrank}
switch=$prefix-switch

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
	done
	trap - ERR
}

down() {
	local namespace pids
	for namespace in $(namespaces); do
		pids=$(ip netns pids "$namespace")
		[[ -z $pids ]] || kill -KILL $pids 2>/dev/null || true
	done
	for namespace in $(namespaces); do
		ip netns delete "$namespace"
	done
}

# Only the network and the host name differ: /sys and /proc stay those of the machine.
run_in() {
	local node=$1
	shift
	[[ -e /run/netns/$prefix-$node ]] || die "no node is called $node"
	exec nsenter --net="/run/netns/$prefix-$node" unshare --uts \
		sh -c 'hostname "$0" && exec "$@"' "$node" "$@"
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

[[ $# -ge 1 ]] || die "usage: cluster.sh up N | down | exec NODE CMD... | shape NODE KBIT | unshape NODE"
((EUID == 0)) || die "needs root"
verb=$1
shift
case $verb in
up) up "${1:-}" ;;
down) down ;;
exec) run_in "$@" ;;
shape) shape "${1:-}" "${2:-}" ;;
unshape) unshape "${1:-}" ;;
# Open MPI passes the command as words that a shell at the other end would have joined.
agent) node=$1 && shift && run_in "$node" sh -c "$*" ;;
*) die "no verb is called $verb" ;;
esac
