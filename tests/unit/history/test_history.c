/* SPDX-License-Identifier: Apache-2.0 */
/* What was saved of a job is read back, and added to what a pipeline says of the batches behind a gap. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/history/history.h"
#include "probe/wire/format.h"
#include "probe/wire/frame.h"

static uint8_t bytes[SUMS_BYTES_MAX], again[SUMS_BYTES_MAX];

static struct verdict make_verdict(uint32_t id, uint32_t rank, bool ended)
{
	return (struct verdict){.id = id,
		.sure.unmeasured_since = ended ? 0 : 10 * id + 7,
		.verdict_class = VERDICT_HOST_SLOW,
		.cause = CAUSE_CPU_CONTENTION,
		.ended = ended,
		.rank_count = 1,
		.ranks = {rank},
		.victim_count = 200,
		.victims = {[0] = 7, [63] = 99},
		.slowdown = 1.25,
		.first_step = 10 * id,
		.last_step = 10 * id + 5,
		.onset = {-1000},
		.alert = {2000},
		.end = {3000},
		.evidence_count = 1,
		.evidence = {{.kind = CAUSE_CPU_CONTENTION,
			.overlap_ms_per_step = 3.5,
			.detail = "ran instead: stress-ng"}},
		.rejected_count = 1,
		.rejected = {{.why = "none seen"}},
		.hang = {.communicator_id = UINT64_MAX, .entered = 3},
		.where = {.text = "in save (train.py:212)",
			.frame_count = 1,
			.frames = {"save (train.py:212)"},
			.ms_per_step = 3.5,
			.operation = OPERATION_ALL_REDUCE}};
}

static struct report_rank make_rank(uint32_t rank, uint64_t steps)
{
	return (struct report_rank){.totals = {.rank = rank,
					    .steps = steps,
					    .phase_ns = {[PHASE_COMPUTE] = (int64_t)steps * 1000},
					    .own_excess_ns = -(int64_t)steps},
		.pid = 100 + rank,
		.host = "node-a"};
}

/* Of a job whose steps take 100 ns, 80 without the first rank. */
static struct report_model make_model(
	const struct report_rank *ranks, uint32_t rank_count, struct job_cost *cost, uint64_t steps)
{
	double time_ns = 100.0 * (double)steps;

	*cost = (struct job_cost){.of = COST_RANK, .slowdown = 1.25, .step_ms = 80e-6, .share = 1};
	return (struct report_model){.job_id = "job",
		.rank_count = rank_count,
		.ranks = ranks,
		.world_size = 4,
		.totals = {.steps = steps,
			.time_ns = time_ns,
			.ideal_ns = 0.8 * time_ns,
			.slowdown = 1.25,
			.step_ms_median = 1e-4},
		.cost_count = steps != 0,
		.costs = cost,
		.frames = steps,
		.counters = {.events = 3 * steps}};
}

static const struct report_model *as_it_is(void *context)
{
	return context;
}

static int take(struct history *history, enum record_kind kind, size_t length,
	const struct report_model *now)
{
	struct record_frame frame = {.kind = kind, .bytes = bytes, .length = length};

	return history_take(history, &frame, as_it_is, (void *)now);
}

static int take_gap(struct history *history, uint64_t batches)
{
	memset(bytes, 0, 24);
	frame_put_u64(bytes, batches);
	frame_put_u64(bytes + 16, batches);
	return take(history, RECORD_GAP, 24, NULL);
}

static void test_verdict_is_read_back(void **state)
{
	struct verdict verdict = make_verdict(3, 5, false), read;
	size_t length = sums_put_verdict(&verdict, bytes);
	/* The two last fields that were appended: numbers, and two texts; and a number. */
	size_t unmeasured = length - sizeof(uint64_t);
	size_t where = unmeasured - 6 * sizeof(uint64_t) - sizeof("in save (train.py:212)") + 1 -
		       sizeof(uint64_t) - sizeof("save (train.py:212)") + 1;

	(void)state;
	assert_int_equal(sums_get_verdict(bytes, length, &read), 0);
	assert_int_equal(read.ranks[0], 5);
	assert_int_equal(read.victims[63], 99);
	assert_int_equal(read.onset.value, -1000);
	assert_string_equal(read.evidence[0].detail, "ran instead: stress-ng");
	assert_int_equal(read.sure.unmeasured_since, 37);
	assert_string_equal(read.where.text, "in save (train.py:212)");
	assert_string_equal(read.where.frames[0], "save (train.py:212)");
	assert_int_equal(sums_put_verdict(&read, again), length);
	assert_memory_equal(bytes, again, length);
	bytes[length] = 1; /* a later program appends */
	assert_int_equal(sums_get_verdict(bytes, length + 8, &read), 0);
	for (size_t cut = 0; cut < length; cut++)
		assert_int_equal(sums_get_verdict(bytes, cut, &read),
			cut == where || cut == unmeasured ? 0 : -EBADMSG);
	assert_int_equal(
		sums_get_verdict(bytes, where, &read), 0); /* an earlier program knew none */
	assert_string_equal(read.where.text, "");
	bytes[0] = 2; /* another version */
	assert_int_equal(sums_get_verdict(bytes, length, &read), -EBADMSG);
}

/* Of two that are further apart than a number is large, a report would take the difference. */
static void test_times_far_from_zero_are_refused(void **state)
{
	static const int64_t far[] = {
		INT64_MIN, -WIRE_TIME_NS_MAX - 1, WIRE_TIME_NS_MAX + 1, INT64_MAX};
	static uint8_t bytes[SUMS_BYTES_MAX];
	static struct sums_job job, read;
	struct verdict verdict = {0}, read_verdict;

	(void)state;
	for (size_t i = 0; i < sizeof(far) / sizeof(far[0]); i++) {
		job.totals.last_end.value = far[i];
		verdict.onset.value = far[i];
		assert_int_equal(sums_get_job(bytes, sums_put_job(&job, bytes), &read), -EBADMSG);
		assert_int_equal(
			sums_get_verdict(bytes, sums_put_verdict(&verdict, bytes), &read_verdict),
			-EBADMSG);
	}
	job.totals.last_end.value = -WIRE_TIME_NS_MAX;
	assert_int_equal(sums_get_job(bytes, sums_put_job(&job, bytes), &read), 0);
	assert_int_equal(read.totals.last_end.value, -WIRE_TIME_NS_MAX);
}

static void test_without_a_gap_batches_say_all(void **state)
{
	struct history history = {0};
	struct verdict verdict = make_verdict(1, 5, true);
	struct job_cost cost;
	struct report_rank rank = make_rank(0, 10);
	struct report_model model = make_model(&rank, 1, &cost, 10);

	(void)state;
	assert_int_equal(
		take(&history, RECORD_VERDICT, sums_put_verdict(&verdict, bytes), NULL), 0);
	assert_int_equal(take(&history, RECORD_BATCH, 0, NULL), 0);
	assert_int_equal(history_report(&history, &model), 0);
	assert_int_equal(model.verdict_count, 0);
	assert_int_equal(model.totals.steps, 10);
	assert_int_equal(model.summed_count, 0);
	history_fini(&history);
}

/* 1,000 steps are saved where the pipeline has seen 100 of them; then it sees 50 more. */
static void test_sums_are_added(void **state)
{
	struct history history = {0};
	struct job_cost costs[3];
	struct report_rank then_rank = make_rank(1, 100), now_rank = make_rank(1, 150);
	struct report_model saved, then = make_model(&then_rank, 1, &costs[1], 100);
	struct report_model now = make_model(&now_rank, 1, &costs[2], 150);
	struct sums_ranks *ranks = calloc(1, sizeof(*ranks));
	struct sums_job job;

	(void)state;
	then_rank.totals.rank = 1;
	for (uint32_t r = 0; r < 2; r++) {
		struct report_rank rank = make_rank(r, 1000);

		ranks->ranks[ranks->count++] = sums_of_rank(&rank);
	}
	saved = make_model(NULL, 0, &costs[0], 1000);
	job = sums_of_job(&saved);
	assert_int_equal(take(&history, RECORD_BATCH, 0, NULL), 0);
	assert_int_equal(take_gap(&history, 30), HISTORY_GAP);
	assert_int_equal(take_gap(&history, 50), 0); /* and the next minute */
	assert_int_equal(take(&history, RECORD_BATCH, 0, NULL), 0);
	assert_int_equal(take(&history, RECORD_RANKS, sums_put_ranks(ranks, bytes), NULL), 0);
	assert_int_equal(take(&history, RECORD_JOB, sums_put_job(&job, bytes), &then), 0);
	assert_int_equal(take(&history, RECORD_BATCH, 0, NULL), 0);
	assert_int_equal(history_end(&history, &now), 0);
	assert_int_equal(history_report(&history, &now), 0);
	assert_int_equal(now.totals.steps, 1050);
	assert_true(now.totals.time_ns > 104999 && now.totals.time_ns < 105001);
	assert_true(now.totals.slowdown > 1.2499 && now.totals.slowdown < 1.2501);
	assert_int_equal(now.counters.events, 3150);
	assert_int_equal(now.frames, 1050);
	assert_int_equal(now.rank_count, 2);
	assert_int_equal(now.ranks[0].totals.steps, 1000); /* it is not seen any more */
	assert_string_equal(now.ranks[0].host, "node-a");
	assert_int_equal(now.ranks[1].totals.steps, 1050);
	assert_int_equal(now.ranks[1].totals.phase_ns[PHASE_COMPUTE], 1050000);
	assert_int_equal(now.ranks[1].totals.own_excess_ns, -1050);
	assert_int_equal(now.cost_count, 1);
	assert_true(now.costs[0].slowdown > 1.2499 && now.costs[0].slowdown < 1.2501);
	assert_int_equal(now.summed_count, 1);
	assert_int_equal(now.summed[0].batches, 80);
	free(ranks);
	history_fini(&history);
}

/* One that has ended, one that is found again, one that is not, and one that is new. */
static void test_incidents_go_on(void **state)
{
	struct history history = {0};
	const struct verdict told[] = {
		make_verdict(1, 4, true), make_verdict(2, 5, false), make_verdict(3, 6, false)};
	struct verdict own[] = {make_verdict(1, 4, true), make_verdict(2, 5, false)};
	struct verdict new = make_verdict(3, 9, false), recovered = own[1];
	struct job_cost cost;
	struct report_model saved = make_model(NULL, 0, &cost, 1000);
	struct report_model then = make_model(NULL, 0, &cost, 100);
	struct sums_job job = sums_of_job(&saved);
	const struct verdict *as_told;

	(void)state;
	assert_int_equal(take_gap(&history, 30), 0); /* no batch was before it */
	for (int i = 0; i < 3; i++)
		assert_int_equal(
			take(&history, RECORD_VERDICT, sums_put_verdict(&told[i], bytes), NULL), 0);
	assert_int_equal(take(&history, RECORD_JOB, sums_put_job(&job, bytes), &then), 0);
	then.verdicts = own;
	then.verdict_count = 2;
	assert_int_equal(history_go_on(&history, &then), 0);
	assert_int_equal(history_report(&history, &then), 0);
	assert_int_equal(then.verdict_count, 3);
	assert_true(then.verdicts[0].ended && !then.verdicts[1].ended && then.verdicts[2].ended);
	assert_int_equal(then.verdicts[1].first_step, 20); /* as it was told */

	recovered.ended = 1;
	recovered.last_step = 120;
	as_told = history_tell(&history, &recovered);
	assert_int_equal(as_told->id, 2);
	assert_int_equal(as_told->last_step, 120 + 900);
	as_told = history_tell(&history, &new);
	assert_int_equal(as_told->id, 4);
	assert_int_equal(as_told->first_step, 30 + 900);
	new.first_step = 25; /* it is known better */
	assert_int_equal(history_tell(&history, &new)->first_step, 25 + 900);
	history_fini(&history);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_verdict_is_read_back),
		cmocka_unit_test(test_times_far_from_zero_are_refused),
		cmocka_unit_test(test_without_a_gap_batches_say_all),
		cmocka_unit_test(test_sums_are_added),
		cmocka_unit_test(test_incidents_go_on),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
