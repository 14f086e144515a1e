/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be known of a process before something is loaded into it: its C library's functions,
 * where its code may not be interrupted, its threads and what they wait in. Reads /proc and the
 * mapped files; keeps nothing open; one thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_TARGET_H
#define SLOWRANK_PROBE_ATTACH_LOAD_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LOAD_RANGES_MAX = 96, LOAD_RESTORERS_MAX = 4 };

struct load_range {
	uint64_t start, end;
};

struct load_functions { /* addresses in the process */
	uint64_t pthread_create, pthread_attr_init, pthread_attr_setdetachstate, errno_location;
	uint64_t dlopen, dlsym, dlerror, munmap;
};

struct load_target {
	pid_t pid;
	struct load_functions functions;
	struct load_range libc;
	/* Code of the dynamic loader and of allocators: no thread is taken that is inside. */
	size_t range_count;
	struct load_range ranges[LOAD_RANGES_MAX];
	size_t restorer_count; /* where signal handlers return to */
	uint64_t restorers[LOAD_RESTORERS_MAX];
	uint64_t gate;	    /* where there is room for load_gate's code */
	bool own_allocator; /* the program brings one, its inner code is not known */
};

/*
 * Fills target. Returns 0; -EALREADY when library_name is mapped; -ESRCH; -EACCES; -EPERM when it is
 * traced by another; -ENOTSUP when it is linked statically, has another C library than glibc, or is
 * stopped; with one line in why.
 */
int load_target_read(pid_t pid, const char *library_name, struct load_target *target, char *why,
	size_t why_bytes) __attribute__((warn_unused_result));

/* What a thread waits in, as /proc says. */
struct load_thread {
	pid_t thread;
	pid_t inner;  /* its number in its own namespace */
	char state;   /* R, S, D, ... */
	int64_t call; /* number of the system call, -1 = none, -2 = runs */
	uint64_t
		first_stack; /* where the stack of the process's first thread begins; 0 = not known */
	bool shadow_stack;
};

/* Returns 0 or -ESRCH, -EACCES. */
int load_target_thread(pid_t pid, pid_t thread, struct load_thread *out)
	__attribute__((warn_unused_result));

/* The threads of the process, the first one last; returns the count, at most capacity. */
size_t load_target_threads(pid_t pid, pid_t *threads, size_t capacity);

#endif
