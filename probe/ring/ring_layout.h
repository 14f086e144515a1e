/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file that the in-process library and the probe share: a header page, then slots of one
 * record each. Any thread of the training process writes, one probe reads. Host byte order, one
 * machine only. Everything in it may be damaged by the job: the reader believes nothing.
 *
 * A slot's sequence is its position when it is free, its position + 1 when it holds a record,
 * its position + slot_count when the reader is done (D. Vyukov's bounded queue).
 */
#ifndef SLOWRANK_PROBE_RING_RING_LAYOUT_H
#define SLOWRANK_PROBE_RING_RING_LAYOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define RING_MAGIC UINT64_C(0x31474e4952574c53) /* "SLWRING1" */
#define RING_FILE_PREFIX "slowrank-ring."	/* then UID.PID.START_TIME */
#define RING_DIRECTORY_VARIABLE "SLOWRANK_RING_DIRECTORY"
#define RING_DIRECTORY_DEFAULT "/dev/shm"
/* The user's NCCL_PROFILER_PLUGIN, where `slowrank run` put the library there; "" = NCCL's default. */
#define RING_USER_PLUGIN_VARIABLE "SLOWRANK_NCCL_PROFILER_PLUGIN"

enum {
	RING_VERSION = 1,
	RING_HEADER_BYTES = 4096,
	RING_RECORD_BYTES = 128,
	RING_PAYLOAD_BYTES = 112,
	RING_PARTS =
		128, /* of the file system, which the job needs, too: a container's has 64 MiB */
	RING_SLOT_COUNT_MIN = 64,
	RING_SLOT_COUNT_MAX = 1 << 20,
	RING_SLOT_COUNT_DEFAULT = 8192, /* 1 MiB */
	RING_NAME_PIECE_BYTES = 96,
};

/* Append-only; a reader skips what it does not know. */
enum ring_record_kind {
	RING_RECORD_HELLO = 1,
	RING_RECORD_COMMUNICATOR = 2,
	RING_RECORD_COMMUNICATOR_END = 3,
	RING_RECORD_COLLECTIVE = 4,
	RING_RECORD_CLOCK_PAIR = 5,
	RING_RECORD_CLOCK_BOUND = 6,
	RING_RECORD_KERNEL = 7,
	RING_RECORD_KERNEL_NAME = 8,
	RING_RECORD_MEMCPY = 9,
	RING_RECORD_SYNCHRONISATION = 10,
	RING_RECORD_DEEP_STATE = 11,
	RING_RECORD_DROPS = 12,
	RING_RECORD_TIMED_CALL = 13,
	RING_RECORD_TIMED_STATE = 14,
	RING_RECORD_IN_FLIGHT = 15,
};

enum ring_function {
	RING_FUNCTION_UNKNOWN = 0,
	RING_FUNCTION_ALL_REDUCE = 1,
	RING_FUNCTION_ALL_GATHER = 2,
	RING_FUNCTION_REDUCE_SCATTER = 3,
	RING_FUNCTION_BROADCAST = 4,
	RING_FUNCTION_REDUCE = 5,
	RING_FUNCTION_SEND = 6,
	RING_FUNCTION_RECEIVE = 7,
	RING_FUNCTION_ALL_TO_ALL = 8,
	RING_FUNCTION_GATHER = 9,
	RING_FUNCTION_SCATTER = 10,
	RING_FUNCTION_NR
};

/* Of a collective record. */
enum {
	RING_COLLECTIVE_GRAPH = 1 << 0,		   /* launched from a captured graph */
	RING_COLLECTIVE_INCOMPLETE = 1 << 1,	   /* not all channels were seen */
	RING_COLLECTIVE_NO_DEVICE = 1 << 2,	   /* this version of NCCL gives no device times */
	RING_COLLECTIVE_COPY_ENGINE = 1 << 3,	   /* no kernel: not measurable */
	RING_COLLECTIVE_SEQUENCE_COUNTED = 1 << 4, /* the library counted it, not NCCL */
	RING_COLLECTIVE_OTHERS_TIMES = 1 << 5,	   /* NCCL tells another call's: left out */
	RING_COLLECTIVE_IMPLAUSIBLE = 1 << 6, /* the reader's: times that cannot be, left out */
};

enum ring_clock_domain {
	RING_CLOCK_GLOBALTIMER = 1, /* of collective records */
	RING_CLOCK_CUPTI = 2,	    /* of kernel, memcpy and synchronisation records */
	RING_CLOCK_EVENTS = 3, /* of timed calls: a device's, since an event of the library's */
};

enum ring_deep_state {
	RING_DEEP_OFF = 0,
	RING_DEEP_ON = 1,
	RING_DEEP_NO_LIBRARY = 2,	/* no libcupti in the process or beside libcudart */
	RING_DEEP_OTHER_SUBSCRIBER = 3, /* a profiler is there: we give way */
	RING_DEEP_FAILED = 4,		/* CUPTI said no: see error */
};

/* Kinds wanted in a deep look. */
enum {
	RING_DEEP_KERNELS = 1 << 0,
	RING_DEEP_COPIES = 1 << 1,
	RING_DEEP_SYNCHRONISATION = 1 << 2,
	RING_DEEP_LAUNCHES = 1 << 3, /* host time of the launch, by correlation */
	RING_DEEP_STEADY = 1 << 4, /* for as long as it is renewed: records come ten times a second,
				      other looks are served by it; alone it ends it */
};

struct ring_hello {
	int32_t pid;
	int32_t nccl_profiler_version; /* 0: started by injection */
	uint32_t library_version;
	int32_t cuda_driver_version; /* 0 = no driver found */
	int64_t host_ns;
};

struct ring_communicator {
	uint64_t hash; /* the same on every member */
	int32_t rank;
	int32_t rank_count; /* 0 = not told (profiler v2, v3) */
	int32_t node_count; /* 0 = not told */
	uint32_t index;	    /* of the communicator within this process; reused after its end */
	int64_t host_ns;
	uint64_t dropped; /* at its end: events without a free place */
};

struct ring_collective {
	uint64_t communicator;
	uint64_t sequence; /* per communicator and function; point to point: per peer too */
	uint64_t length_bytes;
	int64_t enqueue_host_ns;
	int64_t launch_host_ns;	  /* when NCCL told of the launch: after it */
	int64_t device_start_ns;  /* globaltimer; 0 = not seen */
	int64_t device_stop_ns;	  /* globaltimer; 0 = not seen */
	int64_t observed_host_ns; /* when the host was told of the last stop; 0 = never */
	uint32_t thread_id;
	int32_t root; /* or peer; -1 = none */
	int32_t rank;
	uint32_t flags;
	uint8_t function; /* enum ring_function */
	uint8_t datatype; /* ncclDataType_t; 255 = unknown */
	uint8_t channels_expected, channels_seen;
	uint8_t zero_stamps; /* times that were zero: not used (nccl#1973) */
	uint8_t device;	     /* of the process; 255 = unknown */
	uint8_t padding[2];
	uint64_t number; /* of the process's collectives, in order of their launch, from 1 */
	/* What the threads that make collectives have had of CPUs, at the launch: 0 = not measured. */
	uint64_t launchers_cpu_ns;
};
/* Whether enqueue_host_ns is when it was called; else NCCL (before 2.28) did not tell, and it is launch_host_ns. */
static inline bool ring_collective_knows_call(const struct ring_collective *collective)
{
	return collective->enqueue_host_ns < collective->launch_host_ns;
}
enum { RING_COLLECTIVE_BYTES_MIN = 96 }; /* of libraries that do not tell launchers_cpu_ns */

struct ring_clock_pair { /* device time was gpu_ns at host_ns, give or take error_ns */
	int64_t gpu_ns, host_ns, error_ns;
	uint32_t domain;
	int32_t device;
	uint32_t sample_count, failed_count;
};

/* From the events of about a second: host - device lies within [low_ns, high_ns]. */
struct ring_clock_bound {
	int64_t host_ns; /* of the last event */
	int64_t low_ns;	 /* INT64_MIN = none: a kernel starts after its call */
	int64_t high_ns; /* INT64_MAX = none: a stop is seen after it happened */
	uint32_t domain;
	int32_t device;
	uint32_t event_count;
	uint32_t padding;
};

struct ring_kernel {
	int64_t start_ns, stop_ns; /* CUPTI's clock */
	int64_t launch_host_ns;	   /* CUPTI's clock too; 0 = unknown */
	uint64_t graph_node;	   /* 0 = not of a graph */
	uint32_t name_id, device, context, stream, correlation, thread_id;
};

struct ring_kernel_name {
	uint32_t name_id;
	uint16_t total_bytes, piece_offset, piece_bytes, padding;
	char text[RING_NAME_PIECE_BYTES];
};

struct ring_memcpy {
	int64_t start_ns, stop_ns;
	uint64_t length_bytes;
	uint32_t device, context, stream, correlation;
	uint8_t copy_kind; /* CUpti_ActivityMemcpyKind */
	uint8_t padding[7];
};

struct ring_synchronisation {
	int64_t start_ns, stop_ns;
	uint32_t type; /* CUpti_ActivitySynchronizationType */
	uint32_t context, stream, correlation;
};

struct ring_deep_report {
	uint32_t request, state;
	int32_t error; /* CUptiResult */
	uint32_t kinds;
	uint64_t record_count, dropped; /* dropped: by CUPTI or without a buffer */
	uint64_t invalid;		/* records with impossible times */
	int64_t host_ns;
};

struct ring_drops {
	uint64_t ring_full, events, communicators, late;
	int64_t host_ns;
};

/* A call of a collective, between two events on its stream. Calls of a group share theirs. */
struct ring_timed_call {
	uint64_t handle;			   /* the communicator's, as passed */
	int64_t entered_host_ns, returned_host_ns; /* of the call */
	int64_t launched_host_ns;  /* its kernel starts no earlier, as far as the host knows */
	int64_t start_ns, stop_ns; /* RING_CLOCK_EVENTS */
	uint32_t device;	   /* of the process */
	uint32_t thread_id;	   /* that made the call; 0: recorded by a version without it */
};

/* What became of the calls since the library was asked to time them; once a second. */
struct ring_timed_state {
	uint64_t timed, captured; /* captured: into a graph, so not timed */
	uint64_t unplaced;	  /* too many were in flight */
	uint64_t failed;	  /* the driver said no, or their group cannot be told apart */
	uint64_t spent_ns;	  /* by the callers, on what timed calls need */
	uint32_t pointers;	  /* through which calls come; 0: none was found */
	uint32_t padding;
	int64_t settled_host_ns; /* nothing more will come of calls that were made before */
};

/* The oldest call of a communicator, when it has not ended for RING_IN_FLIGHT_NS; once a second then. */
#define RING_IN_FLIGHT_NS INT64_C(2000000000)
struct ring_in_flight {
	uint64_t communicator;
	uint64_t sequence;
	int64_t launch_host_ns;
	int64_t host_ns; /* of all that were told together */
	int32_t root;	 /* or peer */
	uint32_t count;	 /* of this communicator that have not ended */
	uint8_t function;
	uint8_t started; /* 1: its kernel runs */
	uint8_t padding[6];
};

struct ring_record {
	uint64_t sequence;
	uint32_t check; /* ring_checksum() */
	uint16_t kind;	/* enum ring_record_kind */
	uint16_t length_bytes;
	union {
		struct ring_hello hello;
		struct ring_communicator communicator;
		struct ring_collective collective;
		struct ring_clock_pair clock_pair;
		struct ring_clock_bound clock_bound;
		struct ring_kernel kernel;
		struct ring_kernel_name kernel_name;
		struct ring_memcpy memcpy;
		struct ring_synchronisation synchronisation;
		struct ring_deep_report deep;
		struct ring_drops drops;
		struct ring_timed_call timed_call;
		struct ring_timed_state timed_state;
		struct ring_in_flight in_flight;
		uint64_t words[RING_PAYLOAD_BYTES / 8];
	};
};
_Static_assert(sizeof(struct ring_record) == RING_RECORD_BYTES, "record of the ring");
_Static_assert(offsetof(struct ring_record, words) == 16, "payload of the record");
_Static_assert(sizeof(struct ring_collective) == 104, "collective of the ring");
_Static_assert(offsetof(struct ring_collective, launchers_cpu_ns) == RING_COLLECTIVE_BYTES_MIN,
	"collective of the ring");
_Static_assert(sizeof(struct ring_kernel_name) == 108, "kernel name of the ring");
_Static_assert(sizeof(struct ring_in_flight) == 48, "call in flight of the ring");
_Static_assert(sizeof(struct ring_kernel) == 56, "kernel of the ring");
_Static_assert(sizeof(struct ring_timed_call) == 56, "timed call of the ring");

/* What the probe asks for. Fields first, then the request number with release order. */
struct ring_control {
	uint32_t deep_request; /* changes with each request; 0 = none yet */
	uint32_t deep_kinds;   /* 0 = stop */
	int64_t deep_stop_host_ns;
	uint64_t reserved; /* 0: a library of before would end a look after so many collectives */
	uint32_t paused;   /* 1: the library writes nothing (to measure its cost) */
	uint32_t reader_count;	     /* readers so far: a later one is told hello again */
	int64_t timed_until_host_ns; /* collectives are timed by events until then */
	uint32_t launchers_cpu;	     /* 1: wanted, since nothing else tells when they sleep */
	uint32_t padding;
};

struct ring_header {
	uint64_t magic; /* written last */
	uint32_t version, header_bytes, record_bytes, slot_count;
	int32_t pid; /* within its own process namespace */
	uint32_t user_id;
	uint64_t start_time;	/* field 22 of /proc/PID/stat */
	uint64_t pid_namespace; /* inode of /proc/PID/ns/pid */
	int32_t descriptor;	/* of this file in the process; 0: none is kept */
	_Alignas(64) uint64_t head;
	_Alignas(64) uint64_t dropped_full;
	uint64_t dropped_late;	    /* the reader had given the slot up */
	_Alignas(64) uint64_t tail; /* the reader's */
	_Alignas(64) struct ring_control control;
};
_Static_assert(sizeof(struct ring_header) <= RING_HEADER_BYTES, "header of the ring");
_Static_assert(offsetof(struct ring_header, head) == 64, "header of the ring");
_Static_assert(offsetof(struct ring_header, tail) == 192, "header of the ring");
_Static_assert(offsetof(struct ring_header, control) == 256, "header of the ring");

/* Folds all of a record but its sequence and itself; the position tells a late writer's apart. */
static inline uint32_t ring_checksum(const struct ring_record *record, uint64_t position)
{
	uint64_t sum = (position ^ ((uint64_t)record->kind << 48 | record->length_bytes)) *
		       UINT64_C(0x9e3779b97f4a7c15);

	for (size_t i = 0; i < RING_PAYLOAD_BYTES / 8; i++)
		sum = (sum << 7 | sum >> 57) ^ record->words[i];
	sum *= UINT64_C(0x9e3779b97f4a7c15);
	return (uint32_t)(sum >> 32);
}

#endif
