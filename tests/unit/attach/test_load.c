/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a library into programs that check themselves (load_program.c), many times. */
#include "probe/attach/load.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* clang-format off */
#include <cmocka.h>
/* clang-format on */

#include "probe/attach/load_call.h"
#include "tests/unit/seeds.h"

#if defined(__x86_64__)

enum { UNDISTURBED = 42, NOT_POSSIBLE = 77 };

struct program {
	pid_t pid;    /* of the child */
	pid_t target; /* that is loaded into */
	int input;
};

/* What came of loaders that were killed, with one kind of program. */
struct kills {
	const char *name, *program, *mode, *argument;
	unsigned tries, traced, loaded, disturbed; /* traced: as they were killed */
};

static unsigned loaded_count;
static int64_t longest_ns, stop_sum_ns;

static void pause_ms(long length_ms)
{
	struct timespec length = {length_ms / 1000, length_ms % 1000 * 1000000};

	nanosleep(&length, NULL);
}

static struct program begin(const char *path, const char *mode, const char *argument)
{
	struct program program = {0};
	int input[2], output[2];
	char line[64] = "";

	assert_int_equal(pipe2(input, O_CLOEXEC), 0);
	assert_int_equal(pipe2(output, O_CLOEXEC), 0);
	program.pid = fork();
	if (program.pid == 0) {
		dup2(input[0], 0);
		dup2(output[1], 1);
		execlp(path, path, mode, argument, (char *)NULL);
		_exit(127);
	}
	close(input[0]);
	close(output[1]);
	program.input = input[1];
	program.target = program.pid;
	FILE *lines = fdopen(output[0], "r");
	while (fgets(line, sizeof(line), lines) && strcmp(line, "ready\n") != 0) {
		int child;

		if (sscanf(line, "child %d", &child) == 1)
			program.target = child;
	}
	fclose(lines);
	if (strcmp(line, "ready\n") != 0)
		program.target = 0;
	return program;
}

static int end(struct program *program)
{
	int status;

	close(program->input);
	assert_int_equal(waitpid(program->pid, &status, 0), program->pid);
	if (!WIFEXITED(status))
		return -WTERMSIG(status);
	return WEXITSTATUS(status);
}

static bool is_mapped(pid_t pid, const char *name)
{
	char path[64], line[4096];
	bool found = false;
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		found |= strstr(line, name) != NULL;
	if (file)
		fclose(file);
	return found;
}

/* Any of its threads. */
static bool is_traced(pid_t pid)
{
	char path[320], line[256];
	struct dirent *entry;
	bool found = false;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder))) {
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", (int)pid, entry->d_name);
		FILE *file = fopen(path, "re");

		while (file && fgets(line, sizeof(line), file)) {
			if (strncmp(line, "TracerPid:", 10) == 0)
				found |= strtol(line + 10, NULL, 10) != 0;
			if (strncmp(line, "State:", 6) == 0)
				found |= line[7] == 'T' || line[7] == 't';
		}
		if (file)
			fclose(file);
	}
	if (folder)
		closedir(folder);
	return found;
}

static void assert_untraced(pid_t pid)
{
	assert_false(is_traced(pid));
}

static bool has_not_ended(const struct program *program)
{
	siginfo_t ended = {0};

	return waitid(P_PID, (id_t)program->pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 &&
	       ended.si_pid == 0;
}

/* Each load has a name of its own, so that a process can be loaded into again and again. */
static void load_times(pid_t pid, unsigned times, const char *name_start)
{
	for (unsigned i = 0; i < times; i++) {
		struct load_report report;
		char name[32];
		int result;

		snprintf(name, sizeof(name), "%s-%u.so", name_start, i);
		result = load_library(pid, LOAD_STARTED, name, "load_started", &report);
		if (result)
			fail_msg("load %u into %d: %d %s", i, (int)pid, result, report.why);
		loaded_count++;
		stop_sum_ns += report.stop_ns;
		if (report.longest_ns > longest_ns)
			longest_ns = report.longest_ns;
	}
	assert_untraced(pid);
}

static void load_into(const char *mode, const char *argument, unsigned times)
{
	struct program program = begin(LOAD_PROGRAM, mode, argument);

	if (!program.target) {
		assert_int_equal(end(&program), NOT_POSSIBLE);
		skip();
	}
	load_times(program.target, times, mode);
	pause_ms(20);
	assert_int_equal(end(&program), UNDISTURBED);
}

static void test_busy(void **state)
{
	(void)state;
	load_into("busy", NULL, 25);
}

static void test_allocating_threads(void **state)
{
	(void)state;
	load_into("allocate", NULL, 25);
}

static void test_interrupted_sleep(void **state)
{
	(void)state;
	load_into("sleep", NULL, 25);
}

static void test_interrupted_read(void **state)
{
	(void)state;
	load_into("read", NULL, 15);
}

static void test_interrupted_futex(void **state)
{
	(void)state;
	load_into("wait", NULL, 15);
}

static void test_signal_handlers(void **state)
{
	(void)state;
	load_into("signals", NULL, 15);
}

static void test_ordinary_user(void **state)
{
	(void)state;
	load_into("users", NULL, 5);
}

static void test_namespaces(void **state)
{
	(void)state;
	load_into("contained", NULL, 5);
}

/* No /proc there: the library comes as a copy, which is gone afterwards. */
static void test_root_without_proc(void **state)
{
	char root[] = "/tmp/slowrank-load-XXXXXX", folder[64], command[128];

	(void)state;
	assert_non_null(mkdtemp(root));
	snprintf(folder, sizeof(folder), "%s/tmp", root);
	assert_int_equal(mkdir(folder, 0755), 0);
	assert_int_equal(chmod(root, 0755), 0);
	assert_int_equal(chmod(folder, 01777), 0);
	load_into("contained", root, 3);
	snprintf(command, sizeof(command), "%s/tmp", root);
	assert_int_equal(rmdir(command), 0); /* empty */
	assert_int_equal(rmdir(root), 0);
}

static void test_static_program_is_refused(void **state)
{
#ifdef LOAD_PROGRAM_STATIC
	struct program program = begin(LOAD_PROGRAM_STATIC, "busy", NULL);
	struct load_report report;

	(void)state;
	assert_int_equal(
		load_library(program.target, LOAD_STARTED, "started.so", "load_started", &report),
		-ENOTSUP);
	assert_non_null(strstr(report.why, "linked statically"));
	assert_int_equal(report.thread, 0);
	assert_int_equal(end(&program), UNDISTURBED);
#else
	(void)state;
	skip();
#endif
}

static void test_second_time_is_told(void **state)
{
	struct program program = begin(LOAD_PROGRAM, "sleep", NULL);
	struct load_report report;

	(void)state;
	assert_int_equal(
		load_library(program.target, LOAD_STARTED, "once.so", "load_started", &report), 0);
	assert_true(is_mapped(program.target, "once.so"));
	assert_int_equal(
		load_library(program.target, LOAD_STARTED, "once.so", "load_started", &report),
		-EALREADY);
	assert_int_equal(report.thread, 0);
	assert_int_equal(end(&program), UNDISTURBED);
}

static void test_library_that_fails(void **state)
{
	struct program program = begin(LOAD_PROGRAM, "busy", NULL);
	struct load_report report;

	(void)state;
	assert_int_equal(
		load_library(program.target, LOAD_STARTED, "refused.so", "load_refused", &report),
		-ENODEV);
	assert_non_null(strstr(report.why, "load_refused() failed"));
	assert_int_equal(
		load_library(program.target, LOAD_STARTED, "other.so", "no_such_function", &report),
		-ENOEXEC);
	assert_non_null(strstr(report.why, "no_such_function"));
	/* Not a library at all: the loader's own words. */
	assert_int_equal(
		load_library(program.target, "/etc/passwd", "text.so", "load_started", &report),
		-ENOEXEC);
	assert_non_null(strstr(report.why, "ELF"));
	assert_int_equal(
		load_library(program.target, "/no/such/file", "none.so", "load_started", &report),
		-ENOENT);
	assert_untraced(program.target);
	assert_int_equal(end(&program), UNDISTURBED);
}

static void test_traced_by_another(void **state)
{
	struct program program = begin(LOAD_PROGRAM, "busy", NULL);
	struct load_report report;

	(void)state;
	assert_int_equal(ptrace(PTRACE_SEIZE, program.target, NULL, NULL), 0);
	assert_int_equal(
		load_library(program.target, LOAD_STARTED, "traced.so", "load_started", &report),
		-EPERM);
	assert_non_null(strstr(report.why, "traced by process"));
	assert_int_equal(ptrace(PTRACE_INTERRUPT, program.target, NULL, NULL), 0);
	assert_int_equal(waitpid(program.target, NULL, __WALL), program.target);
	assert_int_equal(ptrace(PTRACE_DETACH, program.target, NULL, NULL), 0);
	assert_int_equal(end(&program), UNDISTURBED);
}

static void test_stopped_program_is_refused(void **state)
{
	struct program program = begin(LOAD_PROGRAM, "sleep", NULL);
	struct load_report report;

	(void)state;
	kill(program.target, SIGSTOP);
	pause_ms(100);
	assert_int_equal(
		load_library(program.target, LOAD_STARTED, "stopped.so", "load_started", &report),
		-ENOTSUP);
	assert_non_null(strstr(report.why, "kill -CONT"));
	kill(program.target, SIGCONT);
	/* SIGCONT ends a sleep of nobody's doing but its own: nanosleep() goes on. */
	assert_int_equal(end(&program), UNDISTURBED);
}

/* Nothing may be written below its stack pointer, where its stack may have no room. */
static void test_coroutine_is_left_alone(void **state)
{
	struct program program = begin(LOAD_PROGRAM, "coroutine", NULL);
	struct load_report report;

	(void)state;
	assert_int_equal(
		load_library(program.target, LOAD_STARTED, "fiber.so", "load_started", &report),
		-EBUSY);
	assert_non_null(strstr(report.why, "coroutine"));
	assert_int_equal(end(&program), UNDISTURBED);
}

static void test_program_that_ends(void **state)
{
	(void)state;
	for (long i = 0; i < 12; i++) {
		struct program program = begin(LOAD_PROGRAM, "busy", NULL);
		struct load_report report;
		pid_t killer = fork();

		if (killer == 0) {
			struct timespec length = {.tv_nsec = 400000 * i};

			nanosleep(&length, NULL);
			kill(program.target, SIGKILL);
			_exit(0);
		}
		int result = load_library(
			program.target, LOAD_STARTED, "dying.so", "load_started", &report);

		waitpid(killer, NULL, 0);
		if (result) /* else it was faster */
			assert_true(report.why[0] != '\0');
		assert_int_equal(end(&program), -SIGKILL);
	}
	struct load_report report;
	assert_int_equal(
		load_library(0x3ffffff, LOAD_STARTED, "none.so", "load_started", &report), -ESRCH);
	assert_non_null(strstr(report.why, "has ended"));
}

static void test_program_that_begins_anew(void **state)
{
	struct program program = begin(LOAD_PROGRAM, "anew", NULL);

	(void)state;
	for (unsigned i = 0; i < 15; i++) {
		struct load_report report;
		char name[32];

		snprintf(name, sizeof(name), "anew-%u.so", i);
		/* Either way is right; the program must not notice. */
		if (load_library(program.target, LOAD_STARTED, name, "load_started", &report))
			assert_true(report.why[0] != '\0');
	}
	assert_int_equal(end(&program), UNDISTURBED);
}

/* The loader ends while the thread is in its call: the thread goes back alone. */
static void let_loader_die(pid_t target_pid, bool in_call)
{
	pid_t loader = fork();
	int status;

	if (loader == 0) {
		static struct load_target target;
		static struct load_trace trace;
		struct load_call call = {
			.target = &target, .library_name = "left.so", .start = "load_started"};
		char why[256];

		if (load_target_read(target_pid, "left.so", &target, why, sizeof(why)) ||
			load_trace_seize(&trace, target_pid, target_pid))
			_exit(1);
		if (in_call && load_call_begin(&call, &trace))
			_exit(2);
		_exit(0);
	}
	waitpid(loader, &status, 0);
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void loader_dies(const char *mode, bool in_call)
{
	struct program program = begin(LOAD_PROGRAM, mode, NULL);

	let_loader_die(program.target, in_call);
	pause_ms(100);
	assert_untraced(program.target);
	assert_int_equal(end(&program), UNDISTURBED);
}

static void test_loader_that_dies(void **state)
{
	(void)state;
	loader_dies("read", true);
	loader_dies("wait", true);
	loader_dies("busy", true);
	loader_dies("until", true);
	loader_dies("read", false);
	loader_dies("sleep", false);
}

/* They neither end early nor begin anew: the kernel keeps what is left of their time. */
static void test_waits_when_a_loader_dies(void **state)
{
	static const char *const modes[] = {"sleep", "poll", "futex"};
	struct program programs[3];

	(void)state;
	for (size_t i = 0; i < 3; i++)
		programs[i] = begin(LOAD_PROGRAM, modes[i], "1600");
	pause_ms(1300);
	for (size_t i = 0; i < 3; i++)
		let_loader_die(programs[i].target, true);
	for (size_t i = 0; i < 3; i++)
		assert_int_equal(end(&programs[i]), UNDISTURBED);
}

/*
 * One load, killed after a while: all of it, with the process that it makes. Every other one is killed
 * within a millisecond of having stopped a thread, else the most end before or after.
 */
static void load_and_kill(pid_t target, unsigned number, uint32_t random, struct kills *kills)
{
	enum { WITHIN_NS = 6000000, STOPPED_WITHIN_NS = 1000000, LOOKS_MAX = 2000 };
	bool when_stopped = number % 2;
	long after_ns =
		(long)((uint64_t)random * (when_stopped ? STOPPED_WITHIN_NS : WITHIN_NS) >> 32);
	struct timespec length = {.tv_nsec = after_ns};
	struct load_report report;
	char name[32];
	int status;
	pid_t loader = fork();

	if (loader == 0) {
		setpgid(0, 0);
		snprintf(name, sizeof(name), "killed-%u.so", number);
		_exit(load_library(target, LOAD_STARTED, name, "load_started", &report) ? 1 : 0);
	}
	setpgid(loader, loader);
	for (unsigned i = 0; when_stopped && i < LOOKS_MAX && !is_traced(target); i++)
		nanosleep(&(struct timespec){.tv_nsec = 10000}, NULL);
	nanosleep(&length, NULL);
	kills->traced += is_traced(target);
	kill(-loader, SIGKILL);
	assert_int_equal(waitpid(loader, &status, 0), loader);
	kills->loaded += WIFEXITED(status) && WEXITSTATUS(status) == 0;
	kills->tries++;
	/* The other process goes by itself; what it held is held no longer then. */
	for (unsigned i = 0; i < 1000 && is_traced(target); i++)
		pause_ms(1);
}

/* Loaders die at any instant; the program must not notice. */
static void kill_loaders(struct kills *kills, unsigned tries, uint32_t *seed)
{
	enum { TRIES_A_PROGRAM = 10 };

	for (unsigned done = 0; done < tries;) {
		struct program program = begin(kills->program, kills->mode, kills->argument);
		unsigned i = 0;

		assert_int_not_equal(program.target, 0);
		for (; i < TRIES_A_PROGRAM && done + i < tries && has_not_ended(&program); i++) {
			*seed = *seed * 1664525u + 1013904223u;
			load_and_kill(program.target, i, *seed, kills);
		}
		done += i;
		kills->disturbed += end(&program) != UNDISTURBED;
	}
}

static void test_loaders_killed_at_any_instant(void **state)
{
	struct kills kinds[] = {{"nanosleep()", LOAD_PROGRAM, "sleep", "60", 0, 0, 0, 0},
		{"clock_nanosleep(), absolute", LOAD_PROGRAM, "until", "60", 0, 0, 0, 0},
		{"read() of a pipe", LOAD_PROGRAM, "read", NULL, 0, 0, 0, 0},
		{"poll() with a timeout", LOAD_PROGRAM, "poll", "60", 0, 0, 0, 0},
		{"epoll_wait() with a timeout", LOAD_PROGRAM, "epoll", "4", 0, 0, 0, 0},
		{"futex() with a timeout", LOAD_PROGRAM, "futex", "60", 0, 0, 0, 0},
		{"sums in vector registers", LOAD_PROGRAM, "busy", NULL, 0, 0, 0, 0},
		{"threads, signals, timers, children", LOAD_PROGRAM, "many", NULL, 0, 0, 0, 0},
		{"Python", "python3", LOAD_PROGRAM_PY, NULL, 0, 0, 0, 0}};
	const size_t count = sizeof(kinds) / sizeof(kinds[0]);
	const char *wanted = getenv("LOAD_KILLS"), *first = getenv("LOAD_KILLS_SEED");
	unsigned tries = wanted ? (unsigned)strtoul(wanted, NULL, 10) : SEEDS_OF(108),
		 disturbed = 0;
	uint32_t seed = first ? (uint32_t)strtoul(first, NULL, 10) : 1;

	(void)state;
	print_message(
		"%-36s %6s %7s %6s %9s\n", "program", "tries", "traced", "loads", "disturbed");
	for (size_t i = 0; i < count; i++) {
		kill_loaders(&kinds[i], (tries + (unsigned)count - 1) / (unsigned)count, &seed);
		print_message("%-36s %6u %7u %6u %9u\n", kinds[i].name, kinds[i].tries,
			kinds[i].traced, kinds[i].loaded, kinds[i].disturbed);
		disturbed += kinds[i].disturbed;
	}
	assert_int_equal(disturbed, 0);
}

static int tell_times(void **state)
{
	(void)state;
	print_message("%u loads; the thread was stopped %.0f us on average; longest stop %.0f us\n",
		loaded_count, loaded_count ? (double)stop_sum_ns / loaded_count / 1000 : 0.0,
		(double)longest_ns / 1000);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_busy),
		cmocka_unit_test(test_allocating_threads),
		cmocka_unit_test(test_interrupted_sleep),
		cmocka_unit_test(test_interrupted_read),
		cmocka_unit_test(test_interrupted_futex),
		cmocka_unit_test(test_signal_handlers),
		cmocka_unit_test(test_ordinary_user),
		cmocka_unit_test(test_namespaces),
		cmocka_unit_test(test_root_without_proc),
		cmocka_unit_test(test_static_program_is_refused),
		cmocka_unit_test(test_second_time_is_told),
		cmocka_unit_test(test_library_that_fails),
		cmocka_unit_test(test_traced_by_another),
		cmocka_unit_test(test_stopped_program_is_refused),
		cmocka_unit_test(test_coroutine_is_left_alone),
		cmocka_unit_test(test_program_that_ends),
		cmocka_unit_test(test_program_that_begins_anew),
		cmocka_unit_test(test_loader_that_dies),
		cmocka_unit_test(test_waits_when_a_loader_dies),
		cmocka_unit_test(test_loaders_killed_at_any_instant),
	};
	const struct CMUnitTest killed[] = {cmocka_unit_test(test_loaders_killed_at_any_instant)};

	if (getenv("LOAD_KILLS")) /* the long one alone */
		return cmocka_run_group_tests(killed, NULL, NULL);
	return cmocka_run_group_tests(tests, NULL, tell_times);
}

#else

/* On other CPUs nothing is touched, and one line says why. */
static void test_refused(void **state)
{
	struct load_report report;

	(void)state;
	assert_int_equal(
		load_library(getpid(), LOAD_STARTED, "load_started", "start", &report), -ENOTSUP);
	assert_non_null(strstr(report.why, "x86-64 only"));
	assert_non_null(strstr(report.why, "slowrank run"));
	assert_int_equal(report.stops, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_refused)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

#endif
