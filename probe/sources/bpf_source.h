/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The BPF side as one source: loads the programs, follows a process tree, attaches uprobes,
 * delivers records. All calls from one thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_BPF_SOURCE_H
#define SLOWRANK_PROBE_SOURCES_BPF_SOURCE_H

#include "analysis/base/step.h"
#include "bpf/event_layout.h"
#include "probe/attach/library.h"
#include "probe/wire/message.h"

struct bpf_source;

struct bpf_source_options {
	bool collectives;	  /* uprobes on the table of collectives */
	bool sched;		  /* off-CPU accounting */
	bool faults;		  /* page faults with time */
	bool launches;		  /* of work for devices, in short windows */
	bool messages;		  /* a device's sends and receives, as event_collective */
	size_t ring_bytes;	  /* 0 = a default that fits 8 ranks; power of two, page multiple */
	int64_t off_cpu_event_ns; /* intervals at least this long become events; 0 = 500 us */
	bool single_uprobes;	  /* as on kernels before 6.6, which have no uprobe_multi */
};

/*
 * Loads what can be loaded. Returns 0 when at least following processes works; -EPERM without
 * the rights, -ENOTSUP where the kernel has no BTF or BPF, another negative errno. On failure
 * *why (when why is not NULL) holds one line that says what is missing and how to grant it.
 */
int bpf_source_create(const struct bpf_source_options *options, struct bpf_source **source,
	char why[WIRE_DETAIL_LENGTH_MAX + 1]) __attribute__((warn_unused_result));
void bpf_source_destroy(struct bpf_source *source); /* NULL is fine; detaches everything */

/* The kernel describes its types, where this process can read it. */
bool bpf_source_has_btf(void);

/*
 * Follows this process and all its later descendants. Existing descendants: call once for each. A
 * process that is followed already stays as it is. -ESRCH when there is no such process.
 */
int bpf_source_track(struct bpf_source *source, uint32_t pid) __attribute__((warn_unused_result));

/*
 * Attaches the table's rows to a library file, once per (device, inode): repeated calls for the
 * same file return 0 at once. Returns the number of symbols attached, or a negative errno.
 * Rows refused (expensive first instruction) are skipped and counted in *skipped. in_use: a
 * process of the job maps it (only then it counts for the coverage).
 */
int bpf_source_attach_library(struct bpf_source *source, const struct library_file *library,
	bool in_use, size_t *skipped);

/*
 * Delivers pending records, at most about 100,000 of them, in the order of the ring. on_event gets
 * a validated record: header->length_bytes matches its kind. Returns records delivered or a
 * negative errno. Does not block.
 */
int bpf_source_poll(struct bpf_source *source,
	void (*on_event)(void *context, const struct event_header *event), void *context);

/* The map of followed processes, by the kernel's numbers: for other programs (verbs_probe.h). */
int bpf_source_processes_fd(const struct bpf_source *source);

/* Records lost in the kernel so far (ring full, map full). */
uint64_t bpf_source_dropped(const struct bpf_source *source);

/* What launches are counted for; all 0: for nothing. */
struct bpf_launch_wish {
	bool steps;	 /* there are steps that nothing else tells device times of */
	bool suspected;	 /* these have become longer: one window may come in advance */
	bool rates;	 /* what a process launches a second: a short window will do */
	int64_t step_ns; /* how long a step is; 0 = not known */
	/* For each process that launched in a window, when that ends. NULL: nobody. */
	void (*on_count)(void *context, pid_t pid, uint64_t launches, struct host_ns from,
		struct host_ns until);
	void *context;
};

/*
 * Opens and closes the windows in which launches are counted. To be called often (every 50 ms); it takes
 * some ms when a window opens and some tens when one closes. What the traps cost is measured, and the
 * windows are as far apart as their share of a process's time demands.
 */
void bpf_source_launches_tick(
	struct bpf_source *source, struct host_ns now, const struct bpf_launch_wish *wish);

/*
 * What counting one launch costs here: measured on a function of this program, within some ms. Returns 0;
 * -ENOTSUP when launches are not asked for; what attaching said; -ENODATA when it cannot be told. Not while
 * a window is open.
 */
int bpf_source_measure_launch(struct bpf_source *source, int64_t *hit_ns)
	__attribute__((warn_unused_result));

struct bpf_launch_cost {
	uint64_t windows, hits; /* hits: of the process with the most, window by window */
	int64_t open_ns, cost_ns, hit_cost_ns;
};
void bpf_source_launch_cost(const struct bpf_source *source, struct bpf_launch_cost *cost);

enum { BPF_SOURCE_STATES_MAX = 7 };
/*
 * What each sub-source can see: "bpf.collectives", "bpf.sched", "bpf.throttle", "bpf.faults", and in
 * jobs with devices or Python "bpf.device_wait", "bpf.launches" and "bpf.collector". capacity: of at least
 * BPF_SOURCE_STATES_MAX. Returns the count.
 */
size_t bpf_source_states(
	const struct bpf_source *source, struct message_source *out, size_t capacity);

/*
 * Detaches the uprobes and rests the other programs, or brings them back (for bench/overhead).
 * Calls made meanwhile are not counted, so sequence numbers of ranks may differ afterwards.
 */
int bpf_source_pause(struct bpf_source *source, bool paused);

#endif
