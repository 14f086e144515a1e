/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/loop.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/workload/fault.h"
#include "tests/workload/work.h"

enum { HOLD_STEP = 20, HOLD_S = 120 };

struct loop {
	const struct workload_options *options;
	const struct loop_transport *transport;
	struct schedule schedule;
	struct truth *truth;
	struct fault_control *faults;
	struct schedule_item *items;
	void (*mark_begin)(uint64_t step);
	void (*mark_end)(uint64_t step);
	uint64_t random;
	uint64_t collectives;
	int64_t own_ns;	       /* between collectives */
	int64_t own_told_ns;   /* of it in the truth log */
	int64_t called_ns;     /* sum of the moments of this step's calls */
	int64_t collective_ns; /* in them */
};

static void open_markers(struct loop *loop)
{
	void *library;

	if (!loop->options->marker_library)
		return;
	library = dlopen(loop->options->marker_library, RTLD_NOW | RTLD_GLOBAL);
	if (library) {
		loop->mark_begin = (void (*)(uint64_t))dlsym(library, "slowrank_step_begin");
		loop->mark_end = (void (*)(uint64_t))dlsym(library, "slowrank_step_end");
	}
	if (!loop->mark_begin || !loop->mark_end) {
		fprintf(stderr, "workload: no markers: %s\n", dlerror());
		loop->mark_begin = NULL;
		loop->mark_end = NULL;
	}
}

/* Noise of about the wanted standard deviation: the sum of four uniforms is near to normal. */
static double jitter_factor(struct loop *loop)
{
	double sum = 0;

	for (int i = 0; i < 4; i++)
		sum += (double)(random_next(&loop->random) >> 11) / 9007199254740992.0 - 0.5;
	return 1 + loop->options->jitter_percent / 100 * sum * sqrt(3.0);
}

static void write_job(const struct loop *loop)
{
	const struct workload_options *options = loop->options;
	char host[65] = "";

	(void)gethostname(host, sizeof(host) - 1);
	truth_add(loop->truth, "{\"event\": \"rank\", \"rank\": %u, \"pid\": %d, \"host\": \"%s\"}",
		loop->transport->rank, getpid(), host);
	if (loop->transport->rank != 0)
		return;
	truth_add(loop->truth,
		"{\"event\": \"job\", \"transport\": \"%s\", \"ranks\": %u, \"seed\": %" PRIu64
		", \"schedule\": \"%s\", \"split\": %s, \"steps\": %" PRIu64
		", \"step_ms\": %.3f, \"compute_ms\": %.3f, \"collectives\": %u, \"bytes\": %zu, "
		"\"faults_planned\": %zu, \"monotonic_ns\": %" PRId64 ", \"realtime_ns\": %" PRId64
		"}",
		loop->transport->name, loop->transport->world_size, options->schedule.seed,
		schedule_kind_name(options->schedule.kind),
		options->schedule.split ? "true" : "false", options->schedule.step_count,
		options->step_ms, options->compute_ms, options->schedule.collectives,
		options->schedule.length_bytes, options->plan.fault_count, work_monotonic_ns(),
		work_realtime_ns());
}

/* Says that this rank is here, and waits until whoever started the job lets it go on. */
static void hold(const char *path)
{
	char go[4096];
	int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, "h", 1) != 1)
		fprintf(stderr, "workload: --hold %s: %s\n", path, strerror(errno));
	if (fd >= 0)
		close(fd);
	(void)snprintf(go, sizeof(go), "%s.go", path);
	for (int i = 0; i < HOLD_S * 500 && access(go, F_OK); i++)
		work_sleep(2000000);
}

static void begin_pass(struct loop *loop, enum pass_kind kind, uint64_t step)
{
	if (kind == PASS_TRAIN && step == HOLD_STEP && loop->options->hold_path)
		hold(loop->options->hold_path);
	if (kind == PASS_TRAIN)
		fault_control_step(loop->faults, step);
	if (loop->transport->rank == 0) {
		truth_add(loop->truth,
			"{\"event\": \"%s\", \"step\": %" PRIu64 ", \"monotonic_ns\": %" PRId64
			", \"realtime_ns\": %" PRId64 "}",
			kind == PASS_TRAIN ? "step" : pass_kind_name(kind), step,
			work_monotonic_ns(), work_realtime_ns());
	}
	if (kind == PASS_TRAIN && loop->mark_begin)
		loop->mark_begin(step);
}

static int run_item(struct loop *loop, const struct schedule_item *item)
{
	const struct workload_options *options = loop->options;
	int64_t start = work_monotonic_ns();
	int64_t between;
	struct fault_extra extra = fault_control_segment(loop->faults, item->share);
	int result = loop->transport->work(loop->transport->context,
		(int64_t)(options->step_ms * 1e6 * item->share * jitter_factor(loop)),
		(int64_t)(options->compute_ms * 1e6 * item->share), extra);

	if (result)
		return result;
	between = work_monotonic_ns();
	result = loop->transport->collective(loop->transport->context, item);
	loop->own_ns += between - start;
	loop->called_ns += between;
	fault_control_account(loop->faults, between - start);
	loop->collective_ns += work_monotonic_ns() - between;
	loop->collectives++;
	return result;
}

/*
 * Who is late in truth, though nobody made it so: how long this rank was at work, and when it made its calls, which also
 * tells of one that got no CPU to come out of the call before.
 */
static void write_own(struct loop *loop, uint64_t step)
{
	truth_add(loop->truth,
		"{\"event\": \"own\", \"rank\": %u, \"step\": %" PRIu64
		", \"own_ms\": %.3f, \"called_ns\": %" PRId64 ", \"realtime_ns\": %" PRId64 "}",
		loop->transport->rank, step, (double)(loop->own_ns - loop->own_told_ns) / 1e6,
		loop->called_ns, work_realtime_ns());
	loop->own_told_ns = loop->own_ns;
	loop->called_ns = 0;
}

static int run_pass(struct loop *loop, enum pass_kind kind, uint64_t step, size_t item_count)
{
	int result = 0;

	begin_pass(loop, kind, step);
	for (size_t i = 0; i < item_count && !result; i++)
		result = run_item(loop, &loop->items[i]);
	if (!result)
		result = loop->transport->finish_pass(loop->transport->context);
	if (kind == PASS_TRAIN && loop->mark_end)
		loop->mark_end(step);
	if (kind == PASS_TRAIN)
		write_own(loop, step);
	return result;
}

static void write_end(const struct loop *loop)
{
	double steps = (double)(loop->schedule.step ? loop->schedule.step : 1);

	truth_add(loop->truth,
		"{\"event\": \"end\", \"rank\": %u, \"steps\": %" PRIu64
		", \"other_passes\": %" PRIu64 ", \"collectives\": %" PRIu64
		", \"own_ms_per_step\": %.3f, \"collective_ms_per_step\": %.3f, "
		"\"process_cpu_ms\": %.1f, \"monotonic_ns\": %" PRId64 "}",
		loop->transport->rank, loop->schedule.step, loop->schedule.other_count,
		loop->collectives, (double)loop->own_ns / 1e6 / steps,
		(double)loop->collective_ns / 1e6 / steps, (double)work_process_cpu_ns() / 1e6,
		work_monotonic_ns());
}

int loop_run(const struct workload_options *options, const struct loop_transport *transport)
{
	struct loop loop = {.options = options,
		.transport = transport,
		.random = options->schedule.seed * 1000003 + transport->rank};
	enum pass_kind kind;
	size_t item_count;
	uint64_t step;
	int result;

	loop.items = calloc(SCHEDULE_ITEMS_MAX, sizeof(*loop.items));
	if (!loop.items)
		return -ENOMEM;
	result = truth_create(options->truth_path, &loop.truth);
	if (result) {
		fprintf(stderr, "workload: %s: %s\n", options->truth_path, strerror(-result));
		goto free_items;
	}
	result = fault_control_create(options, transport->rank, loop.truth, &loop.faults);
	if (result)
		goto destroy_truth;
	open_markers(&loop);
	write_job(&loop);
	schedule_init(&loop.schedule, &options->schedule);
	while (!result &&
		(kind = schedule_next(&loop.schedule, loop.items, &item_count, &step)) != PASS_END)
		result = run_pass(&loop, kind, step, item_count);
	fault_control_destroy(loop.faults);
	write_end(&loop);

destroy_truth:
	truth_destroy(loop.truth);
free_items:
	free(loop.items);
	return result;
}
