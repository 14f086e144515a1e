/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/looks/sampler.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe/attach/confined.h"
#include "probe/looks/sample_writer.h"
#include "probe/looks/thread_counters.h"
#include "probe/process_tree.h"
#include "probe/rights.h"
#include "probe/ring/host_clock.h"
#include "probe/stacks/names.h"
#include "probe/stacks/target.h"
#include "probe/stacks/wait.h"

enum { NICE = 5, TARGETS_MAX = 1 + SAMPLER_WORKERS_MAX, CPU_S = 30, LOOKS_BEFORE_COST = 3 };
/* Processes that come later are workers of the next epoch. */
#define WORKERS_AGAIN_NS INT64_C(5000000000)
#define PERIOD_NS_MIN (INT64_C(1000000000) / SAMPLER_HZ)

/* A process, and what its threads were seen at, by their place in the sample. */
struct watched {
	pid_t pid;
	struct stack_target *target; /* NULL until its first turn */
	struct stack_names *names;
	size_t seen_count;
	struct sample_seen seen[STACK_PROFILE_THREADS_MAX]; /* in its last turn */
	struct stack_sample *sample;
	uint32_t threads[THREADS_MAX];
	struct sample_seen last[THREADS_MAX]; /* node STACK_NODE_NONE: nothing */
};

struct sampler {
	struct sampler_options options;
	struct sample_writer writer;
	size_t watched_count;
	struct watched *watched[TARGETS_MAX];
	struct stack_lines lines;
	struct sample_seen seen[STACK_PROFILE_THREADS_MAX];
	size_t next_worker; /* whose turn it is, of watched */
	size_t thread_count;
	struct stack_thread_info threads[STACK_PROFILE_THREADS_MAX];
	uint64_t left_out_threads;
	size_t left_out_workers;
	int64_t workers_ns, look_cost_ns; /* the latter: usual, of one look */
	bool opened;			  /* a process, in this look */
	bool without_workers;		  /* they take too long */
	uint64_t looks;
	struct sampler_end end;
};

static volatile sig_atomic_t stopped;

static void stop(int signal)
{
	(void)signal;
	stopped = 1;
}

static int64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Children that found names count, too. */
static int64_t all_cpu_ns(void)
{
	struct rusage children;

	getrusage(RUSAGE_CHILDREN, &children);
	return cpu_ns() +
	       ((int64_t)children.ru_utime.tv_sec + children.ru_stime.tv_sec) * 1000000000 +
	       ((int64_t)children.ru_utime.tv_usec + children.ru_stime.tv_usec) * 1000;
}

static void close_watched(struct watched *watched)
{
	if (!watched)
		return;
	stack_names_destroy(watched->names);
	stack_target_close(watched->target);
	free(watched->sample);
	free(watched);
}

static int watch(struct sampler *sampler, pid_t pid)
{
	struct watched *watched = calloc(1, sizeof(*watched));

	if (!watched)
		return -ENOMEM;
	watched->pid = pid;
	sampler->watched[sampler->watched_count++] = watched;
	return 0;
}

static int open_watched(struct sampler *sampler, struct watched *watched)
{
	int error;

	sampler->opened = true;
	watched->sample = calloc(1, sizeof(*watched->sample));
	error = watched->sample ? stack_target_open(watched->pid, &watched->target) : -ENOMEM;
	return error ? error : stack_names_create(watched->target, &watched->names);
}

static bool is_watched(const struct sampler *sampler, pid_t pid)
{
	for (size_t i = 0; i < sampler->watched_count; i++) {
		if (sampler->watched[i]->pid == pid)
			return true;
	}
	return false;
}

/* Processes of the rank in its own session: what slowrank started for it has others. */
static void find_workers(struct sampler *sampler, int64_t now_ns)
{
	pid_t session = getsid(sampler->options.pid);
	struct attach_process *tree;
	size_t count;

	if (sampler->workers_ns && now_ns - sampler->workers_ns < WORKERS_AGAIN_NS)
		return;
	sampler->workers_ns = now_ns;
	sampler->left_out_workers = 0;
	count = process_tree_find(&sampler->options.pid, 1, &tree);
	for (size_t i = 0; tree && i < count; i++) {
		if (is_watched(sampler, tree[i].pid) || getsid(tree[i].pid) != session)
			continue;
		if (sampler->watched_count == TARGETS_MAX || sampler->without_workers)
			sampler->left_out_workers++;
		else
			(void)watch(sampler, tree[i].pid);
	}
	free(tree);
}

static bool is_worker(const struct sampler *sampler, const struct watched *watched)
{
	return watched->pid != sampler->options.pid;
}

/* Its number; STACK_PROFILE_THREADS_MAX when there is none for it. A guess that was right is right again. */
static uint32_t thread_number(struct sampler *sampler, const struct watched *watched,
	const struct thread_now *now, uint32_t guess)
{
	pid_t pid = watched->pid;
	struct stack_thread_info *info;

	if (guess < sampler->thread_count && sampler->threads[guess].tid == now->tid)
		return guess;
	for (uint32_t i = 0; i < sampler->thread_count; i++) {
		if (sampler->threads[i].tid == now->tid)
			return i;
	}
	if (sampler->thread_count == STACK_PROFILE_THREADS_MAX)
		return STACK_PROFILE_THREADS_MAX;
	info = &sampler->threads[sampler->thread_count];
	*info = (struct stack_thread_info){.pid = pid,
		.tid = now->tid,
		.role = is_worker(sampler, watched) ? STACK_THREAD_WORKER
			: now->tid == pid	    ? STACK_THREAD_CALLER
						    : STACK_THREAD_OTHER};
	memcpy(info->name, now->name, sizeof(info->name) - 1);
	info->cpu_ns = info->blocked_ns = info->major_faults = -1; /* told at the end */
	sample_writer_thread(&sampler->writer, (uint32_t)sampler->thread_count, info);
	thread_counters_begin(info);
	return (uint32_t)sampler->thread_count++;
}

/* A stack as it grows from its outermost frame. */
struct growing_stack {
	struct sample_writer *writer;
	uint32_t node;
	bool failed; /* there is no room for more nodes */
};

static void push(struct growing_stack *stack, enum stack_frame_kind kind, const char *function,
	const char *file, int32_t line)
{
	if (stack->failed)
		return;
	stack->node =
		sample_writer_node(stack->writer, stack->node, (uint8_t)kind, function, file, line);
	stack->failed = stack->node == STACK_NODE_NONE;
}

/* Where in the kernel it waits: of a thread that nothing wakes, its whole stack there. */
static void put_kernel(
	struct growing_stack *stack, struct stack_target *target, const struct thread_now *now)
{
	char names[THREAD_KERNEL_FRAMES][THREAD_KERNEL_NAME_LENGTH];
	size_t count = now->state == 'D' ? stack_target_kernel_frames(target, now->tid, names) : 0;

	for (size_t i = count; i-- > 0;)
		push(stack, STACK_FRAME_KERNEL, names[i], "", 0);
	if (!count && now->place[0])
		push(stack, STACK_FRAME_KERNEL, now->place, "", 0);
}

/* From the outermost frame to what it waits for. STACK_NODE_NONE: there was no room for it. */
static uint32_t put_stack(struct sampler *sampler, struct stack_target *target,
	const struct stack_wait *wait, const struct thread_now *now)
{
	const struct stack_lines *lines = &sampler->lines;
	struct growing_stack stack = {&sampler->writer, STACK_NODE_NONE, false};
	size_t most = STACK_PROFILE_DEPTH_MAX - 1 - THREAD_KERNEL_FRAMES, count = lines->count;

	if (count > most) /* the outermost ones are missed least */
		count = most;
	for (size_t i = count; i-- > 0;) {
		const struct stack_line *line = &lines->lines[i];

		if (line->kind == STACK_LINE_PYTHON)
			push(&stack, STACK_FRAME_PYTHON, line->name, line->place, line->line);
		else if (line->kind == STACK_LINE_NATIVE)
			push(&stack, STACK_FRAME_NATIVE, line->name, line->place, 0);
	}
	if (wait->what[0])
		push(&stack, STACK_FRAME_WAIT, wait->what, wait->on, 0);
	if (wait->what[0])
		put_kernel(&stack, target, now);
	if (stack.node == STACK_NODE_NONE) /* it runs, and no frame is known */
		push(&stack, STACK_FRAME_NATIVE, "", "", 0);
	return stack.node;
}

static void see_thread(struct sampler *sampler, struct watched *watched, size_t index)
{
	const struct stack_thread *thread = &watched->sample->threads[index];
	uint32_t number = thread_number(sampler, watched, &thread->now, watched->threads[index]);
	struct sample_seen *last = &watched->last[index];
	struct stack_wait wait;

	if (number == STACK_PROFILE_THREADS_MAX ||
		watched->seen_count == STACK_PROFILE_THREADS_MAX) {
		sampler->left_out_threads++;
		return;
	}
	watched->threads[index] = number;
	if (thread->as_before && last->node != STACK_NODE_NONE && last->thread == number) {
		watched->seen[watched->seen_count++] = *last;
		return;
	}
	last->node = STACK_NODE_NONE;
	if (thread->torn || stack_names_merge(watched->names, thread, &sampler->lines)) {
		sampler->end.incomplete++;
		return;
	}
	stack_wait_read(watched->pid, &thread->now, &wait);
	*last = (struct sample_seen){.thread = number,
		.node = put_stack(sampler, watched->target, &wait, &thread->now),
		.state = (uint8_t)wait.state};
	if (last->node == STACK_NODE_NONE)
		sampler->end.incomplete++;
	else
		watched->seen[watched->seen_count++] = *last;
}

static int look_at(
	struct sampler *sampler, struct watched *watched, int64_t now_ns, uint64_t most_ns)
{
	int error = watched->target ? 0 : open_watched(sampler, watched);

	if (!error)
		error = stack_target_sample(
			watched->target, (uint64_t)now_ns, most_ns, watched->sample);
	if (error)
		return error;
	sampler->left_out_threads += watched->sample->left_out;
	stack_names_learn(watched->names, watched->sample);
	watched->seen_count = 0;
	for (size_t i = 0; i < watched->sample->count; i++)
		see_thread(sampler, watched, i);
	return 0;
}

/* One of them has its turn, and as many more as there is time for. A worker may end. */
static void look_at_workers(struct sampler *sampler, int64_t now_ns, uint64_t most_ns)
{
	int64_t begin_ns = cpu_ns();
	size_t turns = sampler->watched_count - 1;

	for (size_t i = 0; i < turns; i++) {
		struct watched **worker;

		if (i && (uint64_t)(cpu_ns() - begin_ns) >= most_ns)
			return;
		if (sampler->next_worker == 0 || sampler->next_worker >= sampler->watched_count)
			sampler->next_worker = 1;
		worker = &sampler->watched[sampler->next_worker];
		if (look_at(sampler, *worker, now_ns, most_ns) == 0) {
			sampler->next_worker++;
		} else {
			close_watched(*worker);
			*worker = sampler->watched[--sampler->watched_count];
		}
	}
}

/* The rank comes first, and when it ends, so does this. Workers that had no turn count as they were seen last. */
static int look(struct sampler *sampler)
{
	uint64_t most_ns = sampler->options.limit_ns ? SAMPLER_READ_NS : UINT64_MAX;
	int64_t now_ns = host_clock_now_ns();
	size_t count = 0;
	int error;

	sampler->opened = false;
	error = look_at(sampler, sampler->watched[0], now_ns, most_ns);
	if (error)
		return error;
	look_at_workers(sampler, now_ns, most_ns);
	for (size_t w = 0; w < sampler->watched_count; w++) {
		const struct watched *watched = sampler->watched[w];

		for (size_t i = 0; i < watched->seen_count; i++) {
			if (count < STACK_PROFILE_THREADS_MAX)
				sampler->seen[count++] = watched->seen[i];
			else
				sampler->left_out_threads++;
		}
	}
	sample_writer_look(&sampler->writer, now_ns, sampler->seen, count);
	sampler->looks++;
	return sampler->writer.failed ? -EPIPE : 0;
}

/* False: without workers, too, a look takes too long. */
static bool drop_workers(struct sampler *sampler)
{
	if (sampler->watched_count == 1)
		return false;
	while (sampler->watched_count > 1) {
		close_watched(sampler->watched[--sampler->watched_count]);
		sampler->left_out_workers++;
	}
	sampler->without_workers = true;
	sampler->look_cost_ns = 0;
	return true;
}

static void sleep_until(int64_t time_ns)
{
	const struct timespec until = {time_ns / 1000000000, time_ns % 1000000000};

	(void)clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
}

/*
 * What finds files and names, the first looks and those that meet new code, do not tell what one costs: the usual cost begins as that
 * which leaves the period as it is, and grows by half at most.
 */
static void note_cost(struct sampler *sampler, int64_t cost_ns)
{
	int64_t usual = sampler->look_cost_ns;

	if (sampler->looks <= LOOKS_BEFORE_COST || sampler->opened)
		return;
	if (usual == 0)
		usual = (int64_t)((double)PERIOD_NS_MIN * SAMPLER_SHARE);
	sampler->look_cost_ns = cost_ns > 4 * usual ? usual + usual / 2 : (7 * usual + cost_ns) / 8;
}

static enum stack_result look_again_and_again(struct sampler *sampler)
{
	int64_t begin_ns = host_clock_now_ns(), end_ns = begin_ns + sampler->options.limit_ns;
	int64_t next_ns = begin_ns;

	do {
		int64_t before_ns = cpu_ns(), period_ns, now_ns;
		int error = look(sampler);

		if (error)
			return error == -ESRCH ? STACK_RESULT_ENDED : STACK_RESULT_FAILED;
		note_cost(sampler, cpu_ns() - before_ns);
		if (sampler->look_cost_ns > SAMPLER_LOOK_NS_MAX && !drop_workers(sampler))
			return STACK_RESULT_OVER_COST;
		period_ns = (int64_t)((double)sampler->look_cost_ns / SAMPLER_SHARE);
		next_ns += period_ns > PERIOD_NS_MIN ? period_ns : PERIOD_NS_MIN;
		now_ns = host_clock_now_ns();
		if (next_ns < now_ns)
			next_ns = now_ns;
		find_workers(sampler, now_ns);
		if (next_ns < end_ns && !stopped)
			sleep_until(next_ns);
	} while (next_ns < end_ns && !stopped);
	return STACK_RESULT_DONE;
}

static void say_what_is_missing(struct sampler *sampler)
{
	const struct stack_target *target = sampler->watched[0]->target;
	const char *no_python, *no_bpf = stack_target_without_bpf(target);
	const struct python *python = stack_target_python(target, &no_python);
	char *why = sampler->end.why;
	size_t room = sizeof(sampler->end.why);

	if (python)
		sampler->end.python_minor = (uint8_t)python->layout.minor;
	if (sampler->left_out_workers)
		snprintf(why, room, "%zu of its child processes are left out",
			sampler->left_out_workers);
	else if (sampler->left_out_threads)
		snprintf(why, room, "some of its threads are left out");
	else if (no_bpf)
		snprintf(why, room, "native frames may be missing: %s", no_bpf);
	else if (!python && strstr(no_python, "was found") == NULL)
		snprintf(why, room, "no Python frames: %s", no_python);
}

static void finish(struct sampler *sampler, enum stack_result result)
{
	for (size_t i = 0; i < sampler->thread_count; i++) {
		thread_counters_end(&sampler->threads[i]);
		sample_writer_thread(&sampler->writer, (uint32_t)i, &sampler->threads[i]);
	}
	sampler->end.result = (uint8_t)result;
	sampler->end.cost_ns = all_cpu_ns();
	sample_writer_end(&sampler->writer, &sampler->end);
}

static enum stack_result result_of(int error)
{
	return error == -ESRCH			     ? STACK_RESULT_ENDED
	       : error == -EACCES || error == -EPERM ? STACK_RESULT_NO_RIGHT
						     : STACK_RESULT_FAILED;
}

static void sample(struct sampler *sampler)
{
	enum stack_result result;
	int error = watch(sampler, sampler->options.pid);

	if (!error)
		error = open_watched(sampler, sampler->watched[0]);
	if (error) {
		result = result_of(error);
		if (result == STACK_RESULT_FAILED)
			snprintf(
				sampler->end.why, sizeof(sampler->end.why), "%s", strerror(-error));
	} else {
		find_workers(sampler, host_clock_now_ns());
		result = look_again_and_again(sampler);
		say_what_is_missing(sampler);
	}
	finish(sampler, result);
}

/* Files, rights, memory, time: what is left is enough to read. */
static int confine(int fd)
{
	struct sigaction action = {.sa_handler = stop};

	confined_limit(SAMPLER_MIB, CPU_S);
	(void)prctl(PR_SET_NAME, "slowrank-stacks");
	if (fd != STDERR_FILENO + 1 && dup2(fd, STDERR_FILENO + 1) < 0)
		return -errno;
	(void)syscall(SYS_close_range, STDERR_FILENO + 2, ~0U, 0);
	(void)!nice(NICE);
	sigaction(SIGTERM, &action, NULL);
	signal(SIGINT, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	rights_keep();
	return 0;
}

_Noreturn static void be_sampler(const struct sampler_options *options, int fd, pid_t probe)
{
	struct sampler *sampler;

	if (confine(fd) || getppid() != probe)
		_exit(1);
	sampler = calloc(1, sizeof(*sampler));
	if (!sampler || sample_writer_init(&sampler->writer, STDERR_FILENO + 1))
		_exit(1);
	sampler->options = *options;
	sample(sampler);
	_exit(0);
}

pid_t sampler_start(const struct sampler_options *options, int *fd)
{
	int ends[2];
	pid_t probe = getpid(), child;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	child = fork();
	if (child == 0)
		be_sampler(options, ends[1], probe);
	close(ends[1]);
	if (child < 0) {
		close(ends[0]);
		return -EAGAIN;
	}
	(void)fcntl(ends[0], F_SETFL, O_NONBLOCK);
	(void)fcntl(ends[0], F_SETPIPE_SZ, 1 << 20);
	*fd = ends[0];
	return child;
}
