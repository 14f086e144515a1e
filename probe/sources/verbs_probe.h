/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Verbs by uprobes, for processes that do not count themselves (verbs_source.h). libibverbs'
 * functions that make things are hooked all the time; they tell where the provider's post_send and
 * poll_cq are. Those two are hooked in short windows only, for a poll is called millions of times
 * a second: outside of windows nothing is attached and nothing costs; the time between windows
 * follows from the measured calls, so that the thread that polls loses at most the given share.
 * Counts are therefore a part of what happened (QUEUE_PAIR_SAMPLED). One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_VERBS_PROBE_H
#define SLOWRANK_PROBE_SOURCES_VERBS_PROBE_H

#include <sys/types.h>

#include "probe/attach/verbs_attach.h"
#include "probe/wire/message.h"

struct verbs_probe;

struct verbs_probe_options {
	int processes_fd;    /* the map of followed processes (bpf_source_processes_fd()) */
	bool always;	     /* no windows: everything is counted, at the full cost (for tests) */
	bool single_uprobes; /* as on kernels before 6.6 */
	int64_t window_ns;   /* 0 = 5 ms */
	int64_t interval_ns; /* between windows at least; 0 = 1 s */
	double share;	     /* of one thread's time; 0 = 0.01 */
};

/* Returns 0 or a negative errno; then *why says why (when it is not NULL). */
int verbs_probe_create(const struct verbs_probe_options *options, struct verbs_probe **probe,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
void verbs_probe_destroy(struct verbs_probe *probe); /* NULL is fine; detaches everything */

/* Hooks a libibverbs file, once. Returns 0 or a negative errno. */
int verbs_probe_attach_library(struct verbs_probe *probe, const struct library_file *file)
	__attribute__((warn_unused_result));

/* Tells the rank of a process. Returns 1 when it is new, 0, or -ENOSPC. */
int verbs_probe_follow(struct verbs_probe *probe, pid_t pid, uint32_t rank)
	__attribute__((warn_unused_result));

/*
 * Takes what contexts told, and opens a window when one is due: then it lasts window_ns, and what
 * attaching takes. Call it often (every 0.1 s). Returns records taken, or a negative errno.
 */
int verbs_probe_tick(struct verbs_probe *probe, struct host_ns now);

/* Queue pairs of followed processes with their counts so far, at most capacity. */
size_t verbs_probe_read(struct verbs_probe *probe, struct host_ns now,
	struct message_queue_pair *out, size_t capacity);

/* Functions of providers that were found so far. */
size_t verbs_probe_places(
	const struct verbs_probe *probe, struct verbs_place *out, size_t capacity);

struct verbs_probe_cost {
	uint64_t windows;
	uint64_t hits;	      /* calls that trapped */
	uint64_t open_ns;     /* something was attached to post_send or poll_cq */
	uint64_t estimate_ns; /* what the traps cost, by the constants of verbs_probe.c */
};
void verbs_probe_costs(const struct verbs_probe *probe, struct verbs_probe_cost *cost);

const struct message_source *verbs_probe_state(struct verbs_probe *probe);

#endif
