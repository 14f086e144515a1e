/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/pipeline_trace.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void pipeline_trace_fini(struct pipeline_trace *trace)
{
	free(trace->trace.workers);
	free(trace->trace.operations);
	free(trace->data_ids);
	trace_figures_fini(&trace->figures);
	*trace = (struct pipeline_trace){0};
}

static int reserve(void **array, size_t *capacity, size_t count, size_t size)
{
	size_t grown_capacity = *capacity ? *capacity : 256;

	if (count <= *capacity)
		return 0;
	while (grown_capacity < count)
		grown_capacity *= 2;
	void *grown = realloc(*array, grown_capacity * size);
	if (!grown)
		return -ENOMEM;
	*array = grown;
	*capacity = grown_capacity;
	return 0;
}

static void take_parts(
	struct pipeline_trace *trace, const struct packed_step *step, struct trace_worker *worker)
{
	struct trace *out = &trace->trace;
	uint32_t counts[TRACE_KIND_NR] = {0};
	uint64_t *data_id = &trace->data_ids[out->worker_count];

	*worker = (struct trace_worker){.step = step->index,
		.rank = step->rank,
		.stage = UINT32_MAX,
		.first = out->operation_count};
	*data_id = 0;
	for (size_t p = 0; p < step->part_count; p++) {
		const struct packed_times *part = &step->times[p];
		const struct part_kind *call = packed_kind(step, p);
		enum trace_kind kind = trace_kind_of(call);

		if (kind == TRACE_KIND_NONE)
			continue;
		if (kind <= TRACE_BACKWARD_COMPUTE && call->chunk &&
			call->chunk - 1 < worker->stage)
			worker->stage = call->chunk - 1;
		if (kind >= TRACE_PARAMETERS_GATHER && kind <= TRACE_SEPARATE_GRADIENTS)
			*data_id = call->communicator_id;
		out->operations[out->operation_count++] = (struct trace_operation){
			.start_ns = part->arrival.value - step->start.value,
			.end_ns = part->departure.value - step->start.value,
			.sequence = counts[kind]++,
			.chunk = (int32_t)(call->chunk & INT32_MAX) - 1,
			.kind = (uint8_t)kind};
	}
	worker->count = out->operation_count - worker->first;
}

int pipeline_trace_take(struct pipeline_trace *trace, const struct packed_step *step)
{
	struct trace *out = &trace->trace;
	size_t operations = out->operation_count + step->part_count;
	int error;

	if (step->part_count == 0 || trace_kind_of(packed_kind(step, 0)) == TRACE_KIND_NONE)
		return 0;
	if (operations > TRACE_OPERATIONS_MAX) {
		trace->left_out++;
		return 0;
	}
	error = reserve((void **)&out->operations, &trace->operation_capacity, operations,
		sizeof(*out->operations));
	if (error == 0)
		error = reserve((void **)&out->workers, &trace->worker_capacity,
			out->worker_count + 1, sizeof(*out->workers));
	if (error == 0)
		error = reserve((void **)&trace->data_ids, &trace->id_capacity,
			out->worker_count + 1, sizeof(*trace->data_ids));
	if (error < 0)
		return error;
	take_parts(trace, step, &out->workers[out->worker_count]);
	out->worker_count++;
	return 0;
}

const struct trace_figures *pipeline_trace_figures(
	struct pipeline_trace *trace, struct rank_table *ranks)
{
	struct trace *all = &trace->trace;

	if (trace->figures_of != all->worker_count) {
		trace_figures_fini(&trace->figures);
		trace->figures_of = all->worker_count;
		for (size_t w = 0; w < all->worker_count; w++) {
			struct rank_entry *rank = &ranks->ranks[all->workers[w].rank];
			const struct rank_communicator *data =
				trace->data_ids[w]
					? rank_entry_communicator(rank, trace->data_ids[w])
					: NULL;

			all->workers[w].replica = data ? data->own_index : 0;
		}
		if (trace_figures_init(all, &trace->figures) < 0)
			trace->figures = (struct trace_figures){0};
	}
	return trace->figures.steps ? &trace->figures : NULL;
}
