/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each cause is called in a sentence, and what an operator can do about it. Constant.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_CAUSE_TEXT_H
#define SLOWRANK_COORDINATOR_REPORT_CAUSE_TEXT_H

#include "analysis/base/verdict.h"

/* Follows "18.2 ms/step ", e.g. "throttled". For numbers it does not know: as for unknown. */
const char *cause_phrase(enum cause cause);

/* One line in the imperative, by the cause; by class and ranks only where that is unknown. */
const char *cause_advice(const struct verdict *verdict);

#endif
