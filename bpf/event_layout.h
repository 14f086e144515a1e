/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * Records shared by the kernel-side programs and the probe. Fixed-width fields only, sizes
 * asserted, natural alignment, no implicit padding. Kernel side and probe are built together,
 * so the layout may change freely between versions; it never leaves the host.
 *
 * Times are CLOCK_MONOTONIC (bpf_ktime_get_ns) in ns.
 */
#ifndef SLOWRANK_BPF_EVENT_LAYOUT_H
#define SLOWRANK_BPF_EVENT_LAYOUT_H

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t event_u8;
typedef uint16_t event_u16;
typedef uint32_t event_u32;
typedef uint64_t event_u64;
typedef int32_t event_s32;
#else
typedef __u8 event_u8;
typedef __u16 event_u16;
typedef __u32 event_u32;
typedef __u64 event_u64;
typedef __s32 event_s32;
#endif

enum event_kind {
	EVENT_COLLECTIVE =
		1, /* struct event_collective: at return, or at entry when enqueue-only */
	EVENT_COMMUNICATOR = 2, /* struct event_communicator */
	EVENT_RANK = 3,		/* struct event_rank: a rank or size the library told the program */
	EVENT_PROCESS = 4,	/* struct event_process */
	EVENT_OFF_CPU = 5,	/* struct event_off_cpu: long intervals only */
	EVENT_MARKER = 6,	/* struct event_marker */
	EVENT_DEVICE_WAIT = 7,	/* struct event_device_wait */
	EVENT_ENQUEUE = 8,	/* struct event_enqueue */
};

struct event_header {
	event_u16 kind;		/* enum event_kind */
	event_u16 length_bytes; /* of the whole record */
	event_u32 pid;		/* thread-group id, initial pid namespace */
	event_u32 tid;
	event_u32 cpu;
	event_u64 time_ns;
};
_Static_assert(sizeof(struct event_header) == 24, "event_header layout");

/* Mirrors struct activity of analysis/base/step.h; counted outside communication calls only. */
struct event_activity {
	event_u64 preempted_ns;
	event_u64 throttled_ns;
	event_u64 block_io_ns;
	event_u64 asleep_ns;
	event_u64 major_fault_ns;
	event_u64 minor_fault_ns;
	event_u64 comm_call_ns;
	event_u64 device_wait_ns; /* in calls that wait for the device */
	event_u64 collector_ns;	  /* in garbage collections of the program's runtime */
	event_u32 major_faults;
	event_u32 minor_faults;
};
_Static_assert(sizeof(struct event_activity) == 80, "event_activity layout");

/* What a process launched on its devices since a window was opened, and its waits for them. */
struct event_launches {
	event_u32 window; /* 0 = no window is open: only device_wait_ns counts */
	event_u32 launches;
	event_u32 graph_launches; /* of these */
	event_u32 reserved;
	event_u64 silence_ns;	  /* gaps between launches, less waits for the device */
	event_u64 idle_ns;	  /* of these, when the host had just waited for all it launched */
	event_u64 device_wait_ns; /* of the threads that launch, since tracking */
};
_Static_assert(sizeof(struct event_launches) == 40, "event_launches layout");

struct event_collective {
	struct event_header header;
	event_u64 arrival_ns;
	event_u64 departure_ns; /* = arrival_ns when enqueue-only */
	event_u64 handle;	/* the library's communicator handle, as passed */
	/* Calls of this process on this handle so far, counted in the kernel; of a send or a receive: to or
	 * from this peer, since it was first seen. */
	event_u64 sequence;
	event_u64 count;    /* elements, as passed */
	event_u64 datatype; /* the library's datatype argument, as passed */
	event_u64 stream;   /* CUDA stream, 0 where there is none */
	event_s32 root;	    /* root or peer, -1 where there is none */
	event_u16 row;	    /* row of the table of collectives */
	event_u16 flags;    /* enum event_collective_flag */
	/* Since the last communication call: of this thread; of all threads that enqueue or wait for
	 * device work where the call enqueues some (asleep: when all of them were). */
	struct event_activity before;
	struct event_activity inside;
	struct event_activity
		others; /* running totals of the process's other threads, since tracking */
	struct event_launches launches; /* running totals of the process */
};
_Static_assert(sizeof(struct event_collective) == 368, "event_collective layout");

enum event_collective_flag {
	EVENT_COLLECTIVE_NO_RETURN = 1 << 0, /* return was not seen; departure is not known */
};

/* A wait for the device that ended with an enqueue-only collective, by a thread that launches. */
struct event_device_wait {
	struct event_header header;
	event_u64 start_ns, end_ns;
	struct event_launches launches; /* at its end */
};
_Static_assert(sizeof(struct event_device_wait) == 80, "event_device_wait layout");

/*
 * A send, a receive (where it is not told as an event_collective) or the end of a group enqueued work for a device;
 * header.time_ns: when it was called.
 */
struct event_enqueue {
	struct event_header header;
	/* As of a collective: of all threads that enqueue or wait for device work; of the others. */
	struct event_activity before;
	struct event_activity others;
};
_Static_assert(sizeof(struct event_enqueue) == 184, "event_enqueue layout");

enum {
	EVENT_UNIQUE_ID_BYTES = 128, /* NCCL_UNIQUE_ID_BYTES, nccl.h */
	EVENT_LIST_NUMBERS = 8,
	EVENT_LIST_MAX = 4096, /* longer lists have no digest */
};

/* A list of ints that was passed. */
struct event_list {
	event_u64 digest;		       /* of all of it; 0 = could not be read */
	event_s32 numbers[EVENT_LIST_NUMBERS]; /* its start */
	event_u32 number_count;		       /* of these, what could be read */
	event_u32 count;		       /* entries, as passed; 0 where it is not passed */
};
_Static_assert(sizeof(struct event_list) == 48, "event_list layout");

/* A communicator or a group of ranks was made or freed. */
struct event_communicator {
	struct event_header header;
	event_u64 parent;   /* handle split, or 0 for a creation from scratch */
	event_u64 handle;   /* the new handle, read at return; 0 = caller is not a member */
	event_u64 sequence; /* creations on this parent by all its members so far */
	event_s32 color;
	event_s32 key;
	event_s32 rank;	      /* own rank in it where an argument says so, else -1 */
	event_s32 rank_count; /* likewise */
	event_u16 row;
	event_u16 destroyed; /* 1: handle was freed */
	event_u32 unique_id_valid;
	event_u64 group, other_group; /* handles of groups passed, where the row has any */
	event_u64 group_call;	      /* numbers the calls with groups of this process, from 0 */
	union {
		event_u8 unique_id[EVENT_UNIQUE_ID_BYTES];
		struct event_list list; /* where the row has one */
	};
};
_Static_assert(sizeof(struct event_communicator) == 224, "event_communicator layout");

struct event_rank {
	struct event_header header;
	event_u64 handle;
	event_s32 value;
	event_u32 is_size; /* 0: value is the rank in the communicator; 1: its size */
};
_Static_assert(sizeof(struct event_rank) == 40, "event_rank layout");

enum event_process_action {
	EVENT_PROCESS_FORK = 1,
	EVENT_PROCESS_EXEC = 2,
	EVENT_PROCESS_EXIT = 3,
};

struct event_process {
	struct event_header header;
	event_u32 parent_pid;
	event_u32 action; /* enum event_process_action */
	event_s32 exit_code;
	event_u32 reserved;
};
_Static_assert(sizeof(struct event_process) == 40, "event_process layout");

enum { EVENT_TASK_NAME_LENGTH = 16 };

struct event_off_cpu {
	struct event_header header;
	event_u64 start_ns;
	event_u64 end_ns;
	event_u32 other_pid; /* who was switched in, when preempted; the debugger, when stopped */
	event_u32 reason;    /* enum off_cpu_reason of analysis/base/step.h */
	event_u8 other_name[EVENT_TASK_NAME_LENGTH];
};
_Static_assert(sizeof(struct event_off_cpu) == 64, "event_off_cpu layout");

enum { EVENT_MARKER_NAME_LENGTH = 32 };

enum event_marker_action {
	EVENT_MARKER_STEP_BEGIN = 1,
	EVENT_MARKER_STEP_END = 2,
};

struct event_marker {
	struct event_header header;
	event_u64 step;
	event_u32 action;    /* enum event_marker_action */
	event_u32 from_nvtx; /* 1: a range named ProfilerStep#N */
};
_Static_assert(sizeof(struct event_marker) == 40, "event_marker layout");

#endif
