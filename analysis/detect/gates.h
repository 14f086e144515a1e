/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What held a rank back from being named, or transfers. A gate decides; where there is a sheet, it also
 * notes on it what it decided by, so that the two cannot differ. Plain values; any thread.
 */
#ifndef SLOWRANK_ANALYSIS_DETECT_GATES_H
#define SLOWRANK_ANALYSIS_DETECT_GATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gate {
#define GATE(id, ...) GATE_##id,
#include "analysis/detect/gates.def"
#undef GATE
	GATE_NR
};

enum gate_unit {
	GATE_IS = 0,	/* 0 or 1, and the limit is 1 */
	GATE_COUNT = 1, /* a whole number */
	GATE_NUMBER = 2,
	GATE_SHARE = 3, /* 0.05: 5 % */
	GATE_MS = 4,
	GATE_UNIT_NR
};

struct gate_rule {
	const char *name;
	enum gate_unit unit;
	const char *why; /* it holds back */
};
const struct gate_rule *gate_rule(enum gate gate);
const char *gate_unit_name(enum gate_unit unit); /* "unknown" of no unit */

/* In the gate's unit. Of several ways through it, the one that came nearest. */
struct gate_reading {
	bool asked, passed;
	double value, limit; /* a limit may be infinite: nothing is enough */
};

/* Transfers are no rank's. */
#define GATE_OF_TRANSFERS UINT32_MAX

/* One look at a rank, or at transfers, at the end of a block. */
struct gate_sheet {
	uint32_t rank;
	uint32_t verdict;		/* that names it by now, by id; 0: none */
	uint64_t first_step, last_step; /* the block */
	double level;	      /* late in it, as a share of its time; NAN: it was not there */
	uint32_t every_steps; /* not 0: looked at in every so-many-th step alone */
	bool small;	      /* looked at as what is small, rare, or slow to come */
	bool since_known;     /* something has begun: */
	uint64_t since_step;
	struct gate_reading gates[GATE_NR];
};

/* value >= limit. sheet NULL: notes nothing. */
bool gate_passed(struct gate_sheet *sheet, enum gate gate, double value, double limit);
/* The same; noted as multiples of a unit above 0. */
bool gate_passed_in(
	struct gate_sheet *sheet, enum gate gate, double value, double limit, double unit);
bool gate_is(struct gate_sheet *sheet, enum gate gate, bool passed);

/* The first gate that held it back; GATE_NR: none did. */
enum gate gate_sheet_reach(const struct gate_sheet *sheet);
/* How near it came there: value by limit, 0..1. */
double gate_sheet_nearness(const struct gate_sheet *sheet);

#endif
