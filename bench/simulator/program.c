/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/program.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/step.h"
#include "bench/simulator/random.h"

/* Shares of the transfer time, of the kinds that a layout has; they are scaled to sum to 1. */
#define TENSOR_WEIGHT 0.35
#define EXPERT_WEIGHT 0.25
#define DATA_WEIGHT 0.30
#define SHARDED_WEIGHT 0.60
#define PIPELINE_WEIGHT 0.10
#define SMALL_TRANSFER_NS 15000.0 /* latency of a collective of a few bytes */

/* Of the rank's work. */
#define INPUT_SHARE 0.02
#define OPTIMIZER_SHARE 0.04
#define FORWARD_SHARE 0.31 /* backward takes about twice as long */
#define EXPERT_SHARE 0.4   /* of a layer's work, with experts */
#define WEIGHTS_SHARE 0.5  /* of a backward pass: gradients of weights */

struct builder {
	struct sim_program *program;
	const struct sim_layout *layout;
	const struct sim_program_options *options;
	uint32_t stage;
	uint32_t sent[SIM_DIRECTION_NR];
	double layer_ns[2]; /* forward, backward: one layer of one microbatch */
	double tensor_ns, expert_ns, data_ns, message_ns;
	int error;
};

static struct sim_op *append(struct builder *builder, enum sim_op_kind kind)
{
	struct sim_program *program = builder->program;

	if (program->op_count == program->op_capacity) {
		uint32_t capacity = program->op_capacity ? 2 * program->op_capacity : 128;
		struct sim_op *grown = realloc(program->ops, capacity * sizeof(*grown));

		if (!grown) {
			builder->error = -ENOMEM;
			return NULL;
		}
		program->ops = grown;
		program->op_capacity = capacity;
	}
	program->ops[program->op_count] = (struct sim_op){.kind = (uint8_t)kind};
	return &program->ops[program->op_count++];
}

static void add_work(
	struct builder *builder, enum sim_section section, uint32_t microbatch, double work_ns)
{
	struct sim_op *op = append(builder, SIM_OP_WORK);

	if (!op)
		return;
	op->section = (uint8_t)section;
	op->microbatch = (uint16_t)microbatch;
	op->work_ns = work_ns;
	builder->program->work_ns += work_ns;
}

static void add_collective(struct builder *builder, enum sim_group_type group,
	enum operation operation, bool async, uint64_t length_bytes, double transfer_ns)
{
	struct sim_op *op;

	if (builder->layout->groups[group].size < 2)
		return;
	op = append(builder, async ? SIM_OP_COLLECTIVE_ASYNC : SIM_OP_COLLECTIVE);
	if (!op)
		return;
	op->group = (uint8_t)group;
	op->operation = (uint8_t)operation;
	op->length_bytes = length_bytes;
	op->transfer_ns = transfer_ns;
	op->part = builder->program->part_count++;
	builder->program->async_count += async;
	if (group != SIM_TENSOR)
		builder->program->cross_transfer_ns += transfer_ns;
}

/* A message to or from the neighbour in a direction, where there is one for this chunk. */
static void add_message(struct builder *builder, enum sim_op_kind kind,
	enum sim_direction direction, uint32_t chunk)
{
	uint32_t stages = builder->layout->shape.pipeline, stage = builder->stage;
	uint32_t chunks = builder->options->virtual_stages;
	bool up = (direction == SIM_FORWARD) == (kind == SIM_OP_SEND); /* to the next stage */
	struct sim_op *op;

	if (stages < 2 || (up && stage == stages - 1 && chunk == chunks - 1) ||
		(!up && stage == 0 && chunk == 0))
		return;
	op = append(builder, kind);
	if (!op)
		return;
	op->operation = kind == SIM_OP_SEND ? OPERATION_SEND : OPERATION_RECEIVE;
	op->group = SIM_PIPELINE;
	op->direction = (uint8_t)direction;
	op->peer_stage = (stage + (up ? 1 : stages - 1)) % stages;
	op->slot = kind == SIM_OP_SEND ? builder->sent[direction]++
				       : builder->program->receive_count[direction]++;
	op->length_bytes = 16u << 20;
	op->transfer_ns = builder->message_ns;
	op->part = builder->program->part_count++;
	builder->program->cross_transfer_ns += builder->message_ns;
}

static bool later_weights(const struct sim_program_options *options)
{
	return options->schedule == SIM_SCHEDULE_ZERO_BUBBLE;
}

static void add_layer(struct builder *builder, bool forward, uint32_t microbatch)
{
	const struct sim_program_options *options = builder->options;
	enum sim_section section = forward ? SIM_SECTION_FORWARD : SIM_SECTION_BACKWARD;
	bool experts = builder->layout->shape.expert > 1;
	double work_ns = builder->layer_ns[!forward] *
			 (!forward && later_weights(options) ? 1 - WEIGHTS_SHARE : 1);
	double dense_ns = work_ns * (experts ? 1 - EXPERT_SHARE : 1);

	if (options->sharded)
		add_collective(builder, SIM_DATA, OPERATION_ALL_GATHER, options->overlap, 64u << 20,
			builder->data_ns);
	if (options->sharded && options->overlap)
		append(builder, SIM_OP_JOIN);
	add_work(builder, section, microbatch, dense_ns / 2);
	add_collective(
		builder, SIM_TENSOR, OPERATION_ALL_REDUCE, false, 8u << 20, builder->tensor_ns);
	add_work(builder, section, microbatch, dense_ns / 2);
	if (experts) {
		add_collective(builder, SIM_EXPERT, OPERATION_ALL_TO_ALL, false, 12u << 20,
			builder->expert_ns);
		add_work(builder, SIM_SECTION_EXPERT, microbatch, work_ns * EXPERT_SHARE);
		add_collective(builder, SIM_EXPERT, OPERATION_ALL_TO_ALL, false, 12u << 20,
			builder->expert_ns);
	}
	add_collective(
		builder, SIM_TENSOR, OPERATION_ALL_REDUCE, false, 8u << 20, builder->tensor_ns);
	if (options->sharded && !forward)
		add_collective(builder, SIM_DATA, OPERATION_REDUCE_SCATTER, options->overlap,
			64u << 20, builder->data_ns);
}

/* One forward or backward pass of one chunk; number counts those passes of this stage. */
static void add_pass(struct builder *builder, bool forward, uint32_t number)
{
	const struct sim_program_options *options = builder->options;
	uint32_t stages = builder->layout->shape.pipeline, chunks = options->virtual_stages;
	uint32_t chunk = number % (stages * chunks) / stages;
	uint32_t microbatch = number / (stages * chunks) * stages + number % stages;
	enum sim_direction direction = forward ? SIM_FORWARD : SIM_BACKWARD;
	bool last = number + 1 == options->microbatches * chunks;
	uint32_t bucket = 0;

	if (!forward)
		chunk = chunks - 1 - chunk;
	add_message(builder, SIM_OP_RECEIVE, direction, chunk);
	for (uint32_t layer = 0; layer < options->layers; layer++) {
		add_layer(builder, forward, microbatch);
		if (forward || !last || !options->overlap || options->sharded)
			continue;
		for (; bucket < (layer + 1) * options->buckets / options->layers; bucket++)
			add_collective(builder, SIM_DATA, OPERATION_ALL_REDUCE, true, 100u << 20,
				builder->data_ns);
	}
	add_message(builder, SIM_OP_SEND, direction, chunk);
}

/* A backward pass; where gradients of weights come later, those of the microbatch that is due. */
static void add_backward(struct builder *builder, uint32_t number)
{
	const struct sim_program_options *options = builder->options;

	add_pass(builder, false, number);
	if (later_weights(options) && number >= builder->stage)
		add_work(builder, SIM_SECTION_BACKWARD, number - builder->stage,
			builder->layer_ns[1] * WEIGHTS_SHARE * options->layers);
}

static void add_passes(struct builder *builder)
{
	const struct sim_program_options *options = builder->options;
	uint32_t stages = builder->layout->shape.pipeline, chunks = options->virtual_stages;
	uint32_t total = options->microbatches * chunks;
	uint32_t warm_up = chunks > 1 ? 2 * (stages - builder->stage - 1) + (chunks - 1) * stages
				      : stages - builder->stage - 1;

	if (warm_up > total || (chunks > 1 && options->microbatches == stages) ||
		options->schedule == SIM_SCHEDULE_GPIPE)
		warm_up = total;
	for (uint32_t i = 0; i < warm_up; i++)
		add_pass(builder, true, i);
	for (uint32_t i = 0; i < total - warm_up; i++) {
		add_pass(builder, true, warm_up + i);
		add_backward(builder, i);
	}
	for (uint32_t i = total - warm_up; i < total; i++)
		add_backward(builder, i);
	for (uint32_t i = total > builder->stage ? total - builder->stage : 0;
		i < total && later_weights(options); i++)
		add_work(builder, SIM_SECTION_BACKWARD, i,
			builder->layer_ns[1] * WEIGHTS_SHARE * options->layers);
}

static void add_end(struct builder *builder)
{
	const struct sim_program_options *options = builder->options;
	const struct sim_layout *layout = builder->layout;

	if (options->overlap)
		append(builder, SIM_OP_JOIN);
	if (!options->overlap && !options->sharded) {
		for (uint32_t bucket = 0; bucket < options->buckets; bucket++)
			add_collective(builder, SIM_DATA, OPERATION_ALL_REDUCE, false, 100u << 20,
				builder->data_ns);
	}
	if (!options->untied &&
		(builder->stage == 0 || builder->stage == layout->shape.pipeline - 1))
		add_collective(builder, SIM_EMBEDDING, OPERATION_ALL_REDUCE, false, 50u << 20,
			4 * SMALL_TRANSFER_NS);
	if (options->norm)
		add_collective(
			builder, SIM_MODEL, OPERATION_ALL_REDUCE, false, 4, SMALL_TRANSFER_NS);
}

/* Times of the parts, so that the step lasts about as long as asked for. */
static void set_times(struct builder *builder)
{
	const struct sim_program_options *options = builder->options;
	const struct sim_layout *layout = builder->layout;
	double transfers_ns = options->step_ns * options->transfer_share;
	double chunks = options->virtual_stages, microbatches = options->microbatches;
	double passes = microbatches * chunks * options->layers; /* layers, forward */
	double work_ns = (options->step_ns - transfers_ns) * (1 - INPUT_SHARE - OPTIMIZER_SHARE);
	double data_weight = options->sharded ? SHARDED_WEIGHT : DATA_WEIGHT, weights = 0;

	work_ns /=
		(microbatches + (layout->shape.pipeline - 1) / chunks) * chunks * options->layers;
	builder->layer_ns[0] = work_ns * FORWARD_SHARE;
	builder->layer_ns[1] = work_ns * (1 - FORWARD_SHARE);
	weights += layout->groups[SIM_TENSOR].size > 1 ? TENSOR_WEIGHT : 0;
	weights += layout->groups[SIM_EXPERT].size > 1 ? EXPERT_WEIGHT : 0;
	weights += layout->groups[SIM_DATA].size > 1 ? data_weight : 0;
	weights += layout->shape.pipeline > 1 ? PIPELINE_WEIGHT : 0;
	transfers_ns /= weights > 0 ? weights : 1;
	builder->tensor_ns = TENSOR_WEIGHT * transfers_ns / (4 * passes);
	builder->expert_ns = EXPERT_WEIGHT * transfers_ns / (4 * passes);
	builder->data_ns = data_weight * transfers_ns /
			   (options->sharded ? 3 * passes : (double)options->buckets);
	builder->message_ns = PIPELINE_WEIGHT * transfers_ns / (4 * microbatches * chunks);
}

static int finish(struct sim_program *program)
{
	uint32_t count = 0;

	program->signature = 1;
	program->async_ops = calloc(program->async_count + 1, sizeof(uint32_t));
	if (!program->async_ops)
		return -ENOMEM;
	for (uint32_t i = 0; i < program->op_count; i++) {
		const struct sim_op *op = &program->ops[i];

		if (op->kind == SIM_OP_COLLECTIVE_ASYNC)
			program->async_ops[count++] = i;
		if (op->kind != SIM_OP_WORK && op->kind != SIM_OP_JOIN)
			program->signature = sim_random(
				program->signature, op->operation, op->group, op->length_bytes);
	}
	return 0;
}

int sim_program_init(struct sim_program *program, const struct sim_layout *layout,
	const struct sim_program_options *options, uint32_t stage, bool irregular)
{
	struct builder builder = {program, layout, options, stage, {0}, {0}, 0, 0, 0, 0, 0};
	int error;

	memset(program, 0, sizeof(*program));
	if (!options->microbatches || !options->virtual_stages || !options->layers ||
		(options->virtual_stages > 1 && options->schedule != SIM_SCHEDULE_1F1B) ||
		!options->buckets || options->microbatches > UINT16_MAX ||
		(options->virtual_stages > 1 &&
			(layout->shape.pipeline < 2 ||
				options->microbatches % layout->shape.pipeline)))
		return -EINVAL;
	set_times(&builder);
	if (irregular) {
		add_work(&builder, SIM_SECTION_IRREGULAR, 0, 1.5 * options->step_ns);
		add_collective(&builder, SIM_WORLD, OPERATION_BARRIER, false, 0, SMALL_TRANSFER_NS);
	}
	add_work(&builder, SIM_SECTION_INPUT, 0, options->step_ns * INPUT_SHARE);
	add_passes(&builder);
	add_work(&builder, SIM_SECTION_OPTIMIZER, 0, options->step_ns * OPTIMIZER_SHARE);
	add_end(&builder);
	error = builder.error ? builder.error : finish(program);
	if (error < 0)
		sim_program_fini(program);
	return error;
}

void sim_program_fini(struct sim_program *program)
{
	free(program->ops);
	free(program->async_ops);
	memset(program, 0, sizeof(*program));
}
