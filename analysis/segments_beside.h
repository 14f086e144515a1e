/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a rank's work go on while a collective lasts? Where it does, a member that waited longer in it
 * comes to its next one that much sooner after it, at once when it waited longer than the work takes;
 * where the work waits too, the gap to the next one does not depend on the wait. The slope of gap over
 * wait, between the members of the same instances, tells: -1 beside, 0 blocking. And how long does that
 * work take? Only lengths on one device are compared, so clocks do not matter.
 */
#ifndef SLOWRANK_ANALYSIS_SEGMENTS_BESIDE_H
#define SLOWRANK_ANALYSIS_SEGMENTS_BESIDE_H

#include "analysis/align.h"

struct beside_place;

/* Returns NULL without memory. */
struct beside_place *beside_places_create(void);
void beside_places_destroy(struct beside_place *places); /* NULL is fine */

/* One member of an instance beside the one that waited least. */
struct beside_gap {
	int64_t wait_ns;		     /* so much longer it stayed */
	int64_t gap_ns;			     /* from its departure to its next arrival */
	int64_t least_stay_ns, least_gap_ns; /* of the one that waited least */
};

void beside_learn(struct beside_place *places, uint64_t place, const struct beside_gap *gap);
bool beside_known(const struct beside_place *places, uint64_t place);

/*
 * How long the work from this place's arrival to the next one usually takes, by members whose next one
 * was not held up; negative when too few were seen.
 */
int64_t beside_work_ns(const struct beside_place *places, uint64_t place);

#endif
