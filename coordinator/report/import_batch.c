/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/import_batch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	BATCH_PARTS_MAX = 100000,
	BATCH_RANKS_MAX = 2048,
	COMMUNICATORS_PER_RANK = 5,
	PROBE_ID = 1,
	HOST_ID = 1,
};
#define FIRST_STEP_NS INT64_C(1000000000) /* a clock's zero is no time that a probe sends */

/* What is shared by whom; part of the communicators' ids. */
enum group {
	GROUP_WORLD = 1,
	GROUP_PIPELINE = 2,  /* all stages of a replica */
	GROUP_DATA = 3,	     /* all replicas of a stage */
	GROUP_EMBEDDING = 4, /* first and last stage of a replica */
	GROUP_LOCAL = 5,     /* other members are not in the trace */
};

static const struct {
	uint8_t operation, purpose, stream, group;
} shapes[TRACE_KIND_NR] = {
	[TRACE_FORWARD_COMPUTE] = {OPERATION_COMPUTE, PURPOSE_FORWARD, 0, 0},
	[TRACE_BACKWARD_COMPUTE] = {OPERATION_COMPUTE, PURPOSE_BACKWARD, 0, 0},
	[TRACE_FORWARD_SEND] = {OPERATION_SEND, PURPOSE_FORWARD, 1, GROUP_PIPELINE},
	[TRACE_FORWARD_RECEIVE] = {OPERATION_RECEIVE, PURPOSE_FORWARD, 2, GROUP_PIPELINE},
	[TRACE_BACKWARD_SEND] = {OPERATION_SEND, PURPOSE_BACKWARD, 3, GROUP_PIPELINE},
	[TRACE_BACKWARD_RECEIVE] = {OPERATION_RECEIVE, PURPOSE_BACKWARD, 4, GROUP_PIPELINE},
	[TRACE_PARAMETERS_GATHER] = {OPERATION_ALL_GATHER, PURPOSE_PARAMETERS, 5, GROUP_DATA},
	[TRACE_GRADIENTS_SCATTER] = {OPERATION_REDUCE_SCATTER, PURPOSE_GRADIENTS, 5, GROUP_DATA},
	[TRACE_SEPARATE_GRADIENTS] = {OPERATION_ALL_REDUCE, PURPOSE_SEPARATE_GRADIENTS, 5,
		GROUP_DATA},
	[TRACE_LAYERNORM] = {OPERATION_ALL_REDUCE, PURPOSE_LAYERNORM, 0, GROUP_LOCAL},
	[TRACE_EMBEDDING] = {OPERATION_ALL_REDUCE, PURPOSE_EMBEDDING, 0, GROUP_EMBEDDING},
	[TRACE_CLIP] = {OPERATION_ALL_REDUCE, PURPOSE_CLIP, 0, GROUP_WORLD},
	[TRACE_GARBAGE_COLLECTION] = {OPERATION_COMPUTE, PURPOSE_GARBAGE_COLLECTION, 0, 0},
	[TRACE_OPTIMIZER] = {OPERATION_COMPUTE, PURPOSE_OPTIMIZER, 0, 0},
};

struct builder {
	struct import_rows *rows;
	const char *job_id;
	uint32_t replica_count, stage_count, worker_count; /* workers: of the world communicator */
	struct message_batch batch;
	struct collective_part *parts; /* BATCH_PARTS_MAX + STEP_PART_COUNT_MAX of them */
	size_t part_count;
	uint8_t *announced; /* by rank */
	int64_t clock_ns;   /* the current step's start */
	int (*take)(void *context, const struct message_batch *batch, struct job_ns received);
	void *context;
	struct import_result *result;
};

static int compare_rows(const void *left, const void *right)
{
	const struct import_row *a = left, *b = right;

	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->rank != b->rank)
		return a->rank < b->rank ? -1 : 1;
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static uint64_t communicator_id(enum group group, uint32_t number)
{
	uint64_t hash = ((uint64_t)group << 32 | number) * UINT64_C(0x9e3779b97f4a7c15);

	hash = (hash ^ (hash >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return (hash ^ (hash >> 27)) | 1;
}

static uint64_t group_id(const struct import_row *row, unsigned group)
{
	switch (group) {
	case GROUP_WORLD:
		return communicator_id(GROUP_WORLD, 0);
	case GROUP_PIPELINE:
	case GROUP_EMBEDDING:
		return communicator_id(group, row->replica);
	case GROUP_DATA:
		return communicator_id(GROUP_DATA, row->stage);
	case GROUP_LOCAL:
		return communicator_id(GROUP_LOCAL, row->rank);
	default:
		return 0;
	}
}

static void announce(struct builder *builder, const struct import_row *row)
{
	struct message_batch *batch = &builder->batch;
	struct message_rank *rank = &batch->ranks[batch->rank_count++];
	uint32_t last = builder->stage_count - 1;

	*rank = (struct message_rank){.rank = row->rank, .local_rank = STEP_RANK_UNKNOWN};
	snprintf(rank->host, sizeof(rank->host), "imported");
	for (unsigned group = GROUP_WORLD; group <= GROUP_LOCAL; group++) {
		struct communicator communicator = {.id = group_id(row, group), .size = 1};

		if (group == GROUP_EMBEDDING && row->stage != 0 && row->stage != last)
			continue;
		switch (group) {
		case GROUP_WORLD:
			communicator.size = builder->worker_count;
			communicator.own_index = row->replica * builder->stage_count + row->stage;
			break;
		case GROUP_PIPELINE:
			communicator.size = builder->stage_count;
			communicator.own_index = row->stage;
			break;
		case GROUP_DATA:
			communicator.size = builder->replica_count;
			communicator.own_index = row->replica;
			break;
		case GROUP_EMBEDDING:
			communicator.size = last ? 2 : 1;
			communicator.own_index = row->stage == last && last ? 1 : 0;
			break;
		default:
			break;
		}
		batch->communicators[batch->communicator_count++] =
			(struct message_communicator){row->rank, communicator};
	}
	builder->announced[row->rank] = 1;
}

/* The neighbour of a send or receive, by stage. */
static uint32_t peer_stage(const struct builder *builder, const struct import_row *row)
{
	bool up = row->kind == TRACE_FORWARD_SEND || row->kind == TRACE_BACKWARD_RECEIVE;

	return (row->stage + (up ? 1 : builder->stage_count - 1)) % builder->stage_count;
}

/* Numbers are by step and kind, so that one that is missing does not shift the later ones. */
static uint64_t sequence_of(const struct import_row *row, uint64_t step, uint32_t number)
{
	return (step * TRACE_KIND_NR + row->kind) * (STEP_PART_COUNT_MAX + 1) + number;
}

static void add_part(struct builder *builder, const struct import_row *row, uint64_t step,
	uint32_t pair, struct step_entry *entry)
{
	bool transfer = row->kind >= TRACE_FORWARD_SEND && row->kind <= TRACE_BACKWARD_RECEIVE;
	bool joined = transfer ? pair != UINT32_MAX : shapes[row->kind].group != 0;
	/* Both ends of a pair count alike: as the send does. */
	struct import_row as_send = *row;

	if (row->kind == TRACE_FORWARD_RECEIVE || row->kind == TRACE_BACKWARD_RECEIVE)
		as_send.kind--;
	builder->parts[builder->part_count++] = (struct collective_part){
		.communicator_id = joined ? group_id(row, shapes[row->kind].group) : 0,
		.sequence =
			joined ? sequence_of(&as_send, step, transfer ? pair : row->sequence) : 0,
		.arrival.value = builder->clock_ns + row->start_ns,
		.departure.value = builder->clock_ns + row->end_ns,
		.root = STEP_ROOT_NONE,
		.operation = shapes[row->kind].operation,
		.flags = PART_DEVICE_TIME,
		.purpose = shapes[row->kind].purpose,
		.stream = shapes[row->kind].stream,
		.peer = transfer && joined ? peer_stage(builder, row) + 1 : 0,
		.chunk = row->model_chunk >= 0 ? (uint32_t)row->model_chunk + 1 : 0};
	entry->part_count++;
	if (shapes[row->kind].operation == OPERATION_COMPUTE) {
		int64_t *time = row->kind == TRACE_GARBAGE_COLLECTION ? &entry->host_ns
								      : &entry->compute_ns;

		*time += row->end_ns - row->start_ns;
	}
	entry->signature += communicator_id(GROUP_LOCAL + 1, row->kind); /* in any order */
}

/* One worker's step: rows of one (step, rank). */
static int add_entry(struct builder *builder, const struct import_row *rows, size_t count,
	uint64_t step, int64_t length_ns)
{
	struct step_entry *entry = &builder->batch.steps[builder->batch.step_count];
	struct trace_operation *operations = calloc(count, sizeof(*operations));
	uint32_t *pairs = calloc(count, sizeof(*pairs));
	int error = operations && pairs ? 0 : -ENOMEM;

	for (size_t i = 0; i < count && error == 0; i++) {
		if (rows[i].replica != rows[0].replica || rows[i].stage != rows[0].stage)
			error = -EINVAL;
		operations[i] = (struct trace_operation){rows[i].start_ns, rows[i].end_ns,
			rows[i].sequence, rows[i].model_chunk, rows[i].kind};
	}
	if (error == 0 && count > STEP_PART_COUNT_MAX)
		error = -EMSGSIZE;
	if (error < 0)
		goto out;
	error = trace_pairs(operations, count, builder->stage_count, pairs);
	if (error == -EINVAL) {
		builder->result->unpaired++;
		memset(pairs, 0xff, count * sizeof(*pairs));
		error = 0;
	}
	if (error < 0)
		goto out;
	*entry = (struct step_entry){.rank = rows[0].rank,
		.flags = STEP_MARKED,
		.index = rows[0].step,
		.start.value = builder->clock_ns,
		.end.value = builder->clock_ns + length_ns,
		.parts = &builder->parts[builder->part_count]};
	for (size_t i = 0; i < count; i++)
		add_part(builder, &rows[i], step, pairs[i], entry);
	if (entry->compute_ns > length_ns) /* computations overlap: what is left is none */
		entry->compute_ns = length_ns;
	if (entry->host_ns > length_ns - entry->compute_ns)
		entry->host_ns = length_ns - entry->compute_ns;
	entry->comm_ns = length_ns - entry->compute_ns - entry->host_ns;
	builder->batch.step_count++;
	if (!builder->announced[rows[0].rank]) {
		announce(builder, &rows[0]);
		builder->result->ranks++;
	}
	builder->result->operations += count;
out:
	free(operations);
	free(pairs);
	return error;
}

static int flush(struct builder *builder, int64_t end_ns, bool final)
{
	struct message_batch *batch = &builder->batch;
	struct message_source source = {.name = "import.whatif", .state = SOURCE_ON};
	int error;

	if (batch->step_count == 0 && !final)
		return 0;
	batch->source_count = batch->number == 0;
	batch->sources = &source;
	batch->sent.value = end_ns;
	batch->final = final;
	batch->counters.events = builder->result->operations;
	error = builder->take(builder->context, batch, (struct job_ns){end_ns});
	batch->number++;
	batch->rank_count = batch->communicator_count = batch->step_count = 0;
	builder->part_count = 0;
	return error;
}

/* Rows of one step: shifts them to start at 0 and hands out a batch, or several. */
static int add_step(struct builder *builder, struct import_row *rows, size_t count, bool last)
{
	int64_t first_ns = INT64_MAX, end_ns = INT64_MIN;
	uint64_t step = builder->result->steps++;
	int error = 0;

	for (size_t i = 0; i < count; i++) {
		first_ns = rows[i].start_ns < first_ns ? rows[i].start_ns : first_ns;
		end_ns = rows[i].end_ns > end_ns ? rows[i].end_ns : end_ns;
	}
	for (size_t i = 0; i < count; i++) {
		rows[i].start_ns -= first_ns;
		rows[i].end_ns -= first_ns;
	}
	end_ns -= first_ns;
	for (size_t i = 0, next; i < count && error == 0; i = next) {
		for (next = i; next < count && rows[next].rank == rows[i].rank; next++)
			;
		if (builder->part_count + (next - i) > BATCH_PARTS_MAX ||
			builder->batch.step_count == BATCH_RANKS_MAX)
			error = flush(builder, builder->clock_ns + end_ns, false);
		if (error == 0)
			error = add_entry(builder, &rows[i], next - i, step, end_ns);
	}
	builder->clock_ns += end_ns;
	return error < 0 ? error : flush(builder, builder->clock_ns, last);
}

static void count_workers(struct builder *builder)
{
	const struct import_rows *rows = builder->rows;

	for (size_t i = 0; i < rows->count; i++) {
		if (rows->rows[i].replica >= builder->replica_count)
			builder->replica_count = rows->rows[i].replica + 1;
	}
	builder->stage_count = rows->stage_count;
	builder->worker_count = builder->replica_count * builder->stage_count;
}

int import_batches(struct import_rows *rows, const char *job_id,
	int (*take)(void *context, const struct message_batch *batch, struct job_ns received),
	void *context, struct import_result *result)
{
	struct builder builder = {.rows = rows,
		.clock_ns = FIRST_STEP_NS,
		.take = take,
		.context = context,
		.result = result};
	struct message_batch *batch = &builder.batch;
	int error = 0;

	*result = (struct import_result){0};
	count_workers(&builder);
	qsort(rows->rows, rows->count, sizeof(*rows->rows), compare_rows);
	batch->probe_id = PROBE_ID;
	batch->host_id = HOST_ID;
	snprintf(batch->job_id, sizeof(batch->job_id), "%s", job_id);
	batch->ranks = calloc(BATCH_RANKS_MAX, sizeof(*batch->ranks));
	batch->steps = calloc(BATCH_RANKS_MAX, sizeof(*batch->steps));
	batch->communicators =
		calloc(BATCH_RANKS_MAX * COMMUNICATORS_PER_RANK, sizeof(*batch->communicators));
	builder.parts = calloc(BATCH_PARTS_MAX + STEP_PART_COUNT_MAX, sizeof(*builder.parts));
	builder.announced = calloc(STEP_RANK_COUNT_MAX, 1);
	if (!batch->ranks || !batch->steps || !batch->communicators || !builder.parts ||
		!builder.announced)
		error = -ENOMEM;
	for (size_t i = 0, next; i < rows->count && error == 0; i = next) {
		for (next = i; next < rows->count && rows->rows[next].step == rows->rows[i].step;
			next++)
			;
		error = add_step(&builder, &rows->rows[i], next - i, next == rows->count);
	}
	free(batch->ranks);
	free(batch->steps);
	free(batch->communicators);
	free(builder.parts);
	free(builder.announced);
	return error;
}
