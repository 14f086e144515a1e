/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vocabulary of slowrank: clocks, operations, activities, collective parts, steps.
 *
 * Every room speaks in these types. They are plain values without invariants; nothing here
 * allocates, and there is no state, so any thread may use them. Enums are numbered and
 * append-only; a reader treats an unknown number as "unknown", never as an error.
 */
#ifndef SLOWRANK_ANALYSIS_BASE_STEP_H
#define SLOWRANK_ANALYSIS_BASE_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Clock domains. Three struct types, so that the compiler refuses to mix them. */
struct host_ns { /* CLOCK_MONOTONIC of one host */
	int64_t value;
};
struct gpu_ns { /* globaltimer of one device */
	int64_t value;
};
struct job_ns { /* the clock of the coordinator's host (CLOCK_MONOTONIC there) */
	int64_t value;
};

/* Largest values accepted from outside; every decoder checks against them. */
enum {
	STEP_RANK_COUNT_MAX = 131072,
	STEP_PART_COUNT_MAX = 16384, /* collectives in one step entry */
	STEP_NAME_LENGTH_MAX = 63,   /* host names, source names; without the NUL */
	STEP_TASK_NAME_LENGTH = 16,  /* TASK_COMM_LEN of the kernel, with the NUL */
};

#define STEP_RANK_UNKNOWN UINT32_MAX
#define STEP_ROOT_NONE (-1)

enum operation {
	OPERATION_UNKNOWN = 0,
	OPERATION_ALL_REDUCE = 1,
	OPERATION_BROADCAST = 2,
	OPERATION_REDUCE = 3,
	OPERATION_ALL_GATHER = 4,
	OPERATION_REDUCE_SCATTER = 5,
	OPERATION_ALL_TO_ALL = 6,
	OPERATION_GATHER = 7,
	OPERATION_SCATTER = 8,
	OPERATION_BARRIER = 9,
	OPERATION_SCAN = 10,
	OPERATION_EXCLUSIVE_SCAN = 11,
	OPERATION_SEND = 12,
	OPERATION_RECEIVE = 13,
	OPERATION_NEIGHBOR = 14, /* any neighbourhood collective */
	OPERATION_COMMUNICATOR_CREATE =
		15,		/* making or splitting a communicator synchronises too */
	OPERATION_COMPUTE = 16, /* no communication: work on the device, where a source shows it */
	OPERATION_NR
};

/*
 * Whom a member of an instance waits for. ALL: nobody leaves before the last arrives.
 * ROOT: the others wait for the root, which waits for nobody. AT_ROOT: the root waits for
 * all, the others for nobody. PREFIX: rank r waits for lower ranks. NOBODY: unknown or none.
 */
enum waits_for {
	WAITS_FOR_NOBODY = 0,
	WAITS_FOR_ALL = 1,
	WAITS_FOR_ROOT = 2,
	WAITS_FOR_ALL_AT_ROOT = 3,
	WAITS_FOR_PREFIX = 4,
	WAITS_FOR_PARTNER = 5, /* of a joined send and receive: the receiver for the sender, and the
	                          sender for the receiver where it did not leave before */
};
enum waits_for operation_waits_for(enum operation operation);
/* A lower-case English name with hyphens, e.g. "all-reduce"; "unknown" for numbers it does not know. */
const char *operation_name(enum operation operation);

/*
 * What the calling thread did in a stretch of time, besides running its own code.
 * All times in ns; the reasons exclude each other, so
 *     on-CPU time = length - (preempted + throttled + block_io + asleep + major_fault + comm_call)
 * and minor_fault_ns is a part of the on-CPU time. A field that could not be measured is 0
 * and the coverage names its source as not "on": never take such a 0 for "none".
 */
struct activity {
	int64_t preempted_ns;	/* runnable, but another task had the CPU */
	int64_t throttled_ns;	/* its cgroup was out of CPU quota */
	int64_t block_io_ns;	/* blocked on storage, outside a page fault */
	int64_t asleep_ns;	/* blocked on anything else: locks, timers, pipes, the device */
	int64_t major_fault_ns; /* from page-fault entry to its end, for faults that needed I/O */
	int64_t minor_fault_ns; /* estimated from timed samples of minor faults, times their count */
	int64_t comm_call_ns; /* inside point-to-point and completion calls (MPI_Recv, MPI_Wait) */
	/* Before a part with device time only: from the enqueue of the part before to its own, less
	 * the time in calls that wait for the device, and less what the part then waited behind others
	 * on the device. What the host alone took; the other fields then say what it is made of. */
	int64_t host_ns;
	int64_t collector_ns; /* in garbage collections of the program's runtime: part of on-CPU time */
	uint32_t major_faults;
	uint32_t minor_faults;
};
void activity_add(struct activity *sum, const struct activity *other);
static inline bool activity_is_none(const struct activity *activity)
{
	return (activity->preempted_ns | activity->throttled_ns | activity->block_io_ns |
		       activity->asleep_ns | activity->major_fault_ns | activity->minor_fault_ns |
		       activity->comm_call_ns | activity->host_ns | activity->collector_ns) == 0 &&
	       (activity->major_faults | activity->minor_faults) == 0;
}

enum part_flag {
	PART_ENQUEUE_ONLY =
		1 << 0, /* arrival = departure = enqueue time: says nothing of the device */
	PART_DEVICE_TIME = 1 << 1, /* arrival and departure are device times, on the host's clock */
	PART_SEQUENCE_RELATIVE =
		1 << 2, /* counted from an attach; differs by a constant between ranks */
	/* No device time: arrival is when the host called, departure when it had waited for the device
	 * behind that. In between lie the rest of the device's work and the collective. */
	PART_HOST_TIME = 1 << 3,
};

/*
 * What a part serves, where the source tells (imported traces do); most do not. Forward and
 * backward also tell the two directions of sends and receives apart.
 */
enum part_purpose {
	PURPOSE_UNKNOWN = 0,
	PURPOSE_FORWARD = 1,
	PURPOSE_BACKWARD = 2,
	PURPOSE_PARAMETERS = 3, /* of the model, gathered before they are used */
	PURPOSE_GRADIENTS = 4,
	PURPOSE_SEPARATE_GRADIENTS = 5, /* what overlapped data parallelism leaves for the end */
	PURPOSE_LAYERNORM = 6,
	PURPOSE_EMBEDDING = 7,
	PURPOSE_CLIP = 8, /* the norm of all gradients */
	PURPOSE_OPTIMIZER = 9,
	PURPOSE_GARBAGE_COLLECTION = 10,
	PURPOSE_NR
};

/*
 * One rank's part of one collective instance. Joined across ranks on (communicator_id, sequence);
 * a send with its receive on (communicator_id, sender, receiver, purpose, sequence), where the
 * sequence counts what goes from the one to the other for that purpose.
 */
struct collective_part {
	uint64_t communicator_id; /* the same number on every member; 0 = not identified */
	uint64_t sequence;	  /* counts this member's calls on the communicator, from 0 */
	uint64_t length_bytes;	  /* payload of this rank's call; 0 for a barrier */
	struct host_ns arrival;
	struct host_ns departure;
	struct host_ns
		enqueue; /* with device time: when the host called; 0 = unknown; stays local */
	uint64_t
		launchers_cpu_ns; /* until then, the CPU time of the threads that call; 0 = unknown; local */
	struct activity before; /* the segment from the previous departure to this arrival */
	struct activity inside; /* from arrival to departure */
	int32_t root;		/* rank within the communicator, or STEP_ROOT_NONE */
	uint8_t operation;	/* enum operation */
	uint8_t flags;		/* enum part_flag */
	uint8_t purpose;	/* enum part_purpose */
	uint8_t stream; /* of the device; parts of one follow each other, of two may overlap */
	uint32_t
		peer; /* sends and receives: the other rank + 1 within the communicator; 0 = none */
	uint32_t chunk; /* the model's chunk (interleaved: over all stages) + 1; 0 = unknown */
};

/* What a call is, apart from its time: fields of a collective_part that repeat from step to step. */
struct part_kind {
	uint64_t communicator_id;
	uint64_t length_bytes;
	int32_t root;
	uint32_t peer;
	uint32_t chunk;
	uint8_t operation; /* enum operation */
	uint8_t flags;	   /* enum part_flag */
	uint8_t purpose;   /* enum part_purpose */
	uint8_t stream;
};

static inline bool part_kind_same(const struct part_kind *one, const struct part_kind *other)
{
	return one->communicator_id == other->communicator_id &&
	       one->length_bytes == other->length_bytes && one->root == other->root &&
	       one->peer == other->peer && one->chunk == other->chunk &&
	       one->operation == other->operation && one->flags == other->flags &&
	       one->purpose == other->purpose && one->stream == other->stream;
}

/* To or from one other rank. */
static inline bool part_kind_is_message(const struct part_kind *kind)
{
	return kind->operation == OPERATION_SEND || kind->operation == OPERATION_RECEIVE;
}

/* The same, with the device's times: those of a group are one kernel, and begin and end in any order. */
static inline bool part_kind_is_device_message(const struct part_kind *kind)
{
	return part_kind_is_message(kind) && (kind->flags & PART_DEVICE_TIME);
}

/* A communicator as one member sees it. */
struct communicator {
	uint64_t id;
	uint32_t size;	    /* members; 0 = unknown */
	uint32_t own_index; /* this member's rank in it; STEP_RANK_UNKNOWN = unknown */
};

enum phase {
	PHASE_INPUT = 0,
	PHASE_COMPUTE = 1,
	PHASE_HOST = 2,
	PHASE_COMM_WAIT = 3,
	PHASE_COMM_TRANSFER = 4,
	PHASE_NR
};
const char *phase_name(enum phase phase);

enum step_flag {
	STEP_MARKED = 1 << 0, /* its ends come from markers of the program */
	STEP_WINDOW = 1 << 1, /* no period was found: a stretch of time that ends at a collective */
	STEP_IRREGULAR = 1 << 2,  /* not the usual sequence: evaluation, checkpoint, warm-up */
	STEP_INCOMPLETE = 1 << 3, /* events were lost inside it */
};

/*
 * What a rank's host launched on its device, in steps that were looked at (few are). Running totals, too:
 * those of one window can be subtracted.
 */
struct step_launches {
	uint32_t window;	 /* 0: not looked at, and all else is 0 */
	uint32_t launches;	 /* of kernels and of graphs */
	uint32_t graph_launches; /* of these, of graphs */
	/* Between launches, where that was long, and not in calls that wait for the device. */
	int64_t silence_ns;
	int64_t idle_ns; /* of that, from a wait for all that was launched to the next launch */
	int64_t wait_ns; /* in calls that wait for the device */
};
void step_launches_add(struct step_launches *sum, const struct step_launches *other);

/*
 * One step of one rank: from the departure of the collective that ended the step before to
 * the departure of the collective that ends this one. Steps of a rank are contiguous.
 * comm_ns holds the time in collectives; only the coordinator, which knows the other
 * members' arrivals, can split it into wait and transfer. The four times sum to end - start.
 */
struct step_entry {
	uint32_t rank;
	uint32_t flags;	    /* enum step_flag */
	uint64_t index;	    /* counts this rank's entries from 0; markers may set it */
	uint64_t signature; /* hash of the token sequence: equal steps have equal signatures */
	struct host_ns start;
	struct host_ns end;
	int64_t input_ns;
	int64_t compute_ns;
	int64_t host_ns;
	int64_t comm_ns;
	struct activity tail;	       /* from the last departure to the end: 0 unless marked */
	struct activity other_threads; /* all other threads of the process, summed, over the step */
	struct step_launches launches;
	size_t part_count;
	struct collective_part *parts; /* part_count of them, in order of arrival; who owns them is
	                                  said where a step_entry is handed over */
};

/* Why a thread was off the CPU. */
enum off_cpu_reason {
	OFF_CPU_UNKNOWN = 0,
	OFF_CPU_PREEMPTED = 1,
	OFF_CPU_THROTTLED = 2,
	OFF_CPU_BLOCK_IO = 3,
	OFF_CPU_ASLEEP = 4,
	OFF_CPU_MAJOR_FAULT = 5,
	OFF_CPU_STOPPED = 6, /* by a signal, or held by a debugger; of a process's first thread */
	OFF_CPU_NR
};
const char *off_cpu_reason_name(enum off_cpu_reason reason);

/* One long off-CPU interval of a rank's thread: evidence with a name on it. */
struct off_cpu_interval {
	uint32_t rank;
	uint32_t thread_id;
	struct host_ns start;
	struct host_ns end;
	uint32_t other_pid; /* who ran instead when preempted, or holds it; 0 = nobody or unknown */
	uint8_t reason;	    /* enum off_cpu_reason */
	char other_name[STEP_TASK_NAME_LENGTH];
};

/*
 * Cumulative counters read by samplers, per rank. Differences of two samples are
 * evidence. Numbers that are left out were sampled by earlier versions, and read by nothing: docs/wire.md.
 */
enum metric {
	METRIC_UNKNOWN = 0,
	METRIC_CGROUP_PERIODS = 1,	     /* cpu.stat nr_periods, worst ancestor */
	METRIC_CGROUP_THROTTLED_PERIODS = 2, /* cpu.stat nr_throttled */
	METRIC_CGROUP_THROTTLED_NS = 3,	     /* cpu.stat throttled_time / throttled_usec */
	METRIC_CGROUP_QUOTA_MILLICPU = 4,    /* a gauge: the tightest quota; absent = no quota */
	METRIC_MEMORY_RECLAIM_PAGES = 6,     /* memory.stat pgscan/pgsteal, direct */
	METRIC_MEMORY_LIMIT_HITS = 7,	     /* memory.events max / memory.failcnt */
	METRIC_PSI_MEMORY_SOME_NS = 9, /* some task of its cgroup, else of the host, stalled */
	METRIC_TCP_BUSY_NS =
		13, /* time the rank's sockets had data to send, and receivers room, summed */
	METRIC_TCP_BYTES_SENT = 14,
	METRIC_TCP_BYTES_RETRANSMITTED = 15,
	METRIC_PROCESS_CPU_NS = 18,	  /* user + system time of the process */
	METRIC_PROCESS_MAJOR_FAULTS = 20, /* all threads of the process, since its start */
	METRIC_PROCESS_MINOR_FAULTS = 21,
	/* Ports of the host's RDMA devices, all ranks there together: */
	METRIC_RDMA_RETRANSMITS = 24, /* what was sent had to be sent again: timeouts, refusals */
	METRIC_RDMA_CONGESTION = 25,  /* congestion notifications, waits to transmit */
	METRIC_RDMA_LINK_ERRORS = 26,
	/* The GPU that the rank computes on. */
	METRIC_GPU_OTHER_PROCESSES = 27,  /* a gauge: others that compute there */
	METRIC_GPU_CLOCK_MHZ = 28,	  /* a gauge: of the multiprocessors */
	METRIC_GPU_SLOWDOWN_REASONS = 29, /* a gauge: bits of nvmlClocksThrottleReasons */
	METRIC_GPU_ECC_ERRORS = 30,	  /* uncorrected, since the driver was loaded */
	METRIC_RDMA_PACKETS_SENT = 33,	  /* ports of the host's RDMA devices, all ranks together */
	METRIC_RDMA_OUT_OF_ORDER = 34,	  /* something before what was received is missing */
	/* The CPUs that the rank may run on: what a hypervisor gave to others, of what was wanted. */
	METRIC_CPU_STOLEN_NS = 35,
	METRIC_CPU_WANTED_NS = 36,
	/* The rank's busiest threads, while their cycles were counted: */
	METRIC_CPU_CYCLES = 37,
	METRIC_CPU_COUNTED_NS = 38, /* so long on a CPU (with what was stolen meanwhile) */
	METRIC_CPU_INSTRUCTIONS = 39,
	METRIC_CPU_THROTTLES = 40, /* times that its CPUs were slowed down for heat */
	/* The threads that make the rank's collectives, where no kernel side tells of them: */
	METRIC_LAUNCHERS_CPU_NS = 41,	 /* so long on a CPU */
	METRIC_LAUNCHERS_QUEUED_NS = 42, /* so long runnable, waits for the device included */
	METRIC_GPU_BUSY_NS = 43,	 /* its GPU ran some kernel, of whomever */
	METRIC_NR
};

struct metric_sample {
	uint32_t rank;
	uint16_t metric; /* enum metric */
	struct host_ns time;
	int64_t value;
};

#endif
