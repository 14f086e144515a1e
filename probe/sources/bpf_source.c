/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/bpf_source.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/attach/collective_table.h"
#include "probe/attach/first_opcode.h"
#include "probe/attach/symbols.h"
#include "probe/ring/host_clock.h"
#include "probe/sources/bpf_source_internal.h"

enum {
	DELIVERED_MAX = 100000,
	PROCESSOR_COUNT_MAX = 4096,
};

static struct host_ns host_now(void)
{
	return (struct host_ns){host_clock_now_ns()};
}

/* Keeps a link for destroy; a link that failed is an error code. */
static int keep(struct bpf_source *source, struct bpf_link *link)
{
	struct bpf_link **grown;
	int error = (int)libbpf_get_error(link);

	if (error)
		return error;
	if (source->link_count == source->link_capacity) {
		size_t capacity = source->link_capacity ? source->link_capacity * 2 : 256;

		grown = realloc(source->links, capacity * sizeof(*grown));
		if (!grown) {
			bpf_link__destroy(link);
			return -ENOMEM;
		}
		source->links = grown;
		source->link_capacity = capacity;
	}
	source->links[source->link_count++] = link;
	return 0;
}

/* One software event per processor: they count the faults of every task there. */
static int attach_fault_ends(struct bpf_source *source, const struct bpf_program *program,
	uint64_t event, uint64_t period)
{
	struct perf_event_attr attributes = {
		.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(attributes),
		.config = event,
		.sample_period = period,
	};
	int processor_count = libbpf_num_possible_cpus(), attached = 0;

	for (int cpu = 0; cpu < processor_count && cpu < PROCESSOR_COUNT_MAX; cpu++) {
		int fd = (int)syscall(
			SYS_perf_event_open, &attributes, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

		if (fd < 0) {
			if (errno == ENODEV)
				continue; /* this processor is offline */
			return -errno;
		}
		int error = keep(source, bpf_program__attach_perf_event(program, fd));
		if (error) {
			close(fd);
			return error;
		}
		attached++;
	}
	return attached ? 0 : -ENODEV;
}

static int attach_optional(struct bpf_source *source)
{
	struct ranks_bpf *skeleton = source->skeleton;
	int error;

	if (source->sched) {
		error = keep(source, bpf_program__attach(skeleton->progs.on_switch));
		if (error) {
			source->sched = false;
			snprintf(source->why_sched, sizeof(source->why_sched),
				"cannot attach to sched_switch: %s", strerror(-error));
		}
	}
	if (source->faults) {
		error = keep(source, bpf_program__attach(skeleton->progs.on_fault_start));
		if (!error)
			error = attach_fault_ends(source, skeleton->progs.on_minor_fault,
				PERF_COUNT_SW_PAGE_FAULTS_MIN, BPF_SOURCE_MINOR_FAULT_PERIOD);
		if (!error)
			error = attach_fault_ends(source, skeleton->progs.on_major_fault,
				PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1);
		if (error) {
			source->faults = false;
			snprintf(source->why_faults, sizeof(source->why_faults),
				"counts only, no times: cannot attach to page faults: %s",
				strerror(-error));
		}
	}
	error = keep(source, bpf_program__attach(skeleton->progs.on_fork));
	if (!error)
		error = keep(source, bpf_program__attach(skeleton->progs.on_exec));
	if (!error)
		error = keep(source, bpf_program__attach(skeleton->progs.on_exit));
	return error;
}

static int on_record(void *context, const void *data, size_t length)
{
	static const uint16_t lengths[] = {
		[EVENT_COLLECTIVE] = sizeof(struct event_collective),
		[EVENT_COMMUNICATOR] = sizeof(struct event_communicator),
		[EVENT_RANK] = sizeof(struct event_rank),
		[EVENT_PROCESS] = sizeof(struct event_process),
		[EVENT_OFF_CPU] = sizeof(struct event_off_cpu),
		[EVENT_MARKER] = sizeof(struct event_marker),
		[EVENT_DEVICE_WAIT] = sizeof(struct event_device_wait),
		[EVENT_ENQUEUE] = sizeof(struct event_enqueue),
	};
	struct bpf_source *source = context;
	const struct event_header *header = data;

	if (length < sizeof(*header) || header->kind == 0 ||
		header->kind >= sizeof(lengths) / sizeof(lengths[0]) ||
		header->length_bytes != lengths[header->kind] || length < header->length_bytes) {
		source->malformed++;
		return 0;
	}
	source->calls_seen |= header->kind == EVENT_COLLECTIVE;
	source->on_event(source->context, header);
	return ++source->delivered < DELIVERED_MAX ? 0 : -ECANCELED;
}

int bpf_source_create(const struct bpf_source_options *options, struct bpf_source **result,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct rlimit unlimited = {RLIM_INFINITY, RLIM_INFINITY}, files;
	struct bpf_source *source = calloc(1, sizeof(*source));
	int error;

	if (!source)
		return -ENOMEM;
	setrlimit(RLIMIT_MEMLOCK, &unlimited); /* counted so before Linux 5.11 */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
		files.rlim_cur = files.rlim_max; /* one descriptor per uprobe */
		setrlimit(RLIMIT_NOFILE, &files);
	}
	source->next_incarnation = RANK_INCARNATION_FIRST;
	source->wanted_collectives = options->collectives;
	source->sched = source->wanted_sched = options->sched;
	source->faults = source->wanted_faults = options->faults;
	source->windows.allowed = options->launches;
	error = bpf_source_load(source, options);
	if (error == 0)
		error = attach_optional(source);
	if (error == 0) {
		error = kernel_ring_create(
			source->skeleton->maps.events, on_record, source, &source->ring);
	}
	if (error < 0) {
		error = bpf_source_explain(error, why);
		bpf_source_destroy(source);
		return error;
	}
	*result = source;
	return 0;
}

static void detach_file(struct attached_file *file)
{
	uprobe_link_detach(&file->at_call);
	uprobe_link_detach(&file->at_return);
	uprobe_link_detach(&file->at_launch);
	uprobe_link_detach(&file->at_stream_wait);
}

void bpf_source_destroy(struct bpf_source *source)
{
	if (!source)
		return;
	kernel_ring_destroy(source->ring);
	for (size_t i = 0; i < source->link_count; i++)
		bpf_link__destroy(source->links[i]);
	free(source->links);
	for (size_t i = 0; i < source->file_count; i++) {
		detach_file(&source->files[i]);
		free(source->files[i].places);
		free(source->files[i].returns);
		free(source->files[i].launches);
		if (source->files[i].fd >= 0)
			close(source->files[i].fd);
	}
	ranks_bpf__destroy(source->skeleton);
	free(source);
}

/* Runs the iterator that follows a process by its number in our pid namespace. */
static int follow_in_namespace(struct bpf_source *source, uint32_t pid)
{
	struct bpf_link *link =
		bpf_program__attach_iter(source->skeleton->progs.follow_wanted, NULL);
	int error = (int)libbpf_get_error(link), fd;
	char nothing[64];

	if (error)
		return error;
	source->skeleton->bss->wanted_pid = pid;
	source->skeleton->bss->wanted_found = 0;
	fd = bpf_iter_create(bpf_link__fd(link));
	error = fd < 0 ? -errno : 0;
	while (fd >= 0 && read(fd, nothing, sizeof(nothing)) > 0)
		;
	if (fd >= 0)
		close(fd);
	bpf_link__destroy(link);
	if (!error && !source->skeleton->bss->wanted_found)
		error = -ESRCH;
	return error;
}

int bpf_source_track(struct bpf_source *source, uint32_t pid)
{
	if (source->own_pid_namespace)
		return follow_in_namespace(source, pid);
	struct rank_process_state fresh = {.incarnation = source->next_incarnation++};
	int map = bpf_map__fd(source->skeleton->maps.processes);
	int error = bpf_map_update_elem(map, &pid, &fresh, BPF_NOEXIST);

	if (error == -EEXIST) /* what was counted so far stands */
		return 0;
	if (error)
		return error;
	/* Looked at afterwards: a process that ends in between is seen by the one or the other. */
	if (kill((pid_t)pid, 0) < 0 && errno == ESRCH) {
		bpf_map_delete_elem(map, &pid);
		return -ESRCH;
	}
	return 0;
}

/*
 * Attaches entry and return. The returns go first: an entry without its return would leave its
 * call open.
 */
static int attach_file(struct bpf_source *source, struct attached_file *file)
{
	struct ranks_bpf *skeleton = source->skeleton;
	int error = uprobe_link_attach(&file->at_return, skeleton->progs.on_return, source->multi,
		true, file->path, file->returns, file->return_count);

	if (!error)
		error = uprobe_link_attach(&file->at_call, skeleton->progs.on_call, source->multi,
			false, file->path, file->places, file->place_count);
	if (error)
		uprobe_link_detach(&file->at_return);
	return error;
}

/*
 * MPICH and its relatives have ints for handles; Open MPI has addresses of its objects. Only in
 * the ABI of the former MPI_UNWEIGHTED is an object (seen: 4.0.2).
 */
static bool has_int_handles(const char *path)
{
	uint64_t address;
	bool position_independent;

	return symbols_find_object(path, "MPI_UNWEIGHTED", &address, &position_independent) == 0;
}

/* Once per communicator or beside a file's I/O, ten microseconds do no harm; per call they do. */
static bool is_frequent(const struct collective_row *row)
{
	if (strncmp(row->symbol, "MPI_File_", strlen("MPI_File_")) == 0)
		return false;
	return row->kind == ROW_COLLECTIVE || row->kind == ROW_COMM_CALL ||
	       row->kind == ROW_DEVICE_WAIT || row->kind == ROW_LAUNCH ||
	       row->kind == ROW_STREAM_WAIT;
}

static void refuse(struct attached_file *file, const struct collective_row *row, const char *name)
{
	bool launch = row->kind == ROW_LAUNCH || row->kind == ROW_STREAM_WAIT;

	file->refused_count += !launch;
	snprintf(launch ? file->why_launches : file->why, sizeof(file->why),
		"%.60s in %.100s starts with an instruction that is expensive to probe",
		row->symbol, name);
}

static void add_place(struct attached_file *file, const struct collective_row *row,
	const struct uprobe_place *place)
{
	if (row->kind == ROW_LAUNCH) {
		file->launches[file->launch_count++] = *place;
		return;
	}
	if (row->kind == ROW_STREAM_WAIT) {
		if (file->stream_wait_count < sizeof(file->stream_waits) / sizeof(*place))
			file->stream_waits[file->stream_wait_count++] = *place;
		return;
	}
	file->places[file->place_count++] = *place;
	file->device_wait_count += row->kind == ROW_DEVICE_WAIT;
	file->collector_count += row->kind == ROW_COLLECTOR;
	if (row->blocking)
		file->returns[file->return_count++] = *place;
}

/* Finds the places of a file's rows; rows that would cost too much are refused. */
static int find_places(struct attached_file *file, const char *name)
{
	struct symbol_offset *offsets = calloc(collective_row_count, sizeof(*offsets));
	uint64_t mpi_flags = has_int_handles(file->path) ? RANK_COOKIE_INT_HANDLES : 0;
	int error = -ENOMEM;

	file->places = calloc(collective_row_count, sizeof(*file->places));
	file->returns = calloc(collective_row_count, sizeof(*file->returns));
	file->launches = calloc(collective_row_count, sizeof(*file->launches));
	if (!offsets || !file->places || !file->returns || !file->launches)
		goto out;
	error = symbols_find_rows(file->path, offsets);
	for (size_t row = 0; error == 0 && row < collective_row_count; row++) {
		uint64_t offset = offsets[row].file_offset;
		enum opcode_cost cost;

		if (!offsets[row].found)
			continue;
		file->has_launches |= collective_rows[row].kind == ROW_LAUNCH;
		if (first_opcode_read(file->path, &offset, &cost) < 0 ||
			(cost == OPCODE_EXPENSIVE && is_frequent(&collective_rows[row]))) {
			refuse(file, &collective_rows[row], name);
			continue;
		}
		add_place(file, &collective_rows[row],
			&(struct uprobe_place){offset,
				collective_library(&collective_rows[row])->has_objects
					? row | mpi_flags
					: row,
				offsets[row].reference_offset});
	}
	if (file->why_launches[0]) /* those that are not seen would pass for silence */
		file->launch_count = file->stream_wait_count = 0;
out:
	free(offsets);
	return error;
}

int bpf_source_attach_library(
	struct bpf_source *source, const struct library_file *library, bool in_use, size_t *skipped)
{
	struct attached_file *file;
	int error;

	*skipped = 0;
	if (!source->wanted_collectives)
		return 0;
	for (size_t i = 0; i < source->file_count; i++) {
		file = &source->files[i];
		if (file->device == library->device && file->inode == library->inode) {
			file->in_use |= in_use;
			return 0;
		}
	}
	if (source->file_count == BPF_SOURCE_FILES_MAX)
		return -ENOSPC;
	file = &source->files[source->file_count++];
	*file = (struct attached_file){
		.device = library->device, .inode = library->inode, .in_use = in_use};
	file->fd = library_open(library, file->path);
	file->is_python = strstr(basename(library->name), "python3") != NULL;
	error = file->fd < 0 ? file->fd : find_places(file, library->name);
	if (!error && !source->paused)
		error = attach_file(source, file);
	*skipped = file->refused_count;
	if (error == -ENOEXEC) /* a script: nothing to attach to */
		return 0;
	if (error) {
		snprintf(file->why, sizeof(file->why), "cannot attach to %.120s: %s", library->name,
			strerror(-error));
		file->place_count = 0;
		return error;
	}
	return (int)file->place_count;
}

int bpf_source_poll(struct bpf_source *source,
	void (*on_event)(void *context, const struct event_header *event), void *context)
{
	int result;

	source->on_event = on_event;
	source->context = context;
	source->delivered = 0;
	result = kernel_ring_read(source->ring);
	return result < 0 && result != -ECANCELED ? result : source->delivered;
}

int bpf_source_processes_fd(const struct bpf_source *source)
{
	return bpf_map__fd(source->skeleton->maps.processes);
}

uint64_t bpf_source_dropped(const struct bpf_source *source)
{
	return __atomic_load_n(&source->skeleton->bss->dropped, __ATOMIC_RELAXED) +
	       source->malformed;
}

static void put_state(
	struct message_source *out, const char *name, enum source_state state, const char *why)
{
	snprintf(out->name, sizeof(out->name), "%s", name);
	out->state = (uint8_t)state;
	snprintf(out->why, sizeof(out->why), "%s", why);
}

size_t bpf_source_states(
	const struct bpf_source *source, struct message_source *out, size_t capacity)
{
	char names[COLLECTIVE_NAMES_LENGTH], none[COLLECTIVE_NAMES_LENGTH + 32];
	enum source_state collectives = SOURCE_ON;
	const char *why = "";
	size_t symbol_count = 0, refused_count = 0;

	bool has_device_wait = false, has_python = false, has_collector = false;

	if (capacity < BPF_SOURCE_STATES_MAX)
		return 0;
	for (size_t i = 0; i < source->file_count; i++) {
		const struct attached_file *file = &source->files[i];

		if (!file->in_use)
			continue;
		symbol_count += file->place_count - file->device_wait_count - file->collector_count;
		has_device_wait |= file->device_wait_count > 0;
		has_python |= file->is_python;
		has_collector |= file->collector_count > 0;
		refused_count += file->refused_count;
		if (file->why[0])
			why = file->why;
	}
	if (!source->wanted_collectives) {
		collectives = SOURCE_OFF;
		why = "not asked for";
	} else if (symbol_count == 0 && !source->calls_seen) {
		collectives = SOURCE_MISSING;
		if (!*why) {
			collective_library_names(names);
			snprintf(none, sizeof(none), "none of %s was found in the job", names);
			why = none;
		}
	} else if (refused_count) {
		collectives = SOURCE_DEGRADED;
	}
	put_state(&out[0], "bpf.collectives", collectives, why);
	enum source_state sched = !source->wanted_sched ? SOURCE_OFF
				  : source->sched	? SOURCE_ON
							: SOURCE_MISSING;
	put_state(&out[1], "bpf.sched", sched,
		source->wanted_sched ? source->why_sched : "not asked for");
	put_state(&out[2], "bpf.throttle", sched,
		source->wanted_sched ? source->why_sched : "not asked for");
	put_state(&out[3], "bpf.faults",
		!source->wanted_faults ? SOURCE_OFF
		: source->faults       ? SOURCE_ON
				       : SOURCE_DEGRADED,
		source->wanted_faults ? source->why_faults : "not asked for");
	size_t count = 4;

	/* Only where there is something to see: a device, a program in Python. */
	if (has_device_wait)
		put_state(&out[count++], "bpf.device_wait", SOURCE_ON, "");
	count += bpf_launches_state(source, &out[count]);
	if (has_python && source->wanted_collectives)
		put_state(&out[count++], "bpf.collector",
			has_collector ? SOURCE_ON : SOURCE_MISSING,
			has_collector ? ""
				      : "this Python was built without static probes "
					"(--with-dtrace)");
	return count;
}

int bpf_source_pause(struct bpf_source *source, bool paused)
{
	int error = 0;

	if (paused == source->paused)
		return 0;
	if (paused)
		bpf_launches_close(source, host_now(), NULL);
	source->paused = paused;
	if (!paused) /* what threads had open is old by now */
		__atomic_add_fetch(&source->skeleton->data->generation, 1, __ATOMIC_RELAXED);
	__atomic_store_n(&source->skeleton->bss->paused, paused, __ATOMIC_RELEASE);
	/* A flag alone would leave the traps in place, which are most of the cost. */
	for (size_t i = 0; i < source->file_count && !error; i++) {
		if (paused)
			detach_file(&source->files[i]);
		else
			error = attach_file(source, &source->files[i]);
	}
	return error;
}
