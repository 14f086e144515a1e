/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/run_delay.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { SCHEDSTAT_LENGTH = 96, PATH_LENGTH = 64 };

struct delayed_thread {
	pid_t id;
	int fd; /* negative: it cannot be read, or has ended */
	int64_t delay_ns;
};

struct run_delay {
	pid_t pid;
	size_t count;
	struct delayed_thread threads[RUN_DELAY_THREADS_MAX];
};

struct run_delay *run_delay_create(pid_t pid)
{
	struct run_delay *delay = calloc(1, sizeof(*delay));

	if (delay)
		delay->pid = pid;
	return delay;
}

void run_delay_destroy(struct run_delay *delay)
{
	for (size_t i = 0; delay && i < delay->count; i++) {
		if (delay->threads[i].fd >= 0)
			close(delay->threads[i].fd);
	}
	free(delay);
}

/* "run_ns wait_ns switches" (Documentation/scheduler/sched-stats). */
static bool read_delay(int fd, int64_t *delay_ns)
{
	char text[SCHEDSTAT_LENGTH];
	ssize_t length = fd < 0 ? -1 : pread(fd, text, sizeof(text) - 1, 0);

	if (length <= 0)
		return false;
	text[length] = '\0';
	return sscanf(text, "%*d %" SCNd64, delay_ns) == 1;
}

void run_delay_thread(struct run_delay *delay, pid_t thread)
{
	struct delayed_thread *added;
	char path[PATH_LENGTH];

	for (size_t i = 0; i < delay->count; i++) {
		if (delay->threads[i].id == thread)
			return;
	}
	if (delay->count == RUN_DELAY_THREADS_MAX)
		return;
	added = &delay->threads[delay->count++];
	snprintf(path, sizeof(path), "/proc/%d/task/%d/schedstat", (int)delay->pid, (int)thread);
	*added = (struct delayed_thread){.id = thread, .fd = open(path, O_RDONLY | O_CLOEXEC)};
	if (!read_delay(added->fd, &added->delay_ns) && added->fd >= 0) {
		close(added->fd);
		added->fd = -1;
	}
}

int64_t run_delay_look(struct run_delay *delay)
{
	int64_t sum_ns = 0;

	for (size_t i = 0; i < delay->count; i++) {
		struct delayed_thread *thread = &delay->threads[i];
		int64_t delay_ns;

		if (!read_delay(thread->fd, &delay_ns) || delay_ns < thread->delay_ns)
			continue;
		sum_ns += delay_ns - thread->delay_ns;
		thread->delay_ns = delay_ns;
	}
	return sum_ns;
}

bool run_delay_is_known(const struct run_delay *delay)
{
	for (size_t i = 0; i < delay->count; i++) {
		if (delay->threads[i].fd >= 0)
			return true;
	}
	return false;
}
