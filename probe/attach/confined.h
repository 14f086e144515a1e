/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Work on what a rank controls, in a process that can do nothing else: it reads files, has 256 MiB, two seconds
 * of a CPU and two in which it blocks (not those in which it is ready to run and has no CPU), and hands back one block
 * of bytes. Any thread; the work may use malloc(), and nothing that another thread locks.
 */
#ifndef SLOWRANK_PROBE_ATTACH_CONFINED_H
#define SLOWRANK_PROBE_ATTACH_CONFINED_H

#include <stddef.h>

enum { CONFINED_MIB = 256, CONFINED_MS = 2000 };

/* 0: the limits are there and the filter of system calls is not: a sanitizer needs calls of its own. */
#if defined(__has_feature)
#define CONFINED_IS_WHOLE (!__has_feature(address_sanitizer) && !__has_feature(thread_sanitizer))
#elif defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define CONFINED_IS_WHOLE 0
#else
#define CONFINED_IS_WHOLE 1
#endif

/*
 * What a child process of the probe's may have: so much memory beside what it has now, so much CPU time, no core file; and it ends
 * with its parent.
 */
void confined_limit(unsigned mib, unsigned cpu_s);

/*
 * Calls work(state) in a child process, and copies the bytes of state back. Returns what it returned; -ENOEXEC when it
 * took too much, too long, or did something else: then state is untouched; -ENOMEM when there is no process to be had.
 */
int confined_call(int (*work)(void *state), void *state, size_t bytes)
	__attribute__((warn_unused_result));

#endif
