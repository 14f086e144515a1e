/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe/attach/library.h"
#include "probe/attach/symbols.h"
#include "probe/stacks/running.h"

enum { THREAD_LIST_ATTEMPTS = 3, LOOKED_FOR = 2 };

#define MODULES_AGAIN_NS UINT64_C(1000000000)

struct stack_target {
	pid_t pid;
	int memory;
	struct memory_view stack, tables; /* what changes, and what does not */
	/* Of a thread that runs: its memory is as it was then, where the copy has it. */
	struct running_threads running;
	struct running_stack copy;
	struct modules modules;
	uint64_t modules_generation, modules_read_ns;
	bool met_unknown_code;
	struct unwinder *unwinder;
	struct threads_source *threads;
	bool has_python;
	int python_module; /* MODULE_NONE: there is none */
	uint64_t python_base;
	struct python python;
	char no_python[PYTHON_REASON_LENGTH];
	struct thread_now before[THREADS_MAX], after[THREADS_MAX];
	struct python_thread python_threads[PYTHON_THREADS_MAX];
	size_t python_count;
	bool python_listed; /* in this look */
	pid_t last_read;    /* where the next look goes on that has not the time for all threads */
};

/* Addresses in the process of what a module's file has by these names; 0 = it has none. */
static void find_symbols(const struct stack_target *target, const struct module *module,
	struct symbol_object objects[LOOKED_FOR])
{
	char link[LIBRARY_LINK_LENGTH];
	struct library_file file;
	bool independent;
	int fd;

	objects[0] = (struct symbol_object){.name = "_PyRuntime"};
	objects[1] = (struct symbol_object){.name = "Py_Version"};
	if (library_of_mapping(target->pid, module->range, module->path, &file))
		return;
	fd = library_open(&file, link);
	if (fd < 0)
		return;
	if (symbols_find_objects(link, objects, LOOKED_FOR, &independent) > 0) {
		for (size_t i = 0; i < LOOKED_FOR; i++)
			objects[i].address += objects[i].address ? module->bias : 0;
	}
	close(fd);
}

/* The interpreter is in the program itself, or in a library of its name (which others may embed). */
static bool may_be_python(const struct stack_target *target, size_t index)
{
	const struct module *module = &target->modules.modules[index];
	const char *name = strrchr(module->path, '/');

	if (!module->readable || module->path[0] != '/')
		return false;
	return index == 0 || strstr(name, "libpython") || strncmp(name, "/python", 7) == 0;
}

static int compare_tids(const void *a, const void *b)
{
	pid_t left = *(const pid_t *)a, right = *(const pid_t *)b;

	return (left > right) - (left < right);
}

static bool try_module(struct stack_target *target, size_t index)
{
	const struct module *module = &target->modules.modules[index];
	struct symbol_object objects[LOOKED_FOR];
	pid_t tids[THREADS_MAX];
	uint64_t version = 0;
	size_t count, left_out;

	find_symbols(target, module, objects);
	if (!objects[0].address)
		return false;
	if (objects[1].address &&
		memory_view_read(&target->stack, objects[1].address, &version, sizeof(version)))
		version = 0;
	if (threads_read(target->threads, target->before, THREADS_MAX, &count, &left_out))
		return false;
	target->python_module = (int)index;
	target->python_base = module->base;
	if (left_out) {
		snprintf(target->no_python, sizeof(target->no_python),
			"it has more than %d threads", (int)THREADS_MAX);
		return true;
	}
	for (size_t i = 0; i < count; i++)
		tids[i] = target->before[i].inner_tid;
	qsort(tids, count, sizeof(*tids), compare_tids);
	target->has_python = python_open(&target->stack, objects[0].address, version, module->path,
				     tids, count, &target->python, target->no_python) == 0;
	return true;
}

static void find_python(struct stack_target *target)
{
	snprintf(target->no_python, sizeof(target->no_python), "no Python interpreter was found");
	target->python_module = MODULE_NONE;
	for (size_t i = 0; i < target->modules.module_count; i++) {
		if (may_be_python(target, i) && try_module(target, i))
			return;
	}
}

static int read_modules(struct stack_target *target)
{
	int error;

	memory_view_forget(&target->tables);
	error = modules_read(&target->modules, target->pid, &target->tables);
	if (error)
		return error;
	unwinder_forget(target->unwinder);
	target->python_module = MODULE_NONE;
	for (size_t i = 0; i < target->modules.module_count; i++) {
		if (target->has_python && target->modules.modules[i].base == target->python_base)
			target->python_module = (int)i;
	}
	target->modules_generation++;
	target->met_unknown_code = false;
	return 0;
}

/* A memory_read_page: the process's memory, and over it the copy of the stack that is being read. */
static int read_stack_page(void *context, uint64_t address, uint8_t *page)
{
	struct stack_target *target = context;
	const struct running_stack *copy = &target->copy;
	uint64_t first = copy->begin > address ? copy->begin : address;
	uint64_t end = copy->begin + copy->length, page_end = address + MEMORY_PAGE_BYTES;
	int error = memory_read_process(&target->memory, address, page);

	if (end > page_end)
		end = page_end;
	if (!error && copy->length && first < end)
		memcpy(page + (first - address), copy->bytes + (first - copy->begin), end - first);
	return error;
}

int stack_target_open(pid_t pid, struct stack_target **result)
{
	struct stack_target *target = calloc(1, sizeof(*target));
	int error;

	if (!target)
		return -ENOMEM;
	target->pid = pid;
	target->memory = memory_open(pid);
	error = target->memory < 0 ? target->memory : 0;
	memory_view_init(&target->stack, read_stack_page, target);
	memory_view_init(&target->tables, memory_read_process, &target->memory);
	if (!error)
		error = modules_init(&target->modules);
	if (!error)
		error = unwinder_create(
			&target->modules, &target->tables, &target->stack, &target->unwinder);
	if (!error)
		error = threads_source_create(pid, &target->threads);
	if (!error)
		error = read_modules(target);
	if (error) {
		stack_target_close(target);
		return error;
	}
	find_python(target);
	*result = target;
	return 0;
}

void stack_target_close(struct stack_target *target)
{
	if (!target)
		return;
	threads_source_destroy(target->threads);
	unwinder_destroy(target->unwinder);
	modules_fini(&target->modules);
	if (target->memory >= 0)
		close(target->memory);
	free(target);
}

static uint64_t clock_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Of this thread: what other programs do with the CPUs does not count. */
static uint64_t cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Code came since; or an interpreter was there that could not be checked yet. */
static void refresh(struct stack_target *target, uint64_t now_ns)
{
	bool unchecked = !target->has_python && target->python_module != MODULE_NONE;

	if ((!target->met_unknown_code && !unchecked) ||
		now_ns - target->modules_read_ns < MODULES_AGAIN_NS)
		return;
	target->modules_read_ns = now_ns;
	if (read_modules(target) == 0 && !target->has_python)
		find_python(target);
}

/* Once a look, and only where a thread is read at all. False when the list is torn. */
static bool list_python_threads(struct stack_target *target)
{
	int error = -EAGAIN;

	if (target->python_listed || !target->has_python)
		return true;
	target->python_count = 0;
	for (unsigned i = 0; error && i < THREAD_LIST_ATTEMPTS; i++) {
		memory_view_forget(&target->stack);
		error = python_threads(&target->stack, &target->python, target->python_threads,
			PYTHON_THREADS_MAX, &target->python_count);
	}
	target->python_listed = error == 0;
	return target->python_listed;
}

/* A thread may have a state in several interpreters: the one with frames counts. */
static bool read_python(struct stack_target *target, struct stack_thread *thread)
{
	bool whole = true;

	for (size_t i = 0; i < target->python_count && !thread->python_count; i++) {
		size_t count;

		if (target->python_threads[i].tid != thread->now.inner_tid)
			continue;
		thread->in_python =
			python_frames(&target->stack, &target->python,
				target->python_threads[i].state, thread->python, PYTHON_FRAMES_MAX,
				&count, &thread->python_complete) == 0;
		if (thread->in_python)
			thread->python_count = (uint32_t)count;
		whole = thread->in_python;
	}
	return whole;
}

static void unwind_thread(struct stack_target *target, const struct unwind_registers *registers,
	struct stack_thread *thread)
{
	size_t count;

	thread->native_end =
		unwind(target->unwinder, registers, thread->native, STACK_NATIVE_MAX, &count);
	thread->native_count = (uint32_t)count;
	if (thread->native_end == UNWIND_NO_CODE)
		target->met_unknown_code = true;
}

/*
 * True when a thread has not run since the look that a sample still has: then nor has its stack changed. (0 switches: not known.)
 */
static bool is_as_before(const struct stack_thread *thread, const struct thread_now *now)
{
	return thread->native_count && !thread->moved && !thread->torn && now->switches &&
	       thread_stood_still(&thread->now, now);
}

/* What there was no time for stays as it was seen last; one that never was is left out. */
static void leave_thread(const struct thread_now *now, bool seen, struct stack_thread *thread,
	struct stack_sample *sample)
{
	if (seen && thread->now.tid == now->tid && !thread->torn) {
		thread->as_before = true;
		return;
	}
	*thread = (struct stack_thread){.now = *now, .torn = true};
	sample->torn++;
}

static void read_thread(struct stack_target *target, const struct thread_now *now,
	struct stack_thread *thread, struct stack_sample *sample)
{
	bool listed = list_python_threads(target);

	thread->now = *now;
	thread->in_python = thread->python_complete = thread->moved = false;
	thread->python_count = 0;
	memory_view_forget(&target->stack);
	thread->torn = !listed || !read_python(target, thread);
	sample->torn += thread->torn;
	unwind_thread(target, &now->registers, thread);
	threads_read_place(target->threads, &thread->now);
}

/* The same for one on a CPU: Python's frames as soon after the copy as can be. */
static void read_running(struct stack_target *target, const struct thread_now *now,
	struct stack_thread *thread, uint64_t end_ns, struct stack_sample *sample)
{
	uint64_t time_ns = clock_ns();
	int wait_ms = time_ns < end_ns ? (int)((end_ns - time_ns + 999999) / 1000000) : 0;
	bool copied = running_take(&target->running, now->tid, wait_ms, &target->copy);

	if (!copied)
		target->copy.length = 0;
	read_thread(target, now, thread, sample);
	if (copied)
		unwind_thread(target, &target->copy.registers, thread);
	target->copy.length = 0;
}

/* The places of the list in the order in which they are read: the main thread, then on from where the last look came to. */
struct reading_order {
	size_t main, first, count;
};

static struct reading_order order_threads(const struct stack_target *target, size_t count)
{
	struct reading_order order = {.count = count};

	while (order.main < count - 1 && target->before[order.main].tid != target->pid)
		order.main++;
	while (order.first < count && target->before[order.first].tid <= target->last_read)
		order.first++;
	return order;
}

/* nth: from 0 to the count, of which one place is the main thread's once more: false. */
static bool place_at(const struct reading_order *order, size_t nth, size_t *place)
{
	*place = nth ? (order->first + nth - 1) % order->count : order->main;
	return nth == 0 || *place != order->main;
}

/* At least the main thread and one other are read, however long they take. */
static void read_sleeping(struct stack_target *target, const struct reading_order *order,
	uint64_t end_ns, struct stack_sample *sample)
{
	size_t read = 0, i;

	for (size_t nth = 0; nth <= order->count; nth++) {
		struct stack_thread *thread;
		const struct thread_now *now;

		if (!place_at(order, nth, &i) || target->before[i].on_cpu)
			continue;
		thread = &sample->threads[i];
		now = &target->before[i];
		thread->as_before = i < sample->count && is_as_before(thread, now);
		if (thread->as_before)
			continue;
		if (nth && read && cpu_ns() >= end_ns) {
			leave_thread(now, i < sample->count, thread, sample);
			continue;
		}
		read_thread(target, now, thread, sample);
		if (nth)
			target->last_read = now->tid;
		read += nth != 0;
	}
}

/* As many as can be asked are read, however long they take. */
static void read_on_cpus(struct stack_target *target, const struct reading_order *order,
	uint64_t end_ns, uint64_t wait_end_ns, struct stack_sample *sample)
{
	size_t read = 0, i;

	for (size_t nth = 0; nth <= order->count; nth++) {
		if (!place_at(order, nth, &i) || !target->before[i].on_cpu)
			continue;
		if (read++ < RUNNING_MAX || cpu_ns() < end_ns)
			read_running(target, &target->before[i], &sample->threads[i], wait_end_ns,
				sample);
		else
			leave_thread(
				&target->before[i], i < sample->count, &sample->threads[i], sample);
	}
}

/* Those that run are asked first, and heard when all others are read. */
static void read_threads(
	struct stack_target *target, size_t count, uint64_t most_ns, struct stack_sample *sample)
{
	const struct reading_order order = order_threads(target, count);
	uint64_t begin_ns = cpu_ns(), wait_end_ns;
	uint64_t end_ns = most_ns < UINT64_MAX - begin_ns ? begin_ns + most_ns : UINT64_MAX;
	size_t i;

	for (size_t nth = 0; nth <= count; nth++) {
		if (place_at(&order, nth, &i) && target->before[i].on_cpu)
			running_ask(&target->running, target->before[i].tid);
	}
	wait_end_ns = clock_ns() + RUNNING_WAIT_MS * UINT64_C(1000000);
	read_sleeping(target, &order, end_ns, sample);
	read_on_cpus(target, &order, end_ns, wait_end_ns, sample);
	running_end(&target->running);
	sample->count = count;
}

/* Leaves out native frames of those that ran meanwhile: both lists are in the order of numbers. */
static void check_moved(struct stack_target *target, size_t count, struct stack_sample *sample)
{
	size_t at = 0;

	for (size_t i = 0; i < sample->count; i++) {
		struct stack_thread *thread = &sample->threads[i];

		while (at < count && target->after[at].tid < thread->now.tid)
			at++;
		/* Of one that ran, its copy is of one moment. */
		if (!thread->native_count || thread->now.on_cpu || thread->as_before ||
			(at < count && thread_stood_still(&thread->now, &target->after[at])))
			continue;
		thread->native_count = 0;
		thread->moved = true;
		sample->moved++;
	}
}

/* The memory that was opened is that of one program: exec() lets go of it, and of a process without any nothing is read. */
static bool has_memory(const struct stack_target *target)
{
	uint8_t byte;

	return pread(target->memory, &byte, 1, (off_t)target->modules.ranges[0].start) != 0;
}

int stack_target_sample(
	struct stack_target *target, uint64_t now_ns, uint64_t most_ns, struct stack_sample *sample)
{
	uint64_t begin_ns = clock_ns(), reads = target->stack.reads + target->tables.reads;
	size_t count, left_out;
	int error;

	if (!has_memory(target))
		return -ESRCH;
	refresh(target, now_ns);
	error = threads_read(
		target->threads, target->before, THREADS_MAX, &count, &sample->left_out);
	if (error)
		return error;
	sample->torn = sample->moved = 0;
	target->python_listed = false;
	read_threads(target, count, most_ns, sample);
	error = threads_read(target->threads, target->after, THREADS_MAX, &count, &left_out);
	if (error)
		return error;
	check_moved(target, count, sample);
	sample->reads = target->stack.reads + target->tables.reads - reads;
	sample->took_ns = clock_ns() - begin_ns;
	return 0;
}

const struct python *stack_target_python(const struct stack_target *target, const char **reason)
{
	*reason = target->no_python;
	return target->has_python ? &target->python : NULL;
}

const char *stack_target_without_bpf(const struct stack_target *target)
{
	return threads_source_without_bpf(target->threads);
}

size_t stack_target_kernel_frames(struct stack_target *target, pid_t tid,
	char names[THREAD_KERNEL_FRAMES][THREAD_KERNEL_NAME_LENGTH])
{
	return threads_read_kernel_frames(target->threads, tid, names);
}

pid_t stack_target_pid(const struct stack_target *target)
{
	return target->pid;
}

const struct modules *stack_target_modules(const struct stack_target *target, uint64_t *generation)
{
	*generation = target->modules_generation;
	return &target->modules;
}

int stack_target_python_module(const struct stack_target *target)
{
	return target->has_python ? target->python_module : MODULE_NONE;
}

struct memory_view *stack_target_memory(struct stack_target *target)
{
	return &target->stack;
}
