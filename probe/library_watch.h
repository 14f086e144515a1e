/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uprobes follow the libraries: those that a command will load are attached to before it starts,
 * those that its processes map (dlopen comes late) when they are seen. Reading a process's
 * mappings is the dearest thing that the probe does, so a process is looked at seldom and more
 * seldom: when it is new, 50 ms later, after 100 ms, 200 ms ... and every 10 s from then on. Of
 * the session's thread.
 */
#ifndef SLOWRANK_PROBE_LIBRARY_WATCH_H
#define SLOWRANK_PROBE_LIBRARY_WATCH_H

#include <stddef.h>
#include <sys/types.h>

#include "analysis/base/step.h"
#include "probe/sources/bpf_source.h"

enum {
	LIBRARY_WATCH_MAX = 4096, /* processes that are looked at again */
};

struct library_watch {
	struct bpf_source *bpf; /* borrowed; NULL: nothing is attached */
	size_t count;
	struct watched_process {
		pid_t pid;
		struct host_ns next;
		int64_t interval_ns;
	} processes[LIBRARY_WATCH_MAX];
};

void library_watch_init(struct library_watch *watch, struct bpf_source *bpf);

/* Attaches to the libraries that a command will load. */
void library_watch_command(struct library_watch *watch, char *const argv[]);

/*
 * A process that is new, or runs a new program: attaches to what it has mapped, and follows it
 * until it ends. Of more than LIBRARY_WATCH_MAX the rest is looked at by nobody: its libraries
 * were most likely found through another process.
 */
void library_watch_process(struct library_watch *watch, pid_t pid);

/* Looks again at the processes whose time has come. */
void library_watch_look(struct library_watch *watch, struct host_ns now);

#endif
