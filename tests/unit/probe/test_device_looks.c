/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deep looks of a probe, over a real ring: this process writes what the in-process library would,
 * and answers its requests, by a clock of its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/device_source.h"
#include "probe/ring/ring_writer.h"

enum { MS = 1000000, CALLS = 6, STEP_MS = 60, RANK = 0 };
#define HASH UINT64_C(0x1234)

static struct bench {
	char directory[64], path[192];
	struct ring_writer ring;
	struct job *job;
	struct device_source *source;
	int64_t now_ns;
	uint64_t sequence;
	uint32_t request_seen;
	size_t profile_count;
	struct kernel_profile profiles[128];
} bench;

static struct host_ns now(void)
{
	return (struct host_ns){bench.now_ns};
}

static void put(enum ring_record_kind kind, const void *payload, size_t length)
{
	assert_true(ring_write(&bench.ring, kind, payload, length));
}

static void put_clock(uint32_t domain)
{
	struct ring_clock_pair pair = {.gpu_ns = bench.now_ns,
		.host_ns = bench.now_ns,
		.error_ns = 100,
		.domain = domain,
		.sample_count = 1};

	put(RING_RECORD_CLOCK_PAIR, &pair, sizeof(pair));
}

static void poll_rings(void)
{
	struct message_batch batch = {0};
	struct kernel_profile *profiles;
	size_t count;

	device_source_poll(bench.source, now());
	job_join_device_calls(bench.job);
	job_tick(bench.job, now());
	device_looks_tick(device_source_looks(bench.source), now());
	count = device_looks_take(device_source_looks(bench.source), &profiles);
	for (size_t i = 0; i < count; i++) {
		assert_true(bench.profile_count < 8);
		bench.profiles[bench.profile_count++] = profiles[i];
	}
	(void)job_fill_batch(bench.job, &batch);
	job_batch_done(bench.job);
}

static void on_step(void *context, pid_t pid, const struct step_entry *step)
{
	device_source_step(context, pid, step);
}

static void set_up_where(enum probe_deep deep, bool can_count)
{
	struct device_looks_options options = {.deep = deep, .can_count = can_count};
	struct ring_hello hello = {.pid = getpid(), .nccl_profiler_version = 5};
	struct ring_communicator communicator = {
		.hash = HASH, .rank = RANK, .rank_count = 2, .node_count = 1};

	memset(&bench, 0, sizeof(bench));
	bench.now_ns = INT64_C(5000000000000);
	strcpy(bench.directory, "/tmp/slowrank-test-looks.XXXXXX");
	assert_non_null(mkdtemp(bench.directory));
	setenv(RING_DIRECTORY_VARIABLE, bench.directory, 1);
	assert_int_equal(ring_writer_create(bench.directory, 8192, &bench.ring), 0);
	assert_int_equal(job_create(&(struct job_options){.host = "here"}, &bench.job), 0);
	assert_int_equal(device_source_create(bench.job, &options, &bench.source), 0);
	job_watch_steps(bench.job, on_step, bench.source);
	device_source_add_process(bench.source, getpid());
	put(RING_RECORD_HELLO, &hello, sizeof(hello));
	put_clock(RING_CLOCK_GLOBALTIMER);
	put(RING_RECORD_COMMUNICATOR, &communicator, sizeof(communicator));
	poll_rings();
}

static void set_up(enum probe_deep deep)
{
	set_up_where(deep, true);
}

/* After each test, also one that failed. */
static int tear_down(void **unused)
{
	char command[256];

	(void)unused;
	device_source_destroy(bench.source);
	job_destroy(bench.job);
	ring_writer_destroy(&bench.ring);
	snprintf(command, sizeof(command), "rm -r %s", bench.directory);
	return system(command);
}

static void report(enum ring_deep_state state)
{
	static uint32_t began; /* the end of a look bears the number of what began it */
	uint32_t asked = bench.ring.header->control.deep_request;
	struct ring_deep_report record = {.request = state == RING_DEEP_OFF ? began : asked,
		.state = (uint32_t)state,
		.host_ns = bench.now_ns};

	if (state == RING_DEEP_ON)
		began = asked;
	put(RING_RECORD_DEEP_STATE, &record, sizeof(record));
}

/* One step: calls of different lengths, so that the period is clear; kernels while looked at. */
static void step(bool kernels)
{
	for (int c = 0; c < CALLS; c++) {
		struct ring_collective call = {.communicator = HASH,
			.sequence = bench.sequence++,
			.length_bytes = 1000u << c,
			.enqueue_host_ns = bench.now_ns + 1 * MS,
			.device_start_ns = bench.now_ns + 9 * MS,
			.device_stop_ns = bench.now_ns + 10 * MS,
			.root = -1,
			.rank = RANK,
			.function = RING_FUNCTION_ALL_REDUCE,
			.channels_expected = 1,
			.channels_seen = 1};
		struct ring_kernel kernel = {.start_ns = bench.now_ns + 2 * MS,
			.stop_ns = bench.now_ns + 8 * MS,
			.launch_host_ns = bench.now_ns + 1 * MS,
			.name_id = 5};

		if (kernels)
			put(RING_RECORD_KERNEL, &kernel, sizeof(kernel));
		bench.now_ns += 10 * MS;
		put(RING_RECORD_COLLECTIVE, &call, sizeof(call));
	}
	poll_rings();
}

static void run_steps(unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		step(false);
}

/* What this process launched in its last steps, as a window would tell it. */
static void count(int64_t launches_a_second)
{
	const int64_t steps = 10;
	const struct launch_count counted = {
		.launches = (uint64_t)(launches_a_second * steps * STEP_MS / 1000),
		.from = {bench.now_ns - steps * STEP_MS * MS},
		.until = now()};

	device_source_launches(bench.source, getpid(), &counted);
	run_steps(2);
}

static void run_counted_steps(unsigned steps)
{
	run_steps(steps);
	count(6000);
}

/* A job that has run for a while, and is known to launch little. */
static void set_up_counted(void)
{
	set_up(PROBE_DEEP_AUTO);
	run_counted_steps(90);
}

static void ask(uint32_t request, uint32_t steps, uint32_t limit_ms)
{
	struct message_directive directive = {.kind = DIRECTIVE_DEEP,
		.rank = RANK,
		.steps = steps,
		.limit_ms = limit_ms,
		.request = request};

	device_looks_ask(device_source_looks(bench.source), &directive, now());
}

/* True when the process was asked for something since the last time. */
static bool was_asked(uint32_t *kinds)
{
	const struct ring_control *control = &bench.ring.header->control;
	bool asked = control->deep_request != bench.request_seen;

	bench.request_seen = control->deep_request;
	*kinds = control->deep_kinds;
	return asked;
}

static void begin_look(void)
{
	struct ring_kernel_name name = {.name_id = 5, .total_bytes = 7, .piece_bytes = 7};

	memcpy(name.text, "_Z4gemm", 7);
	put_clock(RING_CLOCK_CUPTI);
	put(RING_RECORD_KERNEL_NAME, &name, sizeof(name));
	report(RING_DEEP_ON);
}

/* The process shows its kernels until it is asked no more. Returns the steps of that. */
static int look(void)
{
	uint32_t kinds;
	int steps = 0;

	begin_look();
	for (; steps < 100 && !was_asked(&kinds); steps++)
		step(true);
	assert_int_equal(kinds, 0);
	report(RING_DEEP_OFF);
	return steps;
}

static struct message_source state(void)
{
	struct message_source source = {0};

	assert_true(device_looks_state(device_source_looks(bench.source), &source));
	return source;
}

static void a_look_from_asking_to_profile(void **unused)
{
	const struct kernel_profile *profile = &bench.profiles[0];
	uint32_t kinds;

	(void)unused;
	set_up_counted();
	assert_false(was_asked(&kinds)); /* not without a directive */
	assert_int_equal(state().state, SOURCE_ON);
	ask(1, 10, 20000);
	assert_true(was_asked(&kinds));
	assert_true(kinds & RING_DEEP_KERNELS);
	ask(1, 10, 20000); /* repeated until it is answered */
	assert_false(was_asked(&kinds));
	assert_in_range(look(), 11, 16); /* one is left out; steps are known a little later */
	for (int steps = 0; steps < 10 && !bench.profile_count; steps++)
		step(false);
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(profile->result, LOOK_DONE);
	assert_int_equal(profile->rank, RANK);
	assert_int_equal(profile->request, 1);
	assert_in_range(profile->steps, 9, 15);
	assert_int_equal(
		profile->stop.value - profile->start.value, (int64_t)profile->steps * STEP_MS * MS);
	assert_int_equal(profile->kernel_count, profile->steps * CALLS);
	assert_int_equal(profile->kernel_ns, (int64_t)profile->steps * CALLS * 6 * MS);
	assert_string_equal(profile->sums[0].name, "gemm");
	assert_int_equal(profile->launches[kernel_launch_bucket(1 * MS)], profile->steps * CALLS);
	ask(1, 10, 20000); /* an old reply */
	assert_false(was_asked(&kinds));
}

/* Asked for one look after the other: what a process may be looked at is limited, whoever asks. */
static void looks_without_end_are_refused(void **unused)
{
	uint32_t kinds, request = 1;
	int64_t looked_at_ns = 0, begun_ns;

	(void)unused;
	set_up_counted();
	begun_ns = bench.now_ns;
	for (; request < 100; request++) {
		ask(request, 50, 20000);
		if (!was_asked(&kinds))
			break;
		int64_t on_ns = bench.now_ns;

		look();
		looked_at_ns += bench.now_ns - on_ns;
		for (int steps = 0;
			steps < 10 &&
			device_looks_is_busy(device_source_looks(bench.source), getpid());
			steps++)
			step(false);
	}
	assert_in_range(request, 3, 99);
	assert_in_range(looked_at_ns, DEVICE_LOOKS_SPENT_NS_MAX,
		DEVICE_LOOKS_SPENT_NS_MAX + INT64_C(8000000000) +
			(int64_t)(DEVICE_LOOKS_SHARE * (double)(bench.now_ns - begun_ns)));
	bench.now_ns += DEVICE_LOOKS_SPENT_NS_MAX; /* a part of it comes back */
	ask(request, 50, 20000);
	assert_true(was_asked(&kinds));
}

static void another_profiler_is_left_alone(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up_counted();
	ask(1, 10, 20000);
	assert_true(was_asked(&kinds));
	report(RING_DEEP_OTHER_SUBSCRIBER);
	poll_rings();
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(bench.profiles[0].result, LOOK_OTHER_PROFILER);
	assert_int_equal(bench.profiles[0].request, 1);
	assert_int_equal(state().state, SOURCE_MISSING);
	assert_non_null(strstr(state().why, "rank 0: another profiler"));
	ask(2, 10, 20000);
	poll_rings();
	assert_false(was_asked(&kinds)); /* answered without asking the process again */
	assert_int_equal(bench.profile_count, 2);
	assert_int_equal(bench.profiles[1].result, LOOK_OTHER_PROFILER);
	assert_int_equal(bench.profiles[1].request, 2);
	bench.now_ns += DEVICE_LOOKS_REST_NS;
	poll_rings();
	assert_int_equal(state().state, SOURCE_ON);
	run_counted_steps(12);
	ask(3, 10, 20000);
	assert_true(was_asked(&kinds));
}

static void no_answer_is_not_waited_for(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up_counted();
	ask(1, 10, 3000);
	assert_true(was_asked(&kinds));
	ask(2, 10, 3000); /* busy: later */
	poll_rings();
	assert_int_equal(bench.profile_count, 0);
	run_steps(400); /* 12 s */
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(bench.profiles[0].result, LOOK_FAILED);
	assert_true(was_asked(&kinds));
	assert_int_equal(kinds, 0); /* taken back */
}

static void not_allowed(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up(PROBE_DEEP_OFF);
	run_steps(90);
	assert_int_equal(state().state, SOURCE_OFF);
	ask(1, 10, 3000);
	poll_rings();
	assert_false(was_asked(&kinds));
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(bench.profiles[0].result, LOOK_UNREACHABLE);
}

static void a_baseline_when_it_is_on(void **unused)
{
	uint32_t kinds;
	int steps = 0;

	(void)unused;
	set_up(PROBE_DEEP_ON);
	run_steps(DEVICE_LOOKS_BASELINE_STEP / 2);
	assert_false(was_asked(&kinds));
	for (; steps < 200 && !was_asked(&kinds); steps++)
		step(false);
	assert_true(steps < 200);
	look();
	run_steps(10);
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(bench.profiles[0].result, LOOK_DONE);
	assert_int_equal(bench.profiles[0].request, 0);
	run_steps(200);
	assert_false(was_asked(&kinds)); /* once */
}

/* Nothing is known of what it launches: that is counted first. */
static void launches_are_counted_before_a_look(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up(PROBE_DEEP_AUTO);
	run_steps(90);
	assert_false(device_source_wants_launches(bench.source)); /* nobody asked for a look */
	ask(1, 10, 20000);
	ask(1, 10, 20000); /* repeated until it is answered */
	assert_true(device_source_wants_launches(bench.source));
	run_steps(20);
	assert_false(was_asked(&kinds));
	assert_int_equal(bench.profile_count, 0);
	count(LAUNCHES_A_SECOND_MAX - 100);
	assert_true(was_asked(&kinds));
	assert_true(kinds & RING_DEEP_KERNELS);
	assert_false(device_source_wants_launches(bench.source));
}

static void many_launches_are_not_made_dearer(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up(PROBE_DEEP_AUTO);
	run_steps(90);
	ask(1, 10, 20000);
	count(38000);
	assert_false(was_asked(&kinds));
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(bench.profiles[0].result, LOOK_MANY_LAUNCHES);
	assert_int_equal(bench.profiles[0].launches_a_second, 38000);
	assert_int_equal(bench.profiles[0].request, 1);
	assert_int_equal(state().state, SOURCE_MISSING);
	assert_string_equal(
		state().why, "rank 0: 38000 launches a second: CUPTI would slow them down");
	assert_false(device_source_wants_launches(bench.source));
	ask(2, 10, 20000); /* answered with the same reason for a while, without counting again */
	poll_rings();
	assert_int_equal(bench.profile_count, 2);
	assert_int_equal(bench.profiles[1].launches_a_second, 38000);
	bench.now_ns += DEVICE_LOOKS_REST_NS;
	ask(3, 10, 20000);
	run_steps(12);
	count(6000); /* it launches less by now */
	assert_true(was_asked(&kinds));
}

static void a_later_count_stops_further_looks(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up_counted();
	ask(1, 10, 20000);
	assert_true(was_asked(&kinds));
	look();
	run_steps(10);
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(bench.profiles[0].result, LOOK_DONE);
	count(50000);
	ask(2, 10, 20000);
	poll_rings();
	assert_false(was_asked(&kinds));
	assert_int_equal(bench.profile_count, 2);
	assert_int_equal(bench.profiles[1].result, LOOK_MANY_LAUNCHES);
}

static void a_count_that_never_comes(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up(PROBE_DEEP_AUTO);
	run_steps(90);
	ask(1, 10, 20000);
	run_steps((unsigned)(DEVICE_LOOKS_COUNT_NS / (STEP_MS * MS)) + 2);
	assert_false(was_asked(&kinds));
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(bench.profiles[0].result, LOOK_NOT_COUNTED);
}

/* No BPF: no look on suspicion, */
static void where_launches_cannot_be_counted(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up_where(PROBE_DEEP_AUTO, false);
	run_steps(90);
	assert_int_equal(state().state, SOURCE_MISSING);
	assert_non_null(strstr(state().why, "launches are not counted here"));
	ask(1, 10, 20000);
	poll_rings();
	assert_false(was_asked(&kinds));
	assert_int_equal(bench.profile_count, 1);
	assert_int_equal(bench.profiles[0].result, LOOK_NOT_COUNTED);
}

/* but those that were asked for in words. */
static void asked_for_where_launches_cannot_be_counted(void **unused)
{
	uint32_t kinds;

	(void)unused;
	set_up_where(PROBE_DEEP_ON, false);
	for (int steps = 0; steps < 200 && !was_asked(&kinds); steps++)
		step(false); /* the baseline */
	look();
	run_steps(10);
	assert_int_equal(state().state, SOURCE_ON);
	ask(1, 10, 20000);
	assert_true(was_asked(&kinds));
}

#define LOOK_TEST(name) cmocka_unit_test_teardown(name, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		LOOK_TEST(a_look_from_asking_to_profile),
		LOOK_TEST(looks_without_end_are_refused),
		LOOK_TEST(another_profiler_is_left_alone),
		LOOK_TEST(no_answer_is_not_waited_for),
		LOOK_TEST(not_allowed),
		LOOK_TEST(a_baseline_when_it_is_on),
		LOOK_TEST(launches_are_counted_before_a_look),
		LOOK_TEST(many_launches_are_not_made_dearer),
		LOOK_TEST(a_later_count_stops_further_looks),
		LOOK_TEST(a_count_that_never_comes),
		LOOK_TEST(where_launches_cannot_be_counted),
		LOOK_TEST(asked_for_where_launches_cannot_be_counted),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
