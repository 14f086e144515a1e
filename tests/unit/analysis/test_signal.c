/* SPDX-License-Identifier: Apache-2.0 */
/* Signals that are made up, without a job: what is usual, when a change is one, and since when. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/detect/periodic.h"
#include "analysis/detect/signal.h"

/* One subject, in steps of equal length, as many in a block as fit. */
struct made {
	struct signal signal;
	struct step_times times;
	struct block block;
	struct excess_sums sums;
	int64_t now_ns, step_ns;
	double noise; /* of a step, as a share; its seed: */
	uint32_t state;
	double of_host; /* the share of its delay that is the host's; the rest is the work's */
	bool told;
	int64_t told_ns; /* then */
};

static struct made *made_new(int64_t step_ns, double noise)
{
	struct made *made = calloc(1, sizeof(*made));

	assert_non_null(made);
	made->step_ns = step_ns;
	made->noise = noise;
	made->state = 1;
	return made;
}

/* 0 to 1 */
static double next_noise(struct made *made)
{
	made->state = made->state * 1664525 + 1013904223;
	return (double)(made->state >> 8) / (1 << 24);
}

static void close_block(struct made *made)
{
	const struct block_loss loss = {.sums = &made->sums, .weight = 1};
	struct change_noise noises[RUN_NR];
	double past[PAST_BLOCKS];

	signal_settle(&made->signal, MACHINES_DIFFER);
	made->signal.level =
		(double)made->sums.delay_ns / (double)made->sums.time_ns - made->signal.usual;
	signal_noises(past, signal_past(&made->signal, past), noises);
	signal_push(&made->signal, &made->block, &loss, noises);
	for (int kind = 0; kind < RUN_NR && !made->told; kind++) {
		made->told = made->signal.settled &&
			     run_is_open(&made->signal, (enum run_kind)kind, NULL) &&
			     run_is_large(&made->signal, &made->times, (enum run_kind)kind,
				     noises[RUN_SLOW].scale, NULL);
		made->told_ns = made->now_ns;
	}
	made->block = (struct block){0};
	made->sums = (struct excess_sums){0};
}

/* A step that takes longer by a share of the usual one, and is late by another. */
static void push_step(struct made *made, double longer, double late)
{
	double noise = made->noise * next_noise(made), step_ns = (double)made->step_ns;
	int64_t length_ns = (int64_t)(step_ns * (1 + longer + noise));
	int64_t lost_ns = (int64_t)(step_ns * (late + noise));
	uint64_t step = step_times_number(&made->times, length_ns, made->block.steps == 0);
	struct excess_sums sums = {.steps = 1, .time_ns = length_ns, .delay_ns = lost_ns};

	sums.own[EXCESS_HOST_CPU] = (int64_t)(made->of_host * (double)lost_ns);
	sums.own[EXCESS_COMPUTE] = lost_ns - sums.own[EXCESS_HOST_CPU];
	if (made->block.steps++ == 0) {
		made->block.first_step = step;
		made->block.start_ns = made->now_ns;
	}
	made->block.end_step = step + 1;
	step_times_note(&made->times, step, made->now_ns, length_ns);
	signal_take_step(&made->signal, &made->times, (double)lost_ns, false);
	made->now_ns += length_ns;
	made->block.time_ns += length_ns;
	excess_add(&made->sums, &sums);
	if (made->block.time_ns + length_ns / 2 >= BLOCK_NS)
		close_block(made);
}

static void push_steps(struct made *made, int count, double longer, double late)
{
	for (int i = 0; i < count; i++)
		push_step(made, longer, late);
}

static uint64_t onset_of(const struct made *made)
{
	const struct run *run = &made->signal.runs[RUN_QUICK];

	return signal_onset(
		&made->signal, &made->times, &made->block, run_begin(run), run_level(run));
}

/* In steps of any length a change is told, within four blocks or four steps, from the step that it began with. */
static void a_change_is_told_and_dated(void **state)
{
	static const int64_t steps_ns[] = {200000, 3000000, 5000000, 40000000, 200000000,
		INT64_C(2000000000), INT64_C(30000000000)};

	(void)state;
	for (size_t i = 0; i < sizeof(steps_ns) / sizeof(steps_ns[0]); i++) {
		struct made *made = made_new(steps_ns[i], 0.02);
		int per_block = (int)(BLOCK_NS / steps_ns[i]) + 1;

		push_steps(made, 16 * per_block, 0, 0);
		assert_false(made->told);

		/* A step, or those that are kept together; slow ones are longer by the fault and the noise. */
		double kept_ns = 1.32 * fmax((double)steps_ns[i], KEPT_STEP_NS);
		int64_t begin_ns = made->now_ns;

		push_steps(made, 5 * per_block, 0.3, 0.3);
		assert_true(made->told);
		assert_true(made->told_ns > begin_ns);
		assert_true((double)(made->told_ns - begin_ns) <=
			    1.32 * (4 * per_block + 1) * (double)steps_ns[i]);
		assert_true((double)llabs(step_start_ns(&made->times, onset_of(made)) - begin_ns) <=
			    kept_ns);
		free(made);
	}
}

/*
 * A host is a little late by itself, when a device becomes slow, or the other way round: as soon as the run is mostly of what came later, it
 * is dated by that. What is of both from its begin keeps its date.
 */
static void a_run_is_dated_by_its_side(void **state)
{
	static const struct {
		double before, after; /* the host's share */
		bool moves;
	} kinds[] = {{0.9, 0.1, true}, {0.1, 0.9, true}, {0.4, 0.1, false}, {0.6, 0.9, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		struct made *made = made_new(40000000, 0.02);
		uint64_t begin, changed;

		push_steps(made, 100, 0, 0);
		begin = made->times.next;
		made->of_host = kinds[i].before;
		push_steps(made, 40, 0.12, 0.12);
		changed = made->times.next;
		made->of_host = kinds[i].after;
		push_steps(made, 50, 0.15, 0.15);
		assert_in_range(onset_of(made), (kinds[i].moves ? changed : begin) - 5,
			(kinds[i].moves ? changed : begin) + 5);
		free(made);
	}
}

/* What rises far above a run that had begun before is a steep run of its own, from there on. */
static void a_rise_has_its_own_begin(void **state)
{
	struct made *made = made_new(40000000, 0.02);
	const struct run *runs = made->signal.runs;
	uint64_t begin;

	(void)state;
	push_steps(made, 200, 0, 0);
	push_steps(made, 60, 0.3, 0.3);
	begin = made->times.next;
	push_steps(made, 30, 2, 2);
	assert_true(runs[RUN_QUICK].first_step < begin - 40);
	assert_in_range(runs[RUN_STEEP].first_step, begin - 5, begin + 5);
	assert_true(run_level(&runs[RUN_STEEP]) > 0.6);
	free(made);
}

/* And as soon as any other change, though it is no large one. */
static void a_rise_is_measured_from_what_was_before(void **state)
{
	struct made *made = made_new(40000000, 0.005);
	const struct run *steep = &made->signal.runs[RUN_STEEP];
	uint64_t begin;

	(void)state;
	push_steps(made, 200, 0, 0);
	push_steps(made, 100, 0.06, 0.06);
	begin = made->times.next;
	push_steps(made, 20, 0.25, 0.25);
	assert_in_range(steep->first_step, begin - 5, begin + 5);
	assert_true(steep->change.sum >= CHANGE_THRESHOLD);
	free(made);
}

/* Two long steps are a change if half of their time was lost; one never is, and two short ones are one block. */
static void two_long_steps_are_enough(void **state)
{
	static const struct {
		int64_t step_ns;
		int steps;
		double late;
		bool told;
	} cases[] = {{100000000, 2, 3, true}, {100000000, 1, 9, false}, {100000000, 2, 1.5, false},
		{20000000, 2, 3, false}};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct made *made = made_new(cases[i].step_ns, 0.02);

		push_steps(made, 100, 0, 0);
		push_steps(made, cases[i].steps, 3, cases[i].late);
		assert_int_equal(made->told, cases[i].told);
		free(made);
	}
}

/* However long the healthy past was, and however small equal noise is. */
static void healthy_signals_are_silent(void **state)
{
	static const double noises[] = {0, 0.01, 0.05, 0.15};

	(void)state;
	for (size_t i = 0; i < sizeof(noises) / sizeof(noises[0]); i++) {
		struct made *made = made_new(40000000, noises[i]);

		push_steps(made, 20000, 0, 0);
		assert_false(made->told);
		free(made);
	}
}

/* One stall, however long, is no change; nor does it lend its level to a small one. */
static void a_stall_is_no_change(void **state)
{
	struct made *made = made_new(40000000, 0.02);

	(void)state;
	push_steps(made, 200, 0, 0);
	push_step(made, 50, 50);
	push_steps(made, 200, 0, 0);
	assert_false(made->told);
	free(made);
}

/* What a subject always lost is usual for it; more than that is not. */
static void what_is_usual_is_learnt(void **state)
{
	struct made *made = made_new(40000000, 0.01);

	(void)state;
	push_steps(made, 400, 0, 0.06);
	assert_false(made->told);
	assert_true(fabs(made->signal.usual - 0.06) < 0.02);
	push_steps(made, 40, 0.2, 0.26);
	assert_true(made->told);
	free(made);
}

/* Lateness that made no step longer is not where a change began. */
static void an_onset_needs_longer_steps(void **state)
{
	struct made *made = made_new(50000000, 0.01);
	uint64_t begin;

	(void)state;
	push_steps(made, 200, 0, 0);
	push_steps(made, 8, 0, 0.4);
	begin = made->times.next;
	push_steps(made, 24, 1, 1);
	assert_true(made->told);
	assert_in_range(onset_of(made), begin - 1, begin + 1);
	free(made);
}

/* Where a fault made most steps longer that are known, a smaller one behind it is dated from where it began, too. */
static void an_onset_is_found_behind_a_larger_fault(void **state)
{
	struct made *made = made_new(40000000, 0.005);
	uint64_t begin;

	(void)state;
	push_steps(made, 60, 0, 0);
	push_steps(made, 150, 1, 1);
	push_steps(made, 60, 0, 0);
	begin = made->times.next;
	push_steps(made, 20, 0.3, 0.3);
	assert_in_range(onset_of(made), begin - 1, begin + 1);
	free(made);
}

/* Every seventh step: found with its period and phase, and in no other signal. */
static void a_period_is_found(void **state)
{
	struct made *made = made_new(100000000, 0.01);
	struct periodic found = {0};

	(void)state;
	assert_false(periodic_look(&made->signal, &made->times, false, &found));
	for (int s = 0; s < 210; s++)
		push_step(made, s % 7 == 3 ? 0.4 : 0, s % 7 == 3 ? 0.4 : 0);
	assert_true(periodic_look(&made->signal, &made->times, false, &found));
	assert_int_equal(found.every, 7);
	assert_int_equal(found.phase, 3);
	assert_true(periodic_is_proven(&found, &made->times, 1, NULL));
	assert_true(periodic_holds(&found, &made->signal, &made->times));
	push_steps(made, 120, 0, 0);
	for (int s = 0; s < 60; s++)
		push_step(made, s % 7 == 5 ? 0.4 : 0, s % 7 == 5 ? 0.4 : 0);
	assert_false(periodic_holds(&found, &made->signal, &made->times));
	free(made);
}

/* Where the job hung, all begins anew: what was late just before is no part of what is late behind it. */
static void nothing_is_dated_before_a_hang(void **state)
{
	struct made *made = made_new(40000000, 0.02);
	uint64_t hang;

	(void)state;
	push_steps(made, 80, 0, 0);
	push_steps(made, 2, 0.5, 0.5);
	hang = made->times.next;
	step_times_note(&made->times, hang, made->now_ns, 0);
	signal_take_step(&made->signal, &made->times, 0, false);
	made->now_ns += INT64_C(10000000000);
	memset(made->signal.runs, 0, sizeof(made->signal.runs));
	made->block = (struct block){0};
	made->sums = (struct excess_sums){0};
	push_steps(made, 32, 0.5, 0.5);
	assert_true(made->told);
	assert_int_equal(onset_of(made), hang + 1);
	free(made);
}

/* Job steps that are rounds have the program's numbers; of those that are not kept any more, by how many there were of late. */
static void steps_have_the_programs_numbers(void **state)
{
	struct step_times times = {0};

	(void)state;
	assert_int_equal(step_of_program(&times, 0), 0);
	for (uint64_t step = 0; step < 4 * STEP_HISTORY; step++) {
		step_times_note(&times, step, (int64_t)step, 1);
		step_times_of_program(&times, step / 4, 4);
	}
	assert_int_equal(step_of_program(&times, 4 * STEP_HISTORY), STEP_HISTORY);
	assert_int_equal(step_of_program(&times, 4 * STEP_HISTORY - 5), STEP_HISTORY - 2);
	assert_int_equal(step_of_program(&times, 2 * STEP_HISTORY), STEP_HISTORY / 2);
	assert_int_equal(step_of_program(&times, 0), 0);
	assert_int_equal(step_every_of_program(&times, 20), 5);
	assert_int_equal(step_every_of_program(&times, 7), 0);
	assert_int_equal(step_every_of_program(&times, 4), 0); /* each of them */
}

/* However short they are, those that are kept reach back for eight blocks; a block begins one of its own, and so does a hang. */
static void short_steps_are_kept_together(void **state)
{
	struct step_times times = {0};
	int64_t now_ns = 0;
	uint64_t steps = 0, number;

	(void)state;
	for (; now_ns < INT64_C(20) * BLOCK_NS; now_ns += 100000, steps++) {
		number = step_times_number(&times, 100000, steps % 1000 == 0);
		step_times_note(&times, number, now_ns, 100000);
		step_times_of_program(&times, steps, 1);
	}
	assert_int_equal(times.next - step_oldest(&times), STEP_HISTORY);
	assert_true(now_ns - step_start_ns(&times, step_oldest(&times)) > 7 * BLOCK_NS);
	assert_int_equal(steps_kept_in(&times, times.next - 3, times.next - 1),
		(uint64_t)(step_start_ns(&times, times.next - 1) -
			   step_start_ns(&times, times.next - 3)) /
			100000);
	assert_int_equal(step_of_program(&times, times.next), steps);
	assert_int_equal(step_of_program(&times, times.next - 1),
		steps - steps_kept_in(&times, times.next - 1, times.next));
	assert_int_equal(step_every_of_program(&times, 8), 0); /* no number of steps */
	assert_int_equal(step_times_number(&times, 100000, true), times.next);
	assert_int_equal(step_times_number(&times, 0, false), times.next);
	assert_int_equal(step_times_number(&times, KEPT_STEP_NS, false), times.next);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_change_is_told_and_dated),
		cmocka_unit_test(a_run_is_dated_by_its_side),
		cmocka_unit_test(a_rise_has_its_own_begin),
		cmocka_unit_test(a_rise_is_measured_from_what_was_before),
		cmocka_unit_test(two_long_steps_are_enough),
		cmocka_unit_test(healthy_signals_are_silent),
		cmocka_unit_test(a_stall_is_no_change),
		cmocka_unit_test(what_is_usual_is_learnt),
		cmocka_unit_test(an_onset_needs_longer_steps),
		cmocka_unit_test(an_onset_is_found_behind_a_larger_fault),
		cmocka_unit_test(nothing_is_dated_before_a_hang),
		cmocka_unit_test(a_period_is_found),
		cmocka_unit_test(steps_have_the_programs_numbers),
		cmocka_unit_test(short_steps_are_kept_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
