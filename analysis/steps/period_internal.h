/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of a period detector: of period.c, which looks at pauses and rests by period_weigh.c. */
#ifndef SLOWRANK_ANALYSIS_STEPS_PERIOD_INTERNAL_H
#define SLOWRANK_ANALYSIS_STEPS_PERIOD_INTERNAL_H

#include "analysis/policy.h"
#include "analysis/steps/period.h"
#include "analysis/steps/period_cycle.h"
#include "analysis/steps/period_stream.h"

enum {
	PERIOD_SPAN_NR = 1024,
};

enum period_state {
	PERIOD_SEEKING = 0,   /* no cycle known */
	PERIOD_FOLLOWING = 1, /* every token is the one the cycle has next */
	PERIOD_STRAYED = 2,   /* a cycle is known, the tokens differ at present */
};

/* Decided tokens up to end: one segment, or segments of chunk tokens. */
struct period_span {
	uint64_t end;
	uint64_t chunk;	 /* 0 = one segment */
	uint64_t anchor; /* where the chunks are counted from */
	enum period_kind kind;
};

/* What is decided, and not taken yet. */
struct period_spans {
	bool lost;		    /* tokens were lost after queued_end */
	enum period_kind open_kind; /* of the open segment, where it is known already; or 0 */
	uint64_t decided;	    /* end of the last segment taken */
	uint64_t queued_end;	    /* end of the last span */
	uint64_t kept_end;	    /* spans up to here are not taken back any more */
	size_t first, count;
	struct period_span ring[PERIOD_SPAN_NR];
};

/* What a call is beside its token. */
struct period_call {
	float bytes;
	float spacing_ns; /* of departures: where calls synchronise, the same on all ranks */
	float pause_ns;	  /* from the latest departure to the arrival: this rank's own */
	uint32_t group;
};

/* Tokens that were not what the cycle has next. */
struct period_stray {
	uint64_t at;	/* STRAYED: the first that differed */
	uint64_t phase; /* of the cycle, there */
	uint64_t last;	/* position after the last one; 0 = none yet */
};

struct period_detector {
	struct period_stream structure, full;
	struct period_call *calls; /* ring like the streams' */
	uint64_t ring_count_max;   /* as far as the three rings may grow */
	uint64_t
		wanted; /* tokens of the past that a candidate must show to be taken; 0: none must */
	struct period_powers powers;
	struct period_cycle cycle;
	enum period_state state;
	uint64_t phase; /* FOLLOWING: of the next token */
	struct period_stray stray;
	uint64_t inserted_phase;  /* where the last insertion off the cut was */
	uint64_t last_cut;	  /* where the cycle began last, whatever the caller skipped */
	uint64_t last_lost;	  /* position at which tokens were lost last */
	uint64_t unrest;	  /* up with each straying, down with each cycle followed */
	uint64_t inserted_at_cut; /* how often */

	struct period_spans spans;

	bool confirmed;		  /* the tokens alone said so */
	bool released;		  /* segments may be taken */
	bool confirmed_before;	  /* some cycle was confirmed once */
	bool handed_out;	  /* some cycle was, unconfirmed: short ones do not wait any more */
	uint64_t confirm_tokens;  /* followed tokens that confirm the cycle */
	uint64_t cycles_followed; /* since it was adopted */
};

/* What a longer cycle is, that repeats up to the last token, beside the adopted one. */
enum period_content {
	PERIOD_OTHER = 0,      /* does not consist of rounds of the adopted one */
	PERIOD_LOOPS = 1,      /* a step: the rounds are a loop inside */
	PERIOD_EXCURSIONS = 2, /* the rounds are steps, something else comes now and then */
};
enum period_content period_weigh(const struct period_detector *detector, uint64_t longer);

/* A longer pause before every so many rounds of the adopted cycle. */
struct period_pause {
	uint64_t factor, origin; /* rounds; a call behind one */
	double least_ns;	 /* the shortest of them */
	bool own;		 /* this rank's own, from the departure before to the arrival */
};

/*
 * Whether the last rounds of the adopted cycle are loops of a step though they look alike: one pause of so many is
 * long enough, and most of such steps since a position began with it. Otherwise a fault began to delay every n-th round.
 */
bool period_pauses(const struct period_detector *detector, uint64_t round_count, uint64_t since,
	struct period_pause *pause);

/* The stream by which the adopted cycle is followed. */
static inline const struct period_stream *period_followed_stream(
	const struct period_detector *detector)
{
	return detector->cycle.by_full ? &detector->full : &detector->structure;
}

#endif
