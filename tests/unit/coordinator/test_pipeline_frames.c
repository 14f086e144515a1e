/* SPDX-License-Identifier: Apache-2.0 */
/* Frames as they come from the wire: encoded, doubled, out of order, broken; and the report. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "probe/wire/encode.h"
#include "tests/unit/coordinator/job_simulator.h"
#include "tests/unit/coordinator/made_batch.h"

static struct sim sim;
static struct verdict seen[SIM_VERDICTS_MAX];
static size_t seen_count;

static struct pipeline *new_pipeline(void)
{
	struct pipeline_options options = {sim_on_verdict, &sim};
	struct pipeline *pipeline;

	assert_int_equal(pipeline_create(&options, &pipeline), 0);
	return pipeline;
}

static void simulate(void)
{
	struct sim_options options = sim_defaults(4, 9);

	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){SIM_CONTENTION, 2, 150, 250, 0.5};
	options.jitter = 0.02;
	sim_simulate(&sim, &options);
}

enum { TWICE = 1, SWAPPED = 2, FULL_DISK = 4 };

static int kept; /* what the record says: 0, or a negative errno */
static size_t kept_count;
static bool judged; /* the frame that was pushed last */

static int keep(void *context)
{
	(void)context;
	assert_false(judged);
	kept_count += kept == 0;
	return kept;
}

static void on_stage(void *context, enum pipeline_stage stage)
{
	(void)context;
	judged |= stage == PIPELINE_STAGE_TAKE;
	assert_true(!judged || kept == 0);
}

static int push(struct pipeline *pipeline, const struct wire_buffer *frame, double time)
{
	struct message_reply reply;

	judged = false;
	return pipeline_push(
		pipeline, frame->bytes, frame->length, (struct job_ns){(int64_t)time}, &reply);
}

/* Encodes every batch and pushes the bytes, some of them twice or in another order. */
static void push_all(struct pipeline *pipeline, int how)
{
	struct sim_feed feed = {0};
	struct wire_buffer held = {0};
	double held_time = 0;

	for (double until = 250 * SIM_MS;; until += 250 * SIM_MS) {
		bool final = until > sim.end;

		for (unsigned r = 0; r < 4; r++) {
			struct message_batch *batch = sim_batch(&sim, &feed, r, r, r, until, final);
			struct wire_buffer frame = {0};
			double time = until + 1e9 + 5e5;

			/* entries stay in the simulator's hands here: it frees them */
			assert_int_equal(wire_encode_batch(batch, &frame), 0);
			batch->step_count = 0;
			made_batch_release(batch);
			if ((how & SWAPPED) && r == 1 && !final) {
				held = frame; /* rank 1's batch comes after the next rank's */
				held_time = time;
				continue;
			}
			if (how & FULL_DISK) { /* it comes again, and is no double then */
				kept = -ENOSPC;
				assert_int_equal(push(pipeline, &frame, time), -ENOSPC);
				kept = 0;
			}
			assert_int_equal(push(pipeline, &frame, time), PIPELINE_ACCEPTED);
			if (how & TWICE) /* the last one much later, as after a restart */
				assert_int_equal(push(pipeline, &frame, time + (final ? 20e9 : 0)),
					PIPELINE_DUPLICATE);
			wire_buffer_fini(&frame);
			if (held.bytes) {
				assert_int_equal(
					push(pipeline, &held, held_time), PIPELINE_ACCEPTED);
				wire_buffer_fini(&held);
				held = (struct wire_buffer){0};
			}
		}
		if (final)
			break;
	}
}

static void run(int how)
{
	struct pipeline *pipeline = new_pipeline();
	const struct report_model *model;

	simulate();
	assert_false(pipeline_complete(pipeline));
	pipeline_keep_first(pipeline, keep, NULL);
	pipeline_watch_stages(pipeline, on_stage, NULL);
	kept_count = 0;
	push_all(pipeline, how);
	assert_int_equal(kept_count, pipeline_report(pipeline)->frames);
	assert_true(pipeline_complete(pipeline));
	assert_int_equal(pipeline_finish(pipeline), 0);
	model = pipeline_report(pipeline);
	seen_count = model->verdict_count;
	memcpy(seen, model->verdicts, seen_count * sizeof(*seen));
	/* Of what the record holds: a double is not in it, and its report is to be the same. */
	assert_true((double)model->last_heard.value <= sim.end + 2e9);
	assert_int_equal(model->rank_count, 4);
	assert_int_equal(model->world_size, 4);
	assert_int_equal(model->node_count, 1);
	assert_string_equal(model->job_id, "sim");
	assert_string_equal(model->ranks[3].host, "node0");
	assert_int_equal(model->ranks[3].pid, 1003);
	assert_int_equal(model->source_count, 4);
	assert_int_equal(model->sources[0].probe_count, 4);
	assert_int_equal(model->sources[0].on_count, 4);
	assert_int_equal(model->frames_refused, 0);
	pipeline_destroy(pipeline);
	sim_free(&sim, false);
}

static void encoded_frames_give_the_verdict(void **state)
{
	(void)state;
	run(0);
	assert_int_equal(seen_count, 1);
	assert_int_equal(seen[0].ranks[0], 2);
	assert_int_equal(seen[0].cause, CAUSE_CPU_CONTENTION);
}

static void doubles_and_order_change_nothing(void **state)
{
	struct verdict first[4];

	(void)state;
	run(0);
	assert_int_equal(seen_count, 1);
	memcpy(first, seen, sizeof(first[0]));
	run(TWICE);
	assert_int_equal(seen_count, 1);
	assert_memory_equal(first, seen, sizeof(first[0]));
	run(SWAPPED);
	assert_int_equal(seen_count, 1);
	assert_memory_equal(first, seen, sizeof(first[0]));
	run(FULL_DISK);
	assert_int_equal(seen_count, 1);
	assert_memory_equal(first, seen, sizeof(first[0]));
}

/* Whoever has the key, and watches nothing, says nothing of the job's coverage. */
static void a_probe_without_ranks_counts_only_alone(void **state)
{
	struct pipeline *pipeline = new_pipeline();
	struct message_batch *batch = made_batch(7, 1, 0);
	const struct report_model *model;
	struct message_reply reply;

	(void)state;
	made_batch_add_source(batch, "bpf.sched", SOURCE_MISSING, "forged");
	made_batch_add_source(batch, "made.up", SOURCE_ON, "");
	batch->counters.dropped = 1000;
	made_batch_push(pipeline, batch, (struct job_ns){5}, &reply);
	model = pipeline_report(pipeline);
	assert_int_equal(model->source_count, 2); /* why nothing is seen */
	batch = made_batch(8, 1, 0);
	made_batch_announce(batch, 2, 0);
	made_batch_add_source(batch, "bpf.sched", SOURCE_ON, "");
	made_batch_push(pipeline, batch, (struct job_ns){6}, &reply);
	model = pipeline_report(pipeline);
	assert_int_equal(model->source_count, 1);
	assert_string_equal(model->sources[0].source.name, "bpf.sched");
	assert_int_equal(model->sources[0].source.state, SOURCE_ON);
	assert_int_equal(model->counters.dropped, 0);
	pipeline_destroy(pipeline);
}

static void garbage_is_refused_with_a_reason(void **state)
{
	struct pipeline *pipeline = new_pipeline();
	struct message_reply reply;
	unsigned char bytes[64];

	(void)state;
	memset(bytes, 0xc1, sizeof(bytes));
	assert_int_equal(pipeline_push(pipeline, bytes, sizeof(bytes), (struct job_ns){5}, &reply),
		PIPELINE_REFUSED);
	assert_int_equal(reply.accepted, 0);
	assert_true(reply.why[0] != '\0');
	assert_int_equal(
		pipeline_push(pipeline, bytes, 0, (struct job_ns){6}, &reply), PIPELINE_REFUSED);
	assert_int_equal(pipeline_finish(pipeline), 0);
	assert_int_equal(pipeline_report(pipeline)->frames_refused, 2);
	assert_int_equal(pipeline_report(pipeline)->verdict_count, 0);
	pipeline_destroy(pipeline);
}

static void release_counted(struct message_batch *batch)
{
	free(batch->steps[0].parts);
	free(batch->steps);
	free(batch);
}

/* Times that would overflow are dropped, counted, and hurt nothing. */
static void impossible_times_are_counted(void **state)
{
	struct pipeline *pipeline = new_pipeline();
	struct message_batch *batch = calloc(1, sizeof(*batch));
	struct message_reply reply;

	(void)state;
	batch->probe_id = 1;
	batch->step_count = 1;
	batch->steps = calloc(1, sizeof(*batch->steps));
	batch->steps[0].part_count = 1;
	batch->steps[0].parts = calloc(1, sizeof(struct collective_part));
	batch->steps[0].parts[0].departure.value = INT64_MAX;
	batch->steps[0].end.value = INT64_MAX;
	assert_int_equal(
		pipeline_push_batch(pipeline, batch, release_counted, (struct job_ns){5}, &reply),
		PIPELINE_ACCEPTED);
	assert_int_equal(pipeline_finish(pipeline), 0);
	assert_int_equal(pipeline_report(pipeline)->totals.steps_incomplete, 1);
	assert_int_equal(pipeline_report(pipeline)->totals.steps, 0);
	pipeline_destroy(pipeline);
}

static void no_backlog(void *context, bool began, int64_t late_ns)
{
	(void)context;
	(void)began;
	fail_msg("late by %lld ns", (long long)late_ns);
}

/* Nor do they move clocks, or say how late a batch is. */
static void impossible_stamps_say_nothing(void **state)
{
	static const int64_t sent_ns[] = {INT64_MIN, INT64_MAX, -1, 1, INT64_MIN, 2, INT64_MAX};
	struct pipeline *pipeline = new_pipeline();
	struct message_reply reply;

	(void)state;
	pipeline_watch_backlog(pipeline, no_backlog, NULL);
	for (size_t i = 0; i < sizeof(sent_ns) / sizeof(sent_ns[0]); i++) {
		struct message_batch *batch = made_batch(3, 1, i);

		batch->sent.value = batch->previous_sent.value = sent_ns[i];
		batch->previous_reply_received.value = sent_ns[(i + 1) % 7];
		batch->previous_received.value = batch->previous_reply_sent.value = 3;
		batch->unix_offset_ns = sent_ns[(i + 2) % 7];
		made_batch_push(pipeline, batch, (struct job_ns){(int64_t)i * 1000000}, &reply);
	}
	pipeline_destroy(pipeline);
}

/* A job seen by enqueue times only has steps and no verdicts, and says so. */
static bool push_number(struct pipeline *pipeline, uint64_t number, int result)
{
	struct message_reply reply;

	assert_int_equal(pipeline_push_batch(pipeline, made_batch(3, 1, number), made_batch_release,
				 (struct job_ns){(int64_t)number * 1000000}, &reply),
		result);
	if (!reply.directive_count)
		return false;
	assert_int_equal(reply.directive_count, 1);
	assert_int_equal(reply.directives[0].kind, DIRECTIVE_INTRODUCE);
	return true;
}

static void lost_batches_ask_for_an_introduction(void **state)
{
	struct pipeline *from_the_start = new_pipeline(), *started_late = new_pipeline();

	(void)state;
	assert_false(push_number(from_the_start, 0, PIPELINE_ACCEPTED));
	assert_false(push_number(from_the_start, 1, PIPELINE_ACCEPTED));
	assert_true(push_number(from_the_start, 4, PIPELINE_ACCEPTED));	 /* 2 and 3: lost */
	assert_true(push_number(from_the_start, 4, PIPELINE_DUPLICATE)); /* the reply was lost */
	assert_false(push_number(from_the_start, 5, PIPELINE_ACCEPTED));
	assert_true(push_number(started_late, 900, PIPELINE_ACCEPTED));
	assert_false(push_number(started_late, 901, PIPELINE_ACCEPTED));
	pipeline_destroy(from_the_start);
	pipeline_destroy(started_late);
}

/* A record that was thinned may begin anywhere: each ten minutes somebody says again who the ranks are. */
static void introductions_come_again(void **state)
{
	struct pipeline *pipeline = new_pipeline();
	struct message_reply reply;
	uint64_t asked = 0;

	(void)state;
	for (uint64_t minute = 0; minute <= 30; minute++) {
		made_batch_push(pipeline, made_batch(3, 1, minute),
			(struct job_ns){(int64_t)(minute + 1) * 60000000000}, &reply);
		asked += reply.directive_count;
		assert_int_equal(asked, minute / 10);
	}
	pipeline_destroy(pipeline);
}

enum life { LIVES, EXITED, FINAL };

/* One batch that announces rank 0, perhaps with its end, or the probe's. */
static int announce(struct pipeline *pipeline, uint64_t probe, uint64_t number, int64_t time_ms,
	enum life what, struct message_reply *reply)
{
	struct message_batch *batch = made_batch(probe, probe, number);

	made_batch_announce(batch, 1, 0);
	batch->ranks[0].exited = what == EXITED;
	batch->final = what == FINAL;
	return pipeline_push_batch(pipeline, batch, made_batch_release,
		(struct job_ns){time_ms * INT64_C(1000000)}, reply);
}

static void check_held(struct pipeline *pipeline, int64_t time_ms)
{
	struct message_reply reply;
	struct message_batch *batch = made_batch(2, 2, 90);
	uint64_t refused = pipeline_report(pipeline)->frames_refused;

	assert_int_equal(announce(pipeline, 2, 90, time_ms, LIVES, &reply), PIPELINE_REFUSED);
	assert_false(reply.accepted);
	assert_non_null(strstr(reply.why, "another probe watches rank 0"));
	assert_int_equal(announce(pipeline, 2, 91, time_ms, FINAL, &reply), PIPELINE_REFUSED);
	batch->samples = calloc(1, sizeof(*batch->samples));
	batch->sample_count = 1; /* of rank 0, without a word on whose it is */
	assert_int_equal(pipeline_push_batch(pipeline, batch, made_batch_release,
				 (struct job_ns){time_ms * INT64_C(1000000)}, &reply),
		PIPELINE_REFUSED);
	assert_int_equal(pipeline_report(pipeline)->frames_refused, refused + 3);
	assert_false(pipeline_complete(pipeline));
}

static void a_rank_belongs_to_its_probe(void **state)
{
	struct pipeline *pipeline;
	struct message_reply reply;

	(void)state;
	for (enum life end = LIVES; end <= FINAL; end++) {
		pipeline = new_pipeline();
		assert_int_equal(announce(pipeline, 1, 0, 1000, LIVES, &reply), PIPELINE_ACCEPTED);
		check_held(pipeline, 2000);
		assert_int_equal(announce(pipeline, 1, 1, 4000, end, &reply), PIPELINE_ACCEPTED);
		if (end == LIVES) /* killed, and silent for long enough */
			check_held(pipeline, 8900);
		assert_int_equal(
			announce(pipeline, 2, 92, end == LIVES ? 9100 : 4001, LIVES, &reply),
			PIPELINE_ACCEPTED);
		assert_int_equal(reply.directives[0].kind, DIRECTIVE_INTRODUCE);
		pipeline_destroy(pipeline);
	}
}

static void late_ranks_are_told(void **state)
{
	struct pipeline *pipeline = new_pipeline();
	const struct report_model *report;
	struct message_reply reply;

	(void)state;
	for (uint64_t probe = 0; probe < 4; probe++) {
		struct message_batch *batch = made_batch(probe + 1, 1, 0);

		made_batch_announce(batch, 1, 0);
		batch->ranks[0].rank = (uint32_t)probe;
		batch->ranks[0].world_size = 6;
		assert_int_equal(
			pipeline_push_batch(pipeline, batch, made_batch_release,
				(struct job_ns){INT64_C(1000000000) * (probe < 2 ? 1 : 32)},
				&reply),
			PIPELINE_ACCEPTED);
	}
	report = pipeline_report(pipeline);
	assert_string_equal(report->missing_ranks, "4-5");
	assert_string_equal(report->late_ranks, "2-3");
	assert_int_equal(report->late_count, 2);
	assert_int_equal((int)report->late_s, 31);
	pipeline_destroy(pipeline);
}

/* Steps of a second, as long as a probe may hold its first ones back, of the ranks [first, first + 2). */
static void push_held_back(struct pipeline *pipeline, uint32_t first, uint64_t number)
{
	enum { STEPS = 20, S = 1000000000, WORLD = 77, RANKS = 4 };
	struct message_batch *batch = made_batch(1, 1, number);
	struct message_reply reply;

	made_batch_announce(batch, RANKS, 1);
	batch->steps = calloc(2 * STEPS, sizeof(*batch->steps));
	for (uint32_t r = 0; r < RANKS; r++)
		made_batch_add_communicator(batch, r, WORLD, RANKS, r);
	for (uint32_t r = first; r < first + 2; r++) {
		for (int64_t i = 0; i < STEPS; i++) {
			struct step_entry *step = &batch->steps[batch->step_count++];

			*step = (struct step_entry){.rank = r,
				.index = (uint64_t)i,
				.signature = 1,
				.start.value = (i + 1) * S,
				.end.value = (i + 2) * S,
				.part_count = 1,
				.parts = calloc(1, sizeof(*step->parts))};
			step->parts[0] = (struct collective_part){.communicator_id = WORLD,
				.sequence = (uint64_t)i,
				.arrival.value = (i + 2) * S - S / 2,
				.departure = step->end,
				.root = STEP_ROOT_NONE,
				.operation = OPERATION_ALL_REDUCE};
		}
	}
	made_batch_push(
		pipeline, batch, (struct job_ns){(int64_t)(STEPS + 2 + number) * S}, &reply);
}

/* Who holds its first steps back for a batch longer than others is not left out for that. */
static void first_steps_that_were_held_back(void **state)
{
	struct pipeline *pipeline = new_pipeline();

	(void)state;
	push_held_back(pipeline, 2, 0);
	push_held_back(pipeline, 0, 1);
	assert_int_equal(pipeline_finish(pipeline), 0);
	assert_int_equal(pipeline_report(pipeline)->totals.steps_incomplete, 0);
	assert_true(pipeline_report(pipeline)->totals.steps >= 19);
	pipeline_destroy(pipeline);
}

/* One batch that announces rank 0 as started that often again. */
static int announce_again(struct pipeline *pipeline, uint64_t probe, uint64_t number,
	uint32_t restarts, uint8_t final)
{
	struct message_reply reply;
	struct message_batch *batch = made_batch(probe, probe, number);

	made_batch_announce(batch, 1, 0);
	batch->ranks[0].restarts = restarts;
	batch->final = final;
	return pipeline_push_batch(pipeline, batch, made_batch_release,
		(struct job_ns){(1000 + (int64_t)number) * 1000000}, &reply);
}

static void more_restarts_take_the_rank(void **state)
{
	struct pipeline *pipeline = new_pipeline();

	(void)state;
	assert_int_equal(announce_again(pipeline, 1, 0, 1, 0), PIPELINE_ACCEPTED);
	assert_int_equal(announce_again(pipeline, 2, 1, 1, 0), PIPELINE_REFUSED);
	assert_int_equal(announce_again(pipeline, 2, 2, 0, 0), PIPELINE_REFUSED);
	assert_int_equal(announce_again(pipeline, 2, 3, 2, 0), PIPELINE_ACCEPTED);
	/* What comes late from the start before is not the rank's; nor is its end waited for. */
	assert_int_equal(announce_again(pipeline, 1, 4, 1, 1), PIPELINE_REFUSED);
	assert_false(pipeline_complete(pipeline));
	assert_int_equal(announce_again(pipeline, 2, 5, 2, 1), PIPELINE_ACCEPTED);
	assert_true(pipeline_complete(pipeline));
	pipeline_destroy(pipeline);
}

static void unproven_restarts_take_nothing(void **state)
{
	struct pipeline *pipeline = new_pipeline();

	(void)state;
	pipeline_doubt_restarts(pipeline);
	assert_int_equal(announce_again(pipeline, 1, 0, 0, 0), PIPELINE_ACCEPTED);
	assert_int_equal(announce_again(pipeline, 2, 1, 1, 0), PIPELINE_REFUSED);
	assert_int_equal(announce_again(pipeline, 1, 2, 0, 0), PIPELINE_ACCEPTED);
	pipeline_destroy(pipeline);
}

static void enqueue_only_is_not_judged(void **state)
{
	struct pipeline *pipeline = new_pipeline();
	struct sim_feed feed = {0};
	struct message_reply reply;

	(void)state;
	simulate();
	for (unsigned r = 0; r < 4; r++) {
		for (size_t e = 0; e < sim.rank[r].entry_count; e++) {
			for (size_t p = 0; p < sim.rank[r].entries[e].part_count; p++) {
				struct collective_part *part = &sim.rank[r].entries[e].parts[p];

				part->flags |= PART_ENQUEUE_ONLY;
				part->departure = part->arrival;
			}
		}
	}
	assert_int_equal(
		pipeline_push_batch(pipeline, sim_batch(&sim, &feed, 0, 0, 3, sim.end + 1e9, true),
			made_batch_release, (struct job_ns){5}, &reply),
		PIPELINE_ACCEPTED);
	assert_int_equal(pipeline_finish(pipeline), 0);
	assert_int_equal(pipeline_report(pipeline)->enqueue_only, 1);
	assert_int_equal(pipeline_report(pipeline)->verdict_count, 0);
	assert_int_equal(pipeline_report(pipeline)->totals.steps, sim.options.steps);
	pipeline_destroy(pipeline);
	sim_free(&sim, true);
}

static struct message_batch *batch_of(const char *job_id, uint64_t probe_id)
{
	struct message_batch *batch = made_batch(probe_id, 1, 0);

	made_batch_announce(batch, 2, 0);
	snprintf(batch->job_id, sizeof(batch->job_id), "%s", job_id);
	return batch;
}

/* Two jobs at one coordinator are not merged: the first one stays, the other one learns why. */
static void other_jobs_are_refused(void **state)
{
	static const char *const known[] = {"slurm.7.0", NULL};
	struct message_reply reply;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct pipeline *pipeline;

		assert_int_equal(pipeline_create(&(struct pipeline_options){0}, &pipeline), 0);
		pipeline_serve_one_job(pipeline, known[i]);
		if (known[i])
			assert_int_equal(pipeline_push_batch(pipeline, batch_of("slurm.8.0", 3),
						 made_batch_release, (struct job_ns){1}, &reply),
				PIPELINE_REFUSED);
		made_batch_push(pipeline, batch_of("slurm.7.0", 1), (struct job_ns){2}, &reply);
		assert_int_equal(pipeline_push_batch(pipeline, batch_of("slurm.8.0", 2),
					 made_batch_release, (struct job_ns){3}, &reply),
			PIPELINE_REFUSED);
		assert_int_equal(reply.accepted, 0);
		assert_int_equal(reply.directive_count, 1);
		assert_int_equal(reply.directives[0].kind, DIRECTIVE_OTHER_JOB);
		assert_non_null(strstr(reply.why, "slurm.7.0"));
		assert_non_null(strstr(reply.why, "slurm.8.0"));
		assert_int_equal(pipeline_report(pipeline)->rank_count, 2);
		pipeline_destroy(pipeline);
	}
}

struct told_missing {
	unsigned times;
	uint32_t count, world_size;
	char which[64];
};

static void on_missing(void *context, uint32_t count, uint32_t world_size, const char *which)
{
	struct told_missing *told = context;

	told->times++;
	told->count = count;
	told->world_size = world_size;
	snprintf(told->which, sizeof(told->which), "%s", which);
}

static void push_ranks(struct pipeline *pipeline, uint64_t probe_id, uint64_t number,
	uint32_t first_rank, int64_t second)
{
	struct message_batch *batch = made_batch(probe_id, 1, number);
	struct message_reply reply;

	made_batch_announce(batch, 2, 0);
	for (uint32_t i = 0; i < 2; i++) {
		batch->ranks[i].rank = first_rank + i;
		batch->ranks[i].world_size = 9;
	}
	made_batch_push(pipeline, batch, (struct job_ns){second * 1000000000}, &reply);
}

/* Half a job is told while it runs, once; one whose last nodes come late but in time is not. */
static void missing_ranks_are_told(void **state)
{
	struct told_missing told = {0};
	struct pipeline *pipeline;

	(void)state;
	assert_int_equal(pipeline_create(&(struct pipeline_options){0}, &pipeline), 0);
	pipeline_watch_missing(pipeline, on_missing, &told);
	push_ranks(pipeline, 1, 0, 0, 100);
	push_ranks(pipeline, 2, 0, 4, 129);
	assert_int_equal(told.times, 0);
	push_ranks(pipeline, 1, 1, 0, 130);
	push_ranks(pipeline, 1, 2, 0, 170);
	assert_int_equal(told.times, 1);
	assert_int_equal(told.count, 5);
	assert_int_equal(told.world_size, 9);
	assert_string_equal(told.which, "2-3, 6-8");
	pipeline_destroy(pipeline);

	told.times = 0;
	assert_int_equal(pipeline_create(&(struct pipeline_options){0}, &pipeline), 0);
	pipeline_watch_missing(pipeline, on_missing, &told);
	for (uint32_t i = 0; i < 4; i++)
		push_ranks(pipeline, i + 1, 0, 2 * i, 100);
	push_ranks(pipeline, 5, 0, 7, 125);
	push_ranks(pipeline, 1, 1, 0, 200);
	assert_int_equal(told.times, 0);
	pipeline_destroy(pipeline);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(encoded_frames_give_the_verdict),
		cmocka_unit_test(doubles_and_order_change_nothing),
		cmocka_unit_test(a_probe_without_ranks_counts_only_alone),
		cmocka_unit_test(garbage_is_refused_with_a_reason),
		cmocka_unit_test(impossible_times_are_counted),
		cmocka_unit_test(impossible_stamps_say_nothing),
		cmocka_unit_test(lost_batches_ask_for_an_introduction),
		cmocka_unit_test(a_rank_belongs_to_its_probe),
		cmocka_unit_test(late_ranks_are_told),
		cmocka_unit_test(first_steps_that_were_held_back),
		cmocka_unit_test(more_restarts_take_the_rank),
		cmocka_unit_test(unproven_restarts_take_nothing),
		cmocka_unit_test(introductions_come_again),
		cmocka_unit_test(enqueue_only_is_not_judged),
		cmocka_unit_test(other_jobs_are_refused),
		cmocka_unit_test(missing_ranks_are_told),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
