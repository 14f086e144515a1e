/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/cpu_throttles.h"

#include <stdio.h>
#include <unistd.h>

#include "probe/sources/text_file.h"

#define FOLDER "/sys/devices/system/cpu/cpu%u/thermal_throttle"

enum { NUMBER_LENGTH = 32 };

bool cpu_throttles_are_counted(void)
{
	char path[96];

	snprintf(path, sizeof(path), FOLDER "/core_throttle_count", 0u);
	return access(path, R_OK) == 0;
}

/* CPU_THROTTLES_CPUS of the set, evenly spread over it. */
static void choose(struct cpu_throttles *throttles, const cpu_set_t *cpus)
{
	unsigned all = (unsigned)CPU_COUNT(cpus), seen = 0;
	unsigned wanted = all < CPU_THROTTLES_CPUS ? all : CPU_THROTTLES_CPUS;

	throttles->cpus = *cpus;
	throttles->count = 0;
	for (unsigned i = 0; i < CPU_SETSIZE && throttles->count < wanted; i++) {
		if (!CPU_ISSET(i, cpus))
			continue;
		if (seen++ * wanted >= throttles->count * all)
			throttles->chosen[throttles->count++] = i;
	}
	for (unsigned i = 0; i < CPU_THROTTLES_CPUS; i++)
		throttles->cores[i].has_last = throttles->packages[i].has_last = false;
}

static int64_t count_of(unsigned cpu, const char *name, struct growing_counter *counter)
{
	char text[NUMBER_LENGTH];
	int64_t value;

	if (text_file_read_at(text, sizeof(text), FOLDER "/%s", cpu, name) < 0 ||
		!text_parse_number(text, &value) || value < 0)
		return 0;
	return growing_counter_step(counter, value);
}

void cpu_throttles_look(struct cpu_throttles *throttles, const cpu_set_t *cpus)
{
	int64_t most = 0;

	if (!CPU_EQUAL(&throttles->cpus, cpus))
		choose(throttles, cpus);
	for (unsigned i = 0; i < throttles->count; i++) {
		unsigned cpu = throttles->chosen[i];
		int64_t package = count_of(cpu, "package_throttle_count", &throttles->packages[i]);

		throttles->sum += count_of(cpu, "core_throttle_count", &throttles->cores[i]);
		most = package > most ? package : most;
	}
	throttles->sum += most;
}
