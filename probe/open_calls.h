/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks of this host that have not moved for OPEN_CALL_AGE_NS: which call each is inside of, or that
 * it is in none; and those whose device has not, while the host still runs ahead of it. Only such ranks are looked at, with every batch (some 30 us each, seen; up to half a
 * millisecond with hundreds of threads): a job that goes on pays nothing. One thread.
 */
#ifndef SLOWRANK_PROBE_OPEN_CALLS_H
#define SLOWRANK_PROBE_OPEN_CALLS_H

#include "probe/device_source.h"
#include "probe/job.h"
#include "probe/sources/bpf_source.h"

#define OPEN_CALL_AGE_NS INT64_C(2000000000)

struct open_calls {
	size_t count;
	struct message_open_call *calls; /* WIRE_OPEN_CALLS_PER_BATCH_MAX */
	uint64_t dropped;		 /* stalled ranks that did not fit, summed over looks */
};

/* Returns 0 or -ENOMEM. */
int open_calls_init(struct open_calls *open) __attribute__((warn_unused_result));
void open_calls_fini(struct open_calls *open);

/* bpf may be NULL: then it is not seen which call a process is in, and device, too. */
void open_calls_look(struct open_calls *open, const struct bpf_source *bpf,
	const struct device_source *device, struct job *job, struct host_ns now);

#endif
