/* SPDX-License-Identifier: Apache-2.0 */
/* Looks that somebody asks for: who may ask what, what probes are told, what comes of it, and that the judge learns nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "coordinator/asked_looks.h"
#include "tests/unit/coordinator/made_batch.h"
#include "tests/unit/wire/random_batch.h"

#define SECOND_NS INT64_C(1000000000)

enum { RANKS = 4, PROBE = 9 };

struct job {
	struct pipeline *pipeline;
	struct job_ns now;
	uint64_t number;
	struct message_reply reply; /* to the latest batch */
	struct message_answer answer;
};

static struct job job;

/* One batch of the probe, with one look perhaps, and its reply. */
static void send_batch(struct stack_profile *stacks, const struct kernel_profile *kernels,
	void (*fill)(struct message_batch *batch))
{
	struct message_batch *batch = made_batch(PROBE, 3, job.number++);

	snprintf(batch->job_id, sizeof(batch->job_id), "night-run");
	if (batch->number == 0)
		made_batch_announce(batch, RANKS, 1);
	if (kernels) {
		batch->kernel_profiles = calloc(1, sizeof(*kernels));
		batch->kernel_profiles[batch->kernel_profile_count++] = *kernels;
	}
	if (stacks) {
		batch->stack_profiles = calloc(1, sizeof(stacks));
		batch->stack_profiles[batch->stack_profile_count++] = stacks;
	}
	if (fill)
		fill(batch);
	batch->sent.value = job.now.value;
	made_batch_push(job.pipeline, batch, job.now, &job.reply);
}

static int set_up(void **state)
{
	(void)state;
	job = (struct job){.now = {1000 * SECOND_NS}};
	assert_int_equal(pipeline_create(&(struct pipeline_options){0}, &job.pipeline), 0);
	pipeline_serve_one_job(job.pipeline, NULL);
	send_batch(NULL, NULL, NULL);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	pipeline_destroy(job.pipeline);
	return 0;
}

/* The rank's probe goes on sending meanwhile. */
static void pass(int64_t time_ns)
{
	for (int64_t end_ns = job.now.value + time_ns; job.now.value < end_ns;) {
		job.now.value +=
			end_ns - job.now.value < SECOND_NS ? end_ns - job.now.value : SECOND_NS;
		send_batch(NULL, NULL, NULL);
	}
}

static uint8_t ask_with(const struct message_question *question)
{
	job.answer = (struct message_answer){.asker_id = question->asker_id};
	pipeline_ask(job.pipeline, question, job.now, &job.answer);
	return job.answer.state;
}

static uint8_t ask(uint64_t asker_id, uint32_t rank, uint32_t limit_ms)
{
	return ask_with(&(struct message_question){.asker_id = asker_id,
		.kind = DIRECTIVE_STACKS,
		.rank = rank,
		.steps = limit_ms ? 10000 : 0,
		.limit_ms = limit_ms});
}

/* Its probe looks at once. */
static struct stack_profile *made_look(uint32_t rank, uint32_t request)
{
	struct random_source random = {rank + 1};
	struct stack_profile *profile = random_stack_profile(&random);

	profile->rank = rank;
	profile->request = request;
	profile->result = STACK_RESULT_DONE;
	return profile;
}

static void answer_look(void)
{
	const struct message_directive directive = job.reply.directives[0];

	assert_int_equal(job.reply.directive_count, 1);
	send_batch(made_look(directive.rank, directive.request), NULL, NULL);
}

static void a_look_comes_back(void **state)
{
	struct message_directive directive;

	(void)state;
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	send_batch(NULL, NULL, NULL);
	assert_int_equal(job.reply.directive_count, 1);
	directive = job.reply.directives[0];
	assert_int_equal(directive.kind, DIRECTIVE_STACKS);
	assert_int_equal(directive.rank, 2);
	assert_int_equal(directive.limit_ms, 3000);
	assert_true(directive.request >= ASKED_REQUEST_FIRST);
	/* The same question, the same look: in each reply, until it is there. */
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	send_batch(NULL, NULL, NULL);
	assert_memory_equal(&job.reply.directives[0], &directive, sizeof(directive));
	answer_look();
	assert_int_equal(job.reply.directive_count, 0);
	for (int i = 0; i < 2; i++) { /* an answer may be lost */
		assert_int_equal(ask(1, 2, 3000), ANSWER_LOOK);
		assert_int_equal(job.answer.stacks->request, directive.request);
		assert_int_equal(job.answer.pid, 102);
		assert_null(job.answer.kernels);
	}
}

/* Reports show it; verdicts, and who is looked at next, go on without. */
static void the_judge_learns_nothing(void **state)
{
	const struct kernel_profile kernels = {
		.rank = 1, .request = ASKED_REQUEST_FIRST + 5, .steps = 3, .result = LOOK_DONE};
	const struct report_model *model;

	(void)state;
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	send_batch(NULL, NULL, NULL);
	answer_look();
	send_batch(NULL, &kernels, NULL);
	model = pipeline_report(job.pipeline);
	assert_null(model->stacks);
	assert_int_equal(model->asked_stacks->count, 1);
	assert_int_equal(model->asked_stacks->kept[0].profile->rank, 2);
	assert_int_equal(model->ranks[1].look->request, kernels.request);
	assert_null(model->ranks[2].look);
	/* The coordinator's own are the judge's. */
	send_batch(made_look(2, 1), NULL, NULL);
	model = pipeline_report(job.pipeline);
	assert_int_equal(model->stacks->count, 1);
	assert_int_equal(model->asked_stacks->count, 1);
}

static void exit_rank(struct message_batch *batch)
{
	made_batch_announce(batch, 2, 1);
	batch->ranks[1].exited = 1;
	batch->ranks[1].exit_code = 9;
}

static void end(struct message_batch *batch)
{
	batch->final = 1;
}

/* Whoever cannot be asked: why not. */
static void who_cannot_be_asked(void **state)
{
	struct message_question other = {
		.asker_id = 7, .kind = DIRECTIVE_STACKS, .rank = 0, .job_id = "day-run"};

	(void)state;
	assert_int_equal(ask(1, RANKS, 0), ANSWER_REFUSED);
	assert_string_equal(job.answer.why, "there is no rank 4: 4 ranks are seen");
	assert_int_equal(ask(1, STEP_RANK_COUNT_MAX - 1, 0), ANSWER_REFUSED);
	assert_int_equal(ask_with(&other), ANSWER_OTHER_JOB);
	assert_non_null(strstr(job.answer.why, "night-run"));
	other.job_id[0] = '\0';
	other.kind = DIRECTIVE_INTRODUCE;
	assert_int_equal(ask_with(&other), ANSWER_REFUSED);
	send_batch(NULL, NULL, exit_rank);
	assert_int_equal(ask(1, 1, 0), ANSWER_REFUSED);
	assert_non_null(strstr(job.answer.why, "rank 1 has ended, with exit code 9"));
	send_batch(NULL, NULL, NULL);
	assert_int_equal(job.reply.directive_count, 0);
	job.now.value += 12 * SECOND_NS;
	assert_int_equal(ask(1, 2, 0), ANSWER_REFUSED);
	assert_non_null(strstr(job.answer.why, "it was last heard 12 s ago"));
	send_batch(NULL, NULL, end);
	assert_int_equal(ask(1, 2, 0), ANSWER_REFUSED);
	assert_non_null(strstr(job.answer.why, "the probe of rank 2 has ended"));
}

/* Its probe is there, but never answers: given up, and not asked any more. */
static void a_probe_that_does_not_answer(void **state)
{
	(void)state;
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	pass(17 * SECOND_NS);
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	pass(2 * SECOND_NS);
	assert_int_equal(ask(1, 2, 3000), ANSWER_REFUSED);
	assert_non_null(strstr(job.answer.why, "did not answer in 18 s"));
	send_batch(NULL, NULL, NULL);
	assert_int_equal(job.reply.directive_count, 0);
	assert_int_equal(ask(1, 2, 3000), ANSWER_REFUSED); /* the same question */
	assert_int_equal(ask(2, 2, 3000), ANSWER_WAIT);
}

/* Some seconds from one to the next, two at once, one of a rank: the others wait. */
static void others_come_first(void **state)
{
	(void)state;
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	assert_int_equal(ask(2, 3, 3000), ANSWER_WAIT);
	send_batch(NULL, NULL, NULL);
	assert_int_equal(job.reply.directive_count, 1);
	pass(3 * SECOND_NS);
	assert_int_equal(ask(3, 2, 3000), ANSWER_WAIT); /* the rank is looked at */
	send_batch(NULL, NULL, NULL);
	assert_int_equal(job.reply.directive_count, 1);
	assert_int_equal(ask(2, 3, 3000), ANSWER_WAIT);
	send_batch(NULL, NULL, NULL);
	assert_int_equal(job.reply.directive_count, 2);
	assert_int_not_equal(job.reply.directives[0].request, job.reply.directives[1].request);
	pass(3 * SECOND_NS);
	assert_int_equal(ask(4, 0, 3000), ANSWER_WAIT);
	assert_non_null(strstr(job.answer.why, "other looks come first"));
	send_batch(NULL, NULL, NULL);
	assert_int_equal(job.reply.directive_count, 2);
}

/* A rank is looked at for 45 s in a row, and then for a twentieth of the time; others are not its concern. */
static void a_rank_has_so_much(void **state)
{
	int looks = 0;

	(void)state;
	for (uint64_t asker = 1; ask(asker, 2, UINT32_MAX) == ANSWER_WAIT; asker++) {
		send_batch(NULL, NULL, NULL);
		assert_int_equal(job.reply.directives[0].limit_ms, ASKED_LIMIT_MS_MAX);
		answer_look();
		pass(3 * SECOND_NS);
		assert_true(++looks < 10);
	}
	assert_int_equal(looks, 4);
	assert_int_equal(job.answer.state, ANSWER_REFUSED);
	assert_non_null(strstr(job.answer.why, "ask for a shorter look, or again in"));
	assert_int_equal(ask(100, 3, 10000), ANSWER_WAIT);
	send_batch(NULL, NULL, NULL);
	answer_look();
	pass(220 * SECOND_NS);
	assert_int_equal(ask(101, 2, 10000), ANSWER_WAIT);
}

static void kernels_a_few_times(void **state)
{
	struct message_question question = {
		.kind = DIRECTIVE_DEEP, .rank = 2, .steps = 100000, .limit_ms = 10000};

	(void)state;
	for (question.asker_id = 1; question.asker_id <= ASKED_KERNELS_OF_RANK_MAX;
		question.asker_id++) {
		struct kernel_profile profile = {.rank = 2, .steps = 3, .result = LOOK_DONE};

		assert_int_equal(ask_with(&question), ANSWER_WAIT);
		send_batch(NULL, NULL, NULL);
		assert_int_equal(job.reply.directives[0].kind, DIRECTIVE_DEEP);
		assert_int_equal(job.reply.directives[0].steps, ASKED_KERNEL_STEPS_MAX);
		profile.request = job.reply.directives[0].request;
		send_batch(NULL, &profile, NULL);
		assert_int_equal(ask_with(&question), ANSWER_LOOK);
		assert_int_equal(job.answer.kernels->steps, 3);
		pass(3 * SECOND_NS);
	}
	assert_int_equal(ask_with(&question), ANSWER_REFUSED);
	assert_non_null(strstr(job.answer.why, "4 times by hand"));
}

/* A look that nobody waits for is kept for reports alone; one of another rank than asked answers nothing. */
static void answers_of_others(void **state)
{
	(void)state;
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	send_batch(NULL, NULL, NULL);
	send_batch(made_look(3, job.reply.directives[0].request), NULL, NULL);
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	send_batch(made_look(2, job.reply.directives[0].request + 1), NULL, NULL);
	assert_int_equal(ask(1, 2, 3000), ANSWER_WAIT);
	assert_int_equal(pipeline_report(job.pipeline)->asked_stacks->count, 2);
}

/* What was answered goes when its time is over, or another one needs its place. */
static void many_askers(void **state)
{
	(void)state;
	for (uint64_t asker = 1; asker <= 3 * ASKED_KEPT; asker++) {
		assert_int_equal(ask(asker, (uint32_t)asker % RANKS, 0), ANSWER_WAIT);
		send_batch(NULL, NULL, NULL);
		answer_look();
		assert_int_equal(ask(asker, (uint32_t)asker % RANKS, 0), ANSWER_LOOK);
		pass(2 * SECOND_NS);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_look_comes_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_judge_learns_nothing, set_up, tear_down),
		cmocka_unit_test_setup_teardown(who_cannot_be_asked, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_probe_that_does_not_answer, set_up, tear_down),
		cmocka_unit_test_setup_teardown(others_come_first, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_rank_has_so_much, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kernels_a_few_times, set_up, tear_down),
		cmocka_unit_test_setup_teardown(answers_of_others, set_up, tear_down),
		cmocka_unit_test_setup_teardown(many_askers, set_up, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
