/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries of commands and of processes. */
#include <dlfcn.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/library.h"

enum { CAPACITY = 64 };

static char folder[64];

static int set_up(void **state)
{
	(void)state;
	strcpy(folder, "/tmp/slowrank-library-XXXXXX");
	return mkdtemp(folder) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static const struct library_file *find(
	const struct library_file *files, size_t count, const char *part)
{
	for (size_t i = 0; i < count; i++) {
		if (strstr(files[i].name, part))
			return &files[i];
	}
	return NULL;
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
	assert_int_equal(chmod(path, mode), 0);
}

static void of_a_launcher_and_of_a_script(void **state)
{
	struct library_file files[CAPACITY];
	char script[128];
	struct stat status;
	size_t count = 0;

	(void)state;
	snprintf(script, sizeof(script), "%s/job.sh", folder);
	write_file(script, "#!/bin/sh\nexec mpirun true\n", 0755);
	char *commands[][5] = {
		{"mpirun", "-n", "2", script, NULL}, {script, NULL}, {"mpirun", NULL}};
	if (access("/usr/lib/x86_64-linux-gnu/libmpi.so.40", R_OK) < 0) {
		print_message("skipped: libmpi.so.40 is not installed\n");
		skip();
	}
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(library_find_for_command(commands[i], files, CAPACITY, &count), 0);
		const struct library_file *mpi = find(files, count, "libmpi.so");
		assert_non_null(mpi);
		assert_int_equal(stat(mpi->path, &status), 0);
		assert_int_equal(mpi->inode, status.st_ino);
		assert_int_equal(mpi->device, status.st_dev);
		for (size_t a = 0; a < count; a++) {
			for (size_t b = 0; b < a; b++)
				assert_false(files[a].inode == files[b].inode &&
					     files[a].device == files[b].device);
		}
	}
	/* The script's interpreter is a candidate too: it may have MPI inside. */
	assert_int_equal(library_find_for_command(commands[1], files, CAPACITY, &count), 0);
	assert_non_null(find(files, count, "/sh"));
}

static void of_a_library_path(void **state)
{
	struct library_file files[CAPACITY];
	char path[128];
	char *command[] = {"true", NULL};
	const char *before = getenv("LD_LIBRARY_PATH");
	char *kept = before ? strdup(before) : NULL;
	size_t count = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/libnccl.so.2", folder);
	write_file(path, "not read here", 0644);
	setenv("LD_LIBRARY_PATH", folder, 1);
	assert_int_equal(library_find_for_command(command, files, CAPACITY, &count), 0);
	if (kept)
		setenv("LD_LIBRARY_PATH", kept, 1);
	else
		unsetenv("LD_LIBRARY_PATH");
	free(kept);
	const struct library_file *nccl = find(files, count, folder);
	assert_non_null(nccl);
	assert_string_equal(nccl->path, path);
	/* No more than fits. */
	assert_int_equal(library_find_for_command(command, files, 1, &count), 0);
	assert_int_equal(count, 1);
	assert_int_equal(library_find_for_command(command, files, 0, &count), 0);
	assert_int_equal(count, 0);
}

/* Two scripts that name each other as interpreters must end. */
static void of_scripts_in_a_circle(void **state)
{
	struct library_file files[CAPACITY];
	char a[128], b[128], text[300];
	char *command[] = {a, NULL};
	size_t count = 0;

	(void)state;
	snprintf(a, sizeof(a), "%s/a", folder);
	snprintf(b, sizeof(b), "%s/b", folder);
	snprintf(text, sizeof(text), "#!%s %s\n", b, b);
	write_file(a, text, 0755);
	snprintf(text, sizeof(text), "#!%s %s", a, a);
	write_file(b, text, 0755);
	assert_int_equal(library_find_for_command(command, files, CAPACITY, &count), 0);
	assert_null(find(files, count, folder));
}

static void of_a_process(void **state)
{
	struct library_file files[CAPACITY];
	struct stat self, status;
	size_t count = 0;
	bool own = false;

	(void)state;
	assert_int_equal(stat("/proc/self/exe", &self), 0);
	bool loaded = dlopen("libmpi.so.40", RTLD_LAZY) != NULL;
	assert_int_equal(library_find_in_process(getpid(), files, CAPACITY, &count), 0);
	for (size_t i = 0; i < count; i++)
		own |= files[i].inode == self.st_ino && files[i].device == self.st_dev;
	assert_true(own);
	if (loaded) {
		const struct library_file *mpi = find(files, count, "libmpi.so");

		assert_non_null(mpi);
		assert_int_equal(stat(mpi->path, &status), 0);
		assert_int_equal(mpi->inode, status.st_ino);
	}
	assert_null(find(files, count, "libc.so"));
	assert_int_equal(library_find_in_process(0x7fffffff, files, CAPACITY, &count), -ESRCH);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_launcher_and_of_a_script),
		cmocka_unit_test(of_a_library_path),
		cmocka_unit_test(of_scripts_in_a_circle),
		cmocka_unit_test(of_a_process),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
