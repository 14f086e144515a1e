/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/psi.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/sources/cgroup_place.h"
#include "probe/sources/text_file.h"

enum {
	CGROUP_TEXT_LENGTH = 4096,
	PRESSURE_LENGTH = 512,
};

struct psi_sampler {
	struct sampler base;
	char cgroup_text[CGROUP_TEXT_LENGTH]; /* of the last sample: a change means a move */
	int fd;				      /* memory.pressure of its group, or the host's; -1 */
	struct growing_counter counter;
	int64_t total_ns;
};

bool psi_parse_total(const char *text, const char *line_name, int64_t *total_us)
{
	size_t length = strlen(line_name);

	for (const char *line = text; *line;) {
		size_t line_length = strcspn(line, "\n");
		const char *total = memmem(line, line_length, " total=", 7);

		if (strncmp(line, line_name, length) == 0 && line[length] == ' ' && total)
			return text_parse_number(total + 7, total_us) && *total_us >= 0;
		line += line_length + (line[line_length] == '\n');
	}
	return false;
}

static void close_file(struct psi_sampler *sampler)
{
	if (sampler->fd >= 0)
		close(sampler->fd);
	sampler->fd = -1;
}

static void explain(struct psi_sampler *sampler, int error)
{
	if (error == ENOENT || error == EOPNOTSUPP)
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"the kernel keeps no pressure stall information: boot with psi=1");
	else
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"pressure stall information cannot be read: %s", strerror(error));
}

/* CGROUP/memory.pressure; where the rank has no group of its own that has one, the host's. */
static void open_pressure(struct psi_sampler *sampler)
{
	struct cgroup_place place;

	close_file(sampler);
	sampler->counter.has_last = false;
	if (cgroup_place_find(sampler->base.pid, sampler->cgroup_text, "", &place) &&
		strlen(place.directory) > place.top_length)
		sampler->fd = cgroup_open(&place, strlen(place.directory), "memory.pressure");
	if (sampler->fd >= 0) {
		sampler_set_state(&sampler->base, SOURCE_ON, "%s", "");
		return;
	}
	sampler->fd = open("/proc/pressure/memory", O_RDONLY | O_CLOEXEC);
	if (sampler->fd < 0)
		explain(sampler, errno);
	else
		sampler_set_state(&sampler->base, SOURCE_ON, "of the whole host");
}

static size_t psi_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct psi_sampler *sampler = (struct psi_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};
	char text[CGROUP_TEXT_LENGTH], pressure[PRESSURE_LENGTH];
	int64_t total_us;
	int error;

	if (text_file_read_at(text, sizeof(text), "/proc/%d/cgroup", (int)base->pid) < 0)
		return 0; /* gone */
	if (strcmp(text, sampler->cgroup_text) != 0) {
		memcpy(sampler->cgroup_text, text, sizeof(text));
		open_pressure(sampler);
	}
	if (sampler->fd < 0)
		return 0; /* why was said when it was opened */
	error = text_file_read_fd(sampler->fd, pressure, sizeof(pressure));
	if (!error && psi_parse_total(pressure, "some", &total_us) &&
		total_us <= INT64_MAX / 1000) {
		sampler->total_ns += growing_counter_step(&sampler->counter, total_us * 1000);
		sample_list_add(&list, METRIC_PSI_MEMORY_SOME_NS, sampler->total_ns);
	} else {
		explain(sampler, error ? -error : ENOENT);
	}
	return list.count;
}

static void psi_destroy(struct sampler *base)
{
	struct psi_sampler *sampler = (struct psi_sampler *)base;

	close_file(sampler);
	free(sampler);
}

int psi_sampler_create(pid_t pid, uint32_t rank, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = psi_sample, .destroy = psi_destroy};
	struct psi_sampler *sampler = calloc(1, sizeof(*sampler));
	char text[CGROUP_TEXT_LENGTH];

	if (!sampler)
		return -ENOMEM;
	sampler_init(&sampler->base, &operations, "psi", pid, rank);
	sampler->fd = -1;
	if (text_file_read_at(text, sizeof(text), "/proc/%d/cgroup", (int)pid) == 0)
		memcpy(sampler->cgroup_text, text, sizeof(text));
	open_pressure(sampler);
	*result = &sampler->base;
	return 0;
}
