/* SPDX-License-Identifier: Apache-2.0 */
/* The period detector on token streams: what it promises in period.h, without any time. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/steps/period.h"

enum { CUTS_MAX = 100000, SAME_CUTS = 550 };

struct stream {
	struct period_detector *detector;
	uint64_t label;	  /* other numbers for the same tokens */
	int64_t pause_ns; /* before the next tokens */
	uint64_t count, regular, incomplete, irregular;
	uint64_t end;
	uint64_t *cuts; /* ends of regular segments */
	size_t cut_count;
};

static uint64_t random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void stream_open(struct stream *stream, size_t period_max, uint64_t label)
{
	*stream = (struct stream){.label = label};
	assert_int_equal(period_create(period_max, &stream->detector), 0);
	stream->cuts = calloc(CUTS_MAX, sizeof(*stream->cuts));
	assert_non_null(stream->cuts);
}

static void stream_close(struct stream *stream)
{
	period_destroy(stream->detector);
	free(stream->cuts);
}

static void take(struct stream *stream)
{
	struct period_segment segment;

	while (period_take(stream->detector, &segment)) {
		assert_true(segment.end > stream->end);
		assert_true(segment.end <= period_count(stream->detector));
		stream->end = segment.end;
		stream->regular += segment.kind == PERIOD_REGULAR;
		stream->incomplete += segment.kind == PERIOD_INCOMPLETE;
		stream->irregular += segment.kind == PERIOD_IRREGULAR;
		if (segment.kind == PERIOD_REGULAR && stream->cut_count < CUTS_MAX)
			stream->cuts[stream->cut_count++] = segment.end;
	}
}

static void push(struct stream *stream, uint64_t structure, uint64_t length)
{
	uint64_t state = structure ^ stream->label, full;
	struct period_token token = {.length_bytes = length,
		.group = structure / 100,
		.arrival_ns = stream->pause_ns,
		.departure_ns = stream->pause_ns + 1000000};

	token.structure = random_next(&state);
	full = token.structure + length * 0x9fb21c651e98df25u;
	token.full = random_next(&full);
	period_push(stream->detector, &token);
	stream->count++;
	take(stream);
}

/* Letters are calls; '*' is a call whose length is never the same twice. */
static void push_text(struct stream *stream, const char *text, uint64_t times)
{
	for (uint64_t i = 0; i < times; i++) {
		for (const char *at = text; *at; at++)
			push(stream, (uint64_t)*at, *at == '*' ? stream->count : 1);
	}
}

static void assert_status(
	struct stream *stream, enum period_certainty certainty, bool following, uint64_t period)
{
	struct period_status status;

	period_status(stream->detector, &status);
	assert_int_equal(status.certainty, certainty);
	assert_int_equal(status.following, following);
	assert_int_equal(status.period, period);
}

static void test_options(void **state)
{
	struct period_detector *detector = NULL;

	(void)state;
	assert_int_equal(period_create(0, &detector), -22);
	assert_int_equal(period_create(PERIOD_LENGTH_MAX + 1, &detector), -22);
	assert_null(detector);
	period_destroy(NULL);
}

/* Each rank of a host has one: what it may ever take is bounded. */
static void test_memory(void **state)
{
	struct mallinfo2 before = mallinfo2(), after;
	struct period_detector *detector;

	(void)state;
	assert_int_equal(period_create(PERIOD_LENGTH_MAX, &detector), 0);
	after = mallinfo2();
	assert_true(after.uordblks + after.hblkhd <= before.uordblks + before.hblkhd + 5000000);
	period_destroy(detector);
}

/* One call a step is a step of one call, and all of them are counted. */
static void test_one_call(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, 1000, 0);
	push_text(&stream, "a", 5000);
	assert_status(&stream, PERIOD_CONFIRMED, true, 1);
	assert_int_equal(stream.regular, 5000);
	assert_int_equal(stream.irregular, 0);
	stream_close(&stream);
}

/* A loop inside the step is not the step; steps before the loop was seen through count too. */
static void test_loops(void **state)
{
	static const char *const steps[] = {"aaaab", "aaaaaaaaaaaaaaaaaaaab", "aaabaaabaaabc",
		"ababababc", "aabaabaabcaabaabaabcd"};

	(void)state;
	for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++) {
		struct stream stream;

		stream_open(&stream, 1000, 0);
		push_text(&stream, steps[i], 1000);
		assert_status(&stream, PERIOD_CONFIRMED, true, strlen(steps[i]));
		assert_int_equal(stream.regular, 1000);
		assert_int_equal(stream.irregular, 0);
		stream_close(&stream);
	}
}

/* 16,384 different calls a step: found in the third step. */
static void test_longest(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, PERIOD_LENGTH_MAX, 0);
	for (uint64_t step = 0; step < 4; step++) {
		uint64_t random = 1;
		for (uint64_t i = 0; i < PERIOD_LENGTH_MAX; i++)
			push(&stream, random_next(&random) % 40, i);
	}
	assert_status(&stream, PERIOD_CONFIRMED, true, PERIOD_LENGTH_MAX);
	assert_int_equal(stream.regular, 4);
	stream_close(&stream);
}

/* Lengths that differ in every step change nothing; equal structure is told apart by them. */
static void test_lengths(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, 1000, 0);
	push_text(&stream, "a*bc*a*dde", 500);
	assert_status(&stream, PERIOD_CONFIRMED, true, 10);
	assert_int_equal(stream.regular, 500);
	stream_close(&stream);

	stream_open(&stream, 1000, 0);
	for (uint64_t i = 0; i < 7000; i++)
		push(&stream, 'a', 10 + i % 7);
	assert_status(&stream, PERIOD_CONFIRMED, true, 7);
	assert_int_equal(stream.regular, 1000);
	/* The lengths change, their number does not: the same steps. */
	for (uint64_t i = 0; i < 700; i++)
		push(&stream, 'a', 90 + i % 7);
	assert_int_equal(stream.regular, 1100);
	assert_int_equal(stream.irregular, 0);
	stream_close(&stream);
}

/* An evaluation is one irregular segment, and the steps after it are cut where they begin. */
static void test_evaluation(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, 1000, 0);
	push_text(&stream, "abcabd", 1000);
	for (uint64_t i = 0; i < 20; i++) {
		uint64_t evaluation = stream.count;

		push_text(&stream, "eeeeef", 1 + i % 3);
		push_text(&stream, "abcabd", 50 + i);
		assert_int_equal((stream.cuts[stream.cut_count - 1] - evaluation) % 6, 0);
	}
	assert_int_equal(stream.regular, 1000 + 20 * 50 + 190);
	assert_int_equal(stream.irregular, 20);
	stream_close(&stream);
}

/* Attached in the middle of a step, the first evaluation shows where steps begin. */
static void test_cut_moves(void **state)
{
	struct stream stream;
	uint64_t evaluation;

	(void)state;
	stream_open(&stream, 1000, 0);
	push_text(&stream, "ghij", 1);
	push_text(&stream, "abcdefghij", 400);
	push_text(&stream, "eeefeee", 1);
	evaluation = stream.count;
	push_text(&stream, "abcdefghij", 40);
	assert_int_equal((stream.cuts[stream.cut_count - 1] - evaluation) % 10, 0);
	push_text(&stream, "eeefeee", 1);
	push_text(&stream, "abcdefghij", 40);
	assert_true(stream.regular >= 478);
	stream_close(&stream);
}

/* A lost call makes a step incomplete, and no more than that. */
static void test_lost(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, 1000, 0);
	push_text(&stream, "abcdefgh", 500);
	push_text(&stream, "abc", 1);
	period_lost(stream.detector);
	push_text(&stream, "fgh", 1);
	push_text(&stream, "abcdefgh", 10);
	assert_int_equal(stream.incomplete, 1);
	assert_int_equal(stream.regular, 510);
	assert_int_equal(stream.irregular, 0);
	stream_close(&stream);
}

/* A barrier put into a step leaves it a step. */
static void test_barrier_inside(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, 1000, 0);
	push_text(&stream, "abcdefghabcdefgi", 500);
	push_text(&stream, "abcdeXfghabcdefgi", 1);
	push_text(&stream, "abcdefghabcdefgi", 10);
	assert_int_equal(stream.regular, 511);
	assert_int_equal(stream.irregular, 0);
	stream_close(&stream);
}

/* Another step, with another number of calls: learnt within three of them, none lost. */
static void test_changed(void **state)
{
	struct stream stream;
	struct period_status status;

	(void)state;
	stream_open(&stream, 1000, 0);
	push_text(&stream, "abcdefghab", 400);
	push_text(&stream, "abcdefghabklm", 3);
	period_status(stream.detector, &status);
	assert_int_equal(status.period, 13);
	push_text(&stream, "abcdefghabklm", 37);
	assert_true(stream.regular >= 437);
	assert_status(&stream, PERIOD_CONFIRMED, true, 13);
	stream_close(&stream);
}

/* Two small calls after every 25 steps are no step of 25, and the steps stay steps. */
static void test_logging(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, 1000, 0);
	for (uint64_t i = 1; i <= 610; i++) {
		for (uint64_t j = 0; j < 16; j++)
			push(&stream, 200 + (j == 0), 1000000 + 1000 * j);
		push(&stream, 210, 8);
		if (i % 25 == 0) {
			push(&stream, 210, 4);
			push(&stream, 210, 4);
		}
	}
	assert_status(&stream, PERIOD_CONFIRMED, true, 17);
	assert_int_equal(stream.regular, 610);
	assert_int_equal(stream.irregular, 0);
	stream_close(&stream);
}

/* Steps of 32 equal calls, after a pause each. */
static void push_equal_steps(struct stream *stream, uint64_t random, uint64_t count)
{
	for (uint64_t i = 0; i < 32 * count; i++) {
		stream->pause_ns = (int64_t)(random_next(&random) % 500000);
		if (i % 32 == 0)
			stream->pause_ns += 20000000;
		push(stream, 'a', 1 << 22);
	}
	stream->pause_ns = 0;
}

/* A step of equal calls shows by the pause of the optimizer; ranks with other times cut alike. */
static void test_pauses(void **state)
{
	struct stream one, other;

	(void)state;
	stream_open(&one, 1000, 0);
	stream_open(&other, 1000, 0);
	push_equal_steps(&one, 1, 200);
	push_equal_steps(&other, 2, 200);
	assert_status(&one, PERIOD_CONFIRMED, true, 32);
	/* What is put in, or looks like the calls themselves, moves the cut for a few steps only. */
	push_text(&one, "aaaaaaaaaaaaaaaaaaa", 1);
	push_text(&other, "aaaaaaaaaaaaaaaaaaa", 1);
	push_equal_steps(&one, 3, 100);
	push_equal_steps(&other, 4, 100);
	assert_true(one.regular >= 298 && one.regular <= 301);
	assert_true(one.irregular <= 3);
	assert_int_equal(one.cut_count, other.cut_count);
	assert_memory_equal(one.cuts, other.cuts, one.cut_count * sizeof(*one.cuts));
	assert_int_equal((one.count - one.cuts[one.cut_count - 1]) % 32, 0);
	stream_close(&one);
	stream_close(&other);
}

/* Long calls that come at random are no beat; nor are rare seconds between rounds of many milliseconds. */
static void test_stalls(void **state)
{
	struct stream stream;
	uint64_t random = 9;

	(void)state;
	stream_open(&stream, 1000, 0);
	for (uint64_t i = 0; i < 60000; i++) {
		stream.pause_ns = random_next(&random) % 20 ? 1000000 : 50000000;
		push(&stream, 'a', 1 << 22);
	}
	assert_status(&stream, PERIOD_CONFIRMED, true, 1);
	stream_close(&stream);

	stream_open(&stream, 1000, 0);
	for (uint64_t i = 0; i < 60000; i++) {
		stream.pause_ns = i % 50 ? 200000000 : INT64_C(5000000000);
		push(&stream, 'a', 1 << 22);
	}
	assert_status(&stream, PERIOD_CONFIRMED, true, 1);
	stream_close(&stream);

	/* Short steps, from the 300th on with a fault in every seventh. */
	stream_open(&stream, 1000, 0);
	for (uint64_t i = 0; i < 60000; i++) {
		stream.pause_ns = i < 300 || i % 7 ? 4000000 : 40000000;
		push(&stream, 'a', 1 << 22);
	}
	assert_status(&stream, PERIOD_CONFIRMED, true, 1);
	stream_close(&stream);
}

static void push_program(struct stream *stream, uint64_t seed, uint64_t confirm_at)
{
	uint64_t random = seed;

	push_text(stream, "wwwwwx", 3);
	for (uint64_t i = 0; i < 600; i++) {
		if (i == confirm_at)
			period_confirm(stream->detector);
		push_text(stream, "aab", 4);
		push_text(stream, "c*", 1);
		if (random_next(&random) % 40 == 0)
			push_text(stream, "eef", 3);
	}
}

/* What the tokens are called, and when somebody asked for segments, makes no difference. */
static void test_same_cuts(void **state)
{
	(void)state;
	for (uint64_t seed = 1; seed < 20; seed++) {
		struct stream one, other;

		stream_open(&one, 1000, 0);
		stream_open(&other, 1000, seed * 0x1234567);
		push_program(&one, seed, 600);
		push_program(&other, seed, seed);
		assert_true(one.cut_count >= 590 && other.cut_count >= 590);
		assert_memory_equal(one.cuts + one.cut_count - SAME_CUTS,
			other.cuts + other.cut_count - SAME_CUTS, SAME_CUTS * sizeof(*one.cuts));
		stream_close(&one);
		stream_close(&other);
	}
}

/* Noise has no period, and costs no memory beyond what was taken. */
static void test_noise(void **state)
{
	struct stream stream;
	uint64_t random = 5;

	(void)state;
	stream_open(&stream, 1000, 0);
	for (uint64_t i = 0; i < 200000; i++)
		push(&stream, random_next(&random) % 50, 1);
	assert_int_equal(stream.regular, 0);
	stream_close(&stream);
}

/* The caller may cut by itself; segments go on from there, in phase. */
static void test_skip(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, 1000, 0);
	push_text(&stream, "abcdefg", 20);
	period_skip(stream.detector, 73);
	stream.end = 73;
	push_text(&stream, "abcdefg", 480);
	assert_int_equal(stream.regular, 500 - 11);
	assert_int_equal(stream.irregular, 1);
	assert_int_equal(stream.cuts[0], 84);
	stream_close(&stream);
}

/* A program of phases, each of a few calls: once the caller took one as it was, the others come without it. */
static void test_phases(void **state)
{
	struct stream stream;
	uint64_t before;

	(void)state;
	stream_open(&stream, PERIOD_LENGTH_MAX, 0);
	push_text(&stream, "ab", 1000);
	assert_status(&stream, PERIOD_TRIED, true, 2);
	assert_int_equal(stream.regular, 0);
	period_confirm(stream.detector);
	take(&stream);
	assert_int_equal(stream.regular, 1000);
	push_text(&stream, "xyzuvw", 1);
	push_text(&stream, "c", 80);
	assert_status(&stream, PERIOD_CONFIRMED, true, 1);
	before = stream.regular;
	push_text(&stream, "rstqp", 1);
	push_text(&stream, "def", 40);
	assert_status(&stream, PERIOD_CONFIRMED, true, 3);
	assert_true(before >= 1000 + 70);
	assert_true(stream.regular >= before + 30);
	stream_close(&stream);
}

/* What a cycle explained for long is not taken back for what comes after it. */
static void test_phases_unasked(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, PERIOD_LENGTH_MAX, 0);
	push_text(&stream, "ab", 1100);
	assert_int_equal(stream.regular, 0);
	push_text(&stream, "xyzuvw", 1);
	push_text(&stream, "c", 20);
	assert_int_equal(stream.regular, 1100);
	push_text(&stream, "rstqp", 1);
	push_text(&stream, "def", 40);
	assert_true(stream.regular >= 1100 + 30);
	assert_status(&stream, PERIOD_CONFIRMED, true, 3);
	stream_close(&stream);
}

/* Stalls at distances that are equal by chance make no step of rounds. */
static void test_chance(void **state)
{
	static const uint64_t stalled[] = {1, 2, 11, 18, 20, 29, 36, 37, 45, 47};
	struct stream stream;
	size_t next = 0;

	(void)state;
	stream_open(&stream, 1000, 0);
	for (uint64_t i = 0; i < 60; i++) {
		bool stalls = next < sizeof(stalled) / sizeof(stalled[0]) && i == stalled[next] + 4;

		next += stalls;
		stream.pause_ns = stalls ? 30000000 : 0;
		push_text(&stream, "ab", 1);
	}
	assert_status(&stream, PERIOD_TRIED, true, 2);
	stream_close(&stream);
}

/* Pauses before one call of the first steps, by chance at a beat, and then a stop of the whole rank. */
static void test_stop(void **state)
{
	static const uint64_t paused[] = {0, 3, 5, 6, 7, 8, 9, 10};
	struct stream stream;
	size_t next = 0;

	(void)state;
	stream_open(&stream, 1000, 0);
	for (uint64_t i = 0; i < 60; i++) {
		bool pauses = next < sizeof(paused) / sizeof(paused[0]) && i == paused[next] + 2;

		next += pauses;
		for (const char *at = "abcdefgh"; *at; at++) {
			stream.pause_ns = *at != 'c' ? 5000000 : pauses ? 9000000 : 1500000;
			if (i == 31 && *at == 'f')
				stream.pause_ns = INT64_C(10000000000);
			push(&stream, (uint64_t)*at, 1 << 22);
		}
	}
	assert_status(&stream, PERIOD_TRIED, true, 8);
	stream_close(&stream);
}

/* Of several pauses in each step, it begins at the longest, however few steps there were. */
static void test_several_pauses(void **state)
{
	struct stream stream;

	(void)state;
	stream_open(&stream, 1000, 0);
	for (uint64_t i = 0; i < 24 * 40; i++) {
		stream.pause_ns = i % 24 == 11			? 90000000
				  : i % 24 == 4 || i % 24 == 17 ? 30000000
								: 0;
		push_text(&stream, "ab", 1);
	}
	assert_status(&stream, PERIOD_TRIED, true, 48);
	period_confirm(stream.detector);
	take(&stream);
	assert_true(stream.cut_count > 30);
	for (size_t i = 0; i < stream.cut_count; i++)
		assert_int_equal(stream.cuts[i] % 48, 22);
	stream_close(&stream);
}

/*
 * Ranks train alone, then average four layers of a model, call by call: the layers' calls are alike, and take no time beside
 * the rest. Where they do, each may be a step, and what lies between a checkpoint.
 */
static void test_bursts(void **state)
{
	static const uint64_t lengths[] = {
		7077888, 9216, 2359296, 3072, 6291456, 8192, 6291456, 3072, 3072, 3072, 3072, 3072};
	static const struct {
		int64_t pause_ns;
		uint64_t period;
	} rests[] = {{700000000, 48}, {200000000, 12}};

	(void)state;
	for (size_t r = 0; r < 2; r++) {
		struct stream stream;

		stream_open(&stream, 1000, 0);
		for (uint64_t i = 0; i < 48 * 60; i++) {
			stream.pause_ns = i % 48 ? 8000 : rests[r].pause_ns;
			push(&stream, 'a', lengths[i % 12]);
		}
		assert_status(&stream, PERIOD_CONFIRMED, true, rests[r].period);
		for (size_t i = 0; i < stream.cut_count && r == 0; i++)
			assert_int_equal(stream.cuts[i] % 48, 0);
		stream_close(&stream);
	}
}

/* Evaluations may hold far more calls than what is trained between them: these steps count, each time. */
static void test_long_evaluations(void **state)
{
	struct stream stream;
	uint64_t steps = 0;

	(void)state;
	stream_open(&stream, 4096, 0);
	for (int epoch = 0; epoch < 6; epoch++) {
		push_text(&stream, "abcdefghijkl", 300);
		push_text(&stream, "xyz", 2700);
	}
	for (size_t i = 1; i < stream.cut_count; i++)
		steps += stream.cuts[i] - stream.cuts[i - 1] == 12;
	assert_in_range(steps, 6 * 298, 6 * 300);
	stream_close(&stream);
}

/* A call of each letter, to each of 7 others and from them: a count ('c'), or what experts get ('t'). */
static void push_exchanges(struct stream *stream, const char *text, uint64_t *random)
{
	for (const char *at = text; *at; at++) {
		for (uint64_t i = 0; i < 14; i++)
			push(stream, 1 + i / 7,
				*at == 'c' ? 8 : 2000000 + random_next(random) % 500000);
	}
}

/* Exchanges of counts and of what experts get, and small calls that follow: a step has all of them. */
static void test_experts(void **state)
{
	const char *layers = "cttcttcttcttttttttt";
	uint64_t random = 0, whole = 0;
	struct stream stream;

	(void)state;
	stream_open(&stream, 4096, 0);
	for (int step = 0; step < 60; step++) {
		push_exchanges(&stream, layers, &random);
		for (uint64_t i = 0; i < 8; i++)
			push(&stream, 3, i % 2 ? 32 : 65536);
	}
	assert_status(&stream, PERIOD_CONFIRMED, true, 274);
	for (size_t i = 1; i < stream.cut_count; i++)
		whole += stream.cuts[i] - stream.cuts[i - 1] == 274;
	assert_in_range(whole, 55, 60);
	stream_close(&stream);
}

/* Steps of two sizes by turns, or an evaluation of small ones after many, stay steps. */
static void test_sizes(void **state)
{
	static const char *const texts[] = {"ctctctctctctctctctctctct", "tttttttttttttttttttttcc"};
	uint64_t random = 0;

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct period_status status;
		struct stream stream;

		stream_open(&stream, 4096, 0);
		for (int pass = 0; pass < 30; pass++) {
			push_exchanges(&stream, texts[i], &random);
			push(&stream, 3, 8);
			push(&stream, 3, 8);
		}
		period_status(stream.detector, &status);
		assert_int_equal(status.period, 14);
		stream_close(&stream);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_memory),
		cmocka_unit_test(test_one_call),
		cmocka_unit_test(test_loops),
		cmocka_unit_test(test_longest),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_evaluation),
		cmocka_unit_test(test_cut_moves),
		cmocka_unit_test(test_lost),
		cmocka_unit_test(test_barrier_inside),
		cmocka_unit_test(test_changed),
		cmocka_unit_test(test_logging),
		cmocka_unit_test(test_pauses),
		cmocka_unit_test(test_stalls),
		cmocka_unit_test(test_same_cuts),
		cmocka_unit_test(test_noise),
		cmocka_unit_test(test_long_evaluations),
		cmocka_unit_test(test_experts),
		cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_skip),
		cmocka_unit_test(test_phases),
		cmocka_unit_test(test_phases_unasked),
		cmocka_unit_test(test_chance),
		cmocka_unit_test(test_stop),
		cmocka_unit_test(test_several_pauses),
		cmocka_unit_test(test_bursts),
	};

	return cmocka_run_group_tests_name("analysis.period", tests, NULL, NULL);
}
