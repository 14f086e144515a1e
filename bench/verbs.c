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
	double empty_start_poll, next_poll, wr_post;
};

/* Objects with functions of their own; the stand-in's, which do some work. */
struct extended {
	struct ibv_cq_ex *cq;
	struct ibv_qp_ex *qp;
};

static void make_extended(struct verbs_pair *pair, struct extended *extended)
{
	struct ibv_cq_init_attr_ex cq = {.cqe = IN_FLIGHT, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_qp_attr peer = {.dest_qp_num = pair->qps[0]->qp_num};
	struct ibv_qp_init_attr_ex qp = {.recv_cq = pair->receive_cq,
		.cap.max_send_wr = IN_FLIGHT,
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = pair->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE};

	extended->cq = ibv_create_cq_ex(pair->context, &cq);
	if (!extended->cq)
		abort();
	qp.send_cq = ibv_cq_ex_to_cq(extended->cq);
	extended->qp = (struct ibv_qp_ex *)ibv_create_qp_ex(pair->context, &qp);
	if (!extended->qp ||
		pair->functions.modify_qp(&extended->qp->qp_base, &peer, IBV_QP_DEST_QPN) != 0)
		abort();
}

static double start_poll_block(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr options = {0};
	double start = now_ns();

	for (int i = 0; i < CALLS; i++) {
		if (ibv_start_poll(cq, &options) == 0)
			abort();
	}
	return (now_ns() - start) / CALLS;
}

static double wr_post_block(struct ibv_qp_ex *qp)
{
	double start = now_ns();

	for (int i = 0; i < IN_FLIGHT; i++) {
		ibv_wr_start(qp);
		ibv_wr_rdma_write(qp, 1, 0x1000);
		ibv_wr_set_sge(qp, 2, 0x2000, 4096);
		if (ibv_wr_complete(qp) != 0)
			abort();
	}
	return (now_ns() - start) / IN_FLIGHT;
}

static double next_poll_block(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr options = {0};
	double start = now_ns();

	if (ibv_start_poll(cq, &options) != 0)
		abort();
	for (int i = 1; i < IN_FLIGHT; i++) {
		if (ibv_next_poll(cq) != 0)
			abort();
	}
	ibv_end_poll(cq);
	return (now_ns() - start) / IN_FLIGHT;
}

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

static void measure_extended(const struct extended *extended, struct costs *best)
{
	double post = 0, poll = 0;

	keep_best(&best->empty_start_poll, start_poll_block(extended->cq));
	for (int i = 0; i < 20; i++) {
		post += wr_post_block(extended->qp);
		poll += next_poll_block(extended->cq);
	}
	keep_best(&best->wr_post, post / 20);
	keep_best(&best->next_poll, poll / 20);
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
	       "\"open_ms\": %.1f, \"open_share\": %.4f, \"trap_share\": %.4f, "
	       "\"polls_per_second_without\": %.0f, "
	       "\"polls_per_second_with\": %.0f}",
		seconds, (unsigned long long)cost.windows, (unsigned long long)cost.hits,
		(double)cost.open_ns / 1e6, (double)cost.open_ns / 1e9 / seconds,
		(double)cost.hits * (trapped.empty_poll - plain.empty_poll) / 1e9 / seconds,
		without, with);
	verbs_probe_destroy(probe);
}

static void print_costs(const char *name, const struct costs *costs)
{
	printf(", \"%s\": {\"empty_poll\": %.2f, \"poll\": %.2f, \"post\": %.2f, "
	       "\"empty_start_poll\": %.2f, \"next_poll\": %.2f, \"wr_post\": %.2f}",
		name, costs->empty_poll, costs->poll, costs->post, costs->empty_start_poll,
		costs->next_poll, costs->wr_post);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 10;
	struct bpf_source_options options = {0};
	struct costs plain = {0}, wrapped = {0};
	struct verbs_pair pairs[2];
	struct extended extended[2];
	struct bpf_source *source = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	for (int i = 0; i < 2; i++) {
		verbs_pair_open(&pairs[i], (struct verbs_pair_options){.device = i});
		make_idle(&pairs[i]);
	}
	make_extended(&pairs[0], &extended[0]);
	if (verbs_wrap_start() < 0)
		return 1;
	/* Only the second one is seen: a context from before is, at its next create. */
	verbs_wrap_destroy_qp(verbs_wrap_create_qp(pairs[1].pd,
		&(struct ibv_qp_init_attr){.send_cq = pairs[1].send_cq, .cap.max_send_wr = 1}));
	make_extended(&pairs[1], &extended[1]);
	for (int i = 0; i < BLOCKS; i++) {
		measure(&pairs[0], &plain);
		measure(&pairs[1], &wrapped);
		measure_extended(&extended[0], &plain);
		measure_extended(&extended[1], &wrapped);
	}
	if (!verbs_wrap_table() || !verbs_wrap_table()->queue_pairs[1].posted_requests)
		return 1;
	verbs_wrap_stop();
	printf("{\"bench\": \"verbs\"");
	print_costs("plain_ns", &plain);
	print_costs("wrapped_ns", &wrapped);
	print_costs("added_ns",
		&(struct costs){wrapped.empty_poll - plain.empty_poll, wrapped.poll - plain.poll,
			wrapped.post - plain.post,
			wrapped.empty_start_poll - plain.empty_start_poll,
			wrapped.next_poll - plain.next_poll, wrapped.wr_post - plain.wr_post});
	if (bpf_source_create(&options, &source, why) == 0) {
		if (bpf_source_track(source, (uint32_t)getpid()) == 0)
			print_uprobes(source, &pairs[0], seconds);
		bpf_source_destroy(source);
	}
	printf("}\n");
	return 0;
}
