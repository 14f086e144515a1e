/* SPDX-License-Identifier: Apache-2.0 */
/* By the published rules: docs/analysis.md, Imported traces. */
#include "coordinator/report/import_pairs.h"

#include <errno.h>
#include <stdlib.h>

/* Clocks of two workers may differ by this much (the artifact's constant). */
#define SEND_RECEIVE_SLACK_NS 50000

const enum trace_kind trace_transfers[4] = {
	TRACE_FORWARD_SEND, TRACE_FORWARD_RECEIVE, TRACE_BACKWARD_SEND, TRACE_BACKWARD_RECEIVE};

bool trace_is_send(unsigned kind)
{
	return kind == TRACE_FORWARD_SEND || kind == TRACE_BACKWARD_SEND;
}

unsigned trace_compute_of(unsigned kind)
{
	return kind == TRACE_FORWARD_SEND || kind == TRACE_FORWARD_RECEIVE ? TRACE_FORWARD_COMPUTE
									   : TRACE_BACKWARD_COMPUTE;
}

bool trace_neighbour_exists(unsigned kind, int32_t chunk, int32_t chunk_count)
{
	int32_t step = kind == TRACE_FORWARD_SEND || kind == TRACE_BACKWARD_RECEIVE ? 1 : -1;

	return chunk + step >= 0 && chunk + step < chunk_count;
}

int trace_match_transfers(unsigned kind, const struct trace_direction *direction,
	const struct trace_operation *const *operations, uint32_t count, uint32_t *matches)
{
	uint32_t with = 0, there = 0, compute = 0;

	for (uint32_t i = 0; i < count; i++) {
		bool counts = trace_is_send(kind)
				      ? operations[i]->end_ns >=
						direction->first_end_ns - SEND_RECEIVE_SLACK_NS
				      : operations[i]->start_ns <=
						direction->last_start_ns + SEND_RECEIVE_SLACK_NS;

		matches[i] = counts ? 0 : UINT32_MAX;
		with += counts;
	}
	for (uint32_t i = 0; i < direction->compute_count; i++)
		there += trace_neighbour_exists(
			kind, direction->computes[i]->chunk, direction->chunk_count);
	/* All are recorded, but for the first receive on the first of several chunks; or those with an effect. */
	if (with != direction->compute_count && with + 1 != direction->compute_count &&
		with != there)
		return -EINVAL;
	if (with != there && !trace_is_send(kind) && with + 1 == direction->compute_count)
		compute = 1;
	for (uint32_t i = 0; i < count; i++) {
		if (matches[i] == UINT32_MAX)
			continue;
		while (with == there &&
			!trace_neighbour_exists(
				kind, direction->computes[compute]->chunk, direction->chunk_count))
			compute++;
		matches[i] = compute++;
	}
	return 0;
}

/* The operations of one kind by sequence; list has room for all. */
static uint32_t pick(const struct trace_operation *operations, size_t count, unsigned kind,
	const struct trace_operation **list)
{
	uint32_t found = 0;

	for (size_t i = 0; i < count; i++) {
		if (operations[i].kind != kind)
			continue;
		uint32_t at = found++;

		for (; at > 0 && list[at - 1]->sequence > operations[i].sequence; at--)
			list[at] = list[at - 1];
		list[at] = &operations[i];
	}
	return found;
}

static int32_t chunks_of_worker(
	const struct trace_operation *operations, size_t count, uint32_t stage_count)
{
	int32_t highest = -1;

	for (size_t i = 0; i < count; i++) {
		if ((operations[i].kind == TRACE_FORWARD_COMPUTE ||
			    operations[i].kind == TRACE_BACKWARD_COMPUTE) &&
			operations[i].chunk > highest)
			highest = operations[i].chunk;
	}
	return (highest / (int32_t)stage_count + 1) * (int32_t)stage_count;
}

int trace_pairs(const struct trace_operation *operations, size_t count, uint32_t stage_count,
	uint32_t *pairs)
{
	const struct trace_operation **list = calloc(2 * count + 1, sizeof(*list));
	uint32_t *matches = calloc(count + 1, sizeof(*matches));
	int error = list && matches ? 0 : -ENOMEM;

	for (size_t i = 0; i < count; i++)
		pairs[i] = UINT32_MAX;
	for (int t = 0; t < 4 && error == 0; t++) {
		struct trace_direction direction = {.computes = list,
			.last_start_ns = INT64_MIN,
			.first_end_ns = INT64_MAX,
			.chunk_count = chunks_of_worker(operations, count, stage_count)};
		uint32_t transfer_count, number = 0;

		direction.compute_count =
			pick(operations, count, trace_compute_of(trace_transfers[t]), list);
		for (uint32_t i = 0; i < direction.compute_count; i++) {
			if (list[i]->start_ns > direction.last_start_ns)
				direction.last_start_ns = list[i]->start_ns;
			if (list[i]->end_ns < direction.first_end_ns)
				direction.first_end_ns = list[i]->end_ns;
		}
		transfer_count =
			pick(operations, count, trace_transfers[t], list + direction.compute_count);
		const struct trace_operation **moves = list + direction.compute_count;

		error = trace_match_transfers(
			trace_transfers[t], &direction, moves, transfer_count, matches);
		for (uint32_t i = 0; i < transfer_count && error == 0; i++) {
			if (matches[i] == UINT32_MAX || matches[i] >= direction.compute_count ||
				!trace_neighbour_exists(trace_transfers[t], list[matches[i]]->chunk,
					direction.chunk_count))
				continue;
			pairs[moves[i] - operations] = number++;
		}
	}
	free(list);
	free(matches);
	return error;
}
