/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages between probes and the coordinator, decoded. Plain values; encode.h and
 * decode.h turn them into bytes and back. A decoded message owns all its memory through one
 * arena and is freed by message_batch_destroy().
 */
#ifndef SLOWRANK_PROBE_WIRE_MESSAGE_H
#define SLOWRANK_PROBE_WIRE_MESSAGE_H

#include "analysis/step.h"

enum {
	WIRE_VERSION = 1,
	WIRE_MESSAGE_LENGTH_MAX = 8 * 1024 * 1024, /* bytes of one encoded batch or reply */
	WIRE_RANKS_PER_BATCH_MAX = 4096,
	WIRE_STEPS_PER_BATCH_MAX = 65536,
	WIRE_INTERVALS_PER_BATCH_MAX = 65536,
	WIRE_SAMPLES_PER_BATCH_MAX = 65536,
	WIRE_SOURCES_MAX = 64,
	WIRE_COMMUNICATORS_PER_BATCH_MAX = 65536,
	WIRE_PARTS_PER_BATCH_MAX = 262144, /* collective parts of all steps of a batch together */
	WIRE_DETAIL_LENGTH_MAX = 255,	   /* free text, without the NUL */
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
};

/* A communicator one of the probe's ranks belongs to; sent once per (rank, communicator). */
struct message_communicator {
	uint32_t rank;
	struct communicator communicator;
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
	size_t step_count;
	struct step_entry *steps; /* their parts live in the message's arena too */
	size_t interval_count;
	struct off_cpu_interval *intervals;
	size_t sample_count;
	struct metric_sample *samples;
	size_t source_count;
	struct message_source *sources;
};

enum directive {
	DIRECTIVE_NONE = 0,
	DIRECTIVE_DEEP = 1, /* deep look: ranks, steps (device timing; for a later source) */
};

struct message_reply {
	uint64_t probe_id;
	uint64_t number;	  /* the batch this acknowledges */
	struct job_ns received;	  /* when the coordinator got the batch */
	struct job_ns reply_sent; /* when it sent this */
	uint8_t accepted;  /* 0: refused, see why; the probe drops the batch and reports it */
	uint8_t directive; /* enum directive */
	uint32_t directive_rank;
	uint32_t directive_steps;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
};

#endif
