/* SPDX-License-Identifier: Apache-2.0 */
/* The deep looks that are kept: at most two of a rank, its newest and its oldest. One thread. */
#ifndef SLOWRANK_ANALYSIS_EXPLAIN_LOOKS_H
#define SLOWRANK_ANALYSIS_EXPLAIN_LOOKS_H

#include "analysis/explain/explain.h"
#include "analysis/explain/kernel_profile.h"

enum { LOOKS_KEPT_MAX = 1024 };

struct kept_look {
	int64_t start_ns, stop_ns; /* of the job's clock */
	struct kernel_profile profile;
};

struct judge_looks {
	size_t count;
	struct kept_look *kept[LOOKS_KEPT_MAX];
};

void looks_destroy(struct judge_looks *looks); /* NULL is fine */

/* Keeps a copy. Returns 0 or -ENOMEM. */
int looks_keep(struct judge_looks *looks, const struct kept_look *look)
	__attribute__((warn_unused_result));

/* A rank's newest look whose middle lies within from..until; done: only such. looks may be NULL; NULL: none. */
const struct kept_look *looks_newest(const struct judge_looks *looks, uint32_t rank,
	int64_t from_ns, int64_t until_ns, bool done);

/* What the device can tell is asked only where nothing else is known, and not of a slow host. */
bool looks_can_tell(bool on_device, enum verdict_class verdict_class, enum cause cause);

#endif
