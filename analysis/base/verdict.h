/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the analysis says: verdicts, evidence, per-rank totals. Plain values without pointers
 * into the analysis, so they may be copied and kept. No threads, no state.
 */
#ifndef SLOWRANK_ANALYSIS_BASE_VERDICT_H
#define SLOWRANK_ANALYSIS_BASE_VERDICT_H

#include "analysis/base/step.h"

enum verdict_class {
	VERDICT_UNKNOWN = 0,
	VERDICT_COMPUTE_SLOW = 1,
	VERDICT_HOST_SLOW = 2,
	VERDICT_COMM_SLOW = 3,
	VERDICT_WORKLOAD_IMBALANCE = 4,
	VERDICT_HANG = 5,
	VERDICT_CLASS_NR
};
const char *verdict_class_name(enum verdict_class verdict_class); /* "compute-slow", ... */

/* Causes name what an operator can act on: analysis/explain/causes.def. */
enum cause {
	CAUSE_UNKNOWN = 0,
#define RANK_CAUSE(id, number, ...) CAUSE_##id = (number),
#define LINK_CAUSE(id, number, ...) CAUSE_##id = (number),
#define JOB_CAUSE(id, number, ...) CAUSE_##id = (number),
#include "analysis/explain/causes.def"
#undef RANK_CAUSE
#undef LINK_CAUSE
#undef JOB_CAUSE
	CAUSE_NR = 34 /* above all numbers */
};
const char *cause_name(enum cause cause); /* "cgroup-throttle", ... */

enum {
	VERDICT_RANKS_MAX = 64,	  /* culprits listed in one verdict */
	VERDICT_VICTIMS_MAX = 64, /* victims listed; victim_count says how many there are */
	VERDICT_EVIDENCE_MAX = 12,
	VERDICT_PAIRS_MAX = 8,	     /* slow pairs of ranks listed, the slowest first */
	VERDICT_DETAIL_LENGTH = 160, /* with the NUL */
	VERDICT_FRAMES_MAX = 4,
	VERDICT_FRAME_LENGTH = 96, /* with the NUL */
};

/* One kind of evidence: how much of it the culprit had, and how much its control. */
struct verdict_evidence {
	uint8_t kind; /* enum cause */
	double overlap_ms_per_step;
	double control_ms_per_step;
	char detail
		[VERDICT_DETAIL_LENGTH]; /* e.g. "ran instead: stress-ng (pid 4242), 71 % of it" */
};

struct verdict_rejection {
	uint8_t kind;			 /* enum cause */
	char why[VERDICT_DETAIL_LENGTH]; /* e.g. "same as control", "not measurable: no BPF rights" */
};

/* The call that a hang waits in; operation 0: not known, members 0: these are not. */
struct verdict_hang {
	uint64_t communicator_id, sequence;
	uint32_t entered, members;
	uint8_t operation; /* enum operation */
};

/* What goes from one rank to another comes late. */
struct verdict_pair {
	uint32_t from, to;
};

/* The slow ones, the slowest first. */
struct verdict_pairs {
	uint32_t count;
	struct verdict_pair list[VERDICT_PAIRS_MAX];
};

/* What the rank does for longer than its control, as stacks of both show it; text "": not known. */
struct verdict_where {
	char text[VERDICT_DETAIL_LENGTH]; /* "in torch/serialization.py:save (train.py:212)" */
	uint32_t frame_count;
	char frames[VERDICT_FRAMES_MAX][VERDICT_FRAME_LENGTH]; /* the outermost first */
	double ms_per_step, control_ms_per_step;
	uint32_t ordinal;  /* before this call of the rank's step, from 0 */
	uint8_t operation; /* enum operation; 0: not known */
};

/* Only in every so-many-th step, from the first step on; steps 0: in all. */
struct verdict_period {
	uint32_t steps;
	double slowdown; /* of these steps alone */
};

/* How sure it is. */
struct verdict_certainty {
	double confidence;	/* 0..1 */
	double share_explained; /* of the excess, by the cause's evidence: 0..1 */
	double clock_error_us;
	uint64_t unmeasured_since; /* the first step that says nothing of it; 0: none */
};

struct verdict {
	uint32_t id;	       /* from 1, in order of first alert */
	uint8_t verdict_class; /* enum verdict_class */
	uint8_t cause;	       /* enum cause */
	uint8_t ended;	       /* 1: recovered */
	uint8_t on_device;     /* 1: the work is a device's: the host only enqueues it */
	uint32_t rank_count;
	uint32_t ranks[VERDICT_RANKS_MAX]; /* ascending */
	uint32_t more_ranks;		   /* so many are blamed that are not listed */
	uint32_t victim_count;		   /* all victims, also those not listed */
	uint32_t victims[VERDICT_VICTIMS_MAX];
	double slowdown; /* step time now / step time if these ranks behaved like controls */
	struct verdict_period period;
	struct verdict_certainty sure;
	uint64_t first_step; /* job steps */
	uint64_t last_step;
	struct job_ns onset; /* start of first_step */
	struct job_ns end;   /* of last_step; of a hang, when it was last seen */
	struct job_ns alert; /* end of the step whose analysis raised it */
	uint32_t evidence_count;
	struct verdict_evidence evidence[VERDICT_EVIDENCE_MAX];
	uint32_t rejected_count;
	struct verdict_rejection rejected[VERDICT_EVIDENCE_MAX];
	struct verdict_pairs pairs; /* comm-slow, where RDMA shows them */
	struct verdict_where where;
	struct verdict_hang hang;
};

/* It holds, as far as is known: neither over, nor of a job of which nothing is measured any more. */
static inline bool verdict_goes_on(const struct verdict *verdict)
{
	return !verdict->ended && !verdict->sure.unmeasured_since;
}

/* The rank is one of those that are blamed. */
static inline bool verdict_names(const struct verdict *verdict, uint32_t rank)
{
	for (uint32_t i = 0; i < verdict->rank_count && i < VERDICT_RANKS_MAX; i++) {
		if (verdict->ranks[i] == rank)
			return true;
	}
	return false;
}

/* The rank is one of the victims that are listed. */
static inline bool verdict_has_victim(const struct verdict *verdict, uint32_t rank)
{
	for (uint32_t i = 0; i < verdict->victim_count && i < VERDICT_VICTIMS_MAX; i++) {
		if (verdict->victims[i] == rank)
			return true;
	}
	return false;
}

enum verdict_event {
	VERDICT_EVENT_ALERT = 1,
	VERDICT_EVENT_UPDATE = 2,
	VERDICT_EVENT_RECOVERED = 3,
	VERDICT_EVENT_ENDED = 4, /* for hooks: nobody watches any more, and it lasted until then */
};

/* Totals of one rank over the run: sums, divided by steps when shown. */
struct rank_totals {
	uint32_t rank;
	uint32_t role;
	uint64_t steps;
	int64_t phase_ns[PHASE_NR];
	int64_t own_excess_ns;
	int64_t inherited_ns; /* lateness it only passed on */
};

/* What the step is looked at without. */
enum cost_of {
	COST_RANK = 0,
	COST_NODE = 1, /* all ranks of it */
	COST_LINK = 2, /* what goes between the same nodes */
	COST_ROLE = 3, /* ranks that run the same part of the program */
	COST_PHASE = 4,
	COST_NR
};
const char *cost_of_name(enum cost_of of); /* "rank", "node", ... */
enum { COSTS_PER_KIND = 8, COSTS_MAX = COSTS_PER_KIND * COST_NR };

/* What one part of the job costs: the step if it behaved like its controls, all else kept. */
struct job_cost {
	uint8_t of;	 /* enum cost_of */
	uint32_t number; /* rank, role, enum phase; of nodes and links a rank on the first one */
	uint32_t other;	 /* of links: a rank on the last node */
	uint32_t node_count; /* of links */
	double step_ms;	     /* mean without it */
	double slowdown;     /* step now / step without it */
	double share;	     /* of all that the job loses to its parts: 0..1 */
	double wasted_rank_seconds;
};

struct job_totals {
	uint64_t steps;		   /* job steps analysed */
	uint64_t steps_incomplete; /* job steps in which parts of some rank were missing */
	uint64_t
		steps_contradictory; /* not judged: by their times, calls ended before they began */
	double step_ms_median;
	double step_ms_ideal;	  /* median of the what-if step with every rank like its controls */
	double slowdown;	  /* mean step / mean ideal step */
	double time_ns, ideal_ns; /* of all steps */
	double wasted_rank_seconds;
	double clock_error_us; /* worst clock error between two hosts of the job */
	struct job_ns first_start;
	struct job_ns last_end;
};

#endif
