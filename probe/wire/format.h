/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers that encoder and decoder share; docs/wire.md explains the layout. Append-only within
 * a WIRE_VERSION: fields are added at the end of an array, and a reader skips what it does not
 * know. Private to probe/wire.
 */
#ifndef SLOWRANK_PROBE_WIRE_FORMAT_H
#define SLOWRANK_PROBE_WIRE_FORMAT_H

#include "probe/wire/message.h"

enum wire_type {
	WIRE_TYPE_BATCH = 1,
	WIRE_TYPE_REPLY = 2,
	WIRE_TYPE_QUESTION = 3,
	WIRE_TYPE_ANSWER = 4,
};

enum {
	WIRE_TIME_QUANTUM_NS = 100,
	WIRE_ACTIVITY_NOISE_NS = 1000,
	WIRE_DEPTH_MAX = 8, /* arrays within arrays, in fields that are skipped */

	/* Fields that every array of this version has at least. */
	WIRE_BATCH_FIELDS = 20, /* a 21st, the queue pairs, only where there are any */
	WIRE_REPLY_FIELDS = 11, /* a 12th, the directives, only where there are any */
	WIRE_DIRECTIVE_FIELDS = 5,
	WIRE_QUESTION_FIELDS = 8,
	WIRE_ANSWER_FIELDS = 9,
	WIRE_PREVIOUS_FIELDS = 4,
	WIRE_COUNTERS_FIELDS = 7,
	WIRE_SOURCE_FIELDS = 3,
	WIRE_RANK_FIELDS = 8,
	WIRE_RANK_LATER_FIELDS = 1, /* only where it is not 0 */
	WIRE_COMMUNICATOR_FIELDS = 4,
	WIRE_TOKEN_FIELDS = 5,
	WIRE_SCHEDULE_FIELDS = 2,
	/* a 16th, the sequence jumps, and a 17th, launches, only where there are any */
	WIRE_STEP_FIELDS = 15,
	WIRE_LAUNCHES_FIELDS = 5,
	WIRE_INTERVAL_FIELDS = 7,
	WIRE_SAMPLE_FIELDS = 4,
	WIRE_OPEN_CALL_FIELDS = 7,
	WIRE_OPEN_CALL_LATER_FIELDS = 4, /* only where one of them is not 0 */
	WIRE_STALL_FIELDS = 10,		 /* only behind those, where one of them is not 0 */
	WIRE_STALL_LATER_FIELDS = 2,	 /* likewise */
	WIRE_QUEUE_PAIR_FIELDS = 25,
	WIRE_QUEUE_PAIR_FIELDS_FIRST = 24, /* of the first version */
	WIRE_KERNEL_PROFILE_FIELDS = 18,   /* a 19th, launches a second, only where it is not 0 */
	WIRE_STACK_PROFILE_FIELDS = 17,
	WIRE_STACK_NODE_FIELDS = 5,
	WIRE_STACK_THREAD_FIELDS = 7,
	WIRE_STACK_SEGMENT_FIELDS = 4,
	WIRE_STACK_SUM_FIELDS = 7,
};

/* Absolute times, in ns: below 2^61, which is 73 years after the clock's zero. */
#define WIRE_TIME_NS_MAX (INT64_C(1) << 61)
#define WIRE_QUANTA_MAX (WIRE_TIME_NS_MAX / WIRE_TIME_QUANTUM_NS)

/*
 * An activity is a mask and then one number for each bit that is set, in this order. The usual
 * ones come first, so that the mask mostly takes one byte. ns fields are in quanta.
 */
enum wire_activity_bit {
	WIRE_ACTIVITY_INSIDE = 1 << 0, /* of the part's inside, not its before; carries no number */
	WIRE_ACTIVITY_PREEMPTED = 1 << 1,
	WIRE_ACTIVITY_ASLEEP = 1 << 2,
	WIRE_ACTIVITY_MINOR_FAULT = 1 << 3,
	WIRE_ACTIVITY_MINOR_FAULTS = 1 << 4,
	WIRE_ACTIVITY_THROTTLED = 1 << 5,
	WIRE_ACTIVITY_COMM_CALL = 1 << 6,
	WIRE_ACTIVITY_MAJOR_FAULT = 1 << 7,
	WIRE_ACTIVITY_MAJOR_FAULTS = 1 << 8,
	WIRE_ACTIVITY_BLOCK_IO = 1 << 9,
	WIRE_ACTIVITY_HOST = 1 << 10,
	WIRE_ACTIVITY_COLLECTOR = 1 << 11,
	WIRE_ACTIVITY_FIRST_UNKNOWN = 1 << 12, /* later bits: one number each, skipped */
};

#endif
