/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What counting verbs costs, in ns per call of a provider that does nothing: by the wrappers (best
 * of many blocks, plain and wrapped by turns), and by uprobes where the kernel and the rights
 * allow it: a call that traps, and what the windows take from a thread that only polls. Prints one
 * JSON object.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "probe/inject/verbs_wrap.h"
#include "probe/ring/verbs_table.h"
#include "probe/sources/bpf_source.h"
#include "probe/sources/verbs_probe.h"
#include "tests/unit/verbs/verbs_pair.h"

enum { BLOCKS = 60, CALLS = 100000, IN_FLIGHT = 500, TRAPPED_CALLS = 20000 };

static int completions; /* what each poll tells */
static uint32_t completion_number;

/* As compilers start most of a provider's functions; it is what a uprobe's cost hangs on. */
#if defined(__x86_64__)
#define STARTS_WITH_A_PUSH __asm__ volatile("" ::: "rbx")
#else
#define STARTS_WITH_A_PUSH (void)0
#endif

static __attribute__((noinline)) int idle_poll(struct ibv_cq *cq, int count, struct ibv_wc *entries)
{
	STARTS_WITH_A_PUSH;
	(void)cq;
	(void)count;
	if (completions)
		entries[0] = (struct ibv_wc){.opcode = IBV_WC_SEND, .qp_num = completion_number};
	return completions;
}

static __attribute__((noinline)) int idle_post(
	struct ibv_qp *qp, struct ibv_send_wr *request, struct ibv_send_wr **bad)
{
	STARTS_WITH_A_PUSH;
	(void)request;
	(void)bad;
	return qp->qp_num == 0;
}

static double now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double poll_block(struct ibv_cq *cq, int calls)
{
	double start = now_ns();
	struct ibv_wc entry;

	for (int i = 0; i < calls; i++) {
		if (ibv_poll_cq(cq, 1, &entry) < 0)
			abort();
	}
	return (now_ns() - start) / calls;
}

static double post_block(struct ibv_qp *qp, int calls)
{
	struct ibv_sge part = {.length = 4096};
	struct ibv_send_wr request = {.sg_list = &part,
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
		.send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	double start = now_ns();

	for (int i = 0; i < calls; i++) {
		if (ibv_post_send(qp, &request, &bad) != 0)
			abort();
	}
	return (now_ns() - start) / calls;
}

struct costs {
	double empty_poll, poll, post;
};

static void keep_best(double *best, double value)
{
	if (*best == 0 || value < *best)
		*best = value;
}

static void measure(struct verbs_pair *pair, struct costs *best)
{
	double post = 0, poll = 0;

	completion_number = pair->qps[0]->qp_num;
	keep_best(&best->empty_poll, poll_block(pair->send_cq, CALLS));
	/* As many in flight as a queue holds. */
	for (int i = 0; i < CALLS / IN_FLIGHT; i++) {
		post += post_block(pair->qps[0], IN_FLIGHT);
		completions = 1;
		poll += poll_block(pair->send_cq, IN_FLIGHT);
		completions = 0;
	}
	keep_best(&best->post, post / (CALLS / IN_FLIGHT));
	keep_best(&best->poll, poll / (CALLS / IN_FLIGHT));
}

static void make_idle(struct verbs_pair *pair)
{
	pair->context->ops.poll_cq = idle_poll;
	pair->context->ops.post_send = idle_post;
}

/* ---- uprobes ---- */

static atomic_bool stop_ticks;

static void *tick(void *context)
{
	struct verbs_probe *probe = context;
	struct timespec pause = {.tv_nsec = 100000000};

	while (!atomic_load(&stop_ticks)) {
		(void)verbs_probe_tick(probe, (struct host_ns){(int64_t)now_ns()});
		nanosleep(&pause, NULL);
	}
	return NULL;
}

/* Polls per second of a thread that does nothing else. */
static double poll_rate(struct ibv_cq *cq, double seconds)
{
	double start = now_ns(), polls = 0;

	while (now_ns() - start < seconds * 1e9) {
		poll_block(cq, 1000);
		polls += 1000;
	}
	return polls / (now_ns() - start) * 1e9;
}

static struct verbs_probe *attach(struct bpf_source *source, bool always)
{
	struct verbs_probe_options options = {
		.processes_fd = bpf_source_processes_fd(source), .always = always};
	struct library_file file = {.path = STAND_IN, .name = "libibverbs.so.1"};
	struct verbs_probe *probe;
	struct stat status;

	if (stat(STAND_IN, &status) < 0 || verbs_probe_create(&options, &probe, NULL) < 0)
		return NULL;
	file.device = status.st_dev;
	file.inode = status.st_ino;
	if (verbs_probe_attach_library(probe, &file) < 0) {
		verbs_probe_destroy(probe);
		return NULL;
	}
	return probe;
}

/* The provider's own functions: the places are told by creating something. */
static void learn(struct verbs_probe *probe, struct verbs_pair *pair)
{
	struct ibv_cq *cq = pair->functions.create_cq(pair->context, 16, NULL, NULL, 0);

	(void)verbs_probe_tick(probe, (struct host_ns){0});
	pair->functions.destroy_cq(cq);
}

static void print_uprobes(struct bpf_source *source, struct verbs_pair *pair, double seconds)
{
	struct verbs_probe *probe = attach(source, true);
	struct costs plain = {0}, trapped = {0};
	struct verbs_probe_cost cost;
	double with, without;
	pthread_t thread;

	if (!probe)
		return;
	for (int i = 0; i < 5; i++)
		keep_best(&plain.empty_poll, poll_block(pair->send_cq, TRAPPED_CALLS));
	for (int i = 0; i < 5; i++)
		keep_best(&plain.post, post_block(pair->qps[0], TRAPPED_CALLS));
	learn(probe, pair);
	for (int i = 0; i < 5; i++)
		keep_best(&trapped.empty_poll, poll_block(pair->send_cq, TRAPPED_CALLS));
	for (int i = 0; i < 5; i++)
		keep_best(&trapped.post, post_block(pair->qps[0], TRAPPED_CALLS));
	verbs_probe_destroy(probe);
	printf(", \"uprobe_ns\": {\"empty_poll\": %.0f, \"post\": %.0f}",
		trapped.empty_poll - plain.empty_poll, trapped.post - plain.post);

	probe = attach(source, false);
	if (!probe)
		return;
	learn(probe, pair);
	without = poll_rate(pair->send_cq, seconds);
	if (pthread_create(&thread, NULL, tick, probe) != 0)
		abort();
	with = poll_rate(pair->send_cq, seconds);
	atomic_store(&stop_ticks, true);
	pthread_join(thread, NULL);
	verbs_probe_costs(probe, &cost);
	printf(", \"windows\": {\"seconds\": %.0f, \"count\": %llu, \"hits\": %llu, "
	       "\"open_ms\": %.1f, \"open_share\": %.4f, \"polls_per_second_without\": %.0f, "
	       "\"polls_per_second_with\": %.0f}",
		seconds, (unsigned long long)cost.windows, (unsigned long long)cost.hits,
		(double)cost.open_ns / 1e6, (double)cost.open_ns / 1e9 / seconds, without, with);
	verbs_probe_destroy(probe);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 10;
	struct bpf_source_options options = {0};
	struct costs plain = {0}, wrapped = {0};
	struct verbs_pair pairs[2];
	struct bpf_source *source = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	for (int i = 0; i < 2; i++) {
		verbs_pair_open(&pairs[i], (struct verbs_pair_options){.device = i});
		make_idle(&pairs[i]);
	}
	if (verbs_wrap_start() < 0)
		return 1;
	/* Only the second one is seen: a context from before is, at its next create. */
	verbs_wrap_destroy_qp(verbs_wrap_create_qp(pairs[1].pd,
		&(struct ibv_qp_init_attr){.send_cq = pairs[1].send_cq, .cap.max_send_wr = 1}));
	for (int i = 0; i < BLOCKS; i++) {
		measure(&pairs[0], &plain);
		measure(&pairs[1], &wrapped);
	}
	if (!verbs_wrap_table() || !verbs_wrap_table()->queue_pairs[1].posted_requests)
		return 1;
	verbs_wrap_stop();
	printf("{\"bench\": \"verbs\", \"plain_ns\": {\"empty_poll\": %.2f, \"poll\": %.2f, "
	       "\"post\": %.2f}, \"wrapped_ns\": {\"empty_poll\": %.2f, \"poll\": %.2f, "
	       "\"post\": %.2f}, \"added_ns\": {\"empty_poll\": %.2f, \"poll\": %.2f, "
	       "\"post\": %.2f}",
		plain.empty_poll, plain.poll, plain.post, wrapped.empty_poll, wrapped.poll,
		wrapped.post, wrapped.empty_poll - plain.empty_poll, wrapped.poll - plain.poll,
		wrapped.post - plain.post);
	if (bpf_source_create(&options, &source, why) == 0) {
		if (bpf_source_track(source, (uint32_t)getpid()) == 0)
			print_uprobes(source, &pairs[0], seconds);
		bpf_source_destroy(source);
	}
	printf("}\n");
	return 0;
}
