/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/thread_counters.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

struct counted_thread {
	pid_t id; /* 0: none */
	int fds[COUNTED_EVENTS_MAX];
	struct thread_counts last;
};

struct thread_counters {
	struct counted_event events[COUNTED_EVENTS_MAX];
	size_t event_count;
	struct counted_thread threads[COUNTED_THREADS_MAX];
	struct thread_counts sums;
};

int thread_counters_create(
	const struct counted_event *events, size_t event_count, struct thread_counters **result)
{
	struct thread_counters *counters = calloc(1, sizeof(*counters));

	if (!counters)
		return -ENOMEM;
	for (size_t i = 0; i < event_count; i++)
		counters->events[i] = events[i];
	counters->event_count = event_count;
	*result = counters;
	return 0;
}

static void stop(struct thread_counters *counters, struct counted_thread *thread)
{
	for (size_t i = counters->event_count; i-- > 0;)
		close(thread->fds[i]);
	*thread = (struct counted_thread){0};
}

void thread_counters_destroy(struct thread_counters *counters)
{
	if (!counters)
		return;
	for (size_t t = 0; t < COUNTED_THREADS_MAX; t++) {
		if (counters->threads[t].id)
			stop(counters, &counters->threads[t]);
	}
	free(counters);
}

static int start(struct thread_counters *counters, struct counted_thread *thread, pid_t id)
{
	*thread = (struct counted_thread){0};
	for (size_t i = 0; i < counters->event_count; i++) {
		struct perf_event_attr attr = {
			.type = counters->events[i].type,
			.size = sizeof(attr),
			.config = counters->events[i].config,
			.read_format = PERF_FORMAT_GROUP | PERF_FORMAT_TOTAL_TIME_ENABLED |
				       PERF_FORMAT_TOTAL_TIME_RUNNING,
		};
		long fd = syscall(SYS_perf_event_open, &attr, id, -1, i ? thread->fds[0] : -1,
			PERF_FLAG_FD_CLOEXEC);

		if (fd < 0) {
			int error = -errno;

			while (i-- > 0)
				close(thread->fds[i]);
			return error;
		}
		thread->fds[i] = (int)fd;
	}
	thread->id = id;
	return 0;
}

static void read_thread(struct thread_counters *counters, struct counted_thread *thread)
{
	struct {
		uint64_t count, enabled_ns, running_ns, values[COUNTED_EVENTS_MAX];
	} now = {0};
	struct thread_counts *sums = &counters->sums, *last = &thread->last;
	ssize_t wanted = (ssize_t)((3 + counters->event_count) * sizeof(uint64_t));

	if (read(thread->fds[0], &now, sizeof(now)) != wanted || now.count != counters->event_count)
		return;
	sums->counted_ns += (int64_t)now.running_ns - last->counted_ns;
	last->counted_ns = (int64_t)now.running_ns;
	for (size_t i = 0; i < counters->event_count; i++) {
		sums->values[i] += (int64_t)now.values[i] - last->values[i];
		last->values[i] = (int64_t)now.values[i];
	}
}

static bool contains(const pid_t *threads, size_t count, pid_t id)
{
	for (size_t i = 0; i < count; i++) {
		if (threads[i] == id)
			return true;
	}
	return false;
}

int thread_counters_follow(struct thread_counters *counters, const pid_t *threads, size_t count)
{
	pid_t followed[COUNTED_THREADS_MAX] = {0};
	int started = 0, error = -ESRCH;

	for (size_t t = 0; t < COUNTED_THREADS_MAX; t++) {
		struct counted_thread *thread = &counters->threads[t];

		if (!thread->id)
			continue;
		if (contains(threads, count, thread->id)) {
			followed[started++] = thread->id;
			continue;
		}
		read_thread(counters, thread);
		stop(counters, thread);
	}
	for (size_t i = 0, t = 0; i < count; i++) {
		if (contains(followed, COUNTED_THREADS_MAX, threads[i]))
			continue;
		while (t < COUNTED_THREADS_MAX && counters->threads[t].id)
			t++;
		if (t == COUNTED_THREADS_MAX)
			break;
		int result = start(counters, &counters->threads[t], threads[i]);

		started += result == 0;
		error = result < 0 ? result : error;
	}
	return started > 0 ? started : error;
}

struct thread_counts thread_counters_read(struct thread_counters *counters)
{
	for (size_t t = 0; t < COUNTED_THREADS_MAX; t++) {
		if (counters->threads[t].id)
			read_thread(counters, &counters->threads[t]);
	}
	return counters->sums;
}
