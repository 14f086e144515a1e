/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that needs a library, which needs another, which holds a row of the table under a name
 * of its own: each in a folder that only the one before names.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/dependencies.h"
#include "probe/attach/library.h"

enum { SKIPPED = 77 };

static char folder[64];

static void shell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static void shell(const char *format, ...)
{
	char command[1024];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(command, sizeof(command), format, arguments);
	va_end(arguments);
	assert_int_equal(system(command), 0);
}

static int set_up(void **state)
{
	(void)state;
	if (system("cc --version >/dev/null 2>&1") != 0) {
		printf("skipped: no C compiler\n");
		exit(SKIPPED);
	}
	strcpy(folder, "/tmp/slowrank-dependencies-XXXXXX");
	if (!mkdtemp(folder))
		return -1;
	shell("cd %s && mkdir a b && echo 'int MPI_Barrier(void *c) { return c != 0; }' > deep.c "
	      "&& "
	      "echo 'int MPI_Barrier(void *); int middle(void) { return MPI_Barrier(0); }' > "
	      "middle.c && echo 'int middle(void); int main(void) { return middle(); }' > main.c",
		folder);
	shell("cd %s && cc -shared -fPIC -o b/libengine.so deep.c", folder);
	shell("cd %s && cc -shared -fPIC -Wl,-rpath,'$ORIGIN/../b' -Lb -o a/libmiddle.so middle.c "
	      "-lengine",
		folder);
	shell("cd %s && cc -Wl,-rpath,'$ORIGIN/a' -La -Wl,--allow-shlib-undefined -o program "
	      "main.c -lmiddle",
		folder);
	/* And one that finds its library by the environment alone. */
	shell("cd %s && cc -La -Wl,--allow-shlib-undefined -o lost main.c -lmiddle", folder);
	return 0;
}

static int tear_down(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

struct seen {
	int middle, engine, libc, total;
};

static void on_library(void *context, const char *path)
{
	struct seen *seen = context;

	seen->middle += strstr(path, "/libmiddle.so") != NULL;
	seen->engine += strstr(path, "/libengine.so") != NULL;
	seen->libc += strstr(path, "/libc.so.6") != NULL;
	seen->total++;
}

static void found_through_each_others_folders(void **state)
{
	struct seen seen = {0};
	char path[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/program", folder);
	dependencies_visit(path, NULL, on_library, &seen);
	assert_int_equal(seen.middle, 1);
	assert_int_equal(seen.engine, 1);
	assert_int_equal(seen.libc, 1);
	assert_in_range(seen.total, 3, 6);
}

static void found_through_the_environment(void **state)
{
	struct seen without = {0}, with = {0};
	char path[128], search[128];

	(void)state;
	snprintf(path, sizeof(path), "%s/lost", folder);
	snprintf(search, sizeof(search), "/nowhere:%s/a", folder);
	dependencies_visit(path, NULL, on_library, &without);
	dependencies_visit(path, search, on_library, &with);
	assert_int_equal(without.middle, 0);
	assert_int_equal(with.middle, 1);
	assert_int_equal(with.engine, 1);
}

static void no_program(void **state)
{
	struct seen seen = {0};

	(void)state;
	dependencies_visit("/nowhere/at/all", NULL, on_library, &seen);
	dependencies_visit("/etc/passwd", NULL, on_library, &seen);
	assert_int_equal(seen.total, 0);
}

/* The command's libraries: by the rows in them, whatever they are called. */
static void rows_under_another_name(void **state)
{
	static struct library_file files[64];
	char path[128];
	char *argv[] = {path, NULL};
	size_t count, engines = 0;

	(void)state;
	snprintf(path, sizeof(path), "%s/program", folder);
	assert_int_equal(library_find_for_command(argv, files, 64, &count), 0);
	for (size_t i = 0; i < count; i++) {
		engines += strstr(files[i].path, "/libengine.so") != NULL;
		assert_null(strstr(files[i].path, "/libmiddle.so"));
		assert_null(strstr(files[i].path, "/libc.so.6"));
	}
	assert_int_equal(engines, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(found_through_each_others_folders),
		cmocka_unit_test(found_through_the_environment),
		cmocka_unit_test(no_program),
		cmocka_unit_test(rows_under_another_name),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
