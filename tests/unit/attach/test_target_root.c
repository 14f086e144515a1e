/* SPDX-License-Identifier: Apache-2.0 */
/* Paths of a process in a root of its own: links stay inside, and only regular files are opened. */
#include "probe/attach/target_root.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
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

static char root[64];
static pid_t inhabitant;

static const char *in(const char *path)
{
	static char full[128];

	snprintf(full, sizeof(full), "%s%s", root, path);
	return full;
}

static void write_file(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

/* A process that lives in the folder. */
static int set_up(void **state)
{
	int told[2];
	char byte = 0;

	(void)state;
	strcpy(root, "/tmp/slowrank-root-XXXXXX");
	if (!mkdtemp(root) || pipe2(told, O_CLOEXEC) < 0)
		return -1;
	assert_int_equal(mkdir(in("/folder"), 0755), 0);
	write_file(in("/folder/file"), "inside");
	inhabitant = fork();
	if (inhabitant == 0) {
		byte = (char)(chroot(root) == 0 && chdir("/") == 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)!write(told[1], &byte, 1);
		for (;;)
			pause();
	}
	close(told[1]);
	assert_int_equal(read(told[0], &byte, 1), 1);
	close(told[0]);
	return byte ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	kill(inhabitant, SIGKILL);
	waitpid(inhabitant, NULL, 0);
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static void expect_text(const char *path, const char *expected)
{
	int fd = target_file_open(target_root_find(inhabitant, path, 0), O_RDONLY);
	char text[16] = "";

	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text) - 1) >= 0);
	assert_string_equal(text, expected);
	close(fd);
}

static void links_are_followed_inside(void **state)
{
	char outside[128];

	(void)state;
	expect_text("/folder/file", "inside");
	assert_int_equal(symlink("/folder", in("/absolute")), 0);
	expect_text("/absolute/file", "inside");
	assert_int_equal(symlink("../../../folder", in("/folder/upwards")), 0);
	expect_text("/folder/upwards/file", "inside");
	expect_text("/../../folder/file", "inside");
	/* The same file by the host's path: there is none of that name inside. */
	snprintf(outside, sizeof(outside), "%s/folder", root);
	assert_int_equal(symlink(outside, in("/outside")), 0);
	assert_int_equal(access(in("/outside/file"), R_OK), 0);
	assert_int_equal(target_root_find(inhabitant, "/outside/file", 0), -ENOENT);
	assert_int_equal(target_root_find(inhabitant, "/outside", O_DIRECTORY), -ENOENT);
}

static void links_of_the_kernel_are_refused(void **state)
{
	int found;

	(void)state;
	assert_int_equal(target_root_find(getpid(), "/proc/self/root/tmp", O_DIRECTORY), -ELOOP);
	found = target_root_find(getpid(), "/proc/self", O_DIRECTORY);
	assert_true(found >= 0);
	close(found);
}

static void only_regular_files_are_opened(void **state)
{
	(void)state;
	assert_int_equal(mkfifo(in("/fifo"), 0644), 0);
	assert_int_equal(
		target_file_open(target_root_find(inhabitant, "/fifo", 0), O_RDONLY), -EINVAL);
	assert_int_equal(
		target_file_open(target_root_find(inhabitant, "/folder", 0), O_RDONLY), -EINVAL);
	assert_int_equal(
		target_file_open(target_root_find(getpid(), "/dev/null", 0), O_RDWR), -EINVAL);
	assert_int_equal(target_root_find(inhabitant, "/folder/file", O_DIRECTORY), -ENOTDIR);
	assert_int_equal(target_file_open(-ENOENT, O_RDONLY), -ENOENT);
	assert_int_equal(target_root_find(0x7fffffff, "/", O_DIRECTORY), -ENOENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links_are_followed_inside),
		cmocka_unit_test(links_of_the_kernel_are_refused),
		cmocka_unit_test(only_regular_files_are_opened),
	};

	if (geteuid() != 0) {
		print_message("skipped: not root\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
