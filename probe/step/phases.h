/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the time of a step was spent on, and what kind of step it is. Pure functions of the
 * parts. Part of builder.h, for its use alone.
 */
#ifndef SLOWRANK_PROBE_STEP_PHASES_H
#define SLOWRANK_PROBE_STEP_PHASES_H

#include "analysis/base/step.h"

/*
 * Fills input_ns, compute_ns, host_ns and comm_ns of an entry from its start, end, parts and
 * tail. The four sum to end - start exactly. Parts of several threads may overlap: their union
 * counts. Activities that exceed their segment (by the error of their measurement) are scaled
 * down to it. Parts are in order of arrival.
 */
void step_phases_fill(struct step_entry *entry);

/* Puts parts in order of arrival; keeps the order of equal ones. Quick when nearly in order. */
void step_parts_sort(struct collective_part *parts, size_t part_count);

/*
 * Hash of operations, communicators and roots in their order. Communicators count by their
 * first appearance in the step, so that peers in different groups have equal signatures.
 */
uint64_t step_signature(const struct collective_part *parts, size_t part_count);

/* activity * numerator / denominator, for a stretch of time that is split; 0 <= n <= d, d > 0. */
struct activity step_activity_share(
	const struct activity *activity, int64_t numerator, int64_t denominator);

#endif
