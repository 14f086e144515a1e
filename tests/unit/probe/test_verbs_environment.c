/* SPDX-License-Identifier: Apache-2.0 */
/* What a job gets into its LD_PRELOAD, and when it gets nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/verbs_environment.h"

static char folder[64], devices[96], library[96];

static int make_folder(void **state)
{
	char device[128];
	FILE *file;

	(void)state;
	snprintf(folder, sizeof(folder), "/tmp/slowrank-environment.XXXXXX");
	assert_non_null(mkdtemp(folder));
	snprintf(devices, sizeof(devices), "%s/infiniband", folder);
	snprintf(device, sizeof(device), "%s/mlx5_0", devices);
	snprintf(library, sizeof(library), "%s/libslowrank_verbs.so", folder);
	mkdir(devices, 0700);
	mkdir(device, 0700);
	file = fopen(library, "w");
	assert_non_null(file);
	fclose(file);
	unsetenv("LD_PRELOAD");
	unsetenv("SLOWRANK_VERBS");
	return 0;
}

static int remove_folder(void **state)
{
	char command[128];

	(void)state;
	unsetenv("LD_PRELOAD");
	snprintf(command, sizeof(command), "rm -rf '%s'", folder);
	return system(command);
}

static bool set(const struct probe_options *options, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct verbs_environment environment = {library, devices};

	return verbs_environment_set(&environment, options, why);
}

static void after_what_the_user_preloads(void **state)
{
	const struct probe_options options = {.sources = PROBE_SOURCE_ALL};
	char why[WIRE_DETAIL_LENGTH_MAX + 1], wanted[256];

	(void)state;
	assert_true(set(&options, why));
	assert_string_equal(getenv("LD_PRELOAD"), library);
	assert_string_equal(why, "");
	/* A slowrank below a slowrank. */
	assert_true(set(&options, why));
	assert_string_equal(getenv("LD_PRELOAD"), library);

	snprintf(wanted, sizeof(wanted), "libjemalloc.so.2 /x%s", library);
	setenv("LD_PRELOAD", wanted, 1); /* a longer name is another one */
	assert_true(set(&options, why));
	snprintf(wanted, sizeof(wanted), "libjemalloc.so.2 /x%s:%s", library, library);
	assert_string_equal(getenv("LD_PRELOAD"), wanted);
	assert_true(set(&options, why));
	assert_string_equal(getenv("LD_PRELOAD"), wanted);
}

static void make_file(const char *name)
{
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	mkdir(path, 0700);
	snprintf(path, sizeof(path), "%s/%s/libslowrank_verbs.so", folder, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fclose(file);
}

/* Where each loader of this machine finds one of its own; not where one would find none. */
static void by_platform(void **state)
{
	const struct probe_options options = {.sources = PROBE_SOURCE_ALL};
	const char *own = (const char *)getauxval(AT_PLATFORM);
	char why[WIRE_DETAIL_LENGTH_MAX + 1], wanted[128];

	(void)state;
	if (!own || strcmp(own, "x86_64") != 0)
		skip();
	unsetenv("LD_PRELOAD");
	make_file("x86_64");
	make_file("haswell");
	make_file("xeon_phi");
	assert_true(set(&options, why));
	assert_string_equal(getenv("LD_PRELOAD"), library);
	unsetenv("LD_PRELOAD");
	make_file("i686");
	for (int i = 0; i < 2; i++) {
		assert_true(set(&options, why));
		snprintf(wanted, sizeof(wanted), "%s/$PLATFORM/libslowrank_verbs.so", folder);
		assert_string_equal(getenv("LD_PRELOAD"), wanted);
	}
}

static void nothing_where_it_is_of_no_use(void **state)
{
	struct probe_options options = {.sources = PROBE_SOURCE_ALL};
	struct verbs_environment environment = {library, "/nowhere/infiniband"};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	(void)state;
	unsetenv("LD_PRELOAD");
	assert_false(verbs_environment_set(&environment, &options, why));
	assert_non_null(strstr(why, "no RDMA device"));
	assert_null(getenv("LD_PRELOAD"));

	environment = (struct verbs_environment){"/nowhere/libslowrank_verbs.so", devices};
	assert_false(verbs_environment_set(&environment, &options, why));
	assert_non_null(strstr(why, "libslowrank_verbs.so"));
	assert_null(getenv("LD_PRELOAD"));

	options.sources &= ~(unsigned)PROBE_SOURCE_RDMA;
	assert_false(set(&options, why));
	assert_null(getenv("LD_PRELOAD"));
}

static void switched_off(void **state)
{
	const struct probe_options options = {
		.sources = PROBE_SOURCE_ALL, .verbs = PROBE_VERBS_OFF};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	(void)state;
	unsetenv("LD_PRELOAD");
	assert_false(set(&options, why));
	assert_null(getenv("LD_PRELOAD"));
	assert_string_equal(getenv("SLOWRANK_VERBS"), "off");
	unsetenv("SLOWRANK_VERBS");
}

static void options_say_so(void **state)
{
	char *off[] = {"run", "--verbs", "off", "--", "true", NULL};
	char *wrong[] = {"run", "--verbs=maybe", "--", "true", NULL};
	struct probe_options *options = calloc(1, sizeof(*options));

	(void)state;
	assert_int_equal(probe_options_parse_run(options, 5, off), OPTIONS_OK);
	assert_int_equal(options->verbs, PROBE_VERBS_OFF);
	assert_int_equal(probe_options_parse_run(options, 4, wrong), OPTIONS_BAD);
	setenv("SLOWRANK_VERBS", "off", 1);
	off[1] = "--verbs=auto"; /* the command line wins */
	off[2] = "--";
	assert_int_equal(probe_options_parse_run(options, 5, off), OPTIONS_OK);
	assert_int_equal(options->verbs, PROBE_VERBS_AUTO);
	off[1] = "--quiet";
	assert_int_equal(probe_options_parse_run(options, 5, off), OPTIONS_OK);
	assert_int_equal(options->verbs, PROBE_VERBS_OFF);
	unsetenv("SLOWRANK_VERBS");
	free(options);
}

static void nothing_in_a_container(void **state)
{
	char *const commands[][6] = {{"apptainer", "exec", "image.sif", "./app", NULL},
		{"mpirun", "-n", "4", "/usr/bin/enroot", "start", NULL},
		{"srun", "--container-image=x", "./app", NULL}};
	struct probe_options options = {.sources = PROBE_SOURCE_ALL};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	(void)state;
	unsetenv("LD_PRELOAD");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		options.command = (char **)(uintptr_t)commands[i];
		assert_false(set(&options, why));
		assert_non_null(strstr(why, "container"));
		assert_null(getenv("LD_PRELOAD"));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(after_what_the_user_preloads),
		cmocka_unit_test(by_platform),
		cmocka_unit_test(nothing_where_it_is_of_no_use),
		cmocka_unit_test(nothing_in_a_container),
		cmocka_unit_test(switched_off),
		cmocka_unit_test(options_say_so),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
