/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/busy_threads.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/sources/text_file.h"

/* A thread counts as busy from this share of a CPU on. */
#define BUSY_SHARE 0.05

enum { SCHEDSTAT_LENGTH = 96, NAME_LENGTH = 288 };

struct thread_times {
	pid_t id;
	int64_t run_ns, switches;
};

struct busy_threads {
	pid_t pid;
	struct host_ns looked_at;
	size_t count; /* of the look before */
	struct thread_times times[BUSY_THREADS_LOOKED_AT], before[BUSY_THREADS_LOOKED_AT];
};

int busy_threads_create(pid_t pid, struct busy_threads **result)
{
	struct busy_threads *threads = calloc(1, sizeof(*threads));

	if (!threads)
		return -ENOMEM;
	threads->pid = pid;
	*result = threads;
	return 0;
}

void busy_threads_destroy(struct busy_threads *threads)
{
	free(threads);
}

/* "run_ns wait_ns switches" (Documentation/scheduler/sched-stats). */
static bool read_times(int folder, const char *name, struct thread_times *times)
{
	char path[NAME_LENGTH], text[SCHEDSTAT_LENGTH];
	int fd, error;

	snprintf(path, sizeof(path), "%s/schedstat", name);
	fd = openat(folder, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	error = text_file_read_fd(fd, text, sizeof(text));
	close(fd);
	times->id = (pid_t)strtol(name, NULL, 10);
	return error == 0 &&
	       sscanf(text, "%" SCNd64 " %*d %" SCNd64, &times->run_ns, &times->switches) == 2;
}

static const struct thread_times *find(const struct thread_times *times, size_t count, pid_t id)
{
	for (size_t i = 0; i < count; i++) {
		if (times[i].id == id)
			return &times[i];
	}
	return NULL;
}

/* Reads the times of all threads; how many there are, or -ESRCH. */
static int read_all(struct busy_threads *threads)
{
	char path[32];
	struct dirent *entry;
	size_t count = 0;
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)threads->pid);
	folder = opendir(path);
	if (!folder)
		return -ESRCH;
	while (count < BUSY_THREADS_LOOKED_AT && (entry = readdir(folder))) {
		if (isdigit((unsigned char)entry->d_name[0]))
			count += read_times(dirfd(folder), entry->d_name, &threads->times[count]);
	}
	closedir(folder);
	return (int)count;
}

struct busy_one {
	pid_t id;
	int64_t run_ns;
};

/* Keeps the list ordered, the busiest first. Returns its new length. */
static size_t insert(struct busy_one *list, size_t count, size_t capacity, struct busy_one one)
{
	size_t at = count < capacity ? count : capacity;

	while (at > 0 && list[at - 1].run_ns < one.run_ns) {
		if (at < capacity)
			list[at] = list[at - 1];
		at--;
	}
	if (at < capacity)
		list[at] = one;
	return count < capacity ? count + 1 : capacity;
}

enum { BUSIEST_MAX = 16 };

static size_t find_busiest(const struct busy_threads *threads, size_t count, int64_t elapsed_ns,
	struct busy_one *list, size_t capacity)
{
	double seconds = (double)elapsed_ns / 1e9;
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct thread_times *now = &threads->times[i],
					  *before = find(threads->before, threads->count, now->id);
		int64_t run_ns = before ? now->run_ns - before->run_ns : 0;

		if (!before || (double)run_ns < BUSY_SHARE * (double)elapsed_ns ||
			(double)(now->switches - before->switches) >
				BUSY_THREADS_SWITCHES_MAX * seconds)
			continue;
		found = insert(list, found, capacity, (struct busy_one){now->id, run_ns});
	}
	return found;
}

int busy_threads_look(
	struct busy_threads *threads, struct host_ns now, pid_t *busiest, size_t capacity)
{
	int64_t elapsed_ns = now.value - threads->looked_at.value;
	struct busy_one list[BUSIEST_MAX];
	int count = read_all(threads);
	size_t found;

	if (count < 0)
		return count;
	if (capacity > BUSIEST_MAX)
		capacity = BUSIEST_MAX;
	if (threads->looked_at.value == 0) {
		busiest[0] = threads->pid;
		found = capacity > 0;
	} else {
		found = find_busiest(threads, (size_t)count, elapsed_ns, list, capacity);
		for (size_t i = 0; i < found; i++)
			busiest[i] = list[i].id;
	}
	for (int i = 0; i < count; i++)
		threads->before[i] = threads->times[i];
	threads->count = (size_t)count;
	threads->looked_at = now;
	return (int)found;
}
