/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/launcher_delays.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/sources/text_file.h"

/* More ns than any thread has lived; so much of each thread adds up in 63 bits. */
#define NS_MAX (INT64_MAX / LAUNCHER_DELAYS_THREADS_MAX / 2)
#define TICKS_MAX (NS_MAX / 10000000) /* a tick is 10 ms */

enum { SCHEDSTAT_LENGTH = 96, STAT_LENGTH = 1024, PATH_LENGTH = 64 };

/* proc(5): the fields of stat that are used, and the first behind the name. */
enum { STAT_STATE = 3, STAT_MAJOR_FAULTS = 12, STAT_BLOCK_IO_TICKS = 42 };

struct delayed_thread {
	pid_t id;
	int queue_fd, stat_fd; /* negative: it cannot be read, or has ended */
	int64_t cpu_ns, queued_ns, block_io_ticks, major_faults;
};

struct launcher_delays {
	pid_t pid;
	bool has_block_io;
	int64_t tick_ns;
	struct launcher_delay sum;
	size_t count;
	struct delayed_thread threads[LAUNCHER_DELAYS_THREADS_MAX];
};

bool launcher_delays_have_block_io(void)
{
	char text[8];
	int error = text_file_read("/proc/sys/kernel/task_delayacct", text, sizeof(text));

	return error == -ENOENT || (error == 0 && text[0] == '1');
}

struct launcher_delays *launcher_delays_create(pid_t pid)
{
	struct launcher_delays *delays = calloc(1, sizeof(*delays));

	if (!delays)
		return NULL;
	delays->pid = pid;
	delays->tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
	delays->has_block_io = launcher_delays_have_block_io();
	return delays;
}

static void close_file(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void launcher_delays_destroy(struct launcher_delays *delays)
{
	for (size_t i = 0; delays && i < delays->count; i++) {
		close_file(&delays->threads[i].queue_fd);
		close_file(&delays->threads[i].stat_fd);
	}
	free(delays);
}

static bool read_text(int fd, char *text, size_t capacity)
{
	ssize_t length = fd < 0 ? -1 : pread(fd, text, capacity - 1, 0);

	if (length <= 0)
		return false;
	text[length] = '\0';
	return true;
}

/* "run_ns wait_ns switches" (Documentation/scheduler/sched-stats). */
static bool read_queue(int fd, int64_t *cpu_ns, int64_t *queued_ns)
{
	char text[SCHEDSTAT_LENGTH];

	return read_text(fd, text, sizeof(text)) &&
	       sscanf(text, "%" SCNd64 " %" SCNd64, cpu_ns, queued_ns) == 2 && *cpu_ns >= 0 &&
	       *cpu_ns <= NS_MAX && *queued_ns >= 0 && *queued_ns <= NS_MAX;
}

/* The name may hold anything, so the last bracket ends it. */
static bool read_stat(int fd, int64_t *block_io_ticks, int64_t *major_faults)
{
	char text[STAT_LENGTH];
	const char *at = read_text(fd, text, sizeof(text)) ? strrchr(text, ')') : NULL;
	int64_t ticks = -1;

	for (int field = STAT_STATE; at && field <= STAT_BLOCK_IO_TICKS; field++) {
		at = strchr(at, ' ');
		if (!at)
			break;
		at++;
		if (field == STAT_MAJOR_FAULTS)
			*major_faults = strtoll(at, NULL, 10);
		if (field == STAT_BLOCK_IO_TICKS)
			ticks = strtoll(at, NULL, 10);
	}
	if (ticks < 0 || ticks > TICKS_MAX)
		return false;
	*block_io_ticks = ticks;
	return true;
}

static int open_file(const struct launcher_delays *delays, pid_t thread, const char *name)
{
	char path[PATH_LENGTH];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/%s", (int)delays->pid, (int)thread, name);
	return open(path, O_RDONLY | O_CLOEXEC);
}

void launcher_delays_thread(struct launcher_delays *delays, pid_t thread)
{
	struct delayed_thread *added;

	for (size_t i = 0; i < delays->count; i++) {
		if (delays->threads[i].id == thread)
			return;
	}
	if (delays->count == LAUNCHER_DELAYS_THREADS_MAX)
		return;
	added = &delays->threads[delays->count++];
	*added = (struct delayed_thread){.id = thread,
		.queue_fd = open_file(delays, thread, "schedstat"),
		.stat_fd = delays->has_block_io ? open_file(delays, thread, "stat") : -1};
	if (!read_queue(added->queue_fd, &added->cpu_ns, &added->queued_ns))
		close_file(&added->queue_fd);
	if (!read_stat(added->stat_fd, &added->block_io_ticks, &added->major_faults))
		close_file(&added->stat_fd);
}

static void look_at_queue(struct delayed_thread *thread, struct launcher_delay *delay)
{
	int64_t cpu_ns, queued_ns;

	if (!read_queue(thread->queue_fd, &cpu_ns, &queued_ns) || queued_ns < thread->queued_ns ||
		cpu_ns < thread->cpu_ns)
		return;
	delay->cpu_ns += cpu_ns - thread->cpu_ns;
	delay->queued_ns += queued_ns - thread->queued_ns;
	thread->cpu_ns = cpu_ns;
	thread->queued_ns = queued_ns;
}

/* A major fault waits for storage as well, and is counted as one: beside some, nothing else is told. */
static int64_t look_at_storage(struct delayed_thread *thread)
{
	int64_t ticks_before = thread->block_io_ticks, faults_before = thread->major_faults;

	if (!read_stat(thread->stat_fd, &thread->block_io_ticks, &thread->major_faults) ||
		thread->major_faults != faults_before || thread->block_io_ticks < ticks_before)
		return 0;
	return thread->block_io_ticks - ticks_before;
}

struct launcher_delay launcher_delays_look(struct launcher_delays *delays)
{
	struct launcher_delay delay = {0};

	for (size_t i = 0; i < delays->count; i++) {
		look_at_queue(&delays->threads[i], &delay);
		delay.block_io_ns += look_at_storage(&delays->threads[i]) * delays->tick_ns;
	}
	delays->sum.cpu_ns += delay.cpu_ns;
	delays->sum.queued_ns += delay.queued_ns;
	delays->sum.block_io_ns += delay.block_io_ns;
	return delay;
}

struct launcher_delay launcher_delays_sum(const struct launcher_delays *delays)
{
	return delays->sum;
}

bool launcher_delays_are_known(const struct launcher_delays *delays)
{
	for (size_t i = 0; i < delays->count; i++) {
		if (delays->threads[i].queue_fd >= 0)
			return true;
	}
	return false;
}
