/* SPDX-License-Identifier: Apache-2.0 */
/* Outcomes of simulated jobs as Markdown tables and one JSON object. No state. */
#ifndef SLOWRANK_BENCH_TABLES_H
#define SLOWRANK_BENCH_TABLES_H

#include <stdio.h>

#include "bench/score.h"

/* baselines: the outcomes hold theirs too. */
void tables_print(FILE *out, const struct outcome *outcomes, size_t count, bool baselines);
/* One line on a job that was judged wrongly, with what runs it again. */
void tables_print_failure(FILE *out, const struct outcome *outcome);
/* One job as one line of JSON. */
void tables_print_job(FILE *out, const struct outcome *outcome);

#endif
