/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/timeline.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/simulator/random.h"
#include "bench/simulator/work.h"

#define SEND_NS 4000.0	/* posting a message */
#define NEVER (-1.0)	/* of times that are not known yet */
#define STREAM_COUNT 2u /* of a rank: its own, and that of its asynchronous collectives */

/* One group's current instance: its members come in lockstep, so one at a time is enough. */
struct meeting {
	uint32_t arrived;
	double last_arrival;
	uint64_t number; /* instances so far */
};

struct sim_engine {
	struct sim_active active;
	struct meeting *meetings[SIM_GROUP_NR][STREAM_COUNT];
	uint32_t *op;	      /* by rank: the one it is at */
	uint32_t *async_next; /* by rank: asynchronous collectives done */
	uint32_t *async_given;
	double *async_free;  /* by rank: when its communication stream is free */
	double *async_ready; /* by rank and collective: when it could start */
	uint32_t async_stride;
	double *messages; /* by rank, direction, slot: when it is there; NEVER */
	uint32_t message_stride;
	struct activity *pending; /* by rank: since its last part */
	bool *async_busy;	  /* by rank: its communication stream is in a collective */
	bool *waiting;		  /* by rank: at a receive, a collective or a join */
	uint32_t *ready;	  /* stack of rank * STREAM_COUNT + stream */
	size_t ready_count;
	int error;
};

const struct sim_program *sim_timeline_program(const struct sim_timeline *timeline, uint32_t rank)
{
	const struct sim_world *world = &timeline->world;
	uint32_t stage = sim_stage(world->layout, rank);

	return timeline->step_irregular ? &world->irregular[stage] : &world->usual[stage];
}

static void push(struct sim_engine *engine, uint32_t rank, uint32_t stream)
{
	engine->ready[engine->ready_count++] = rank * STREAM_COUNT + stream;
}

static struct sim_part *part_of(
	struct sim_timeline *timeline, uint32_t rank, const struct sim_op *op)
{
	return &timeline->parts[(size_t)rank * timeline->part_stride + op->part];
}

/* Keeps what the rank did since its last part, with the part. */
static uint32_t keep_activity(struct sim_timeline *timeline, uint32_t rank)
{
	static const struct activity none;
	struct activity *pending = &timeline->engine->pending[rank];

	if (!timeline->recording || memcmp(pending, &none, sizeof(none)) == 0)
		return 0;
	if (timeline->activity_count == timeline->activity_capacity) {
		size_t capacity =
			timeline->activity_capacity ? 2 * timeline->activity_capacity : 4096;
		struct activity *grown = realloc(timeline->activities, capacity * sizeof(*grown));

		if (!grown) {
			timeline->engine->error = -ENOMEM;
			return 0;
		}
		timeline->activities = grown;
		timeline->activity_capacity = capacity;
	}
	timeline->activities[timeline->activity_count++] = *pending;
	*pending = none;
	return (uint32_t)timeline->activity_count;
}

static void record_arrival(
	struct sim_timeline *timeline, uint32_t rank, const struct sim_op *op, double arrival)
{
	struct sim_part *part;

	if (!timeline->recording)
		return;
	part = part_of(timeline, rank, op);
	part->arrival = arrival;
	part->before = op->kind == SIM_OP_COLLECTIVE_ASYNC ? 0 : keep_activity(timeline, rank);
}

static void record_departure(struct sim_timeline *timeline, uint32_t rank, const struct sim_op *op,
	double departure, double extra_ns)
{
	struct sim_counters *counters = &timeline->counters[rank];
	struct sim_part *part;

	if (!timeline->recording)
		return;
	part = part_of(timeline, rank, op);
	part->departure = departure;
	if (timeline->world.polls)
		counters->cpu_ns += departure - part->arrival;
	if (extra_ns > 0 && sim_held(&timeline->engine->active, &timeline->world, rank)) {
		counters->cpu_ns -= extra_ns;
		counters->throttled_ns += extra_ns;
	}
	if (op->group == SIM_TENSOR)
		return;
	part->busy_ns = op->transfer_ns * 0.2;
	if (extra_ns > 0 && sim_link_slow(&timeline->engine->active, &timeline->world, rank))
		part->busy_ns += extra_ns;
	part->sent_bytes = op->length_bytes;
	counters->busy_ns += part->busy_ns;
	counters->sent_bytes += (double)part->sent_bytes;
}

struct sim_sockets sim_timeline_sockets(
	const struct sim_timeline *timeline, uint32_t rank, double time)
{
	const struct sim_program *program = sim_timeline_program(timeline, rank);
	const struct sim_part *parts = &timeline->parts[(size_t)rank * timeline->part_stride];
	const struct sim_counters *counters = &timeline->counters[rank];
	double length_ns = timeline->now[rank] - timeline->started[rank];
	double left =
		length_ns > 0 ? fmin(fmax((timeline->now[rank] - time) / length_ns, 0), 1) : 0;
	struct sim_sockets sockets = {.busy_ns = counters->busy_ns,
		.sent_bytes = counters->sent_bytes,
		/* As evenly as the step goes on. */
		.cpu_ns = counters->cpu_ns - left * (counters->cpu_ns - counters->cpu_began_ns)};

	for (uint32_t i = 0; i < program->op_count; i++) {
		const struct sim_op *op = &program->ops[i];
		const struct sim_part *part = &parts[op->part];
		double end;

		if (op->kind == SIM_OP_WORK || op->kind == SIM_OP_JOIN || op->group == SIM_TENSOR)
			continue;
		end = part->departure + (op->kind == SIM_OP_SEND ? part->busy_ns : 0);
		if (end > time) /* not all of it yet */
			sockets.busy_ns -= fmin(end - time, part->busy_ns);
		if (part->departure > time)
			sockets.sent_bytes -= (double)part->sent_bytes;
	}
	return sockets;
}

static void record_stretch(
	struct sim_timeline *timeline, uint32_t rank, const struct sim_worked *worked, double end)
{
	if (!timeline->recording || !worked->reason)
		return;
	if (timeline->stretch_count == timeline->stretch_capacity) {
		size_t capacity = timeline->stretch_capacity ? 2 * timeline->stretch_capacity : 256;
		struct sim_stretch *grown = realloc(timeline->stretches, capacity * sizeof(*grown));

		if (!grown) {
			timeline->engine->error = -ENOMEM;
			return;
		}
		timeline->stretches = grown;
		timeline->stretch_capacity = capacity;
	}
	timeline->stretches[timeline->stretch_count++] =
		(struct sim_stretch){rank, worked->reason, end - worked->stretch_ns, end};
}

static void do_work(
	struct sim_timeline *timeline, uint32_t rank, uint32_t op_index, const struct sim_op *op)
{
	struct sim_engine *engine = timeline->engine;
	struct sim_worked worked;
	struct sim_counters *counters = &timeline->counters[rank];

	sim_work(&engine->active, &timeline->world, rank, timeline->step, op_index, op, &worked);
	timeline->now[rank] += worked.length_ns;
	if (!timeline->recording)
		return;
	activity_add(&engine->pending[rank], &worked.activity);
	record_stretch(timeline, rank, &worked, timeline->now[rank]);
	counters->throttled_ns += (double)worked.activity.throttled_ns;
	counters->major_faults += worked.activity.major_faults;
	counters->minor_faults += worked.activity.minor_faults;
	counters->cpu_ns += worked.length_ns -
			    (double)(worked.activity.preempted_ns + worked.activity.throttled_ns +
				     worked.activity.block_io_ns + worked.activity.asleep_ns +
				     worked.activity.major_fault_ns);
}

/* The last member is here: everybody leaves. */
static void leave_all(struct sim_timeline *timeline, const struct sim_op *op, uint32_t group,
	uint32_t stream, struct meeting *meeting)
{
	struct sim_engine *engine = timeline->engine;
	const struct sim_world *world = &timeline->world;
	const struct sim_group_table *table = &world->layout->groups[op->group];
	const uint32_t *members = &table->members[(size_t)group * table->size];
	uint64_t random = sim_random(world->seed, 10 + op->group * STREAM_COUNT + stream,
		(uint64_t)timeline->step << 32 | group, meeting->number++);
	double extra_ns, left = meeting->last_arrival +
				sim_transfer(&engine->active, world, op, members, table->size,
					table->crosses[group], random, &extra_ns);

	meeting->arrived = 0;
	meeting->last_arrival = 0;
	for (uint32_t i = 0; i < table->size; i++) {
		uint32_t rank = members[i];
		double departure =
			left + world->noise->leave_ns * sim_uniform(sim_random_at(random, 8 + i));
		const struct sim_program *program = sim_timeline_program(timeline, rank);

		if (stream) {
			uint32_t index = program->async_ops[engine->async_next[rank]++];

			engine->async_free[rank] = departure;
			engine->async_busy[rank] = false;
			record_departure(timeline, rank, &program->ops[index], departure, extra_ns);
		} else {
			record_departure(timeline, rank, &program->ops[engine->op[rank]++],
				departure, extra_ns);
			timeline->now[rank] = departure;
			engine->waiting[rank] = false;
		}
		push(engine, rank, stream);
	}
}

static void arrive(struct sim_timeline *timeline, uint32_t rank, const struct sim_op *op,
	uint32_t stream, double arrival)
{
	const struct sim_group_table *table = &timeline->world.layout->groups[op->group];
	uint32_t group = table->group_of[rank];
	struct meeting *meeting = &timeline->engine->meetings[op->group][stream][group];

	record_arrival(timeline, rank, op, arrival);
	if (arrival > meeting->last_arrival)
		meeting->last_arrival = arrival;
	if (++meeting->arrived == table->size)
		leave_all(timeline, op, group, stream, meeting);
}

static double *message_at(struct sim_engine *engine, uint32_t rank, const struct sim_op *op)
{
	return &engine->messages[((size_t)rank * SIM_DIRECTION_NR + op->direction) *
					 engine->message_stride +
				 op->slot];
}

/* The receiver goes on if it waits for just this message. */
static void wake_receiver(struct sim_timeline *timeline, uint32_t rank, const struct sim_op *sent)
{
	struct sim_engine *engine = timeline->engine;
	const struct sim_op *at;

	if (!engine->waiting[rank])
		return;
	at = &sim_timeline_program(timeline, rank)->ops[engine->op[rank]];
	if (at->kind != SIM_OP_RECEIVE || at->direction != sent->direction ||
		at->slot != sent->slot)
		return;
	engine->waiting[rank] = false;
	push(engine, rank, 0);
}

static void send(struct sim_timeline *timeline, uint32_t rank, const struct sim_op *op)
{
	struct sim_engine *engine = timeline->engine;
	const struct sim_layout *layout = timeline->world.layout;
	uint32_t ranks[2] = {rank, sim_at_stage(layout, rank, op->peer_stage)};
	uint64_t random = sim_random(timeline->world.seed, 4 + op->direction,
		(uint64_t)timeline->step << 32 | ranks[1], op->slot);
	double extra_ns, length_ns = sim_transfer(&engine->active, &timeline->world, op, ranks, 2,
				 sim_host(layout, ranks[0]) != sim_host(layout, ranks[1]), random,
				 &extra_ns);

	record_arrival(timeline, rank, op, timeline->now[rank]);
	*message_at(engine, ranks[1], op) = timeline->now[rank] + length_ns;
	timeline->now[rank] += SEND_NS;
	record_departure(timeline, rank, op, timeline->now[rank], extra_ns);
	wake_receiver(timeline, ranks[1], op);
}

/* Returns false when the message is not there yet. */
static bool receive(struct sim_timeline *timeline, uint32_t rank, const struct sim_op *op)
{
	struct sim_engine *engine = timeline->engine;
	double there = *message_at(engine, rank, op);

	if (there < 0) {
		engine->waiting[rank] = true;
		return false;
	}
	record_arrival(timeline, rank, op, timeline->now[rank]);
	if (there > timeline->now[rank])
		timeline->now[rank] = there;
	timeline->now[rank] += SEND_NS;
	record_departure(timeline, rank, op, timeline->now[rank], 0);
	return true;
}

static bool hangs(const struct sim_timeline *timeline, uint32_t rank)
{
	const struct sim_active *active = &timeline->engine->active;

	for (uint32_t i = 0; i < active->count; i++) {
		const struct sim_fault *fault = active->faults[i].fault;

		if ((fault->kind == SIM_FAULT_HANG || fault->kind == SIM_FAULT_DEATH) &&
			fault->rank == rank)
			return true;
	}
	return false;
}

static void give_async(struct sim_timeline *timeline, uint32_t rank)
{
	struct sim_engine *engine = timeline->engine;
	uint32_t given = engine->async_given[rank]++;

	engine->async_ready[(size_t)rank * engine->async_stride + given] = timeline->now[rank];
	if (given == engine->async_next[rank])
		push(engine, rank, 1);
}

/* Runs a rank until it has to wait, or its step is over. */
static void run_rank(struct sim_timeline *timeline, uint32_t rank)
{
	struct sim_engine *engine = timeline->engine;
	const struct sim_program *program = sim_timeline_program(timeline, rank);
	uint32_t end = program->op_count;

	if (engine->active.touched[rank] && hangs(timeline, rank))
		end /= 2;
	while (engine->op[rank] < end && !engine->waiting[rank]) {
		uint32_t index = engine->op[rank];
		const struct sim_op *op = &program->ops[index];

		switch ((enum sim_op_kind)op->kind) {
		case SIM_OP_WORK:
			do_work(timeline, rank, index, op);
			break;
		case SIM_OP_COLLECTIVE:
			engine->waiting[rank] = true;
			arrive(timeline, rank, op, 0, timeline->now[rank]);
			return; /* whoever comes last pushes it */
		case SIM_OP_COLLECTIVE_ASYNC:
			give_async(timeline, rank);
			break;
		case SIM_OP_JOIN:
			if (engine->async_next[rank] < engine->async_given[rank]) {
				engine->waiting[rank] = true;
				return;
			}
			if (engine->async_free[rank] > timeline->now[rank])
				timeline->now[rank] = engine->async_free[rank];
			break;
		case SIM_OP_SEND:
			send(timeline, rank, op);
			break;
		case SIM_OP_RECEIVE:
			if (!receive(timeline, rank, op))
				return;
			break;
		}
		engine->op[rank]++;
	}
}

/* The communication stream starts its next collective, if that was given to it. */
static void run_stream(struct sim_timeline *timeline, uint32_t rank)
{
	struct sim_engine *engine = timeline->engine;
	const struct sim_program *program = sim_timeline_program(timeline, rank);
	uint32_t next = engine->async_next[rank];
	double start;

	if (engine->async_busy[rank])
		return;
	if (next == engine->async_given[rank]) {
		if (engine->waiting[rank] && program->ops[engine->op[rank]].kind == SIM_OP_JOIN) {
			engine->waiting[rank] = false;
			push(engine, rank, 0);
		}
		return;
	}
	start = engine->async_ready[(size_t)rank * engine->async_stride + next];
	if (engine->async_free[rank] > start)
		start = engine->async_free[rank];
	engine->async_busy[rank] = true;
	arrive(timeline, rank, &program->ops[program->async_ops[next]], 1, start);
}

static void begin_step(struct sim_timeline *timeline, uint32_t step)
{
	struct sim_engine *engine = timeline->engine;
	const struct sim_world *world = &timeline->world;
	uint32_t ranks = world->layout->rank_count;

	timeline->step = step;
	timeline->step_irregular = world->irregular && world->irregular_every &&
				   step % world->irregular_every == world->irregular_every - 1;
	timeline->activity_count = 0;
	timeline->stretch_count = 0;
	sim_active_step(&engine->active, world, step);
	memset(engine->op, 0, ranks * sizeof(uint32_t));
	memset(engine->async_next, 0, ranks * sizeof(uint32_t));
	memset(engine->async_given, 0, ranks * sizeof(uint32_t));
	memcpy(timeline->started, timeline->now, ranks * sizeof(double));
	for (uint32_t r = 0; r < ranks; r++)
		timeline->counters[r].cpu_began_ns = timeline->counters[r].cpu_ns;
	for (size_t i = 0; i < (size_t)ranks * SIM_DIRECTION_NR * engine->message_stride; i++)
		engine->messages[i] = NEVER;
	for (uint32_t rank = ranks; rank-- > 0;)
		push(engine, rank, 0);
}

int sim_timeline_step(struct sim_timeline *timeline, uint32_t step)
{
	struct sim_engine *engine = timeline->engine;
	uint32_t ranks = timeline->world.layout->rank_count;
	bool hang = false;

	if (timeline->any_stuck)
		return 0;
	begin_step(timeline, step);
	while (engine->ready_count > 0 && engine->error == 0) {
		uint32_t actor = engine->ready[--engine->ready_count];

		if (actor % STREAM_COUNT)
			run_stream(timeline, actor / STREAM_COUNT);
		else
			run_rank(timeline, actor / STREAM_COUNT);
	}
	for (uint32_t rank = 0; rank < ranks; rank++) {
		timeline->stuck[rank] =
			engine->op[rank] < sim_timeline_program(timeline, rank)->op_count;
		timeline->any_stuck |= timeline->stuck[rank];
		hang |= engine->active.touched[rank] && hangs(timeline, rank);
		if (timeline->now[rank] > timeline->end)
			timeline->end = timeline->now[rank];
	}
	if (engine->error == 0 && timeline->any_stuck && !hang)
		return -EDEADLK;
	return engine->error;
}

const struct sim_op *sim_timeline_open(
	const struct sim_timeline *timeline, uint32_t rank, double *since)
{
	const struct sim_engine *engine = timeline->engine;
	const struct sim_program *program = sim_timeline_program(timeline, rank);
	const struct sim_op *op;

	if (!timeline->stuck[rank] || !engine->waiting[rank])
		return NULL;
	op = &program->ops[engine->op[rank]];
	*since = timeline->now[rank];
	if (op->kind == SIM_OP_JOIN) {
		uint32_t next = engine->async_next[rank];

		op = &program->ops[program->async_ops[next]];
		*since = engine->async_ready[(size_t)rank * engine->async_stride + next];
	}
	return op;
}

static int allocate(struct sim_timeline *timeline, uint32_t async_max, uint32_t message_max)
{
	struct sim_engine *engine = timeline->engine;
	const struct sim_layout *layout = timeline->world.layout;
	size_t ranks = layout->rank_count;

	engine->async_stride = async_max;
	engine->message_stride = message_max;
	timeline->now = calloc(ranks, sizeof(double));
	timeline->started = calloc(ranks, sizeof(double));
	timeline->counters = calloc(ranks, sizeof(*timeline->counters));
	timeline->stuck = calloc(ranks, sizeof(bool));
	if (timeline->recording) {
		timeline->parts = calloc(ranks * timeline->part_stride, sizeof(*timeline->parts));
		if (!timeline->parts)
			return -ENOMEM;
	}
	engine->op = calloc(ranks, sizeof(uint32_t));
	engine->async_next = calloc(ranks, sizeof(uint32_t));
	engine->async_given = calloc(ranks, sizeof(uint32_t));
	engine->async_free = calloc(ranks, sizeof(double));
	engine->async_ready = calloc(ranks * async_max + 1, sizeof(double));
	engine->messages = calloc(ranks * SIM_DIRECTION_NR * message_max + 1, sizeof(double));
	engine->pending = calloc(ranks, sizeof(struct activity));
	engine->waiting = calloc(ranks, sizeof(bool));
	engine->async_busy = calloc(ranks, sizeof(bool));
	engine->ready = calloc(ranks * 2 * STREAM_COUNT, sizeof(uint32_t));
	if (!timeline->now || !timeline->started || !timeline->counters || !timeline->stuck ||
		!engine->op || !engine->async_next || !engine->async_given || !engine->async_free ||
		!engine->async_ready || !engine->messages || !engine->pending || !engine->waiting ||
		!engine->async_busy || !engine->ready)
		return -ENOMEM;
	for (int type = 0; type < SIM_GROUP_NR; type++) {
		for (uint32_t stream = 0; stream < STREAM_COUNT; stream++) {
			engine->meetings[type][stream] =
				calloc(layout->groups[type].count + 1, sizeof(struct meeting));
			if (!engine->meetings[type][stream])
				return -ENOMEM;
		}
	}
	return sim_active_init(&engine->active, &timeline->world);
}

int sim_timeline_create(const struct sim_world *world, bool recording, struct sim_timeline **result)
{
	struct sim_timeline *timeline = calloc(1, sizeof(*timeline));
	uint32_t async_max = 0, message_max = 0;
	int error;

	if (!timeline)
		return -ENOMEM;
	timeline->world = *world;
	timeline->recording = recording;
	timeline->engine = calloc(1, sizeof(*timeline->engine));
	if (!timeline->engine) {
		free(timeline);
		return -ENOMEM;
	}
	for (uint32_t stage = 0; stage < world->layout->shape.pipeline; stage++) {
		for (int kind = 0; kind < (world->irregular ? 2 : 1); kind++) {
			const struct sim_program *program =
				kind ? &world->irregular[stage] : &world->usual[stage];

			if (program->part_count > timeline->part_stride)
				timeline->part_stride = program->part_count;
			if (program->async_count > async_max)
				async_max = program->async_count;
			for (int d = 0; d < SIM_DIRECTION_NR; d++) {
				if (program->receive_count[d] > message_max)
					message_max = program->receive_count[d];
			}
		}
	}
	error = allocate(timeline, async_max, message_max);
	if (error < 0) {
		sim_timeline_destroy(timeline);
		return error;
	}
	*result = timeline;
	return 0;
}

void sim_timeline_destroy(struct sim_timeline *timeline)
{
	struct sim_engine *engine;

	if (!timeline)
		return;
	engine = timeline->engine;
	for (int type = 0; type < SIM_GROUP_NR; type++) {
		for (uint32_t stream = 0; stream < STREAM_COUNT; stream++)
			free(engine->meetings[type][stream]);
	}
	sim_active_fini(&engine->active);
	free(engine->op);
	free(engine->async_next);
	free(engine->async_given);
	free(engine->async_free);
	free(engine->async_ready);
	free(engine->messages);
	free(engine->pending);
	free(engine->waiting);
	free(engine->async_busy);
	free(engine->ready);
	free(engine);
	free(timeline->now);
	free(timeline->started);
	free(timeline->parts);
	free(timeline->activities);
	free(timeline->stretches);
	free(timeline->counters);
	free(timeline->stuck);
	free(timeline);
}
