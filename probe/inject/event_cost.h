/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What recording events takes of a caller's time. As a rule 1 to 5 us; what takes longer is taken for a wait: for room in
 * a queue that is full, as the program's next launch would have had, or for a CPU. A wait costs what others take that do
 * not wait. Any threads.
 */
#ifndef SLOWRANK_PROBE_INJECT_EVENT_COST_H
#define SLOWRANK_PROBE_INJECT_EVENT_COST_H

#include <stdint.h>

#define EVENT_COST_NS_MAX 20000

struct event_cost {
	uint64_t short_ns, short_count; /* atomic: recordings that did not wait */
};

/* Of so many recordings that took span_ns together; at most EVENT_COST_NS_MAX each. */
static inline uint64_t event_cost_of(struct event_cost *cost, int64_t span_ns, uint64_t count)
{
	uint64_t most_ns = EVENT_COST_NS_MAX * count, ns = span_ns > 0 ? (uint64_t)span_ns : 0;
	uint64_t short_count;

	if (ns <= most_ns) {
		__atomic_fetch_add(&cost->short_ns, ns, __ATOMIC_RELAXED);
		__atomic_fetch_add(&cost->short_count, count, __ATOMIC_RELAXED);
		return ns;
	}
	short_count = __atomic_load_n(&cost->short_count, __ATOMIC_RELAXED);
	return short_count
		       ? __atomic_load_n(&cost->short_ns, __ATOMIC_RELAXED) * count / short_count
		       : most_ns;
}

#endif
