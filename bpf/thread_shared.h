/* SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only) */
/*
 * What the kernel side keeps of a thread. The probe reads it, seldom, of threads that have not come
 * out of a call for long (probe/sources/thread_look.h); only the kernel side writes it.
 */
#ifndef SLOWRANK_BPF_THREAD_SHARED_H
#define SLOWRANK_BPF_THREAD_SHARED_H

#include "bpf/event_layout.h"
#include "bpf/ranks_shared.h"

struct cfs_rq;

enum call_open {
	CALL_NONE = 0,
	CALL_OPEN = 1,
	/* In the open call, one that makes or frees a communicator; entry_stack, row, arguments
	 * and sequence are those of the inner call. */
	CALL_NESTED = 2,
};

struct thread_state {
	struct event_activity now;   /* since the last communication call */
	struct event_activity saved; /* what `now` was at the entry of the open call */
	struct event_activity total; /* all this thread ever did */
	event_u64 off_start;	     /* left the CPU; 0 = is on it */
	event_u64 blocked_ns;	     /* length of the last blocked interval, until it is settled */
	event_u64 delay_base;	     /* task_run_delay() when it left the CPU */
	/* The run queue it was on then, and how long that was throttled so far. */
	const struct cfs_rq *queue;
	event_u64 queue_throttled_ns;
	event_u64 fault_start;		  /* entry of the last page fault that is being timed */
	event_u64 fault_off_ns;		  /* off the CPU since then */
	event_u64 timed_ns;		  /* of minor faults timed since the last look */
	event_u64 timed_longest_ns;	  /* the longest of them */
	event_u64 fault_average_ns;	  /* of those timed before */
	event_u64 minor_base, major_base; /* task_struct's counters when last looked at */
	event_u64 looked_ns;		  /* then, or since it is on the CPU again */
	event_u64 collector_start;	  /* of the open garbage collection; 0 = none */
	event_u64 entry_ns;
	event_u64 entry_stack; /* stack pointer at the entry of the open call */
	event_u64 arguments[RANK_ARGUMENT_NR];
	event_u64 sequence;
	event_u64 outer_stack; /* of the open call, while open is CALL_NESTED; so the next three */
	event_u64 outer_arguments[RANK_ARGUMENT_NR];
	event_u64 outer_sequence;
	event_u32 outer_row;
	event_u32 outer_handle_bytes;
	event_u64 event_window; /* rate limit of off-CPU events */
	event_u32 event_count;
	event_u32 off_reason;
	event_u32 off_cpu;
	event_u32 other_known; /* the next one and other_name are set */
	event_u32 other_pid;   /* 0: in no namespace that slowrank sees */
	event_u32 row;
	event_u32 handle_bytes; /* size of the handles of the library called */
	event_u32 open;		/* enum call_open */
	event_u32 generation;
	event_u32 range_depth;	    /* open NVTX ranges */
	event_u32 range_step_depth; /* which of them is the step; 0 = none */
	event_u32 timed_count;
	event_u32 launcher;   /* enqueues or waits for device work */
	event_u32 napping;    /* a launcher asleep, but not in a call that waits for the device */
	event_u32 ended_idle; /* its last nap ended the sleep of all launchers */
	event_u32 launches;   /* it launched kernels while that was looked at */
	event_u32 stopped;    /* off the CPU by a signal, or held by a debugger */
	event_u32 kept_off;   /* off the CPU, and not by its own doing */
	event_u32 kept_reason, reserved;
	/* In the open call, the last time for which it was kept off, and how much of it: it may have run in between. */
	event_u64 kept_start, kept_end, kept_ns;
	event_u64 range_step;
	char other_name[EVENT_TASK_NAME_LENGTH];
};

#endif
