/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Implausible timestamps in batches of broken or hostile probes: they would overflow sums further on. No state.
 */
#ifndef SLOWRANK_COORDINATOR_PLAUSIBLE_H
#define SLOWRANK_COORDINATOR_PLAUSIBLE_H

#include "analysis/base/step.h"
#include "probe/wire/message.h"
#include "probe/wire/packed_steps.h"

/* All times of a step are such as hosts have; else it is to be dropped and counted. */
bool plausible_step(const struct packed_step *step);

/* Without them the batch says nothing of its host's clock. */
void forget_implausible_stamps(struct message_batch *batch, struct job_ns received);

#endif
