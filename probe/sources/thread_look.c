/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/thread_look.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>

#include "bpf/thread_shared.h"
#include "probe/sources/bpf_source_internal.h"
#include "probe/sources/text_file.h"

/* pidfd_open(2), since Linux 6.9: of a thread that leads no group. The same bit as O_EXCL. */
#define LOOK_PIDFD_THREAD O_EXCL

/* What the kernel side keeps of a thread; false when it keeps nothing, or cannot be asked. */
static bool read_thread(
	const struct bpf_source *bpf, pid_t tid, bool leads, struct thread_state *state)
{
	int fd = (int)syscall(SYS_pidfd_open, tid, leads ? 0 : LOOK_PIDFD_THREAD);
	int error;

	if (fd < 0)
		return false;
	error = bpf_map_lookup_elem(bpf_map__fd(bpf->skeleton->maps.threads), &fd, state);
	close(fd);
	return error == 0 && state->generation == bpf->skeleton->data->generation;
}

static void take_thread(pid_t pid, const struct thread_state *state, struct thread_look *look)
{
	if (state->entry_ns > look->entered_ns)
		look->entered_ns = state->entry_ns;
	look->reason =
		state->off_start ? state->off_reason : 0; /* 0 without the scheduler's side */
	look->open = state->open != CALL_NONE;
	if (!look->open)
		return;
	/* A communicator that is made within another call: the outer one is what it is inside of. */
	bool nested = state->open == CALL_NESTED;
	const uint64_t *arguments = nested ? state->outer_arguments : state->arguments;

	look->call = (struct event_collective){
		.header = {.kind = EVENT_COLLECTIVE,
			.length_bytes = sizeof(look->call),
			.pid = (uint32_t)pid},
		.arrival_ns = state->entry_ns,
		.departure_ns = state->entry_ns,
		.handle = arguments[RANK_ARGUMENT_COMMUNICATOR],
		.sequence = nested ? state->outer_sequence : state->sequence,
		.count = arguments[RANK_ARGUMENT_COUNT],
		.datatype = arguments[RANK_ARGUMENT_DATATYPE],
		.root = (int32_t)arguments[RANK_ARGUMENT_ROOT],
		.row = (uint16_t)(nested ? state->outer_row : state->row),
	};
}

/* The other threads: the first one that is inside of a call. */
static void look_at_others(const struct bpf_source *bpf, pid_t pid, struct thread_look *look)
{
	char path[64];
	struct dirent *entry;
	DIR *directory;
	int left = THREAD_LOOK_THREADS_MAX;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	directory = opendir(path);
	while (directory && !look->open && left > 0 && (entry = readdir(directory))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);
		struct thread_state state;

		if (tid <= 0 || tid == pid)
			continue;
		left--;
		if (!read_thread(bpf, tid, false, &state))
			continue;
		if (state.open != CALL_NONE)
			take_thread(pid, &state, look);
		else if (state.entry_ns > look->entered_ns)
			look->entered_ns = state.entry_ns;
	}
	if (directory)
		closedir(directory);
}

/* The first line of a file of /proc/PID, or false. */
static bool read_proc(pid_t pid, const char *name, char *text, size_t capacity)
{
	if (text_file_read_at(text, capacity, "/proc/%d/%s", (int)pid, name) || !text[0])
		return false;
	text[strcspn(text, "\n")] = '\0';
	return true;
}

/*
 * See proc(5). Of reading, and of writing, whatever is more: what the calls asked for (also of pipes, and of
 * what lies in memory), or what storage did (also for mapped files).
 */
static uint64_t read_io_bytes(pid_t pid)
{
	char path[64];
	unsigned long long asked[2] = {0}, stored[2] = {0};
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/io", (int)pid);
	file = fopen(path, "re");
	if (!file)
		return 0;
	if (fscanf(file,
		    "rchar: %llu wchar: %llu syscr: %*u syscw: %*u read_bytes: %llu write_bytes: "
		    "%llu",
		    &asked[0], &asked[1], &stored[0], &stored[1]) != 4)
		memset(asked, 0, sizeof(asked));
	fclose(file);
	return (asked[0] > stored[0] ? asked[0] : stored[0]) +
	       (asked[1] > stored[1] ? asked[1] : stored[1]);
}

/* What follows the name in /proc/PID/stat: see proc(5), where the state is field 3. */
static void take_process(const char *after_name, struct thread_look *look)
{
	unsigned long long user, kernel;
	long ticks = sysconf(_SC_CLK_TCK), threads;

	look->state = after_name[0];
	if (ticks <= 0 ||
		sscanf(after_name,
			"%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu %*d %*d %*d "
			"%*d %ld",
			&user, &kernel, &threads) != 3)
		return;
	look->cpu_ms = (user + kernel) * 1000 / (unsigned long long)ticks;
	look->threads = threads > 0 ? (uint32_t)threads : 0;
}

int thread_look(const struct bpf_source *bpf, pid_t pid, struct thread_look *result)
{
	struct thread_look look = {0};
	struct thread_state state;
	char text[512];
	const char *name_end;

	/* "pid (name) S ...": a name may hold anything, so the last bracket ends it. */
	if (!read_proc(pid, "stat", text, sizeof(text)))
		return -ESRCH;
	name_end = strrchr(text, ')');
	if (name_end && name_end[1] == ' ')
		take_process(name_end + 2, &look);
	/* "0" while it runs, and where the kernel does not tell. */
	if (read_proc(pid, "wchan", text, sizeof(text)) && strcmp(text, "0") != 0)
		snprintf(look.place, sizeof(look.place), "%.*s", (int)sizeof(look.place) - 1, text);
	look.io_bytes = read_io_bytes(pid);
	if (bpf && read_thread(bpf, pid, true, &state))
		take_thread(pid, &state, &look);
	if (bpf && !look.open)
		look_at_others(bpf, pid, &look);
	*result = look;
	return 0;
}
