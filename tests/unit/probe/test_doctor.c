/* SPDX-License-Identifier: Apache-2.0 */
/* The doctor on this very host, with and without rights. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/commands.h"
#include "probe/doctor.h"

static const struct doctor_line *find(const struct doctor *doctor, const char *name)
{
	for (size_t i = 0; i < doctor->line_count; i++) {
		if (strcmp(doctor->lines[i].name, name) == 0)
			return &doctor->lines[i];
	}
	return NULL;
}

static char *print(
	void (*writer)(const struct doctor *doctor, FILE *out), const struct doctor *doctor)
{
	char *text = NULL;
	size_t length = 0;
	FILE *out = open_memstream(&text, &length);

	assert_non_null(out);
	writer(doctor, out);
	assert_int_equal(fclose(out), 0);
	return text;
}

static void lines_are_bounded_and_escaped(void **state)
{
	struct doctor *doctor = calloc(1, sizeof(*doctor));
	char *text;

	(void)state;
	doctor_advise(doctor_add(doctor, DOCTOR_DEGRADED, "odd", "a \"quote\" \\ \x1b[31m \xff"),
		"do %d things", 2);
	text = print(doctor_print_json, doctor);
	assert_non_null(strstr(text, "{\"name\": \"odd\", \"state\": \"degraded\", \"found\": "
				     "\"a \\\"quote\\\" \\\\ \\u001b[31m ?\", "
				     "\"advice\": \"do 2 things\"}"));
	assert_non_null(strstr(text, "\"sees_collectives\": false"));
	free(text);
	for (int i = 0; i < 200; i++)
		doctor_add(doctor, DOCTOR_FINE, "many", "%d", i);
	assert_int_equal(doctor->line_count, DOCTOR_LINES_MAX);
	assert_int_equal(doctor->line_dropped, 201 - DOCTOR_LINES_MAX);
	text = print(doctor_print_text, doctor);
	assert_non_null(strstr(text, "more lines did not fit"));
	free(text);
	free(doctor);
}

static void the_kernel_is_told_as_it_is(void **state)
{
	struct doctor *doctor = calloc(1, sizeof(*doctor));

	(void)state;
	doctor_check_kernel(doctor);
	assert_non_null(find(doctor, "kernel"));
	assert_int_equal(find(doctor, "btf")->state,
		access("/sys/kernel/btf/vmlinux", R_OK) == 0 ? DOCTOR_FINE : DOCTOR_MISSING);
	free(doctor);
}

/* In a child, as an ordinary user: nothing works, and each line says what to do. */
static void without_rights_it_says_how_to_get_them(void **state)
{
	int status;
	pid_t child;

	(void)state;
	if (geteuid() != 0)
		skip();
	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct doctor *doctor = calloc(1, sizeof(*doctor));
		const struct doctor_line *rights, *bpf;

		if (setresgid(65534, 65534, 65534) < 0 || setresuid(65534, 65534, 65534) < 0)
			_exit(2);
		doctor_check_rights(doctor);
		doctor_check_hooks(doctor);
		rights = find(doctor, "rights");
		bpf = find(doctor, "bpf");
		_exit(!(rights && rights->state == DOCTOR_MISSING &&
			strstr(rights->advice, "setcap") && bpf && bpf->state == DOCTOR_MISSING &&
			strstr(bpf->found, "CAP_BPF") && !doctor->sees_collectives));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

static void with_rights_a_call_in_another_process_is_seen(void **state)
{
	struct doctor *doctor = calloc(1, sizeof(*doctor));
	const struct doctor_line *hook;

	(void)state;
	doctor_check_rights(doctor);
	if (find(doctor, "rights")->state == DOCTOR_MISSING ||
		access("/sys/kernel/btf/vmlinux", R_OK) != 0) {
		free(doctor);
		skip();
	}
	doctor_check_hooks(doctor);
	hook = find(doctor, "hook uprobe");
	assert_non_null(hook);
	assert_int_equal(hook->state, DOCTOR_FINE);
	assert_non_null(strstr(hook->found, "was seen"));
	assert_int_equal(find(doctor, "hook process")->state, DOCTOR_FINE);
	assert_true(doctor->sees_collectives);
	free(doctor);
}

static void bad_usage_is_two(void **state)
{
	char name[] = "doctor", option[] = "--nonsense";
	char *arguments[] = {name, option, NULL};

	(void)state;
	assert_int_equal(cmd_doctor(2, arguments), 2);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_bounded_and_escaped),
		cmocka_unit_test(the_kernel_is_told_as_it_is),
		cmocka_unit_test(without_rights_it_says_how_to_get_them),
		cmocka_unit_test(with_rights_a_call_in_another_process_is_seen),
		cmocka_unit_test(bad_usage_is_two),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
