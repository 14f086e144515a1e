/* SPDX-License-Identifier: Apache-2.0 */
/* Where an ordinary user's probes meet, whatever others have made in /tmp before. Needs root to be others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/runtime_directory.h"

enum { USER = 61234 };

static char plain[32], first[40], second[40], linked[32], private[32];

static int make_names(void **state)
{
	(void)state;
	snprintf(plain, sizeof(plain), "/tmp/slowrank-%d", USER);
	snprintf(first, sizeof(first), "%s-1", plain);
	snprintf(second, sizeof(second), "%s-2", plain);
	snprintf(linked, sizeof(linked), "/tmp/srl-%d", (int)getpid());
	snprintf(private, sizeof(private), "/tmp/srt-%d", (int)getpid());
	return 0;
}

static int remove_names(void **state)
{
	char below[48];

	(void)state;
	snprintf(below, sizeof(below), "%s/slowrank", private);
	unlink(plain);
	rmdir(plain);
	rmdir(first);
	rmdir(second);
	rmdir(linked);
	rmdir(below);
	rmdir(private);
	return 0;
}

/* As USER, in a process of its own. */
static void expect_folder(const char *runtime, const char *expected)
{
	char path[RUNTIME_DIRECTORY_LENGTH], why[256];
	int status, fd;
	pid_t child = fork();

	assert_true(child >= 0);
	if (child == 0) {
		if (setgid(USER) || setuid(USER))
			_exit(2);
		if (runtime)
			setenv("XDG_RUNTIME_DIR", runtime, 1);
		else
			unsetenv("XDG_RUNTIME_DIR");
		fd = runtime_directory_open(path, why);
		if (fd < 0 || strcmp(path, expected) != 0)
			fprintf(stderr, "%s instead of %s\n", fd < 0 ? why : path, expected);
		_exit(fd < 0 || strcmp(path, expected) != 0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void make_folder(const char *path, uid_t owner, mode_t mode)
{
	assert_int_equal(mkdir(path, mode), 0);
	assert_int_equal(chmod(path, mode), 0);
	assert_int_equal(chown(path, owner, owner), 0);
}

static void need_root(void)
{
	if (geteuid() != 0)
		skip();
}

static void test_the_plain_name(void **state)
{
	(void)state;
	need_root();
	expect_folder(NULL, plain);
	expect_folder(NULL, plain);
}

static void test_a_name_of_somebody_else_is_passed_over(void **state)
{
	(void)state;
	need_root();
	make_folder(plain, 0, 0700);
	make_folder(first, USER, 0755); /* the user's, but others may enter */
	expect_folder(NULL, second);
	expect_folder(NULL, second);
}

static void test_a_link_is_passed_over(void **state)
{
	(void)state;
	need_root();
	make_folder(linked, USER, 0700);
	assert_int_equal(symlink(linked, plain), 0);
	expect_folder(NULL, first);
}

static void test_a_name_that_is_given_up_parts_nobody(void **state)
{
	(void)state;
	need_root();
	make_folder(plain, 0, 0700);
	expect_folder(NULL, first);
	rmdir(plain);
	expect_folder(NULL, first);
}

static void test_the_folder_of_the_session_if_it_is_private(void **state)
{
	char below[48];

	(void)state;
	need_root();
	snprintf(below, sizeof(below), "%s/slowrank", private);
	make_folder(private, USER, 0700);
	expect_folder(private, below);
	assert_int_equal(chmod(private, 0755), 0);
	expect_folder(private, plain);
	expect_folder("relative", plain);
	expect_folder("/tmp/a-name-that-is-too-long-for-an-address", plain);
}

static void test_root_has_its_own(void **state)
{
	char path[RUNTIME_DIRECTORY_LENGTH], why[256];
	struct stat status;
	int fd;

	(void)state;
	need_root();
	fd = runtime_directory_open(path, why);
	assert_true(fd >= 0);
	assert_string_equal(path, "/run/slowrank");
	assert_int_equal(fstat(fd, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0700);
	close(fd);
}

/* A container's folders may be read-only, but for one. */
static void test_root_has_that_of_the_session_where_run_cannot_be_written_to(void **state)
{
	enum { DONE, OTHER, CANNOT };
	char path[RUNTIME_DIRECTORY_LENGTH], why[256], below[48];
	int status, fd;
	pid_t child;

	(void)state;
	need_root();
	make_folder(private, 0, 0700);
	child = fork();
	if (child == 0) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
			mount("tmpfs", "/run", "tmpfs", MS_RDONLY, NULL))
			_exit(CANNOT);
		setenv("XDG_RUNTIME_DIR", private, 1);
		snprintf(below, sizeof(below), "%s/slowrank", private);
		fd = runtime_directory_open(path, why);
		_exit(fd < 0 || strcmp(path, below) != 0 ? OTHER : DONE);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT)
		skip();
	assert_int_equal(status, DONE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_the_plain_name, make_names, remove_names),
		cmocka_unit_test_setup_teardown(
			test_a_name_of_somebody_else_is_passed_over, make_names, remove_names),
		cmocka_unit_test_setup_teardown(
			test_a_link_is_passed_over, make_names, remove_names),
		cmocka_unit_test_setup_teardown(
			test_a_name_that_is_given_up_parts_nobody, make_names, remove_names),
		cmocka_unit_test_setup_teardown(
			test_the_folder_of_the_session_if_it_is_private, make_names, remove_names),
		cmocka_unit_test(test_root_has_its_own),
		cmocka_unit_test_setup_teardown(
			test_root_has_that_of_the_session_where_run_cannot_be_written_to,
			make_names, remove_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
