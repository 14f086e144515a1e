/* SPDX-License-Identifier: Apache-2.0 */
/* What MPI libraries keep in a live process: the real ones, loaded by a child. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/mpi_objects.h"

/* The child loads the real library and tells where its world is. */
static void of_open_mpi(void **state)
{
	static const char *const names[] = {"ompi_mpi_comm_world", "ompi_mpi_comm_self",
		"ompi_mpi_comm_null", "ompi_mpi_float", "ompi_mpi_dblprec", "ompi_mpi_c_bool",
		"ompi_mpi_integer8", "ompi_mpi_op_sum"};
	uint64_t expected[8] = {0};
	struct mpi_objects objects = {.world = 1};
	int ready[2];
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		void *library = dlopen("libmpi.so.40", RTLD_NOW);

		if (library)
			for (size_t i = 0; i < 8; i++)
				expected[i] = (uintptr_t)dlsym(library, names[i]);
		if (write(ready[1], expected, sizeof(expected)) != sizeof(expected))
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], expected, sizeof(expected)), sizeof(expected));
	close(ready[0]);
	int result = mpi_objects_read(child, &objects);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (!expected[0]) {
		assert_int_equal(result, -ENOENT);
		print_message("skipped: libmpi.so.40 is not installed\n");
		skip();
	}
	assert_int_equal(result, 0);
	assert_int_equal(objects.world, expected[0]);
	assert_int_equal(objects.self, expected[1]);
	assert_int_equal(objects.null, expected[2]);
	assert_int_equal(objects.type_shared, 0);
	/* What MPI_Type_size says under Open MPI 4.1.4 (x86-64). */
	assert_in_range(objects.datatype_count, 40, MPI_OBJECTS_DATATYPES_MAX);
	assert_int_equal(mpi_objects_datatype_bytes(&objects, expected[3]), 4);
	assert_int_equal(mpi_objects_datatype_bytes(&objects, expected[4]), 8);
	assert_int_equal(mpi_objects_datatype_bytes(&objects, expected[5]), 1);
	assert_int_equal(mpi_objects_datatype_bytes(&objects, expected[6]), 8);
	assert_int_equal(mpi_objects_datatype_bytes(&objects, expected[7]), 0); /* no datatype */
	assert_int_equal(mpi_objects_datatype_bytes(&objects, expected[3] + 8), 0);
	assert_int_equal(mpi_objects_datatype_bytes(&objects, 0), 0);
}

static void no_library_no_objects(void **state)
{
	struct mpi_objects objects = {.world = 1};

	(void)state;
	assert_int_equal(mpi_objects_read(getpid(), &objects), -ENOENT);
	assert_int_equal(mpi_objects_read(0x7fffffff, &objects), -ENOENT);
	assert_int_equal(objects.world, 1);
}

/* MPICH's handles are constants of its ABI. */
static void of_mpich(void **state)
{
	struct mpi_objects objects = {0};
	int ready[2];
	char loaded = 0;
	pid_t child;

	(void)state;
	assert_int_equal(pipe(ready), 0);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		loaded = dlopen("libmpich.so.12", RTLD_NOW) != NULL;
		if (write(ready[1], &loaded, 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &loaded, 1), 1);
	close(ready[0]);
	int result = mpi_objects_read(child, &objects);
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	if (!loaded) {
		assert_int_equal(result, -ENOENT);
		print_message("skipped: libmpich.so.12 is not installed\n");
		skip();
	}
	assert_int_equal(result, 0);
	assert_int_equal(objects.world, 0x44000000);
	assert_int_equal(objects.self, 0x44000001);
	assert_int_equal(objects.null, 0x04000000);
	assert_int_equal(objects.type_shared, 1);
	assert_int_equal(objects.datatype_count, 0); /* a handle holds its length */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_open_mpi),
		cmocka_unit_test(of_mpich),
		cmocka_unit_test(no_library_no_objects),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
