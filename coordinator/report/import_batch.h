/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Turns the operations of a trace into batches as a probe would send them: one step after the
 * other, every operation a part with its purpose, stream, chunk and peer. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_IMPORT_BATCH_H
#define SLOWRANK_COORDINATOR_REPORT_IMPORT_BATCH_H

#include "coordinator/report/import_csv.h"

struct import_result {
	uint64_t steps, ranks, operations;
	uint64_t unpaired; /* steps of a worker whose sends and receives cannot be paired */
};

/*
 * Sorts the rows and hands out batch after batch, in order, the last one marked final. take returns
 * 0 to go on; received: when it would have come. Returns 0, what take returned, -EMSGSIZE for a
 * step that does not fit a batch, -EINVAL when one rank has two places, or -ENOMEM.
 */
int import_batches(struct import_rows *rows, const char *job_id,
	int (*take)(void *context, const struct message_batch *batch, struct job_ns received),
	void *context, struct import_result *result) __attribute__((warn_unused_result));

#endif
