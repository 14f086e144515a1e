/* SPDX-License-Identifier: Apache-2.0 */
/* Jobs that stop: who is missing, who only waits, when it is told, and that it ends. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/report/text.h"
#include "tests/golden/made_stacks.h"
#include "tests/unit/coordinator/made_batch.h"

enum { RANKS = 4, STEPS = 30, STEP_MS = 100, WORLD = 77, PAIR = 88 };
#define MS INT64_C(1000000)

struct told {
	unsigned alerts, updates, recoveries;
	struct verdict last;
};

static void on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	struct told *told = context;

	told->alerts += event == VERDICT_EVENT_ALERT;
	told->updates += event == VERDICT_EVENT_UPDATE;
	told->recoveries += event == VERDICT_EVENT_RECOVERED;
	told->last = *verdict;
}

static struct message_batch *batch_new(uint64_t number, int64_t now_ns)
{
	struct message_batch *batch = made_batch(5, 6, number);

	batch->sent.value = now_ns;
	return batch;
}

/* Ranks 0 and 1 share a communicator besides the world's. */
static void announce(struct message_batch *batch)
{
	made_batch_announce(batch, RANKS, 2);
	for (uint32_t r = 0; r < RANKS; r++) {
		made_batch_add_communicator(batch, r, WORLD, RANKS, r);
		if (r < 2)
			made_batch_add_communicator(batch, r, PAIR, 2, r);
	}
}

static void add_steps(struct message_batch *batch, uint64_t step, int64_t start_ns, int64_t step_ms)
{
	batch->steps = calloc(RANKS, sizeof(*batch->steps));
	for (uint32_t r = 0; r < RANKS; r++) {
		struct step_entry *entry = &batch->steps[batch->step_count++];

		*entry = (struct step_entry){.rank = r,
			.index = step,
			.signature = 1,
			.start.value = start_ns,
			.end.value = start_ns + step_ms * MS,
			.compute_ns = (step_ms - 10) * MS,
			.comm_ns = 10 * MS,
			.part_count = 1,
			.parts = calloc(1, sizeof(struct collective_part))};
		entry->parts[0] = (struct collective_part){.communicator_id = WORLD,
			.sequence = step,
			.arrival.value = start_ns + (step_ms - 10) * MS,
			.departure.value = start_ns + step_ms * MS,
			.root = STEP_ROOT_NONE,
			.operation = OPERATION_ALL_REDUCE};
	}
}

static void push(struct pipeline *pipeline, struct message_batch *batch)
{
	struct message_reply reply;

	made_batch_push(pipeline, batch, (struct job_ns){batch->sent.value}, &reply);
}

/* A healthy job up to step STEPS; returns the time then, and the next batch's number. */
static int64_t run_steps(struct pipeline *pipeline, uint64_t *number, int64_t step_ms)
{
	int64_t now_ns = 1000 * MS;

	for (uint64_t step = 0; step < STEPS; step++) {
		struct message_batch *batch = batch_new((*number)++, now_ns + step_ms * MS);

		if (step == 0)
			announce(batch);
		add_steps(batch, step, now_ns, step_ms);
		push(pipeline, batch);
		now_ns += step_ms * MS;
	}
	return now_ns;
}

static int64_t run_healthy(struct pipeline *pipeline, uint64_t *number)
{
	return run_steps(pipeline, number, STEP_MS);
}

static void add_call(
	struct message_batch *batch, uint32_t rank, uint64_t communicator, int64_t since_ns)
{
	if (!batch->open_calls)
		batch->open_calls = calloc(RANKS, sizeof(*batch->open_calls));
	batch->open_calls[batch->open_call_count++] = (struct message_open_call){.rank = rank,
		.communicator_id = communicator,
		.sequence = communicator == WORLD ? STEPS : 0,
		.arrival.value = since_ns,
		.operation = OPERATION_ALL_REDUCE};
}

static struct pipeline *create(struct told *told)
{
	struct pipeline_options options = {on_verdict, told};
	struct pipeline *pipeline;

	memset(told, 0, sizeof(*told));
	assert_int_equal(pipeline_create(&options, &pipeline), 0);
	return pipeline;
}

static struct message_open_call *last_call(struct message_batch *batch)
{
	return &batch->open_calls[batch->open_call_count - 1];
}

static void place(struct message_batch *batch, uint32_t rank, enum open_call_kind kind, char state,
	const char *where, int64_t since_ns)
{
	add_call(batch, rank, 0, since_ns);
	last_call(batch)->kind = (uint8_t)kind;
	last_call(batch)->state = (uint8_t)state;
	snprintf(last_call(batch)->where, sizeof(last_call(batch)->where), "%s", where);
}

/* A second since all but rank 1 came; what rank 1 does is told when it has not moved for a while. */
static struct message_batch *stuck_batch(
	uint64_t number, int64_t stuck_ns, int second, char state, const char *where)
{
	struct message_batch *batch = batch_new(number, stuck_ns + second * 1000 * MS);

	for (uint32_t r = 0; r < RANKS; r++) {
		if (r != 1)
			add_call(batch, r, WORLD, stuck_ns + 90 * MS);
		else if (second > 2)
			place(batch, r, OPEN_CALL_NONE, state, where, stuck_ns);
	}
	return batch;
}

static void missing_rank(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number), now_ns = stuck_ns;

	(void)state;
	for (int second = 1; second <= 8; second++) {
		now_ns = stuck_ns + second * 1000 * MS;
		push(pipeline, stuck_batch(number++, stuck_ns, second, 'S', "pipe_read"));
		/* five seconds in the call, and not before */
		assert_int_equal(told.alerts, second >= 6);
	}
	assert_int_equal(told.last.verdict_class, VERDICT_HANG);
	assert_int_equal(told.last.rank_count, 1);
	assert_int_equal(told.last.ranks[0], 1);
	assert_int_equal(told.last.victim_count, 3);
	assert_int_equal(told.last.onset.value, stuck_ns + 90 * MS);
	assert_non_null(strstr(told.last.evidence[0].detail, "entered by 3 of 4"));
	assert_non_null(strstr(told.last.evidence[1].detail, "rank 1 last left all-reduce 29"));
	assert_int_equal(told.last.hang.communicator_id, WORLD);
	assert_int_equal(told.last.hang.sequence, STEPS);
	assert_int_equal(told.last.hang.operation, OPERATION_ALL_REDUCE);
	assert_int_equal(told.last.hang.entered, 3);
	assert_int_equal(told.last.hang.members, RANKS);
	/* It goes on. */
	push(pipeline, batch_new(number++, now_ns + 2000 * MS));
	assert_int_equal(told.recoveries, 1);
	assert_int_equal(told.last.ended, 1);
	assert_true(told.last.end.value > told.last.alert.value);
	assert_int_equal(told.updates, 0);
	pipeline_destroy(pipeline);
}

/* A look at a rank at once, and in which function it is. */
static void add_look(struct message_batch *batch, uint32_t rank, const char *function)
{
	static struct made_stacks made;
	uint32_t thread, none;

	made_stacks_begin(&made, rank, 0);
	made.profile.start.value = made.profile.stop.value = batch->sent.value;
	thread = made_stacks_thread(&made, STACK_THREAD_CALLER, 9, 9, "train");
	none = made_stacks_segment(&made, 0, OPERATION_UNKNOWN, false);
	made_stacks_add(&made, thread, none, STACK_STATE_FILE, 0,
		(struct made_frame[MADE_FRAMES_MAX]){
			{STACK_FRAME_PYTHON, "/a/train.py", 12, function},
			{STACK_FRAME_WAIT, "/ckpt", 0, "fsync"}});
	batch->stack_profiles = calloc(1, sizeof(*batch->stack_profiles));
	batch->stack_profiles[batch->stack_profile_count++] = stack_profile_copy(&made.profile);
}

/* What ranks of a hang are in is told when it is known: of who is missing, and of who waits. */
static void stacks_are_told(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number), now_ns = stuck_ns;
	char line[REPORT_SENTENCE_LENGTH];

	(void)state;
	for (int second = 1; second <= 8; second++) {
		struct message_batch *batch = stuck_batch(number++, stuck_ns, second, 'D', "");

		now_ns = stuck_ns + second * 1000 * MS;
		if (second == 3 || second == 7)
			add_look(batch, 1, second == 3 ? "before" : "save");
		if (second == 8)
			add_look(batch, 0, "all_reduce");
		push(pipeline, batch);
		assert_int_equal(told.updates, second == 7 ? 1 : second == 8 ? 2 : 0);
	}
	assert_int_equal(told.alerts, 1);
	report_alert_line(pipeline_report(pipeline), VERDICT_EVENT_UPDATE, &told.last, line);
	assert_non_null(strstr(line, "; rank 1: [waiting: fsync /ckpt] in save (train.py:12); "
				     "rank 0: [waiting: fsync /ckpt] in all_reduce"));
	/* It goes on: a look that comes late is no news. */
	push(pipeline, batch_new(number++, now_ns + 2000 * MS));
	assert_int_equal(told.recoveries, 1);
	report_alert_line(pipeline_report(pipeline), VERDICT_EVENT_RECOVERED, &told.last, line);
	assert_null(strstr(line, "save"));
	struct message_batch *batch = batch_new(number++, now_ns + 3000 * MS);

	add_look(batch, 1, "late");
	push(pipeline, batch);
	assert_int_equal(told.updates, 2);
	pipeline_destroy(pipeline);
}

/* Rank 0 is missing in the world's call because it waits for rank 1 in their own. */
static void walked_upstream(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

	(void)state;
	add_call(batch, 0, PAIR, stuck_ns + 50 * MS);
	add_call(batch, 2, WORLD, stuck_ns + 20 * MS);
	add_call(batch, 3, WORLD, stuck_ns + 20 * MS);
	batch->ranks = calloc(1, sizeof(*batch->ranks));
	batch->ranks[batch->rank_count++] = (struct message_rank){
		.rank = 1, .world_size = RANKS, .pid = 101, .exited = 1, .exit_code = 9};
	push(pipeline, batch);
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.last.rank_count, 1);
	assert_int_equal(told.last.ranks[0], 1);
	assert_int_equal(told.last.victim_count, 3);
	assert_non_null(strstr(told.last.evidence[1].detail, "rank 1 has ended with status 9"));
	pipeline_destroy(pipeline);
}

/* What the launcher ended when it had lost a rank is not why; where it was asked to end all that ended, they are. */
static void the_lost_not_the_ended(void **state)
{
	static const int32_t codes[][2] = {
		{128 + SIGKILL, 128 + SIGTERM}, {128 + SIGTERM, 1}, {128 + SIGTERM, 128 + SIGTERM}};

	(void)state;
	for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
		struct told told;
		struct pipeline *pipeline = create(&told);
		uint64_t number = 0;
		int64_t stuck_ns = run_healthy(pipeline, &number);
		struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

		add_call(batch, 0, WORLD, stuck_ns + 20 * MS);
		add_call(batch, 1, WORLD, stuck_ns + 20 * MS);
		batch->ranks = calloc(2, sizeof(*batch->ranks));
		for (uint32_t r = 2; r < 4; r++)
			batch->ranks[batch->rank_count++] = (struct message_rank){.rank = r,
				.world_size = RANKS,
				.pid = 100 + r,
				.exited = 1,
				.exit_code = codes[i][r - 2]};
		push(pipeline, batch);
		assert_int_equal(told.alerts, 1);
		assert_int_equal(told.last.rank_count, i == 2 ? 2 : 1);
		assert_int_equal(told.last.ranks[0], i == 1 ? 3 : 2);
		pipeline_destroy(pipeline);
	}
}

/* A long call that all have entered is slow, but nobody is missing. */
static void nobody_is_missing(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

	(void)state;
	for (uint32_t r = 0; r < RANKS; r++)
		add_call(batch, r, WORLD, stuck_ns + 50 * MS);
	push(pipeline, batch);
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.last.verdict_class, VERDICT_HANG);
	assert_int_equal(told.last.rank_count, 0);
	assert_non_null(strstr(told.last.evidence[0].detail, "entered by 4 of 4"));
	pipeline_destroy(pipeline);
}

/* One is stopped, one waits in a receive, for it in truth: the first is named, with its state. */
static void receiver_only_waits(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

	(void)state;
	add_call(batch, 0, WORLD, stuck_ns + 20 * MS);
	place(batch, 1, OPEN_CALL_POINT_TO_POINT, 'R', "MPI_Recv", stuck_ns + 30 * MS);
	place(batch, 2, OPEN_CALL_NONE, 'S', "hrtimer_nanosleep", stuck_ns);
	add_call(batch, 3, WORLD, stuck_ns + 20 * MS);
	push(pipeline, batch);
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.last.rank_count, 1);
	assert_int_equal(told.last.ranks[0], 2);
	assert_int_equal(told.last.victim_count, 3);
	assert_non_null(strstr(told.last.evidence[0].detail, "entered by 2 of 4"));
	assert_non_null(strstr(
		told.last.evidence[1].detail, "in its own work, asleep in hrtimer_nanosleep"));
	pipeline_destroy(pipeline);
}

/* Whom a receiver waits for is not known: while somebody moves, it may be that one. */
static void somebody_moves(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

	(void)state;
	add_call(batch, 0, WORLD, stuck_ns + 20 * MS);
	place(batch, 1, OPEN_CALL_POINT_TO_POINT, 'R', "MPI_Recv", stuck_ns + 30 * MS);
	place(batch, 2, OPEN_CALL_POINT_TO_POINT, 'R', "MPI_Recv", stuck_ns);
	push(pipeline, batch);
	assert_int_equal(told.alerts, 0);
	pipeline_destroy(pipeline);
}

static void stall(struct message_batch *batch, uint64_t sequence, int64_t launched_ns)
{
	last_call(batch)->stall = (struct message_stall){.communicator_id = 9,
		.sequence = sequence,
		.launched.value = launched_ns,
		.calls = 2,
		.operation = OPERATION_ALL_GATHER,
		.threads = 5,
		.cpu_ms = 10,
		.over_ms = 4000,
		.wait_channel = "pipe_read"};
}

/* What stands still is kept for the report; of whom nobody could see, nothing is made. */
static void what_stands_still_is_kept(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);
	const struct report_model *model;

	(void)state;
	for (uint32_t r = 0; r < 3; r++) {
		place(batch, r, r == 1 ? OPEN_CALL_UNSEEN : OPEN_CALL_DEVICE_WAIT, 'S', "",
			stuck_ns);
		stall(batch, r == 1 ? 7 : 8, stuck_ns + 10 * MS);
	}
	push(pipeline, batch);
	assert_int_equal(told.alerts, 0);
	model = pipeline_report(pipeline);
	assert_non_null(model);
	assert_null(model->ranks[3].stall);
	for (uint32_t r = 0; r < 3; r++) {
		const struct report_stall *kept = model->ranks[r].stall;

		assert_non_null(kept);
		assert_int_equal(kept->kind, r == 1 ? OPEN_CALL_UNSEEN : OPEN_CALL_DEVICE_WAIT);
		assert_int_equal(kept->told.sequence, r == 1 ? 7 : 8);
		assert_int_equal(kept->seen.value - kept->launched.value, 8990 * MS);
		assert_string_equal(kept->told.wait_channel, "pipe_read");
	}
	pipeline_destroy(pipeline);
}

/* One batch in which rank 2 is held, the others in no call; what is said of rank 3 is the case's. */
static void held_with(struct told *told, enum open_call_kind kind, char state, bool listed)
{
	struct pipeline *pipeline = create(told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

	place(batch, 0, OPEN_CALL_NONE, 'S', "futex_do_wait", stuck_ns);
	place(batch, 1, OPEN_CALL_NONE, 'R', "", stuck_ns);
	place(batch, 2, OPEN_CALL_NONE, 'T', "do_signal_stop", stuck_ns);
	if (listed) {
		place(batch, 3, kind, state, "", stuck_ns);
		stall(batch, 8, stuck_ns + 10 * MS);
	}
	push(pipeline, batch);
	pipeline_destroy(pipeline);
}

/* The others wait where no hook is, one's host runs ahead of its device: it is the held one that is missing. */
static void held_while_nobody_moves(void **state)
{
	struct told told;

	(void)state;
	for (int i = 0; i < 2; i++) {
		held_with(&told, i ? OPEN_CALL_NONE : OPEN_CALL_UNSEEN, 'S', true);
		assert_int_equal(told.alerts, 1);
		assert_int_equal(told.last.verdict_class, VERDICT_HANG);
		assert_int_equal(told.last.rank_count, 1);
		assert_int_equal(told.last.ranks[0], 2);
		assert_int_equal(told.last.victim_count, 3);
		assert_non_null(strstr(told.last.evidence[0].detail, "3 others stand still, too"));
		assert_non_null(strstr(told.last.evidence[1].detail, "stopped by a signal"));
	}
}

/* Somebody moves: the held one holds nobody up so far. */
static void held_while_one_moves(void **state)
{
	struct told told;

	(void)state;
	held_with(&told, OPEN_CALL_NONE, 'S', false);
	assert_int_equal(told.alerts, 0);
}

/* A job that is suspended waits for nobody. */
static void all_are_held(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

	(void)state;
	for (uint32_t r = 0; r < RANKS; r++)
		place(batch, r, OPEN_CALL_NONE, 'T', "do_signal_stop", stuck_ns);
	push(pipeline, batch);
	assert_int_equal(told.alerts, 0);
	pipeline_destroy(pipeline);
}

/* All have entered, one was stopped there: it is the reason, also while the call goes on when it runs again. */
static void stopped_inside(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);

	(void)state;
	for (int second = 9; second <= 10; second++) {
		struct message_batch *batch = batch_new(number++, stuck_ns + second * 1000 * MS);

		for (uint32_t r = 0; r < RANKS; r++) {
			add_call(batch, r, WORLD, stuck_ns + 50 * MS);
			last_call(batch)->state = r == 3 && second == 9 ? 'T' : 'R';
		}
		push(pipeline, batch);
	}
	push(pipeline, batch_new(number++, stuck_ns + 11000 * MS));
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.updates, 0);
	assert_int_equal(told.recoveries, 1);
	assert_int_equal(told.last.rank_count, 1);
	assert_int_equal(told.last.ranks[0], 3);
	assert_int_equal(told.last.victim_count, 3);
	assert_true(told.last.evidence[0].overlap_ms_per_step > 9900);
	assert_non_null(strstr(told.last.evidence[1].detail, "stopped by a signal"));
	pipeline_destroy(pipeline);
}

/* Two that sleep are both named, each with where it is. */
static void two_are_missing(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

	(void)state;
	add_call(batch, 0, WORLD, stuck_ns + 20 * MS);
	add_call(batch, 1, WORLD, stuck_ns + 20 * MS);
	place(batch, 2, OPEN_CALL_NONE, 'D', "nfs_wait", stuck_ns);
	place(batch, 3, OPEN_CALL_NONE, 'R', "", stuck_ns);
	push(pipeline, batch);
	assert_int_equal(told.last.rank_count, 2);
	assert_int_equal(told.last.ranks[0], 2);
	assert_int_equal(told.last.evidence_count, 3);
	assert_non_null(strstr(told.last.evidence[1].detail, "blocked in nfs_wait"));
	assert_non_null(strstr(told.last.evidence[2].detail, "rank 3 last left"));
	pipeline_destroy(pipeline);
}

/* Hosts that wait for their devices: a long kernel, or a rank that never launched its own. */
static void device_waits(void **state)
{
	(void)state;
	for (int outside = 0; outside < 2; outside++) {
		struct told told;
		struct pipeline *pipeline = create(&told);
		uint64_t number = 0;
		int64_t stuck_ns = run_healthy(pipeline, &number);
		struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

		for (uint32_t r = 0; r < RANKS; r++)
			place(batch, r, r == 1 && outside ? OPEN_CALL_NONE : OPEN_CALL_DEVICE_WAIT,
				'S', "cudaStreamSynchronize", stuck_ns);
		push(pipeline, batch);
		assert_int_equal(told.alerts, outside);
		if (outside) {
			assert_int_equal(told.last.rank_count, 1);
			assert_int_equal(told.last.ranks[0], 1);
		}
		pipeline_destroy(pipeline);
	}
}

/* Who should come has just left another collective: it goes on, if slowly. */
static void slow_is_no_hang(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t now_ns = run_healthy(pipeline, &number), stuck_ns = now_ns - STEP_MS * MS;
	struct message_batch *batch = batch_new(number++, now_ns + 1000 * MS);

	(void)state;
	for (uint32_t r = 0; r + 1 < RANKS; r++)
		add_call(batch, r, WORLD, stuck_ns - 8000 * MS);
	push(pipeline, batch);
	assert_int_equal(told.alerts, 0);
	pipeline_destroy(pipeline);
}

enum {
	DEVICE = 99,
	OTHER = 111
}; /* calls of devices: of all, and of another kind, which only some made */

static void announce_devices(
	struct pipeline *pipeline, uint64_t *number, int64_t now_ns, bool other)
{
	struct message_batch *batch = batch_new((*number)++, now_ns);

	made_batch_announce(batch, RANKS, 2);
	for (uint32_t r = 0; r < RANKS; r++)
		made_batch_add_communicator(batch, r, DEVICE, RANKS, r);
	if (other)
		made_batch_add_communicator(batch, 1, OTHER, RANKS, 1);
	push(pipeline, batch);
}

/* A host that runs ahead of its device, which is in a call since then. */
static void place_device(struct message_batch *batch, uint32_t rank, uint64_t communicator,
	int64_t since_ns, bool started)
{
	place(batch, rank, OPEN_CALL_UNSEEN, 'R', "", batch->sent.value - 100 * MS);
	last_call(batch)->stall = (struct message_stall){.communicator_id = communicator,
		.sequence = communicator == DEVICE ? 7 : 0,
		.launched.value = since_ns,
		.calls = 3,
		.operation = communicator == DEVICE ? OPERATION_ALL_GATHER : OPERATION_REDUCE,
		.started = started,
		.threads = 4};
}

/* Everybody but rank 1 is in the device's call; what rank 1 does is in *stall. */
static struct message_batch *all_but_one(uint64_t number, int64_t now_ns, int64_t since_ns,
	bool started, char state, const struct message_stall *stall)
{
	struct message_batch *batch = batch_new(number, now_ns);

	for (uint32_t r = 0; r < RANKS; r++) {
		if (r != 1)
			place_device(batch, r, DEVICE, since_ns, started);
	}
	place(batch, 1, OPEN_CALL_NONE, state, "", since_ns);
	last_call(batch)->stall = *stall;
	return batch;
}

/* Hosts run ahead: who is missing is told by the devices. It runs without an end, or sleeps. */
static void devices_tell(void **state)
{
	(void)state;
	for (int asleep = 0; asleep < 2; asleep++) {
		struct told told;
		struct pipeline *pipeline = create(&told);
		struct message_stall stall = {.threads = 3, .wait_channel = "pipe_read"};
		uint64_t number = 0;
		int64_t stuck_ns = run_healthy(pipeline, &number);

		announce_devices(pipeline, &number, stuck_ns, false);
		for (uint64_t second = 2; second <= 6; second++) {
			stall.over_ms = 1000 * (second - 2);
			stall.cpu_ms = asleep ? 0 : stall.over_ms;
			push(pipeline, all_but_one(number++, stuck_ns + (int64_t)second * 1000 * MS,
					       stuck_ns, true, asleep ? 'S' : 'R', &stall));
			assert_int_equal(told.alerts, second >= 5);
		}
		assert_int_equal(told.last.rank_count, 1);
		assert_int_equal(told.last.ranks[0], 1);
		assert_int_equal(told.last.victim_count, 3);
		assert_int_equal(told.last.hang.communicator_id, DEVICE);
		assert_int_equal(told.last.hang.sequence, 7);
		assert_int_equal(told.last.hang.operation, OPERATION_ALL_GATHER);
		assert_non_null(strstr(told.last.evidence[0].detail,
			"all-gather 7 of communicator 0000000000000063 entered by 3 of 4"));
		assert_non_null(strstr(told.last.evidence[1].detail,
			asleep ? "in its own work, asleep in pipe_read, 0.0 s of CPU time in"
			       : "in its own work, running, 3.0 s of CPU time in 3.0 s"));
		pipeline_destroy(pipeline);
	}
}

/*
 * A rank that was stopped goes on: its device has calls to end that were launched long ago, but it has waited in them only
 * since then. The verdict keeps its name.
 */
static void goes_on(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	const struct message_stall stall = {.threads = 3};
	struct message_batch *batch;
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number), now_ns = stuck_ns;

	(void)state;
	announce_devices(pipeline, &number, stuck_ns, false);
	for (uint64_t second = 2; second <= 7; second++) {
		now_ns = stuck_ns + (int64_t)second * 1000 * MS;
		push(pipeline, all_but_one(number++, now_ns, stuck_ns, true, 'T', &stall));
	}
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.last.ranks[0], 1);
	for (int look = 1; look <= 2; look++) {
		batch = batch_new(number++, now_ns + look * 1000 * MS);
		for (uint32_t r = 0; r < RANKS; r++) {
			place_device(batch, r, DEVICE, stuck_ns - 100 * MS, true);
			last_call(batch)->stall.sequence = r == 1 ? 6 : 7;
		}
		push(pipeline, batch);
	}
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.last.rank_count, 1);
	assert_int_equal(told.last.ranks[0], 1);
	pipeline_destroy(pipeline);
}

/* Devices that have not begun the call have other work: nobody waits in it yet. */
static void devices_are_busy(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	struct message_stall stall = {.threads = 3};
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);

	(void)state;
	announce_devices(pipeline, &number, stuck_ns, false);
	push(pipeline, all_but_one(number++, stuck_ns + 9000 * MS, stuck_ns, false, 'R', &stall));
	assert_int_equal(told.alerts, 0);
	/* They begin: from then on they wait. */
	push(pipeline, all_but_one(number++, stuck_ns + 10000 * MS, stuck_ns, true, 'R', &stall));
	assert_int_equal(told.alerts, 0);
	push(pipeline, all_but_one(number++, stuck_ns + 14500 * MS, stuck_ns, true, 'R', &stall));
	assert_int_equal(told.alerts, 1);
	pipeline_destroy(pipeline);
}

/* A job that has no usual step yet compiles, perhaps: only who cannot go on is told. */
static void first_step(void **state)
{
	(void)state;
	for (int stopped = 0; stopped < 2; stopped++) {
		struct told told;
		struct pipeline *pipeline = create(&told);
		struct message_stall stall = {.threads = 3};
		struct message_batch *batch = batch_new(0, 1000 * MS);
		uint64_t number = 1;

		announce(batch);
		push(pipeline, batch);
		announce_devices(pipeline, &number, 1000 * MS, false);
		push(pipeline, all_but_one(number++, 62000 * MS, 2000 * MS, true,
				       stopped ? 'T' : 'R', &stall));
		assert_int_equal(told.alerts, stopped);
		push(pipeline, all_but_one(number++, 303000 * MS, 2000 * MS, true,
				       stopped ? 'T' : 'R', &stall));
		assert_int_equal(told.alerts, 1);
		pipeline_destroy(pipeline);
	}
}

/* Who writes works, for as long as it does; who begins other calls (an evaluation), too. */
static void work_is_no_hang(void **state)
{
	(void)state;
	for (int evaluates = 0; evaluates < 2; evaluates++) {
		struct told told;
		struct pipeline *pipeline = create(&told);
		struct message_stall stall = {.threads = 3};
		uint64_t number = 0;
		int64_t stuck_ns = run_healthy(pipeline, &number), now_ns = stuck_ns;

		announce_devices(pipeline, &number, stuck_ns, false);
		for (int second = 2; second <= 60; second++) {
			now_ns = stuck_ns + second * 1000 * MS;
			if (evaluates)
				stall.acted_ms = (uint32_t)(second - 1) * 1000;
			else
				stall.io_bytes += 2 << 20;
			push(pipeline, all_but_one(number++, now_ns, stuck_ns, true,
					       second % 2 ? 'D' : 'R', &stall));
			assert_int_equal(told.alerts, 0);
		}
		/* It has ended with that, and does not come. */
		push(pipeline,
			all_but_one(number++, now_ns + 5500 * MS, stuck_ns, true, 'S', &stall));
		assert_int_equal(told.alerts, 1);
		pipeline_destroy(pipeline);
	}
}

/* One that is alive may take ten usual steps, one that is stopped may not. */
static void usual_steps(void **state)
{
	(void)state;
	for (int stopped = 0; stopped < 2; stopped++) {
		struct told told;
		struct pipeline *pipeline = create(&told);
		struct message_stall stall = {.threads = 3};
		uint64_t number = 0;
		int64_t stuck_ns = run_steps(pipeline, &number, 2000);

		announce_devices(pipeline, &number, stuck_ns, false);
		push(pipeline, all_but_one(number++, stuck_ns + 6000 * MS, stuck_ns, true,
				       stopped ? 'T' : 'S', &stall));
		assert_int_equal(told.alerts, stopped);
		push(pipeline, all_but_one(number++, stuck_ns + 19000 * MS, stuck_ns, true,
				       stopped ? 'T' : 'S', &stall));
		assert_int_equal(told.alerts, stopped);
		push(pipeline, all_but_one(number++, stuck_ns + 21000 * MS, stuck_ns, true,
				       stopped ? 'T' : 'S', &stall));
		assert_int_equal(told.alerts, 1);
		pipeline_destroy(pipeline);
	}
}

/* One called what nobody else did: the others wait for it, and it for them. */
static void another_call(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch;

	(void)state;
	announce_devices(pipeline, &number, stuck_ns, true);
	batch = batch_new(number++, stuck_ns + 9000 * MS);
	for (uint32_t r = 0; r < RANKS; r++)
		place_device(batch, r, r == 1 ? OTHER : DEVICE, stuck_ns, true);
	push(pipeline, batch);
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.last.rank_count, 1);
	assert_int_equal(told.last.ranks[0], 1);
	assert_non_null(strstr(told.last.evidence[0].detail, "entered by 3 of 4"));
	assert_non_null(strstr(
		told.last.evidence[1].detail, "in reduce 0 of communicator 000000000000006f"));
	pipeline_destroy(pipeline);
}

/* The missing one's node went silent; another probe has taken over the ranks of the others. */
static void silent_node(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = made_batch(50, 6, 0);

	(void)state;
	announce_devices(pipeline, &number, stuck_ns, false);
	batch->sent.value = stuck_ns + 6000 * MS;
	made_batch_announce(batch, RANKS, 1);
	batch->ranks[1] = batch->ranks[--batch->rank_count]; /* all but rank 1 */
	for (uint32_t r = 0; r < RANKS; r++) {
		if (r != 1)
			place_device(batch, r, DEVICE, stuck_ns, true);
	}
	push(pipeline, batch);
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.last.rank_count, 1);
	assert_int_equal(told.last.ranks[0], 1);
	assert_non_null(strstr(told.last.evidence[1].detail, "nothing was heard of it for"));
	pipeline_destroy(pipeline);
}

/* Who is no member of the communicator is not missing there, whatever it does. */
static void no_member(void **state)
{
	struct told told;
	struct pipeline *pipeline = create(&told);
	uint64_t number = 0;
	int64_t stuck_ns = run_healthy(pipeline, &number);
	struct message_batch *batch = batch_new(number++, stuck_ns + 9000 * MS);

	(void)state;
	add_call(batch, 0, PAIR, stuck_ns + 50 * MS);
	for (uint32_t r = 1; r < RANKS; r++)
		place(batch, r, OPEN_CALL_NONE, 'S', "pipe_read", stuck_ns);
	push(pipeline, batch);
	assert_int_equal(told.alerts, 1);
	assert_int_equal(told.last.rank_count, 1);
	assert_int_equal(told.last.ranks[0], 1);
	assert_non_null(strstr(told.last.evidence[0].detail, "entered by 1 of 2"));
	pipeline_destroy(pipeline);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(missing_rank),
		cmocka_unit_test(stacks_are_told),
		cmocka_unit_test(walked_upstream),
		cmocka_unit_test(the_lost_not_the_ended),
		cmocka_unit_test(nobody_is_missing),
		cmocka_unit_test(receiver_only_waits),
		cmocka_unit_test(somebody_moves),
		cmocka_unit_test(what_stands_still_is_kept),
		cmocka_unit_test(held_while_nobody_moves),
		cmocka_unit_test(held_while_one_moves),
		cmocka_unit_test(all_are_held),
		cmocka_unit_test(stopped_inside),
		cmocka_unit_test(two_are_missing),
		cmocka_unit_test(device_waits),
		cmocka_unit_test(slow_is_no_hang),
		cmocka_unit_test(devices_tell),
		cmocka_unit_test(goes_on),
		cmocka_unit_test(devices_are_busy),
		cmocka_unit_test(first_step),
		cmocka_unit_test(work_is_no_hang),
		cmocka_unit_test(usual_steps),
		cmocka_unit_test(another_call),
		cmocka_unit_test(silent_node),
		cmocka_unit_test(no_member),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
