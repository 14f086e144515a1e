/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Report models written by hand, each with its expected text and JSON in tests/golden. What a
 * name stands for is said in models.c. Shared by the golden test and by tests of the alerts.
 */
#ifndef TESTS_GOLDEN_MODELS_H
#define TESTS_GOLDEN_MODELS_H

#include "analysis/explain/stack_looks.h"
#include "coordinator/report/model.h"

/* A model and the memory behind it; static in size, filled anew by each maker. */
struct golden_model {
	struct report_model model;
	struct verdict verdicts[40];
	struct report_rank ranks[64];
	struct report_source sources[8];
	struct job_cost costs[8];
	struct report_sheets *sheets; /* NULL: nobody asked; else to be destroyed */
	struct stack_looks stacks;    /* their profiles are to be destroyed */
	struct kernel_profile kernels[2];
	struct alert_gate alerts;
	uint8_t holds[8];
};

struct golden_case {
	const char *name;
	void (*make)(struct golden_model *golden);
};

/* What the maker took from elsewhere. */
void golden_model_fini(struct golden_model *golden);

extern const struct golden_case golden_cases[];
extern const size_t golden_case_count;

#endif
