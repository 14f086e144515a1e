/* SPDX-License-Identifier: Apache-2.0 */
/* How steps come off the wire: packed (analysis/join/packed_step.h). Plain values; any thread. */
#ifndef SLOWRANK_PROBE_WIRE_PACKED_STEPS_H
#define SLOWRANK_PROBE_WIRE_PACKED_STEPS_H

#include "analysis/join/packed_step.h"

/*
 * Finds the layout and the slots, into `slots`, of a step that is complete but for these, its
 * sequences included; where its calls lie on slots goes into `calls`, which are the step's.
 */
void packed_step_lay_out(struct packed_step *step, struct packed_call *calls,
	struct packed_slot slots[PACKED_SLOTS_MAX]);

#endif
