/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every number that decides: what it is, its unit, and why it has this value. A section for each part of the
 * analysis.
 */
#ifndef SLOWRANK_ANALYSIS_POLICY_H
#define SLOWRANK_ANALYSIS_POLICY_H

#include <stdint.h>

/* hang: when a job does not go on. */

/* ns that a call lasts before a rank that is stopped or dead is told: with a look and a batch within 6 s. */
#define HANG_LIMIT_NS INT64_C(5000000000)
/* Usual (median) steps; who is alive may take so long in which it shows nothing, at least the above. */
#define HANG_USUAL_STEPS 10
/* Steps from which on the usual one is known: the first ones compile, and warm up. */
#define HANG_KNOWN_STEPS 10
/* ns, until then: half of what NCCL's and PyTorch's own limits are. Compilation takes minutes. */
#define HANG_FIRST_LIMIT_NS INT64_C(300000000000)
/* Bytes read or written that show that a rank works: a checkpoint at 200 kB a second and more. */
#define HANG_WORK_BYTES (UINT64_C(1) << 20)
/* ns without a batch after which a probe counts as silent: it samples once a second. */
#define HANG_SILENT_NS INT64_C(5000000000)
/* ns between two looks at all ranks. */
#define HANG_LOOK_NS INT64_C(500000000)

#endif
