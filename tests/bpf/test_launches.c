/* SPDX-License-Identifier: Apache-2.0 */
/* Launches counted in windows: how many, how silent in between, and nothing outside of them. */
#include "tests/bpf/harness.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MS 1000000u
#define SECOND INT64_C(1000000000)

static const struct bpf_source_options options = {
	.collectives = true, .sched = true, .launches = true};
static struct harness harness;
static int64_t clock_ns; /* what the source is told: windows open and close when a test says so */

static void attach_device(void)
{
	struct library_file library = {0};
	struct stat status;
	size_t skipped;

	assert_int_equal(stat(TOLD_DEVICE, &status), 0);
	library.device = status.st_dev;
	library.inode = status.st_ino;
	snprintf(library.path, sizeof(library.path), "%s", TOLD_DEVICE);
	snprintf(library.name, sizeof(library.name), "%s", TOLD_DEVICE);
	/* Three waits, the collective, a send, a receive and a group's end; what launches comes in windows. */
	assert_int_equal(bpf_source_attach_library(harness.source, &library, true, &skipped), 7);
	assert_int_equal(skipped, 0);
}

static struct rank start(const struct bpf_source_options *wanted)
{
	struct rank rank;

	harness_start(&harness, wanted);
	attach_device();
	rank = rank_start();
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)rank.pid), 0);
	return rank;
}

static uint64_t windows_so_far(void)
{
	struct bpf_launch_cost cost;

	bpf_source_launch_cost(harness.source, &cost);
	return cost.windows;
}

static void tick(const struct bpf_launch_wish *wish)
{
	bpf_source_launches_tick(harness.source, (struct host_ns){clock_ns}, wish);
}

static const struct bpf_launch_wish of_steps = {.steps = true, .step_ns = SECOND};

static void open_window(void)
{
	uint64_t before = windows_so_far();

	clock_ns += 100 * SECOND;
	tick(&of_steps);
	assert_int_equal(windows_so_far(), before);
}

static void close_window(void)
{
	uint64_t before = windows_so_far();

	clock_ns += 7 * SECOND;
	tick(&of_steps);
	assert_int_equal(windows_so_far(), before + 1);
}

/* What the next collective says was launched. */
static struct event_launches enqueue(const struct rank *rank)
{
	const struct event_collective *event;

	harness_clear(&harness);
	rank_do(rank, "enqueue 25");
	harness_collect(&harness);
	event = harness_find(&harness, EVENT_COLLECTIVE, rank->pid, 0);
	assert_non_null(event);
	assert_int_equal(event->row, row_of("ncclAllReduce"));
	return event->launches;
}

static void counts_in_windows(void **state)
{
	struct rank rank = start(&options);
	struct event_launches launches;

	(void)state;
	rank_do(&rank, "launch 5");
	assert_int_equal(enqueue(&rank).window, 0); /* none is open */
	open_window();
	assert_int_equal(enqueue(&rank).window, 0); /* nothing was launched in it */
	rank_do(&rank, "launch 40");
	rank_do(&rank, "graph");
	launches = enqueue(&rank);
	assert_true(launches.window != 0);
	assert_int_equal(launches.launches, 41);
	assert_int_equal(launches.graph_launches, 1);
	assert_int_equal(launches.idle_ns, 0);
	close_window();
	assert_int_equal(enqueue(&rank).window, 0);
	rank_do(&rank, "launch 7");
	open_window();
	rank_do(&rank, "launch 3");
	assert_int_equal(enqueue(&rank).launches, 3); /* this window's */
	rank_end(&rank);
	harness_end(&harness);
}

/* Silence is what lies between launches, less waits; idle, what follows a wait behind a collective. */
static void silence_and_idle(void **state)
{
	struct rank rank = start(&options);
	struct event_launches before, after;

	(void)state;
	open_window();
	rank_do(&rank, "launch 1");
	before = enqueue(&rank);
	rank_do(&rank, "sleep 30");
	rank_do(&rank, "launch 1");
	after = enqueue(&rank);
	assert_true(after.silence_ns - before.silence_ns >= 30 * MS);
	assert_int_equal(after.idle_ns, before.idle_ns);
	before = after;
	rank_do(&rank, "join 60");
	rank_do(&rank, "synchronize 60"); /* with the collective: then nothing is left */
	rank_do(&rank, "sleep 20");
	rank_do(&rank, "launch 1");
	after = enqueue(&rank);
	assert_true(after.device_wait_ns - before.device_wait_ns >= 60 * MS);
	assert_true(after.idle_ns - before.idle_ns >= 20 * MS);
	assert_true(after.idle_ns - before.idle_ns < 55 * MS); /* the wait is not in it */
	assert_true(after.silence_ns - before.silence_ns >= 20 * MS);
	before = after;
	rank_do(&rank, "synchronize 1"); /* a stream that has nothing to do with it */
	rank_do(&rank, "event 25");	 /* behind an event there may be more */
	rank_do(&rank, "sleep 20");
	rank_do(&rank, "launch 1");
	after = enqueue(&rank);
	assert_int_equal(after.idle_ns, before.idle_ns);
	rank_end(&rank);
	harness_end(&harness);
}

static size_t waits_told(const struct rank *rank)
{
	harness_collect(&harness);
	return harness_count(&harness, EVENT_DEVICE_WAIT, rank->pid);
}

/* The first wait that includes the last collective makes a record; all others make none. */
static void waits_that_include_the_collective(void **state)
{
	struct rank rank = start(&options);
	const struct event_device_wait *wait;

	(void)state;
	open_window();
	rank_do(&rank, "launch 1"); /* this thread launches */
	(void)enqueue(&rank);
	rank_do(&rank, "loader 25");
	rank_do(&rank, "synchronize 5");
	rank_do(&rank, "event 5");
	assert_int_equal(waits_told(&rank), 0);
	rank_do(&rank, "synchronize 25"); /* its own stream */
	rank_do(&rank, "synchronize 25");
	assert_int_equal(waits_told(&rank), 1);
	wait = harness_find(&harness, EVENT_DEVICE_WAIT, rank.pid, 0);
	assert_true(wait->end_ns - wait->start_ns >= 25 * MS);
	assert_true(wait->launches.device_wait_ns >= 25 * MS);
	rank_do(&rank, "join 7");
	(void)enqueue(&rank);
	rank_do(&rank, "synchronize 7"); /* was made to wait before */
	assert_int_equal(waits_told(&rank), 0);
	rank_do(&rank, "join 8");
	rank_do(&rank, "join 7");
	rank_do(&rank, "synchronize 7");
	assert_int_equal(waits_told(&rank), 1);
	(void)enqueue(&rank);
	rank_do(&rank, "context");
	assert_int_equal(waits_told(&rank), 1);
	rank_end(&rank);
	harness_end(&harness);
}

/* What the launchers did until a group of sends: told once, and as of the begin of what they were held up in. */
static void groups_tell_what_the_host_did(void **state)
{
	struct rank rank = start(&options);
	const struct event_enqueue *event;
	uint64_t asleep_ns = 0;
	int64_t begin_ns;

	(void)state;
	rank_do(&rank, "group 1 0"); /* this thread launches */
	harness_collect(&harness);
	harness_clear(&harness);
	begin_ns = now_ns();
	rank_do(&rank, "sleep 30");
	rank_do(&rank, "group 40 0");
	harness_collect(&harness);
	assert_true(harness_count(&harness, EVENT_ENQUEUE, rank.pid) < 20);
	event = harness_find(&harness, EVENT_ENQUEUE, rank.pid, 0);
	assert_non_null(event);
	assert_true(event->before.asleep_ns >= 30 * MS);
	harness_clear(&harness);
	rank_do(&rank, "group 0 50");
	rank_do(&rank, "group 1 0");
	harness_collect(&harness);
	event = harness_find(&harness, EVENT_ENQUEUE, rank.pid, 0);
	assert_non_null(event);
	assert_true(event->before.asleep_ns >= 50 * MS);
	assert_true((int64_t)event->header.time_ns <= now_ns() - 50 * (int64_t)MS);
	for (size_t i = 0; (event = harness_find(&harness, EVENT_ENQUEUE, rank.pid, i)); i++)
		asleep_ns += event->before.asleep_ns;
	assert_true((int64_t)asleep_ns <= now_ns() - begin_ns);
	rank_end(&rank);
	harness_end(&harness);
}

/* Where they are wanted, sends and receives are told one by one, and counted for each peer and direction. */
static void messages_are_told(void **state)
{
	static const struct bpf_source_options wanted = {
		.collectives = true, .sched = true, .messages = true};
	static const struct {
		const char *order, *symbol;
		uint64_t sequence, count;
		int32_t peer;
	} expected[] = {{"send 1 100", "ncclSend", 0, 100, 1}, {"receive 1 7", "ncclRecv", 0, 7, 1},
		{"send 3 50", "ncclSend", 0, 50, 3}, {"send 1 101", "ncclSend", 1, 101, 1},
		{"receive 1 8", "ncclRecv", 1, 8, 1}, {"enqueue 25", "ncclAllReduce", 0, 1, -1}};
	struct rank rank = start(&wanted);

	(void)state;
	rank_do(&rank, "group 0 0"); /* this thread launches */
	harness_collect(&harness);
	harness_clear(&harness);
	rank_do(&rank, "sleep 30");
	for (size_t i = 0; i < 6; i++)
		rank_do(&rank, "%s", expected[i].order);
	harness_collect(&harness);
	for (size_t i = 0; i < 6; i++) {
		const struct event_collective *event =
			harness_find(&harness, EVENT_COLLECTIVE, rank.pid, i);

		assert_non_null(event);
		assert_int_equal(event->row, row_of(expected[i].symbol));
		assert_int_equal(event->sequence, expected[i].sequence);
		assert_int_equal(event->count, expected[i].count);
		assert_int_equal(event->root, expected[i].peer);
		assert_int_equal(event->datatype, i < 5 ? 7 : 0);
		assert_int_equal(event->arrival_ns, event->departure_ns);
		assert_true(i > 0 || event->before.asleep_ns >= 30 * MS);
	}
	assert_int_equal(harness_count(&harness, EVENT_ENQUEUE, rank.pid), 0);
	rank_end(&rank);
	harness_end(&harness);
}

/* The cost of a hit is measured, and many hits put the next window off. */
static void costs_are_kept(void **state)
{
	struct rank rank = start(&options);
	struct bpf_launch_cost cost;

	(void)state;
	open_window();
	rank_do(&rank, "launch 20000");
	close_window();
	bpf_source_launch_cost(harness.source, &cost);
	assert_int_equal(cost.hits, 20000);
	assert_true(cost.hit_cost_ns > 20 && cost.hit_cost_ns < 200000);
	assert_true(cost.cost_ns >= 20000 * cost.hit_cost_ns);
	/* Less than 0.3 % of the time until the next one. */
	int64_t least_ns = cost.cost_ns / 3 * 1000 - 7 * SECOND;

	if (least_ns > SECOND) {
		clock_ns += least_ns - SECOND;
		tick(&(struct bpf_launch_wish){.steps = true});
		rank_do(&rank, "launch 1");
		assert_int_equal(enqueue(&rank).window, 0);
	}
	rank_end(&rank);
	harness_end(&harness);
}

/* Where steps have become longer, one window comes before its time; the next are as much later. */
static void one_in_advance(void **state)
{
	static const struct bpf_launch_wish hurried = {
		.steps = true, .suspected = true, .step_ns = SECOND};
	struct rank rank = start(&options);
	uint64_t before = windows_so_far();

	(void)state;
	open_window();
	rank_do(&rank, "launch 5");
	close_window();
	for (int i = 0; i < 3; i++) { /* when due, in advance, and not once more */
		tick(&hurried);
		rank_do(&rank, "launch 3");
		assert_int_equal(enqueue(&rank).launches, i < 2 ? 3 : 0);
		clock_ns += 300 * (int64_t)MS;
		tick(&(struct bpf_launch_wish){0});
	}
	assert_int_equal(windows_so_far(), before + 3);
	rank_end(&rank);
	harness_end(&harness);
}

static const struct message_source *state_of(struct message_source states[BPF_SOURCE_STATES_MAX])
{
	size_t count = bpf_source_states(harness.source, states, BPF_SOURCE_STATES_MAX);

	for (size_t i = 0; i < count; i++) {
		if (strcmp(states[i].name, "bpf.launches") == 0)
			return &states[i];
	}
	fail_msg("bpf.launches has no state");
	return NULL;
}

static void states_are_told(void **state)
{
	struct message_source states[BPF_SOURCE_STATES_MAX];
	struct rank rank = start(&options);

	(void)state;
	tick(&(struct bpf_launch_wish){0});
	assert_int_equal(state_of(states)->state, SOURCE_OFF); /* devices tell their times */
	open_window();
	assert_int_equal(state_of(states)->state, SOURCE_ON);
	/* A pause ends the window. */
	assert_int_equal(bpf_source_pause(harness.source, true), 0);
	assert_int_equal(bpf_source_pause(harness.source, false), 0);
	rank_do(&rank, "launch 1");
	assert_int_equal(enqueue(&rank).window, 0);
	rank_end(&rank);
	harness_end(&harness);
	rank = start(&(struct bpf_source_options){.collectives = true});
	tick(&of_steps);
	assert_int_equal(state_of(states)->state, SOURCE_OFF);
	assert_string_equal(state_of(states)->why, "not asked for");
	rank_end(&rank);
	harness_end(&harness);
}

static struct told_count {
	unsigned count;
	pid_t pid;
	uint64_t launches;
	int64_t length_ns;
} told;

static void on_count(
	void *context, pid_t pid, uint64_t launches, struct host_ns from, struct host_ns until)
{
	struct told_count *counts = context;

	*counts = (struct told_count){counts->count + 1, pid, launches, until.value - from.value};
}

/* A short window of whole steps tells each process that launched in it. */
static void rates_are_told(void **state)
{
	const struct bpf_launch_wish of_rates = {
		.rates = true, .step_ns = 70 * MS, .on_count = on_count, .context = &told};
	struct rank rank = start(&options), idle = rank_start();

	(void)state;
	assert_int_equal(bpf_source_track(harness.source, (uint32_t)idle.pid), 0);
	told = (struct told_count){0};
	clock_ns += 100 * SECOND;
	tick(&of_rates);
	rank_do(&rank, "launch 50");
	clock_ns += 200 * MS; /* 210 is the next whole number of steps */
	tick(&of_rates);
	assert_int_equal(told.count, 0);
	clock_ns += SECOND;
	tick(&of_rates);
	assert_int_equal(told.count, 1); /* nothing is said of the other */
	assert_int_equal(told.pid, rank.pid);
	assert_int_equal(told.launches, 50);
	/* What opening the window took is not in it. */
	assert_true(told.length_ns > 200 * MS && told.length_ns < SECOND + 200 * MS);
	clock_ns += 100 * SECOND;
	tick(&(struct bpf_launch_wish){.on_count = on_count, .context = &told});
	rank_do(&rank, "launch 1");
	assert_int_equal(enqueue(&rank).window, 0); /* not wanted: no window */
	rank_end(&idle);
	rank_end(&rank);
	harness_end(&harness);
}

/* As on kernels without uprobe_multi. */
static void single_uprobes(void **state)
{
	struct bpf_source_options single = options;

	(void)state;
	single.single_uprobes = true;
	struct rank rank = start(&single);

	open_window();
	rank_do(&rank, "launch 9");
	assert_int_equal(enqueue(&rank).launches, 9);
	close_window();
	rank_end(&rank);
	harness_end(&harness);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(counts_in_windows),
		cmocka_unit_test(silence_and_idle),
		cmocka_unit_test(waits_that_include_the_collective),
		cmocka_unit_test(groups_tell_what_the_host_did),
		cmocka_unit_test(messages_are_told),
		cmocka_unit_test(costs_are_kept),
		cmocka_unit_test(one_in_advance),
		cmocka_unit_test(states_are_told),
		cmocka_unit_test(rates_are_told),
		cmocka_unit_test(single_uprobes),
	};
	int result = harness_check();

	return result ? result : cmocka_run_group_tests(tests, NULL, NULL);
}
