/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What watching costs a watched process: per collective (a probe at entry and one at return), per
 * context switch, per minor fault. Each is measured without slowrank, in a process it does not
 * follow, and in one it does, in turns, in CPU time. One JSON object on stdout; needs root.
 */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "probe/sources/bpf_source.h"
#include "tests/bpf/told_mpi.h"

enum { ROUNDS = 9, CALLS = 10000, PINGS = 3000, PAGES = 16384, PAGE_BYTES = 4096 };

enum condition { WITHOUT = 0, NOT_FOLLOWED = 1, FOLLOWED = 2, CONDITION_NR = 3 };

struct worker {
	pid_t pid;
	int orders, answers;
};

/* CPU time of all threads: a busy machine adds nothing to it. */
static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* ---- the work, in the processes that are measured: each returns ns per piece ---- */

static double measure_calls(void)
{
	static struct told_communicator communicator;
	double start = cpu_ns();

	for (int i = 0; i < CALLS; i++)
		MPI_Barrier(&communicator);
	return (cpu_ns() - start) / CALLS;
}

struct pair {
	int there[2], back[2];
};

static void *answer_pings(void *context)
{
	struct pair *pair = context;
	char byte;

	while (read(pair->there[0], &byte, 1) == 1) {
		if (write(pair->back[1], &byte, 1) != 1)
			break;
	}
	return NULL;
}

/* Two threads on one processor: each message is a switch. */
static double measure_switches(void)
{
	struct pair pair;
	pthread_t thread;
	char byte = 'p';

	if (pipe(pair.there) < 0 || pipe(pair.back) < 0 ||
		pthread_create(&thread, NULL, answer_pings, &pair))
		abort();
	double start = cpu_ns();
	for (int i = 0; i < PINGS; i++) {
		if (write(pair.there[1], &byte, 1) != 1 || read(pair.back[0], &byte, 1) != 1)
			abort();
	}
	double length = cpu_ns() - start;
	close(pair.there[1]);
	pthread_join(thread, NULL);
	close(pair.there[0]);
	close(pair.back[0]);
	close(pair.back[1]);
	return length / (2.0 * PINGS);
}

static double measure_faults(void)
{
	size_t length = (size_t)PAGES * PAGE_BYTES;
	volatile char *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		abort();
	madvise((void *)memory, length, MADV_NOHUGEPAGE);
	double start = cpu_ns();
	for (size_t i = 0; i < length; i += PAGE_BYTES)
		memory[i] = 1;
	double result = (cpu_ns() - start) / PAGES;
	munmap((void *)memory, length);
	return result;
}

static void serve(int orders, int answers, int cpu)
{
	struct sched_param realtime = {.sched_priority = 5};
	cpu_set_t set;
	char order;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
	/* Tens of milliseconds at a time; without it, each switch may wait for others. */
	sched_setscheduler(0, SCHED_RR, &realtime);
	while (read(orders, &order, 1) == 1) {
		double result = order == 'c'   ? measure_calls()
				: order == 's' ? measure_switches()
					       : measure_faults();

		if (write(answers, &result, sizeof(result)) != sizeof(result))
			break;
	}
	_exit(0);
}

/* ---- the process that measures ---- */

static struct worker worker_start(int cpu)
{
	int orders[2], answers[2];
	struct worker worker;

	if (pipe(orders) < 0 || pipe(answers) < 0)
		abort();
	worker.pid = fork();
	if (worker.pid == 0) {
		close(orders[1]);
		close(answers[0]);
		serve(orders[0], answers[1], cpu);
	}
	close(orders[0]);
	close(answers[1]);
	worker.orders = orders[1];
	worker.answers = answers[0];
	return worker;
}

static double worker_measure(const struct worker *worker, char order)
{
	double result;

	if (write(worker->orders, &order, 1) != 1 ||
		read(worker->answers, &result, sizeof(result)) != sizeof(result))
		abort();
	return result;
}

static void worker_end(const struct worker *worker)
{
	close(worker->orders);
	kill(worker->pid, SIGKILL); /* the other worker has a copy of its pipe */
	waitpid(worker->pid, NULL, 0);
	close(worker->answers);
}

static void ignore_event(void *context, const struct event_header *event)
{
	(void)event;
	++*(uint64_t *)context;
}

/* A source as the measurement wants it, with the library attached and a process followed. */
static struct bpf_source *open_source(char order, pid_t followed)
{
	struct bpf_source_options options = {
		.collectives = order == 'c', .sched = order == 's', .faults = order == 'f'};
	struct library_file library = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct bpf_source *source;
	struct stat status;
	size_t skipped;

	if (bpf_source_create(&options, &source, why) < 0) {
		fprintf(stderr, "bench_uprobe: %s\n", why);
		exit(77);
	}
	if (stat(TOLD_MPI, &status) < 0)
		abort();
	library.device = status.st_dev;
	library.inode = status.st_ino;
	snprintf(library.path, sizeof(library.path), "%s", TOLD_MPI);
	if (bpf_source_attach_library(source, &library, true, &skipped) < 0 ||
		bpf_source_track(source, (uint32_t)followed) < 0)
		abort();
	return source;
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median(double *values)
{
	qsort(values, ROUNDS, sizeof(*values), compare);
	return values[ROUNDS / 2];
}

static void measure(char order, int cpu, const char *name, const char *after)
{
	static double values[CONDITION_NR][ROUNDS];
	struct worker stranger = worker_start(cpu), followed = worker_start(cpu);
	double middle[CONDITION_NR];
	uint64_t events = 0, dropped = 0;

	worker_measure(&stranger, order); /* warm up */
	worker_measure(&followed, order);
	for (int round = 0; round < ROUNDS; round++) {
		values[WITHOUT][round] = worker_measure(&stranger, order);
		struct bpf_source *source = open_source(order, followed.pid);

		values[NOT_FOLLOWED][round] = worker_measure(&stranger, order);
		values[FOLLOWED][round] = worker_measure(&followed, order);
		bpf_source_poll(source, ignore_event, &events);
		dropped += bpf_source_dropped(source);
		bpf_source_destroy(source);
	}
	for (int i = 0; i < CONDITION_NR; i++)
		middle[i] = median(values[i]);
	printf("  \"%s\": {\"without_ns\": %.1f, \"not_followed_ns\": %.1f, \"followed_ns\": "
	       "%.1f, \"cost_not_followed_ns\": %.1f, \"cost_followed_ns\": %.1f, \"ratio\": "
	       "%.2f, \"events\": %llu, \"dropped\": %llu}%s\n",
		name, middle[WITHOUT], middle[NOT_FOLLOWED], middle[FOLLOWED],
		middle[NOT_FOLLOWED] - middle[WITHOUT], middle[FOLLOWED] - middle[WITHOUT],
		middle[FOLLOWED] / middle[WITHOUT], (unsigned long long)events,
		(unsigned long long)dropped, after);
	worker_end(&stranger);
	worker_end(&followed);
}

int main(void)
{
	struct utsname kernel;
	int cpu = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;

	if (geteuid() != 0) {
		fprintf(stderr, "bench_uprobe: needs root\n");
		return 77;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	uname(&kernel);
	printf("{\n  \"kernel\": \"%s\", \"rounds\": %d,\n", kernel.release, ROUNDS);
	fflush(stdout); /* before the forks */
	measure('c', cpu, "collective", ",");
	measure('s', cpu, "switch", ",");
	measure('f', cpu, "minor_fault", "");
	puts("}");
	return 0;
}
