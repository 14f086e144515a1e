/* SPDX-License-Identifier: Apache-2.0 */
/* A job whose processes and threads are limited keeps room for them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/sources/cgroup_place.h"
#include "probe/sources/text_file.h"
#include "probe/task_room.h"

enum { USER = 61235, SUFFICES = 0, TOO_FEW = 1, OTHER_REASON = 2, CANNOT = 3 };

static void tell(uint32_t probes, const char *reason)
{
	char why[TASK_ROOM_WHY_LENGTH];

	if (task_room_suffices(probes, why))
		_exit(SUFFICES);
	_exit(strstr(why, reason) ? TOO_FEW : OTHER_REASON);
}

static int status_of(pid_t child)
{
	int status;

	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int with_user_limit(rlim_t most, uint32_t probes)
{
	pid_t child = fork();

	if (child == 0) {
		if (setrlimit(RLIMIT_NPROC, &(struct rlimit){most, most}) || setgid(USER) ||
			setuid(USER))
			_exit(CANNOT);
		tell(probes, "ulimit -u");
	}
	return status_of(child);
}

static void user_limit(void **state)
{
	(void)state;
	if (geteuid() != 0)
		skip();
	assert_int_equal(with_user_limit(30, 1), TOO_FEW);
	assert_int_equal(with_user_limit(4096, 1), SUFFICES);
	assert_int_equal(with_user_limit(4096, 512), TOO_FEW);
}

static bool write_text(const char *folder, const char *name, const char *text)
{
	char path[CGROUP_PATH_LENGTH + 64];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	file = fopen(path, "w");
	return file && fputs(text, file) >= 0 && fclose(file) == 0;
}

static int in_group(const char *folder, const char *most)
{
	pid_t child;

	assert_true(write_text(folder, "pids.max", most));
	child = fork();
	if (child == 0) {
		if (!write_text(folder, "cgroup.procs", "0"))
			_exit(CANNOT);
		tell(1, "pids.max");
	}
	return status_of(child);
}

static void group_limit(void **state)
{
	char text[4096], folder[CGROUP_PATH_LENGTH + 32];
	struct cgroup_place place;
	struct stat status;
	int few, many;

	(void)state;
	if (text_file_read("/proc/self/cgroup", text, sizeof(text)) < 0 ||
		!cgroup_place_find(getpid(), text, "pids", &place))
		skip();
	snprintf(folder, sizeof(folder), "%s/slowrank-room-%d", place.directory, (int)getpid());
	if (mkdir(folder, 0755) < 0)
		skip();
	snprintf(text, sizeof(text), "%s/pids.max", folder);
	if (stat(text, &status) < 0) { /* v2, without the controller for groups below this one */
		rmdir(folder);
		skip();
	}
	few = in_group(folder, "100");
	many = in_group(folder, "4096");
	rmdir(folder);
	assert_int_equal(few, TOO_FEW);
	assert_int_equal(many, SUFFICES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(user_limit), cmocka_unit_test(group_limit)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
