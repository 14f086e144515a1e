/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/cause_text.h"

struct cause_text {
	const char *phrase;
	const char *advice;
};

static const struct cause_text texts[CAUSE_NR] = {
	[CAUSE_CGROUP_THROTTLE] = {"throttled",
		"raise or remove the CPU quota of the rank's cgroup (cpu.max, cpu.cfs_quota_us; in "
		"Kubernetes the container's CPU limit), or run fewer threads in it"},
	[CAUSE_CPU_CONTENTION] = {"waiting for a CPU that others used",
		"move the other task off the rank's cores, or pin the ranks to cores of their own"},
	[CAUSE_MAJOR_PAGE_FAULT] = {"in major page faults",
		"give the rank more memory (its limit makes pages go to disk), or keep its files "
		"and weights resident (mlock, warm page cache, no swap)"},
	[CAUSE_MINOR_PAGE_FAULT] = {"in minor page faults",
		"stop mapping and freeing memory in every step: reuse buffers, raise the "
		"allocator's trim threshold, use huge pages"},
	[CAUSE_MEMORY_RECLAIM] = {"reclaiming memory",
		"raise the cgroup's memory limit, or use less memory on this host: the kernel "
		"frees pages in the rank's own time"},
	[CAUSE_BLOCK_IO] = {"blocked on storage",
		"look at the storage under the rank (iostat -x); move checkpoints and data to "
		"faster or less shared storage, write them asynchronously"},
	[CAUSE_INPUT_PIPELINE] = {"waiting for input",
		"add data-loader workers or prefetch on this rank; look at its input storage"},
	[CAUSE_GARBAGE_COLLECTION] = {"collecting garbage",
		"run the collector at the same step on all ranks, or switch it off in the loop"},
	[CAUSE_GPU_CLOCK] = {"lost to a lower GPU clock",
		"look at power, temperature and slowdown reasons (nvidia-smi -q -d PERFORMANCE); "
		"take the GPU out of the job until it is repaired"},
	[CAUSE_GPU_SHARED] = {"lost to other work on the GPU",
		"end the other process on this GPU, or give the rank a GPU of its own"},
	[CAUSE_GPU_ERROR] = {"lost to GPU errors",
		"read the XID and ECC counts (dmesg, nvidia-smi -q -d ECC); drain the node"},
	[CAUSE_PCIE_LINK] = {"in slower copies between host and GPU",
		"check the PCIe link's speed and width (lspci -vv, nvidia-smi -q); reseat or "
		"drain"},
	[CAUSE_NIC_RETRANSMIT] = {"in slower transfers with retransmissions",
		"look for packet loss on this rank's network path (ethtool -S, ss -ti, switch "
		"port counters); take the link or the node out"},
	[CAUSE_NIC_LINK] = {"on a slower link",
		"check the NIC's speed, cable and port (ethtool, ibstat); take the node out until "
		"the link is back at full rate"},
	[CAUSE_PATH_CONGESTION] = {"in slower transfers",
		"look for other traffic on the path between these ranks; change placement or "
		"routing"},
	[CAUSE_LONGER_KERNELS] = {"in longer kernels",
		"compare this GPU with its peers (clocks, ECC, MIG, other tenants); swap it"},
	[CAUSE_MORE_KERNELS] = {"in more kernels than its peers",
		"find what this rank computes that its peers do not (logging, evaluation, extra "
		"layers)"},
	[CAUSE_STAGE_IMBALANCE] = {"of more work in its pipeline stage",
		"move layers to other pipeline stages: the machines are fine, the split is not"},
	[CAUSE_SEQUENCE_IMBALANCE] = {"of more tokens than its peers",
		"balance sequence lengths over the ranks: the machines are fine, the batches are "
		"not"},
	[CAUSE_MORE_COPIES] = {"in copies between host and GPU",
		"find what this rank copies that its peers do not (checkpoints, logging, unpinned "
		"input); check its PCIe link (nvidia-smi -q, lspci -vv)"},
	[CAUSE_LAUNCH_GAPS] = {"with its GPU idle between kernels",
		"the rank's host launches too late: look at its Python threads, data loading and "
		"logging (py-spy dump --pid PID), and at who shares its cores"},
	[CAUSE_CPU_STEAL] = {"stolen from its CPUs by the hypervisor",
		"other guests of the same machine use its CPUs: move this guest, or ask for CPUs "
		"that are not shared (dedicated, pinned vCPUs)"},
	[CAUSE_CPU_CLOCK] = {"lost to a lower CPU clock",
		"look for heat, power caps and the frequency governor on this host (dmesg, "
		"turbostat, cpupower frequency-info, ipmitool sdr); drain it until it is repaired"},
	[CAUSE_SMT_OR_MEMORY] = {"lost to fewer instructions a cycle",
		"something shares the core, the cache or the memory with this rank: look at what "
		"else runs on the host (also on the other thread of its cores: lscpu -e) and at "
		"NUMA placement (numastat -p PID); of a guest, at its neighbours"},
};

static const char *unknown_advice(const struct verdict *verdict)
{
	switch (verdict->verdict_class) {
	case VERDICT_COMPUTE_SLOW:
		if (verdict->on_device)
			return "the rank's GPU worked longer than its peers': compare clocks, "
			       "temperature, memory errors and other processes on it (nvidia-smi "
			       "-q); see above why its kernels do not tell, and profile it beside "
			       "a healthy rank";
		return "the rank's own code took longer on the CPU than on its peers: compare CPU "
		       "frequency, NUMA placement and input; profile it beside a healthy rank "
		       "(perf record -p PID)";
	case VERDICT_HOST_SLOW:
		return "something on the host held the rank up that was not measurable here: see "
		       "the coverage below, and run 'slowrank doctor' on that host";
	case VERDICT_COMM_SLOW:
		if (!verdict->rank_count)
			return "transfers take longer, and whose they are could not be told: look "
			       "at the links that lead the costs below (ethtool -S, ss -ti on "
			       "their hosts), and at the coverage for what would tell more";
		return "transfers of this rank take longer than the same transfers elsewhere: look "
		       "at its NIC, link and path (ethtool -S, ss -ti)";
	case VERDICT_WORKLOAD_IMBALANCE:
		return "the rank has more work than its peers: balance the split or the batches";
	case VERDICT_HANG:
		return "look at the rank's stacks (gdb -p PID, py-spy dump --pid PID) before "
		       "ending the job";
	default:
		return "look at the evidence and the coverage below, and run 'slowrank doctor' on "
		       "that host";
	}
}

const char *cause_phrase(enum cause cause)
{
	return (size_t)cause < CAUSE_NR && texts[cause].phrase ? texts[cause].phrase
							       : "of its own excess";
}

const char *cause_advice(const struct verdict *verdict)
{
	return (size_t)verdict->cause < CAUSE_NR && texts[verdict->cause].advice
		       ? texts[verdict->cause].advice
		       : unknown_advice(verdict);
}
