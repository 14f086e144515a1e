/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose link it is: what every pair of ranks did over RDMA, second by second, and which pairs'
 * requests complete later than before and than those of others. A flow goes from the rank whose
 * data it is to the one that gets it. Flows are made when they first say something; their number
 * is bounded, what is beyond it is counted. Embedded: zeros are an empty one. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_LOCATE_LINK_FLOWS_H
#define SLOWRANK_ANALYSIS_LOCATE_LINK_FLOWS_H

#include "analysis/base/step.h"
#include "analysis/policy.h"

enum {
	LINK_FLOWS_MAX = 1 << 18,
	LINK_PAIRS_TOLD = 8, /* slow flows listed in a finding, the slowest first */
};

/* What went from one rank to another since the last sample of the same queue pair. */
struct link_sample {
	uint32_t from, to;	   /* ranks: whose data it is, and who gets it */
	uint64_t latency_count;	   /* requests with a time from posting to completion */
	uint64_t latency_sum_ns;   /* of these */
	uint64_t retries_exceeded; /* completions that say so: nothing came through */
	bool sampled;		   /* counts are a part of all, times hold */
};

struct link_point {
	int64_t time_ns;
	uint64_t count, sum_ns, retries_exceeded; /* since the flow's first sample */
	bool learnt;				  /* the second that it ends makes up the past */
};

struct link_flow {
	uint32_t from, to;
	bool sampled;
	bool quiet;			  /* nothing was amiss since its newest point began */
	uint32_t point_count, past_count; /* ever */
	struct link_point points[LINK_POINTS];
	float past_ns[LINK_PAST]; /* mean times of quiet seconds, or as long as it took */
	uint64_t learnt_count, learnt_sum_ns; /* quiet ones that make up the next of these */
};

struct link_flows {
	struct link_flow *flows;
	uint32_t *places; /* hash table: index + 1 */
	size_t count, capacity, place_count;
	double *scratch; /* as many as flows */
	size_t scratch_capacity;
	uint64_t unseen; /* samples of flows beyond the limit */
	bool disturbed, told;
};

void link_flows_fini(struct link_flows *flows);

/* Times should not go back within a flow; a sample that does is added to the newest second.
 * Returns 0 or -ENOMEM, and then nothing has changed. */
int link_flows_add(struct link_flows *flows, const struct link_sample *sample, int64_t time_ns)
	__attribute__((warn_unused_result));

/*
 * quiet: nothing is amiss from now on, and times become usual ones at once. Else they do when they
 * are LINK_POINTS old, for what cannot be told by then is how things are; unless told: of slow
 * transfers an alert was given, and they go on.
 */
void link_flows_set_state(struct link_flows *flows, bool quiet, bool told);

struct link_pair {
	uint32_t from, to;
	double now_ns, usual_ns; /* mean from posting to completion */
};

struct link_finding {
	bool named;	  /* one rank is common to the slow flows */
	uint32_t rank;	  /* if named */
	bool all_of_rank; /* all that it sends, or all that it gets, is slow: not one path */
	bool retries_exceeded;
	uint32_t pair_count;
	struct link_pair pairs[LINK_PAIRS_TOLD];
	size_t slow_count, flow_count; /* flows slow, flows with times */
	double share;	   /* of the time that the named rank's slow flows were late, 0..1 */
	double control_ns; /* usual flow of those that are not slow; 0: there is none */
};

/*
 * Compares the flows between two times with what was usual. share_min: of that time, a flow must
 * have been late for so much. False when no flow is slow, or of too few it is known what is usual.
 */
bool link_flows_find(const struct link_flows *flows, int64_t from_ns, int64_t until_ns,
	double share_min, struct link_finding *finding);

/*
 * Of the flows that a rank sends (received: that it gets), the one that was late for longest between two
 * times, else the busiest. share: of that time, it was late. False when it has none.
 */
bool link_flows_worst_of(const struct link_flows *flows, uint32_t rank, bool received,
	int64_t from_ns, int64_t until_ns, struct link_pair *pair, double *share);

#endif
