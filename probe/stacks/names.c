/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/attach/library.h"
#include "probe/attach/symbol_names.h"

enum {
	NAMES_MAX = 16384,	/* addresses that are kept; beyond, all are found anew */
	PLACES = 2 * NAMES_MAX, /* a power of two */
};

struct known_address {
	uint64_t address; /* 0 = free */
	int module;
	char name[SYMBOL_NAME_LENGTH];
};

struct stack_names {
	struct stack_target *target;
	uint64_t generation; /* of the modules that the names are from */
	size_t count;
	struct known_address *known; /* PLACES */
	/* What is being looked for. */
	size_t wanted_count;
	struct known_address *wanted[NAMES_MAX];
	struct symbol_name batch[SYMBOL_NAMES_MAX];
};

int stack_names_create(struct stack_target *target, struct stack_names **result)
{
	struct stack_names *names = calloc(1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	names->target = target;
	names->known = calloc(PLACES, sizeof(*names->known));
	if (!names->known) {
		free(names);
		return -ENOMEM;
	}
	*result = names;
	return 0;
}

void stack_names_destroy(struct stack_names *names)
{
	if (!names)
		return;
	free(names->known);
	free(names);
}

/* Its place, or a free one. */
static struct known_address *place_of(const struct stack_names *names, uint64_t address)
{
	size_t at = (address * UINT64_C(0x9e3779b97f4a7c15)) >> 40 & (PLACES - 1);

	while (names->known[at].address && names->known[at].address != address)
		at = (at + 1) & (PLACES - 1);
	return &names->known[at];
}

static void forget(struct stack_names *names)
{
	memset(names->known, 0, PLACES * sizeof(*names->known));
	names->count = 0;
}

static void want(struct stack_names *names, const struct modules *modules, uint64_t address)
{
	struct known_address *place = place_of(names, address);
	const struct code_range *range;

	if (place->address || names->count == NAMES_MAX)
		return;
	range = modules_find(modules, address);
	*place = (struct known_address){
		.address = address, .module = range ? range->module : MODULE_NONE};
	names->count++;
	if (place->module != MODULE_NONE)
		names->wanted[names->wanted_count++] = place;
}

static int compare_modules(const void *a, const void *b)
{
	const struct known_address *left = *(struct known_address *const *)a,
				   *right = *(struct known_address *const *)b;

	return (left->module > right->module) - (left->module < right->module);
}

/* Some addresses of one file. */
static void find_batch(
	struct stack_names *names, const struct module *module, size_t first, size_t count)
{
	char link[LIBRARY_LINK_LENGTH];
	struct library_file file;
	int fd, error;

	if (library_of_mapping(stack_target_pid(names->target), module->range, module->path, &file))
		return;
	fd = library_open(&file, link);
	if (fd < 0)
		return;
	for (size_t i = 0; i < count; i++)
		names->batch[i].address = names->wanted[first + i]->address - module->bias;
	error = symbol_names_find(link, names->batch, count);
	close(fd);
	for (size_t i = 0; !error && i < count; i++) {
		struct known_address *place =
			place_of(names, names->batch[i].address + module->bias);

		memcpy(place->name, names->batch[i].name, sizeof(place->name));
	}
}

void stack_names_learn(struct stack_names *names, const struct stack_sample *sample)
{
	uint64_t generation;
	const struct modules *modules = stack_target_modules(names->target, &generation);

	if (generation != names->generation || names->count == NAMES_MAX)
		forget(names);
	names->generation = generation;
	names->wanted_count = 0;
	for (size_t i = 0; i < sample->count; i++) {
		for (size_t k = 0; k < sample->threads[i].native_count; k++)
			want(names, modules, sample->threads[i].native[k].address);
	}
	qsort(names->wanted, names->wanted_count, sizeof(*names->wanted), compare_modules);
	for (size_t first = 0, count; first < names->wanted_count; first += count) {
		int module = names->wanted[first]->module;

		for (count = 1; count < SYMBOL_NAMES_MAX && first + count < names->wanted_count &&
				names->wanted[first + count]->module == module;
			count++)
			;
		if (modules->modules[module].readable)
			find_batch(names, &modules->modules[module], first, count);
	}
}

static const char *file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

/*
 * How CPython gets from one Python frame to what it calls: of no interest, and another in each version. Its API, and
 * prefixes of the names of what is static in it.
 */
static const char *const interpreter_own[] = {"Py", "_Py", "cfunction_", "method_vectorcall",
	"function_code_fastcall", "call_function", "run_mod", "run_eval_code_obj", "pymain_",
	"thread_run", "t_bootstrap", "pythread_wrapper"};

static bool is_interpreter_own(const char *name)
{
	for (size_t i = 0; i < sizeof(interpreter_own) / sizeof(interpreter_own[0]); i++) {
		if (strncmp(name, interpreter_own[i], strlen(interpreter_own[i])) == 0)
			return true;
	}
	return !name[0];
}

static void put_native(struct stack_names *names, const struct modules *modules,
	const struct known_address *known, struct stack_lines *lines)
{
	const struct module *module =
		known->module == MODULE_NONE ? NULL : &modules->modules[known->module];

	if (module && known->module == stack_target_python_module(names->target) &&
		is_interpreter_own(known->name))
		return;
	lines->lines[lines->count++] = (struct stack_line){.kind = STACK_LINE_NATIVE,
		.name = known->name,
		.place = module ? file_name(module->path) : "",
		.address = known->address - (module ? module->bias : 0)};
}

/*
 * True when a native frame is the interpreter at work on the Python frames from `at` on: by what it keeps in its stack for the
 * call (the linker may have cut the function in two, one half without a name), or by its name.
 */
static bool is_interpreter(const struct stack_thread *thread, size_t at,
	const struct unwind_frame *native, const char *name)
{
	static const char interpreter[] = "_PyEval_EvalFrameDefault";

	while (at + 1 < thread->python_count && !thread->python[at].is_entry)
		at++;
	if (at >= thread->python_count)
		return false;
	if (thread->python[at].entered_at)
		return thread->python[at].entered_at < native->stack_end;
	return strncmp(name, interpreter, sizeof(interpreter) - 1) == 0;
}

/* The Python frames of one call of the interpreter: up to the one that it was called for. */
static int put_python(struct stack_names *names, const struct python *python,
	const struct stack_thread *thread, size_t *at, bool all, struct stack_lines *lines)
{
	struct memory_view *memory = stack_target_memory(names->target);
	bool was_entry = false;

	while (*at < thread->python_count && (all || !was_entry)) {
		const struct python_frame *frame = &thread->python[*at];
		struct python_code *code = &lines->codes[*at];

		if (python_code_read(memory, python, frame->code, code))
			return -EAGAIN;
		lines->lines[lines->count++] = (struct stack_line){.kind = STACK_LINE_PYTHON,
			.name = code->name,
			.place = code->file,
			.line = python_code_line(memory, python, code, frame->instruction)};
		was_entry = frame->is_entry;
		(*at)++;
	}
	return 0;
}

/* Adds all frames; *fits: each call of the interpreter had its native frame. */
static int put_frames(struct stack_names *names, const struct stack_thread *thread,
	size_t native_count, struct stack_lines *lines, bool *fits)
{
	uint64_t generation;
	const struct modules *modules = stack_target_modules(names->target, &generation);
	const char *reason;
	const struct python *python = stack_target_python(names->target, &reason);
	size_t at = 0;
	int error = 0;

	for (size_t i = 0; i < native_count && !error; i++) {
		const struct known_address *known = place_of(names, thread->native[i].address);
		const struct known_address unnamed = {thread->native[i].address, MODULE_NONE, ""};

		if (python && is_interpreter(thread, at, &thread->native[i], known->name))
			error = put_python(names, python, thread, &at, false, lines);
		else
			put_native(names, modules, known->address ? known : &unnamed, lines);
	}
	*fits = at == thread->python_count;
	/* Those that native frames do not reach; all, where there are none. */
	if (python && !error)
		error = put_python(names, python, thread, &at, true, lines);
	return error;
}

int stack_names_merge(
	struct stack_names *names, const struct stack_thread *thread, struct stack_lines *lines)
{
	size_t native_count = thread->native_count, first;
	bool fits;
	int error;

	memory_view_forget(stack_target_memory(names->target));
	stack_wait_describe(stack_target_pid(names->target), &thread->now, lines->wait);
	lines->lines[0] = (struct stack_line){.kind = STACK_LINE_WAIT, .name = lines->wait};
	lines->count = first = lines->wait[0] != '\0';
	error = put_frames(names, thread, native_count, lines, &fits);
	/* Of a thread that runs, both sides are not of the same moment. */
	if (!error && !fits && thread->now.on_cpu && native_count) {
		native_count = 0;
		lines->count = first;
		error = put_frames(names, thread, native_count, lines, &fits);
	}
	lines->python_alone = native_count == 0 && thread->python_count;
	lines->truncated = (thread->in_python && !thread->python_complete) ||
			   (native_count && thread->native_end != UNWIND_COMPLETE);
	return error;
}
