/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a rank's work go on while a collective lasts? Where it does, a member that waited longer in it
 * comes to its next one that much sooner after it; where the work waits too, the gap to the next one
 * does not depend on the wait. The slope of gap over wait, between the members of the same instances,
 * tells: -1 beside, 0 blocking. Only lengths on one device are compared, so clocks do not matter.
 */
#ifndef SLOWRANK_ANALYSIS_SEGMENTS_BESIDE_H
#define SLOWRANK_ANALYSIS_SEGMENTS_BESIDE_H

#include "analysis/align.h"

struct beside_place;

/* Returns NULL without memory. */
struct beside_place *beside_places_create(void);
void beside_places_destroy(struct beside_place *places); /* NULL is fine */

/* One member of an instance beside the one that waited least: how much longer it waited, and how
 * much longer it took from there to its next call. */
void beside_learn(struct beside_place *places, uint64_t place, int64_t wait_ns, int64_t gap_ns);
bool beside_known(const struct beside_place *places, uint64_t place);

#endif
