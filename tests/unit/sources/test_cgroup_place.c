/* SPDX-License-Identifier: Apache-2.0 */
/* Cgroup paths through mount tables: v1, v2, hybrid, containers, odd names. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/sources/cgroup_place.h"

static char root[64]; /* a folder that stands for / */

static void make(const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *slash = strchr(full + strlen(root) + 1, '/'); slash;
		slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		mkdir(full, 0755);
		*slash = '/';
	}
	mkdir(full, 0755);
	assert_int_equal(access(full, F_OK), 0);
}

static int set_up(void **state)
{
	(void)state;
	strcpy(root, "/tmp/slowrank-place-XXXXXX");
	return mkdtemp(root) ? 0 : -1;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	return system(command);
}

static void expect_place(const char *mountinfo, const char *controller, const char *path,
	const char *directory, const char *top)
{
	struct cgroup_place place = {0};
	char expected[1024];

	if (!directory) {
		assert_false(cgroup_place_from_texts(mountinfo, root, controller, path, &place));
		return;
	}
	assert_true(cgroup_place_from_texts(mountinfo, root, controller, path, &place));
	snprintf(expected, sizeof(expected), "%s%s", root, directory);
	assert_string_equal(place.directory, expected);
	assert_int_equal(place.top_length, strlen(root) + strlen(top));
}

static void path_of_v1_hybrid_and_v2(void **state)
{
	static const char hybrid[] = "12:cpu,cpuacct:/job/rank0\n"
				     "4:memory:/box\n"
				     "1:name=systemd:/user.slice\n"
				     "0::/unified/a b:c\n";
	char path[CGROUP_PATH_LENGTH] = "untouched";

	(void)state;
	assert_true(cgroup_path_of(hybrid, "cpu", path));
	assert_string_equal(path, "/job/rank0");
	assert_true(cgroup_path_of(hybrid, "cpuacct", path));
	assert_string_equal(path, "/job/rank0");
	assert_true(cgroup_path_of(hybrid, "memory", path));
	assert_string_equal(path, "/box");
	assert_true(cgroup_path_of(hybrid, "", path));
	assert_string_equal(path, "/unified/a b:c"); /* a colon in the path is the path's */
	assert_false(cgroup_path_of(hybrid, "systemd", path));
	assert_false(cgroup_path_of(hybrid, "pu", path));
	assert_false(cgroup_path_of("", "cpu", path));
	assert_string_equal(path, "/unified/a b:c");
}

static void v1_host(void **state)
{
	static const char mounts[] =
		"25 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
		"32 31 0:29 / /sys/cpu,cpuacct rw,relatime shared:9 - cgroup cgroup "
		"rw,cpu,cpuacct\n"
		"33 31 0:30 / /sys/memory rw master:1 shared:3 - cgroup cgroup rw,memory\n"
		"41 31 0:38 / /sys/unified rw - cgroup2 cgroup2 rw\n";

	(void)state;
	make("/sys/cpu,cpuacct/job/rank0");
	make("/sys/memory");
	make("/sys/unified");
	expect_place(mounts, "cpu", "/job/rank0", "/sys/cpu,cpuacct/job/rank0", "/sys/cpu,cpuacct");
	expect_place(mounts, "memory", "/", "/sys/memory", "/sys/memory");
	expect_place(mounts, "", "/", "/sys/unified", "/sys/unified");
	expect_place(mounts, "cpuset", "/", NULL, NULL);
	expect_place(mounts, "cpu", "/job/gone", NULL, NULL);
}

static void container_with_a_bound_root(void **state)
{
	/* Docker with v1 and the host's cgroup namespace: the mount shows one group only. */
	static const char mounts[] = "900 1 0:29 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup "
				     "rw,cpu\n";

	(void)state;
	make("/sys/fs/cgroup/cpu/inner");
	expect_place(mounts, "cpu", "/docker/abc/inner", "/sys/fs/cgroup/cpu/inner",
		"/sys/fs/cgroup/cpu");
	expect_place(mounts, "cpu", "/docker/abc", "/sys/fs/cgroup/cpu", "/sys/fs/cgroup/cpu");
	expect_place(mounts, "cpu", "/docker/abcdef", NULL, NULL); /* no part of a name */
	expect_place(mounts, "cpu", "/", NULL, NULL);
}

static void outside_of_the_namespace(void **state)
{
	static const char mounts[] = "900 1 0:29 / /v2 ro - cgroup2 cgroup rw\n";
	static const char above[] = "900 1 0:29 /../.. /v2 ro - cgroup2 cgroup rw\n";

	(void)state;
	make("/v2/other");
	make("/other"); /* must not be reached by leaving the mount */
	expect_place(mounts, "", "/../other", NULL, NULL);
	expect_place(above, "", "/../../other", "/v2/other", "/v2");
}

static void escaped_names(void **state)
{
	static const char mounts[] = "900 1 0:29 / /with\\040blank rw - cgroup2 cgroup2 rw\n";

	(void)state;
	make("/with blank/x");
	expect_place(mounts, "", "/x", "/with blank/x", "/with blank");
}

static void broken_lines(void **state)
{
	static const char mounts[] =
		"900 1\n\n900 1 0:29 / /v2 rw cgroup2 cgroup2 rw\n - cgroup2 x\n"
		"1 2 3 4 5 - cgroup2";

	(void)state;
	expect_place(mounts, "", "/x", NULL, NULL);
	expect_place("", "cpu", "/x", NULL, NULL);
}

static void own_process(void **state)
{
	struct cgroup_place place = {0};
	char text[4096];
	FILE *file = fopen("/proc/self/cgroup", "re");
	size_t length;

	(void)state;
	assert_non_null(file);
	length = fread(text, 1, sizeof(text) - 1, file);
	fclose(file);
	text[length] = '\0';
	if (!cgroup_place_find(getpid(), text, "cpu", &place))
		skip(); /* no cgroup file system is mounted here */
	assert_int_equal(access(place.directory, R_OK), 0);
	assert_true(strlen(place.directory) >= place.top_length);
}

/* A process may show anything as its group: what is no cgroup file is not even opened. */
static void only_cgroup_files_are_opened(void **state)
{
	struct cgroup_place place = {.found = true};
	char text[4096], path[128];
	FILE *file;
	int fd;

	(void)state;
	snprintf(path, sizeof(path), "%s/cpu.stat", root);
	assert_int_equal(mkfifo(path, 0644), 0);
	strcpy(place.directory, root);
	assert_int_equal(cgroup_open(&place, strlen(root), "cpu.stat"), -EINVAL);
	assert_int_equal(cgroup_open(&place, strlen(root), "memory.stat"), -ENOENT);
	file = fopen("/proc/self/cgroup", "re");
	assert_non_null(file);
	text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
	fclose(file);
	if (!cgroup_place_find(getpid(), text, "cpu", &place)) {
		print_message("skipped: no cgroup of ours is visible\n");
		skip();
	}
	fd = cgroup_open(&place, strlen(place.directory), "cpu.stat");
	assert_true(fd >= 0);
	assert_true(read(fd, text, sizeof(text)) > 0);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(path_of_v1_hybrid_and_v2),
		cmocka_unit_test(v1_host),
		cmocka_unit_test(container_with_a_bound_root),
		cmocka_unit_test(outside_of_the_namespace),
		cmocka_unit_test(escaped_names),
		cmocka_unit_test(broken_lines),
		cmocka_unit_test(own_process),
		cmocka_unit_test(only_cgroup_files_are_opened),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
