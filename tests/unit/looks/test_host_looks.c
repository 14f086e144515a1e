/* SPDX-License-Identifier: Apache-2.0 */
/* A process that waits in a known function is looked at by a sampler: in its steps, at once, and when things go wrong. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/looks/host_looks.h"
#include "probe/ring/host_clock.h"

#define MS INT64_C(1000000)
enum { RANK = 5, STEP_MS = 40, PATIENCE_MS = 20000, NOBODY = 65534 };

static struct host_looks *looks;
static pid_t target, worker;
static uint32_t request;

__attribute__((noinline)) static void wait_here(int fd)
{
	char byte;

	while (read(fd, &byte, 1) != 1)
		;
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

/* A rank and a worker of its own, which waits in the same function. */
static void be_target(int ready, int go)
{
	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	worker = fork();
	if (worker == 0) { /* told by itself: from here on it ends with its parent */
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		worker = getpid();
		if (write(ready, &worker, sizeof(worker)) != sizeof(worker))
			_exit(1);
	}
	wait_here(go);
	_exit(0);
}

static int set_up(void **state)
{
	int ready[2], go[2];

	(void)state;
	request = 0;
	looks = host_looks_create(true);
	if (!looks || pipe(ready) || pipe(go))
		return -1;
	target = fork();
	if (target == 0)
		be_target(ready[1], go[0]);
	if (read(ready[0], &worker, sizeof(worker)) != sizeof(worker))
		return -1;
	close(ready[0]);
	close(ready[1]);
	close(go[0]);
	return 0; /* the other end stays open: they wait */
}

static int clean_up(void **state)
{
	(void)state;
	host_looks_destroy(looks);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	return 0;
}

static struct host_ns now(void)
{
	return (struct host_ns){host_clock_now_ns()};
}

static void ask(uint32_t steps, pid_t pid)
{
	const struct message_directive directive = {.kind = DIRECTIVE_STACKS,
		.rank = RANK,
		.steps = steps,
		.limit_ms = 5000,
		.request = ++request};

	host_looks_ask(looks, &directive, pid, now());
}

/* A step of the rank that ends now: half of it is in a barrier. */
static void step(int64_t *start_ns)
{
	int64_t end_ns = now().value;
	struct collective_part part = {.communicator_id = 7,
		.operation = OPERATION_BARRIER,
		.arrival = {*start_ns + (end_ns - *start_ns) / 2},
		.departure = {end_ns}};
	const struct step_entry entry = {
		.start = {*start_ns}, .end = {end_ns}, .part_count = 1, .parts = &part};

	host_looks_step(looks, target, &entry);
	*start_ns = end_ns;
}

/* Steps pass until there is a profile: the caller's until the next call. */
static const struct stack_profile *wait_for_profile(void)
{
	int64_t start_ns = now().value;
	struct stack_profile **profiles;

	for (int waited_ms = 0; waited_ms < PATIENCE_MS; waited_ms += STEP_MS) {
		usleep(STEP_MS * 1000);
		step(&start_ns);
		host_looks_tick(looks, now());
		if (host_looks_take(looks, &profiles)) {
			assert_int_equal(profiles[0]->rank, RANK);
			assert_int_equal(profiles[0]->request, request);
			assert_true(stack_profile_is_valid(profiles[0]));
			return profiles[0];
		}
	}
	fail_msg("no profile came");
	return NULL;
}

static bool is_in(const struct stack_profile *profile, uint32_t node, const char *function)
{
	for (; node != STACK_NODE_NONE; node = profile->nodes[node].parent) {
		if (strcmp(profile->text + profile->nodes[node].function, function) == 0)
			return true;
	}
	return false;
}

/* In ms; also checks what is known of a thread that waits in a pipe. */
static double time_in_wait(const struct stack_profile *profile, pid_t pid, bool inside)
{
	double time_ms = 0;

	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct stack_sum *sum = &profile->sums[i];
		const struct stack_thread_info *thread = &profile->threads[sum->thread];

		if (thread->pid != pid || profile->segments[sum->segment].inside != inside)
			continue;
		assert_int_equal(sum->state, STACK_STATE_SOCKET);
		assert_true(is_in(profile, sum->node, "read"));
		assert_int_equal(
			thread->role, pid == target ? STACK_THREAD_CALLER : STACK_THREAD_WORKER);
		time_ms += (double)sum->time_ns / 1e6;
	}
	return time_ms;
}

/* What /proc says of a process: a word of its file. */
static bool read_word(pid_t pid, const char *name, const char *format, void *word)
{
	char path[32];
	FILE *file;
	bool found;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	file = fopen(path, "re");
	found = file && fscanf(file, format, word) == 1;
	if (file)
		fclose(file);
	return found;
}

/* A process that is translated (qemu-user) waits in a call of the other processor's, whose number is another one. */
static void skip_where_calls_are_others(void)
{
	int call;

	usleep(200000);
	if (read_word(target, "syscall", "%d", &call) && call != SYS_read) {
		print_message("skipped: the kernel has it in call %d, not in read()\n", call);
		skip();
	}
}

static void test_steps(void **state)
{
	const struct stack_profile *profile;
	double length_ms;

	(void)state;
	skip_where_calls_are_others();
	ask(20, target);
	assert_true(host_looks_are_busy(looks));
	profile = wait_for_profile();
	assert_int_equal(profile->result, STACK_RESULT_DONE);
	assert_true(profile->steps >= 20 && profile->looks > 5);
	assert_true(profile->cost_ns > 0);
	length_ms = (double)(profile->stop.value - profile->start.value) / 1e6;
	for (int inside = 0; inside < 2; inside++) {
		assert_true(time_in_wait(profile, target, inside) > 0.2 * length_ms);
		assert_true(time_in_wait(profile, worker, inside) > 0.2 * length_ms);
		assert_true(time_in_wait(profile, target, inside) < 0.8 * length_ms);
	}
	assert_false(host_looks_are_busy(looks));
}

enum { WORKERS = 16, THREADS = 60, DEPTH = 150, NAP_US = 50000 };

/* Returns never in time: so many frames deep. */
__attribute__((noinline)) static void nap(volatile int depth)
{
	if (depth > 0)
		nap(depth - 1);
	else
		while (depth == 0)
			usleep(NAP_US);
	__asm__ volatile("" ::: "memory"); /* no tail call */
}

static void *nap_in_thread(void *unused)
{
	nap(DEPTH);
	return unused;
}

static void be_busy_worker(void)
{
	pthread_t thread;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 1; i < THREADS; i++) {
		if (pthread_create(&thread, NULL, nap_in_thread, NULL))
			_exit(1);
	}
	nap(DEPTH);
}

/* However much there is to see of its workers, the rank itself is looked at, and they are in turn. */
static void test_busy_workers(void **state)
{
	const struct stack_profile *profile;
	const struct message_directive directive = {.kind = DIRECTIVE_STACKS,
		.rank = RANK,
		.steps = 1000,
		.limit_ms = 6500,
		.request = ++request};
	pid_t quiet = target, parent = fork();
	bool own = false, of_worker = false;

	(void)state;
	if (parent == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (unsigned i = 0; i < WORKERS; i++) {
			if (fork() == 0)
				be_busy_worker();
		}
		for (;;)
			pause();
	}
	usleep(200000);
	target = parent;
	host_looks_ask(looks, &directive, target, now());
	profile = wait_for_profile();
	target = quiet;
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	assert_int_equal(profile->result, STACK_RESULT_DONE);
	assert_true(profile->looks > 2); /* few where others have the processors */
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct stack_thread_info *thread = &profile->threads[profile->sums[i].thread];

		own |= thread->pid == parent;
		of_worker |= thread->role == STACK_THREAD_WORKER;
	}
	assert_true(own && of_worker);
}

static void test_at_once(void **state)
{
	const struct stack_profile *profile;
	int64_t begin_ns;
	bool found = false;

	(void)state;
	skip_where_calls_are_others();
	begin_ns = now().value;
	ask(0, target);
	profile = wait_for_profile();
	assert_int_equal(profile->result, STACK_RESULT_DONE);
	assert_int_equal(profile->steps, 0);
	assert_true(now().value - begin_ns < 10000 * MS);
	for (uint32_t i = 0; i < profile->sum_count; i++)
		found |= profile->threads[profile->sums[i].thread].pid == target &&
			 is_in(profile, profile->sums[i].node, "read");
	assert_true(found);
}

/* In uninterruptible sleep until its child ends: the kernel's stack is told, where the call is. */
static void test_uninterruptible(void **state)
{
	const struct stack_profile *profile;
	char run_state = 'D';
	bool found = false;
	pid_t parent = fork();

	(void)state;
	if (parent == 0) {
		pid_t held = getpid();

		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (vfork() == 0) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			while (getppid() == held) /* else nothing held it, and it has ended */
				pause();
			_exit(0);
		}
		_exit(0);
	}
	usleep(200000);
	if (read_word(parent, "stat", "%*d (%*[^)]) %c", &run_state) && run_state != 'D') {
		print_message("skipped: vfork() is a fork() here\n"); /* as of qemu-user */
		kill(parent, SIGKILL);
		waitpid(parent, NULL, 0);
		skip();
	}
	ask(0, parent);
	profile = wait_for_profile();
	for (uint32_t i = 0; i < profile->node_count; i++) {
		const struct stack_node *node = &profile->nodes[i];

		found |= node->kind == STACK_FRAME_KERNEL && node->parent != STACK_NODE_NONE &&
			 profile->nodes[node->parent].kind == STACK_FRAME_KERNEL;
	}
	kill(parent, SIGKILL);
	waitpid(parent, NULL, 0);
	assert_true(found);
}

/* The sampler of a look that is under way: a child of this process with its name. 0: none. */
static pid_t find_sampler(void)
{
	char path[64], name[32];
	pid_t found = 0, pid;
	FILE *children, *file;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	children = fopen(path, "re");
	while (children && !found && fscanf(children, "%d", &pid) == 1) {
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		file = fopen(path, "re");
		if (file && fgets(name, sizeof(name), file) &&
			strncmp(name, "slowrank-stacks", 15) == 0)
			found = pid;
		if (file)
			fclose(file);
	}
	if (children)
		fclose(children);
	return found;
}

static void test_killed_sampler(void **state)
{
	const struct stack_profile *profile;
	struct message_source source;
	pid_t sampler = 0;

	(void)state;
	ask(1000, target);
	for (int i = 0; i < 500 && !(sampler = find_sampler()); i++)
		usleep(10000);
	assert_int_not_equal(sampler, 0);
	kill(sampler, SIGKILL);
	profile = wait_for_profile();
	assert_int_equal(profile->result, STACK_RESULT_FAILED);
	assert_string_equal(profile->why, "its sampler was ended by signal 9");
	host_looks_state(looks, &source);
	assert_string_equal(source.name, "host.stacks");
	assert_int_equal(source.state, SOURCE_DEGRADED);
	assert_non_null(strstr(source.why, "sampler"));
	/* It rests: the same answer at once, and no sampler. */
	ask(1000, target);
	assert_false(host_looks_are_busy(looks));
	assert_int_equal(wait_for_profile()->result, STACK_RESULT_FAILED);
}

/* Asks for a look and stops its sampler before that has told all. */
static pid_t stop_sampler(void)
{
	const struct message_directive directive = {.kind = DIRECTIVE_STACKS,
		.rank = RANK,
		.steps = 8,
		.limit_ms = 1,
		.request = ++request};
	pid_t sampler = 0;

	host_looks_ask(looks, &directive, target, now());
	for (int i = 0; i < 500 && !(sampler = find_sampler()); i++)
		usleep(1000);
	if (sampler) /* else it was quicker */
		kill(sampler, SIGSTOP);
	return sampler;
}

static void pass_seconds(int64_t count)
{
	host_looks_tick(looks, (struct host_ns){now().value + count * 1000 * MS});
}

/* A sampler that does nothing any more is ended by its probe. */
static void test_stopped_sampler(void **state)
{
	(void)state;
	(void)stop_sampler();
	pass_seconds(40);
	pass_seconds(80);
	assert_false(host_looks_are_busy(looks));
}

/* One that a busy machine kept from its CPU has not crashed. */
static void test_late_sampler(void **state)
{
	const struct stack_profile *profile;
	pid_t sampler = stop_sampler();

	(void)state;
	pass_seconds(12);
	pass_seconds(24);
	if (sampler)
		kill(sampler, SIGCONT);
	profile = wait_for_profile();
	assert_int_not_equal(profile->result, STACK_RESULT_FAILED);
#if defined(__x86_64__)
	assert_string_equal(profile->why, "");
#else
	assert_non_null(strstr(profile->why, "native frames may be missing"));
#endif
}

/* Steps go on while a sampler that has seen enough is about to tell its end. */
static void test_steps_behind_the_last(void **state)
{
	pid_t sampler = 0;
	int64_t end_ns;

	(void)state;
	ask(2, target);
	for (int i = 0; i < 25; i++) {
		usleep(STEP_MS * 1000);
		host_looks_tick(looks, now());
	}
	sampler = find_sampler();
	assert_int_not_equal(sampler, 0);
	kill(sampler, SIGSTOP);
	end_ns = now().value - 400 * MS;
	for (int i = 0; i < 10; i++, end_ns += STEP_MS * MS) {
		const struct step_entry entry = {.start = {end_ns - STEP_MS * MS}, .end = {end_ns}};

		host_looks_step(looks, target, &entry);
		host_looks_tick(looks, now());
	}
	kill(sampler, SIGCONT);
	assert_int_equal(wait_for_profile()->result, STACK_RESULT_DONE);
}

/* The job ends long before the look would: what was seen until then counts, if its sampler had a CPU at all. */
static void test_end_of_the_job(void **state)
{
	const struct message_directive directive = {.kind = DIRECTIVE_STACKS,
		.rank = RANK,
		.steps = 10000,
		.limit_ms = HOST_LOOKS_LIMIT_MS_MAX,
		.request = ++request};
	struct stack_profile **profiles;
	int64_t start_ns = now().value;

	(void)state;
	host_looks_ask(looks, &directive, target, now());
	for (int i = 0; i < 30; i++) {
		usleep(STEP_MS * 1000);
		step(&start_ns);
		host_looks_tick(looks, now());
	}
	assert_int_equal(host_looks_take(looks, &profiles), 0);
	host_looks_end(looks);
	for (int i = 0; i < PATIENCE_MS && host_looks_are_busy(looks); i++) {
		usleep(1000);
		host_looks_tick(looks, now());
	}
	assert_int_equal(host_looks_take(looks, &profiles), 1);
	if (profiles[0]->result == STACK_RESULT_DONE)
		assert_true(profiles[0]->steps > 0);
	else
		assert_int_equal(profiles[0]->result, STACK_RESULT_NO_STEPS);
}

static void test_process_that_dies(void **state)
{
	const struct stack_profile *profile;

	(void)state;
	ask(1000, target);
	usleep(500000);
	kill(target, SIGKILL);
	waitpid(target, NULL, 0);
	profile = wait_for_profile();
	assert_int_equal(profile->result, STACK_RESULT_ENDED);
	/* Steps before its end are there all the same, if there were any. */
	ask(8, 0);
	assert_int_equal(wait_for_profile()->result, STACK_RESULT_ENDED);
}

static void test_directives(void **state)
{
	const struct message_directive other = {
		.kind = 99, .rank = RANK, .steps = 8, .request = 70};
	struct host_looks *unwanted = host_looks_create(false);
	const struct message_directive directive = {
		.kind = DIRECTIVE_STACKS, .rank = RANK, .steps = 8, .request = 71};
	struct stack_profile **profiles;
	struct message_source source;

	(void)state;
	host_looks_ask(looks, &other, target, now());
	assert_false(host_looks_are_busy(looks));
	host_looks_ask(unwanted, &directive, target, now());
	host_looks_ask(unwanted, &directive, target, now()); /* repeated until it is answered */
	assert_false(host_looks_are_busy(unwanted));
	assert_int_equal(host_looks_take(unwanted, &profiles), 1);
	assert_int_equal(profiles[0]->result, STACK_RESULT_FAILED);
	host_looks_state(unwanted, &source);
	assert_int_equal(source.state, SOURCE_OFF);
	host_looks_destroy(unwanted);
}

/* An ordinary user's probe has no right to look at root's processes. */
static void test_no_right(void **state)
{
	int status;
	pid_t child;

	(void)state;
	if (geteuid() != 0)
		skip();
	child = fork();
	if (child == 0) {
		struct stack_profile **profiles;
		struct message_source source;
		size_t count = 0;

		if (setgid(NOBODY) || setuid(NOBODY))
			_exit(1);
		ask(8, target);
		for (int i = 0; i < 500 && !count; i++) {
			usleep(20000);
			host_looks_tick(looks, now());
			count = host_looks_take(looks, &profiles);
		}
		host_looks_state(looks, &source);
		_exit(count == 1 && profiles[0]->result == STACK_RESULT_NO_RIGHT &&
					source.state == SOURCE_MISSING
				? 0
				: 2);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_steps, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_busy_workers, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_at_once, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_uninterruptible, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_killed_sampler, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_stopped_sampler, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_late_sampler, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_steps_behind_the_last, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_end_of_the_job, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_process_that_dies, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_directives, set_up, clean_up),
		cmocka_unit_test_setup_teardown(test_no_right, set_up, clean_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
