/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/attach/load_call.h"
#include "probe/attach/load_file.h"
#include "probe/attach/load_place.h"
#include "probe/attach/load_target.h"
#include "probe/attach/load_trace.h"

#if defined(__x86_64__)

enum {
	THREADS_MAX = 1024,
	ROUNDS_MAX = 400,
	STOPS_MAX = 400,
	STOPS_PER_ROUND = 8,
	RUNNING_FROM_ROUND = 3, /* what they wait in at other times has been seen by then */
	ROUND_PAUSE_NS = 5000000,
};
/* For pthread_create(): some tens of microseconds usually, more for a thread that gets no CPU. */
static const int64_t call_wait_ns = INT64_C(30000000000);
/* The loader's lock may be held for as long as the program opens a large library. */
static const int64_t load_wait_ns = INT64_C(60000000000);

static void pause_ns(long length_ns)
{
	struct timespec pause = {.tv_nsec = length_ns};

	(void)nanosleep(&pause, NULL);
}

static int explain(int error, pid_t pid, struct load_report *report)
{
	char scope[8] = "";
	int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);

	if (fd >= 0) {
		if (read(fd, scope, 1) != 1)
			scope[0] = '\0';
		close(fd);
	}
	if (report->why[0])
		return error;
	if (error == -EPERM || error == -EACCES)
		snprintf(report->why, sizeof(report->why),
			"no right to trace process %d%s%s: run slowrank as root or with "
			"CAP_SYS_PTRACE (docker run --cap-add SYS_PTRACE)%s",
			(int)pid, scope[0] > '0' ? "; kernel.yama.ptrace_scope is " : "",
			scope[0] > '0' ? scope : "",
			scope[0] == '3' ? "; scope 3 allows it to nobody until the next boot" : "");
	else if (error == -ESRCH)
		snprintf(report->why, sizeof(report->why),
			"process %d ended or began another program meanwhile", (int)pid);
	else
		snprintf(report->why, sizeof(report->why), "cannot load into process %d: %s",
			(int)pid, strerror(-error));
	return error;
}

static void note_stop(struct load_report *report, int64_t length_ns)
{
	if (length_ns > report->longest_ns)
		report->longest_ns = length_ns;
}

static bool has_ended(pid_t pid, pid_t thread)
{
	struct load_thread now;

	return load_target_thread(pid, thread, &now) < 0 || now.state == 'Z' || now.state == 'X';
}

/* Stops one thread and keeps it if it is at a safe place. 0, -EAGAIN: not there, other: over. */
static int try_thread(struct load_trace *trace, const struct load_target *target,
	const struct load_thread *what, enum load_place *place, struct load_report *report)
{
	int error = load_trace_seize(trace, target->pid, what->thread);

	if (error == -EPERM && has_ended(target->pid, what->thread))
		return -EAGAIN; /* so the kernel says of a thread that is a zombie */
	if (error == -ESRCH || error == -EAGAIN)
		return -EAGAIN; /* a thread that ended; or the whole process: seen at the next look */
	if (error == -ETIMEDOUT)
		snprintf(report->why, sizeof(report->why),
			"thread %d of process %d did not come to a stop: it gets no CPU, or hangs "
			"in "
			"the kernel; nothing was changed, try again later",
			(int)what->thread, (int)target->pid);
	if (error)
		return error;
	*place = load_place_of(target, what, trace);
	if (*place == LOAD_PLACE_SAFE)
		return 0;
	report->stops++;
	(void)load_trace_release(trace);
	note_stop(report, load_trace_now_ns() - trace->stopped_ns);
	return -EAGAIN;
}

/* Threads that were seen in a call which a stop would end: one may be on its way there when it runs. */
struct left_alone {
	size_t count;
	pid_t threads[THREADS_MAX];
};

/* Notes it, too. */
static bool is_left_alone(struct left_alone *left, const struct load_thread *what)
{
	for (size_t i = 0; i < left->count; i++) {
		if (left->threads[i] == what->thread)
			return true;
	}
	if (what->call >= 0 && !load_place_call_goes_on(what->call) && left->count < THREADS_MAX)
		left->threads[left->count++] = what->thread;
	return false;
}

/* Threads that wait first: a stop costs the job nothing there. */
static int try_threads(struct load_trace *trace, const struct load_target *target, bool waiting,
	enum load_place *place, struct load_report *report)
{
	static pid_t threads[THREADS_MAX];
	static struct left_alone left;
	size_t count = load_target_threads(target->pid, threads, THREADS_MAX);
	unsigned tried = 0;

	if (!count)
		return -ESRCH;
	for (size_t i = 0; i < count && tried < STOPS_PER_ROUND; i++) {
		struct load_thread what;
		int error = load_target_thread(target->pid, threads[i], &what);

		if (error || (what.state != 'S' && what.state != 'R'))
			continue;
		bool alone = is_left_alone(&left, &what);
		if (waiting ? !load_place_call_goes_on(what.call) : what.call >= 0 || alone)
			continue;
		tried++;
		error = try_thread(trace, target, &what, place, report);
		if (error != -EAGAIN)
			return error;
	}
	return -EAGAIN;
}

static int find_thread(
	struct load_trace *trace, const struct load_target *target, struct load_report *report)
{
	enum load_place place = LOAD_PLACE_SYSTEM_CALL;

	for (unsigned round = 0; round < ROUNDS_MAX && report->stops < STOPS_MAX; round++) {
		int error = try_threads(trace, target, true, &place, report);

		if (error == -EAGAIN && round >= RUNNING_FROM_ROUND)
			error = try_threads(trace, target, false, &place, report);
		if (error != -EAGAIN)
			return error;
		/* Not in step with what the program does. */
		pause_ns(ROUND_PAUSE_NS + (long)(round * 7919 % 1000) * 3000);
	}
	snprintf(report->why, sizeof(report->why),
		"no thread of process %d was at a place where it could be used, in %u tries (last: "
		"%s); nothing was changed, try again later",
		(int)target->pid, report->stops, load_place_name(place));
	return -EBUSY;
}

/* Keeps thread from its work for as long as it takes to make another thread. */
static int call_in_thread(
	struct load_trace *trace, struct load_call *call, struct load_report *report)
{
	int error = load_call_begin(call, trace), ended;
	int pid = (int)call->target->pid;

	if (!error)
		error = load_call_wait(call, load_trace_now_ns() + call_wait_ns);
	ended = load_call_end(call, trace);
	report->thread = trace->thread;
	report->stop_ns = load_trace_now_ns() - trace->stopped_ns;
	note_stop(report, report->stop_ns);
	if (error == -ETIMEDOUT)
		snprintf(report->why, sizeof(report->why),
			"thread %d of process %d did not come to an end of its call; it goes on by "
			"itself",
			(int)trace->thread, pid);
	if (!error)
		error = ended;
	if (!error && call->result) {
		snprintf(report->why, sizeof(report->why), "process %d cannot make a thread: %s",
			pid, strerror(call->result));
		error = -EAGAIN;
	}
	return error;
}

static int read_block(pid_t pid, uint64_t mapping, struct load_block *block)
{
	return load_trace_read(pid, mapping + LOAD_BLOCK_OFFSET, block, sizeof(*block));
}

static int wait_for_thread(
	pid_t pid, uint64_t mapping, enum load_thread_state state, struct load_block *block)
{
	int64_t end_ns = load_trace_now_ns() + load_wait_ns;
	int error;

	for (;;) {
		error = read_block(pid, mapping, block);
		if (error || block->thread_state >= (uint32_t)state)
			return error;
		if (load_trace_now_ns() > end_ns)
			return -ETIMEDOUT;
		pause_ns(200000);
	}
}

static int put_u32(pid_t pid, uint64_t mapping, size_t offset, uint32_t value)
{
	return load_trace_write(pid, mapping + LOAD_BLOCK_OFFSET + offset, &value, sizeof(value));
}

/* What the new thread says, when it has ended or is about to. */
static int judge(
	pid_t pid, const struct load_block *block, const char *start, struct load_report *report)
{
	char error[LOAD_ERROR_BYTES];

	memcpy(error, block->error, sizeof(error));
	error[sizeof(error) - 1] = '\0';
	report->start_result = block->start_result;
	if (block->stage == LOAD_STAGE_STARTED && block->start_result == 0)
		return 0;
	if (block->stage == LOAD_STAGE_STARTED)
		snprintf(report->why, sizeof(report->why),
			"the library is in process %d, but %s() failed there: %s", (int)pid, start,
			strerror(-block->start_result));
	else
		snprintf(report->why, sizeof(report->why), "process %d refused the library: %.150s",
			(int)pid, error[0] ? error : "no reason given");
	return block->stage == LOAD_STAGE_STARTED ? -ENODEV : -ENOEXEC;
}

static const char *explain_file(int error)
{
	if (error == -EBADF)
		return "its memory file was replaced by something else";
	if (error == -ENOSYS)
		return "this needs Linux 5.6";
	return strerror(-error);
}

/* From here on the job runs, and the new thread does the rest. */
static int load_beside(const struct load_call *call, const char *path, struct load_report *report)
{
	pid_t pid = call->target->pid;
	uint64_t mapping = call->mapping;
	struct load_block block;
	struct load_file file;
	int error = wait_for_thread(pid, mapping, LOAD_THREAD_HAS_FILE, &block);

	if (error)
		return error;
	error = load_file_provide(pid, path, call->library_name, block.memory_fd, &file);
	if (!error)
		error = load_trace_write(pid,
			mapping + LOAD_BLOCK_OFFSET + offsetof(struct load_block, path), file.path,
			sizeof(file.path));
	if (error)
		snprintf(report->why, sizeof(report->why),
			"the library's file cannot be given to process %d: %s", (int)pid,
			explain_file(error));
	int told = put_u32(
		pid, mapping, offsetof(struct load_block, go), error ? LOAD_GO_END : LOAD_GO_OPEN);
	if (!error)
		error = told;
	told = wait_for_thread(pid, mapping, LOAD_THREAD_ENDS, &block);
	load_file_remove(&file);
	if (told == -ETIMEDOUT)
		snprintf(report->why, sizeof(report->why),
			"process %d is still opening the library after a minute; it ends by itself",
			(int)pid);
	if (!told)
		told = put_u32(pid, mapping, offsetof(struct load_block, acknowledged),
			call->left ? LOAD_ACKNOWLEDGED_KEEP : LOAD_ACKNOWLEDGED_UNMAP);
	if (error || told)
		return error ? error : told;
	return judge(pid, &block, call->start, report);
}

/* In this process, which becomes the tracer for a moment. */
static int load_here(pid_t pid, const char *path, const char *library_name, const char *start,
	struct load_report *report)
{
	static struct load_trace trace;
	static struct load_target target;
	struct load_call call = {.target = &target, .library_name = library_name, .start = start};
	int64_t began_ns = load_trace_now_ns();
	int error;

	*report = (struct load_report){0};
	if (strlen(library_name) >= LOAD_NAME_BYTES || strlen(start) >= LOAD_NAME_BYTES)
		return explain(-EINVAL, pid, report);
	if (access(path, R_OK) < 0)
		return explain(-errno, pid, report);
	error = load_target_read(pid, library_name, &target, report->why, sizeof(report->why));
	if (!error)
		error = find_thread(&trace, &target, report);
	if (!error)
		error = call_in_thread(&trace, &call, report);
	if (!error)
		error = load_beside(&call, path, report);
	report->load_ns = load_trace_now_ns() - began_ns;
	return error ? explain(error, pid, report) : 0;
}

#else

static int load_here(pid_t pid, const char *path, const char *library_name, const char *start,
	struct load_report *report)
{
	(void)pid;
	(void)path;
	(void)library_name;
	(void)start;
	*report = (struct load_report){.why = "loading into a running process is made for x86-64 "
					      "only; start the job with 'slowrank run'"};
	return -ENOTSUP;
}

#endif

struct worker_answer {
	int error;
	struct load_report report;
};

static void work(int fd, pid_t pid, const char *path, const char *library_name, const char *start)
{
	struct worker_answer answer;
	const struct sched_param usual = {0};
	sigset_t all;

	(void)prctl(PR_SET_TIMERSLACK, 1);
	/* What our groups may do with files is not for the job's folders. */
	(void)setgroups(0, NULL);
	/* A thread of the job is held meanwhile: not while we wait for a CPU behind others. */
	(void)sched_setscheduler(0, SCHED_OTHER, &usual);
	(void)setpriority(PRIO_PROCESS, 0, -20);
	/* Ctrl-C is for the watch: what was begun in the job is brought to its end. */
	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	memset(&answer, 0, sizeof(answer));
	answer.error = load_here(pid, path, library_name, start, &answer.report);
	_exit(write(fd, &answer, sizeof(answer)) == (ssize_t)sizeof(answer) ? 0 : 1);
}

int load_library(pid_t pid, const char *path, const char *library_name, const char *start,
	struct load_report *report)
{
	struct worker_answer answer;
	int pipe_fds[2], status;
	ssize_t got;
	pid_t worker;

	*report = (struct load_report){0};
	if (pipe2(pipe_fds, O_CLOEXEC) < 0)
		return -errno;
	worker = fork();
	if (worker < 0) {
		int error = -errno;

		close(pipe_fds[0]);
		close(pipe_fds[1]);
		return error;
	}
	if (worker == 0)
		work(pipe_fds[1], pid, path, library_name, start);
	close(pipe_fds[1]);
	do
		got = read(pipe_fds[0], &answer, sizeof(answer));
	while (got < 0 && errno == EINTR);
	close(pipe_fds[0]);
	while (waitpid(worker, &status, 0) < 0 && errno == EINTR)
		;
	if (got != (ssize_t)sizeof(answer)) {
		snprintf(report->why, sizeof(report->why),
			"the loader of process %d ended early; the process goes on", (int)pid);
		return -EIO;
	}
	*report = answer.report;
	return answer.error;
}
