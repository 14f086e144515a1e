/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What comes back every so many steps, of whom: whose steps are looked at, and what is told. Ranks that may do so have one
 * of a bounded number of places.
 */
#include "analysis/judge/internal.h"

_Static_assert(PERIODICS_MAX <= UINT8_MAX, "places are numbered in a byte");

/* A place: a free one, or that of what is less certain and in no verdict; NULL: none. */
static struct periodic_place *find_place(struct judge *judge, double surprise)
{
	struct periodic_place *weakest = NULL;

	for (size_t p = 0; p < PERIODICS_MAX; p++) {
		struct periodic_place *place = &judge->periodics.list[p];

		if (!place->found.every)
			return place;
		if (!judge->ranks[place->rank].incident && place->found.surprise < surprise &&
			(!weakest || place->found.surprise < weakest->found.surprise))
			weakest = place;
	}
	if (weakest)
		judge_periodic_forget(judge, &judge->ranks[weakest->rank]);
	return weakest;
}

static void look_at_rank(struct judge *judge, uint32_t rank)
{
	struct rank_state *state = &judge->ranks[rank];
	struct periodic_place *place =
		state->periodic ? &judge->periodics.list[state->periodic - 1] : NULL;
	struct periodic found = place ? place->found : (struct periodic){0};

	if (!periodic_look(&state->signal, &judge->times, state->incident != 0, &found)) {
		judge_periodic_forget(judge, state);
		return;
	}
	if (!place)
		place = find_place(judge, found.surprise);
	if (!place)
		return;
	*place = (struct periodic_place){rank, found};
	state->periodic = (uint8_t)(place - judge->periodics.list + 1);
}

static void look_at_transfers(struct judge *judge)
{
	struct comm_state *comm = judge->comm;

	if (!periodic_look(&comm->signal, &judge->times,
		    judge_incident_of(judge, INCIDENT_TRANSFERS) != NULL, &comm->periodic))
		comm->periodic = (struct periodic){0};
}

/* Those that are noticed each time, all others in turn. */
static void look(struct judge *judge)
{
	uint32_t count = RANKS_ENOUGH + judge->rank_end / PERIODIC_LOOK_TURNS;

	if (count > judge->rank_end)
		count = judge->rank_end;
	for (size_t p = 0; p < PERIODICS_MAX; p++) {
		uint32_t rank = judge->periodics.list[p].rank;

		if (judge->periodics.list[p].found.every && judge->ranks[rank].in_block)
			look_at_rank(judge, rank);
		else if (judge->periodics.list[p].found.every)
			judge_periodic_forget(judge, &judge->ranks[rank]);
	}
	for (uint32_t i = 0; i < count; i++) {
		uint32_t rank = judge->periodics.turn++ % judge->rank_end;

		if (judge->ranks[rank].in_block && !judge->ranks[rank].periodic)
			look_at_rank(judge, rank);
	}
	judge->periodics.turn %= judge->rank_end;
	look_at_transfers(judge);
	judge->periodics.looked_ns = judge_now_ns(judge);
}

void judge_periodic_take(struct judge *judge, const struct rank_state *state, uint64_t step,
	const struct excess_sums *sums)
{
	struct periodic *periodic = &judge->periodics.list[state->periodic - 1].found;
	struct excess_sums one = *sums;

	if (!periodic_has(periodic, step))
		return;
	/* A step of the program for people, or, where there is no such number, part of each. */
	one.program_steps = step_every_of_program(&judge->times, periodic->every)
				    ? 1
				    : periodic->every * sums->program_steps;
	excess_add(&periodic->block, &one);
}

/* Where most ranks have it, each in steps of its own, it is what the program does (collections of garbage). */
static bool peers_do_likewise(const struct judge *judge, const struct periodic_place *place)
{
	uint32_t alike = 0, peers = 0;

	for (uint32_t r = 0; r < judge->rank_end && peers < RANKS_ENOUGH; r++) {
		const struct rank_state *state = &judge->ranks[r];
		struct fold_finding finding;

		if (r == place->rank || !state->in_block)
			continue;
		peers++;
		alike += periodic_find(
				 &state->signal, &judge->times, state->incident != 0, &finding) &&
			 finding.height >= place->found.height / 2;
	}
	return alike * 2 > peers;
}

/* As a run of those steps alone, by what was gathered of them. */
static struct run run_of(const struct periodic *periodic)
{
	uint32_t steps = (uint32_t)periodic->sums.steps;

	return (struct run){.change = {.evidence = CHANGE_UNIT_MAX * (double)steps},
		.sums = periodic->sums,
		.level = periodic->height * (double)steps,
		.blocks = steps,
		.loud_blocks = steps,
		.first_step = periodic->first_step,
		.every = periodic->every,
		.phase = periodic->phase};
}

static bool is_to_tell(const struct judge *judge, const struct periodic_place *place,
	const struct run *run, struct explanation *why, struct gate_sheet *sheet)
{
	const struct rank_state *state = &judge->ranks[place->rank];
	const struct periodic *periodic = &place->found;

	return gate_is(sheet, GATE_FREE, !state->incident) &&
	       periodic_is_loud(periodic, &state->signal, &judge->times, &judge->block, sheet) &&
	       gate_passed(sheet, GATE_LASTS, (double)periodic->sums.steps, SEEN_MIN) &&
	       gate_is(sheet, GATE_TIMED, !periodic->sums.host_times) &&
	       periodic_is_proven(periodic, &judge->times, judge->judged.ranks, sheet) &&
	       gate_is(sheet, GATE_USUAL, state->signal.settled) &&
	       judge_evidence_suffices(judge, place->rank, run, why, sheet) &&
	       gate_is(sheet, GATE_UNLIKE, !peers_do_likewise(judge, place));
}

static int tell_rank(struct judge *judge, const struct periodic_place *place)
{
	const struct run run = run_of(&place->found);
	struct gate_sheet sheet, *asked = judge->watch.on_sheet ? &sheet : NULL;
	struct explanation why = {0};
	bool told;
	int error = 0;

	if (asked)
		judge_sheet_begin(judge, place->rank, asked);
	told = is_to_tell(judge, place, &run, &why, asked);
	if (asked && judge_sheet_describe(judge, &run, true, asked))
		judge_explain_run(judge, place->rank, &run, &why);
	if (told)
		error = judge_open(judge, place->rank, &run);
	if (asked)
		judge_sheet_tell(judge, told, asked, &why);
	return error;
}

/* What all ranks of an incident do in the same steps, or its transfers; NULL: they do not. */
static const struct periodic *period_of(const struct judge *judge, const struct incident *incident)
{
	const struct verdict *verdict = judge_verdict(judge, incident);
	const struct periodic *found = NULL;

	if (incident->kind == INCIDENT_TRANSFERS)
		return periodic_explains(
			       &judge->comm->periodic, &judge->comm->signal, &judge->times, 1)
			       ? &judge->comm->periodic
			       : NULL;
	/* A quota's periods are of time. */
	if (verdict->cause == CAUSE_CGROUP_THROTTLE)
		return NULL;
	for (uint32_t i = 0; i < verdict->rank_count; i++) {
		const struct rank_state *state = &judge->ranks[verdict->ranks[i]];
		const struct periodic *own = judge_periodic_of(judge, state);

		if (!own ||
			!periodic_explains(own, &state->signal, &judge->times, judge->judged.ranks))
			return NULL;
		if (found && (found->every != own->every || found->phase != own->phase))
			return NULL;
		if (!found || own->height > found->height)
			found = own;
	}
	return found;
}

void judge_periodic_look(struct judge *judge)
{
	if (judge_now_ns(judge) - judge->periodics.looked_ns < SAMPLE_NS)
		return;
	look(judge);
	for (size_t i = 0; i < judge->incidents.count; i++) {
		struct incident *incident = &judge->incidents.list[i];
		const struct periodic *found;

		if (!incident->active || incident->every ||
			(incident->kind != INCIDENT_RANKS && incident->kind != INCIDENT_TRANSFERS))
			continue;
		found = period_of(judge, incident);
		if (found)
			judge_incident_periodic(judge, incident, found);
	}
}

int judge_periodic_block(struct judge *judge)
{
	int error = 0;

	for (size_t p = 0; p < PERIODICS_MAX && error == 0; p++) {
		struct periodic_place *place = &judge->periodics.list[p];

		if (!place->found.every || !judge->ranks[place->rank].in_block)
			continue;
		excess_add(&place->found.sums, &place->found.block);
		if (place->found.block.steps)
			error = tell_rank(judge, place);
		place->found.block = (struct excess_sums){0};
	}
	return error;
}
