/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * Constants and the row layout that the probe writes into the programs before they are loaded.
 */
#ifndef SLOWRANK_BPF_RANKS_SHARED_H
#define SLOWRANK_BPF_RANKS_SHARED_H

#include "bpf/event_layout.h"

enum { RANK_ROWS_MAX = 256, RANK_PROCESSES_MAX = 65536, RANK_JOINED_MAX = 4 };

/* A tracked process. */
struct rank_process_state {
	struct event_activity total; /* of all its threads, ended ones included */
	/* Of its launchers, the threads that enqueue or wait for device work; asleep: when all of
	 * them were. And what of it was told, at last when. */
	struct event_activity host, told;
	event_u64 told_ns;
	struct event_launches launches; /* of the window that is open, or was last */
	event_u64 last_launch_ns;	/* or end of a wait for the device, if that is later */
	/* The last enqueue-only collective, 0 = was waited for; its stream, and those that have been made
	 * to wait for an event since. */
	event_u64 enqueued_ns, enqueued_stream;
	event_u64 joined[RANK_JOINED_MAX];
	event_u64 joined_count;
	event_u64 idle_since;	   /* when the last launcher fell asleep */
	event_u32 incarnation;	   /* numbers the programs it runs: one per fork and exec */
	event_u32 launchers_awake; /* not asleep, or asleep in a call that waits for the device */
	event_u32 launchers_generation; /* which the counts are of */
	event_u32 drained;		/* nothing was launched since a wait for all that was */
	event_u32 launcher_pid; /* its number as slowrank sees it, set by a window's first launch */
	event_u32 reserved;
};
_Static_assert(sizeof(struct rank_process_state) == 384, "rank_process_state layout");

/* Incarnations that the probe gives start here; those that the kernel side gives, at 0. */
#define RANK_INCARNATION_FIRST (1u << 31)

/* The same numbers as enum off_cpu_reason of analysis/base/step.h. */
enum rank_reason {
	REASON_PREEMPTED = 1,
	REASON_THROTTLED = 2,
	REASON_BLOCK_IO = 3,
	REASON_ASLEEP = 4,
	REASON_MAJOR_FAULT = 5,
	REASON_STOPPED = 6,
};

/* The same numbers as enum row_kind and enum row_action of probe/attach/collective_table.h. */
enum rank_row_kind {
	RANK_ROW_COLLECTIVE = 1,
	RANK_ROW_COMM_CALL = 2,
	RANK_ROW_COMMUNICATOR = 3,
	RANK_ROW_RANK = 4,
	RANK_ROW_MARKER = 5,
	RANK_ROW_DEVICE_WAIT = 6,
	RANK_ROW_COLLECTOR = 7,
	RANK_ROW_LAUNCH = 8,
	RANK_ROW_STREAM_WAIT = 9,
};
enum rank_row_action {
	RANK_ACTION_CREATE_UNIQUE_ID = 1,
	RANK_ACTION_CREATE_BY_GROUP = 5,
	RANK_ACTION_FREE = 6,
	RANK_ACTION_SIZE = 8,
	RANK_ACTION_MARK_BEGIN = 9,
	RANK_ACTION_MARK_END = 10,
	RANK_ACTION_NVTX_PUSH = 11,
	RANK_ACTION_NVTX_POP = 12,
	RANK_ACTION_WAIT_ALL = 13,
	RANK_ACTION_WAIT_STREAM = 14,
	RANK_ACTION_GRAPH = 15,
	RANK_ACTION_GROUP_FREE = 27,
	RANK_ACTION_SEND = 28,
	RANK_ACTION_RECEIVE = 29,
};

enum rank_argument {
	RANK_ARGUMENT_COUNT = 0,
	RANK_ARGUMENT_DATATYPE = 1,
	RANK_ARGUMENT_ROOT = 2,
	RANK_ARGUMENT_COMMUNICATOR = 3,
	RANK_ARGUMENT_STREAM = 4,
	RANK_ARGUMENT_RESULT = 5,
	RANK_ARGUMENT_COLOR = 6,
	RANK_ARGUMENT_KEY = 7,
	RANK_ARGUMENT_NR = 8,
};

enum {
/* At function entry the stack pointer points to the return address; after return it has
	 * been popped. */
#if defined(__TARGET_ARCH_x86) || defined(__x86_64__)
	RANK_RETURN_SLOT_BYTES = 8,
#else
	RANK_RETURN_SLOT_BYTES = 0,
#endif
};

/* The cookie of an attachment: the row, and whether the library's handles are ints (MPICH). */
enum { RANK_COOKIE_ROW_MASK = 0xffff, RANK_COOKIE_INT_HANDLES = 1 << 16 };

struct rank_row {
	event_u8 kind;
	event_u8 action;
	event_u8 blocking;
	event_u8 by_pointer; /* the handle to free, or the unique id, is passed by its address */
	signed char position[RANK_ARGUMENT_NR]; /* argument positions from 0; -1 = none */
	event_u8 int_count;			/* the count is an int, not a size_t */
	event_u8 device;			/* enqueues work for a device */
	event_u8 by_group;			/* numbered among the calls with groups */
	event_u8 list_ints; /* ints in an entry of the list that the key points to; 0 = no list */
};
_Static_assert(sizeof(struct rank_row) == 16, "rank_row layout");

#endif
