/* SPDX-License-Identifier: Apache-2.0 */
/* A job on devices whose rank turns slow: who is asked for a look, how often, what comes of it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/explain/stack_looks.h"
#include "tests/unit/analysis/made_stacks.h"
#include "tests/unit/coordinator/made_batch.h"

enum { RANKS = 6, CALLS = 4, STEPS = 600, FAULT_FIRST = 200, SLOW_RANK = 4, MS = 1000000 };
enum { STEPS_PER_BATCH = 12, KERNELS_PER_STEP = 16 };

struct job {
	/* what is wrong */
	bool slow, refused, silent_probe, gaps;
	bool host;	   /* it is the host that is slow, and keeps its CPU busy */
	bool stacks;	   /* they can be looked at, kernels cannot */
	bool no_right;	   /* so the first answer says */
	size_t starved;	   /* so many answers saw too little */
	bool moves;	   /* it is another rank in each period */
	bool saves;	   /* it waits for storage; its stacks show a checkpoint */
	int64_t faster_ns; /* what ranks that wait gain in each call: their devices save power */
	unsigned steps;	   /* of the job; 0: STEPS */
	unsigned window,
		period; /* the fault is on in the first steps of each period; 0: to the end */
	unsigned answered_from; /* step */
	/* the job's state */
	uint64_t number, sequence, random;
	int64_t now_ns;
	/* what the coordinator asked, what it told */
	size_t reply_count, asked_count;
	struct message_directive asked[64];
	int64_t asked_ns[64];
	size_t answer_count;
	struct kernel_profile answers[8];
	size_t stacks_answered, stacks_kept; /* of asked; in the report */
	size_t alert_count, update_count;
	int64_t alerted_ns;		       /* first */
	size_t verdict_count, explained_count; /* reported; of them, with longer kernels */
	struct verdict last;		       /* told, then reported */
};

static void on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	struct job *job = context;

	if (event == VERDICT_EVENT_ALERT && job->alert_count++ == 0)
		job->alerted_ns = job->now_ns;
	job->update_count += event == VERDICT_EVENT_UPDATE;
	job->last = *verdict;
}

static bool is_slow(const struct job *job, unsigned step)
{
	return job->slow && step >= FAULT_FIRST &&
	       (job->period == 0 || (step - FAULT_FIRST) % job->period < job->window);
}

static bool is_slow_rank(const struct job *job, unsigned step, uint32_t rank)
{
	return is_slow(job, step) && rank == (job->moves ? step / job->period % RANKS : SLOW_RANK);
}

static int64_t jitter(struct job *job, int64_t most_ns)
{
	job->random = job->random * UINT64_C(6364136223846793005) + 1442695040888963407;
	return (int64_t)((job->random >> 33) % (uint64_t)most_ns);
}

static void announce(const struct job *job, struct message_batch *batch)
{
	made_batch_announce(batch, RANKS, 1);
	for (uint32_t r = 0; r < RANKS; r++)
		made_batch_add_communicator(batch, r, 77, RANKS, r);
	if (job->stacks)
		made_batch_add_source(batch, "host.stacks", SOURCE_ON, "");
	made_batch_add_source(batch, "device.kernels",
		job->silent_probe || job->stacks ? SOURCE_OFF : SOURCE_ON,
		job->silent_probe ? "--deep off" : "");
	made_batch_add_source(batch, "bpf.device_wait", SOURCE_ON, "");
	if (job->saves)
		made_batch_add_source(batch, "bpf.sched", SOURCE_ON, "");
}

/* One step of all ranks: four times 5 ms on the device, then they meet. */
static void run_step(struct job *job, struct message_batch *batch, unsigned step)
{
	int64_t start_ns = job->now_ns;
	struct step_entry *entries = &batch->steps[batch->step_count];

	for (uint32_t r = 0; r < RANKS; r++) {
		entries[r] = (struct step_entry){.rank = r,
			.index = step,
			.signature = 5,
			.start = {start_ns},
			.part_count = CALLS,
			.parts = calloc(CALLS, sizeof(struct collective_part))};
	}
	for (int c = 0; c < CALLS; c++) {
		int64_t arrivals[RANKS], last_ns = 0;

		for (uint32_t r = 0; r < RANKS; r++) {
			arrivals[r] = job->now_ns + 5 * MS + jitter(job, 50000);
			if (is_slow_rank(job, step, r))
				arrivals[r] += 2 * MS;
			else if (is_slow(job, step))
				arrivals[r] -= job->faster_ns;
			last_ns = arrivals[r] > last_ns ? arrivals[r] : last_ns;
		}
		for (uint32_t r = 0; r < RANKS; r++)
			entries[r].parts[c] = (struct collective_part){.communicator_id = 77,
				.sequence = job->sequence,
				.length_bytes = 4096,
				.arrival = {arrivals[r]},
				.departure = {last_ns + 100000},
				.enqueue = {job->now_ns + 500000},
				.before = {.host_ns = job->host && is_slow_rank(job, step, r)
							      ? 7 * MS
							      : 500000,
					.block_io_ns = job->saves && is_slow_rank(job, step, r)
							       ? 2 * MS
							       : 0},
				.root = STEP_ROOT_NONE,
				.operation = OPERATION_ALL_REDUCE,
				.flags = PART_DEVICE_TIME};
		job->sequence++;
		job->now_ns = last_ns + 100000;
	}
	for (uint32_t r = 0; r < RANKS; r++)
		entries[r].end.value = job->now_ns;
	batch->step_count += RANKS;
}

/* What a probe would have seen of a rank. */
static void answer(struct job *job, const struct message_directive *directive)
{
	bool slow = directive->rank == SLOW_RANK;
	uint64_t calls = KERNELS_PER_STEP * directive->steps;
	struct kernel_profile profile = {.rank = directive->rank,
		.request = directive->request,
		.start = {job->now_ns - 300 * MS},
		.stop = {job->now_ns - 10 * MS},
		.steps = directive->steps,
		.kernel_count = calls,
		.kernel_ns = (int64_t)calls * (slow && !job->gaps ? 1750000 : 1250000),
		.idle_ns = slow && job->gaps ? (int64_t)directive->steps * 8 * MS : 0,
		.sum_count = 1,
		.sums = {{.name = "gemm", .count = calls}}};

	profile.sums[0].time_ns = profile.kernel_ns;
	profile.launches[3] = calls;
	if (job->refused)
		profile = (struct kernel_profile){.rank = directive->rank,
			.request = directive->request,
			.result = LOOK_OTHER_PROFILER,
			.start = {job->now_ns},
			.stop = {job->now_ns}};
	assert_true(job->answer_count < sizeof(job->answers) / sizeof(job->answers[0]));
	job->answers[job->answer_count++] = profile;
}

static bool is_known(const struct job *job, uint32_t request)
{
	for (size_t i = 0; i < job->asked_count; i++) {
		if (job->asked[i].request == request)
			return true;
	}
	return false;
}

static bool is_answered(const struct job *job, uint32_t request)
{
	for (size_t i = 0; i < job->answer_count; i++) {
		if (job->answers[i].request == request)
			return true;
	}
	return false;
}

static void take_reply(struct job *job, const struct message_reply *reply)
{
	assert_true(reply->accepted);
	for (size_t i = 0; i < reply->directive_count; i++) {
		assert_int_equal(
			reply->directives[i].kind, job->stacks ? DIRECTIVE_STACKS : DIRECTIVE_DEEP);
		job->reply_count++;
		if (is_known(job, reply->directives[i].request)) {
			/* asked again, since it was not answered: now it is */
			if (!job->stacks && !is_answered(job, reply->directives[i].request))
				answer(job, &reply->directives[i]);
			continue;
		}
		assert_true(job->asked_count < sizeof(job->asked) / sizeof(job->asked[0]));
		job->asked_ns[job->asked_count] = job->now_ns;
		job->asked[job->asked_count++] = reply->directives[i];
	}
}

/* In a step of 28 ms, the slow rank saves for 8. */
static struct stack_profile *stacks_of(const struct job *job, const struct message_directive *asked)
{
	static struct made_stacks made;
	struct stack_profile *profile = &made.profile;
	uint32_t thread;

	made_stacks_init(&made, asked->rank, asked->steps);
	thread = made_thread(&made, STACK_THREAD_CALLER, "python3", 100);
	made_add(&made, thread, STACK_STATE_RUNNING, 0, "main@/home/u/train.py:20", asked->steps,
		20 * (int64_t)asked->steps);
	if (job->saves && asked->rank == SLOW_RANK)
		made_add(&made, thread, STACK_STATE_FILE, 0,
			"main@/home/u/train.py:30|save@/usr/lib/python3/dist-packages/torch/"
			"serialization.py:850|~write@/ckpt/7.pt",
			asked->steps, 8 * (int64_t)asked->steps);
	profile->request = asked->request;
	profile->result = job->no_right ? STACK_RESULT_NO_RIGHT : STACK_RESULT_DONE;
	profile->looks = job->stacks_answered < job->starved ? 3 : 200;
	profile->start.value = job->asked_ns[job->stacks_answered];
	profile->stop.value = profile->start.value + 28 * MS * (int64_t)asked->steps;
	return stack_profile_copy(profile);
}

/* The next profile of stacks that was asked for, if there is one. */
static void answer_stacks(struct job *job, struct message_batch *batch, unsigned step)
{
	if (!job->stacks || job->stacks_answered == job->asked_count || step < job->answered_from)
		return;
	batch->stack_profiles = calloc(1, sizeof(struct stack_profile *));
	batch->stack_profiles[batch->stack_profile_count++] =
		stacks_of(job, &job->asked[job->stacks_answered]);
	job->stacks_answered++;
}

static void run(struct job *job)
{
	struct pipeline_options options = {on_verdict, job};
	struct pipeline *pipeline;

	job->now_ns = INT64_C(1000000000);
	assert_int_equal(pipeline_create(&options, &pipeline), 0);
	for (unsigned step = 0, steps = job->steps ? job->steps : STEPS; step < steps;) {
		struct message_batch *batch = made_batch(9, 3, job->number++);
		struct message_reply reply;

		batch->steps = calloc((size_t)STEPS_PER_BATCH * RANKS, sizeof(*batch->steps));
		if (batch->number == 0)
			announce(job, batch);
		for (int i = 0; i < STEPS_PER_BATCH && step < steps; i++)
			run_step(job, batch, step++);
		batch->sent.value = job->now_ns + MS;
		batch->final = step == steps;
		batch->kernel_profile_count = step >= job->answered_from ? job->answer_count : 0;
		batch->kernel_profiles = calloc(job->answer_count + 1, sizeof(job->answers[0]));
		memcpy(batch->kernel_profiles, job->answers,
			batch->kernel_profile_count * sizeof(job->answers[0]));
		if (step >= job->answered_from)
			job->answer_count = 0;
		answer_stacks(job, batch, step);
		made_batch_push(pipeline, batch, (struct job_ns){job->now_ns + 2 * MS}, &reply);
		take_reply(job, &reply);
	}
	assert_int_equal(pipeline_finish(pipeline), 0);
	job->verdict_count = pipeline_report(pipeline)->verdict_count;
	for (size_t v = 0; v < job->verdict_count; v++)
		job->explained_count +=
			pipeline_report(pipeline)->verdicts[v].cause == CAUSE_LONGER_KERNELS;
	if (job->verdict_count)
		job->last = pipeline_report(pipeline)->verdicts[0];
	if (pipeline_report(pipeline)->stacks)
		job->stacks_kept = pipeline_report(pipeline)->stacks->count;
	pipeline_destroy(pipeline);
}

static void check_pair(const struct job *job)
{
	assert_int_equal(job->asked_count, 2); /* once, within a minute */
	assert_int_equal(job->asked[0].rank, SLOW_RANK);
	assert_int_not_equal(job->asked[1].rank, SLOW_RANK);
	assert_true(job->asked[1].rank < RANKS);
	assert_int_not_equal(job->asked[0].request, job->asked[1].request);
	assert_in_range(job->asked[0].steps, 8, 100);
	assert_in_range(job->asked[0].limit_ms, 1000, 60000);
}

static void healthy_ranks_are_left_alone(void **state)
{
	struct job job = {0};

	(void)state;
	run(&job);
	assert_int_equal(job.asked_count, 0);
	assert_int_equal(job.alert_count, 0);
}

static void the_cause_comes_with_the_looks(void **state)
{
	struct job job = {.slow = true};

	(void)state;
	run(&job);
	check_pair(&job);
	assert_int_equal(job.alert_count, 1);
	assert_in_range(job.update_count, 1, 3);
	assert_int_equal(job.last.rank_count, 1);
	assert_int_equal(job.last.ranks[0], SLOW_RANK);
	assert_int_equal(job.last.verdict_class, VERDICT_COMPUTE_SLOW);
	assert_int_equal(job.last.cause, CAUSE_LONGER_KERNELS);
	assert_int_equal(job.last.evidence[0].kind, CAUSE_LONGER_KERNELS);
	assert_float_equal(job.last.evidence[0].overlap_ms_per_step, 28, 0.01);
	assert_float_equal(job.last.evidence[0].control_ms_per_step, 20, 0.01);
	assert_non_null(strstr(job.last.evidence[0].detail, "gemm 28.00 ms a step (16 calls)"));
	assert_true(job.last.sure.share_explained > 0.8);
}

static void an_idle_device_is_the_hosts(void **state)
{
	struct job job = {.slow = true, .gaps = true};

	(void)state;
	run(&job);
	check_pair(&job);
	assert_int_equal(job.last.verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(job.last.cause, CAUSE_LAUNCH_GAPS);
	assert_float_equal(job.last.evidence[0].overlap_ms_per_step, 8, 0.01);
	for (uint32_t i = 1; i < job.last.evidence_count; i++)
		assert_int_not_equal(job.last.evidence[i].kind, CAUSE_LAUNCH_GAPS);
}

/* Looks would leave its calls dearer: a host that is slow already is not looked at. */
static void a_slow_host_is_left_alone(void **state)
{
	struct job job = {.slow = true, .host = true, .gaps = true};

	(void)state;
	run(&job);
	assert_int_equal(job.asked_count, 0);
	assert_int_equal(job.last.verdict_class, VERDICT_HOST_SLOW);
	assert_int_equal(job.last.cause, CAUSE_UNKNOWN);
}

/* 28.4 ms a step instead of 20.4, whatever the others could do in a step in which they wait. */
static void what_was_usual_is_no_gain(void **state)
{
	struct job job = {.slow = true, .faster_ns = 700000};

	(void)state;
	run(&job);
	assert_int_equal(job.last.verdict_class, VERDICT_COMPUTE_SLOW);
	assert_float_equal(job.last.slowdown, 28.4F / 20.4F, 0.03);
}

/* Slow again a few seconds later: that is another verdict, and its looks do not wait. */
static void each_verdict_has_its_looks(void **state)
{
	struct job job = {.slow = true, .window = 150, .period = 250, .steps = 900};

	(void)state;
	run(&job);
	assert_int_equal(job.verdict_count, 3);
	assert_int_equal(job.asked_count, 6);
	assert_int_equal(job.explained_count, 3);
}

/* And again for the whole day: what is looked at stays a small part of the job. */
static void looks_are_a_small_part(void **state)
{
	struct job job = {.slow = true, .window = 100, .period = 200, .steps = 12000};

	(void)state;
	run(&job);
	assert_true(job.verdict_count > 40);
	/* ten in a row, and 2 % of 270 s */
	assert_in_range(job.asked_count, 2 * 10, 2 * 18);
}

/* The fault is over when the looks come: the verdict has its cause all the same. */
static void a_late_look_counts(void **state)
{
	struct job job = {.slow = true, .window = 120, .period = 10000, .answered_from = 460};

	(void)state;
	run(&job);
	assert_int_equal(job.verdict_count, 1);
	assert_int_equal(job.asked_count, 2);
	assert_int_equal(job.last.ended, 1);
	assert_int_equal(job.last.cause, CAUSE_LONGER_KERNELS);
	assert_true(job.update_count >= 1);
}

/* Another profiler is there: said, and not asked again. */
static void refused(void **state)
{
	struct job job = {.slow = true, .refused = true};

	(void)state;
	run(&job);
	check_pair(&job);
	assert_int_equal(job.last.verdict_class, VERDICT_COMPUTE_SLOW);
	assert_int_equal(job.last.cause, CAUSE_UNKNOWN);
	assert_int_equal(job.last.rejected[0].kind, CAUSE_LONGER_KERNELS);
	assert_non_null(strstr(job.last.rejected[0].why, "another profiler"));
}

static void not_allowed(void **state)
{
	struct job job = {.slow = true, .silent_probe = true};

	(void)state;
	run(&job);
	assert_int_equal(job.asked_count, 0);
	assert_int_equal(job.alert_count, 1);
	assert_int_equal(job.last.cause, CAUSE_UNKNOWN);
	assert_non_null(strstr(job.last.rejected[0].why, "--deep off"));
}

/* Of a slow host the stacks are asked for, of it and a control; what comes is kept for the report. */
static void stacks_of_a_slow_host(void **state)
{
	struct job job = {.slow = true, .host = true, .stacks = true};

	(void)state;
	run(&job);
	assert_in_range(job.asked_count, 2, 4);
	for (size_t i = 0; i < job.asked_count; i++) {
		assert_int_equal(job.asked[i].rank == SLOW_RANK, i % 2 == 0);
		assert_in_range(job.asked[i].steps, 8, 1000);
		assert_in_range(job.asked[i].limit_ms, 6000, 60000);
	}
	assert_int_equal(job.stacks_kept, job.asked_count);
	assert_int_equal(job.last.verdict_class, VERDICT_HOST_SLOW);
}

/* Before there is a verdict, which then has its cause from the start. */
static void a_suspicion_is_looked_at(void **state)
{
	struct job job = {.slow = true, .host = true, .stacks = true, .saves = true};

	(void)state;
	run(&job);
	assert_int_equal(job.alert_count, 1);
	assert_in_range(job.asked_count, 2, 4);
	assert_int_equal(job.asked[0].rank, SLOW_RANK);
	assert_true(job.asked_ns[0] < job.alerted_ns);
	assert_int_equal(job.last.cause, CAUSE_CHECKPOINT);
}

/* Now of one rank, now of another, each comes to nothing: seldom looked at, and ever more so. */
static void suspicions_that_come_to_nothing(void **state)
{
	struct job job = {.slow = true,
		.host = true,
		.stacks = true,
		.moves = true,
		.window = 24,
		.period = 400,
		.steps = 12000};

	(void)state;
	run(&job);
	assert_int_equal(job.alert_count, 0);
	assert_in_range(job.asked_count, 2 * 1, 2 * 5); /* after 15, 30, 60, 120 s, of 260 */
	for (size_t i = 4; i < job.asked_count; i += 2)
		assert_true(job.asked_ns[i] - job.asked_ns[i - 2] >
			    job.asked_ns[i - 2] - job.asked_ns[i - 4]);
}

static size_t pairs_asked(unsigned steps, size_t starved)
{
	struct job job = {
		.slow = true, .host = true, .stacks = true, .starved = starved, .steps = steps};

	run(&job);
	for (size_t i = 0; i < job.asked_count; i++)
		assert_int_equal(job.asked[i].rank == SLOW_RANK, i % 2 == 0);
	return job.asked_count / 2;
}

/* One of a pair is enough, and it is asked again twice at most. */
static void a_starved_look_is_taken_again(void **state)
{
	(void)state;
	assert_int_equal(pairs_asked(700, 0), 1);
	assert_int_equal(pairs_asked(700, 1), 2);
	assert_int_equal(pairs_asked(700, 64), 3);
	assert_int_equal(pairs_asked(1300, 64), 3);
}

/* The fault is over, and its cause told, when stacks come that say more of it: that is told once. */
static void late_stacks_sharpen_a_cause(void **state)
{
	struct job job = {.slow = true,
		.host = true,
		.stacks = true,
		.saves = true,
		.window = 200,
		.period = 10000,
		.answered_from = 700,
		.steps = 800};
	struct job unanswered = job;

	(void)state;
	unanswered.answered_from = 800;
	run(&unanswered);
	assert_int_equal(unanswered.last.cause, CAUSE_BLOCK_IO);
	run(&job);
	assert_int_equal(job.verdict_count, 1);
	assert_int_equal(job.last.ended, 1);
	assert_int_equal(job.last.cause, CAUSE_CHECKPOINT);
	assert_int_equal(job.update_count, unanswered.update_count + 1);
}

/* Who could not be looked at is left alone. */
static void stacks_without_the_right(void **state)
{
	struct job job = {.slow = true, .host = true, .stacks = true, .no_right = true};

	(void)state;
	run(&job);
	assert_int_equal(job.asked_count, 2);
	assert_int_equal(job.stacks_kept, 2);
}

/* What is slow on its device, or not at all, has no stacks to show. */
static void no_stacks_without_a_slow_host(void **state)
{
	struct job device = {.slow = true, .stacks = true}, healthy = {.stacks = true};

	(void)state;
	run(&device);
	assert_int_equal(device.asked_count, 0);
	assert_int_equal(device.last.verdict_class, VERDICT_COMPUTE_SLOW);
	run(&healthy);
	assert_int_equal(healthy.asked_count, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy_ranks_are_left_alone),
		cmocka_unit_test(the_cause_comes_with_the_looks),
		cmocka_unit_test(an_idle_device_is_the_hosts),
		cmocka_unit_test(a_slow_host_is_left_alone),
		cmocka_unit_test(what_was_usual_is_no_gain),
		cmocka_unit_test(each_verdict_has_its_looks),
		cmocka_unit_test(looks_are_a_small_part),
		cmocka_unit_test(a_late_look_counts),
		cmocka_unit_test(refused),
		cmocka_unit_test(not_allowed),
		cmocka_unit_test(stacks_of_a_slow_host),
		cmocka_unit_test(a_suspicion_is_looked_at),
		cmocka_unit_test(suspicions_that_come_to_nothing),
		cmocka_unit_test(a_starved_look_is_taken_again),
		cmocka_unit_test(late_stacks_sharpen_a_cause),
		cmocka_unit_test(stacks_without_the_right),
		cmocka_unit_test(no_stacks_without_a_slow_host),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
