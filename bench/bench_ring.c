/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one write into the ring costs the training process: ns per record with a reader that keeps
 * up, and into a full ring. Prints one JSON object. Compared against: the budget of 200 ns.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "probe/ring/ring_reader.h"
#include "probe/ring/ring_writer.h"

enum { ROUNDS = 400, BURST = 4096, SLOTS = 8192 };

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static int compare(const void *left, const void *right)
{
	double a = *(const double *)left, b = *(const double *)right;

	return (a > b) - (a < b);
}

static double burst(struct ring_writer *writer)
{
	struct ring_collective collective = {.communicator = 1};
	int64_t begin = now_ns();

	for (uint64_t i = 0; i < BURST; i++) {
		collective.sequence = i;
		ring_write(writer, RING_RECORD_COLLECTIVE, &collective, sizeof(collective));
	}
	return (double)(now_ns() - begin) / BURST;
}

int main(void)
{
	static double write_ns[ROUNDS], full_ns[ROUNDS];
	char directory[] = "/dev/shm/slowrank-bench.XXXXXX", path[128];
	struct ring_writer writer;
	struct ring_reader *reader;
	struct ring_record record;
	uint64_t start_time;

	if (!mkdtemp(directory) || ring_start_time(-1, "self", &start_time) ||
		ring_writer_create(directory, SLOTS, &writer))
		return 1;
	snprintf(path, sizeof(path), "%s/" RING_FILE_PREFIX "%u.%d.%llu", directory,
		(unsigned)getuid(), (int)getpid(), (unsigned long long)start_time);
	if (ring_reader_open(open(path, O_RDWR | O_CLOEXEC), &reader))
		return 1;
	for (int i = 0; i < ROUNDS; i++) {
		write_ns[i] = burst(&writer);
		while (ring_reader_next(reader, 1, false, &record) == 0)
			;
	}
	for (int i = 0; i < SLOTS / BURST; i++)
		(void)burst(&writer);
	for (int i = 0; i < ROUNDS; i++)
		full_ns[i] = burst(&writer);
	qsort(write_ns, ROUNDS, sizeof(double), compare);
	qsort(full_ns, ROUNDS, sizeof(double), compare);
	printf("{\"benchmark\": \"ring\", \"write_ns_median\": %.1f, \"write_ns_p99\": %.1f, "
	       "\"full_ns_median\": %.1f, \"budget_ns\": 200}\n",
		write_ns[ROUNDS / 2], write_ns[ROUNDS * 99 / 100], full_ns[ROUNDS / 2]);
	ring_reader_close(reader);
	ring_writer_destroy(&writer);
	unlink(path);
	rmdir(directory);
	return 0;
}
