/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries of commands and of processes. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/collective_table.h"
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
	if (!dlopen("libmpi.so.40", RTLD_LAZY)) {
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

/* A library that comes in a file of another name is found by what its row names, whichever it is. */
static void of_each_row(void **state)
{
	struct library_file files[CAPACITY];
	char path[128], *command[] = {"true", NULL};
	const char *before = getenv("LD_LIBRARY_PATH");
	char *kept = before ? strdup(before) : NULL;
	size_t count = 0;

	(void)state;
	setenv("LD_LIBRARY_PATH", folder, 1);
	for (size_t i = 1; i < ROW_LIBRARY_NR; i++) {
		for (size_t k = 0; k < ROW_LIBRARY_FILES_MAX && collective_libraries[i].files[k];
			k++) {
			const char *pattern = collective_libraries[i].files[k];
			char *star;

			snprintf(path, sizeof(path), "%s/%s", folder, pattern);
			while ((star = strchr(path, '*'))) /* libamdhip64.so* is libamdhip64.so7 */
				*star = '7';
			write_file(path, "not read here", 0644);
			assert_int_equal(
				library_find_for_command(command, files, CAPACITY, &count), 0);
			assert_non_null(find(files, count, path));
			assert_int_equal(unlink(path), 0);
		}
	}
	if (kept)
		setenv("LD_LIBRARY_PATH", kept, 1);
	else
		unsetenv("LD_LIBRARY_PATH");
	free(kept);
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

/* The very file is opened, or none: not what was put in its place meanwhile. */
static void of_the_same_path_later(void **state)
{
	char path[128], moved[160], link[LIBRARY_LINK_LENGTH], text[8] = "";
	struct library_file file = {.inode = 0};
	struct stat status;
	int pinned, fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/libmpi.so.40", folder);
	snprintf(moved, sizeof(moved), "%s.moved", path);
	write_file(path, "first", 0644);
	assert_int_equal(stat(path, &status), 0);
	file.device = status.st_dev;
	file.inode = status.st_ino;
	strcpy(file.path, path);
	pinned = library_open(&file, link);
	assert_true(pinned >= 0);
	assert_int_equal(rename(path, moved), 0);
	write_file(path, "second", 0644);
	fd = open(link, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(read(fd, text, sizeof(text)), 5);
	assert_string_equal(text, "first");
	close(fd);
	close(pinned);
	assert_int_equal(library_open(&file, link), -ESTALE);
	assert_int_equal(unlink(path), 0);
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_int_equal(library_open(&file, link), -ESTALE);
}

/* The mapping that holds this function of the C library, by map_files or by its name. */
static int find_own_libc(void)
{
	uintptr_t address = (uintptr_t)dlsym(RTLD_DEFAULT, "malloc_usable_size");
	struct library_file file = {.inode = 0};
	char line[512], range[64], name[256];
	uintptr_t start, stop;
	int error = -ENOENT;
	FILE *maps = fopen("/proc/self/maps", "re");

	while (maps && fgets(line, sizeof(line), maps)) {
		if (sscanf(line, "%63s %*s %*s %*s %*s %255s", range, name) == 2 &&
			sscanf(range, "%" SCNxPTR "-%" SCNxPTR, &start, &stop) == 2 &&
			address >= start && address < stop)
			error = library_of_mapping(getpid(), range, name, &file);
	}
	if (maps)
		fclose(maps);
	return error ? error : strcmp(file.path, file.name);
}

static void of_a_mapping_without_rights(void **state)
{
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(find_own_libc(), 0);
	child = fork();
	if (child == 0) {
		/* map_files is not for this user. */
		if (geteuid() == 0 && (setgid(65534) < 0 || setuid(65534) < 0))
			_exit(1);
		prctl(PR_SET_DUMPABLE, 1);
		_exit(find_own_libc() == 0 ? 42 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 42);
}

/* Not position-independent, as Debian's python3 is: maps pads the addresses of its program with zeros. */
static void of_a_program_that_lies_low(void **state)
{
	struct library_file files[CAPACITY];
	int input[2], output[2], status;
	struct stat program;
	size_t count = 0;
	char first;
	pid_t child;

	(void)state;
	assert_int_equal(stat(LOAD_PROGRAM_STATIC, &program), 0);
	assert_int_equal(pipe(input), 0);
	assert_int_equal(pipe(output), 0);
	child = fork();
	if (child == 0) {
		dup2(input[0], STDIN_FILENO);
		dup2(output[1], STDOUT_FILENO);
		close(input[1]);
		execl(LOAD_PROGRAM_STATIC, LOAD_PROGRAM_STATIC, "read", (char *)NULL);
		_exit(1);
	}
	assert_int_equal(read(output[0], &first, 1), 1);
	assert_int_equal(library_find_in_process(child, files, CAPACITY, &count), 0);
	close(input[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(count, 1);
	assert_int_equal(files[0].inode, program.st_ino);
	assert_int_equal(files[0].device, program.st_dev);
	close(input[0]);
	close(output[0]);
	close(output[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(of_a_launcher_and_of_a_script),
		cmocka_unit_test(of_each_row),
		cmocka_unit_test(of_a_library_path),
		cmocka_unit_test(of_scripts_in_a_circle),
		cmocka_unit_test(of_a_process),
		cmocka_unit_test(of_a_program_that_lies_low),
		cmocka_unit_test(of_the_same_path_later),
		cmocka_unit_test(of_a_mapping_without_rights),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
