#!/bin/bash
# Runs inside the VM: unmodified rdma-core and perftest on two RoCE devices, one on each end of a
# veth; counts both ways and compares with what perftest says. Prints "ok:" or "FAILED:" lines.
set -u
failed=0
check() { # NAME FOUND WANTED
	if [[ $2 == "$3" ]]; then
		echo "ok: $1: $2"
	else
		echo "FAILED: $1: $2, not $3"
		failed=1
	fi
}

SLOWRANK_VM_PARTS=all
. /slowrank/settings
named() { grep -qwE "$1" <<<"$SLOWRANK_VM_PARTS"; }
wanted() { named "all|$1"; }

echo vm >/proc/sys/kernel/hostname # Open MPI wants one
echo "127.0.0.1 localhost vm" >/etc/hosts
modprobe -a veth crc32_generic rdma_rxe ib_uverbs sch_netem
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
sleep 1

posting=(--use_old_post_send) # by ibv_post_send; without it perftest posts by ibv_wr_...
# pair PROGRAM COUNT SIZE CLIENT_PREFIX...: client on rxe0, server on rxe1.
pair() {
	local program=$1 count=$2 size=$3
	shift 3
	timeout 60 "${server[@]}" "$program" -F -d rxe1 -x 1 -n "$count" -s "$size" -u 17 -t 64 "${posting[@]}" >/tmp/server.log 2>&1 &
	for ((i = 0; i < 150; i++)); do # until the server listens
		ss -ltnH 'sport = :18515' | grep -q . && break
		sleep 0.2
	done
	timeout 60 "$@" "$program" -F -d rxe0 -x 1 -n "$count" -s "$size" -u 17 -t 64 "${posting[@]}" 127.0.0.1 >/tmp/client.log 2>&1
	wait $!
	said=$(awk -v s="$size" '$1 == s && NF >= 4 {print $2}' /tmp/client.log)
	[[ -n $said ]] || cat /tmp/client.log /tmp/server.log
}
field() { jq -r "select($1) | .$2" "$3" 2>/dev/null | head -1; }
preload=(env LD_PRELOAD=/slowrank/libslowrank_verbs.so)
dump=/slowrank/verbs_dump

in_process() { # NAME
	local name=$1
	echo "== in process, $name"
	for program in ib_send_bw ib_write_bw; do
		for size in 64 4096; do
			count=1000
			server=("${preload[@]}")
			pair $program $count $size "${preload[@]}"
			$dump tables >/tmp/tables
			check "$name, $program $size: perftest's requests" "$said" $count
			check "$name, $program $size: posted" "$(field '.device == "rxe0"' posted_requests /tmp/tables)" $count
			check "$name, $program $size: posted bytes" "$(field '.device == "rxe0"' posted_bytes /tmp/tables)" $((count * size))
			check "$name, $program $size: completed bytes" "$(field '.device == "rxe0"' completed_bytes /tmp/tables)" $((count * size))
			check "$name, $program $size: not measurable" \
				"$(jq -r 'select(.device == "rxe0") | .flags % 256 / 64 | floor' /tmp/tables)" 0
			check "$name, $program $size: errors" "$(field '.device == "rxe0"' errors /tmp/tables)" 0
			if [[ $program == ib_send_bw ]]; then
				check "$name, $program $size: received bytes" "$(field '.device == "rxe1"' received_bytes /tmp/tables)" $((count * size))
			fi
			check "$name, $program $size: peer's number" "$(field '.device == "rxe0"' peer /tmp/tables)" \
				"$(field '.device == "rxe1"' number /tmp/tables)"
			check "$name, $program $size: peer's gid" "$(field '.device == "rxe0"' peer_gid /tmp/tables)" \
				"$(field '.device == "rxe1"' gid /tmp/tables)"
			cat /tmp/tables
		done
	done
}

# One direction of the link is made bad; what the sender's queue pair and its device tell.
with_loss() {
	local before clean after rate
	echo "== loss"
	server=("${preload[@]}")
	$dump ports >/tmp/ports_before
	pair ib_send_bw 1000 4096 "${preload[@]}"
	$dump tables >/tmp/clean
	$dump ports >/tmp/ports_clean
	tc qdisc add dev v0 root netem loss 1%
	pair ib_send_bw 1000 4096 "${preload[@]}"
	$dump tables >/tmp/lossy
	$dump ports >/tmp/ports_lossy
	tc qdisc del dev v0 root
	check "loss: completed bytes" "$(field '.device == "rxe0"' completed_bytes /tmp/lossy)" 4096000
	before=$(jq .retransmits /tmp/ports_before) clean=$(jq .retransmits /tmp/ports_clean)
	after=$(jq .retransmits /tmp/ports_lossy)
	echo "retransmits: clean $((clean - before)), 1 % loss $((after - clean))"
	check "loss: retransmits are seen" "$((after - clean > 10 + 3 * (clean - before)))" 1

	tc qdisc add dev v0 root netem rate 20mbit
	pair ib_send_bw 1000 4096 "${preload[@]}"
	$dump tables >/tmp/limited
	tc qdisc del dev v0 root
	clean=$(field '.device == "rxe0"' latency_mean_us /tmp/clean)
	rate=$(field '.device == "rxe0"' latency_mean_us /tmp/limited)
	echo "posted to completed: clean $clean us, limited to 20 Mbit/s $rate us"
	check "rate limit: completed bytes" "$(field '.device == "rxe0"' completed_bytes /tmp/limited)" 4096000
	check "rate limit: times of the pair grow fivefold" "$(awk -v a="$clean" -v b="$rate" 'BEGIN {print (b > 5 * a)}')" 1
	cat /tmp/clean /tmp/lossy /tmp/limited
}

by_uprobes() {
	local program moderation
	echo "== uprobes"
	for program in ib_send_bw ib_write_bw; do
		server=()
		pair $program 1000 4096 $dump always
		grep '^{' /tmp/client.log >/tmp/counted
		check "$program by uprobes: posted" "$(field '.device == "rxe0"' posted_requests /tmp/counted)" 1000
		check "$program by uprobes: posted bytes" "$(field '.device == "rxe0"' posted_bytes /tmp/counted)" 4096000
		moderation=$(sed -n 's/.*CQ Moderation *: *//p' /tmp/client.log)
		check "$program by uprobes: completions" "$(field '.device == "rxe0"' success /tmp/counted)" \
			$(((1000 + moderation - 1) / moderation))
		cat /tmp/counted
	done
	server=($dump always)
	pair ib_send_bw 1000 4096 env
	grep '^{' /tmp/server.log >/tmp/counted
	check "ib_send_bw by uprobes: received bytes" "$(field '.device == "rxe1"' received_bytes /tmp/counted)" 4096000
	server=()
	pair ib_send_bw 1000 4096 $dump windows
	grep '^{' /tmp/client.log
}

link_local() { ip -6 -o addr show dev "$1" scope link | awk '{sub("/.*", "", $4); print $4}'; }

# Four devices on one bridge, one for each rank of a job.
mpi_devices() {
	[[ -e /sys/class/net/br0 ]] && return
	modprobe bridge
	ip link add br0 type bridge
	ip link set br0 up
	for r in 0 1 2 3; do
		ip link add m$r type veth peer name p$r
		ip addr add 10.8.0.$((r + 1))/24 dev m$r
		echo 1 >/proc/sys/net/ipv4/conf/m$r/accept_local
		echo 0 >/proc/sys/net/ipv4/conf/m$r/rp_filter
		ip link set p$r master br0
		ip link set p$r up
		ip link set m$r up
	done
	sleep 3 # until the addresses are no more tentative
	for r in 0 1 2 3; do
		for peer in 0 1 2 3; do
			((r == peer)) || ip neigh replace 10.8.0.$((peer + 1)) dev m$r nud permanent \
				lladdr "$(cat /sys/class/net/m$peer/address)"
			((r == peer)) || ip -6 neigh replace "$(link_local m$peer)" dev m$r nud permanent \
				lladdr "$(cat /sys/class/net/m$peer/address)"
		done
		rdma link add rxm$r type rxe netdev m$r
	done
	for d in /sys/class/infiniband_verbs/uverbs*; do
		IFS=: read -r major minor <"$d/dev"
		[ -e /dev/infiniband/"${d##*/}" ] || mknod /dev/infiniband/"${d##*/}" c "$major" "$minor"
	done
	sleep 1
}

mpi_verdict() { # NAME REPORT
	local name=$1 report=$2
	check "$name: alerts before it" "$(wc -l </tmp/$name.healthy)" 0
	check "$name: class" "$(jq -r '.verdicts[0].class' "$report")" comm-slow
	check "$name: rank" "$(jq -c '.verdicts[0].ranks' "$report")" "[$faulty_rank]"
	check "$name: named at any time" \
		"$(jq '.verdict.ranks[]' "/tmp/$name.alerts" | sort -u | xargs)" "$faulty_rank"
	check "$name: pair has the rank" \
		"$(jq -r --argjson r "$faulty_rank" '.verdicts[0].pairs[0] | .from == $r or .to == $r' "$report")" true
}

# mpi_job NAME RANKS HEALTHY_S FAULT_S NETEM...: a training loop over Open MPI, UCX and verbs. After a
# healthy time the packets that one rank sends are treated as NETEM says.
faulty_rank=${SLOWRANK_VM_RANK:-1}
mpi_job() {
	local name=$1 ranks=$2 healthy_s=$3 fault_s=$4 apps=() job report
	shift 4
	report=/tmp/$name.json
	mpi_devices
	for ((r = 0; r < ranks; r++)); do
		((r == 0)) || apps+=(:)
		apps+=(-n 1 -x "UCX_NET_DEVICES=rxm$r:1" /slowrank/workload_mpi --steps 100000 --step-ms 40
			--collectives 2 --bytes "${SLOWRANK_VM_BYTES:-131072}")
	done
	rm -f /tmp/$name.alerts
	# UCX takes datagrams only by addresses of 128 bits where the device is not Mellanox's: gid 0.
	(
		cd /tmp
		export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ucx
		export OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_mpi_yield_when_idle=1
		export OMPI_MCA_coll_tuned_use_dynamic_rules=1 OMPI_MCA_coll_tuned_allreduce_algorithm=4
		export UCX_TLS=rc_verbs,ud_verbs,self UCX_IB_GID_INDEX=0 UCX_WARN_UNUSED_ENV_VARS=n
		exec /slowrank/slowrank run --record /tmp/$name.slr --report "$report" --alerts /tmp/$name.alerts \
			-- mpirun "${apps[@]}"
	) >/tmp/$name.log 2>&1 &
	job=$!
	# Probes are attached before the job starts: with single uprobes that takes a while.
	for ((i = 0; i < 600; i++)); do
		pgrep -x workload_mpi >/dev/null && break
		kill -0 $job 2>/dev/null || break
		sleep 0.2
	done
	for ((i = 0; i < healthy_s * 5; i++)); do
		kill -0 $job 2>/dev/null || break
		sleep 0.2
	done
	cp /tmp/$name.alerts /tmp/$name.healthy 2>/dev/null || : >/tmp/$name.healthy
	tc qdisc add dev "m$faulty_rank" root netem "$@"
	for ((i = 0; i < fault_s * 5; i++)); do
		kill -0 $job 2>/dev/null || break
		sleep 0.2
	done
	tc qdisc del dev "m$faulty_rank" root
	pkill -x mpirun || :
	wait $job
	cat /tmp/$name.alerts
	jq -c '.verdicts[], (.pairs[] | select(.posted_bytes > 100000) | del(.latency_histogram))' "$report"
	# The verdict is looked at where it is asked for: two emulated processors are a noisy cluster.
	if named verdicts; then
		mpi_verdict "$name" "$report"
	fi
	check "$name: counted in the ranks" "$(jq -r '.coverage.sources[] | select(.name == "verbs") | .state' "$report")" on
	check "$name: ranks whose pairs are known" \
		"$(jq '[.pairs[] | select(.peer != null and .posted_bytes > 0) | .rank] | unique | length' "$report")" "$ranks"
	[[ $failed == 0 && ${SLOWRANK_VM_VERBOSE:-} == "" ]] || tail -60 /tmp/$name.log
}

if wanted process; then
	in_process ibv_post_send
	posting=()
	in_process ibv_wr
	posting=(--use_old_post_send)
fi
# A verdict needs to know what is usual: some dozens of steps.
healthy_s=25 faulty_s=35
named verdicts && healthy_s=45 faulty_s=45
healthy_s=${SLOWRANK_VM_HEALTHY:-$healthy_s} faulty_s=${SLOWRANK_VM_FAULTY:-$faulty_s}
wanted loss && with_loss
wanted uprobes && by_uprobes
wanted mpi && echo "== MPI over verbs, 1 % loss" && mpi_job loss 4 "$healthy_s" "$faulty_s" loss 1%
named limit && echo "== MPI over verbs, rate limit" && mpi_job limit 4 "$healthy_s" "$faulty_s" rate 1mbit
if wanted doctor; then
	echo "== doctor"
	/slowrank/slowrank doctor 2>&1 | grep -A1 -iE "rdma|verbs" || true
fi
if [[ -n ${SLOWRANK_VM_KEEP:-} ]]; then
	stty -F /dev/ttyS1 raw -echo
	(cd /tmp && tar -czf - ./*.slr ./*.json ./*.alerts ./*.log | cat >/dev/ttyS1)
fi
exit $failed
