/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events of the in-process library (libslowrank_inject.so), from the rings of the job's processes
 * (probe/ring). Works without BPF, and in the same container. One thread; nothing waits.
 *
 * Times come as host_ns (CLOCK_MONOTONIC), converted with the clock that the ring's own clock
 * records give; clock_error_ns says how wrong that may be (CLOCK_ERROR_UNKNOWN_NS until the first
 * clock record: then the device times are 0). Strings and structs are valid during the callback.
 */
#ifndef SLOWRANK_PROBE_SOURCES_RING_SOURCE_H
#define SLOWRANK_PROBE_SOURCES_RING_SOURCE_H

#include <stdbool.h>
#include <sys/types.h>

#include "analysis/base/clock_fit.h"
#include "probe/ring/ring_layout.h"

enum {
	RING_SOURCE_PROCESSES_MAX = 1024,
	RING_SOURCE_NAME_BYTES_MAX = 512, /* longer kernel names are cut */
};

struct ring_source;

struct ring_source_collective {
	pid_t pid;	       /* as the probe sees it */
	pid_t thread_id;       /* as the process sees it */
	uint64_t communicator; /* NCCL's hash: the same on every member */
	int32_t rank;	       /* within the communicator */
	uint64_t sequence;     /* per function; point to point: per function and peer */
	uint64_t length_bytes;
	uint8_t function; /* enum ring_function */
	uint8_t datatype; /* ncclDataType_t; 255 = unknown */
	int32_t root;	  /* or peer; -1 = none */
	uint32_t flags;	  /* RING_COLLECTIVE_... */
	uint8_t channels_expected, channels_seen;
	struct host_ns enqueue;
	struct host_ns device_start, device_stop; /* 0 = not known */
	int64_t clock_error_ns;
	uint64_t number; /* of the process's collectives, in order of their launch, from 1 */
	uint64_t launchers_cpu_ns; /* ring_layout.h; 0 = not measured */
};

struct ring_source_kernel {
	pid_t pid;
	const char *name; /* as CUPTI says it, mangled; "" = not known */
	uint32_t name_id; /* the same name, the same number within a process */
	uint32_t device, stream, correlation;
	bool in_graph;
	struct host_ns launch; /* 0 = not known */
	struct host_ns start, stop;
	int64_t clock_error_ns;
};

struct ring_source_memcpy {
	pid_t pid;
	uint64_t length_bytes;
	uint32_t device, stream, correlation;
	uint8_t copy_kind; /* CUpti_ActivityMemcpyKind */
	struct host_ns start, stop;
	int64_t clock_error_ns;
};

struct ring_source_synchronisation {
	pid_t pid;
	uint32_t type; /* CUpti_ActivitySynchronizationType */
	uint32_t stream, correlation;
	struct host_ns start, stop;
	int64_t clock_error_ns;
};

struct ring_source_timed_call {
	pid_t pid;
	uint64_t handle;		  /* the communicator's, as passed */
	pid_t thread_id;		  /* as the process numbers it; 0: not known */
	struct host_ns entered, returned; /* the call, on the host */
	struct host_ns launched;	  /* its kernel starts no earlier */
	struct host_ns start, stop; /* its stream was ready for it; it was done; 0 = not known */
};

/* Each may be NULL. pid is the number under which the process was added. */
struct ring_source_callbacks {
	void (*hello)(void *context, pid_t pid, const struct ring_hello *hello);
	void (*communicator)(
		void *context, pid_t pid, const struct ring_communicator *communicator, bool ended);
	void (*collective)(void *context, const struct ring_source_collective *collective);
	void (*kernel)(void *context, const struct ring_source_kernel *kernel);
	void (*memcpy)(void *context, const struct ring_source_memcpy *memcpy);
	void (*synchronisation)(
		void *context, const struct ring_source_synchronisation *synchronisation);
	void (*deep_state)(void *context, pid_t pid, const struct ring_deep_report *report);
	void (*timed_call)(void *context, const struct ring_source_timed_call *call);
	void (*timed_state)(void *context, pid_t pid, const struct ring_timed_state *state);
	void (*in_flight)(void *context, pid_t pid, const struct ring_in_flight *call);
	/* The process has ended and its ring is drained and removed; pid is forgotten after this. */
	void (*ended)(void *context, pid_t pid);
};

struct ring_source_state {
	uint32_t process_count; /* added and alive */
	uint32_t ring_count;	/* of these, with a ring */
	uint64_t records, dropped, damaged, unknown;
	uint64_t dropped_full; /* of dropped: the ring was full */
	uint64_t
		dropped_by_writer; /* of dropped: too many collectives in flight there, or communicators */
	int64_t clock_error_ns; /* the worst of all devices that have a clock; 0 = none has */
	int last_error;		/* the last negative errno other than "no ring yet"; 0 = none */
};

/*
 * directory: where the library makes its rings, as the processes see it; NULL:
 * $SLOWRANK_RING_DIRECTORY, else /dev/shm. Removes rings there whose process is dead.
 * callbacks are copied. Returns -ENOMEM or -EINVAL.
 */
int ring_source_create(const char *directory, const struct ring_source_callbacks *callbacks,
	void *context, struct ring_source **source) __attribute__((warn_unused_result));
void ring_source_destroy(struct ring_source *source); /* NULL is fine; rings stay */

/*
 * Watches a process (pid as the probe sees it). Its ring is looked for now and in every
 * ring_source_poll(), for it is made later, when the communication library starts. Again: nothing.
 * -ESRCH: there is none; -ENOSPC: RING_SOURCE_PROCESSES_MAX.
 */
int ring_source_add_process(struct ring_source *source, pid_t pid)
	__attribute__((warn_unused_result));

/*
 * Drains what is there, at most record_max records of each process, and calls back. now: this
 * host's clock. Returns the number of records, never an error: see ring_source_get_state().
 */
size_t ring_source_poll(struct ring_source *source, struct host_ns now, size_t record_max);

/*
 * Asks a process for a deep look (RING_DEEP_...; 0 ends it) until host time stop.
 * The answer is deep_state, with the request's number; the end of a look bears the number of what
 * began it. request may be NULL. -ENOENT: it has no ring.
 */
int ring_source_request_deep(struct ring_source *source, pid_t pid, uint32_t kinds,
	struct host_ns stop, uint32_t *request) __attribute__((warn_unused_result));
/* Asks a process to time its collectives by events until then; 0: no more. -ENOENT: it has no ring. */
int ring_source_time_calls(struct ring_source *source, pid_t pid, struct host_ns until)
	__attribute__((warn_unused_result));
/* From now on libraries tell what the threads that make collectives had of CPUs. */
void ring_source_want_launchers_cpu(struct ring_source *source);
/* While paused, the libraries of all processes write nothing: for measuring what they cost. */
void ring_source_pause(struct ring_source *source, bool paused);

void ring_source_get_state(const struct ring_source *source, struct ring_source_state *state);

#endif
