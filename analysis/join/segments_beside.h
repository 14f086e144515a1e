/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Does a rank's work go on while a collective lasts? Where it does, a member that waited longer in it
 * comes to its next one that much sooner after it, at once when it waited longer than the work takes;
 * where the work waits too, the gap to the next one does not depend on the wait. The slope of gap over
 * wait tells: -1 beside, 0 blocking. On one stream it is taken between the members of the same
 * instances. That misleads where a rank is slow all the time: it waits least and has the longest gaps,
 * whatever its collectives do. On several streams, which of them stop the work matters more, and what
 * comes while they last tells of most that do not: there it is taken from step to step within a rank,
 * of that part of a wait by which the one that waited least took longer on its way. And how long does
 * the work take? Only lengths on one device are compared, so clocks do not matter.
 */
#ifndef SLOWRANK_ANALYSIS_JOIN_SEGMENTS_BESIDE_H
#define SLOWRANK_ANALYSIS_JOIN_SEGMENTS_BESIDE_H

#include "analysis/join/align.h"

struct beside_places;

/* Returns NULL without memory. */
struct beside_places *beside_places_create(void);
void beside_places_destroy(struct beside_places *places); /* NULL is fine */

/* Cells of a step that can be remembered to the next; of more, a part of the ranks is enough. */
enum { BESIDE_CELLS_MAX = 8192 };

/* One member of an instance beside the one that waited least. */
struct beside_gap {
	int64_t wait_ns;		     /* so much longer it stayed */
	int64_t most_wait_ns;		     /* so much longer the one did that stayed longest */
	int64_t gap_ns;			     /* from its departure to its next arrival */
	int64_t least_stay_ns, least_gap_ns; /* of the one that waited least */
	bool least_next;      /* its next one was the next of all its streams: one piece of work */
	int64_t least_way_ns; /* and what it took since its call before of the stream */
	uint32_t least_rank;
	uint32_t rank;	 /* whose gap it is */
	uint32_t others; /* members beside the one that waited least */
};

/* A place whose calls are known to go on beside the work, or become known now: seen. */
bool beside_asynchronous(struct beside_places *places, uint64_t place, bool seen);

void beside_learn(struct beside_places *places, uint64_t place, const struct beside_gap *gap);

/*
 * Before a call a rank's host was on its CPU for so long, and its device meanwhile in calls; the host of the member that was
 * least so on its own. One that waits for its device in a call that nobody sees spins for as long as the device stays.
 */
void beside_learn_host(struct beside_places *places, uint64_t place, int64_t stays_ns,
	int64_t cpu_ns, int64_t least_cpu_ns);
/* Whether hosts are known to wait before a place for what holds up their device. */
bool beside_host_waits(const struct beside_places *places, uint64_t place);

/*
 * From a place's arrival to the next one's of its stream, of the member that waited least: the work between
 * took that long at most.
 */
void beside_bound(struct beside_places *places, uint64_t place, int64_t bound_ns);

enum beside {
	BESIDE_UNKNOWN = 0,
	BESIDE_WORK = 1, /* the work goes on */
	BESIDE_BLOCKS = 2,
};
enum beside beside_known(const struct beside_places *places, uint64_t place, bool several_streams);

/*
 * How long the work from this place's arrival to the next one usually takes, by members whose next one
 * was not held up; where too few were seen, by all: then it takes that long at most. Negative when
 * nothing is known.
 */
int64_t beside_work_ns(const struct beside_places *places, uint64_t place);

/*
 * What a rank's device waited for in its last step, and no host's time was taken for; the caller's to keep. 0 of a rank whose last
 * step is not kept any more.
 */
int64_t *beside_queue_left_ns(struct beside_places *places, uint32_t rank);

#endif
