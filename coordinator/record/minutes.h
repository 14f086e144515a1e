/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the minutes of a record are in its file, and which of them stay whole when it is thinned. A minute is
 * batches, and behind them sums of all until then; of one that was thinned, the sums are left. Plain values;
 * for one thread. Private to coordinator/record.
 */
#ifndef SLOWRANK_COORDINATOR_RECORD_MINUTES_H
#define SLOWRANK_COORDINATOR_RECORD_MINUTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "coordinator/record/writer.h"

enum {
	/* 45 days; beyond, two become one: half as fine. */
	RECORD_MINUTES_MAX = 65536,
};

enum record_keep {
	RECORD_KEEP_WHOLE = 0,
	RECORD_KEEP_SUMS = 1,
	RECORD_KEEP_NOTHING = 2, /* its batches are in the next sums that are kept */
};

/* Batches of which the sums alone are left. */
struct record_gap {
	uint64_t batches;
	int64_t first_ns, last_ns; /* when they were received */
};
void record_gap_add(struct record_gap *gap, const struct record_gap *more);

struct record_minute {
	uint64_t begin, sums, end; /* offsets in the file; sums 0: there are none yet */
	struct record_gap batches; /* that are in it, or were */
	bool thinned;
	enum record_keep keep;
};

/* Zero-initialised: none. The last one is open: its end is that of the file. */
struct record_minutes {
	struct record_minute *minutes;
	size_t count, capacity;
};
void record_minutes_fini(struct record_minutes *minutes);

/* Behind the others. Returns 0 or -ENOMEM. */
int record_minutes_add(struct record_minutes *minutes, const struct record_minute *minute)
	__attribute__((warn_unused_result));

/* Each two become one; the sums of the later one are those of both. */
void record_minutes_halve(struct record_minutes *minutes);

/* A frame was written, or found, at an offset. gap: of RECORD_GAP. Returns 0 or -ENOMEM. */
int record_minutes_note(struct record_minutes *minutes, enum record_kind kind, uint64_t offset,
	uint64_t size, struct job_ns stamp, const struct record_gap *gap)
	__attribute__((warn_unused_result));

/* The minute that is open; NULL: nothing was noted. */
struct record_minute *record_minutes_open(const struct record_minutes *minutes);

/*
 * Sets what is kept of each so that it is bytes_max at most: of the newest minutes half of it whole, of those that
 * touch a span a quarter whole, a quarter of the newest sums. The open one stays.
 */
void record_minutes_choose(struct record_minutes *minutes, const struct record_span *spans,
	size_t span_count, uint64_t bytes_max);

#endif
