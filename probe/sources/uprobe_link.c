/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/uprobe_link.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

enum {
	LINK_CREATE = 28, /* BPF_LINK_CREATE */
	MULTI_RETURN = 1, /* BPF_F_UPROBE_MULTI_RETURN */
};

/* The part of union bpf_attr for BPF_LINK_CREATE; Debian 12's headers are older than uprobe_multi. */
struct link_create_multi {
	uint32_t program_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, reference_offsets, cookies;
	uint32_t count, multi_flags, pid, reserved;
};
_Static_assert(sizeof(struct link_create_multi) == 64, "BPF_LINK_CREATE layout");

/* A uprobe on a folder: EBADF where uprobe_multi is known, another error where it is not. */
bool uprobe_link_multi_works(const struct bpf_program *program)
{
	uint64_t offset = 0;
	struct link_create_multi attributes = {
		.program_fd = (uint32_t)bpf_program__fd(program),
		.attach_type = UPROBE_ATTACH_TYPE_MULTI,
		.path = (uintptr_t) "/",
		.offsets = (uintptr_t)&offset,
		.count = 1,
	};
	int fd = (int)syscall(SYS_bpf, LINK_CREATE, &attributes, sizeof(attributes));

	if (fd >= 0)
		close(fd);
	return fd < 0 && errno == EBADF;
}

static int attach_multi(struct uprobe_link *link, int program_fd, bool at_return, const char *path,
	const struct uprobe_place *places, size_t place_count)
{
	uint64_t *values = calloc(place_count * 3, sizeof(*values));
	struct link_create_multi attributes = {
		.program_fd = (uint32_t)program_fd,
		.attach_type = UPROBE_ATTACH_TYPE_MULTI,
		.path = (uintptr_t)path,
		.count = (uint32_t)place_count,
		.multi_flags = at_return ? MULTI_RETURN : 0,
	};
	int fd;

	if (!values)
		return -ENOMEM;
	for (size_t i = 0; i < place_count; i++) {
		values[i] = places[i].file_offset;
		values[place_count + i] = places[i].cookie;
		values[2 * place_count + i] = places[i].reference_offset;
	}
	attributes.offsets = (uintptr_t)values;
	attributes.cookies = (uintptr_t)(values + place_count);
	attributes.reference_offsets = (uintptr_t)(values + 2 * place_count);
	fd = (int)syscall(SYS_bpf, LINK_CREATE, &attributes, sizeof(attributes));
	if (fd >= 0)
		link->fds[link->fd_count++] = fd;
	free(values);
	return fd < 0 ? -errno : 0;
}

/* The number of the perf type "uprobe", and the bit that asks for the return. */
static int read_sysfs(const char *path, const char *format, int *value)
{
	FILE *file = fopen(path, "re");
	int fields;

	if (!file)
		return -ENOTSUP;
	fields = fscanf(file, format, value);
	fclose(file);
	return fields == 1 ? 0 : -ENOTSUP;
}

static int attach_single(struct uprobe_link *link, int program_fd, bool at_return, const char *path,
	const struct uprobe_place *place)
{
	struct perf_event_attr attributes = {.size = sizeof(attributes)};
	LIBBPF_OPTS(bpf_link_create_opts, options, .perf_event.bpf_cookie = place->cookie);
	int type, return_bit, fd, link_fd;

	if (read_sysfs("/sys/bus/event_source/devices/uprobe/type", "%d", &type) < 0 ||
		read_sysfs("/sys/bus/event_source/devices/uprobe/format/retprobe", "config:%d",
			&return_bit) < 0)
		return -ENOTSUP;
	attributes.type = (uint32_t)type;
	/* The kernel takes the counter's offset in the upper half (PERF_UPROBE_REF_CTR_OFFSET_SHIFT). */
	attributes.config = (at_return ? 1ull << return_bit : 0) | place->reference_offset << 32;
	attributes.config1 = (uintptr_t)path;
	attributes.config2 = place->file_offset;
	fd = (int)syscall(SYS_perf_event_open, &attributes, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;
	link_fd = bpf_link_create(program_fd, fd, BPF_PERF_EVENT, &options);
	if (link_fd < 0 || ioctl(fd, PERF_EVENT_IOC_ENABLE, 0) < 0) {
		int error = -errno;

		if (link_fd >= 0)
			close(link_fd);
		close(fd);
		return error;
	}
	link->fds[link->fd_count++] = link_fd;
	link->fds[link->fd_count++] = fd;
	return 0;
}

int uprobe_link_attach(struct uprobe_link *link, const struct bpf_program *program, bool multi,
	bool at_return, const char *path, const struct uprobe_place *places, size_t place_count)
{
	int program_fd = bpf_program__fd(program), error = 0;

	*link = (struct uprobe_link){0};
	if (place_count == 0)
		return 0;
	link->fds = calloc(place_count * 2, sizeof(*link->fds));
	if (!link->fds)
		return -ENOMEM;
	if (multi) {
		error = attach_multi(link, program_fd, at_return, path, places, place_count);
	} else {
		for (size_t i = 0; i < place_count && !error; i++)
			error = attach_single(link, program_fd, at_return, path, &places[i]);
	}
	if (error)
		uprobe_link_detach(link);
	return error;
}

void uprobe_link_detach(struct uprobe_link *link)
{
	for (size_t i = 0; i < link->fd_count; i++)
		close(link->fds[i]);
	free(link->fds);
	*link = (struct uprobe_link){0};
}
