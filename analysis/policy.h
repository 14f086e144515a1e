/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every number that decides: value, unit, and where it comes from. A section a folder or file. Constants only; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_POLICY_H
#define SLOWRANK_ANALYSIS_POLICY_H

/* explain: of so many other ranks the usual is taken. */
#define EXPLAIN_OTHERS_MAX 1024

/* explain: causes. Shares are of the excess, 0..1. */
#define CAUSE_SHARE_MIN 0.35 /* a cause is named when it explains so much; else it is unknown */
/* where the control has none: a throttled rank also waits longer for a CPU */
#define THROTTLE_SHARE_MIN 0.3
/*
 * What is reckoned for a minor fault is the least that it costs (blame_controls.c): on four hosts with H200s it was 31
 * to 41 % of what injected ones took.
 */
#define MINOR_FAULT_SHARE_MIN 0.25
#define CONTROL_HAS_NONE 0.1	 /* of what the rank has: less is none */
#define CONTROL_HAS_TOO 0.5	 /* of what the rank has: more is "same as control" */
#define HOST_SHARE_MIN 0.5	 /* host-slow when so much is off the CPU or in faults */
#define EVIDENCE_SHARE_MIN 0.1	 /* what explains less is not shown as evidence */
#define NONE_SEEN_MS 0.001	 /* a step */
#define LOOK_SHARE_MIN 0.3	 /* of the delay: what a deep look must explain */
#define LOOK_OTHER_CLASS_MIN 0.5 /* of the delay: to turn compute-slow into host-slow */
/* looks at a suspect and at its control; one may start late */
#define LOOK_PAIR_NS INT64_C(20000000000)
#define LOOK_EXCESS_MIN 0.03 /* of a step: looks that differ by less differ by noise */
#define LOOK_LOST_MAX 0.005  /* of its records: a look that lost more does not say how much ran */
#define LONGER_SHARE_MIN 0.5 /* of the excess of kernels: longer ones, else more of them */

/* explain: counters that stand in where the kernel could not be asked, in ns. */
#define MAJOR_FAULT_TYPICAL_NS 200000 /* a read of one page from a local disk */
#define MINOR_FAULT_TYPICAL_NS 700    /* entry, handler, return */

/* explain: the speed of CPUs. Changes below these are what healthy ones do: ticks of 10 ms a second, turbo steps of 100 MHz. */
#define STOLEN_MIN 0.02		/* of wanted time */
#define CLOCK_FALL_MIN 0.03	/* of the clock */
#define PER_CYCLE_FALL_MIN 0.05 /* of instructions a cycle */
#define SPREADS_MIN 3.0		/* times what the rank's own samples spread by */
/* instructions a cycle of a loop that waits; cores retire four to eight at best */
#define WAITING_PER_CYCLE_MAX 4.0
#define WAITS_GROW_MIN 0.1 /* of the time: what waits do is estimated once they grew by so much, */
#define WAITS_SEEN_NS INT64_C(3000000000) /* and from several samples; */
#define POLLED_MARGIN 1.25		  /* it may be a quarter more, */
#define POLLED_MORE 0.1			  /* and a little: instructions a cycle */
#define MORE_WORK 1.15 /* times the instructions in a step: more work, not a slower core */

/* explain: memory that is reclaimed. */
#define RECLAIM_TIMES_MIN 4.0 /* times what its own past and its controls have */
/* a second: fewer cost nothing (a 64 MiB limit was hit 20,000 times) */
#define RECLAIM_HITS_MIN 10.0
#define RECLAIM_PAGES_MIN 320.0 /* a second: the same in pages, at 32 a time (SWAP_CLUSTER_MAX) */

/* explain: GPUs. */
/* of the others' clock: the cause of being slow by a tenth and more */
#define GPU_CLOCK_RATIO_MAX 0.93
#define GPU_POWER_CAP 0x4 /* of nvmlClocksThrottleReasons: SwPowerCap */
/* from a process's start to its first kernels, generously */
#define GPU_NEW_PROCESS_NS INT64_C(10000000000)
/*
 * GPUs that wait save power, and run their own part faster than they could all the time (seen: 20 ms
 * instead of 24 for a forward pass, 2 x H200). With its controls' times the step would be shorter than
 * it ever was; what was usual before is believed within so much.
 */
#define GPU_WAITING_SPEED_MAX 1.25
#define GPU_USUAL_STEPS_MIN 32 /* steps before an onset, of which the usual length is known */

/* explain: launches. */
#define LAUNCH_STEPS_MIN 2.0   /* steps looked at before they count */
#define LAUNCH_STEPS_KEPT 32.0 /* of earlier ones half is forgotten */
/* of a rank's delay must be seen in what it launched, or in longer steps */
#define LAUNCH_PROVEN_SHARE 0.5
#define LAUNCH_QUIET_BLOCKS_MIN 4 /* blocks without a suspect, of which the usual step is known */

#endif
