/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Puts a shared library into a process that already runs (attach --deep), by ptrace. One thread of
 * the process is stopped once, for well under a millisecond: it makes a detached thread with the
 * process's own pthread_create(), and goes on exactly where it was. The new thread opens the
 * library (its text comes through a memory file, so the process need not see our files), calls
 * one function of it, and ends. What could wait (the loader's lock, reading the file) waits in the
 * new thread, beside the job.
 *
 * A thread is used only at a place where a call of pthread_create() is harmless: not inside the
 * allocator, the dynamic loader, a signal handler or a restartable sequence. If none is found for
 * a while, nothing is done. On every failure the thread goes on as if nothing had happened; if the
 * caller dies while the thread is in the call, the thread returns by itself.
 *
 * Linux on x86-64 with glibc; elsewhere -ENOTSUP. Not for a caller with several threads in the
 * middle of using ptrace: the work is done in a child of its own.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LOAD_H
#define SLOWRANK_PROBE_ATTACH_LOAD_H

#include <stdint.h>
#include <sys/types.h>

enum { LOAD_WHY_BYTES = 256 };

struct load_report {
	int32_t thread;	      /* that made the call; 0 = none was stopped */
	uint32_t stops;	      /* threads that were stopped for a look, and were at a bad place */
	int64_t stop_ns;      /* how long the thread was kept from its own work */
	int64_t longest_ns;   /* of all stops, those for a look too */
	int64_t load_ns;      /* from the call to the library's answer, beside the job */
	int32_t start_result; /* what the function returned */
	char why[LOAD_WHY_BYTES]; /* one line on failure: what is wrong and what to do */
};

/*
 * Loads the file at path (of this process's view) into pid, as library_name, and calls
 * int start(void) there. Returns 0 when that returned 0. -EALREADY: a library of that name is there
 * already, nothing was done. Other negative errnos come with report->why. report is always set.
 */
int load_library(pid_t pid, const char *path, const char *library_name, const char *start,
	struct load_report *report) __attribute__((warn_unused_result));

#endif
