/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device times of collectives whose library loads no plug-in any more (attach --deep): the kernels of
 * NCCL that CUPTI shows, matched to the calls that uprobes see on the host. Of one process; one
 * thread.
 *
 * Calls and kernel launches are laid in order of time, which cuts them into turns: some calls, then
 * the kernels they launched. In a turn with as many kernels as calls they belong together in order;
 * one kernel of a turn with several calls of one communicator, one right after the other, carried
 * them all (a group). Any other turn is not measurable: its calls keep their enqueue times only. A
 * turn is decided when its kernels are sure to be known: when one launched later on the same
 * stream is, and a quarter of a second has passed, or after KERNEL_CALLS_WAIT_NS.
 */
#ifndef SLOWRANK_PROBE_KERNEL_CALLS_H
#define SLOWRANK_PROBE_KERNEL_CALLS_H

#include "analysis/base/step.h"

#define KERNEL_CALLS_WAIT_NS INT64_C(2000000000)

struct kernel_calls;

struct kernel_calls_kernel {
	const char *name;
	uint32_t stream;
	struct host_ns launch, start, stop; /* launch 0: not known */
};

struct kernel_calls_counts {
	uint64_t matched, unmatched; /* calls, while kernels came */
	uint64_t dropped;	     /* calls and kernels that did not fit */
};

/* Returns NULL without memory. */
struct kernel_calls *kernel_calls_create(void);
void kernel_calls_destroy(struct kernel_calls *calls); /* NULL is fine */

/* A call, enqueued at part->arrival, in order of time. handle: the library's, of the communicator. */
void kernel_calls_call(
	struct kernel_calls *calls, const struct collective_part *part, uint64_t handle);

/* Any kernel of the process, in any order: those that are not NCCL's are ignored. */
void kernel_calls_kernel(struct kernel_calls *calls, const struct kernel_calls_kernel *kernel);

/* Kernels will come, or come no more: then calls are handed out at once, untimed. */
void kernel_calls_switch(struct kernel_calls *calls, bool on);

/*
 * Hands out decided calls in order, with device times (PART_DEVICE_TIME) or without
 * (PART_ENQUEUE_ONLY). now: this host's. finish: nothing more will come. Returns false when there is none.
 */
bool kernel_calls_take(
	struct kernel_calls *calls, struct host_ns now, bool finish, struct collective_part *part);

void kernel_calls_get_counts(const struct kernel_calls *calls, struct kernel_calls_counts *counts);

#endif
