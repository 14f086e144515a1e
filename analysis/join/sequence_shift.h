/* SPDX-License-Identifier: Apache-2.0 */
/*
 * After an attach, each member counts a communicator's calls from where it was found, so the
 * counts of two members differ by a constant. All members of an instance are inside it at one
 * moment: the shift is the one under which no arrival comes after a departure. A message may be
 * sent before somebody receives it: there, no receive ends before its send begins, and of the shifts
 * under which that is so, the one is right that has the two nearest to each other. Pure; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_JOIN_SEQUENCE_SHIFT_H
#define SLOWRANK_ANALYSIS_JOIN_SEQUENCE_SHIFT_H

#include "analysis/base/step.h"
#include "analysis/policy.h"

struct sequence_shift {
	bool known;
	int64_t value; /* add to the member's count */
};

/* One call of a synchronising operation, or one message, on the job's clock; lists are in order of sequence. */
struct shift_part {
	uint64_t sequence;
	int64_t arrival_ns, departure_ns;
	uint64_t token; /* operation or length: must agree */
};

/*
 * The shift of other's counts to reference's. tolerance_ns: clock error between the two. messages:
 * reference sends them, other receives them; nothing is found where they may as well belong to the next
 * ones that were sent. Returns 0; -EAGAIN when too few calls overlap yet; -ENOENT when no shift fits or
 * two fit equally well.
 */
int sequence_shift_find(const struct shift_part *reference, size_t reference_count,
	const struct shift_part *other, size_t other_count, int64_t tolerance_ns, bool messages,
	int64_t *shift) __attribute__((warn_unused_result));

#endif
