/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between probes and the coordinator, decoded. Plain values; encode.h and
 * decode.h turn them into bytes and back. A decoded message owns all its memory through one
 * arena and is freed by message_batch_destroy().
 */
#ifndef SLOWRANK_PROBE_WIRE_MESSAGE_H
#define SLOWRANK_PROBE_WIRE_MESSAGE_H

#include "analysis/base/step.h"
#include "analysis/explain/kernel_profile.h"
#include "analysis/explain/stack_profile.h"

enum {
	WIRE_VERSION = 1,
	WIRE_MESSAGE_LENGTH_MAX = 8 * 1024 * 1024, /* bytes of one encoded batch or reply */
	WIRE_RANKS_PER_BATCH_MAX = 4096,
	WIRE_STEPS_PER_BATCH_MAX = 65536,
	WIRE_INTERVALS_PER_BATCH_MAX = 65536,
	WIRE_SAMPLES_PER_BATCH_MAX = 65536,
	WIRE_OPEN_CALLS_PER_BATCH_MAX = WIRE_RANKS_PER_BATCH_MAX,
	WIRE_SOURCES_MAX = 64,
	WIRE_COMMUNICATORS_PER_BATCH_MAX = 65536,
	WIRE_PARTS_PER_BATCH_MAX = 262144, /* collective parts of all steps of a batch together */
	WIRE_DETAIL_LENGTH_MAX = 255,	   /* free text, without the NUL */
	WIRE_QUEUE_PAIRS_PER_BATCH_MAX = 65536,
	WIRE_KERNEL_PROFILES_PER_BATCH_MAX = 1024,
	WIRE_STACK_PROFILES_PER_BATCH_MAX = 4, /* each has at most some 600 kB */
	WIRE_DIRECTIVES_MAX = 16,	       /* of one reply */
	WIRE_ANSWER_LENGTH_MAX = 1024 * 1024, /* bytes of one encoded answer: a look and its head */
	WIRE_QUEUE_PAIR_STATUS_NR = 24,	      /* enum ibv_wc_status; later ones count as the last */
	WIRE_QUEUE_PAIR_BUCKET_NR = 40,
	WIRE_GID_BYTES = 16,
};

enum source_state {
	SOURCE_OFF = 0, /* not asked for */
	SOURCE_ON = 1,
	SOURCE_DEGRADED = 2, /* on, with something lost: see why */
	SOURCE_MISSING = 3,  /* wanted, but cannot work here: see why */
};
const char *source_state_name(
	enum source_state state); /* "off", "on", "degraded", "not measurable" */

/* What one source of one probe can see; sent when it changes. */
struct message_source {
	char name[STEP_NAME_LENGTH_MAX + 1]; /* e.g. "bpf.collectives", "cgroup" */
	uint8_t state;			     /* enum source_state */
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
};

/* A rank the probe has found; sent when first seen and when a field changes. */
struct message_rank {
	uint32_t rank;	     /* global rank; the coordinator's key */
	uint32_t world_size; /* 0 = unknown */
	uint32_t local_rank; /* STEP_RANK_UNKNOWN = unknown */
	uint32_t pid;
	uint8_t exited; /* 1: the process ended, with exit_code */
	int32_t exit_code;
	char host[STEP_NAME_LENGTH_MAX + 1];
	char program[STEP_NAME_LENGTH_MAX + 1];
	uint32_t restarts; /* how often its launcher started it again */
};

/* A communicator one of the probe's ranks belongs to; sent once per (rank, communicator). */
struct message_communicator {
	uint32_t rank;
	struct communicator communicator;
};

enum message_queue_pair_flag {
	QUEUE_PAIR_HAS_PEER = 1 << 0,
	QUEUE_PAIR_PEER_GLOBAL = 1 << 1,  /* the peer is known by its gid, else by its lid */
	QUEUE_PAIR_POSTS_UNSEEN = 1 << 2, /* some posts went another way: counts of posts are low */
	QUEUE_PAIR_OWN_ADDRESS = 1 << 3,  /* own_gid and own_lid were found */
	QUEUE_PAIR_DESTROYED = 1 << 4,	  /* its last counts */
	QUEUE_PAIR_SAMPLED = 1 << 5, /* counted in windows only: counts are a part, times hold */
	QUEUE_PAIR_EXTENDED_POSTS = 1 << 6, /* posts by ibv_wr_... are not measurable */
	QUEUE_PAIR_EXTENDED_POLL = 1
				   << 7, /* its completions are taken by ibv_start_poll: likewise */
};

/*
 * What a rank did on one RDMA queue pair since it was made; sent when it changed. The other end is
 * the rank whose entry has number = peer_number and own_gid (or own_lid) = peer_gid (peer_lid).
 */
struct message_queue_pair {
	uint32_t rank;
	uint32_t number, peer_number;
	struct host_ns time; /* of these counts */
	uint16_t flags;	     /* enum message_queue_pair_flag */
	uint16_t own_lid, peer_lid;
	uint8_t port, type; /* enum ibv_qp_type: 2 RC, 3 UC, 4 UD */
	uint8_t retry_count, timeout;
	uint8_t own_gid[WIRE_GID_BYTES], peer_gid[WIRE_GID_BYTES];
	char device[STEP_NAME_LENGTH_MAX + 1];
	uint64_t posted_requests, posted_bytes, post_errors;
	uint64_t read_bytes; /* of the posted ones: what RDMA reads ask the peer for */
	uint64_t completed_requests, completed_bytes; /* of the posted ones */
	uint64_t received_requests, received_bytes;
	uint64_t latency_count, latency_sum_ns, latency_max_ns; /* posted to told */
	uint64_t latency_unmeasured;
	uint64_t statuses[WIRE_QUEUE_PAIR_STATUS_NR]; /* completions by enum ibv_wc_status */
	uint64_t latency[WIRE_QUEUE_PAIR_BUCKET_NR];  /* bucket b: 2^b <= ns < 2^(b+1) */
};

/* Counters of the probe since its start. */
struct message_counters {
	uint64_t events;	   /* records taken from the kernel or the rings */
	uint64_t dropped;	   /* records lost there */
	uint64_t steps_incomplete; /* steps with lost events inside */
	uint64_t batches_spooled;
	uint64_t batches_lost;	 /* the spool was full */
	uint64_t cpu_ns;	 /* CPU time the probe itself used */
	uint64_t resident_bytes; /* its peak resident memory */
};

/*
 * Where a rank is while the batch is made, if it has not moved for a second or more: inside of a
 * call, or in none. It is listed in each batch; a rank that is not listed any more has moved.
 */
enum open_call_kind {
	OPEN_CALL_COLLECTIVE = 0,
	OPEN_CALL_POINT_TO_POINT =
		1,		   /* sends, receives, completion: it waits, for whom is unknown */
	OPEN_CALL_DEVICE_WAIT = 2, /* the host waits for its device */
	OPEN_CALL_NONE = 3,	   /* in no call, since `arrival`: its own work, or stopped */
	/* What its host does is not told: it moves, but its device does not; or it cannot be seen. */
	OPEN_CALL_UNSEEN = 4,
	OPEN_CALL_KIND_NR
};

enum { OPEN_CALL_WHERE_LENGTH = 32 }; /* with the NUL */

/* What else is known of a rank that has not moved. */
struct message_stall {
	/* The oldest call that its device was given and has not ended; operation 0: none is known of. */
	uint64_t communicator_id, sequence;
	struct host_ns launched;
	uint32_t calls; /* of that communicator which have not ended */
	uint8_t operation;
	uint8_t started;  /* 1: its kernel runs */
	uint32_t threads; /* of the process; 0 = unknown */
	uint64_t cpu_ms,
		over_ms; /* CPU time that the process used, over how long; over 0: unknown */
	char wait_channel
		[OPEN_CALL_WHERE_LENGTH]; /* of its main thread; "" = runs, or cannot be read */
	uint64_t io_bytes;		  /* read and written over as long; 0 = unknown, too */
	uint32_t acted_ms; /* from `arrival` to when it last began a hooked call; 0 = none since */
};

struct message_open_call {
	uint32_t rank;
	uint32_t peer; /* of sends and receives: rank within the communicator + 1; 0 = none */
	uint64_t communicator_id;
	uint64_t sequence;
	struct host_ns arrival;
	uint8_t operation; /* enum operation */
	uint8_t flags;	   /* enum part_flag */
	uint8_t kind;	   /* enum open_call_kind; later versions may have more */
	uint8_t state;	/* of its thread, the letter of /proc/PID/stat: R S D T t Z; 0 = unknown */
	uint8_t reason; /* enum off_cpu_reason while it is off the CPU; 0 = on it, or unknown */
	/* The function called, or, in no call, where in the kernel it is blocked; "" = unknown. */
	char where[OPEN_CALL_WHERE_LENGTH];
	struct message_stall stall;
};

struct packed_step; /* packed_steps.h */

struct message_batch {
	uint64_t probe_id; /* random per probe process; (probe_id, number) names a batch */
	uint64_t number;   /* from 0, without gaps; doubles are removed by it */
	uint64_t
		host_id; /* same for all probes of one host (one CLOCK_MONOTONIC): hash of boot id */
	struct host_ns sent; /* when this batch was first handed to nng */
	/* The last exchange completed before this one, for clock bounds; all 0 when there is none. */
	struct host_ns previous_sent;
	struct host_ns previous_reply_received;
	struct job_ns previous_received;
	struct job_ns previous_reply_sent;
	uint8_t final; /* 1: the last batch of this probe; the job below it has ended */
	char job_id[STEP_NAME_LENGTH_MAX + 1];
	int64_t unix_offset_ns; /* CLOCK_REALTIME - CLOCK_MONOTONIC of the host when sent */
	struct message_counters counters;

	size_t rank_count;
	struct message_rank *ranks;
	size_t communicator_count;
	struct message_communicator *communicators;
	size_t step_count;		  /* of steps, or of packed_steps */
	struct step_entry *steps;	  /* their parts live in the message's arena too */
	struct packed_step *packed_steps; /* instead of steps, by wire_decode_packed_batch() */
	size_t interval_count;
	struct off_cpu_interval *intervals;
	size_t sample_count;
	struct metric_sample *samples;
	size_t source_count;
	struct message_source *sources;
	size_t queue_pair_count;
	struct message_queue_pair *queue_pairs;
	size_t open_call_count; /* at most one of each rank */
	struct message_open_call *open_calls;
	size_t kernel_profile_count;
	struct kernel_profile *kernel_profiles;
	size_t stack_profile_count;
	struct stack_profile **stack_profiles;
	uint32_t rank_end; /* of a decoded one: the highest rank that it speaks of + 1; 0 = none */
};

enum directive_kind {
	DIRECTIVE_NONE = 0,
	DIRECTIVE_DEEP = 1, /* a deep look at a rank, for so many steps */
	/*
	 * Batches before this one were not seen (the coordinator is a new one, or they were lost),
	 * or ten minutes have passed (a record that was thinned begins anywhere): tell again who
	 * the ranks are, their communicators, what the sources see. Repeated only with the batch's
	 * own reply; its request is 0.
	 */
	DIRECTIVE_INTRODUCE = 2,
	/*
	 * With a refusal: this coordinator serves another job. A probe that was not told where its
	 * own one is looks at the next port for it. Its request is 0.
	 */
	DIRECTIVE_OTHER_JOB = 3,
	/* A look at a rank's stacks, for so many steps; 0: one look, at once. */
	DIRECTIVE_STACKS = 4,
};

/*
 * What the coordinator asks of a probe. It is repeated in each reply until it is answered: a probe
 * acts once on each request number.
 */
struct message_directive {
	uint8_t kind; /* enum directive_kind */
	uint32_t rank;
	uint32_t steps;
	uint32_t limit_ms; /* however few steps that is */
	uint32_t request;  /* from 1 */
};

struct message_reply {
	uint64_t probe_id;
	uint64_t number;	  /* the batch this acknowledges */
	struct job_ns received;	  /* when the coordinator got the batch */
	struct job_ns reply_sent; /* when it sent this */
	uint8_t accepted; /* 0: refused, see why; the probe drops the batch and reports it */
	size_t directive_count;
	struct message_directive directives[WIRE_DIRECTIVES_MAX];
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
};

/*
 * A look at a rank that somebody asks the coordinator for. The same question comes again and again until its answer is
 * there: who asks anew takes another id.
 */
struct message_question {
	uint64_t asker_id; /* random */
	uint8_t kind;	   /* DIRECTIVE_STACKS or DIRECTIVE_DEEP, and as in a directive: */
	uint32_t rank;
	uint32_t steps;
	uint32_t limit_ms;
	char job_id[STEP_NAME_LENGTH_MAX + 1]; /* "" = whichever the coordinator serves */
};

enum answer_state {
	ANSWER_WAIT = 1, /* nothing yet: ask again */
	ANSWER_LOOK = 2, /* the look is there; its own result says what came of it */
	ANSWER_REFUSED = 3,
	ANSWER_OTHER_JOB = 4, /* this coordinator serves another one */
};

/* What the coordinator says to a question. A decoded one owns its looks; else they are borrowed. */
struct message_answer {
	uint64_t asker_id;
	uint8_t state;			      /* enum answer_state */
	char why[WIRE_DETAIL_LENGTH_MAX + 1]; /* it was refused, or what is waited for */
	char host[STEP_NAME_LENGTH_MAX + 1];  /* of the rank, as its probe calls it; "" = unknown */
	uint32_t pid;
	struct kernel_profile *kernels; /* NULL: none */
	struct stack_profile *stacks;	/* NULL: none */
};

/*
 * A job's name as all of its parts send it, compare it and name files by it: blanks, '/' and what may not be in a string
 * on the wire become '-'. A longer one is cut. out may be name.
 */
void message_job_id(char out[STEP_NAME_LENGTH_MAX + 1], const char *name);

#endif
