/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs on devices of which mostly the hosts' times are known: who is told, and who must not be. Each rank
 * is a host that launches and a device that works off what was launched; both are simulated, the
 * pipeline is given what slowrank sees of the host.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "coordinator/report/sheets.h"
#include "tests/unit/coordinator/made_batch.h"

enum { RANKS = 4, STEPS = 400, FIRST = 150, CULPRIT = 2, LAUNCHES = 200, STEPS_PER_BATCH = 8 };
enum { LOOK_EVERY = 40, LOOK_STEPS = 6 };
#define MS 1e6
#define COMMUNICATOR UINT64_C(77)

struct program {
	double host_ms;		    /* of launching */
	double device_ms;	    /* of what is launched */
	bool reads_loss;	    /* the host waits for its device before the collective */
	bool groups;		    /* the halves meet, not all */
	bool device_times;	    /* of the collectives are known */
	bool looked_at;		    /* launches are counted now and then */
	unsigned first;		    /* step of the fault's begin, to the end */
	double input_ms;	    /* the culprit's host sleeps before it launches, */
	double pause_ms;	    /* or when half is launched, */
	double device_longer;	    /* or its device takes that many times longer */
	unsigned bout, every;	    /* so many steps of so many; 0: all */
	bool two;		    /* ranks, which are at fault by turns */
	double preempted;	    /* share of the hosts' time on the CPU that others take of it */
	bool preempts;		    /* of the pause, too */
	enum off_cpu_reason reason; /* of the pause, by the kernel; OFF_CPU_UNKNOWN: not seen */
	uint32_t rival;		    /* long intervals name this process; 0: there are none */
	unsigned settled; /* before this step all devices take half as long again, and the first
				     * rank's host is late for as much more */
	unsigned wanders; /* not 0: from this step on the culprit's host is slower by wander_ms */
	double wander_ms;
};

struct job {
	struct program program;
	uint64_t random;
	double now[RANKS];
	double wait_total[RANKS];
};

static double uniform(struct job *job) /* -1 to 1 */
{
	job->random ^= job->random << 13;
	job->random ^= job->random >> 7;
	job->random ^= job->random << 17;
	return (double)(job->random >> 11) / 4503599627370496.0 - 1;
}

static unsigned group_of(const struct job *job, unsigned rank)
{
	return job->program.groups ? rank / (RANKS / 2) : 0;
}

struct passage {
	double call, ready, wait, gap, pause, fault;
};

static unsigned rank_count(const struct program *program)
{
	return program->two ? 2 : RANKS;
}

static bool at_fault(const struct program *program, unsigned rank, unsigned step)
{
	unsigned since = step - program->first, bout = 0;

	if (step < program->first)
		return false;
	if (program->every) {
		bout = since / program->every;
		since %= program->every;
	}
	return rank == (program->two ? bout % 2 : CULPRIT) && since <= program->bout - 1;
}

/* One rank up to its collective. */
static struct passage pass(struct job *job, unsigned rank, unsigned step)
{
	const struct program *program = &job->program;
	double host = program->host_ms * MS * (1 + 0.02 * uniform(job));
	double device = program->device_ms * MS * (1 + 0.01 * uniform(job));
	double start = job->now[rank], launched, half, free_at;
	struct passage passage = {.gap = 0.05 * MS * (1 + 0.3 * uniform(job))};

	if (step < program->settled) {
		device *= 1.5;
		passage.gap += rank == 0 ? device / 2 : 0;
	}
	if (rank == CULPRIT && program->wanders && step >= program->wanders)
		passage.gap += program->wander_ms * MS;
	if (at_fault(program, rank, step)) {
		passage.gap += program->input_ms * MS;
		passage.pause = program->pause_ms * MS;
		passage.fault = (program->input_ms + program->pause_ms) * MS;
		device *= program->device_longer;
	}
	/* Two halves: each is launched, and worked off as soon as the one before is. */
	half = start + passage.gap + host / 2;
	launched = half + passage.pause + host / 2;
	free_at = start + passage.gap + device / 2;
	if (free_at < half)
		free_at = half;
	if (free_at < half + passage.pause)
		free_at = half + passage.pause;
	passage.ready = free_at + device / 2;
	if (passage.ready < launched)
		passage.ready = launched;
	passage.call = launched;
	if (program->reads_loss) {
		passage.wait = passage.ready - launched;
		passage.call = passage.ready;
	}
	return passage;
}

/* What the kernel tells of the host's time before its call. */
static void fill_activity(
	const struct program *program, const struct passage *passage, struct activity *before)
{
	double busy = (double)before->host_ns - (program->preempts ? 0 : passage->fault);

	before->preempted_ns = (int64_t)(program->preempted * busy);
	if (program->reason == OFF_CPU_PREEMPTED)
		before->preempted_ns += (int64_t)passage->fault;
	if (program->reason == OFF_CPU_MAJOR_FAULT)
		before->major_fault_ns = (int64_t)passage->fault;
	if (program->reason == OFF_CPU_ASLEEP)
		before->asleep_ns = (int64_t)passage->fault;
}

static void fill_entry(struct job *job, struct step_entry *entry, unsigned rank, unsigned step,
	const struct passage *passage, double end)
{
	struct collective_part *part = calloc(1, sizeof(*part));
	double start = job->now[rank];

	*part = (struct collective_part){.communicator_id = COMMUNICATOR + group_of(job, rank),
		.sequence = step,
		.length_bytes = 4096,
		.arrival = {(int64_t)passage->call},
		.departure = {(int64_t)end},
		.root = STEP_ROOT_NONE,
		.operation = OPERATION_ALL_REDUCE,
		.flags = PART_HOST_TIME};
	part->before.host_ns = (int64_t)(passage->call - start - passage->wait);
	if (job->program.device_times) {
		double queued = passage->ready - passage->call;

		part->flags = PART_DEVICE_TIME;
		part->arrival.value = (int64_t)passage->ready;
		part->before.host_ns -= (int64_t)queued;
		if (part->before.host_ns < 0)
			part->before.host_ns = 0;
	}
	fill_activity(&job->program, passage, &part->before);
	*entry = (struct step_entry){.rank = rank,
		.index = step,
		.signature = 7,
		.start = {(int64_t)start},
		.end = {(int64_t)end},
		.part_count = 1,
		.parts = part};
	entry->host_ns = part->before.host_ns;
	entry->compute_ns = entry->end.value - entry->start.value - entry->host_ns;
	if (job->program.looked_at && step % LOOK_EVERY < LOOK_STEPS)
		entry->launches = (struct step_launches){.window = 1,
			.launches = LAUNCHES,
			.silence_ns = (int64_t)(passage->gap + passage->pause),
			.idle_ns = (int64_t)passage->gap,
			.wait_ns = (int64_t)(end - passage->call + passage->wait)};
}

static void simulate_step(struct job *job, struct step_entry *entries, unsigned step)
{
	struct passage passages[RANKS];

	for (unsigned r = 0; r < rank_count(&job->program); r++)
		passages[r] = pass(job, r, step);
	for (unsigned r = 0; r < rank_count(&job->program); r++) {
		double last = 0, end;

		for (unsigned other = 0; other < rank_count(&job->program); other++) {
			if (group_of(job, other) == group_of(job, r) &&
				passages[other].ready > last)
				last = passages[other].ready;
		}
		end = last + 0.4 * MS * (1 + 0.1 * uniform(job));
		fill_entry(job, &entries[r], r, step, &passages[r], end);
		job->now[r] = end;
	}
}

/* A long interval of the culprit for each of its steps at fault, from its begin. */
static void add_interval(const struct job *job, struct message_batch *batch, unsigned step)
{
	const struct program *program = &job->program;
	struct off_cpu_interval *interval = &batch->intervals[batch->interval_count];

	if (!program->rival || !at_fault(program, CULPRIT, step))
		return;
	*interval = (struct off_cpu_interval){.rank = CULPRIT,
		.thread_id = 100 + CULPRIT,
		.start = {(int64_t)job->now[CULPRIT]},
		.end = {(int64_t)(job->now[CULPRIT] + program->input_ms * MS)},
		.other_pid = program->rival,
		.reason = OFF_CPU_PREEMPTED,
		.other_name = "hog"};
	batch->interval_count++;
}

static void announce(const struct job *job, struct message_batch *batch)
{
	uint32_t size = job->program.groups ? RANKS / 2 : rank_count(&job->program);

	made_batch_announce(batch, rank_count(&job->program), 1);
	for (uint32_t r = 0; r < rank_count(&job->program); r++)
		made_batch_add_communicator(
			batch, r, COMMUNICATOR + group_of(job, r), size, r % size);
	made_batch_add_source(batch, "bpf.sched", SOURCE_ON, "");
	made_batch_add_source(batch, "bpf.device_wait", SOURCE_ON, "");
	made_batch_add_source(batch, "bpf.launches", SOURCE_ON, "");
}

/* Runs a job; the verdicts are in the pipeline's report. sheets: NULL, or to say what held ranks back. */
static struct pipeline *run(
	const struct program *program, uint64_t seed, struct report_sheets *sheets)
{
	struct pipeline_options options = {0};
	struct job job = {.program = *program, .random = seed * UINT64_C(0x9e3779b97f4a7c15) | 1};
	struct pipeline *pipeline;
	struct message_reply reply;

	assert_int_equal(pipeline_create(&options, &pipeline), 0);
	if (sheets)
		pipeline_watch_sheets(pipeline, report_sheets_take, sheets);
	for (unsigned r = 0; r < RANKS; r++)
		job.now[r] = 1e9;
	for (unsigned step = 0; step < STEPS; step += STEPS_PER_BATCH) {
		struct message_batch *batch = made_batch(9, 5, step / STEPS_PER_BATCH);

		if (step == 0)
			announce(&job, batch);
		batch->steps = calloc(RANKS * STEPS_PER_BATCH, sizeof(*batch->steps));
		batch->intervals = calloc(STEPS_PER_BATCH, sizeof(*batch->intervals));
		for (unsigned i = 0; i < STEPS_PER_BATCH; i++) {
			add_interval(&job, batch, step + i);
			simulate_step(&job, batch->steps + batch->step_count, step + i);
			batch->step_count += rank_count(program);
		}
		batch->sent.value = (int64_t)job.now[0];
		batch->final = step + STEPS_PER_BATCH >= STEPS;
		made_batch_push(
			pipeline, batch, (struct job_ns){(int64_t)job.now[0] + 1000}, &reply);
	}
	assert_int_equal(pipeline_finish(pipeline), 0);
	return pipeline;
}

static void check(const struct program *program, enum verdict_class wanted, enum cause cause)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		struct pipeline *pipeline = run(program, seed, NULL);
		const struct report_model *model = pipeline_report(pipeline);

		if (!program->groups) /* else the halves drift apart, step by step */
			assert_int_equal(model->totals.steps, STEPS);
		if (wanted == VERDICT_UNKNOWN) {
			assert_int_equal(model->verdict_count, 0);
			assert_true(model->totals.slowdown < 1.001);
		} else {
			assert_int_equal(model->verdict_count, 1);
			assert_int_equal(model->verdicts[0].verdict_class, wanted);
			assert_int_equal(model->verdicts[0].cause, cause);
			assert_int_equal(model->verdicts[0].rank_count, 1);
			assert_int_equal(model->verdicts[0].ranks[0], CULPRIT);
			assert_true(model->verdicts[0].on_device);
			assert_true(model->verdicts[0].first_step + 3 >= program->first);
		}
		pipeline_destroy(pipeline);
	}
}

/* It is not told, and that is why. */
static void check_held(const struct program *program, enum gate gate)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		const struct sheets_wish wish = {.rank = CULPRIT};
		struct report_sheets *sheets = report_sheets_create(&wish);
		struct pipeline *pipeline = run(program, seed, sheets);

		assert_int_equal(pipeline_report(pipeline)->verdict_count, 0);
		assert_string_equal(
			gate_rule(gate_sheet_reach(report_sheets_of(sheets, CULPRIT)))->name,
			gate_rule(gate)->name);
		pipeline_destroy(pipeline);
		report_sheets_destroy(sheets);
	}
}

static const struct program usual = {
	.host_ms = 15, .device_ms = 30, .looked_at = true, .first = FIRST, .device_longer = 1};

static void healthy(void **state)
{
	struct program program = usual;

	(void)state;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
	program.reads_loss = true;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
	program.host_ms = 40; /* the hosts are what limits it */
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
}

/* Its device has nothing to do while the host waits for input: host-slow, from the first step too. */
static void late_input(void **state)
{
	struct program program = usual;

	(void)state;
	program.input_ms = 12;
	check(&program, VERDICT_HOST_SLOW, CAUSE_LAUNCH_GAPS);
	program.first = 0;
	check(&program, VERDICT_HOST_SLOW, CAUSE_LAUNCH_GAPS);
}

/* The host calls as late, but its device is still at work then: nobody waits for it. */
static void hidden_pause(void **state)
{
	struct program program = usual;

	(void)state;
	program.device_ms = 60;
	program.pause_ms = 15;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
	check_held(&program, GATE_LONGER);
	program.first = 0;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
}

/*
 * By the times of devices alone, the last of several hosts is late, and others that are as slow run ahead: late from the first
 * step on, without a reason, it is not told; where the job was faster before, it is.
 */
static void last_of_hosts(void **state)
{
	struct program program = usual;

	(void)state;
	program.looked_at = false;
	program.device_times = true;
	program.host_ms = 10;
	program.device_ms = 20;
	program.input_ms = 20;
	check(&program, VERDICT_HOST_SLOW, CAUSE_UNKNOWN);
	program.first = 0;
	check_held(&program, GATE_WANDERS);
	program.reason = OFF_CPU_MAJOR_FAULT; /* a reason */
	check(&program, VERDICT_HOST_SLOW, CAUSE_MAJOR_PAGE_FAULT);
}

/* A pause amid the launches that the device feels: the steps are longer than they were. */
static void felt_pause(void **state)
{
	struct program program = usual;

	(void)state;
	program.pause_ms = 25;
	program.device_ms = 14;
	check(&program, VERDICT_HOST_SLOW, CAUSE_LAUNCH_GAPS);
}

/* Nobody looked at what was launched: late by the host's times is not enough. */
static void not_looked_at(void **state)
{
	struct program program = usual;

	(void)state;
	program.input_ms = 12;
	program.looked_at = false;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
	check_held(&program, GATE_LAUNCHES);
}

/* The host is ahead, and waits for its device before it calls: the device is slow. */
static void slow_device(void **state)
{
	struct program program = usual;

	(void)state;
	program.reads_loss = true;
	program.device_longer = 1.4;
	check(&program, VERDICT_COMPUTE_SLOW, CAUSE_UNKNOWN);
	program.first = 0;
	check(&program, VERDICT_COMPUTE_SLOW, CAUSE_UNKNOWN);
}

/* Without such a wait all hosts wait alike, for whichever device it is. */
static void slow_device_unseen(void **state)
{
	struct program program = usual;

	(void)state;
	program.device_longer = 1.4;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
}

/* With several groups, what a host waits for may be another rank: not told. */
static void slow_device_in_a_group(void **state)
{
	struct program program = usual;

	(void)state;
	program.reads_loss = true;
	program.groups = true;
	program.device_longer = 1.4;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
}

/* Nobody looked, but the kernel tells what kept the host from running, and the steps are longer for it. */
static void told_by_the_kernel(void **state)
{
	struct program program = usual;

	(void)state;
	program.looked_at = false;
	program.input_ms = 12;
	program.reason = OFF_CPU_MAJOR_FAULT;
	check(&program, VERDICT_HOST_SLOW, CAUSE_MAJOR_PAGE_FAULT);
	program.reason = OFF_CPU_ASLEEP;
	check(&program, VERDICT_HOST_SLOW, CAUSE_INPUT_PIPELINE);
	program.first = 0; /* how long steps are without it is not known */
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
}

/* Workers of a healthy loader fall behind for seconds: to wait for them is no reason, as a page fault is one. */
static void input_that_wanders(void **state)
{
	struct program program = usual;

	(void)state;
	program.looked_at = false;
	program.input_ms = 6;
	program.reason = OFF_CPU_MAJOR_FAULT;
	check(&program, VERDICT_HOST_SLOW, CAUSE_MAJOR_PAGE_FAULT);
	program.reason = OFF_CPU_ASLEEP;
	check_held(&program, GATE_WANDERS);
}

/* The same, while the device is still at work: it costs nothing. */
static void hidden_from_the_job(void **state)
{
	struct program program = usual;

	(void)state;
	program.looked_at = false;
	program.device_ms = 60;
	program.pause_ms = 15;
	program.reason = OFF_CPU_MAJOR_FAULT;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
}

/* A host that waits for room to launch is busy: half of it on the CPU and half preempted, as ever. */
static void busy_on_a_shared_core(void **state)
{
	struct program program = usual;

	(void)state;
	program.looked_at = false;
	program.input_ms = 12;
	program.preempted = 0.5;
	program.preempts = true;
	check(&program, VERDICT_UNKNOWN, CAUSE_UNKNOWN);
}

/* How long the verdicts of a job took, from onset to alert; returns how many there are. */
static size_t slowest_alert(const struct program *program, uint64_t seed, int64_t *slowest_ns)
{
	struct pipeline *pipeline = run(program, seed, NULL);
	const struct report_model *model = pipeline_report(pipeline);
	size_t count = model->verdict_count;

	*slowest_ns = 0;
	for (size_t v = 0; v < count; v++) {
		const struct verdict *verdict = &model->verdicts[v];
		int64_t delay_ns = verdict->alert.value - verdict->onset.value;

		assert_int_equal(verdict->rank_count, 1);
		assert_int_equal(verdict->ranks[0], program->two ? v % 2 : CULPRIT);
		assert_int_equal(verdict->verdict_class, VERDICT_HOST_SLOW);
		if (delay_ns > *slowest_ns)
			*slowest_ns = delay_ns;
	}
	if (program->rival) {
		const char *detail = model->verdicts[0].evidence[0].detail;

		assert_ptr_equal(strstr(detail, "ran instead: hog (pid "), detail);
		assert_int_equal(strstr(detail, "threads of its own") != NULL,
			program->rival == 100 + CULPRIT);
	}
	pipeline_destroy(pipeline);
	return count;
}

/* So many verdicts, each within a second of its onset. */
static void check_told_at_once(const struct program *program, size_t count)
{
	for (uint64_t seed = 1; seed <= 8; seed++) {
		int64_t slowest_ns;

		assert_int_equal(slowest_alert(program, seed, &slowest_ns), count);
		assert_in_range(slowest_ns, 1, 1000000000);
	}
}

/* What was told of is no noise: a fault that comes again is told as soon as the first one was. */
static void again_and_again(void **state)
{
	struct program program = usual;

	(void)state;
	program.looked_at = false;
	program.input_ms = 12;
	program.reason = OFF_CPU_MAJOR_FAULT;
	program.two = true;
	program.first = 80;
	program.bout = 24;
	program.every = 80;
	check_told_at_once(&program, 4);
}

/* Steps that were longer at first, beside a suspect, are not the usual ones. */
static void after_a_slow_start(void **state)
{
	struct program program = usual;

	(void)state;
	program.looked_at = false;
	program.input_ms = 12;
	program.reason = OFF_CPU_MAJOR_FAULT;
	program.settled = 30;
	check_told_at_once(&program, 1);
}

/* A host that had been slower for a while, without a reason that is seen, lends the fault nothing. */
static void on_top_of_a_host_that_wanders(void **state)
{
	struct program program = usual;

	(void)state;
	program.looked_at = false;
	program.input_ms = 12;
	program.reason = OFF_CPU_MAJOR_FAULT;
	program.first = 330;
	program.wanders = 90;
	program.wander_ms = 3.5;
	check_told_at_once(&program, 1);
	program.wanders = 12; /* from nearly the start, so that there is always a suspect */
	program.wander_ms = 5;
	program.settled = 12;
	check_told_at_once(&program, 1);
}

/* Its core is taken by another thread of its own, or by a stranger: that is no quarrel of ranks. */
static void who_took_the_core(void **state)
{
	static const uint32_t rivals[] = {100 + CULPRIT, 5000, 100};
	struct program program = usual;
	int64_t slowest_ns;

	(void)state;
	program.looked_at = false;
	program.input_ms = 12;
	program.preempted = 0.3;
	program.reason = OFF_CPU_PREEMPTED;
	for (size_t i = 0; i < sizeof(rivals) / sizeof(rivals[0]); i++) {
		program.rival = rivals[i];
		assert_int_equal(slowest_alert(&program, 1, &slowest_ns), 1);
		if (rivals[i] == 100)
			assert_true(slowest_ns > 1500000000);
		else
			assert_in_range(slowest_ns, 1, 1200000000);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(healthy),
		cmocka_unit_test(late_input),
		cmocka_unit_test(last_of_hosts),
		cmocka_unit_test(hidden_pause),
		cmocka_unit_test(felt_pause),
		cmocka_unit_test(not_looked_at),
		cmocka_unit_test(slow_device),
		cmocka_unit_test(slow_device_unseen),
		cmocka_unit_test(slow_device_in_a_group),
		cmocka_unit_test(told_by_the_kernel),
		cmocka_unit_test(input_that_wanders),
		cmocka_unit_test(hidden_from_the_job),
		cmocka_unit_test(busy_on_a_shared_core),
		cmocka_unit_test(again_and_again),
		cmocka_unit_test(after_a_slow_start),
		cmocka_unit_test(on_top_of_a_host_that_wanders),
		cmocka_unit_test(who_took_the_core),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
