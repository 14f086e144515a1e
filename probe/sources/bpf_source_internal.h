/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of the BPF source share: its state, and the loading of the programs. One thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_BPF_SOURCE_INTERNAL_H
#define SLOWRANK_PROBE_SOURCES_BPF_SOURCE_INTERNAL_H

#include "bpf/ranks_shared.h"
#include "probe/sources/bpf_source.h"
#include "probe/sources/duty_cycle.h"
#include "probe/sources/kernel_ring.h"
#include "probe/sources/uprobe_link.h"
#include "ranks.skel.h"

enum {
	BPF_SOURCE_FILES_MAX = 256,
	/* A timed minor fault costs two programs; every 8th is enough for a sum over a segment. */
	BPF_SOURCE_MINOR_FAULT_PERIOD = 8,
};

/* A library file: where its symbols lie, and the uprobes there. */
struct attached_file {
	uint64_t device, inode;
	bool in_use; /* a process of the job maps it */
	bool is_python;
	size_t device_wait_count, collector_count; /* of its places */
	int fd;					   /* pins the very file */
	char path[LIBRARY_LINK_LENGTH];		   /* opens it */
	size_t place_count, return_count, refused_count;
	struct uprobe_place *places; /* of all rows, then of those that are hooked at return too */
	struct uprobe_place *returns;
	struct uprobe_link at_call, at_return;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	bool has_launches; /* it is a driver: it has functions that launch, hooked or refused */
	size_t launch_count;
	struct uprobe_place *launches; /* hooked while a window is open */
	struct uprobe_link at_launch;
	size_t stream_wait_count;
	struct uprobe_place stream_waits[4]; /* hooked from the first window on */
	struct uprobe_link at_stream_wait;
	char why_launches[WIRE_DETAIL_LENGTH_MAX + 1];
};

/* The windows in which launches are counted: bpf_launches.c. */
struct launch_windows {
	bool allowed, open, calibrated;
	bool needed; /* at any time so far */
	int error;   /* of the last attachment */
	uint32_t number;
	int64_t hit_cost_ns;
	int64_t opened_ns, until_ns;
	int64_t counted_from_ns; /* what opening it took is not in it */
	struct duty_cycle duty;
};

struct bpf_source {
	struct ranks_bpf *skeleton;
	struct kernel_ring *ring;
	bool multi; /* uprobe_multi links */
	bool paused;
	bool sched, faults, wanted_collectives, wanted_sched, wanted_faults;
	char why_sched[WIRE_DETAIL_LENGTH_MAX + 1], why_faults[WIRE_DETAIL_LENGTH_MAX + 1];
	uint32_t next_incarnation;
	bool own_pid_namespace; /* not the initial one: pids are translated */
	bool calls_seen;	/* so a process maps one of the files, whatever it is called */
	int delivered;		/* records, by the poll that runs */
	uint64_t malformed;
	void (*on_event)(void *context, const struct event_header *event);
	void *context;
	struct launch_windows windows;
	size_t file_count;
	struct attached_file files[BPF_SOURCE_FILES_MAX];
	size_t link_count, link_capacity;
	struct bpf_link **links;
};

/*
 * Loads all programs that the kernel takes, the fewer the older it is, and sets in source what it
 * could have and why not the rest. Returns 0 or a negative errno.
 */
int bpf_source_load(struct bpf_source *source, const struct bpf_source_options *options)
	__attribute__((warn_unused_result));

/* Ends the window that is open, if one is, and accounts for what it cost. wish, or NULL, is told the counts. */
void bpf_launches_close(
	struct bpf_source *source, struct host_ns now, const struct bpf_launch_wish *wish);
/* "bpf.launches", where the job has a driver; returns how many states that are. */
size_t bpf_launches_state(const struct bpf_source *source, struct message_source *out);

/* Puts into why (may be NULL) what an error of loading means. Returns the errno to report. */
int bpf_source_explain(int error, char why[WIRE_DETAIL_LENGTH_MAX + 1]);

#endif
