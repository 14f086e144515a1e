/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_target.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/load_stub.h"
#include "probe/attach/load_symbols.h"

enum { LINE_BYTES = 8192, STATUS_LINE_BYTES = 512, MAPS_LINES_MAX = 1 << 17, MODULES_MAX = 16 };
enum { STACK_FIELD = 28 }; /* of /proc/PID/stat */

enum module_kind {
	MODULE_LIBC = 1,
	MODULE_THREADS = 2, /* libpthread, libdl: before glibc 2.34 */
	MODULE_LOADER = 3,
	MODULE_ALLOCATOR = 4,
	MODULE_PROGRAM = 5,
};

/* A mapped file that matters. */
struct module {
	enum module_kind kind;
	uint64_t inode, base, first_end; /* of its first mapping */
	struct load_range code;
	char path[LINE_BYTES];
};

struct modules {
	size_t count;
	struct module list[MODULES_MAX];
	uint64_t program_inode;
	bool musl, there;
};

static bool starts_with(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/* 0: does not matter. */
static enum module_kind kind_of(const char *path)
{
	static const char *const allocators[] = {"jemalloc", "tcmalloc", "mimalloc", "tbbmalloc",
		"libhoard", "scalloc", "libasan", "libtsan", "liblsan"};
	const char *name = basename(path);

	if (starts_with(name, "libc.so.6") || starts_with(name, "libc-2."))
		return MODULE_LIBC;
	if (starts_with(name, "libpthread.so.0") || starts_with(name, "libpthread-2.") ||
		starts_with(name, "libdl.so.2") || starts_with(name, "libdl-2."))
		return MODULE_THREADS;
	if (starts_with(name, "ld-linux") || starts_with(name, "ld-2."))
		return MODULE_LOADER;
	for (size_t i = 0; i < sizeof(allocators) / sizeof(allocators[0]); i++) {
		if (strstr(name, allocators[i]))
			return MODULE_ALLOCATOR;
	}
	return 0;
}

static struct module *module_of(struct modules *modules, uint64_t inode, enum module_kind kind)
{
	for (size_t i = 0; i < modules->count; i++) {
		if (modules->list[i].inode == inode)
			return &modules->list[i];
	}
	if (modules->count == MODULES_MAX)
		return NULL;
	modules->list[modules->count] = (struct module){.kind = kind, .inode = inode};
	return &modules->list[modules->count++];
}

static void take_mapping(struct modules *modules, const char *line)
{
	uint64_t start, end, offset, inode;
	struct module *module;
	enum module_kind kind;
	char access[5];
	int at = 0;

	if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s %" SCNx64 " %*s %" SCNu64 " %n", &start, &end,
		    access, &offset, &inode, &at) < 5 ||
		!inode || line[at] != '/')
		return;
	modules->musl |= strstr(line + at, "/ld-musl-") || strstr(line + at, "/libc.musl-");
	kind = kind_of(line + at);
	/* The program's file is the first that is mapped, or one that /proc/PID/exe names. */
	if (!kind && inode == modules->program_inode)
		kind = MODULE_PROGRAM;
	if (!kind)
		return;
	module = module_of(modules, inode, kind);
	if (!module)
		return;
	if (offset == 0 && !module->base) {
		module->base = start;
		module->first_end = end;
		snprintf(module->path, sizeof(module->path), "%s", line + at);
	}
	if (access[2] == 'x') {
		if (!module->code.start || start < module->code.start)
			module->code.start = start;
		if (end > module->code.end)
			module->code.end = end;
	}
}

static int read_modules(pid_t pid, const char *library_name, struct modules *modules)
{
	char path[64], *line = malloc(LINE_BYTES);
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	modules->program_inode = load_symbols_inode(path);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	file = line ? fopen(path, "re") : NULL;
	if (!file) {
		int error = errno == ENOENT ? -ESRCH : -errno;

		free(line);
		return error;
	}
	for (size_t i = 0; i < MAPS_LINES_MAX && fgets(line, LINE_BYTES, file); i++) {
		line[strcspn(line, "\n")] = '\0';
		modules->there |= strstr(line, library_name) != NULL;
		take_mapping(modules, line);
	}
	int error = ferror(file) ? -ESRCH : 0;
	fclose(file);
	free(line);
	return error;
}

static bool add_range(struct load_target *target, uint64_t start, uint64_t end)
{
	if (target->range_count == LOAD_RANGES_MAX)
		return false;
	if (end > start)
		target->ranges[target->range_count++] = (struct load_range){start, end};
	return true;
}

/* Functions that hold a lock of the C library or of an allocator while they run. */
static const char *const unsafe_functions[] = {"malloc", "free", "calloc", "realloc",
	"reallocarray", "memalign", "aligned_alloc", "posix_memalign", "valloc", "pvalloc",
	"malloc_trim", "malloc_info", "malloc_stats", "mallinfo", "mallinfo2", "mallopt", "cfree",
	"pthread_create", "pthread_exit", "pthread_getattr_np", "pthread_setattr_default_np",
	"dlopen", "dlmopen", "dlclose", "dlsym", "dlvsym", "dlinfo", "dladdr", "dladdr1",
	"dl_iterate_phdr", "__libc_dlopen_mode", "fork", "_Fork", "vfork", "exit", "quick_exit",
	"_exit", "abort", "__libc_freeres", "_Znwm", "_Znam", "_ZdlPv", "_ZdaPv"};

static void take_unsafe(void *context, size_t index, uint64_t address, uint64_t bytes)
{
	(void)index;
	add_range(context, address, address + (bytes ? bytes : 1));
}

static void take_allocator(void *context, size_t index, uint64_t address, uint64_t bytes)
{
	struct load_target *target = context;

	if (strcmp(unsafe_functions[index], "malloc") == 0)
		target->own_allocator = true;
	take_unsafe(context, index, address, bytes);
}

static const char *const wanted_functions[] = {"pthread_create", "pthread_attr_init",
	"pthread_attr_setdetachstate", "__errno_location", "dlopen", "dlsym", "dlerror", "munmap"};
_Static_assert(sizeof(wanted_functions) / sizeof(wanted_functions[0]) ==
		       sizeof(struct load_functions) / sizeof(uint64_t),
	"one name per function, in order");

static void take_wanted(void *context, size_t index, uint64_t address, uint64_t bytes)
{
	struct load_target *target = context;

	(void)bytes;
	memcpy((char *)&target->functions + index * sizeof(uint64_t), &address, sizeof(address));
}

/* Of the first file whose code leaves some bytes of its last page; one that cannot be read is left out. */
static void find_gate(
	struct load_target *target, const struct load_elf *elf, const struct module *module)
{
	uint64_t address;

	if (!target->gate && load_symbols_room(elf, LOAD_GATE_BYTES_MAX, &address) == 0 &&
		address >= module->code.start && address + LOAD_GATE_BYTES_MAX <= module->code.end)
		target->gate = address;
}

static int read_module(struct load_target *target, const struct module *module)
{
	enum { UNSAFE = sizeof(unsafe_functions) / sizeof(unsafe_functions[0]) };
	struct load_elf elf = {.pid = target->pid,
		.base = module->base,
		.first_end = module->first_end,
		.path = module->path};
	int error = 0;

	switch (module->kind) {
	case MODULE_LIBC:
		target->libc = module->code;
		error = load_symbols_restorers(
			&elf, target->restorers, LOAD_RESTORERS_MAX, &target->restorer_count);
		/* fallthrough */
	case MODULE_THREADS:
		if (!error)
			error = load_symbols_visit(&elf, wanted_functions,
				sizeof(wanted_functions) / sizeof(wanted_functions[0]), take_wanted,
				target);
		if (!error)
			error = load_symbols_visit(
				&elf, unsafe_functions, UNSAFE, take_unsafe, target);
		break;
	case MODULE_LOADER:
	case MODULE_ALLOCATOR:
		error = add_range(target, module->code.start, module->code.end) ? 0 : -E2BIG;
		break;
	case MODULE_PROGRAM:
		error = load_symbols_visit(&elf, unsafe_functions, UNSAFE, take_allocator, target);
		break;
	}
	if (!error && module->kind != MODULE_ALLOCATOR)
		find_gate(target, &elf, module);
	return error;
}

/* A field of /proc/PID/status as a number, or fallback. */
static long status_number(pid_t pid, const char *field, long fallback)
{
	char path[64], line[STATUS_LINE_BYTES];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (starts_with(line, field)) {
			fallback = strtol(line + strlen(field), NULL, 10);
			break;
		}
	}
	if (file)
		fclose(file);
	return fallback;
}

static int check_process(pid_t pid, char *why, size_t why_bytes)
{
	struct load_thread first;
	long tracer = status_number(pid, "TracerPid:", -1);
	int error = load_target_thread(pid, pid, &first);

	if (error == -ESRCH || tracer < 0) {
		snprintf(why, why_bytes, "process %d has ended", (int)pid);
		return -ESRCH;
	}
	if (tracer > 0) {
		snprintf(why, why_bytes,
			"process %d is traced by process %ld already (a debugger, strace?); end "
			"that first",
			(int)pid, tracer);
		return -EPERM;
	}
	if (first.state == 'T' || first.state == 't') {
		snprintf(why, why_bytes,
			"process %d is stopped; let it go on first (kill -CONT %d)", (int)pid,
			(int)pid);
		return -ENOTSUP;
	}
	if (first.state == 'Z') {
		snprintf(why, why_bytes, "process %d has ended", (int)pid);
		return -ESRCH;
	}
	if (status_number(pid, "Seccomp:", 0) == 1) {
		snprintf(why, why_bytes,
			"process %d runs under strict seccomp: nothing can be loaded into it",
			(int)pid);
		return -ENOTSUP;
	}
	return 0;
}

static int explain_missing(const struct modules *modules, const struct load_target *target,
	bool has_libc, char *why, size_t why_bytes)
{
	int pid = (int)target->pid;

	if (modules->musl)
		snprintf(why, why_bytes,
			"process %d uses the musl C library; only programs with glibc can be "
			"loaded into",
			pid);
	else if (!has_libc)
		snprintf(why, why_bytes,
			"process %d is linked statically: nothing can be loaded into it; start "
			"the job with 'slowrank run'",
			pid);
	else
		snprintf(why, why_bytes,
			"the C library of process %d lacks pthread_create or dlopen (an old glibc "
			"without libpthread?); start the job with 'slowrank run'",
			pid);
	return -ENOTSUP;
}

static bool all_found(const struct load_functions *functions)
{
	return functions->pthread_create && functions->pthread_attr_init &&
	       functions->pthread_attr_setdetachstate && functions->errno_location &&
	       functions->dlopen && functions->dlsym && functions->dlerror && functions->munmap;
}

int load_target_read(pid_t pid, const char *library_name, struct load_target *target, char *why,
	size_t why_bytes)
{
	struct modules *modules = calloc(1, sizeof(*modules));
	bool has_libc = false;
	int error;

	*target = (struct load_target){.pid = pid};
	if (!modules)
		return -ENOMEM;
	error = check_process(pid, why, why_bytes);
	if (error)
		goto out;
	error = read_modules(pid, library_name, modules);
	if (error) {
		snprintf(why, why_bytes, "cannot read the mappings of process %d: %s", (int)pid,
			strerror(-error));
		goto out;
	}
	if (modules->there) {
		snprintf(why, why_bytes, "%s is in process %d already", library_name, (int)pid);
		error = -EALREADY;
		goto out;
	}
	for (size_t i = 0; i < modules->count && !error; i++) {
		has_libc |= modules->list[i].kind == MODULE_LIBC;
		error = read_module(target, &modules->list[i]);
	}
	if (error)
		snprintf(why, why_bytes, "cannot read the C library of process %d: %s", (int)pid,
			strerror(-error));
	else if (!all_found(&target->functions))
		error = explain_missing(modules, target, has_libc, why, why_bytes);
	if (!error && !target->gate) {
		snprintf(why, why_bytes,
			"no library of process %d leaves %d bytes of its last page of code free: "
			"nothing can be loaded safely; start the job with 'slowrank run'",
			(int)pid, LOAD_GATE_BYTES_MAX);
		error = -ENOTSUP;
	}
out:
	free(modules);
	return error;
}

/* NSpid's last number, and whether the thread has a shadow stack. */
static void read_thread_status(pid_t pid, struct load_thread *thread)
{
	char path[64], line[STATUS_LINE_BYTES];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)thread->thread);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file)) {
		if (starts_with(line, "NSpid:")) {
			const char *last = strrchr(line, '\t');

			if (last)
				thread->inner = (pid_t)strtol(last, NULL, 10);
		} else if (starts_with(line, "x86_Thread_features:")) {
			thread->shadow_stack = strstr(line, "shstk") != NULL;
		}
	}
	if (file)
		fclose(file);
}

int load_target_thread(pid_t pid, pid_t thread, struct load_thread *out)
{
	char path[64], text[512];
	const char *after;
	FILE *file;

	*out = (struct load_thread){.thread = thread, .inner = thread, .call = -2};
	read_thread_status(pid, out);
	snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)thread);
	file = fopen(path, "re");
	if (!file)
		return errno == EACCES ? -EACCES : -ESRCH;
	after = fgets(text, sizeof(text), file) ? strrchr(text, ')') : NULL;
	fclose(file);
	if (!after || !after[1])
		return -ESRCH;
	out->state = after[2];
	for (int i = 3; after && i <= STACK_FIELD; i++)
		after = strchr(after + 1, ' ');
	out->first_stack = after ? strtoull(after, NULL, 10) : 0;
	/* The last: it may be in another one when it is stopped, if that takes long. */
	snprintf(path, sizeof(path), "/proc/%d/task/%d/syscall", (int)pid, (int)thread);
	file = fopen(path, "re");
	if (file && fgets(text, sizeof(text), file) && !starts_with(text, "running"))
		out->call = strtol(text, NULL, 10);
	if (file)
		fclose(file);
	return 0;
}

size_t load_target_threads(pid_t pid, pid_t *threads, size_t capacity)
{
	const struct dirent *entry;
	bool has_first = false;
	size_t count = 0;
	char path[64];
	DIR *folder;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	folder = opendir(path);
	while (folder && (entry = readdir(folder)) && count + 1 < capacity) {
		pid_t thread = (pid_t)atoi(entry->d_name);

		if (thread <= 0)
			continue;
		if (thread == pid)
			has_first = true;
		else
			threads[count++] = thread;
	}
	if (folder)
		closedir(folder);
	if (has_first && count < capacity)
		threads[count++] = pid;
	return count;
}
