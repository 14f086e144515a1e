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
	RESOURCE_NR = 3,
	LINE_NR = 5,
};

static const char *const resource_names[RESOURCE_NR] = {"cpu", "memory", "io"};

/* Which line of which file gives which metric; "full" of the CPU means nothing for a host. */
static const struct {
	int resource;
	const char *line;
	enum metric metric;
} lines[LINE_NR] = {
	{0, "some", METRIC_PSI_CPU_SOME_NS},
	{1, "some", METRIC_PSI_MEMORY_SOME_NS},
	{1, "full", METRIC_PSI_MEMORY_FULL_NS},
	{2, "some", METRIC_PSI_IO_SOME_NS},
	{2, "full", METRIC_PSI_IO_FULL_NS},
};

struct psi_sampler {
	struct sampler base;
	char cgroup_text[CGROUP_TEXT_LENGTH]; /* of the last sample: a change means a move */
	int fds[RESOURCE_NR];
	struct growing_counter counters[LINE_NR];
	int64_t totals_ns[LINE_NR];
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

static void close_files(struct psi_sampler *sampler)
{
	for (int i = 0; i < RESOURCE_NR; i++) {
		if (sampler->fds[i] >= 0)
			close(sampler->fds[i]);
		sampler->fds[i] = -1;
	}
}

/* Opens CGROUP/cpu.pressure and its like, or /proc/pressure/cpu. Returns how many opened. */
static int open_files(struct psi_sampler *sampler, const struct cgroup_place *place)
{
	char name[64];
	int opened = 0;

	for (int i = 0; i < RESOURCE_NR; i++) {
		snprintf(name, sizeof(name), place ? "%s.pressure" : "/proc/pressure/%s",
			resource_names[i]);
		sampler->fds[i] = place ? cgroup_open(place, strlen(place->directory), name)
					: open(name, O_RDONLY | O_CLOEXEC);
		opened += sampler->fds[i] >= 0;
	}
	return opened;
}

static void open_pressure(struct psi_sampler *sampler)
{
	struct cgroup_place place;
	bool own_group;

	close_files(sampler);
	for (int i = 0; i < LINE_NR; i++)
		sampler->counters[i].has_last = false;
	own_group = cgroup_place_find(sampler->base.pid, sampler->cgroup_text, "", &place) &&
		    strlen(place.directory) > place.top_length;
	if (own_group && open_files(sampler, &place) == RESOURCE_NR) {
		sampler_set_state(&sampler->base, SOURCE_ON, "%s", "");
		return;
	}
	close_files(sampler);
	if (open_files(sampler, NULL) == 0)
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"the kernel keeps no pressure stall information: boot with psi=1");
	else
		sampler_set_state(&sampler->base, SOURCE_ON, "of the whole host");
}

static size_t psi_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct psi_sampler *sampler = (struct psi_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};
	char text[CGROUP_TEXT_LENGTH], pressure[RESOURCE_NR][PRESSURE_LENGTH];
	int64_t total_us;

	if (text_file_read_at(text, sizeof(text), "/proc/%d/cgroup", (int)base->pid) < 0)
		return 0; /* gone */
	if (strcmp(text, sampler->cgroup_text) != 0) {
		memcpy(sampler->cgroup_text, text, sizeof(text));
		open_pressure(sampler);
	}
	for (int i = 0; i < RESOURCE_NR; i++) {
		if (sampler->fds[i] < 0 ||
			text_file_read_fd(sampler->fds[i], pressure[i], sizeof(pressure[i])) < 0)
			pressure[i][0] = '\0';
	}
	for (int i = 0; i < LINE_NR; i++) {
		if (!psi_parse_total(pressure[lines[i].resource], lines[i].line, &total_us) ||
			total_us > INT64_MAX / 1000)
			continue;
		sampler->totals_ns[i] +=
			1000 * growing_counter_step(&sampler->counters[i], total_us);
		sample_list_add(&list, lines[i].metric, sampler->totals_ns[i]);
	}
	if (list.count == 0 && capacity > 0)
		sampler_set_state(base, SOURCE_MISSING,
			"the kernel keeps no pressure stall information: boot with psi=1");
	return list.count;
}

static void psi_destroy(struct sampler *base)
{
	struct psi_sampler *sampler = (struct psi_sampler *)base;

	close_files(sampler);
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
	for (int i = 0; i < RESOURCE_NR; i++)
		sampler->fds[i] = -1;
	if (text_file_read_at(text, sizeof(text), "/proc/%d/cgroup", (int)pid) == 0)
		memcpy(sampler->cgroup_text, text, sizeof(text));
	open_pressure(sampler);
	*result = &sampler->base;
	return 0;
}
