/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the threads of a rank, and its loader's workers, did while a stack look lasted: how long each stack was seen in which
 * segment of the step. Stacks are paths in a tree of frames, from the outermost down. Pure; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_STACK_PROFILE_H
#define SLOWRANK_ANALYSIS_STACK_PROFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/base/step.h"

enum {
	STACK_PROFILE_NODES_MAX = 16384,
	STACK_PROFILE_SUMS_MAX = 8192,
	STACK_PROFILE_THREADS_MAX = 512,
	STACK_PROFILE_SEGMENTS_MAX = 512,
	STACK_PROFILE_TEXT_MAX = 131072, /* of all names, with their NULs */
	STACK_PROFILE_DEPTH_MAX = 256,
	STACK_PROFILE_NAME_MAX = 255, /* bytes of a function's or a file's name, without the NUL */
	STACK_PROFILE_WHY_LENGTH = 128,
	STACK_THREAD_NAME_LENGTH = 16,
};
#define STACK_NODE_NONE UINT32_MAX

/* What came of a look. Append-only. */
enum stack_result {
	STACK_RESULT_DONE = 0,
	STACK_RESULT_ENDED = 1,	   /* the process ended */
	STACK_RESULT_NO_RIGHT = 2, /* slowrank may not trace the process */
	STACK_RESULT_NO_STEPS =
		3, /* no whole step lay within the look; what was seen is there nevertheless */
	STACK_RESULT_OVER_COST = 4, /* a look takes so long that it would cost the job too much */
	STACK_RESULT_FAILED = 5,    /* the sampler ended early, or said no */
	STACK_RESULT_BUSY = 6,	    /* it was looked at for as long as it may be, for now */
	STACK_RESULT_NR
};

enum stack_frame_kind {
	STACK_FRAME_PYTHON = 1, /* file: the path */
	STACK_FRAME_NATIVE = 2, /* file: the library, or "" */
	STACK_FRAME_WAIT = 3, /* function: the system call, or where in the kernel; file: on what */
	STACK_FRAME_KERNEL = 4, /* function: of the kernel */
};

/* A frame and the way to it. */
struct stack_node {
	uint32_t parent;	 /* below this one's own index; STACK_NODE_NONE: the outermost */
	uint32_t function, file; /* where their names begin in text; text[0] is the empty name */
	int32_t line;		 /* of Python; 0 = unknown */
	uint8_t kind;		 /* enum stack_frame_kind */
};

enum stack_thread_role {
	STACK_THREAD_CALLER = 1, /* it calls collectives, or is the process's first thread */
	STACK_THREAD_OTHER = 2,
	STACK_THREAD_WORKER = 3, /* of a child of the rank, such as a data loader's */
};

struct stack_thread_info {
	int32_t pid, tid; /* as the host numbers them */
	uint8_t role;	  /* enum stack_thread_role */
	char name[STACK_THREAD_NAME_LENGTH];
	/* Over the look; -1 = unknown. blocked_ns: on storage. */
	int64_t cpu_ns, blocked_ns, major_faults;
};

/* Where in the step: before a collective (outside of any), or inside of it. */
struct stack_segment {
	uint64_t communicator_id;
	uint32_t
		ordinal; /* of the collective within the rank's step, from 0; that of the next step's first is 0, too */
	uint8_t operation; /* enum operation; 0: none came any more */
	uint8_t inside;
};

/* What a thread was doing when it was looked at. Append-only. */
enum stack_state {
	STACK_STATE_RUNNING = 1,
	STACK_STATE_RUNNABLE = 2, /* it waits for a CPU */
	STACK_STATE_LOCK = 3,	  /* futex and its like: a lock, a condition, another thread */
	STACK_STATE_SLEEP = 4,	  /* it asked to sleep: nanosleep, a timer */
	STACK_STATE_FILE = 5,	  /* reads, writes, syncs or opens a file of a file system */
	STACK_STATE_SOCKET = 6,	  /* socket, pipe or poll: another process */
	STACK_STATE_DEVICE = 7,	  /* a driver: ioctl, or blocked in one */
	STACK_STATE_FAULT = 8,	  /* a page */
	STACK_STATE_OTHER = 9,
};

struct stack_sum {
	uint32_t node;		  /* the innermost frame */
	uint32_t thread, segment; /* indices */
	uint8_t state;		  /* enum stack_state */
	uint32_t looks;		  /* how often it was seen */
	uint32_t steps;		  /* in how many different steps */
	int64_t time_ns;	  /* each look counts until the next one */
};

/* All that began and ended within whole steps, from start to stop; without steps, all that was seen. */
struct stack_profile {
	uint32_t rank;
	uint32_t request;      /* the directive that it answers */
	uint8_t result;	       /* enum stack_result */
	uint8_t python_minor;  /* 3.x; 0: no Python frames, see why */
	uint32_t steps, looks; /* from start to stop */
	uint32_t incomplete;   /* looks at threads that were torn, moved, or left out */
	struct host_ns start, stop;
	int64_t cost_ns; /* CPU time of the sampler */
	uint32_t node_count, sum_count, thread_count, segment_count, text_length;
	struct stack_node *nodes;
	struct stack_sum *sums;
	struct stack_thread_info *threads;
	struct stack_segment *segments;
	char *text;			    /* names, each with its NUL; the first one is empty */
	char why[STACK_PROFILE_WHY_LENGTH]; /* what is missing, for people: "" = nothing */
};

/* For people: "the process ended", ...; "" for STACK_RESULT_DONE, "it failed" for unknown ones. */
const char *stack_result_text(enum stack_result result);

/*
 * A profile with the fields of `fields` and room for as many nodes, sums, threads, segments and bytes of text as it
 * counts; all of it cleared, its arrays are its own. NULL without memory, or over a limit of above.
 */
struct stack_profile *stack_profile_create(const struct stack_profile *fields);
/* The same with what the arrays hold. */
struct stack_profile *stack_profile_copy(const struct stack_profile *profile);
void stack_profile_destroy(struct stack_profile *profile); /* NULL is fine */

/* Memory that a created one takes. */
size_t stack_profile_bytes(const struct stack_profile *profile);

/*
 * Counts are within the limits, indices within the counts, parents come before their children and not deeper than allowed,
 * names begin and end where names do, times are not negative (-1 where that is "unknown").
 */
bool stack_profile_is_valid(const struct stack_profile *profile);

#endif
