/* SPDX-License-Identifier: Apache-2.0 */
/* Between the files of the ring source. One thread. */
#ifndef SLOWRANK_PROBE_SOURCES_RING_SOURCE_INTERNAL_H
#define SLOWRANK_PROBE_SOURCES_RING_SOURCE_INTERNAL_H

#include <time.h>

#include "probe/ring/ring_clock.h"
#include "probe/ring/ring_reader.h"
#include "probe/sources/ring_source.h"

enum {
	RING_SOURCE_DEVICES = 16,
	RING_SOURCE_NAMES_MAX = 1024,
	RING_SOURCE_DIRECTORY_BYTES = 256,
	RING_SOURCE_NAME_BYTES = 64,
};

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
	bool told;		    /* what all rings are told */
	int directory_fd;	    /* stays open: the file is removed when the process is gone */
	dev_t folder_device;	    /* what that is */
	ino_t folder_inode;
	struct timespec
		directory_seen; /* the folder's last change when no ring was in it; 0: unknown */
	uint64_t look;		/* the one in which the folder was last read */
	int found;		/* what it came to */
	char file_name[RING_SOURCE_NAME_BYTES];
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
	uint64_t looks;
	struct host_ns looked; /* the last time */
	uint32_t process_count;
	struct ring_process *processes[RING_SOURCE_PROCESSES_MAX];
	struct ring_reader_counts ended; /* of the rings that are closed */
	uint64_t ended_unknown, ended_library_drops;
	int last_error;
};

/* One look for the rings of all processes; number: from 1, another each time. */
struct ring_look {
	struct ring_process *const *processes;
	size_t count;
	uint64_t number;
};

/*
 * Looks for the ring of a process, one of look's, and opens it. -ENOENT: there is none yet. A folder that changes
 * all the time, as /dev/shm does beside data loaders, is read once in a look for all processes that have it; so
 * another process of the look may have got its ring, too. Works after the process's end, when it was called before:
 * the directory stays open.
 */
int ring_process_find(struct ring_process *process, const char *directory,
	const struct ring_look *look) __attribute__((warn_unused_result));
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
