/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/cgroup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/sources/cgroup_place.h"
#include "probe/sources/text_file.h"

enum {
	LEVELS_MAX = 32,
	CGROUP_TEXT_LENGTH = 4096,
	STAT_LENGTH = 8192,
	NUMBER_LENGTH = 64,
};

/* One group on the way from the rank's own to the top. fds are -1 where a file is missing. */
struct level {
	dev_t device;
	ino_t inode;
	int stat_fd;   /* cpu: cpu.stat; memory: memory.events or memory.failcnt */
	int quota_fd;  /* cpu.max or cpu.cfs_quota_us */
	int period_fd; /* v1: cpu.cfs_period_us */
	struct growing_counter counters[3];
};

/* The groups of one controller. */
struct hierarchy {
	struct cgroup_place place;
	size_t level_count;
	struct level levels[LEVELS_MAX];
};

struct cgroup_sampler {
	struct sampler base;
	bool looked;			      /* places were looked for */
	char cgroup_text[CGROUP_TEXT_LENGTH]; /* of the last sample: a change means a move */
	struct hierarchy cpu, memory;
	int memory_stat_fd; /* of the own group */
	struct growing_counter reclaim;
	int64_t periods, throttled_periods, throttled_ns; /* totals since the first look */
	int64_t reclaim_total, limit_hits;
};

static void close_fd(int fd)
{
	if (fd >= 0)
		close(fd);
}

static void close_level(struct level *level)
{
	close_fd(level->stat_fd);
	close_fd(level->quota_fd);
	close_fd(level->period_fd);
}

static void close_hierarchy(struct hierarchy *hierarchy)
{
	for (size_t i = 0; i < hierarchy->level_count; i++)
		close_level(&hierarchy->levels[i]);
	hierarchy->level_count = 0;
	hierarchy->place.found = false;
}

static void open_level(
	struct level *level, const struct cgroup_place *place, size_t length, bool is_memory)
{
	char path[CGROUP_PATH_LENGTH];
	struct stat status = {0};

	snprintf(path, sizeof(path), "%.*s", (int)length, place->directory);
	if (stat(path, &status) < 0)
		status = (struct stat){0};
	*level = (struct level){
		.device = status.st_dev, .inode = status.st_ino, .quota_fd = -1, .period_fd = -1};
	if (is_memory) {
		level->stat_fd = cgroup_open(
			place, length, place->unified ? "memory.events" : "memory.failcnt");
		return;
	}
	level->stat_fd = cgroup_open(place, length, "cpu.stat");
	level->quota_fd =
		cgroup_open(place, length, place->unified ? "cpu.max" : "cpu.cfs_quota_us");
	if (!place->unified)
		level->period_fd = cgroup_open(place, length, "cpu.cfs_period_us");
}

/*
 * Opens all levels of a place. Groups that the rank was in before keep their bases, so that a
 * move within one parent loses nothing of the parent's counts.
 */
static void open_hierarchy(
	struct hierarchy *hierarchy, const struct cgroup_place *place, bool is_memory)
{
	struct hierarchy old = *hierarchy;
	size_t length = strlen(place->directory);

	hierarchy->place = *place;
	hierarchy->level_count = 0;
	while (hierarchy->level_count < LEVELS_MAX) {
		struct level *level = &hierarchy->levels[hierarchy->level_count++];

		open_level(level, place, length, is_memory);
		for (size_t i = 0; i < old.level_count; i++) {
			if (old.levels[i].inode == level->inode &&
				old.levels[i].device == level->device)
				memcpy(level->counters, old.levels[i].counters,
					sizeof(level->counters));
		}
		if (length <= place->top_length)
			break;
		while (length > place->top_length && place->directory[length - 1] != '/')
			length--;
		length = length > place->top_length ? length - 1 : length; /* the slash itself */
		if (length < place->top_length)
			length = place->top_length;
	}
	for (size_t i = 0; i < old.level_count; i++)
		close_level(&old.levels[i]);
}

static void describe(struct cgroup_sampler *sampler)
{
	bool cpu = sampler->cpu.place.found, memory = sampler->memory.place.found;

	if (!cpu && !memory)
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"no cgroup of the rank is visible here: mount /sys/fs/cgroup, or run the "
			"probe on the host");
	else if (!cpu || !memory)
		sampler_set_state(&sampler->base, SOURCE_DEGRADED,
			"the rank's %s cgroup is not visible here: %s cannot be seen",
			cpu ? "memory" : "cpu", cpu ? "memory limits" : "CPU quotas");
	else if (!cgroup_top_is_root(&sampler->cpu.place))
		sampler_set_state(&sampler->base, SOURCE_DEGRADED,
			"groups above this container are not visible: a quota set there cannot be "
			"seen; run the probe on the host");
	else
		sampler_set_state(&sampler->base, SOURCE_ON, "%s", "");
}

static void look_for_places(struct cgroup_sampler *sampler)
{
	pid_t pid = sampler->base.pid;
	struct cgroup_place place;

	if (cgroup_place_find(pid, sampler->cgroup_text, "cpu", &place))
		open_hierarchy(&sampler->cpu, &place, false);
	else
		close_hierarchy(&sampler->cpu);
	close_fd(sampler->memory_stat_fd);
	sampler->memory_stat_fd = -1;
	if (cgroup_place_find(pid, sampler->cgroup_text, "memory", &place)) {
		open_hierarchy(&sampler->memory, &place, true);
		sampler->memory_stat_fd =
			cgroup_open(&place, strlen(place.directory), "memory.stat");
	} else {
		close_hierarchy(&sampler->memory);
	}
	sampler->reclaim.has_last = false;
	describe(sampler);
}

/* Reads cpu.stat of every level; the level that throttled longest since the last look counts. */
static void read_throttling(struct cgroup_sampler *sampler)
{
	int64_t worst[3] = {0, 0, -1};
	char text[STAT_LENGTH];

	for (size_t i = 0; i < sampler->cpu.level_count; i++) {
		struct level *level = &sampler->cpu.levels[i];
		int64_t periods, throttled, time, step[3];

		if (level->stat_fd < 0 || text_file_read_fd(level->stat_fd, text, sizeof(text)) < 0)
			continue;
		if (!text_find_number(text, "nr_periods", &periods) ||
			!text_find_number(text, "nr_throttled", &throttled))
			continue; /* the root, or a group without the controller: cannot throttle */
		if (text_find_number(text, "throttled_usec", &time)) /* v2 */
			time = time <= INT64_MAX / 1000 ? time * 1000 : INT64_MAX;
		else if (!text_find_number(text, "throttled_time", &time)) /* v1 */
			continue;
		step[0] = growing_counter_step(&level->counters[0], periods);
		step[1] = growing_counter_step(&level->counters[1], throttled);
		step[2] = growing_counter_step(&level->counters[2], time);
		if (step[2] > worst[2])
			memcpy(worst, step, sizeof(worst));
	}
	if (worst[2] < 0)
		return;
	sampler->periods += worst[0];
	sampler->throttled_periods += worst[1];
	sampler->throttled_ns += worst[2];
}

/* The tightest quota in thousandths of a CPU, or -1 without any. */
static int64_t read_quota(const struct hierarchy *hierarchy)
{
	int64_t tightest = -1;

	for (size_t i = 0; i < hierarchy->level_count; i++) {
		const struct level *level = &hierarchy->levels[i];
		char text[NUMBER_LENGTH], period_text[NUMBER_LENGTH];
		const char *second;
		int64_t quota, period;

		if (level->quota_fd < 0 ||
			text_file_read_fd(level->quota_fd, text, sizeof(text)) < 0 ||
			!text_parse_number(text, &quota) || quota <= 0)
			continue; /* "max" or -1: no quota */
		second = strchr(text, ' ');
		if (level->period_fd >= 0) {
			if (text_file_read_fd(level->period_fd, period_text, sizeof(period_text)) <
				0)
				continue;
			second = period_text;
		}
		if (!second || !text_parse_number(second, &period) || period <= 0 ||
			quota > INT64_MAX / 1000)
			continue;
		if (tightest < 0 || quota * 1000 / period < tightest)
			tightest = quota * 1000 / period;
	}
	return tightest;
}

static void read_limit_hits(struct cgroup_sampler *sampler)
{
	struct hierarchy *memory = &sampler->memory;
	char text[STAT_LENGTH];
	int64_t worst = 0;

	for (size_t i = 0; i < memory->level_count; i++) {
		struct level *level = &memory->levels[i];
		int64_t hits, step;

		if (level->stat_fd < 0 || text_file_read_fd(level->stat_fd, text, sizeof(text)) < 0)
			continue;
		if (memory->place.unified ? !text_find_number(text, "max", &hits)
					  : !text_parse_number(text, &hits))
			continue;
		step = growing_counter_step(&level->counters[0], hits);
		worst = step > worst ? step : worst;
	}
	sampler->limit_hits += worst;
}

static void sample_memory(struct cgroup_sampler *sampler, struct sample_list *list)
{
	char text[STAT_LENGTH];
	int64_t value;

	if (!sampler->memory.place.found)
		return;
	read_limit_hits(sampler);
	sample_list_add(list, METRIC_MEMORY_LIMIT_HITS, sampler->limit_hits);
	if (sampler->memory_stat_fd < 0 ||
		text_file_read_fd(sampler->memory_stat_fd, text, sizeof(text)) < 0)
		return;
	/* v1 has no such count; kernels before 5.18 only the one that includes kswapd's. */
	if (text_find_number(text, "pgscan_direct", &value) ||
		text_find_number(text, "pgscan", &value)) {
		sampler->reclaim_total += growing_counter_step(&sampler->reclaim, value);
		sample_list_add(list, METRIC_MEMORY_RECLAIM_PAGES, sampler->reclaim_total);
	}
}

static size_t cgroup_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct cgroup_sampler *sampler = (struct cgroup_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};
	char text[CGROUP_TEXT_LENGTH];
	int64_t quota;

	if (text_file_read_at(text, sizeof(text), "/proc/%d/cgroup", (int)base->pid) < 0)
		return 0; /* gone */
	if (!sampler->looked || strcmp(text, sampler->cgroup_text) != 0) {
		memcpy(sampler->cgroup_text, text, sizeof(text));
		look_for_places(sampler);
		sampler->looked = true;
	}
	if (sampler->cpu.place.found) {
		read_throttling(sampler);
		quota = read_quota(&sampler->cpu);
		sample_list_add(&list, METRIC_CGROUP_PERIODS, sampler->periods);
		sample_list_add(&list, METRIC_CGROUP_THROTTLED_PERIODS, sampler->throttled_periods);
		sample_list_add(&list, METRIC_CGROUP_THROTTLED_NS, sampler->throttled_ns);
		if (quota >= 0)
			sample_list_add(&list, METRIC_CGROUP_QUOTA_MILLICPU, quota);
	}
	sample_memory(sampler, &list);
	return list.count;
}

static void cgroup_destroy(struct sampler *base)
{
	struct cgroup_sampler *sampler = (struct cgroup_sampler *)base;

	close_hierarchy(&sampler->cpu);
	close_hierarchy(&sampler->memory);
	close_fd(sampler->memory_stat_fd);
	free(sampler);
}

int cgroup_sampler_create(pid_t pid, uint32_t rank, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = cgroup_sample, .destroy = cgroup_destroy};
	struct cgroup_sampler *sampler = calloc(1, sizeof(*sampler));
	char text[CGROUP_TEXT_LENGTH];

	if (!sampler)
		return -ENOMEM;
	sampler_init(&sampler->base, &operations, "cgroup", pid, rank);
	sampler->memory_stat_fd = -1;
	if (text_file_read_at(text, sizeof(text), "/proc/%d/cgroup", (int)pid) == 0) {
		memcpy(sampler->cgroup_text, text, sizeof(text));
		look_for_places(sampler);
		sampler->looked = true;
	}
	*result = &sampler->base;
	return 0;
}
