/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the steps of one rank from its collective parts. No I/O, no clock: time comes in with
 * the parts. One builder per rank; not thread-safe.
 */
#ifndef SLOWRANK_PROBE_STEP_BUILDER_H
#define SLOWRANK_PROBE_STEP_BUILDER_H

#include "analysis/base/step.h"

struct step_builder;

struct step_builder_options {
	uint32_t rank;
	size_t part_count_max; /* parts kept while no step is complete; 0 = STEP_PART_COUNT_MAX */
	int64_t window_ns;     /* length of a window step while no period is known; 0 = 1 s */
};

/* Creates a builder. Returns 0 or -ENOMEM, -EINVAL. The caller owns it. */
int step_builder_create(const struct step_builder_options *options, struct step_builder **builder)
	__attribute__((warn_unused_result));
void step_builder_destroy(struct step_builder *builder); /* NULL is fine */

/*
 * Adds the next part, in order of arrival; the part is copied. others: running totals of the
 * process's other threads at this part. Never fails: when a bound is reached, it closes a
 * window step, so nothing is lost.
 */
void step_builder_push(struct step_builder *builder, const struct collective_part *part,
	const struct activity *others);

/*
 * What the process had launched when the part arrived that is pushed next; running totals. Without a call,
 * nothing was looked at.
 */
void step_builder_launches(struct step_builder *builder, const struct step_launches *launches);

/* An explicit marker; from the first one on, markers decide and period detection rests. */
void step_builder_mark(
	struct step_builder *builder, bool begin, uint64_t step, struct host_ns time);

/* Events were lost since the last push: the open step becomes STEP_INCOMPLETE. */
void step_builder_lost(struct step_builder *builder, uint64_t event_count);

/* Lets time pass: closes a window step whose time is up, so that a quiet rank is still heard of. */
void step_builder_tick(struct step_builder *builder, struct host_ns now);

/* The job has ended, or goes on with other calls: closes what is open. */
void step_builder_finish(struct step_builder *builder);

/*
 * Takes the next finished step. Returns false when there is none. entry->parts stays valid
 * until the next call of any function on this builder.
 */
bool step_builder_take(struct step_builder *builder, struct step_entry *entry);

#endif
