/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Between the judge and whoever is told: holds back alerts that the operator does not want. What is held
 * back goes out later, when it has become worse or has lasted long enough; what was told of is told to its
 * end. Reports have all verdicts, and which were held back. For one thread.
 */
#ifndef SLOWRANK_COORDINATOR_OUTPUT_ALERT_GATE_H
#define SLOWRANK_COORDINATOR_OUTPUT_ALERT_GATE_H

#include <stddef.h>

#include "analysis/base/verdict.h"
#include "probe/config/alert_limits.h"

enum alert_hold {
	ALERT_HOLD_NONE = 0,
	ALERT_HOLD_SLOWDOWN = 1,  /* too small */
	ALERT_HOLD_DURATION = 2,  /* too short */
	ALERT_HOLD_IMBALANCE = 3, /* known */
};

/* Zero-initialised holds nothing back; alert_gate_fini() frees. */
struct alert_gate {
	struct alert_limits limits;
	void (*on_verdict)(void *context, enum verdict_event event, const struct verdict *verdict);
	void *context;
	uint8_t *holds; /* enum alert_hold, by verdict's id - 1 */
	size_t count;
	size_t held; /* of them not ALERT_HOLD_NONE */
};

void alert_gate_fini(struct alert_gate *gate);

/* Takes one event; without memory it goes out whatever the limits are. context: the gate. */
void alert_gate_verdict(void *context, enum verdict_event event, const struct verdict *verdict);

/* Lets alerts out that were held back and are not any more: after each change of the verdicts, by id. */
void alert_gate_look(struct alert_gate *gate, const struct verdict *verdicts, size_t count);

/* Why the verdict was not alerted of; ALERT_HOLD_NONE: it was. */
enum alert_hold alert_gate_hold(const struct alert_gate *gate, uint32_t id);

#endif
