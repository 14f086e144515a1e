/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/threads.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bpf/stacks_shared.h"
#include "probe/sources/text_file.h"
#include "stacks.skel.h"

_Static_assert((int)STACK_REGISTERS == (int)UNWIND_REGISTERS, "the same numbers");
_Static_assert((int)STACK_ARGUMENTS == (int)THREAD_ARGUMENTS, "all of a system call's");

enum { TEXT_LENGTH = 512, REASON_LENGTH = 96 };

struct threads_source {
	pid_t pid;
	int tasks; /* /proc/PID/task: stays that of this very process */
	bool other_namespace;
	struct stacks_bpf *skeleton;
	struct bpf_link *link, *sleepers;
	struct stack_thread_record *records; /* THREADS_MAX and one more */
	char without_bpf[REASON_LENGTH];
};

static int keep_quiet(enum libbpf_print_level level, const char *format, va_list arguments)
{
	(void)level;
	(void)format;
	(void)arguments;
	return 0;
}

static int load(struct threads_source *source)
{
	union bpf_iter_link_info info = {.task = {.pid = (__u32)source->pid}};
	LIBBPF_OPTS(
		bpf_iter_attach_opts, options, .link_info = &info, .link_info_len = sizeof(info));
	libbpf_print_fn_t before = libbpf_set_print(keep_quiet);
	int error = -ENOTSUP;

	source->skeleton = stacks_bpf__open_and_load();
	if (source->skeleton) {
		source->link =
			bpf_program__attach_iter(source->skeleton->progs.look_at_thread, &options);
		error = (int)libbpf_get_error(source->link);
		if (!error)
			source->sleepers = bpf_program__attach_iter(
				source->skeleton->progs.look_at_sleeper, &options);
		if (libbpf_get_error(source->sleepers))
			source->sleepers = NULL; /* /proc may tell */
	} else if (errno) {
		error = -errno;
	}
	libbpf_set_print(before);
	if (error) {
		stacks_bpf__destroy(source->skeleton);
		source->skeleton = NULL;
		source->link = NULL;
	}
	return error;
}

static bool is_other_namespace(pid_t pid)
{
	struct stat own, its;
	char path[32];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return stat("/proc/self/ns/pid", &own) == 0 && stat(path, &its) == 0 &&
	       own.st_ino != its.st_ino;
}

int threads_source_create(pid_t pid, struct threads_source **result)
{
	struct threads_source *source = calloc(1, sizeof(*source));
	char path[32];
	int error;

	if (!source)
		return -ENOMEM;
	source->pid = pid;
	source->records = calloc(THREADS_MAX + 1, sizeof(*source->records));
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	source->tasks = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (!source->records || source->tasks < 0) {
		error = !source->records ? -ENOMEM : errno == ENOENT ? -ESRCH : -errno;
		threads_source_destroy(source);
		return error;
	}
	source->other_namespace = is_other_namespace(pid);
	error = load(source);
	if (error)
		snprintf(source->without_bpf, sizeof(source->without_bpf),
			"no BPF iterator: %s (Linux 6.1 and its rights are needed)",
			strerror(-error));
	*result = source;
	return 0;
}

void threads_source_destroy(struct threads_source *source)
{
	if (!source)
		return;
	bpf_link__destroy(source->link);
	bpf_link__destroy(source->sleepers);
	stacks_bpf__destroy(source->skeleton);
	if (source->tasks >= 0)
		close(source->tasks);
	free(source->records);
	free(source);
}

const char *threads_source_without_bpf(const struct threads_source *source)
{
#if defined(__x86_64__)
	return source->skeleton ? NULL : source->without_bpf;
#else
	(void)source;
	return "they are read on x86-64 alone";
#endif
}

/* include/linux/sched.h: bits of task_struct's __state, in the order of proc(5)'s letters. */
static char state_letter(uint32_t state)
{
	static const char letters[] = "SDTt";

	if (state == 0)
		return 'R';
	for (unsigned i = 0; i < sizeof(letters) - 1; i++) {
		if (state & 1u << i)
			return letters[i];
	}
	return '?';
}

static void take_record(const struct stack_thread_record *record, struct thread_now *thread)
{
	*thread = (struct thread_now){.tid = (pid_t)record->tid,
		.inner_tid = (pid_t)record->inner_tid,
		.state = state_letter(record->state),
		.on_cpu = record->on_cpu != 0,
		.displaced = record->displaced != 0,
		.switches = record->switches,
		.call = record->on_cpu ? -1 : (int32_t)record->call};
	memcpy(thread->name, record->name, sizeof(thread->name) - 1);
	memcpy(thread->arguments, record->arguments, sizeof(thread->arguments));
	memcpy(thread->registers.values, record->registers, sizeof(record->registers));
#if defined(__x86_64__)
	if (!thread->on_cpu)
		thread->registers.known = (UINT32_C(1) << UNWIND_REGISTERS) - 1;
#endif
}

static int read_by_bpf(struct threads_source *source, struct thread_now *threads, size_t capacity,
	size_t *count, size_t *left_out)
{
	size_t bytes = 0, whole, total = 0;
	size_t limit = (capacity < THREADS_MAX ? capacity : THREADS_MAX) * sizeof(*source->records);
	int fd = bpf_iter_create(bpf_link__fd(source->link));
	char *to = (char *)source->records;
	ssize_t got;

	if (fd < 0)
		return -errno;
	/* What does not fit is read behind the last place, and counted. */
	while ((got = read(fd, to + bytes,
			bytes < limit ? limit - bytes : sizeof(*source->records))) > 0) {
		total += (size_t)got;
		if (bytes < limit)
			bytes += (size_t)got;
	}
	close(fd);
	whole = bytes / sizeof(*source->records);
	if (whole == 0)
		return -ESRCH;
	for (size_t i = 0; i < whole; i++)
		take_record(&source->records[i], &threads[i]);
	*count = whole;
	*left_out = (total - bytes) / sizeof(*source->records);
	return 0;
}

/* The first line of a file of a thread's, or false. */
static bool read_text(
	struct threads_source *source, pid_t tid, const char *name, char text[TEXT_LENGTH])
{
	char path[48];
	int fd, error;

	snprintf(path, sizeof(path), "%d/%s", (int)tid, name);
	fd = openat(source->tasks, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return false;
	error = text_file_read_fd(fd, text, TEXT_LENGTH);
	close(fd);
	if (error || !text[0])
		return false;
	text[strcspn(text, "\n")] = '\0';
	return true;
}

/* See proc(5), /proc/PID/syscall: "running", "-1 SP PC", "NUMBER ARGUMENT... SP PC". */
static void take_call(const char *text, struct thread_now *thread)
{
	uint64_t words[THREAD_ARGUMENTS + 2], sp, pc;
	int found = sscanf(text,
		"%" SCNd64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
		" %" SCNx64 " %" SCNx64,
		&thread->call, &words[0], &words[1], &words[2], &words[3], &words[4], &words[5],
		&words[6], &words[7]);

	if (found == 3) {
		sp = words[0];
		pc = words[1];
	} else if (found == 9) {
		memcpy(thread->arguments, words, sizeof(thread->arguments));
		sp = words[6];
		pc = words[7];
	} else {
		thread->call = -1;
		thread->on_cpu = true;
		return;
	}
#if defined(__x86_64__)
	thread->registers.values[UNWIND_RSP] = sp;
	thread->registers.values[UNWIND_RIP] = pc;
	thread->registers.known = 1 << UNWIND_RSP | 1 << UNWIND_RIP;
#else
	(void)sp;
	(void)pc;
#endif
}

/* Where the process has a pid namespace of its own, the last of the numbers that /proc/PID/status lists. */
static pid_t read_inner_tid(struct threads_source *source, pid_t tid)
{
	char path[48], line[TEXT_LENGTH];
	FILE *file;
	int fd;

	if (!source->other_namespace)
		return tid;
	snprintf(path, sizeof(path), "%d/status", (int)tid);
	fd = openat(source->tasks, path, O_RDONLY | O_CLOEXEC);
	file = fd >= 0 ? fdopen(fd, "r") : NULL;
	while (file && fgets(line, sizeof(line), file)) {
		const char *last = strrchr(line, '\t');

		if (strncmp(line, "NSpid:", 6) == 0 && last)
			tid = (pid_t)strtol(last, NULL, 10);
	}
	if (file)
		fclose(file);
	else if (fd >= 0)
		close(fd);
	return tid;
}

static bool read_by_proc(struct threads_source *source, pid_t tid, struct thread_now *thread)
{
	char text[TEXT_LENGTH], *name, *end;

	*thread = (struct thread_now){
		.tid = tid, .inner_tid = read_inner_tid(source, tid), .call = -1};
	if (!read_text(source, tid, "stat", text))
		return false;
	name = strchr(text, '(');
	end = strrchr(text, ')');
	if (!name || !end || end < name || end[1] != ' ')
		return false;
	*end = '\0';
	snprintf(thread->name, sizeof(thread->name), "%.*s", THREAD_NAME_LENGTH - 1, name + 1);
	thread->state = end[2];
	if (thread->state == 'Z' || thread->state == 'X')
		return false;
	if (read_text(source, tid, "schedstat", text))
		(void)sscanf(text, "%*u %*u %" SCNu64, &thread->switches);
	if (read_text(source, tid, "syscall", text))
		take_call(text, thread);
	return true;
}

static int read_all_by_proc(struct threads_source *source, struct thread_now *threads,
	size_t capacity, size_t *count, size_t *left_out)
{
	int fd = openat(source->tasks, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *entry;

	if (!directory) {
		int error = errno == ENOENT ? -ESRCH : -errno;

		if (fd >= 0)
			close(fd);
		return error;
	}
	*count = 0;
	*left_out = 0;
	while ((entry = readdir(directory))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid <= 0)
			continue;
		if (*count == capacity)
			(*left_out)++;
		else if (read_by_proc(source, tid, &threads[*count]))
			(*count)++;
	}
	closedir(directory);
	return *count ? 0 : -ESRCH;
}

static int compare_threads(const void *a, const void *b)
{
	const struct thread_now *left = a, *right = b;

	return (left->tid > right->tid) - (left->tid < right->tid);
}

/* Names are a program's choice, and printed. */
static void clean(char *text)
{
	for (; *text; text++) {
		if (!isprint((unsigned char)*text))
			*text = '?';
	}
}

int threads_read(struct threads_source *source, struct thread_now *threads, size_t capacity,
	size_t *count, size_t *left_out)
{
	int error = source->skeleton ? read_by_bpf(source, threads, capacity, count, left_out)
				     : read_all_by_proc(source, threads, capacity, count, left_out);

	if (error)
		return error;
	for (size_t i = 0; i < *count; i++)
		clean(threads[i].name);
	qsort(threads, *count, sizeof(*threads), compare_threads);
	return 0;
}

void threads_read_place(struct threads_source *source, struct thread_now *thread)
{
	char text[TEXT_LENGTH];

	/* "0" while it runs, and where the kernel does not tell. */
	if (thread->on_cpu || thread->state == 'R' ||
		!read_text(source, thread->tid, "wchan", text) || strcmp(text, "0") == 0)
		return;
	snprintf(thread->place, sizeof(thread->place), "%.*s", THREAD_PLACE_LENGTH - 1, text);
}

/* "name+0x12/0x80", also behind "[<0>] ". False: the line has none. */
static bool take_kernel_name(const char *line, char name[THREAD_KERNEL_NAME_LENGTH])
{
	if (strncmp(line, "[<", 2) == 0) {
		line = strchr(line, ' ');
		if (!line)
			return false;
		line++;
	}
	snprintf(name, THREAD_KERNEL_NAME_LENGTH, "%.*s", (int)strcspn(line, "+\n"), line);
	clean(name);
	return name[0] != '\0';
}

/* All lines of a file, or of BPF's text those behind "#TID". */
static size_t take_kernel_frames(
	FILE *file, pid_t tid, char names[THREAD_KERNEL_FRAMES][THREAD_KERNEL_NAME_LENGTH])
{
	char line[TEXT_LENGTH];
	bool own = true;
	size_t count = 0;

	while (count < THREAD_KERNEL_FRAMES && fgets(line, sizeof(line), file)) {
		if (line[0] == '#')
			own = strtol(line + 1, NULL, 10) == tid;
		else if (own)
			count += take_kernel_name(line, names[count]);
	}
	return count;
}

size_t threads_read_kernel_frames(struct threads_source *source, pid_t tid,
	char names[THREAD_KERNEL_FRAMES][THREAD_KERNEL_NAME_LENGTH])
{
	char path[48];
	size_t count = 0;
	FILE *file;
	int fd;

	if (source->sleepers) {
		fd = bpf_iter_create(bpf_link__fd(source->sleepers));
	} else {
		snprintf(path, sizeof(path), "%d/stack", (int)tid);
		fd = openat(source->tasks, path, O_RDONLY | O_CLOEXEC);
	}
	file = fd >= 0 ? fdopen(fd, "r") : NULL;
	if (file) {
		count = take_kernel_frames(file, tid, names);
		fclose(file);
	} else if (fd >= 0) {
		close(fd);
	}
	return count;
}

bool thread_stood_still(const struct thread_now *earlier, const struct thread_now *later)
{
	const uint64_t *before = earlier->registers.values, *after = later->registers.values;

	return earlier->tid == later->tid && !earlier->on_cpu && !later->on_cpu &&
	       earlier->switches == later->switches && earlier->registers.known &&
	       before[UNWIND_RSP] == after[UNWIND_RSP] && before[UNWIND_RIP] == after[UNWIND_RIP];
}
