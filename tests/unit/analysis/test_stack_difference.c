/* SPDX-License-Identifier: Apache-2.0 */
/* What a suspect does for longer than its control, and where, by made stacks of both. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <math.h>

#include "analysis/explain/stack_difference.h"
#include "tests/unit/analysis/made_stacks.h"
#include "tests/unit/wire/random_batch.h"

#define PACKAGES "/usr/lib/python3/dist-packages/"
#define TRAIN "<module>@/home/u/train.py:300|main@/home/u/train.py:"

enum { STEPS = 40, FIRST = 0, IN_FIRST = 1, SECOND = 2 };

static struct made_stacks suspect, control;
static struct stack_difference difference;
static char why[VERDICT_DETAIL_LENGTH];

static uint32_t caller(struct made_stacks *made)
{
	return made_thread(made, STACK_THREAD_CALLER, "python3", 100);
}

/* Both work for 50 ms a step, and wait in a collective. */
static int set_up(void **state)
{
	(void)state;
	made_stacks_init(&suspect, 1, STEPS);
	made_stacks_init(&control, 2, STEPS);
	made_add(&suspect, caller(&suspect), STACK_STATE_RUNNING, FIRST,
		TRAIN "210|forward@/home/u/model.py:12", STEPS, 50 * STEPS);
	made_add(&control, caller(&control), STACK_STATE_RUNNING, FIRST,
		TRAIN "210|forward@/home/u/model.py:12", STEPS, 50 * STEPS);
	made_add(&control, caller(&control), STACK_STATE_LOCK, IN_FIRST, TRAIN "215|~futex@0x7f00",
		STEPS, 50 * STEPS);
	return 0;
}

static void slow(enum stack_state state, const char *frames, int64_t ms_per_step)
{
	made_add(&suspect, caller(&suspect), state, SECOND, frames, STEPS, ms_per_step * STEPS);
}

static const struct stack_difference *compared(uint32_t every)
{
	assert_true(stack_profile_is_valid(&suspect.profile));
	assert_true(stack_profile_is_valid(&control.profile));
	assert_int_equal(
		stack_profile_compare(&suspect.profile, &control.profile, every, &difference, why),
		0);
	return &difference;
}

static double more_ms(const struct stack_excess *excess)
{
	return (excess->own_ns - excess->control_ns) / 1e6;
}

static void each_class_has_its_frame(void **state)
{
	static const struct {
		enum stack_class class;
		enum stack_state state;
		const char *frames, *text;
	} cases[] = {
		{STACK_CLASS_CHECKPOINT, STACK_STATE_FILE,
			TRAIN
			"212|save@" PACKAGES "torch/serialization.py:850|_save@" PACKAGES
			"torch/serialization.py:1100|write_record@libtorch.so|write@libc.so.6|"
			"~write@/ckpt/7.pt",
			"in torch/serialization.py:save (train.py:212); write /ckpt/7.pt"},
		{STACK_CLASS_LOGGING, STACK_STATE_SOCKET,
			TRAIN "88|info@/usr/lib/python3.11/logging/__init__.py:1489|"
			      "emit@/usr/lib/python3.11/logging/__init__.py:1100|~write@pipe:[77]",
			"in logging/__init__.py:info (train.py:88); write pipe:[77]"},
		{STACK_CLASS_LOGGING, STACK_STATE_RUNNING, TRAIN "91|builtin_print@python3.11",
			"in builtin_print (train.py:91)"},
		{STACK_CLASS_DATA_LOADER, STACK_STATE_RUNNING,
			TRAIN "70|__next__@/v/lib/python3.12/site-packages/torch/utils/data/"
			      "dataloader.py:630|__getitem__@/home/u/data.py:33",
			"in __getitem__ (data.py:33)"},
		{STACK_CLASS_COPY, STACK_STATE_RUNNING,
			TRAIN "99|cudaMemcpyAsync@libcudart.so.12|ioctl@libc.so.6",
			"in cudaMemcpyAsync (train.py:99)"},
		{STACK_CLASS_ALLOCATOR, STACK_STATE_DEVICE,
			TRAIN
			"101|_ZN2at5emptyEv@libtorch.so|cudaMalloc@libcudart.so.12|~ioctl@/dev/"
			"nvidia0",
			"in cudaMalloc (train.py:101); ioctl /dev/nvidia0"},
		{STACK_CLASS_ALLOCATOR, STACK_STATE_RUNNING,
			TRAIN
			"102|empty_cache@/v/lib/python3.12/site-packages/torch/cuda/"
			"memory.py:239|_Z21THCPModule_emptyCacheP7_objectS0_@libtorch_python.so",
			"in torch/cuda/memory.py:empty_cache (train.py:102)"},
		{STACK_CLASS_ALLOCATOR, STACK_STATE_RUNNING,
			TRAIN "103|_ZN3c104cuda20CUDACachingAllocator6NativeL16local_raw_deleteEPv@"
			      "libc10_cuda.so",
			"in local_raw_delete (train.py:103)"},
		{STACK_CLASS_FILE, STACK_STATE_FILE,
			"main@job|exchange@job|read@libc.so.6|~read@/nfs/table",
			"in read (exchange, job); read /nfs/table"},
		{STACK_CLASS_LOCK, STACK_STATE_LOCK,
			"main@job|update@job|pthread_mutex_lock@libc.so.6|~futex@0x7f3200",
			"in pthread_mutex_lock (update, job); futex 0x7f3200"},
		{STACK_CLASS_LOCK, STACK_STATE_LOCK,
			TRAIN "120|take@/home/u/x.py:9|@libc.so.6|~futex@0x12f0|~futex_do_wait@",
			"in take (x.py:9); futex 0x12f0"}, /* of an interpreter without symbols */
		{STACK_CLASS_CHECKPOINT, STACK_STATE_FILE,
			TRAIN "130|Trainer.keep@/home/u/train.py:40|fsync@libc.so.6|~fsync@/out/"
			      "ckpt/7.bin",
			"in Trainer.keep (train.py:40); fsync /out/ckpt/7.bin"},
		{STACK_CLASS_CHECKPOINT, STACK_STATE_RUNNING,
			TRAIN "131|Trainer.save_checkpoint@/home/u/train.py:41",
			"in Trainer.save_checkpoint (train.py:41)"},
		{STACK_CLASS_FILE, STACK_STATE_FILE, TRAIN "132|read@libc.so.6|~read@/data/x.pt",
			"in main (train.py:132); read /data/x.pt"},
		{STACK_CLASS_LOCK, STACK_STATE_LOCK, TRAIN "120|pthread_cond_timedwait@libc.so.6",
			"in pthread_cond_timedwait (train.py:120)"}, /* the interpreter's own */
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		set_up(state);
		slow(cases[i].state, cases[i].frames, 50);
		compared(0);
		assert_string_equal(difference.classes[cases[i].class].where.text, cases[i].text);
		assert_string_equal(difference.all.where.text, cases[i].text);
		for (int c = 0; c < STACK_CLASS_NR; c++)
			assert_int_equal(lround(more_ms(&difference.classes[c])),
				c == (int)cases[i].class ? 50 : 0);
		assert_int_equal(difference.all.where.ordinal, 1);
		assert_int_equal(difference.all.where.operation, OPERATION_ALL_REDUCE);
		/* The control does the same. */
		made_add(&control, caller(&control), cases[i].state, SECOND, cases[i].frames, STEPS,
			50 * STEPS);
		compared(0);
		assert_int_equal(lround(more_ms(&difference.classes[cases[i].class])), 0);
		assert_string_equal(difference.all.where.text, "");
	}
}

/* Code of the program that no rule knows: the function, and of its lines the one that takes longest. */
static void own_code_is_named_by_its_line(void **state)
{
	(void)state;
	slow(STACK_STATE_RUNNING, TRAIN "230|augment@/home/u/extra.py:17", 20);
	slow(STACK_STATE_RUNNING, TRAIN "230|augment@/home/u/extra.py:18", 30);
	compared(0);
	assert_string_equal(difference.all.where.text, "in augment (extra.py:18)");
	assert_int_equal(lround(difference.all.where.ms_per_step), 50);
	assert_int_equal(lround(difference.all.where.control_ms_per_step), 0);
	assert_int_equal(difference.all.where.frame_count, 1);
	assert_string_equal(difference.all.where.frames[0], "augment (extra.py:18)");
	for (int c = 0; c < STACK_CLASS_NR; c++)
		assert_int_equal(
			lround(difference.classes[c].own_ns / 1e6), c == STACK_CLASS_CODE ? 50 : 0);
}

/* One frame holds nearly all of it, others a little: it stops where it parts. */
static void the_deepest_frame_with_half_of_it_is_named(void **state)
{
	(void)state;
	slow(STACK_STATE_RUNNING, TRAIN "230|step@/home/u/opt.py:5|norm@/home/u/opt.py:44", 22);
	slow(STACK_STATE_RUNNING, TRAIN "230|step@/home/u/opt.py:6|scale@/home/u/opt.py:66", 24);
	slow(STACK_STATE_RUNNING, TRAIN "240|report@/home/u/opt.py:99", 4);
	assert_string_equal(compared(0)->all.where.text, "in step (opt.py:6)");
}

/* Native frames outside of Python's are there or not, as each look could read them. */
static void outer_native_frames_make_no_other_place(void **state)
{
	(void)state;
	slow(STACK_STATE_RUNNING, "_start@python3.11|" TRAIN "120|augment@/home/u/data.py:7", 30);
	slow(STACK_STATE_RUNNING, TRAIN "121|backward@/home/u/model.py:30", 100);
	made_add(&control, caller(&control), STACK_STATE_RUNNING, SECOND,
		"_start@python3.11|" TRAIN "121|backward@/home/u/model.py:30", STEPS, 100 * STEPS);
	compared(0);
	assert_string_equal(difference.all.where.text, "in augment (data.py:7)");
	assert_int_equal(lround(more_ms(&difference.all)), 30);
}

/* A control that is early waits for others, or its device: what the suspect does is no less its own. */
static void waits_for_others_are_not_its_own(void **state)
{
	static const char *const waits[] = {
		TRAIN "216|synchronize@" PACKAGES
		      "torch/cuda/__init__.py:9|cudaDeviceSynchronize@libcudart.so.12",
		TRAIN "216|cudaStreamSynchronize@libcudart.so.12",
		"main@job|MPI_Recv@libmpi.so.40|poll@libc.so.6",
		TRAIN "216|0x55@libstatic.so|~ioctl@/dev/x", /* a wait that no rule knows */
	};

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		set_up(state);
		made_add(&control, caller(&control), STACK_STATE_RUNNING, SECOND, waits[i], STEPS,
			50 * STEPS);
		slow(STACK_STATE_RUNNING, TRAIN "230|augment@/home/u/extra.py:17", 50);
		assert_string_equal(compared(0)->all.where.text, "in augment (extra.py:17)");
	}
	for (size_t i = 0; i + 1 < sizeof(waits) / sizeof(waits[0]); i++) {
		set_up(state);
		slow(STACK_STATE_RUNNING, waits[i], 50);
		assert_string_equal(compared(0)->all.where.text, "");
	}
	set_up(state);
	made_add(&suspect, caller(&suspect), STACK_STATE_RUNNABLE, SECOND, TRAIN "211", STEPS,
		50 * STEPS);
	made_add(&suspect, caller(&suspect), STACK_STATE_RUNNING, IN_FIRST, TRAIN "211", STEPS,
		50 * STEPS);
	assert_string_equal(compared(0)->all.where.text, "");
}

/* Once in ten steps: how long it takes each time, not on average. */
static void of_a_period_each_step_counts(void **state)
{
	const char *frames =
		TRAIN "212|save@" PACKAGES "torch/serialization.py:850|~fsync@/ckpt/7.pt";

	(void)state;
	made_add(&suspect, caller(&suspect), STACK_STATE_FILE, SECOND, frames, 4, 4 * 412);
	compared(10);
	assert_int_equal(lround(more_ms(&difference.classes[STACK_CLASS_CHECKPOINT])), 412);
	/* The control saves, too. */
	made_add(&control, caller(&control), STACK_STATE_FILE, SECOND, frames, 4, 4 * 100);
	compared(10);
	assert_int_equal(lround(more_ms(&difference.classes[STACK_CLASS_CHECKPOINT])), 312);
	assert_int_equal(
		lround(difference.classes[STACK_CLASS_CHECKPOINT].where.control_ms_per_step), 100);
	/* Looks are rare, and count until the next: in how many steps it was seen says nothing. */
	control.sums[2].steps = 1;
	compared(10);
	assert_int_equal(lround(more_ms(&difference.classes[STACK_CLASS_CHECKPOINT])), 312);
	/* Too short a look at the control says nothing. */
	control.profile.steps = 9;
	assert_int_equal(
		stack_profile_compare(&suspect.profile, &control.profile, 10, &difference, why),
		-ENODATA);
	assert_string_equal(why, "the control was looked at for fewer than 10 steps");
}

/* Who waits for another thread gives way to that one, if it does something for as long. */
static void victims_give_way_to_whom_they_wait_for(void **state)
{
	uint32_t other = made_thread(&suspect, STACK_THREAD_OTHER, "pt_autograd_1", 100);
	const char *waits = TRAIN "220|wait@/usr/lib/python3.11/threading.py:320|~futex@0x7f11";

	(void)state;
	slow(STACK_STATE_LOCK, waits, 50);
	assert_string_equal(
		compared(0)->all.where.text, "in threading.py:wait (train.py:220); futex 0x7f11");
	made_add(&suspect, other, STACK_STATE_RUNNING, SECOND,
		"thread_start@libc.so.6|hook@/home/u/hooks.py:5", STEPS, 48 * STEPS);
	compared(0);
	assert_string_equal(
		difference.all.where.text, "thread pt_autograd_1 (pid 100): in hook (hooks.py:5)");
	assert_int_equal(lround(more_ms(&difference.classes[STACK_CLASS_LOCK])), 0);
	/* What it does for longer is the reason, as if the caller did it. */
	made_add(&suspect, other, STACK_STATE_FILE, SECOND,
		"thread_start@libc.so.6|save@" PACKAGES "torch/serialization.py:850|~write@/ckpt/7",
		STEPS, 300 * STEPS);
	compared(0);
	assert_int_equal(lround(more_ms(&difference.classes[STACK_CLASS_CHECKPOINT])), 50);
}

/* A thread of a pool that idles on both is no excess, whatever the numbers in its name. */
static void threads_are_matched_by_role_and_name(void **state)
{
	const char *idles = "clone@libc.so.6|poll@libc.so.6|~poll@";

	(void)state;
	/* Of its time, the control spends more inside of collectives. */
	slow(STACK_STATE_LOCK, TRAIN "220|join@/usr/lib/python3.11/threading.py:1100", 50);
	made_add(&suspect, made_thread(&suspect, STACK_THREAD_OTHER, "pool-7", 100),
		STACK_STATE_SOCKET, SECOND, idles, STEPS, 90 * STEPS);
	made_add(&control, made_thread(&control, STACK_THREAD_OTHER, "pool-15", 200),
		STACK_STATE_SOCKET, SECOND, idles, STEPS, 90 * STEPS);
	assert_string_equal(compared(0)->all.where.text, "in threading.py:join (train.py:220)");
}

static void who_holds_a_lock_is_told(void **state)
{
	uint32_t other = made_thread(&suspect, STACK_THREAD_OTHER, "watcher", 100);

	(void)state;
	slow(STACK_STATE_LOCK, "main@job|update@job|pthread_mutex_lock@libc.so.6|~futex@0x7f32",
		50);
	made_add(&suspect, other, STACK_STATE_SLEEP, SECOND,
		"start@libc.so.6|scan@job|usleep@libc.so.6", STEPS, 60 * STEPS);
	assert_string_equal(compared(0)->classes[STACK_CLASS_LOCK].where.text,
		"in pthread_mutex_lock (update, job); futex 0x7f32; meanwhile watcher (pid 100): "
		"in "
		"usleep (scan, job)");
}

/* Of two threads that are busy, and hold a lock each, the one that is so while the lock is waited for. */
static void who_holds_another_lock_is_not_told(void **state)
{
	uint32_t saver = made_thread(&suspect, STACK_THREAD_OTHER, "saver", 100);
	uint32_t mixer = made_thread(&suspect, STACK_THREAD_OTHER, "mixer", 100);

	(void)state;
	slow(STACK_STATE_LOCK, "main@job|update@job|pthread_mutex_lock@libc.so.6|~futex@0x7f32",
		50);
	made_add(&suspect, caller(&suspect), STACK_STATE_LOCK, FIRST,
		"main@job|read@job|pthread_mutex_lock@libc.so.6|~futex@0x1000", STEPS, 20 * STEPS);
	made_add(&suspect, mixer, STACK_STATE_RUNNING, FIRST, "start@libc.so.6|mix@job", STEPS,
		70 * STEPS);
	made_add(&suspect, saver, STACK_STATE_SLEEP, SECOND,
		"start@libc.so.6|save@job|usleep@libc.so.6", STEPS, 50 * STEPS);
	assert_string_equal(compared(0)->classes[STACK_CLASS_LOCK].where.text,
		"in pthread_mutex_lock (update, job); futex 0x7f32; meanwhile saver (pid 100): in "
		"usleep (save, job)");
}

/* Both wait for a lock elsewhere: what its control has is said of the place alone. */
static void a_lock_is_that_of_its_place(void **state)
{
	static const char *const usual =
		TRAIN "230|fetch@/home/u/data.py:7|pthread_mutex_lock@libc.so.6|~futex@0x1000";
	const struct stack_excess *lock;

	(void)state;
	made_add(&suspect, caller(&suspect), STACK_STATE_LOCK, FIRST, usual, STEPS, 40 * STEPS);
	made_add(&control, caller(&control), STACK_STATE_LOCK, FIRST, usual, STEPS, 40 * STEPS);
	slow(STACK_STATE_LOCK,
		TRAIN "240|update@/home/u/model.py:30|pthread_mutex_lock@libc.so.6|~futex@0x7f32",
		50);
	lock = &compared(0)->classes[STACK_CLASS_LOCK];
	assert_int_equal(lround(lock->own_ns / 1e6), 50);
	assert_int_equal(lround(lock->control_ns / 1e6), 0);
}

/* The worker that is slow, by its name and pid, where it is slow. */
static void a_slow_worker_of_the_loader_is_named(void **state)
{
	const char *waits = TRAIN "70|__next__@" PACKAGES
				  "torch/utils/data/dataloader.py:630|get@/usr/lib/python3.11/"
				  "multiprocessing/queues.py:113|~poll@pipe:[9]";
	const char *loads = "<module>@/home/u/train.py:1|_worker_loop@" PACKAGES
			    "torch/utils/data/_utils/worker.py:308|__getitem__@/home/u/data.py:33|"
			    "~read@/data/17.tar";
	uint32_t workers[3];

	(void)state;
	slow(STACK_STATE_SOCKET, waits, 50);
	assert_string_equal(compared(0)->classes[STACK_CLASS_DATA_LOADER].where.text,
		"in torch/utils/data/dataloader.py:__next__ (train.py:70); poll pipe:[9]");
	for (int w = 0; w < 3; w++) {
		workers[w] = made_thread(&suspect, STACK_THREAD_WORKER, "pt_data_worker", 501 + w);
		made_add(&suspect, workers[w], STACK_STATE_FILE, FIRST, loads, STEPS, 10 * STEPS);
		made_add(&control,
			made_thread(&control, STACK_THREAD_WORKER, "pt_data_worker", 601 + w),
			STACK_STATE_FILE, FIRST, loads, STEPS, 10 * STEPS);
	}
	made_add(&suspect, workers[1], STACK_STATE_FILE, IN_FIRST, loads, STEPS, 80 * STEPS);
	suspect.threads[workers[1]].cpu_ns = 1000;
	suspect.threads[workers[1]].blocked_ns = 80000000;
	compared(0);
	assert_string_equal(difference.classes[STACK_CLASS_DATA_LOADER].where.text,
		"worker pt_data_worker (pid 502, blocked on storage): in __getitem__ (data.py:33); "
		"read "
		"/data/17.tar");
	assert_string_equal(
		difference.all.where.text, difference.classes[STACK_CLASS_DATA_LOADER].where.text);
	assert_int_equal(lround(more_ms(&difference.classes[STACK_CLASS_DATA_LOADER])), 50);
}

/* Processes of its own that fill a queue, in code that nobody knows. */
static void workers_without_a_known_loader_are_told(void **state)
{
	const char *waits =
		TRAIN "70|get@/usr/lib/python3.11/multiprocessing/queues.py:113|~read@pipe:[9]";
	const char *fills = "main@/home/u/train.py:1|decode@/home/u/train.py:44";

	(void)state;
	slow(STACK_STATE_SOCKET, waits, 50);
	assert_true(compared(0)->classes[STACK_CLASS_DATA_LOADER].own_ns <= 0);
	made_add(&suspect, made_thread(&suspect, STACK_THREAD_WORKER, "python3", 501),
		STACK_STATE_RUNNING, IN_FIRST, fills, STEPS, 80 * STEPS);
	compared(0);
	assert_string_equal(difference.classes[STACK_CLASS_DATA_LOADER].where.text,
		"worker python3 (pid 501): in decode (train.py:44)");
	assert_int_equal(lround(more_ms(&difference.classes[STACK_CLASS_DATA_LOADER])), 50);
}

/* The sampler was kept from looking for 4 s while the control did what it always does: that is nobody's time. */
static void gaps_between_looks_are_nobodys(void **state)
{
	(void)state;
	slow(STACK_STATE_RUNNING, TRAIN "230|augment@/home/u/extra.py:17", 50);
	made_add(&control, caller(&control), STACK_STATE_RUNNING, SECOND,
		TRAIN "230|augment@/home/u/extra.py:17", 1, 4000);
	control.sums[control.profile.sum_count - 1].looks = 1;
	assert_string_equal(compared(0)->all.where.text, "in augment (extra.py:17)");
	assert_true(difference.all.where.control_ms_per_step < 2);
}

/* A few looks more than the control's may be chance. */
static void a_few_looks_say_nothing(void **state)
{
	(void)state;
	made_add(&suspect, caller(&suspect), STACK_STATE_FILE, SECOND,
		TRAIN "212|save@" PACKAGES "torch/serialization.py:850", 2, 15);
	compared(0);
	assert_string_equal(difference.all.where.text, "");
	assert_true(difference.classes[STACK_CLASS_CHECKPOINT].own_ns <= 0);
}

static void what_cannot_be_compared_says_why(void **state)
{
	(void)state;
	control.profile.python_minor = 0;
	snprintf(control.profile.why, sizeof(control.profile.why), "it is Python 3.8");
	assert_int_equal(
		stack_profile_compare(&suspect.profile, &control.profile, 0, &difference, why),
		-ENODATA);
	assert_string_equal(why, "no Python frames of rank 2: it is Python 3.8");
	set_up(state);
	control.profile.incomplete = control.profile.looks;
	assert_int_equal(
		stack_profile_compare(&suspect.profile, &control.profile, 0, &difference, why),
		-ENODATA);
	assert_string_equal(why, "too many stacks of rank 2 could not be read");
}

/* As a job of many threads has it, for what follows. */
static void make_a_mixture(void)
{
	static const char *const frames[] = {TRAIN "230|a@/home/u/x.py:1|b@/home/u/x.py:2",
		TRAIN "230|a@/home/u/x.py:1|c@/home/u/x.py:3", TRAIN "231|d@/home/u/x.py:4",
		TRAIN "232|info@/usr/lib/python3.11/logging/__init__.py:14|~write@/log",
		TRAIN "233|save@" PACKAGES "torch/serialization.py:850|~write@/ckpt"};

	for (uint32_t i = 0; i < 5; i++) {
		slow(i < 3 ? STACK_STATE_RUNNING : STACK_STATE_FILE, frames[i], 7 + 3 * i);
		made_add(&suspect, made_thread(&suspect, STACK_THREAD_OTHER, "helper", 100),
			STACK_STATE_RUNNING, SECOND, frames[4 - i], STEPS, 20 * STEPS);
		made_add(&control, caller(&control), STACK_STATE_RUNNING, SECOND, frames[i], STEPS,
			3 * STEPS);
	}
}

static void assert_same(
	const struct stack_difference *one, const struct stack_difference *other, double scale)
{
	for (int c = 0; c <= STACK_CLASS_NR; c++) {
		const struct stack_excess *a = c < STACK_CLASS_NR ? &one->classes[c] : &one->all;
		const struct stack_excess *b =
			c < STACK_CLASS_NR ? &other->classes[c] : &other->all;

		assert_string_equal(a->where.text, b->where.text);
		assert_int_equal(a->where.frame_count, b->where.frame_count);
		assert_true(fabs(scale * a->own_ns - b->own_ns) <= 1e-6 * b->own_ns);
		assert_true(fabs(scale * a->control_ns - b->control_ns) <= 1e-6 * b->own_ns);
	}
}

/* Neither the order in which stacks and threads come, nor the unit of time, matters. */
static void order_and_scale_do_not_matter(void **state)
{
	struct stack_difference before;

	make_a_mixture();
	before = *compared(0);
	assert_true(before.all.where.text[0]);
	for (uint32_t i = 0, j = suspect.profile.sum_count - 1; i < j; i++, j--) {
		struct stack_sum sum = suspect.sums[i];

		suspect.sums[i] = suspect.sums[j];
		suspect.sums[j] = sum;
	}
	for (uint32_t i = 0; i < suspect.profile.sum_count; i++)
		suspect.sums[i].thread = suspect.profile.thread_count - 1 - suspect.sums[i].thread;
	for (uint32_t i = 0, j = suspect.profile.thread_count - 1; i < j; i++, j--) {
		struct stack_thread_info thread = suspect.threads[i];

		suspect.threads[i] = suspect.threads[j];
		suspect.threads[j] = thread;
	}
	assert_same(&before, compared(0), 1);
	set_up(state);
	make_a_mixture();
	for (uint32_t i = 0; i < suspect.profile.sum_count; i++)
		suspect.sums[i].time_ns *= 1000;
	for (uint32_t i = 0; i < control.profile.sum_count; i++)
		control.sums[i].time_ns *= 1000;
	assert_same(&before, compared(0), 1000);
}

/* What other hosts sent, as long as it is valid: texts end, numbers are numbers. */
static void whatever_is_valid_is_compared(void **state)
{
	struct random_source random = {1};

	(void)state;
	for (int i = 0; i < 3000; i++) {
		struct stack_profile *own = random_stack_profile(&random);
		struct stack_profile *other = random_stack_profile(&random);
		uint32_t every = (uint32_t)random_below(&random, 4);

		own->steps |= 1;
		other->steps |= 1;
		other->python_minor = own->python_minor;
		own->incomplete = other->incomplete = 0;
		if (i % 2) { /* some do the same */
			stack_profile_destroy(other);
			other = stack_profile_copy(own);
		}
		assert_true(stack_profile_is_valid(own) && stack_profile_is_valid(other));
		if (stack_profile_compare(own, other, every, &difference, why) == 0) {
			assert_true(memchr(difference.all.where.text, 0, VERDICT_DETAIL_LENGTH));
			assert_true(isfinite(difference.all.own_ns));
			assert_true(i % 2 == 0 || !difference.all.where.text[0]);
		}
		stack_profile_destroy(own);
		stack_profile_destroy(other);
	}
}

/* Folders of packages are such of packages alone, and names are whole. */
static void names_of_projects_are_no_packages(void **state)
{
	(void)state;
	assert_int_equal(
		stack_class_of(STACK_FRAME_PYTHON, "step", "/home/u/neptune/train.py", false),
		STACK_CLASS_NONE);
	assert_int_equal(stack_class_of(STACK_FRAME_PYTHON, "init",
				 "/v/lib/python3.13t/site-packages/neptune/run.py", false),
		STACK_CLASS_LOGGING);
	assert_int_equal(stack_class_of(STACK_FRAME_PYTHON, "save",
				 "/home/u/mytorch/serialization.py", false),
		STACK_CLASS_NONE);
	assert_int_equal(stack_class_of(STACK_FRAME_PYTHON, "load",
				 PACKAGES "torch/serialization.py", false),
		STACK_CLASS_NONE);
	assert_int_equal(
		stack_class_of(STACK_FRAME_NATIVE, "MPI_File_write_all", "libmpi.so", false),
		STACK_CLASS_NONE);
	assert_string_equal(
		stack_file_short("/usr/lib/python3.11/logging/__init__.py"), "logging/__init__.py");
	assert_false(stack_frame_is_program(STACK_FRAME_PYTHON, "f", "<frozen importlib>"));
	assert_false(stack_frame_is_program(STACK_FRAME_NATIVE, "f", "libjob.so.2"));
	assert_true(stack_frame_is_program(STACK_FRAME_PYTHON, "f", "/opt/train/python3/run.py"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(each_class_has_its_frame, set_up),
		cmocka_unit_test_setup(own_code_is_named_by_its_line, set_up),
		cmocka_unit_test_setup(the_deepest_frame_with_half_of_it_is_named, set_up),
		cmocka_unit_test_setup(outer_native_frames_make_no_other_place, set_up),
		cmocka_unit_test_setup(waits_for_others_are_not_its_own, set_up),
		cmocka_unit_test_setup(of_a_period_each_step_counts, set_up),
		cmocka_unit_test_setup(victims_give_way_to_whom_they_wait_for, set_up),
		cmocka_unit_test_setup(threads_are_matched_by_role_and_name, set_up),
		cmocka_unit_test_setup(who_holds_a_lock_is_told, set_up),
		cmocka_unit_test_setup(who_holds_another_lock_is_not_told, set_up),
		cmocka_unit_test_setup(a_lock_is_that_of_its_place, set_up),
		cmocka_unit_test_setup(a_slow_worker_of_the_loader_is_named, set_up),
		cmocka_unit_test_setup(workers_without_a_known_loader_are_told, set_up),
		cmocka_unit_test_setup(gaps_between_looks_are_nobodys, set_up),
		cmocka_unit_test_setup(a_few_looks_say_nothing, set_up),
		cmocka_unit_test_setup(what_cannot_be_compared_says_why, set_up),
		cmocka_unit_test_setup(order_and_scale_do_not_matter, set_up),
		cmocka_unit_test(whatever_is_valid_is_compared),
		cmocka_unit_test(names_of_projects_are_no_packages),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
