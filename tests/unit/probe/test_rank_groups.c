/* SPDX-License-Identifier: Apache-2.0 */
/* Two members that make a group alike agree on what is made from it; nobody else does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/rank_groups.h"

enum { WORLD = 77 };

/* One process: its groups, and the number of its next call. */
struct member {
	struct rank_groups groups;
	uint64_t call;
};

static const struct collective_row *row_of(const char *symbol)
{
	for (size_t i = 0; i < collective_row_count; i++) {
		if (strcmp(collective_rows[i].symbol, symbol) == 0)
			return &collective_rows[i];
	}
	fail_msg("no row %s", symbol);
	return NULL;
}

static void take(struct member *member, const char *symbol, uint64_t handle, uint64_t from,
	uint64_t other, uint64_t digest)
{
	struct event_communicator event = {.handle = handle,
		.group = from,
		.other_group = other,
		.group_call = member->call++,
		.destroyed = strcmp(symbol, "MPI_Group_free") == 0,
		.list = {.digest = digest, .count = 3}};

	rank_groups_take(&member->groups, row_of(symbol), &event, WORLD, 8);
}

static uint64_t create(
	struct member *member, const char *symbol, uint64_t group, int32_t tag, uint64_t sequence)
{
	struct event_communicator event = {.group = group,
		.key = tag,
		.sequence = sequence,
		.group_call = member->call++,
		.list = {.digest = (uint64_t)tag + 1, .count = 1}};
	uint32_t size = 0;

	return rank_groups_communicator(&member->groups, row_of(symbol), &event, WORLD, &size);
}

static void made_alike(void **state)
{
	struct member a = {0}, b = {0};
	uint64_t of_a, of_b;

	(void)state;
	take(&a, "MPI_Comm_group", 10, 0, 0, 0);
	take(&b, "MPI_Comm_group", 90, 0, 0, 0);
	take(&a, "MPI_Group_incl", 11, 10, 0, 5);
	take(&b, "MPI_Group_incl", 91, 90, 0, 5);
	of_a = create(&a, "MPI_Comm_create", 11, 0, 4);
	of_b = create(&b, "MPI_Comm_create", 91, 0, 4);
	assert_int_not_equal(of_a, 0);
	assert_int_equal(of_a, of_b);
	assert_int_not_equal(create(&a, "MPI_Comm_create", 11, 0, 5), of_a);
	/* Other members, another way. */
	take(&b, "MPI_Group_incl", 92, 90, 0, 6);
	assert_int_not_equal(create(&b, "MPI_Comm_create", 92, 0, 4), of_a);
	take(&b, "MPI_Group_excl", 93, 90, 0, 5);
	assert_int_not_equal(create(&b, "MPI_Comm_create", 93, 0, 4), of_a);
	take(&a, "MPI_Group_union", 12, 11, 10, 0);
	take(&b, "MPI_Group_union", 94, 91, 90, 0);
	assert_int_equal(
		create(&a, "MPI_Comm_create", 12, 0, 7), create(&b, "MPI_Comm_create", 94, 0, 7));
	take(&b, "MPI_Group_difference", 95, 91, 90, 0);
	assert_int_not_equal(
		create(&a, "MPI_Comm_create", 12, 0, 8), create(&b, "MPI_Comm_create", 95, 0, 8));
	rank_groups_fini(&a.groups);
	rank_groups_fini(&b.groups);
}

/* Only the members call: each group and tag is counted by itself. */
static void created_in_the_group(void **state)
{
	struct member a = {0}, b = {0};
	uint64_t first, second, tagged;

	(void)state;
	take(&a, "MPI_Comm_group", 1, 0, 0, 0);
	take(&b, "MPI_Comm_group", 1, 0, 0, 0);
	take(&a, "MPI_Group_incl", 2, 1, 0, 5);
	take(&b, "MPI_Group_incl", 2, 1, 0, 5);
	take(&b, "MPI_Group_incl", 3, 1, 0, 6); /* a is not in it */
	assert_int_not_equal(create(&b, "MPI_Comm_create_group", 3, 1, 0), 0);
	first = create(&a, "MPI_Comm_create_group", 2, 1, 0);
	assert_int_equal(create(&b, "MPI_Comm_create_group", 2, 1, 0), first);
	tagged = create(&b, "MPI_Comm_create_group", 2, 9, 0);
	second = create(&a, "MPI_Comm_create_group", 2, 1, 0);
	assert_int_equal(create(&b, "MPI_Comm_create_group", 2, 1, 0), second);
	assert_int_equal(create(&a, "MPI_Comm_create_group", 2, 9, 0), tagged);
	assert_true(first && second && tagged && first != second && first != tagged &&
		    second != tagged);
	/* NCCL: by the list of who is left out; there is no group. */
	first = create(&a, "ncclCommShrink", 0, 3, 0);
	assert_int_not_equal(first, 0);
	assert_int_equal(create(&b, "ncclCommShrink", 0, 3, 0), first);
	assert_int_not_equal(create(&b, "ncclCommShrink", 0, 4, 0), first);
	rank_groups_fini(&a.groups);
	rank_groups_fini(&b.groups);
}

static void what_is_not_known_has_no_identity(void **state)
{
	struct member a = {0};
	struct event_communicator event = {.handle = 5};

	(void)state;
	assert_int_equal(create(&a, "MPI_Comm_create", 4, 0, 0), 0);
	rank_groups_take(&a.groups, row_of("MPI_Comm_group"), &event, 0, 0);
	a.groups.next_call = a.call;
	assert_int_equal(create(&a, "MPI_Comm_create", 5, 0, 0), 0);
	assert_true(a.groups.lost); /* that call's number was not the next */
	rank_groups_fini(&a.groups);

	a = (struct member){0};
	take(&a, "MPI_Comm_group", 1, 0, 0, 0);
	take(&a, "MPI_Group_incl", 2, 1, 0, 0); /* a list that could not be read */
	assert_int_equal(create(&a, "MPI_Comm_create", 2, 0, 0), 0);
	take(&a, "MPI_Group_union", 3, 1, 2, 0);
	assert_int_equal(create(&a, "MPI_Comm_create", 3, 0, 0), 0);
	assert_int_not_equal(create(&a, "MPI_Comm_create", 1, 0, 0), 0);
	rank_groups_fini(&a.groups);
}

/* The library counts who holds a group; its address may be another group's when nobody does. */
static void handles_come_again(void **state)
{
	struct member a = {0};

	(void)state;
	take(&a, "MPI_Comm_group", 1, 0, 0, 0);
	take(&a, "MPI_Comm_group", 1, 0, 0, 0);
	take(&a, "MPI_Group_free", 1, 0, 0, 0);
	assert_int_not_equal(create(&a, "MPI_Comm_create", 1, 0, 0), 0);
	take(&a, "MPI_Group_free", 1, 0, 0, 0);
	assert_int_equal(create(&a, "MPI_Comm_create", 1, 0, 0), 0);
	take(&a, "MPI_Group_free", 1, 0, 0, 0); /* nothing to forget */
	assert_int_equal(a.groups.group_count, 0);
	rank_groups_fini(&a.groups);
}

/* A record that is missing may have freed a group: nothing is known from then on. */
static void a_lost_call_ends_it(void **state)
{
	struct member a = {0};

	(void)state;
	take(&a, "MPI_Comm_group", 1, 0, 0, 0);
	assert_int_not_equal(create(&a, "MPI_Comm_create", 1, 0, 0), 0);
	a.call++;
	assert_int_equal(create(&a, "MPI_Comm_create", 1, 0, 1), 0);
	assert_int_equal(create(&a, "MPI_Comm_create", 1, 0, 2), 0);
	rank_groups_fini(&a.groups);
}

static void tables_are_bounded(void **state)
{
	struct member a = {0};

	(void)state;
	take(&a, "MPI_Comm_group", 1, 0, 0, 0);
	for (uint64_t i = 0; i < RANK_GROUPS_MAX + 10; i++)
		take(&a, "MPI_Group_incl", 2 + i, 1, 0, 100 + i);
	assert_int_equal(a.groups.group_count, RANK_GROUPS_MAX);
	assert_int_not_equal(create(&a, "MPI_Comm_create", RANK_GROUPS_MAX, 0, 0), 0);
	assert_int_equal(create(&a, "MPI_Comm_create", RANK_GROUPS_MAX + 5, 0, 0), 0);
	for (int32_t i = 0; i < RANK_GROUP_CREATIONS_MAX + 10; i++) {
		uint64_t id = create(&a, "MPI_Comm_create_group", 1, i, 0);

		assert_int_equal(id != 0, i < RANK_GROUP_CREATIONS_MAX);
	}
	rank_groups_fini(&a.groups);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(made_alike),
		cmocka_unit_test(created_in_the_group),
		cmocka_unit_test(what_is_not_known_has_no_identity),
		cmocka_unit_test(handles_come_again),
		cmocka_unit_test(a_lost_call_ends_it),
		cmocka_unit_test(tables_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
