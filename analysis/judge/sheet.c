/* SPDX-License-Identifier: Apache-2.0 */
/* What is noted of a look at a rank, or at transfers, for who asks. */
#include <math.h>

#include "analysis/judge/internal.h"

void judge_sheet_begin(const struct judge *judge, uint32_t rank, struct gate_sheet *sheet)
{
	*sheet = (struct gate_sheet){.rank = rank,
		.first_step = step_of_program(&judge->times, judge->block.first_step),
		.last_step = step_of_program(&judge->times, judge->times.next - 1)};
}

bool judge_sheet_describe(
	const struct judge *judge, const struct run *run, bool small, struct gate_sheet *sheet)
{
	const struct rank_state *state = &judge->ranks[sheet->rank];

	sheet->level = state->in_block ? state->signal.level : NAN;
	sheet->small = small;
	sheet->every_steps = step_every_of_program(&judge->times, run->every);
	if (run->change.evidence <= 0 || !state->in_block || state->incident)
		return false;
	sheet->since_known = true;
	sheet->since_step = step_of_program(&judge->times, run->first_step);
	return !sheet->gates[GATE_CLASS].asked;
}

void judge_sheet_tell(const struct judge *judge, bool opened, struct gate_sheet *sheet,
	const struct explanation *why)
{
	uint32_t incident = judge->ranks[sheet->rank].incident;

	if (opened)
		(void)gate_is(sheet, GATE_ROOM, incident != 0);
	if (incident)
		sheet->verdict =
			judge->incidents.verdicts[judge->incidents.list[incident - 1].verdict].id;
	judge->watch.on_sheet(judge->watch.context, sheet, sheet->since_known ? why : NULL);
}
