/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of ranks in the text report. Pure but for the stream; any thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_RANK_TABLE_TEXT_H
#define SLOWRANK_COORDINATOR_REPORT_RANK_TABLE_TEXT_H

#include <stdio.h>

#include "coordinator/report/model.h"

/*
 * Writes all ranks in their order when there are at most shown of them; otherwise the shown
 * (at most 256) with the largest own excess per step, the worst first, and how many are left out.
 */
void rank_table_text_write(const struct report_model *model, size_t shown, FILE *out);

#endif
