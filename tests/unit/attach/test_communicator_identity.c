/* SPDX-License-Identifier: Apache-2.0 */
/* Identities that every member computes alike, and the node of a live process. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/communicator_identity.h"

static int compare(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void identities_differ_where_inputs_do(void **state)
{
	enum { PARENTS = 8, CREATIONS = 40, COLORS = 40, COUNT = PARENTS * CREATIONS * COLORS };
	uint64_t *ids = calloc(COUNT + PARENTS, sizeof(*ids));
	size_t count = 0;

	(void)state;
	assert_non_null(ids);
	for (int p = 0; p < PARENTS; p++) {
		char job[16];

		snprintf(job, sizeof(job), "%d", p);
		uint64_t parent = communicator_world_id(job);
		assert_int_equal(parent, communicator_world_id(job));
		ids[count++] = parent;
		for (uint64_t n = 0; n < CREATIONS; n++) {
			for (int32_t color = -1; color < COLORS - 1; color++) {
				uint64_t how[] = {parent, n, (uint64_t)color};
				uint64_t id = communicator_identity("split", how, 3);

				assert_int_equal(id, communicator_identity("split", how, 3));
				ids[count++] = id;
			}
		}
	}
	qsort(ids, count, sizeof(*ids), compare);
	assert_int_not_equal(ids[0], 0);
	for (size_t i = 1; i < count; i++)
		assert_int_not_equal(ids[i], ids[i - 1]);
	free(ids);
}

static void unique_ids(void **state)
{
	uint8_t bytes[128] = {0};
	uint64_t zero, first;

	(void)state;
	zero = communicator_id_from_unique(bytes, sizeof(bytes));
	assert_int_not_equal(zero, 0);
	for (size_t i = 0; i < sizeof(bytes); i++) {
		bytes[i] = 1;
		first = communicator_id_from_unique(bytes, sizeof(bytes));
		assert_int_not_equal(first, zero);
		assert_int_equal(first, communicator_id_from_unique(bytes, sizeof(bytes)));
		bytes[i] = 0;
	}
	assert_int_not_equal(communicator_world_id(""), 0);
	assert_int_not_equal(communicator_world_id("world"), communicator_world_id("worl"));
	/* The same bytes in another role are another communicator. */
	assert_int_not_equal(communicator_world_id("abc"), communicator_id_from_unique("abc", 3));
}

/* Ranks of one daemon are on one node, whatever stands between; others are not. */
static void nodes_of_live_processes(void **state)
{
	uint64_t of_child, again, without;
	int hold[2];
	pid_t child;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		char *words[] = {"sh", "-c", "read word", NULL};
		char *environment[] = {"SLOWRANK_TEST_RANK=1", NULL};

		dup2(hold[0], STDIN_FILENO);
		close(hold[1]);
		execve("/bin/sh", words, environment);
		_exit(1);
	}
	close(hold[0]);
	while (communicator_node(child, "SLOWRANK_TEST_RANK", &of_child) != 0)
		;
	assert_int_equal(communicator_node(child, "SLOWRANK_TEST_RANK", &again), 0);
	assert_int_equal(of_child, again);
	/* Another daemon: the parent's parent, by a variable that the parent has. */
	assert_int_equal(
		setenv("SLOWRANK_TEST_RANK", "1", 1), 0); /* not in /proc: it still is one */
	assert_int_equal(communicator_node(child, "SLOWRANK_TEST_RANK", &again), 0);
	assert_int_equal(of_child, again);
	if (communicator_node(getpid(), "SLOWRANK_TEST_RANK", &without) == 0)
		assert_int_not_equal(without, of_child);
	close(hold[1]);
	waitpid(child, NULL, 0);
	again = 5;
	assert_int_equal(communicator_node(0x7fffffff, "X", &again), -ENOENT);
	assert_int_equal(again, 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identities_differ_where_inputs_do),
		cmocka_unit_test(unique_ids),
		cmocka_unit_test(nodes_of_live_processes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
