/* SPDX-License-Identifier: Apache-2.0 */
/* Loading of the BPF programs: rows, options, and what to do without where a kernel says no. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "probe/attach/collective_table.h"
#include "probe/sources/bpf_source_internal.h"

enum {
	RING_BYTES_DEFAULT = 8 << 20, /* 8 ranks x 64 collectives x 50 steps/s x 280 B = 7 MB/s */
	OFF_CPU_EVENT_NS = 500000,
};

/* libbpf's last complaint: the reason in our one line. File-static: the callback has no context. */
static __thread char last_complaint[WIRE_DETAIL_LENGTH_MAX + 1];

static int keep_complaint(enum libbpf_print_level level, const char *format, va_list arguments)
{
	if (level == LIBBPF_WARN) {
		vsnprintf(last_complaint, sizeof(last_complaint), format, arguments);
		last_complaint[strcspn(last_complaint, "\n")] = '\0';
	}
	return 0;
}

/* A handle to free is passed by its address, or a unique id is (collective_table.h). */
static bool passes_pointer(const struct collective_row *row)
{
	if (row->action == ROW_ACTION_FREE || row->action == ROW_ACTION_GROUP_FREE)
		return row->result != ROW_ARGUMENT_NONE;
	return row->action == ROW_ACTION_CREATE_UNIQUE_ID && row->color != ROW_ARGUMENT_NONE;
}

static void write_rows(struct ranks_bpf *skeleton)
{
	for (size_t i = 0; i < collective_row_count && i < RANK_ROWS_MAX; i++) {
		const struct collective_row *row = &collective_rows[i];
		struct rank_row *out = (struct rank_row *)&skeleton->rodata->rank_rows[i];

		*out = (struct rank_row){
			.kind = row->kind,
			.action = row->action,
			.blocking = row->blocking,
			.by_pointer = passes_pointer(row),
			.int_count = collective_library(row)->int_counts,
			.by_group = collective_is_by_group(row),
			.list_ints = (uint8_t)collective_list_ints(row),
			.device = collective_library(row)->on_device &&
				  (row->kind == ROW_COLLECTIVE || row->kind == ROW_COMM_CALL),
			.position = {row->count, row->datatype, row->root, row->communicator,
				row->stream, row->result, row->color, row->key},
		};
	}
}

/* True in a container that has a pid namespace of its own. */
static bool in_own_pid_namespace(void)
{
	enum { INITIAL_PID_NAMESPACE = 0xeffffffc }; /* PROC_PID_INIT_INO, linux/proc_ns.h */
	struct stat status;

	return stat("/proc/self/ns/pid", &status) == 0 &&
	       status.st_ino != (ino_t)INITIAL_PID_NAMESPACE;
}

/* Opens and loads with or without the optional programs. */
static int load(struct bpf_source *source, const struct bpf_source_options *options, bool multi,
	bool sched, bool faults)
{
	struct ranks_bpf *skeleton = ranks_bpf__open();
	int result;

	if (!skeleton)
		return -errno;
	write_rows(skeleton);
	skeleton->rodata->off_cpu_event_ns =
		options->off_cpu_event_ns ? (uint64_t)options->off_cpu_event_ns : OFF_CPU_EVENT_NS;
	skeleton->rodata->messages_told = options->messages;
	skeleton->rodata->minor_fault_period = BPF_SOURCE_MINOR_FAULT_PERIOD;
	size_t ring_bytes = options->ring_bytes ? options->ring_bytes : RING_BYTES_DEFAULT;
	skeleton->rodata->wakeup_bytes = ring_bytes / 4;
	bpf_map__set_max_entries(skeleton->maps.events, (uint32_t)ring_bytes);
	bpf_program__set_autoload(skeleton->progs.follow_wanted, source->own_pid_namespace);
	bpf_program__set_autoload(skeleton->progs.on_launch, options->launches);
	bpf_program__set_autoload(skeleton->progs.on_stream_wait, options->launches);
	bpf_program__set_autoload(skeleton->progs.on_switch, sched);
	bpf_program__set_autoload(skeleton->progs.on_fault_start, faults);
	bpf_program__set_autoload(skeleton->progs.on_minor_fault, faults);
	bpf_program__set_autoload(skeleton->progs.on_major_fault, faults);
	if (multi) {
		bpf_program__set_expected_attach_type(
			skeleton->progs.on_call, (enum bpf_attach_type)UPROBE_ATTACH_TYPE_MULTI);
		bpf_program__set_expected_attach_type(
			skeleton->progs.on_return, (enum bpf_attach_type)UPROBE_ATTACH_TYPE_MULTI);
		bpf_program__set_expected_attach_type(
			skeleton->progs.on_launch, (enum bpf_attach_type)UPROBE_ATTACH_TYPE_MULTI);
		bpf_program__set_expected_attach_type(skeleton->progs.on_stream_wait,
			(enum bpf_attach_type)UPROBE_ATTACH_TYPE_MULTI);
	}
	result = ranks_bpf__load(skeleton);
	if (result == 0 && multi && !uprobe_link_multi_works(skeleton->progs.on_call))
		result = -ENOTSUP;
	if (result < 0) {
		ranks_bpf__destroy(skeleton);
		return result;
	}
	source->skeleton = skeleton;
	return 0;
}

/* Loads the chosen programs, for one link per library where the kernel has that. */
static int load_chosen(struct bpf_source *source, const struct bpf_source_options *options)
{
	int error = -ENOTSUP;

	source->multi = !options->single_uprobes;
	if (source->multi)
		error = load(source, options, true, source->sched, source->faults);
	if (error < 0 && error != -EPERM) {
		source->multi = false;
		error = load(source, options, false, source->sched, source->faults);
	}
	return error;
}

int bpf_source_load(struct bpf_source *source, const struct bpf_source_options *options)
{
	int error;

	libbpf_set_print(keep_complaint);
	source->own_pid_namespace = in_own_pid_namespace();
	error = load_chosen(source, options);

	if (error < 0 && error != -EPERM && source->faults) {
		snprintf(source->why_faults, sizeof(source->why_faults),
			"counts only, no times: %.200s", last_complaint);
		source->faults = false;
		error = load_chosen(source, options);
	}
	if (error < 0 && error != -EPERM && source->sched) {
		snprintf(source->why_sched, sizeof(source->why_sched), "%.200s", last_complaint);
		source->sched = false;
		error = load_chosen(source, options);
	}
	return error;
}

bool bpf_source_has_btf(void)
{
	struct stat status;

	return access("/sys/kernel/btf/vmlinux", R_OK) == 0 &&
	       stat("/sys/kernel/btf/vmlinux", &status) == 0 && status.st_size > 0;
}

int bpf_source_explain(int error, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	if (!why)
		return error;
	if (error == -EPERM) { /* the verifier's refusal is EACCES */
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"no rights to load BPF programs: %s CAP_BPF, CAP_PERFMON, CAP_SYS_PTRACE "
			"and CAP_DAC_READ_SEARCH%s",
			geteuid() == 0 ? "root is without them here (a container?): give it"
				       : "run slowrank as root, or grant it",
			geteuid() == 0 ? ", and a seccomp profile that lets bpf() through"
				       : " (setcap)");
		return -EPERM;
	}
	if (!bpf_source_has_btf()) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"this kernel has no BTF (/sys/kernel/btf/vmlinux): use one built with "
			"CONFIG_DEBUG_INFO_BTF");
		return -ENOTSUP;
	}
	if (error == -EMFILE) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"BPF programs need more open files than this process may have: raise the "
			"limit (ulimit -n, LimitNOFILE) to 1024 or more");
		return error;
	}
	snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "cannot load BPF programs: %.100s (%.100s)",
		strerror(-error), last_complaint);
	return error;
}
