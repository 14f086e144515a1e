/* SPDX-License-Identifier: Apache-2.0 */
/* Which steps, and which ranks of them, are exported. Plain values; any thread. */
#ifndef SLOWRANK_COORDINATOR_EXPORT_SELECTION_H
#define SLOWRANK_COORDINATOR_EXPORT_SELECTION_H

#include "coordinator/export/steps.h"

enum { EXPORT_RANGES_MAX = 64 };

/* A number of a step, or a time of the epoch. */
struct export_bound {
	bool set, is_time;
	uint64_t step;
	int64_t unix_ns;
};

/* Zero: all. */
struct export_selection {
	struct export_bound from,
		until; /* both are included; a step lies between times when some of it does */
	size_t range_count;
	struct {
		uint32_t first, last;
	} ranges[EXPORT_RANGES_MAX];
};

/*
 * "120", or "2026-11-23T10:42:00Z" (UTC; "T10:42", fractions of a second and a space for the T are fine, too). False:
 * it is neither.
 */
bool export_bound_parse(const char *text, struct export_bound *bound);
/* "0-7,12". False: it is none, or has too many parts. */
bool export_ranks_parse(const char *text, struct export_selection *selection);

bool export_selects_rank(const struct export_selection *selection, uint32_t rank);
bool export_selects_step(const struct export_selection *selection, const struct export_step *step);
bool export_selects_all(const struct export_selection *selection);

/* The same of what lasts from a step to another; times are of the epoch. */
bool export_selects_span(const struct export_selection *selection, uint64_t first_step,
	uint64_t last_step, int64_t start_ns, int64_t end_ns);

#endif
