/* SPDX-License-Identifier: Apache-2.0 */
/* The table of causes, made from causes.def. Constant; any thread. */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_CAUSES_H
#define SLOWRANK_ANALYSIS_EXPLAIN_CAUSES_H

#include "analysis/base/verdict.h"

/* Who a cause is looked for on. */
enum cause_subject { SUBJECT_RANK = 0, SUBJECT_LINK = 1, SUBJECT_JOB = 2 };

/* What explains enough goes before all of a later one; among equals the larger share counts. */
enum cause_precedence {
	PRECEDENCE_CERTAIN = 0, /* where the finding is certain; else as PRECEDENCE_TIMED */
	PRECEDENCE_TIMED = 1,	/* the kernel and the CPUs' counters say how long */
	PRECEDENCE_DRIVER = 2,	/* the GPU's driver says why, where nothing of the host does */
	PRECEDENCE_CODE = 3,	/* its own code on a CPU, which all of the above makes longer */
	PRECEDENCE_LOOK = 4,	/* what the device ran, or did not, where nothing else is known */
	PRECEDENCE_NR
};

/* What a cause is worth before an alert. */
enum cause_proof {
	PROOF = 0,	    /* says why */
	PROOF_IF_LASTS = 1, /* says why; healthy hosts have it, too, now and then */
	PROOF_OF_WHERE = 2, /* says where the time went; why, is not known */
	PROOF_OF_WAIT = 3,  /* says why, but not what for */
};

struct cause_rule {
	const char *name, *phrase, *meaning, *advice; /* name NULL: there is no such cause */
	enum verdict_class verdict_class;
	enum cause_subject subject;
	enum cause_precedence precedence;
	enum cause_proof proof;
	uint32_t sources; /* enum evidence_source: without them it is not measurable */
	double share_min, share_certain;
};

/* The rule of a cause; of CAUSE_UNKNOWN and of numbers that there are not, one without a name. */
const struct cause_rule *cause_rule(enum cause cause);

/* The causes in the order in which they are told. */
enum {
	CAUSE_ROWS =
#define RANK_CAUSE(...) +1
#define LINK_CAUSE(...) +1
#define JOB_CAUSE(...) +1
#include "analysis/explain/causes.def"
#undef RANK_CAUSE
#undef LINK_CAUSE
#undef JOB_CAUSE
};
extern const uint8_t cause_order[CAUSE_ROWS];

/* A reason is known: not only where the time went. */
static inline bool cause_says_why(enum cause cause)
{
	return cause != CAUSE_UNKNOWN && cause_rule(cause)->proof != PROOF_OF_WHERE;
}

#endif
