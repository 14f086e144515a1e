/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/golden/models.h"

#include "coordinator/report/sheets.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/golden/made_stacks.h"

static void add_source(struct golden_model *golden, const char *name, enum source_state state,
	uint32_t probes, uint32_t on, const char *why)
{
	struct report_source *source = &golden->sources[golden->model.source_count++];

	*source = (struct report_source){
		.source = {.state = (uint8_t)state}, .probe_count = probes, .on_count = on};
	snprintf(source->source.name, sizeof(source->source.name), "%s", name);
	snprintf(source->source.why, sizeof(source->source.why), "%s", why);
}

static void add_evidence(struct verdict *verdict, enum cause kind, double overlap, double control,
	const char *detail)
{
	struct verdict_evidence *evidence = &verdict->evidence[verdict->evidence_count++];

	evidence->kind = (uint8_t)kind;
	evidence->overlap_ms_per_step = overlap;
	evidence->control_ms_per_step = control;
	snprintf(evidence->detail, sizeof(evidence->detail), "%s", detail);
}

static void add_where(struct verdict *verdict, const char *text, const char *frame)
{
	verdict->where = (struct verdict_where){.frame_count = 1,
		.ms_per_step = 412,
		.ordinal = 2,
		.operation = OPERATION_ALL_REDUCE};
	snprintf(verdict->where.text, sizeof(verdict->where.text), "%s", text);
	snprintf(verdict->where.frames[0], sizeof(verdict->where.frames[0]), "%s", frame);
}

static void add_rejection(struct verdict *verdict, enum cause kind, const char *why)
{
	struct verdict_rejection *rejection = &verdict->rejected[verdict->rejected_count++];

	rejection->kind = (uint8_t)kind;
	snprintf(rejection->why, sizeof(rejection->why), "%s", why);
}

static struct verdict *add_verdict(struct golden_model *golden, enum verdict_class verdict_class,
	enum cause cause, uint32_t rank, double slowdown)
{
	struct verdict *verdict = &golden->verdicts[golden->model.verdict_count++];

	*verdict = (struct verdict){
		.id = (uint32_t)golden->model.verdict_count,
		.verdict_class = (uint8_t)verdict_class,
		.cause = (uint8_t)cause,
		.rank_count = 1,
		.ranks = {rank},
		.slowdown = slowdown,
		.sure.confidence = 0.97,
		.sure.share_explained = 0.91,
		.first_step = 120,
		.last_step = 480,
		.onset = {7440000000},
		.end = {29880000000},
		.alert = {7520000000},
		.sure.clock_error_us = 3.0,
	};
	return verdict;
}

static void add_rank(struct golden_model *golden, const char *host, double compute_ms,
	double host_ms, double wait_ms, double own_ms, double inherited_ms)
{
	uint32_t rank = golden->model.rank_count++;
	int64_t steps = 500;

	golden->ranks[rank] = (struct report_rank){
		.totals = {.rank = rank,
			.steps = (uint64_t)steps,
			.phase_ns = {0, (int64_t)(compute_ms * 1e6) * steps,
				(int64_t)(host_ms * 1e6) * steps, (int64_t)(wait_ms * 1e6) * steps,
				310000 * steps},
			.own_excess_ns = (int64_t)(own_ms * 1e6) * steps,
			.inherited_ns = (int64_t)(inherited_ms * 1e6) * steps},
		.pid = 4000 + rank,
		.host = host,
	};
}

/* Without it the step takes so long; of a job of 20.05 ms steps. */
static void add_cost(struct golden_model *golden, enum cost_of of, uint32_t number, uint32_t other,
	double step_ms, double share)
{
	golden->costs[golden->model.cost_count++] = (struct job_cost){.of = (uint8_t)of,
		.number = number,
		.other = other,
		.node_count = of == COST_LINK ? 2 : 0,
		.step_ms = step_ms,
		.slowdown = 20.05 / step_ms,
		.share = share,
		.wasted_rank_seconds = (20.05 - step_ms) * 4 * 0.5};
}

/* A job of 500 steps that began on 2026-11-21 06:25:00 UTC. */
static void begin(struct golden_model *golden, const char *job_id, uint32_t nodes)
{
	memset(golden, 0, sizeof(*golden));
	golden->model = (struct report_model){
		.job_id = job_id,
		.node_count = nodes,
		.unix_offset_ns = 1795242295000000000,
		.totals = {.steps = 500,
			.step_ms_median = 20.05,
			.step_ms_ideal = 20.0,
			.slowdown = 1.0,
			.clock_error_us = 1.25,
			.first_start = {5000000000},
			.last_end = {17000000000}},
		.verdicts = golden->verdicts,
		.ranks = golden->ranks,
		.costs = golden->costs,
		.sources = golden->sources,
		.counters = {.events = 204800, .cpu_ns = 90000000, .resident_bytes = 14680064},
		.probe_cpu_percent = 0.75,
		.frames = 48,
	};
}

static void add_usual_sources(struct golden_model *golden)
{
	add_source(golden, "bpf.collectives", SOURCE_ON, 1, 1, "");
	add_source(golden, "bpf.sched", SOURCE_ON, 1, 1, "");
	add_source(golden, "bpf.faults", SOURCE_ON, 1, 1, "");
	add_source(golden, "cgroup", SOURCE_ON, 1, 1, "");
	add_source(golden, "device.time", SOURCE_MISSING, 1, 0,
		"no CUDA device is used by the job: CPU times only");
}

/* The example of the design: rank 2 of 4 is throttled. */
static void make_throttle(struct golden_model *golden)
{
	struct verdict *verdict;

	begin(golden, "quickstart", 1);
	golden->model.world_size = 4;
	golden->model.totals.slowdown = 1.17;
	golden->model.totals.wasted_rank_seconds = 5.25;
	add_rank(golden, "node-a", 19.6, 0.1, 14.2, 0.0, 0.0);
	add_rank(golden, "node-a", 19.7, 0.1, 14.1, 0.0, 0.0);
	add_rank(golden, "node-a", 19.7, 13.9, 0.3, 13.4, 0.0);
	add_rank(golden, "node-a", 19.5, 0.1, 14.3, 0.0, 0.0);
	verdict = add_verdict(golden, VERDICT_HOST_SLOW, CAUSE_CGROUP_THROTTLE, 2, 1.24);
	add_evidence(verdict, CAUSE_CGROUP_THROTTLE, 18.2, 0.0,
		"cpu.stat: 71 % of the periods throttled, quota 0.4 CPUs");
	add_rejection(verdict, CAUSE_CPU_CONTENTION, "same as control");
	add_rejection(verdict, CAUSE_MAJOR_PAGE_FAULT, "none");
	verdict->victim_count = 3;
	memcpy(verdict->victims, (uint32_t[]){0, 1, 3}, 3 * sizeof(uint32_t));
	add_usual_sources(golden);
}

/* The same, of which nothing was measured any more before the job ended: it is neither over, nor known to go on. */
static void make_silent(struct golden_model *golden)
{
	make_throttle(golden);
	golden->verdicts[0].sure.unmeasured_since = 482;
}

/* Nothing found, but parts could not be seen: never "healthy". */
static void make_blind(struct golden_model *golden)
{
	begin(golden, "no-rights", 2);
	golden->model.world_size = 4;
	golden->model.counters.dropped = 12;
	golden->model.counters.steps_incomplete = 3;
	golden->model.totals.steps_incomplete = 2;
	add_rank(golden, "node-a", 19.6, 0.1, 0.2, 0.0, 0.0);
	add_rank(golden, "node-b", 19.7, 0.1, 0.1, 0.0, 0.0);
	add_source(golden, "bpf.collectives", SOURCE_ON, 2, 2, "");
	add_source(golden, "bpf.faults", SOURCE_MISSING, 2, 1,
		"the kernel has no tracepoint exceptions:page_fault_user");
	add_source(golden, "cgroup", SOURCE_DEGRADED, 2, 2,
		"groups above this container are not visible");
	add_source(golden, "tcp", SOURCE_OFF, 2, 0, "not asked for");
	golden->model.enqueue_only = 1;
	golden->model.record_truncated = 1;
}

/* No step at all: the probe had no rights. */
static void make_empty(struct golden_model *golden)
{
	begin(golden, "", 0);
	golden->model.totals = (struct job_totals){0};
	golden->model.frames = 1;
	add_source(golden, "bpf.collectives", SOURCE_MISSING, 1, 0,
		"no right to load BPF programs: run as root, or grant CAP_BPF, CAP_PERFMON and "
		"CAP_SYS_PTRACE");
}

/* Several verdicts at once: running and over, one rank and many, known and unknown causes. */
static void make_several(struct golden_model *golden)
{
	struct verdict *verdict;

	begin(golden, "several", 2);
	golden->model.world_size = 8;
	for (int i = 0; i < 8; i++)
		add_rank(golden, i < 4 ? "node-a" : "node-b", 19.0 + i, 0.5, 3.0,
			i == 5 ? 7.125 : 0.0, i == 6 ? 6.5 : 0.0);
	golden->ranks[7].totals.steps = 0; /* seen, but no step of it */
	golden->ranks[3].exited = 1;
	golden->ranks[3].exit_code = 137;
	verdict = add_verdict(golden, VERDICT_COMPUTE_SLOW, CAUSE_UNKNOWN, 5, 1.31);
	verdict->victim_count = 7;
	memcpy(verdict->victims, (uint32_t[]){0, 1, 2, 3, 4, 6, 7}, 7 * sizeof(uint32_t));
	add_where(verdict, "in augment (extra.py:17)", "augment (extra.py:17)");
	verdict = add_verdict(golden, VERDICT_HOST_SLOW, CAUSE_CPU_CONTENTION, 1, 1.62);
	verdict->ended = 1;
	verdict->victim_count = 1;
	verdict->victims[0] = 0;
	add_evidence(verdict, CAUSE_CPU_CONTENTION, 12.4, 0.31,
		"ran instead: stress-ng (pid 4242), 71 % of it");
	add_evidence(verdict, CAUSE_MINOR_PAGE_FAULT, 0.62, 0.6, "");
	verdict = add_verdict(golden, VERDICT_WORKLOAD_IMBALANCE, CAUSE_STAGE_IMBALANCE, 6, 1.1);
	verdict->rank_count = 3;
	memcpy(verdict->ranks, (uint32_t[]){3, 6, 7}, 3 * sizeof(uint32_t));
	verdict = add_verdict(golden, VERDICT_HANG, CAUSE_UNKNOWN, 4, 1.0);
	verdict->rank_count = 1;
	verdict = add_verdict(golden, VERDICT_COMM_SLOW, CAUSE_PATH_CONGESTION, 0, 1.05);
	verdict->rank_count = 0;
	add_evidence(verdict, CAUSE_PATH_CONGESTION, 1.0, 0.0, "");
	verdict = add_verdict(golden, VERDICT_HOST_SLOW, CAUSE_CHECKPOINT, 0, 1.02);
	verdict->period = (struct verdict_period){.steps = 10, .slowdown = 1.2};
	add_evidence(verdict, CAUSE_CHECKPOINT, 412.0, 0.0,
		"in torch/serialization.py:save (train.py:212)");
	add_where(verdict, "in torch/serialization.py:save (train.py:212)", "main (train.py:212)");
	add_usual_sources(golden);
	add_cost(golden, COST_RANK, 1, 0, 16.04, 0.625);
	add_cost(golden, COST_RANK, 0, 0, 19.95, 0.01);
	add_cost(golden, COST_NODE, 0, 0, 16.0, 0.64);
	add_cost(golden, COST_LINK, 0, 5, 19.5, 0.09);
	add_cost(golden, COST_ROLE, 1, 0, 19.8, 0.04);
	add_cost(golden, COST_PHASE, PHASE_HOST, 0, 15.9, 0.65);
}

/* The same for someone who does not want to be alerted of all of it. */
static void make_limited(struct golden_model *golden)
{
	make_several(golden);
	golden->alerts = (struct alert_gate){.limits = {1.10, 30000000000, 1.2},
		.holds = golden->holds,
		.count = sizeof(golden->holds),
		.held = 3};
	golden->holds[1] = ALERT_HOLD_DURATION;
	golden->holds[2] = ALERT_HOLD_IMBALANCE;
	golden->holds[4] = ALERT_HOLD_SLOWDOWN;
	golden->model.alerts = &golden->alerts;
}

/* More ranks and verdicts than text shows: the worst first, and how many are left out. */
static void make_many(struct golden_model *golden)
{
	begin(golden, "many", 4);
	golden->model.world_size = 64;
	for (int i = 0; i < 40; i++)
		add_rank(golden, i % 2 ? "a-host-with-a-name-longer-than-the-table" : "node-b",
			19.0, 0.5, 3.0, i * 0.25, 0.0);
	for (uint32_t i = 0; i < 20; i++)
		add_verdict(golden, VERDICT_HOST_SLOW, CAUSE_BLOCK_IO, i + 20, 1.0 + i * 0.01)
			->victim_count = 39;
	add_usual_sources(golden);
}

/* Text and numbers from outside that would break JSON or a terminal. */
static void make_hostile(struct golden_model *golden)
{
	struct verdict *verdict;

	begin(golden, "quote \" backslash \\ line\nend \x1b[31m bad \xff\xc3 euro \xe2\x82\xac", 1);
	add_rank(golden, "host\x07<script>", 1.0, 0.1, 0.1, 1.0, 0.0);
	golden->ranks[0].totals.phase_ns[PHASE_COMPUTE] = INT64_MIN;
	verdict = add_verdict(golden, (enum verdict_class)200, (enum cause)201, 0, INFINITY);
	verdict->onset.value = INT64_MAX;
	add_evidence(verdict, (enum cause)99, NAN, -0.00001, "\x1b]0;title\x07 \xed\xa0\x80");
	add_where(verdict, "in \x1b]0;title\x07 \xed\xa0\x80", "\n\xff");
	verdict->victim_count = UINT32_MAX;
	golden->model.totals.step_ms_ideal = NAN;
	golden->model.totals.step_ms_median = 1e300;
	golden->model.frames_refused = 4;
	golden->model.counters.batches_lost = 2;
}

static void add_finding(struct explanation *why, enum cause cause, enum known known, double own_ms,
	double share, const char *text)
{
	struct finding *finding = &why->findings[cause];

	*finding = (struct finding){.known = known,
		.own_ns = own_ms * 1e6 * (double)why->sums.steps,
		.control_ns = 1e5 * (double)why->sums.steps,
		.share = share};
	snprintf(finding->text, sizeof(finding->text), "%s", text);
}

/* Why rank 2 was not named: a small delay, for which nobody waited. */
static void make_explain(struct golden_model *golden)
{
	static const double levels[] = {0.001, -0.002, 0, 0.021, 0.024, 0.019, 0.0205, 0.003, NAN};
	const struct sheets_wish wish = {.rank = 2, .at_step = true, .step = 431};
	struct explanation why = {.verdict_class = VERDICT_HOST_SLOW,
		.cause = CAUSE_CPU_CONTENTION,
		.sums = {.steps = 40},
		.where = {.text = "in augment (extra.py:17)", .ms_per_step = 1.5}};

	begin(golden, "explained", 1);
	for (int i = 0; i < 4; i++)
		add_rank(golden, "node-a", 19.6, 0.1, 0.2, i == 2 ? 0.4 : 0, 0.0);
	add_usual_sources(golden);
	add_finding(&why, CAUSE_CPU_CONTENTION, KNOWN_SHARE, 1.2, 0.92,
		"ran instead: backup\n (pid 71), 60 % of it");
	add_finding(&why, CAUSE_MAJOR_PAGE_FAULT, KNOWN_NOT_IT, 0, 0, "none seen");
	add_finding(&why, CAUSE_MINOR_PAGE_FAULT, KNOWN_MISSING, 0, 0, "bpf.faults: off");
	golden->sheets = report_sheets_create(&wish);
	for (uint64_t i = 0; golden->sheets && i < sizeof(levels) / sizeof(levels[0]); i++) {
		struct gate_sheet sheet = {.rank = 2,
			.first_step = 370 + 10 * i,
			.last_step = 379 + 10 * i,
			.level = levels[i],
			.small = true,
			.since_known = true,
			.since_step = 400};

		(void)gate_is(&sheet, GATE_PRESENT, true);
		(void)gate_passed(&sheet, GATE_CHANGE, 7.12, 6);
		(void)gate_passed(&sheet, GATE_LASTS, 11, 8);
		(void)gate_passed_in(&sheet, GATE_DELAY, 9e5, 5e4, 1e6);
		(void)gate_passed(&sheet, GATE_LONGER, 0.08, 0.3);
		(void)gate_passed(&sheet, GATE_EVIDENCE, 12, INFINITY);
		report_sheets_take(golden->sheets, &sheet, &why);
	}
	golden->model.sheets = golden->sheets;
}

#define PYTHON(file, line, function)                                                               \
	{                                                                                          \
		STACK_FRAME_PYTHON, file, line, function                                           \
	}
#define NATIVE(file, function)                                                                     \
	{                                                                                          \
		STACK_FRAME_NATIVE, file, 0, function                                              \
	}
#define WAIT(what, on)                                                                             \
	{                                                                                          \
		STACK_FRAME_WAIT, on, 0, what                                                      \
	}
#define KERNEL(function)                                                                           \
	{                                                                                          \
		STACK_FRAME_KERNEL, "", 0, function                                                \
	}
#define MODULE PYTHON("/home/u/train.py", 300, "<module>"), PYTHON("/home/u/train.py", 212, "main")
#define TORCH "/usr/lib/python3/site-packages/torch/"

static void keep(struct golden_model *golden, const struct made_stacks *made, int64_t start_ns)
{
	int64_t length_ns = made->profile.stop.value - made->profile.start.value;

	if (!stack_profile_is_valid(&made->profile) ||
		stack_looks_keep(&golden->stacks, &made->profile, start_ns, start_ns + length_ns))
		abort();
	golden->model.stacks = &golden->stacks;
}

/* What both ranks do: forward, a collective, a thread of autograd, one that waits for work, a loader's worker. */
static void add_usual_stacks(struct made_stacks *made, uint32_t rank, double forward_ms)
{
	int32_t pid = 4000 + (int32_t)rank;
	uint32_t first = made_stacks_thread(made, STACK_THREAD_CALLER, pid, pid, "train");
	uint32_t autograd = made_stacks_thread(made, STACK_THREAD_CALLER, pid, pid + 100,
		rank ? "pt_autograd_2" : "pt_autograd_0");
	uint32_t worker =
		made_stacks_thread(made, STACK_THREAD_WORKER, pid + 50, pid + 50, "pt_data_worker");
	uint32_t before = made_stacks_segment(made, 0, OPERATION_ALL_REDUCE, false);
	uint32_t inside = made_stacks_segment(made, 0, OPERATION_ALL_REDUCE, true);
	char pipe[32];

	snprintf(pipe, sizeof(pipe), "pipe:[%d]", 8800 + (int)rank);
	made_stacks_add(made, first, before, STACK_STATE_RUNNING, forward_ms,
		(struct made_frame[MADE_FRAMES_MAX]){MODULE,
			PYTHON(TORCH "nn/modules/linear.py", 114, "forward"),
			NATIVE("/usr/lib/libtorch_cpu.so",
				"std::map<int, long>::operator[](int const&) 12")});
	made_stacks_add(made, first, inside, STACK_STATE_LOCK, 50,
		(struct made_frame[MADE_FRAMES_MAX]){MODULE,
			PYTHON(TORCH "distributed/distributed_c10d.py", 1985, "all_reduce"),
			NATIVE("libc.so.6", "pthread_cond_wait"), WAIT("futex", "0x7f0012345678")});
	made_stacks_add(made, autograd, before, STACK_STATE_RUNNING, 40,
		(struct made_frame[MADE_FRAMES_MAX]){NATIVE(
			"/usr/lib/libtorch_cpu.so", "torch::autograd::Engine::thread_main")});
	made_stacks_add(made, worker, before, STACK_STATE_SOCKET, 190,
		(struct made_frame[MADE_FRAMES_MAX]){
			PYTHON(TORCH "utils/data/_utils/worker.py", 275, "_worker_loop"),
			NATIVE("libc.so.6", "read"), WAIT("read", pipe)});
}

static void add_kernels(struct golden_model *golden, uint32_t rank, int64_t time_ns)
{
	struct kernel_profile *look = &golden->kernels[rank ? 1 : 0];

	*look = (struct kernel_profile){.rank = rank,
		.steps = 4,
		.kernel_count = 8,
		.kernel_ns = time_ns,
		.busy_ns = time_ns,
		.sum_count = 2,
		.sums = {{"gemm<float>", 4, time_ns / 4 * 3}, {"add", 4, time_ns / 4}}};
	golden->ranks[rank].look = look;
}

/* Rank 2 saves a checkpoint in each 10th step; rank 0 is its control, and rank 3 could not be looked at. */
static void make_stacks(struct golden_model *golden)
{
	static struct made_stacks made;
	struct verdict *verdict;

	begin(golden, "stacks", 1);
	for (int i = 0; i < 4; i++)
		add_rank(golden, "node-a", 12, i == 2 ? 4 : 1, i == 2 ? 0 : 3, i == 2 ? 3 : 0, 0);
	verdict = add_verdict(golden, VERDICT_HOST_SLOW, CAUSE_UNKNOWN, 2, 1.24);
	verdict->period.steps = 10;
	verdict->period.slowdown = 3.4;
	verdict->victim_count = 3;
	verdict->victims[1] = 1;
	verdict->victims[2] = 3;
	verdict = add_verdict(golden, VERDICT_HOST_SLOW, CAUSE_UNKNOWN, 3, 1.1);
	verdict->onset.value += 100000000;

	made_stacks_begin(&made, 2, 10);
	add_usual_stacks(&made, 2, 90);
	made_stacks_add(&made, 0, 0, STACK_STATE_RUNNING, 12,
		(struct made_frame[MADE_FRAMES_MAX]){MODULE,
			PYTHON(TORCH "serialization.py", 619, "save"),
			PYTHON("/home/u/<script>alert(1)</script>;x.py", 3,
				"a</script>b\"';\x1b[31mc"),
			NATIVE("libz.so.1", "deflate")});
	made_stacks_add(&made, 0, 0, STACK_STATE_FILE, 30,
		(struct made_frame[MADE_FRAMES_MAX]){MODULE,
			PYTHON(TORCH "serialization.py", 619, "save"), NATIVE("libc.so.6", "write"),
			WAIT("write", "/ckpt/step 100")});
	keep(golden, &made, 10000000000);
	made_stacks_begin(&made, 0, 10);
	add_usual_stacks(&made, 0, 88);
	keep(golden, &made, 10000400000);
	made_stacks_begin(&made, 3, 0);
	made.profile.result = STACK_RESULT_NO_RIGHT;
	made.profile.stop = made.profile.start;
	snprintf(made.profile.why, sizeof(made.profile.why), "ptrace_scope is 2");
	keep(golden, &made, 11000000000);
	add_kernels(golden, 2, 40000000);
	add_kernels(golden, 0, 36000000);
}

/* Rank 2 does not come: it waits for the disk; rank 0 waits for it. */
static void make_hang(struct golden_model *golden)
{
	static struct made_stacks made;
	struct verdict *verdict;
	uint32_t thread, none;

	begin(golden, "hang", 1);
	for (int i = 0; i < 3; i++)
		add_rank(golden, "node-a", 12, 1, 3, 0, 0);
	verdict = add_verdict(golden, VERDICT_HANG, CAUSE_UNKNOWN, 2, 31.5);
	verdict->victim_count = 2;
	verdict->victims[1] = 1;
	verdict->hang = (struct verdict_hang){0x1a2b, 480, 2, 3, OPERATION_ALL_REDUCE};

	made_stacks_begin(&made, 2, 0);
	thread = made_stacks_thread(&made, STACK_THREAD_CALLER, 4002, 4002, "train");
	none = made_stacks_segment(&made, 0, OPERATION_UNKNOWN, false);
	made_stacks_add(&made, thread, none, STACK_STATE_FILE, 1000,
		(struct made_frame[MADE_FRAMES_MAX]){MODULE, PYTHON("/home/u/ckpt.py", 41, "save"),
			NATIVE("libc.so.6", "fsync"), WAIT("fsync", "/ckpt/step-100"),
			KERNEL("do_syscall_64"), KERNEL("vfs_fsync_range"),
			KERNEL("nfs_wait_bit_killable")});
	thread = made_stacks_thread(&made, STACK_THREAD_OTHER, 4002, 4102, "pt_nccl_watchdg");
	made_stacks_add(&made, thread, none, STACK_STATE_SLEEP, 1000,
		(struct made_frame[MADE_FRAMES_MAX]){
			NATIVE("libc.so.6", "clock_nanosleep"), WAIT("clock_nanosleep", "")});
	keep(golden, &made, 8000000000);
	made_stacks_begin(&made, 0, 0);
	thread = made_stacks_thread(&made, STACK_THREAD_CALLER, 4000, 4000, "train");
	none = made_stacks_segment(&made, 3, OPERATION_ALL_REDUCE, true);
	made_stacks_add(&made, thread, none, STACK_STATE_RUNNING, 1000,
		(struct made_frame[MADE_FRAMES_MAX]){MODULE,
			PYTHON(TORCH "distributed/distributed_c10d.py", 1985, "all_reduce"),
			NATIVE("libmpi.so.40", "opal_progress")});
	keep(golden, &made, 8000000000);
}

void golden_model_fini(struct golden_model *golden)
{
	report_sheets_destroy(golden->sheets);
	for (size_t i = 0; i < golden->stacks.count; i++)
		stack_profile_destroy(golden->stacks.kept[i].profile);
}

const struct golden_case golden_cases[] = {
	{"throttle", make_throttle},
	{"silent", make_silent},
	{"blind", make_blind},
	{"empty", make_empty},
	{"several", make_several},
	{"limited", make_limited},
	{"many", make_many},
	{"hostile", make_hostile},
	{"explain", make_explain},
	{"stacks", make_stacks},
	{"hang", make_hang},
};
const size_t golden_case_count = sizeof(golden_cases) / sizeof(golden_cases[0]);
