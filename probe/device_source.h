/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the rings of the in-process library to the job: communicators and collectives with their
 * device times; and deep looks. One thread.
 */
#ifndef SLOWRANK_PROBE_DEVICE_SOURCE_H
#define SLOWRANK_PROBE_DEVICE_SOURCE_H

#include "probe/device_looks.h"

struct device_source;

/* job outlives the source. Returns 0 or a negative errno. The caller owns it. */
int device_source_create(struct job *job, const struct device_looks_options *looks,
	struct device_source **source) __attribute__((warn_unused_result));
void device_source_destroy(struct device_source *source); /* NULL is fine */

/* A step of a process, as job_watch_steps() tells it. */
void device_source_step(struct device_source *source, pid_t pid, const struct step_entry *step);

/* A process of the job: its ring is looked for from now on. */
void device_source_add_process(struct device_source *source, pid_t pid);

/* Takes what the rings hold. Returns the number of records. */
size_t device_source_poll(struct device_source *source, struct host_ns now);

/*
 * The oldest call that the device of a process has not ended, if it is older than RING_IN_FLIGHT_NS: its
 * communicator, operation, sequence, launch, how many there are, whether its kernel runs. False: none, or
 * the process has not told of it for a while (it is stopped).
 */
bool device_source_in_flight(const struct device_source *source, pid_t pid, struct host_ns now,
	struct message_stall *stall);

/* Launches of a process that were counted; and that some should be. */
void device_source_launches(
	struct device_source *source, pid_t pid, const struct launch_count *count);
bool device_source_wants_launches(const struct device_source *source);

/* Its deep looks: to be asked, and to take profiles and their state from. */
struct device_looks *device_source_looks(struct device_source *source);

/* While paused the libraries write nothing (for bench/overhead). */
void device_source_pause(struct device_source *source, bool paused);

/*
 * "device.time". why_not: the library was not given to the job, or "". enqueue_only: collectives were
 * seen that had no device time. Returns false when there is nothing to say: no device is used.
 */
bool device_source_state(const struct device_source *source, const char *why_not, bool enqueue_only,
	struct message_source *out);
/*
 * For where BPF is missing: has libraries tell what the threads that make collectives had of CPUs, and looks at how
 * long these waited for one. False: nothing is known of it yet, or it is not done.
 */
void device_source_watch_launchers(struct device_source *source);
bool device_source_launchers_state(const struct device_source *source, struct message_source *out);

uint64_t device_source_dropped(const struct device_source *source);

#endif
