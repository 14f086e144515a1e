#!/bin/bash
# Runs inside the VM. Two RoCE devices, one on each end of a veth.
set -u
uptime
modprobe -a veth crc32_generic rdma_rxe ib_uverbs
ip link add v0 type veth peer name v1
ip addr add 10.9.0.1/24 dev v0
ip addr add 10.9.0.2/24 dev v1
# Both ends are in one namespace (rxe knows only the first one until Linux 6.16), so packets from
# one's own address must be let in.
for i in all v0 v1; do
	echo 1 >/proc/sys/net/ipv4/conf/$i/accept_local
	echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter
done
ip link set lo up
ip link set v0 up
ip link set v1 up
rdma link add rxe0 type rxe netdev v0
rdma link add rxe1 type rxe netdev v1
mkdir -p /dev/infiniband
for d in /sys/class/infiniband_verbs/uverbs*; do
	IFS=: read -r major minor <"$d/dev"
	[ -e /dev/infiniband/"${d##*/}" ] || mknod /dev/infiniband/"${d##*/}" c "$major" "$minor"
done
rdma link
ibv_devinfo | grep -E "hca_id|state|active_mtu"
for g in /sys/class/infiniband/rxe*/ports/1/gids/[0-3]; do echo "$g $(cat "$g")"; done
ib_send_bw -d rxe1 -x 1 -n 200 -s 4096 --use_old_post_send >/tmp/server.log 2>&1 &
sleep 2
LD_PRELOAD=/slowrank/libslowrank_verbs.so ib_send_bw -d rxe0 -x 1 -n 200 -s 4096 --use_old_post_send 127.0.0.1
wait
cat /sys/class/net/v0/statistics/tx_packets
ls -la /dev/shm
exit 0
