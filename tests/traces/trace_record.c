/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/traces/trace_record.h"

#include <errno.h>
#include <stdlib.h>

#include "coordinator/record/reader.h"
#include "probe/wire/decode.h"

/* What is read so far: the trace, and by worker which communicator its gradients go over; 0 = none. */
struct gathered {
	struct trace trace;
	uint64_t *data_ids;
	size_t worker_capacity, id_capacity, operation_capacity;
	struct message_communicator *communicators;
	size_t communicator_count, communicator_capacity;
};

/* Of a part with a purpose; TRACE_KIND_NR for all others. */
static enum trace_kind kind_of(const struct collective_part *part)
{
	bool forward = part->purpose == PURPOSE_FORWARD;
	bool either = forward || part->purpose == PURPOSE_BACKWARD;

	if (either && part->operation == OPERATION_COMPUTE)
		return forward ? TRACE_FORWARD_COMPUTE : TRACE_BACKWARD_COMPUTE;
	if (either && part->operation == OPERATION_SEND)
		return forward ? TRACE_FORWARD_SEND : TRACE_BACKWARD_SEND;
	if (either && part->operation == OPERATION_RECEIVE)
		return forward ? TRACE_FORWARD_RECEIVE : TRACE_BACKWARD_RECEIVE;
	switch (part->purpose) {
	case PURPOSE_PARAMETERS:
		return TRACE_PARAMETERS_GATHER;
	case PURPOSE_GRADIENTS:
		return TRACE_GRADIENTS_SCATTER;
	case PURPOSE_SEPARATE_GRADIENTS:
		return TRACE_SEPARATE_GRADIENTS;
	case PURPOSE_LAYERNORM:
		return TRACE_LAYERNORM;
	case PURPOSE_EMBEDDING:
		return TRACE_EMBEDDING;
	case PURPOSE_CLIP:
		return TRACE_CLIP;
	case PURPOSE_OPTIMIZER:
		return TRACE_OPTIMIZER;
	case PURPOSE_GARBAGE_COLLECTION:
		return TRACE_GARBAGE_COLLECTION;
	default:
		return TRACE_KIND_NR;
	}
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

static void take_parts(struct gathered *all, const struct step_entry *step)
{
	struct trace *trace = &all->trace;
	struct trace_worker *worker = &trace->workers[trace->worker_count];
	uint64_t *data_id = &all->data_ids[trace->worker_count];
	uint32_t counts[TRACE_KIND_NR] = {0};

	*worker = (struct trace_worker){.step = step->index,
		.rank = step->rank,
		.stage = UINT32_MAX,
		.first = trace->operation_count};
	*data_id = 0;
	for (size_t p = 0; p < step->part_count; p++) {
		const struct collective_part *part = &step->parts[p];
		enum trace_kind kind = kind_of(part);

		if (kind == TRACE_KIND_NR)
			continue;
		if (kind <= TRACE_BACKWARD_COMPUTE && part->chunk &&
			part->chunk - 1 < worker->stage)
			worker->stage = part->chunk - 1;
		if (kind >= TRACE_PARAMETERS_GATHER && kind <= TRACE_SEPARATE_GRADIENTS)
			*data_id = part->communicator_id;
		trace->operations[trace->operation_count++] = (struct trace_operation){
			.start_ns = part->arrival.value - step->start.value,
			.end_ns = part->departure.value - step->start.value,
			.sequence = counts[kind]++,
			.chunk = (int32_t)(part->chunk & INT32_MAX) - 1,
			.kind = (uint8_t)kind};
	}
	worker->count = trace->operation_count - worker->first;
	trace->worker_count++;
}

static int take_batch(struct gathered *all, const struct message_batch *batch)
{
	struct trace *trace = &all->trace;
	int error = reserve((void **)&all->communicators, &all->communicator_capacity,
		all->communicator_count + batch->communicator_count, sizeof(*all->communicators));

	for (size_t i = 0; i < batch->communicator_count && error == 0; i++)
		all->communicators[all->communicator_count++] = batch->communicators[i];
	for (size_t i = 0; i < batch->step_count && error == 0; i++) {
		const struct step_entry *step = &batch->steps[i];

		error = reserve((void **)&trace->operations, &all->operation_capacity,
			trace->operation_count + step->part_count, sizeof(*trace->operations));
		if (error == 0)
			error = reserve((void **)&trace->workers, &all->worker_capacity,
				trace->worker_count + 1, sizeof(*trace->workers));
		if (error == 0)
			error = reserve((void **)&all->data_ids, &all->id_capacity,
				trace->worker_count + 1, sizeof(*all->data_ids));
		if (error == 0)
			take_parts(all, step);
	}
	return error;
}

static int read_all(const char *path, struct gathered *all)
{
	struct record_reader *reader = NULL;
	struct job_ns received;
	const void *bytes;
	size_t length;
	int error = record_reader_open(path, &reader, NULL);

	while (error == 0 &&
		(error = record_reader_next(reader, &bytes, &length, &received)) == 0) {
		struct message_batch *batch = NULL;

		error = wire_decode_batch(bytes, length, &batch, NULL);
		if (error == 0)
			error = take_batch(all, batch);
		message_batch_destroy(batch);
	}
	record_reader_close(reader);
	return error == -ENODATA ? 0 : error;
}

/* Its index among those that its gradients go to. */
static uint32_t replica_of(const struct gathered *all, size_t worker)
{
	for (size_t i = 0; i < all->communicator_count; i++) {
		const struct message_communicator *entry = &all->communicators[i];

		if (entry->rank == all->trace.workers[worker].rank &&
			entry->communicator.id == all->data_ids[worker])
			return entry->communicator.own_index;
	}
	return 0;
}

int trace_record_figures(const char *path, struct trace_figures *figures)
{
	struct gathered all = {0};
	int error = read_all(path, &all);

	for (size_t w = 0; w < all.trace.worker_count && error == 0; w++)
		all.trace.workers[w].replica = replica_of(&all, w);
	if (error == 0)
		error = trace_figures_init(&all.trace, figures);
	free(all.trace.workers);
	free(all.trace.operations);
	free(all.data_ids);
	free(all.communicators);
	return error;
}
