/* SPDX-License-Identifier: Apache-2.0 */
/* The job's processes by looking: this program's own children. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/process_scan.h"
#include "probe/process_tree.h"

#define MS INT64_C(1000000)

static pid_t found, ended;
static int64_t now_ns = 1000000 * MS;

static void on_found(void *context, pid_t pid)
{
	(void)context;
	found = pid;
}

static void on_ended(void *context, pid_t pid)
{
	(void)context;
	ended = pid;
}

/* So many looks, each 500 ms after the one before. */
static void look(struct process_scan *scan, int times)
{
	static const struct process_scan_callbacks callbacks = {on_found, on_ended};

	for (int i = 0; i < times; i++) {
		now_ns += 500 * MS;
		process_scan_look(scan, (struct host_ns){now_ns}, &callbacks, NULL);
	}
}

static pid_t start_child(void)
{
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	found = ended = 0;
	return pid;
}

static void end_child(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void comes_and_goes(void **state)
{
	struct process_scan *scan = process_scan_create();
	pid_t child;

	(void)state;
	assert_non_null(scan);
	process_scan_add_root(scan, getpid());
	look(scan, 1);
	child = start_child();
	look(scan, 1);
	assert_int_equal(found, child);
	end_child(child);
	look(scan, 1);
	assert_int_equal(ended, child);
	process_scan_destroy(scan);
}

/* After ten quiet seconds one that comes is found two seconds later at most, one that goes at once. */
static void seldom_once_settled(void **state)
{
	struct process_scan *scan = process_scan_create();
	pid_t child, second;

	(void)state;
	assert_non_null(scan);
	process_scan_add_root(scan, getpid());
	look(scan, 1);
	child = start_child();
	look(scan, 1);
	assert_int_equal(found, child);
	look(scan, 25);
	second = start_child();
	look(scan, 4);
	assert_int_equal(found, second);
	look(scan, 25);
	end_child(child);
	look(scan, 1);
	assert_int_equal(ended, child);
	child = start_child(); /* something has happened: the next one is found at once */
	look(scan, 1);
	assert_int_equal(found, child);
	end_child(child);
	end_child(second);
	process_scan_destroy(scan);
}

/* It has ended, whether its parent asks for its status or not, and is told once. */
static void ends_before_it_is_reaped(void **state)
{
	struct process_scan *scan = process_scan_create();
	siginfo_t status;
	pid_t child;

	(void)state;
	assert_non_null(scan);
	process_scan_add_root(scan, getpid());
	child = start_child();
	assert_false(process_has_ended(child));
	look(scan, 1);
	assert_int_equal(found, child);
	kill(child, SIGKILL);
	assert_int_equal(waitid(P_PID, (id_t)child, &status, WEXITED | WNOWAIT), 0);
	assert_true(process_has_ended(child));
	look(scan, 1);
	assert_int_equal(ended, child);
	found = ended = 0;
	look(scan, 25);
	assert_int_equal(found, 0);
	assert_int_equal(ended, 0);
	end_child(child);
	assert_true(process_has_ended(child));
	process_scan_destroy(scan);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(comes_and_goes),
		cmocka_unit_test(seldom_once_settled),
		cmocka_unit_test(ends_before_it_is_reaped),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
