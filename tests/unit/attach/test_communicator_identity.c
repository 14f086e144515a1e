/* SPDX-License-Identifier: Apache-2.0 */
/* Identities that every member computes alike, and the world's handles of a live process. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
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
				uint64_t id = communicator_id_from_parent(parent, n, color);

				assert_int_equal(id, communicator_id_from_parent(parent, n, color));
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

/* The child loads the real library and tells where its world is. */
static void handles_of_a_live_process(void **state)
{
	uint64_t expected[2] = {0}, world = 1, self = 2;
	int ready[2];
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		void *library = dlopen("libmpi.so.40", RTLD_NOW);

		if (library) {
			expected[0] = (uintptr_t)dlsym(library, "ompi_mpi_comm_world");
			expected[1] = (uintptr_t)dlsym(library, "ompi_mpi_comm_self");
		}
		if (write(ready[1], expected, sizeof(expected)) != sizeof(expected))
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], expected, sizeof(expected)), sizeof(expected));
	close(ready[0]);
	int result = communicator_world_handles(child, &world, &self);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (!expected[0]) {
		assert_int_equal(result, -ENOENT);
		print_message("skipped: libmpi.so.40 is not installed\n");
		skip();
	}
	assert_int_equal(result, 0);
	assert_int_equal(world, expected[0]);
	assert_int_equal(self, expected[1]);
}

static void no_library_no_handles(void **state)
{
	uint64_t world = 1, self = 2;

	(void)state;
	assert_int_equal(communicator_world_handles(getpid(), &world, &self), -ENOENT);
	assert_int_equal(communicator_world_handles(0x7fffffff, &world, &self), -ENOENT);
	assert_int_equal(world, 1);
	assert_int_equal(self, 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(identities_differ_where_inputs_do),
		cmocka_unit_test(unique_ids),
		cmocka_unit_test(handles_of_a_live_process),
		cmocka_unit_test(no_library_no_handles),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
