/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the ring source. One thread. */
#ifndef SLOWRANK_PROBE_SOURCES_RING_SOURCE_INTERNAL_H
#define SLOWRANK_PROBE_SOURCES_RING_SOURCE_INTERNAL_H

#include <time.h>

#include "probe/ring/ring_clock.h"
#include "probe/ring/ring_reader.h"
#include "probe/sources/ring_source.h"

enum { RING_SOURCE_DEVICES = 16, RING_SOURCE_NAMES_MAX = 1024, RING_SOURCE_DIRECTORY_BYTES = 256 };

/* A kernel's name, put together from its pieces. */
struct ring_name {
	uint32_t id;
	uint16_t total_bytes;
	char *text;
};

struct ring_process {
	pid_t pid;
	pid_t inner_pid; /* in its own namespace */
	uid_t owner;
	uint64_t start_time;
	struct ring_reader *reader; /* NULL: not found yet */
	int directory_fd;	    /* stays open: the file is removed when the process is gone */
	struct timespec
		directory_seen; /* the folder's last change when no ring was in it; 0: unknown */
	char file_name[64];
	struct host_ns checked; /* when it was last seen to live */
	bool gone;
	struct ring_clock clocks[RING_SOURCE_DEVICES], event_clocks[RING_SOURCE_DEVICES],
		cupti_clock;
	struct ring_name names[RING_SOURCE_NAMES_MAX];
	uint64_t unknown; /* records of kinds that are not known here */
	uint64_t library_drops;
};

struct ring_source {
	char directory[RING_SOURCE_DIRECTORY_BYTES];
	struct ring_source_callbacks callbacks;
	void *context;
	bool paused, wants_launchers_cpu;
	uint32_t process_count;
	struct ring_process *processes[RING_SOURCE_PROCESSES_MAX];
	struct ring_reader_counts ended; /* of the rings that are closed */
	uint64_t ended_unknown, ended_library_drops;
	int last_error;
};

/*
 * Looks for the ring of a process and opens it. -ENOENT: there is none yet. Works after the
 * process's end too, when it was called before: the directory stays open.
 */
int ring_process_find(struct ring_process *process, const char *directory)
	__attribute__((warn_unused_result));
/* True when the process has ended (or its number is another's now). */
bool ring_process_has_ended(const struct ring_process *process);
/* Removes the ring's file. */
void ring_process_unlink(struct ring_process *process);
void ring_process_close_directory(struct ring_process *process);
/* Removes rings in a directory of this mount namespace whose process is dead. */
void ring_process_clean_stale(const char *directory);

/* Decodes one record and calls back. */
void ring_source_deliver(
	struct ring_source *source, struct ring_process *process, const struct ring_record *record);

#endif
