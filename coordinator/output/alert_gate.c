/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/output/alert_gate.h"

#include <stdlib.h>
#include <string.h>

void alert_gate_fini(struct alert_gate *gate)
{
	free(gate->holds);
	*gate = (struct alert_gate){0};
}

static enum alert_hold hold_of(const struct alert_limits *limits, const struct verdict *verdict)
{
	if (verdict->verdict_class == VERDICT_WORKLOAD_IMBALANCE && limits->imbalance > 0 &&
		verdict->slowdown <= limits->imbalance)
		return ALERT_HOLD_IMBALANCE;
	if (verdict->verdict_class != VERDICT_HANG && verdict->slowdown < limits->slowdown)
		return ALERT_HOLD_SLOWDOWN;
	if (limits->after_ns > 0 && verdict->end.value - verdict->onset.value < limits->after_ns)
		return ALERT_HOLD_DURATION;
	return ALERT_HOLD_NONE;
}

static bool make_room(struct alert_gate *gate, uint32_t id)
{
	size_t count = gate->count ? gate->count : 8;
	uint8_t *grown;

	if (id <= gate->count)
		return true;
	while (count < id)
		count *= 2;
	grown = realloc(gate->holds, count);
	if (!grown)
		return false;
	memset(grown + gate->count, ALERT_HOLD_NONE, count - gate->count);
	gate->holds = grown;
	gate->count = count;
	return true;
}

static void set_hold(struct alert_gate *gate, uint32_t id, enum alert_hold hold)
{
	gate->held -= gate->holds[id - 1] != ALERT_HOLD_NONE;
	gate->held += hold != ALERT_HOLD_NONE;
	gate->holds[id - 1] = (uint8_t)hold;
}

static void tell(
	const struct alert_gate *gate, enum verdict_event event, const struct verdict *verdict)
{
	if (gate->on_verdict)
		gate->on_verdict(gate->context, event, verdict);
}

/* A verdict that is held back, and goes on: it may not be any more. */
static void weigh(struct alert_gate *gate, const struct verdict *verdict)
{
	enum alert_hold hold = hold_of(&gate->limits, verdict);

	set_hold(gate, verdict->id, hold);
	if (hold == ALERT_HOLD_NONE)
		tell(gate, VERDICT_EVENT_ALERT, verdict);
}

void alert_gate_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	struct alert_gate *gate = context;

	if (event == VERDICT_EVENT_ALERT && make_room(gate, verdict->id))
		weigh(gate, verdict);
	else if (alert_gate_hold(gate, verdict->id) == ALERT_HOLD_NONE)
		tell(gate, event, verdict);
	else if (!verdict->ended)
		weigh(gate, verdict);
}

void alert_gate_look(struct alert_gate *gate, const struct verdict *verdicts, size_t count)
{
	for (size_t i = 0; i < count && gate->held; i++) {
		if (!verdicts[i].ended && alert_gate_hold(gate, verdicts[i].id) != ALERT_HOLD_NONE)
			weigh(gate, &verdicts[i]);
	}
}

enum alert_hold alert_gate_hold(const struct alert_gate *gate, uint32_t id)
{
	return id && id <= gate->count ? (enum alert_hold)gate->holds[id - 1] : ALERT_HOLD_NONE;
}
