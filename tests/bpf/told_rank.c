/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bpf/told_rank.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/bpf/told_device.h"
#include "tests/bpf/told_mpi.h"

static struct told_communicator communicators[TOLD_COMMUNICATORS];

struct order {
	char word[32];
	char path[TOLD_ORDER_BYTES];
	int64_t a[TOLD_ARGUMENTS];
};

int64_t told_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void spin(int64_t ms)
{
	int64_t end = told_now_ns() + ms * 1000000;

	while (told_now_ns() < end)
		;
}

static void sleep_ms(int64_t ms)
{
	struct timespec wait = {ms / 1000, ms % 1000 * 1000000};

	nanosleep(&wait, NULL);
}

/* A forked process makes a call and ends with a code. */
static int64_t fork_and_call(int64_t code)
{
	pid_t child = fork();

	if (child == 0) {
		MPI_Barrier(&communicators[0]);
		_exit((int)code);
	}
	waitpid(child, NULL, 0);
	return child;
}

static void *exec_self(void *unused)
{
	char *command[] = {(char *)"told_rank", NULL};

	execv("/proc/self/exe", command);
	return unused;
}

/* Many calls, for the ring and for costs. */
static int64_t burst(int64_t count)
{
	int64_t start = told_now_ns();

	for (int64_t i = 0; i < count; i++)
		MPI_Allreduce(NULL, NULL, (int)i, NULL, NULL, &communicators[0]);
	return told_now_ns() - start;
}

/* Calls on so many communicators never seen before, and one in 100 on the first of all. */
static int64_t churn(int64_t count)
{
	struct told_communicator *many = calloc((size_t)count, sizeof(*many));

	if (!many)
		return -1;
	for (int64_t i = 0; i < count; i++) {
		MPI_Iallreduce(NULL, NULL, 1, NULL, NULL, &many[i], &(MPI_Request){0});
		if (i % 100 == 0)
			MPI_Iallreduce(
				NULL, NULL, 1, NULL, NULL, &communicators[0], &(MPI_Request){0});
	}
	return 0; /* kept: what comes next gets other addresses */
}

static int64_t pin(int64_t cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET((size_t)cpu, &set);
	return sched_setaffinity(0, sizeof(set), &set);
}

static void *helper(void *unused)
{
	spin(30);
	sleep_ms(100);
	return unused;
}

/* "groups COUNT": makes groups of lists of that length, and communicators from them. */
static int64_t make_groups(MPI_Comm communicator, int count)
{
	int *ranks = calloc((size_t)count + 1, sizeof(*ranks));
	int ranges[][3] = {{0, 2, 1}, {5, 7, 2}}, lengths[] = {2, 3, 4}, keep[] = {1, 0, 1};
	MPI_Group world, some, freed;
	MPI_Comm made = NULL;

	if (!ranks)
		return -1;
	for (int i = 0; i < count; i++)
		ranks[i] = 3 * i + 1;
	communicator->next = &communicators[1];
	MPI_Comm_group(communicator, &world);
	MPI_Group_incl(world, count, ranks, &some);
	MPI_Group_range_excl(some, 2, ranges, &some);
	MPI_Group_union(world, some, &some);
	MPI_Comm_create_group(communicator, some, 17, &made);
	MPI_Comm_create(communicator, some, &made);
	freed = some;
	MPI_Group_free(&freed);
	MPI_Cart_create(communicator, 3, lengths, ranks, 1, &made);
	MPI_Cart_sub(communicator, keep, &made);
	free(ranks);
	return (int64_t)(uintptr_t)some;
}

static int64_t obey_call(const struct order *order)
{
	static char datatype;
	const int64_t *a = order->a;
	MPI_Comm communicator = &communicators[a[0] % TOLD_COMMUNICATORS];
	MPI_Request request;
	int value = -1;

	if (!strcmp(order->word, "allreduce"))
		return MPI_Allreduce(NULL, NULL, (int)a[1], &datatype, NULL, communicator);
	if (!strcmp(order->word, "iallreduce"))
		return MPI_Iallreduce(
			NULL, NULL, (int)a[1], &datatype, NULL, communicator, &request);
	if (!strcmp(order->word, "barrier"))
		return MPI_Barrier(communicator);
	if (!strcmp(order->word, "bcast"))
		return MPI_Bcast(NULL, (int)a[1], &datatype, (int)a[2], communicator);
	if (!strcmp(order->word, "reduce"))
		return MPI_Reduce(NULL, NULL, (int)a[1], &datatype, NULL, (int)a[2], communicator);
	if (!strcmp(order->word, "recv"))
		return MPI_Recv(NULL, 1, &datatype, 0, 0, communicator, NULL);
	if (!strcmp(order->word, "split")) {
		communicator->next = &communicators[a[3] % TOLD_COMMUNICATORS];
		MPI_Comm made = NULL;
		MPI_Comm_split(communicator, (int)a[1], (int)a[2], &made);
		return (int64_t)(uintptr_t)made;
	}
	if (!strcmp(order->word, "groups"))
		return make_groups(communicator, (int)a[1]);
	if (!strcmp(order->word, "free"))
		return MPI_Comm_free(&communicator);
	if (!strcmp(order->word, "rank")) {
		MPI_Comm_rank(communicator, &value);
		return value;
	}
	if (!strcmp(order->word, "size")) {
		MPI_Comm_size(communicator, &value);
		return value;
	}
	if (!strcmp(order->word, "datatype"))
		return (int64_t)(uintptr_t)&datatype;
	return -1000000;
}

static void *synchronize(void *length)
{
	cuStreamSynchronize(*(int64_t *)length);
	return NULL;
}

static int64_t obey_device(const struct order *order)
{
	static char communicator;
	int64_t length_ms = order->a[0];
	pthread_t thread;

	if (!strcmp(order->word, "launch")) { /* so many */
		for (int64_t i = 0; i < order->a[0]; i++)
			cuLaunchKernel(NULL);
		return 0;
	}
	if (!strcmp(order->word, "graph"))
		return cuGraphLaunch(NULL, NULL);
	if (!strcmp(order->word, "synchronize"))
		return cuStreamSynchronize(length_ms);
	if (!strcmp(order->word, "event"))
		return cuEventSynchronize(length_ms);
	if (!strcmp(order->word, "loader")) /* a thread that launches nothing waits for a copy */
		return pthread_create(&thread, NULL, synchronize, &length_ms) ||
		       pthread_join(thread, NULL);
	if (!strcmp(order->word, "enqueue"))
		return ncclAllReduce(NULL, NULL, 1, 0, 0, &communicator,
			(void *)(uintptr_t)order->a[0]); /* on that stream */
	if (!strcmp(order->word, "group")) { /* so many sends, and an end that takes so long */
		for (int64_t i = 0; i < order->a[0]; i++)
			ncclSend(NULL, 1, 7, 0, &communicator, NULL);
		return ncclGroupEnd(order->a[1]);
	}
	if (!strcmp(order->word, "send")) /* to that peer, so many */
		return ncclSend(
			NULL, (size_t)order->a[1], 7, (int)order->a[0], &communicator, NULL);
	if (!strcmp(order->word, "receive"))
		return ncclRecv(
			NULL, (size_t)order->a[1], 7, (int)order->a[0], &communicator, NULL);
	if (!strcmp(order->word, "join"))
		return cuStreamWaitEvent(order->a[0], NULL, 0);
	if (!strcmp(order->word, "context"))
		return cuCtxSynchronize();
	return obey_call(order);
}

static int64_t obey(const struct order *order)
{
	const int64_t *a = order->a;
	struct told_communicator *communicator = &communicators[a[0] % TOLD_COMMUNICATORS];
	pthread_t thread;

	if (!strcmp(order->word, "address"))
		return (int64_t)(uintptr_t)communicator;
	if (!strcmp(order->word, "behave")) { /* communicator, sleep in ms, spin in ms, nested */
		communicator->sleep_ns = a[1] * 1000000;
		communicator->spin_ns = a[2] * 1000000;
		communicator->nested = (int32_t)a[3];
		communicator->rank = (int32_t)a[0] + 40;
		return 0;
	}
	if (!strcmp(order->word, "made")) /* what a nested split makes, or a nested free frees */
		return (int64_t)(uintptr_t)(communicator->made = communicator->next =
						    &communicators[a[1] % TOLD_COMMUNICATORS]);
	if (!strcmp(order->word, "spin"))
		return spin(a[0]), 0;
	if (!strcmp(order->word, "sleep"))
		return sleep_ms(a[0]), 0;
	if (!strcmp(order->word, "pin"))
		return pin(a[0]);
	if (!strcmp(order->word, "burst"))
		return burst(a[0]);
	if (!strcmp(order->word, "churn"))
		return churn(a[0]);
	if (!strcmp(order->word, "touch"))
		return told_touch_anonymous(a[0]);
	if (!strcmp(order->word, "major"))
		return told_touch_file(order->path, a[0]);
	if (!strcmp(order->word, "read"))
		return told_read_file(order->path, a[0]);
	if (!strcmp(order->word, "fork"))
		return fork_and_call(a[0]);
	if (!strcmp(order->word, "helper"))
		return pthread_create(&thread, NULL, helper, NULL) || pthread_join(thread, NULL);
	return obey_device(order);
}

static void *serve_next(void *unused);

static void serve(void)
{
	char line[TOLD_ORDER_BYTES];

	while (fgets(line, sizeof(line), stdin)) {
		struct order order = {0};
		long long a[TOLD_ARGUMENTS] = {0};
		pthread_t thread;

		if (sscanf(line, "%31s %lld %lld %lld %lld", order.word, &a[0], &a[1], &a[2],
			    &a[3]) < 1)
			continue;
		sscanf(line, "%*s %*s %255s", order.path);
		for (int i = 0; i < TOLD_ARGUMENTS; i++)
			order.a[i] = a[i];
		if (!strcmp(order.word, "exit"))
			exit((int)order.a[0]);
		if (!strcmp(order.word, "exec"))
			exec_self(NULL);
		if (!strcmp(order.word, "thread-exec")) { /* not by the leader */
			if (pthread_create(&thread, NULL, exec_self, NULL) == 0)
				pause();
		}
		if (!strcmp(order.word, "leave-leader")) { /* another thread goes on */
			if (pthread_create(&thread, NULL, serve_next, NULL) == 0)
				pthread_exit(NULL);
		}
		printf("%lld\n", (long long)obey(&order));
	}
	exit(0);
}

static void *serve_next(void *unused)
{
	printf("%lld\n", 0ll);
	serve();
	return unused;
}

int main(void)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	setvbuf(stdout, NULL, _IOLBF, 0);
	setvbuf(stdin, NULL, _IONBF, 0); /* an exec must not lose orders */
	printf("%lld\n", 0ll);
	serve();
	return 0;
}
