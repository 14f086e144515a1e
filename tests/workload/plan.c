/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/plan.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LINE_LENGTH_MAX = 255 };

static const char *const kind_names[FAULT_KIND_NR] = {
	[FAULT_NONE] = "none",
	[FAULT_COMPUTE] = "compute",
	[FAULT_THROTTLE] = "throttle",
	[FAULT_CONTENTION] = "contention",
	[FAULT_MAJOR] = "major",
	[FAULT_MINOR] = "minor",
	[FAULT_COMM] = "comm",
	[FAULT_KERNELS] = "kernels",
	[FAULT_INPUT] = "input",
	[FAULT_RECLAIM] = "reclaim",
};

const char *fault_kind_name(enum fault_kind kind)
{
	return (unsigned int)kind < FAULT_KIND_NR ? kind_names[kind] : "unknown";
}

static bool parse_kind(const char *text, enum fault_kind *kind)
{
	for (size_t i = 0; i < FAULT_KIND_NR; i++) {
		if (strcmp(text, kind_names[i]) == 0) {
			*kind = (enum fault_kind)i;
			return true;
		}
	}
	return false;
}

static bool parse_number(const char *text, double most, double *number)
{
	char *end;
	double value = strtod(text, &end);

	if (end == text || *end != '\0' || !(value >= 0) || value > most)
		return false;
	*number = value;
	return true;
}

/* Sets one KEY=VALUE of a fault. */
static bool parse_field(struct fault *fault, const char *key, const char *value)
{
	double number = 0;

	if (strcmp(key, "kind") == 0)
		return parse_kind(value, &fault->kind);
	if (!parse_number(value, 1e9, &number))
		return false;
	if (strcmp(key, "rank") == 0)
		fault->rank = (uint32_t)number;
	else if (strcmp(key, "first") == 0)
		fault->first_step = (uint64_t)number;
	else if (strcmp(key, "last") == 0)
		fault->last_step = (uint64_t)number;
	else if (strcmp(key, "size") == 0)
		fault->size_percent = number;
	else if (strcmp(key, "period_ms") == 0)
		fault->period_ms = number;
	else if (strcmp(key, "core") == 0)
		fault->core = (uint32_t)number;
	else if (strcmp(key, "hogs") == 0)
		fault->hog_count = (uint32_t)number;
	else
		return false;
	return true;
}

static int check_fault(const struct fault *fault, char *why, size_t why_size)
{
	if (fault->kind == FAULT_NONE)
		snprintf(why, why_size,
			"a fault needs kind=compute|throttle|contention|major|"
			"minor|comm|kernels|input|reclaim");
	else if (fault->last_step < fault->first_step)
		snprintf(why, why_size, "last=%llu is before first=%llu",
			(unsigned long long)fault->last_step,
			(unsigned long long)fault->first_step);
	else if (!(fault->size_percent > 0 && fault->size_percent <= 10000))
		snprintf(why, why_size, "size= must be above 0 and at most 10000 (percent)");
	else if (!(fault->period_ms >= 1 && fault->period_ms <= 1000))
		snprintf(why, why_size, "period_ms= must be 1 to 1000");
	else if (fault->hog_count > 64)
		snprintf(why, why_size, "hogs= must be at most 64");
	else
		return 0;
	return -EINVAL;
}

int fault_plan_parse_line(struct fault_plan *plan, const char *line, char *why, size_t why_size)
{
	char copy[LINE_LENGTH_MAX + 1];
	char *rest = NULL;
	long core_count = sysconf(_SC_NPROCESSORS_ONLN);
	struct fault fault = {.period_ms = 100,
		.last_step = UINT64_MAX,
		.core = core_count > 1 ? (uint32_t)core_count - 1 : 0};
	size_t field_count = 0;
	int result;

	if (strlen(line) > LINE_LENGTH_MAX) {
		snprintf(why, why_size, "the line is longer than %d bytes", LINE_LENGTH_MAX);
		return -EINVAL;
	}
	strcpy(copy, line);
	copy[strcspn(copy, "#\n")] = '\0';
	for (char *word = strtok_r(copy, " \t,", &rest); word;
		word = strtok_r(NULL, " \t,", &rest)) {
		char *equals = strchr(word, '=');

		if (equals)
			*equals = '\0';
		if (!equals || !parse_field(&fault, word, equals + 1)) {
			snprintf(why, why_size, "cannot read \"%s%s%s\"", word, equals ? "=" : "",
				equals ? equals + 1 : "");
			return -EINVAL;
		}
		field_count++;
	}
	if (field_count == 0)
		return 0;
	result = check_fault(&fault, why, why_size);
	if (result)
		return result;
	if (plan->fault_count == FAULT_PLAN_CAPACITY) {
		snprintf(why, why_size, "more than %d faults", FAULT_PLAN_CAPACITY);
		return -ENOSPC;
	}
	plan->faults[plan->fault_count++] = fault;
	return 0;
}

int fault_plan_read(struct fault_plan *plan, const char *path, char *why, size_t why_size)
{
	struct fault_plan read = *plan;
	char line[LINE_LENGTH_MAX + 2];
	FILE *file = fopen(path, "re");
	int result = 0;

	if (!file) {
		result = -errno;
		snprintf(why, why_size, "%s: %s", path, strerror(errno));
		return result;
	}
	while (!result && fgets(line, sizeof(line), file))
		result = fault_plan_parse_line(&read, line, why, why_size);
	fclose(file);
	if (!result)
		*plan = read;
	return result;
}
