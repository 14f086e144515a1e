/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why ranks are slow: what their excess is made of, each cause's finding, and which of them is the one. The same answer
 * before an alert, when ranks are joined into one verdict, and in its text. Pure; one thread.
 */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_EXPLAIN_H
#define SLOWRANK_ANALYSIS_EXPLAIN_EXPLAIN_H

#include "analysis/attribute/excess.h"
#include "analysis/explain/causes.h"
#include "analysis/explain/past.h"

struct judge_looks;
struct stack_looks;
struct stack_seen;

/* What is known of a rank. */
struct explain_rank {
	const struct evidence *evidence;	    /* NULL: none */
	const struct launch_sums *launches;	    /* of the latest steps looked at */
	const struct launch_sums *episode_launches; /* since it may be slow */
	uint32_t pid;				    /* 0: not known */
	uint32_t host, role;
	float usual_waits; /* cpu_waits() while nothing was suspected; 0: not known */
	bool blamed;	   /* it is in a verdict */
	bool experts_only; /* what is long of it is its experts' work */
};

/* What is known of the job at a time. The caller's, and kept by it. */
struct explain_context {
	struct explain_rank (*rank)(const void *job, uint32_t rank);
	const void *job;
	uint32_t rank_count;
	const struct judge_looks *looks;	      /* NULL: none */
	struct stack_looks *stacks;		      /* stack_looks.h; NULL: none */
	const char (*missing)[VERDICT_DETAIL_LENGTH]; /* why, by the bit of enum evidence_source */
	int64_t now_ns;				      /* nothing later is used */
	double *scratch;			      /* room for rank_count */
};

/* Ranks that were late, and since when. */
struct episode {
	const uint32_t *ranks; /* ascending, at least one */
	uint32_t rank_count;
	uint32_t every_steps; /* not 0: the sums are of every so-many-th step */
	struct excess_sums sums;
	int64_t onset_ns, loud_until_ns;
	const struct episode_past *past; /* of the first rank, before the onset */
	/* explain() and its measures fill in what follows, in a copy of their own. */
	struct excess_sums timed; /* the sums, without counters that stand in */
	double excess_ns;
	double shares[EXCESS_NR]; /* of it, by kind; 0..1 */
	enum verdict_class class_so_far;
	enum cause cause_so_far;
	double cpu_lost; /* of its time on the CPU: the share that measures so far explain */
	const struct stack_seen *stacks; /* stack_causes.h */
};

enum known {
	KNOWN_NOTHING = 0, /* it says nothing here */
	KNOWN_MISSING = 1, /* not measurable; text: why, or empty */
	KNOWN_UNASKED = 2, /* the same; it matters only where nothing else says why */
	KNOWN_NOT_IT = 3,  /* measured; text: why it is not the cause */
	KNOWN_SHARE = 4,   /* measured; it is weighed by its share */
	KNOWN_BESIDE = 5,  /* the same; always shown, and never rejected */
};

/* What one cause's measurement says of an episode. */
struct finding {
	enum known known;
	double own_ns, control_ns; /* in the episode's steps */
	double share;		   /* of the excess that it explains, 0..1 */
	int64_t since_ns;	   /* it was not there before, within the episode; 0: not known */
	bool certain;		   /* the row's lower share is enough */
	bool outweighs; /* it need not explain more than the time on the CPU does: it is part of that, or the least */
	char text[VERDICT_DETAIL_LENGTH]; /* of what was seen, or as known says */
};

struct explanation {
	enum verdict_class verdict_class;
	enum cause cause;
	double share;  /* of the excess, by the cause */
	bool computes; /* what is long is its own work, whatever that is for */
	bool experts;  /* and only that of its experts: then the class is workload-imbalance */
	struct excess_sums sums; /* with counters that stand in */
	struct finding findings[CAUSE_NR];
	struct verdict_where where;
};

void explain(const struct explain_context *context, const struct episode *episode,
	struct explanation *explanation);

/* Into a verdict: class, cause, evidence and rejections. Where the class is unknown it stays as it is. */
void explain_tell(const struct explanation *explanation, struct verdict *verdict);

/* Adds a cause that was looked at, with why it is not the one; more than fit are left out. */
void verdict_reject(struct verdict *verdict, enum cause cause, const char *why);

#endif
