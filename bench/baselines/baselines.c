/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/baselines/baselines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "bench/baselines/baselines_internal.h"

struct stay { /* one collective instance of the step */
	uint64_t communicator_id, sequence;
	double shortest_ns, longest_ns;
	uint32_t shortest_rank, members; /* members = 0: free */
};

struct baselines {
	struct step_view view;
	uint64_t index; /* of the entries of this step */
	bool any;
	struct stay *stays;
	size_t stay_count, stay_capacity; /* a power of two */
	double *lengths;
	bool *flags, *named[BASELINE_NR];
	struct baseline_finding findings[BASELINE_NR];
	struct latest_arrival *latest;
	struct section_score *sections;
	struct z_score *z_score;
	struct change_point *change_point;
};

const char *baseline_name(enum baseline_method method)
{
	static const char *const names[BASELINE_NR] = {"latest arrival, shortest communication",
		"median score per section, 0.75", "sliding z-score, 3",
		"Bayesian online change point"};

	return method < BASELINE_NR ? names[method] : "unknown";
}

int baselines_create(uint32_t rank_count, struct baselines **result)
{
	struct baselines *baselines = calloc(1, sizeof(*baselines));
	bool complete;

	if (!baselines)
		return -ENOMEM;
	baselines->view.rank_count = rank_count;
	baselines->view.ranks = calloc(rank_count, sizeof(struct rank_view));
	baselines->lengths = calloc(rank_count, sizeof(double));
	baselines->flags = calloc(rank_count, sizeof(bool));
	baselines->stay_capacity = 1024;
	baselines->stays = calloc(baselines->stay_capacity, sizeof(struct stay));
	baselines->latest = latest_arrival_create(rank_count);
	baselines->sections = section_score_create(rank_count);
	baselines->z_score = z_score_create(rank_count);
	baselines->change_point = change_point_create();
	complete = baselines->view.ranks && baselines->lengths && baselines->flags &&
		   baselines->stays && baselines->latest && baselines->sections &&
		   baselines->z_score && baselines->change_point;
	for (int method = 0; method < BASELINE_NR; method++) {
		baselines->named[method] = calloc(rank_count, sizeof(bool));
		complete = complete && baselines->named[method];
	}
	if (!complete) {
		baselines_destroy(baselines);
		return -ENOMEM;
	}
	*result = baselines;
	return 0;
}

void baselines_destroy(struct baselines *baselines)
{
	if (!baselines)
		return;
	for (int method = 0; method < BASELINE_NR; method++)
		free(baselines->named[method]);
	latest_arrival_destroy(baselines->latest);
	section_score_destroy(baselines->sections);
	z_score_destroy(baselines->z_score);
	change_point_destroy(baselines->change_point);
	free(baselines->view.ranks);
	free(baselines->lengths);
	free(baselines->flags);
	free(baselines->stays);
	free(baselines);
}

static struct stay *find_stay(
	struct stay *stays, size_t capacity, uint64_t communicator_id, uint64_t sequence)
{
	uint64_t hash = (communicator_id ^ sequence * UINT64_C(0x9e3779b97f4a7c15)) *
			UINT64_C(0xbf58476d1ce4e5b9);
	size_t at = (size_t)(hash >> 20) & (capacity - 1);

	while (stays[at].members &&
		(stays[at].communicator_id != communicator_id || stays[at].sequence != sequence))
		at = (at + 1) & (capacity - 1);
	return &stays[at];
}

static void grow(struct baselines *baselines)
{
	size_t capacity = 2 * baselines->stay_capacity;
	struct stay *grown = calloc(capacity, sizeof(*grown));

	if (!grown)
		return;
	for (size_t i = 0; i < baselines->stay_capacity; i++) {
		const struct stay *stay = &baselines->stays[i];

		if (stay->members)
			*find_stay(grown, capacity, stay->communicator_id, stay->sequence) = *stay;
	}
	free(baselines->stays);
	baselines->stays = grown;
	baselines->stay_capacity = capacity;
}

static void see_part(struct baselines *baselines, uint32_t rank, const struct collective_part *part)
{
	double length_ns = (double)(part->departure.value - part->arrival.value);
	struct stay *stay;

	if (part->operation == OPERATION_SEND || part->operation == OPERATION_RECEIVE)
		return;
	if (baselines->stay_count * 2 >= baselines->stay_capacity)
		grow(baselines);
	if (baselines->stay_count + 1 >= baselines->stay_capacity)
		return; /* no memory: the instance is left out */
	stay = find_stay(
		baselines->stays, baselines->stay_capacity, part->communicator_id, part->sequence);
	if (!stay->members) {
		baselines->stay_count++;
		*stay = (struct stay){
			part->communicator_id, part->sequence, length_ns, length_ns, rank, 0};
	}
	stay->members++;
	if (length_ns < stay->shortest_ns) {
		stay->shortest_ns = length_ns;
		stay->shortest_rank = rank;
	}
	if (length_ns > stay->longest_ns)
		stay->longest_ns = length_ns;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static void raise_alarm(struct baselines *baselines, enum baseline_method method, bool raised)
{
	struct baseline_finding *finding = &baselines->findings[method];

	if (!raised)
		return;
	if (!finding->raised)
		finding->first_step = baselines->view.step;
	finding->raised = true;
	for (uint32_t rank = 0; rank < baselines->view.rank_count; rank++) {
		if (method == BASELINE_CHANGE_POINT || !baselines->flags[rank] ||
			baselines->named[method][rank])
			continue;
		baselines->named[method][rank] = true;
		if (finding->rank_count < BASELINE_RANKS_MAX)
			finding->ranks[finding->rank_count] = rank;
		finding->rank_count++;
	}
}

static void end_step(struct baselines *baselines)
{
	struct step_view *view = &baselines->view;
	size_t present = 0;

	for (size_t i = 0; i < baselines->stay_capacity; i++) {
		struct stay *stay = &baselines->stays[i];

		if (stay->members > 1) {
			view->ranks[stay->shortest_rank].gap_ns +=
				stay->longest_ns - stay->shortest_ns;
		}
		stay->members = 0;
	}
	baselines->stay_count = 0;
	for (uint32_t rank = 0; rank < view->rank_count; rank++) {
		if (view->ranks[rank].present)
			baselines->lengths[present++] = view->ranks[rank].length_ns;
	}
	if (present == view->rank_count) {
		qsort(baselines->lengths, present, sizeof(double), compare);
		view->step_ns = baselines->lengths[present / 2];
		raise_alarm(baselines, BASELINE_LATEST,
			latest_arrival_step(baselines->latest, view, baselines->flags));
		raise_alarm(baselines, BASELINE_SECTIONS,
			section_score_step(baselines->sections, view, baselines->flags));
		raise_alarm(baselines, BASELINE_Z_SCORE,
			z_score_step(baselines->z_score, view, baselines->flags));
		raise_alarm(baselines, BASELINE_CHANGE_POINT,
			change_point_step(baselines->change_point, view));
	}
	memset(view->ranks, 0, view->rank_count * sizeof(*view->ranks));
	view->step++;
}

void baselines_see(struct baselines *baselines, const struct step_entry *entry)
{
	int64_t left = entry->start.value;
	struct rank_view *rank;

	if (entry->rank >= baselines->view.rank_count)
		return;
	if (baselines->any && entry->index != baselines->index)
		end_step(baselines);
	baselines->any = true;
	baselines->index = entry->index;
	rank = &baselines->view.ranks[entry->rank];
	rank->present = true;
	rank->length_ns = (double)(entry->end.value - entry->start.value);
	rank->own_ns = rank->length_ns - (double)entry->comm_ns;
	for (size_t p = 0; p < entry->part_count; p++) {
		const struct collective_part *part = &entry->parts[p];

		if (part->arrival.value > left)
			rank->section_ns[part->operation % BASELINE_SECTION_NR] +=
				(double)(part->arrival.value - left - part->before.comm_call_ns);
		if (part->departure.value > left)
			left = part->departure.value;
		see_part(baselines, entry->rank, part);
	}
}

void baselines_finish(struct baselines *baselines)
{
	if (baselines->any)
		end_step(baselines);
	baselines->any = false;
}

const struct baseline_finding *baselines_finding(
	const struct baselines *baselines, enum baseline_method method)
{
	return &baselines->findings[method];
}
