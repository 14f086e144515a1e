/* SPDX-License-Identifier: Apache-2.0 */
/* Which stack profiles are kept, and which of them are found. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/stack_looks.h"

#define SECOND INT64_C(1000000000)
enum { RANKS = 4 };

static struct stack_looks *looks;
static struct explain_rank ranks[RANKS];

static int set_up(void **state)
{
	(void)state;
	looks = calloc(1, sizeof(*looks));
	for (int r = 0; r < RANKS; r++)
		ranks[r] = (struct explain_rank){0};
	return looks ? 0 : -1;
}

static int clean_up(void **state)
{
	(void)state;
	stack_looks_destroy(looks);
	return 0;
}

/* A look of one second at a rank; nodes: how large it is; none: it came to nothing. */
static void keep_result(uint32_t rank, int64_t second, uint32_t steps, uint32_t nodes,
	uint32_t samples, enum stack_result result)
{
	struct stack_profile *profile = stack_profile_create(&(struct stack_profile){.rank = rank,
		.steps = steps,
		.looks = samples,
		.result = (uint8_t)result,
		.node_count = nodes,
		.sum_count = nodes > 0,
		.thread_count = nodes > 0,
		.segment_count = nodes > 0,
		.text_length = 1});

	for (uint32_t i = 0; i < nodes; i++)
		profile->nodes[i].parent = STACK_NODE_NONE;
	assert_true(stack_profile_is_valid(profile));
	assert_int_equal(
		stack_looks_keep(looks, profile, second * SECOND, (second + 1) * SECOND), 0);
	stack_profile_destroy(profile);
}

static void keep_samples(
	uint32_t rank, int64_t second, uint32_t steps, uint32_t nodes, uint32_t samples)
{
	keep_result(
		rank, second, steps, nodes, samples, nodes ? STACK_RESULT_DONE : STACK_RESULT_BUSY);
}

static void keep(uint32_t rank, int64_t second, uint32_t steps, uint32_t nodes)
{
	keep_samples(rank, second, steps, nodes, nodes > 0);
}

static int64_t best(uint32_t rank, enum stack_look_kind kind)
{
	const struct kept_stacks *found =
		stack_looks_best(looks, rank, INT64_MIN / 2, INT64_MAX / 2, kind);

	return found ? found->start_ns / SECOND : -1;
}

static void test_best_of_a_rank(void **state)
{
	(void)state;
	assert_int_equal(best(1, STACK_LOOK_ANY), -1);
	keep(1, 10, 8, 3);
	keep(1, 20, 0, 3); /* one look, at once */
	keep(1, 30, 0, 0);
	keep(2, 40, 8, 3);
	assert_int_equal(best(1, STACK_LOOK_ANY), 20);
	assert_int_equal(best(1, STACK_LOOK_SEEN), 20);
	assert_int_equal(best(1, STACK_LOOK_STEPS), 10);
	assert_null(stack_looks_best(looks, 1, 0, 10 * SECOND, STACK_LOOK_ANY));
	assert_non_null(stack_looks_best(looks, 1, 0, 11 * SECOND, STACK_LOOK_ANY));
	assert_null(stack_looks_best(NULL, 1, 0, 11 * SECOND, STACK_LOOK_ANY));
}

/* A later look that was kept from looking does not replace a good one. */
static void test_starved_look(void **state)
{
	(void)state;
	keep_samples(1, 10, 8, 3, 50);
	keep_samples(1, 20, 8, 3, 200);
	keep_samples(1, 30, 8, 3, 9);
	assert_int_equal(best(1, STACK_LOOK_STEPS), 20);
	keep_samples(1, 40, 8, 3, 200);
	assert_int_equal(best(1, STACK_LOOK_STEPS), 40);
}

/* A rank that ended was seen until then; what failed says nothing of its steps. */
static void test_cut_short(void **state)
{
	(void)state;
	keep_result(1, 10, 0, 3, 9, STACK_RESULT_ENDED);
	keep_result(1, 20, 8, 3, 50, STACK_RESULT_FAILED);
	assert_int_equal(best(1, STACK_LOOK_STEPS), -1);
	keep_result(1, 30, 8, 3, 50, STACK_RESULT_ENDED);
	assert_int_equal(best(1, STACK_LOOK_STEPS), 30);
}

/* A look that came to nothing goes first, then the oldest one; others keep theirs. */
static void test_few_of_a_rank(void **state)
{
	(void)state;
	keep(2, 1, 8, 3);
	keep(1, 10, 8, 3);
	keep(1, 20, 8, 0);
	keep(1, 30, 8, 3);
	keep(1, 40, 8, 3);
	assert_int_equal(looks->count, 4);
	assert_non_null(stack_looks_best(looks, 1, 0, 11 * SECOND, STACK_LOOK_STEPS));
	keep(1, 50, 8, 3);
	assert_int_equal(looks->count, 4);
	assert_null(stack_looks_best(looks, 1, 0, 11 * SECOND, STACK_LOOK_ANY));
	assert_int_equal(best(1, STACK_LOOK_STEPS), 50);
	assert_int_equal(best(2, STACK_LOOK_STEPS), 1);
}

static void test_bounds(void **state)
{
	size_t bytes = 0;

	(void)state;
	for (uint32_t r = 0; r < 3 * STACK_LOOKS_KEPT_MAX; r++)
		keep(r, r, 8, 3);
	assert_int_equal(looks->count, STACK_LOOKS_KEPT_MAX);
	assert_int_equal(best(0, STACK_LOOK_ANY), -1);
	for (uint32_t r = 0; r < 3 * STACK_LOOKS_KEPT_MAX; r++)
		keep(r, 1000 + r, 8, STACK_PROFILE_NODES_MAX);
	for (size_t i = 0; i < looks->count; i++)
		bytes += stack_profile_bytes(looks->kept[i].profile);
	assert_int_equal(bytes, looks->bytes);
	assert_true(bytes <= STACK_LOOKS_BYTES_MAX && bytes > STACK_LOOKS_BYTES_MAX / 2);
	assert_int_equal(
		best(3 * STACK_LOOKS_KEPT_MAX - 1, STACK_LOOK_ANY), 999 + 3 * STACK_LOOKS_KEPT_MAX);
}

static struct explain_rank rank_of(const void *job, uint32_t rank)
{
	(void)job;
	return ranks[rank];
}

static void test_control(void **state)
{
	const uint32_t slow = 1;
	const struct explain_context context = {
		.rank = rank_of, .rank_count = RANKS, .stacks = looks};
	const struct episode episode = {.ranks = &slow, .rank_count = 1};
	const struct kept_stacks *own, *control;

	(void)state;
	keep(1, 100, 8, 3);
	own = stack_looks_best(looks, 1, 0, INT64_MAX, STACK_LOOK_STEPS);
	assert_null(stack_looks_control(&context, &episode, own));
	keep(0, 101, 8, 3);
	keep(2, 105, 8, 3);
	keep(3, 100, 0, 3); /* of no steps */
	control = stack_looks_control(&context, &episode, own);
	assert_non_null(control);
	assert_int_equal(control->profile->rank, 0);
	ranks[0].blamed = true;
	control = stack_looks_control(&context, &episode, own);
	assert_int_equal(control->profile->rank, 2);
	ranks[2].role = 1;
	assert_null(stack_looks_control(&context, &episode, own));
}

static const struct kept_stacks *look_at(uint32_t rank)
{
	return stack_looks_best(looks, rank, INT64_MIN / 2, INT64_MAX / 2, STACK_LOOK_STEPS);
}

/* Two looks are compared once, for each period; and anew where one of them was another one. */
static void test_compared_once(void **state)
{
	const struct stack_compared *first, *again;

	(void)state;
	keep_samples(0, 10, 8, 3, 200);
	keep_samples(1, 10, 8, 3, 200);
	first = stack_looks_compare(looks, look_at(1), look_at(0), 0);
	assert_non_null(first);
	assert_int_equal(first->result, 0);
	assert_ptr_equal(stack_looks_compare(looks, look_at(1), look_at(0), 0), first);
	assert_int_equal(looks->compared_count, 1);
	again = stack_looks_compare(looks, look_at(1), look_at(0), 100);
	assert_ptr_not_equal(again, first);
	assert_int_equal(again->result, -ENODATA); /* the control has fewer steps */
	assert_non_null(strstr(again->why, "fewer than 100 steps"));
	assert_ptr_not_equal(stack_looks_compare(looks, look_at(0), look_at(1), 0), first);
	assert_int_equal(looks->compared_count, 3);
	/* What was compared is forgotten with the look, wherever the next one lies. */
	for (int i = 0; i < STACK_LOOKS_OF_RANK_MAX; i++)
		keep_samples(1, 20 + i, 8, 3, 300);
	assert_null(first->own);
	assert_non_null(stack_looks_compare(looks, look_at(1), look_at(0), 0));
	assert_int_equal(looks->compared_count, 4);
	for (int i = 0; i < 2 * STACK_LOOKS_COMPARED_MAX; i++)
		assert_int_equal(
			stack_looks_compare(looks, look_at(1), look_at(0), (uint32_t)i % 8)->result,
			0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_best_of_a_rank, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_starved_look, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_cut_short, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_few_of_a_rank, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_bounds, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_control, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_compared_once, set_up, clean_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
