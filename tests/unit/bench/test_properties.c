/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must not change what is said of a job: how it is cut into batches, how ranks are numbered,
 * what the hosts' clocks show, how long a second is. Whole jobs, through the whole pipeline.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/simulator/feed.h"
#include "bench/simulator/random.h"
#include "coordinator/pipeline.h"
#include "coordinator/pipeline_internal.h"
#include "coordinator/report/json.h"

#define assert_near(value, expected, error) assert_true(fabs((value) - (expected)) <= (error))

enum { VERDICTS_MAX = 16 };
enum layout { DATA = 0, TENSOR = 1, EXPERT = 2, PIPELINE = 3, INTERLEAVED = 4, LAYOUT_NR };

struct change {
	uint32_t rank_stride; /* rank r becomes r * stride mod ranks; 0 = none */
	uint32_t rank_count;
	int64_t clock_ns; /* added to the clock of host 1 */
	int64_t scale;	  /* of all times; 0 = none */
};

struct run {
	struct pipeline *pipeline;
	struct change change;
	struct job_totals totals;
	size_t verdict_count;
	struct verdict verdicts[VERDICTS_MAX];
	size_t cost_count;
	struct job_cost costs[COSTS_MAX];
	char *json; /* of the report, up to its coverage */
};

static uint32_t renamed(const struct change *change, uint32_t rank)
{
	return change->rank_stride ? rank * change->rank_stride % change->rank_count : rank;
}

static void change_time(const struct change *change, uint64_t host_id, struct host_ns *time)
{
	if (time->value && change->scale)
		time->value *= change->scale;
	if (time->value && host_id == 0x9001)
		time->value += change->clock_ns;
}

static void change_activity(const struct change *change, struct activity *activity)
{
	int64_t scale = change->scale ? change->scale : 1;

	activity->preempted_ns *= scale;
	activity->throttled_ns *= scale;
	activity->block_io_ns *= scale;
	activity->asleep_ns *= scale;
	activity->major_fault_ns *= scale;
	activity->minor_fault_ns *= scale;
	activity->comm_call_ns *= scale;
	activity->collector_ns *= scale;
}

static void change_step(const struct change *change, uint64_t host_id, struct step_entry *step)
{
	int64_t scale = change->scale ? change->scale : 1;

	step->rank = renamed(change, step->rank);
	change_time(change, host_id, &step->start);
	change_time(change, host_id, &step->end);
	step->compute_ns *= scale;
	step->comm_ns *= scale;
	for (size_t p = 0; p < step->part_count; p++) {
		change_time(change, host_id, &step->parts[p].arrival);
		change_time(change, host_id, &step->parts[p].departure);
		change_activity(change, &step->parts[p].before);
	}
}

static void change_batch(const struct change *change, struct message_batch *batch)
{
	int64_t scale = change->scale ? change->scale : 1;

	change_time(change, batch->host_id, &batch->sent);
	change_time(change, batch->host_id, &batch->previous_sent);
	change_time(change, batch->host_id, &batch->previous_reply_received);
	batch->previous_received.value *= scale;
	batch->previous_reply_sent.value *= scale;
	for (size_t i = 0; i < batch->rank_count; i++)
		batch->ranks[i].rank = renamed(change, batch->ranks[i].rank);
	for (size_t i = 0; i < batch->communicator_count; i++)
		batch->communicators[i].rank = renamed(change, batch->communicators[i].rank);
	for (size_t i = 0; i < batch->step_count; i++)
		change_step(change, batch->host_id, &batch->steps[i]);
	for (size_t i = 0; i < batch->interval_count; i++) {
		batch->intervals[i].rank = renamed(change, batch->intervals[i].rank);
		change_time(change, batch->host_id, &batch->intervals[i].start);
		change_time(change, batch->host_id, &batch->intervals[i].end);
	}
	for (size_t i = 0; i < batch->sample_count; i++) {
		batch->samples[i].rank = renamed(change, batch->samples[i].rank);
		change_time(change, batch->host_id, &batch->samples[i].time);
	}
}

static int take(void *context, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received)
{
	struct run *run = context;
	struct message_reply reply;
	int result;

	change_batch(&run->change, batch);
	if (run->change.scale)
		received.value *= run->change.scale;
	result = pipeline_push_batch(run->pipeline, batch, release, received, &reply);
	return result < 0 ? result : 0;
}

/* What the report says but for its coverage, which counts frames. */
static char *render(const struct report_model *model)
{
	char *json = NULL, *coverage;
	size_t length;
	FILE *out = open_memstream(&json, &length);

	assert_non_null(out);
	assert_int_equal(report_json_write(model, out), 0);
	assert_int_equal(fclose(out), 0);
	coverage = strstr(json, "\"coverage\"");
	assert_non_null(coverage);
	*coverage = '\0';
	return json;
}

/* Takes the report over; the pipeline goes. */
static void keep_report(struct run *run)
{
	const struct report_model *model = pipeline_report(run->pipeline);

	run->totals = model->totals;
	assert_true(model->verdict_count <= VERDICTS_MAX);
	run->verdict_count = model->verdict_count;
	memcpy(run->verdicts, model->verdicts, model->verdict_count * sizeof(struct verdict));
	run->cost_count = model->cost_count;
	memcpy(run->costs, model->costs, model->cost_count * sizeof(struct job_cost));
	run->json = render(model);
	pipeline_destroy(run->pipeline);
}

static void run_job(const struct sim_options *options, struct sim_feed_options feed,
	struct change change, struct run *run)
{
	const struct pipeline_options pipeline_options = {NULL, NULL};
	struct simulator *simulator;

	memset(run, 0, sizeof(*run));
	run->change = change;
	assert_int_equal(simulator_create(options, &simulator), 0);
	assert_int_equal(pipeline_create(&pipeline_options, &run->pipeline), 0);
	assert_int_equal(sim_feed(simulator, &feed, take, NULL, run), 0);
	assert_int_equal(pipeline_finish(run->pipeline), 0);
	keep_report(run);
	simulator_destroy(simulator);
}

/* 16 ranks on 2 hosts, in one of several layouts, rank 11 slow from step 60 on. */
static struct sim_options job(int layout, enum sim_fault_kind kind)
{
	struct sim_options options;

	sim_options_default(&options, 16, 77 + (uint64_t)layout);
	options.steps = 150;
	options.program.step_ns = 60e6;
	if (layout == EXPERT)
		options.shape.expert = 4;
	else if (layout >= TENSOR) {
		options.shape.tensor = 2;
		options.shape.data = 8;
	}
	if (layout >= PIPELINE) {
		options.shape.pipeline = 2;
		options.shape.data = 4;
		options.program.microbatches = 4;
		options.program.layers = 1;
	}
	if (layout == INTERLEAVED)
		options.program.virtual_stages = 2;
	options.fault_count = 1;
	options.faults[0] = (struct sim_fault){
		.kind = kind, .rank = 11, .first = 60, .last = UINT32_MAX, .size = 0.5};
	return options;
}

static void assert_same_verdicts(const struct run *one, const struct run *other, bool onset_too)
{
	assert_true(one->verdict_count > 0);
	assert_int_equal(one->verdict_count, other->verdict_count);
	for (size_t v = 0; v < one->verdict_count; v++) {
		const struct verdict *left = &one->verdicts[v], *right = &other->verdicts[v];

		assert_int_equal(left->verdict_class, right->verdict_class);
		assert_int_equal(left->cause, right->cause);
		assert_int_equal(left->rank_count, right->rank_count);
		assert_near(left->slowdown, right->slowdown, 0.01);
		if (onset_too)
			assert_int_equal(left->first_step, right->first_step);
	}
}

/* What each part costs is the same, with ranks named anew. */
static void assert_same_costs(
	const struct run *one, const struct run *other, const struct change *change, double scale)
{
	assert_true(one->cost_count > 0);
	assert_int_equal(one->cost_count, other->cost_count);
	for (size_t i = 0; i < one->cost_count; i++) {
		const struct job_cost *cost = &one->costs[i];
		uint32_t number =
			cost->of == COST_RANK ? renamed(change, cost->number) : cost->number;
		bool found = false;

		for (size_t k = 0; k < other->cost_count; k++) {
			const struct job_cost *same = &other->costs[k];

			if (same->of != cost->of ||
				(cost->of != COST_NODE && cost->of != COST_ROLE &&
					same->number != number))
				continue;
			found |= fabs(same->slowdown - cost->slowdown) < 0.01 &&
				 fabs(same->step_ms / cost->step_ms / scale - 1) < 0.01;
		}
		assert_true(found);
	}
}

static void test_batches(void **state)
{
	static const struct sim_feed_options feeds[] = {{1, 1}, {2, 2}, {3, 7}, {4, 20}};

	const int layout = *(const int *)*state;
	struct sim_options options = job(layout, SIM_FAULT_CONTENTION);
	struct run first, other;

	run_job(&options, feeds[0], (struct change){0}, &first);
	for (size_t f = 1; f < sizeof(feeds) / sizeof(feeds[0]); f++) {
		run_job(&options, feeds[f], (struct change){0}, &other);
		assert_string_equal(first.json, other.json);
		free(other.json);
	}
	assert_true(first.verdict_count > 0);
	free(first.json);
}

struct parcel {
	struct message_batch *batch;
	void (*release)(struct message_batch *batch);
	struct job_ns received;
};

struct parcels {
	struct parcel *items;
	size_t count, capacity;
};

static int keep(void *context, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received)
{
	struct parcels *parcels = context;

	if (parcels->count == parcels->capacity) {
		parcels->capacity = parcels->capacity ? 2 * parcels->capacity : 64;
		parcels->items =
			realloc(parcels->items, parcels->capacity * sizeof(*parcels->items));
		assert_non_null(parcels->items);
	}
	parcels->items[parcels->count++] = (struct parcel){batch, release, received};
	return 0;
}

/* The same batches; way: 0 as sent, 1 one host after the other, else a random interleaving. */
static void run_in_order(const struct sim_options *options, uint64_t way, struct run *run)
{
	const struct pipeline_options pipeline_options = {NULL, NULL};
	const struct sim_feed_options feed = {9, 3};
	struct parcels parcels = {0};
	struct simulator *simulator;
	size_t left;

	memset(run, 0, sizeof(*run));
	assert_int_equal(simulator_create(options, &simulator), 0);
	assert_int_equal(pipeline_create(&pipeline_options, &run->pipeline), 0);
	assert_int_equal(sim_feed(simulator, &feed, keep, NULL, &parcels), 0);
	for (left = parcels.count; left > 0; left--) {
		uint64_t host = sim_mix(way * 1000 + left) % 2; /* of two */
		size_t at = 0;

		if (way == 1)
			host = 0;
		while (at < parcels.count &&
			(!parcels.items[at].batch ||
				(way && parcels.items[at].batch->host_id != 0x9000 + host)))
			at++;
		if (at == parcels.count) { /* that host has no more */
			for (at = 0; !parcels.items[at].batch; at++)
				;
		}
		assert_int_equal(take(run, parcels.items[at].batch, parcels.items[at].release,
					 parcels.items[at].received),
			0);
		parcels.items[at].batch = NULL;
	}
	free(parcels.items);
	assert_int_equal(pipeline_finish(run->pipeline), 0);
	keep_report(run);
	simulator_destroy(simulator);
}

/* In whatever order the probes' frames come in, the same is said, to the last number. */
static void test_arrival_order(void **state)
{
	const int layout = *(const int *)*state;
	struct sim_options options = job(layout, SIM_FAULT_CONTENTION);
	struct run first, other;

	run_in_order(&options, 0, &first);
	assert_true(first.verdict_count > 0);
	for (uint64_t way = 1; way < 6; way++) {
		run_in_order(&options, way, &other);
		assert_string_equal(first.json, other.json);
		free(other.json);
	}
	free(first.json);
}

static void test_permuted_ranks(void **state)
{
	static const uint32_t strides[] = {1, 3, 7, 15};

	const int layout = *(const int *)*state;
	struct sim_options options = job(layout, SIM_FAULT_COMPUTE);
	struct run first, other;

	run_job(&options, (struct sim_feed_options){1, 2}, (struct change){0}, &first);
	assert_int_equal(first.verdicts[0].ranks[0], 11);
	for (size_t s = 0; s < sizeof(strides) / sizeof(strides[0]); s++) {
		struct change change = {.rank_stride = strides[s], .rank_count = 16};

		run_job(&options, (struct sim_feed_options){1, 2}, change, &other);
		assert_same_verdicts(&first, &other, false);
		assert_int_equal(other.verdicts[0].rank_count, 1);
		assert_int_equal(other.verdicts[0].ranks[0], renamed(&change, 11));
		assert_same_costs(&first, &other, &change, 1);
		free(other.json);
	}
	free(first.json);
}

static void test_clock_offsets(void **state)
{
	static const int64_t offsets[] = {1000, 1000000, -300000000, INT64_C(86400000000000)};

	const int layout = *(const int *)*state;
	struct sim_options options = job(layout, SIM_FAULT_COMPUTE);
	struct run first, other;

	run_job(&options, (struct sim_feed_options){1, 2}, (struct change){0}, &first);
	for (size_t o = 0; o < sizeof(offsets) / sizeof(offsets[0]); o++) {
		struct change change = {.clock_ns = offsets[o]};

		run_job(&options, (struct sim_feed_options){1, 2}, change, &other);
		assert_same_verdicts(&first, &other, true);
		assert_memory_equal(first.verdicts[0].ranks, other.verdicts[0].ranks,
			sizeof(first.verdicts[0].ranks));
		assert_same_costs(&first, &other, &change, 1);
		free(other.json);
	}
	free(first.json);
}

static void test_scaled_time(void **state)
{
	const int layout = *(const int *)*state;
	struct sim_options options = job(layout, SIM_FAULT_COMPUTE);
	struct change change = {.scale = 4};
	struct run first, other;

	run_job(&options, (struct sim_feed_options){1, 1}, (struct change){0}, &first);
	run_job(&options, (struct sim_feed_options){1, 1}, change, &other);
	assert_same_verdicts(&first, &other, false);
	assert_int_equal(other.verdicts[0].ranks[0], 11);
	assert_near(other.totals.step_ms_median / first.totals.step_ms_median, 4, 0.01);
	assert_near(other.totals.slowdown, first.totals.slowdown, 0.01);
	assert_same_costs(&first, &other, &(struct change){0}, 4);
	free(first.json);
	free(other.json);
}

#define PROPERTY(test, layout) cmocka_unit_test_prestate(test, &layouts[layout])
#define PROPERTIES(test)                                                                           \
	PROPERTY(test, DATA), PROPERTY(test, TENSOR), PROPERTY(test, EXPERT),                      \
		PROPERTY(test, PIPELINE), PROPERTY(test, INTERLEAVED)

int main(void)
{
	static int layouts[LAYOUT_NR] = {DATA, TENSOR, EXPERT, PIPELINE, INTERLEAVED};
	const struct CMUnitTest tests[] = {
		PROPERTIES(test_batches),
		PROPERTIES(test_arrival_order),
		PROPERTIES(test_permuted_ranks),
		PROPERTIES(test_clock_offsets),
		PROPERTIES(test_scaled_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
