/* SPDX-License-Identifier: Apache-2.0 */
/* Which sources stand behind the numbers of a rank: 0 measured and 0 not measured differ. */
#ifndef SLOWRANK_ANALYSIS_BASE_EVIDENCE_SOURCE_H
#define SLOWRANK_ANALYSIS_BASE_EVIDENCE_SOURCE_H

enum evidence_source {
	EVIDENCE_SCHED = 1 << 0,       /* preempted, blocked, asleep: "bpf.sched" */
	EVIDENCE_THROTTLE = 1 << 1,    /* throttled intervals: "bpf.throttle" */
	EVIDENCE_FAULTS = 1 << 2,      /* page faults with time: "bpf.faults" */
	EVIDENCE_COLLECTOR = 1 << 3,   /* garbage collections: "bpf.collector" */
	EVIDENCE_DEVICE_WAIT = 1 << 4, /* waits for the device: "bpf.device_wait" */
	EVIDENCE_KERNELS = 1 << 5,     /* each kernel, when asked for: "device.kernels" */
	EVIDENCE_STEAL = 1 << 6,       /* stolen CPU time: "steal" */
	EVIDENCE_CYCLES = 1 << 7,      /* clock and instructions of CPUs: "cycles" */
	EVIDENCE_STACKS = 1 << 8,      /* stacks, when asked for: "host.stacks" */
};
enum { EVIDENCE_SOURCE_NR = 9 };

#endif
