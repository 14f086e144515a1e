/* SPDX-License-Identifier: Apache-2.0 */
/* What the frames of a record are; docs/record.md. Append-only. */
#ifndef SLOWRANK_COORDINATOR_RECORD_KIND_H
#define SLOWRANK_COORDINATOR_RECORD_KIND_H

enum record_kind {
	RECORD_BATCH = 0xf1, /* one batch of a probe's, verbatim; its stamp: when it was received */
	RECORD_VERDICT = 0xf2, /* a verdict as it was told, or has become since */
	RECORD_RANKS = 0xf3,   /* sums of some ranks from the job's begin on */
	RECORD_JOB = 0xf4,     /* those of the job; with the ranks' before it, they are whole */
	RECORD_GAP = 0xf5,     /* batches were here: which, and how many */
};

#endif
