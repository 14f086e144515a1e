/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/cpu_times.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/sources/sampler.h"
#include "probe/sources/text_file.h"

enum {
	CPU_INFO_LENGTH = 8192, /* the first CPU's flags are in there */
	LINE_LENGTH = 160,	/* of a CPU at most: its name and ten numbers */
	STAT_LENGTH = (CPU_TIMES_CPUS_MAX + 1) * LINE_LENGTH,
	NUMBERS = 8,
	IDLE = 3,
	IOWAIT = 4,
	STEAL = 7,
};
/* Ticks are of 10 ms: more than this, 36 years, is no count, and would not fit in ns. */
#define TICKS_MAX (INT64_MAX / 10000000 / NUMBERS)

struct cpu_times {
	int fd;
	int error; /* of the last look */
	bool is_guest, ever_stolen, looked;
	struct host_ns looked_at;
	int64_t tick_ns;
	struct cpu_ticks ticks[CPU_TIMES_CPUS_MAX];
	struct growing_counter stolen[CPU_TIMES_CPUS_MAX], wanted[CPU_TIMES_CPUS_MAX];
	int64_t stolen_ns[CPU_TIMES_CPUS_MAX], wanted_ns[CPU_TIMES_CPUS_MAX];
	char text[STAT_LENGTH];
};

/* "cpu17 1 2 3 4 5 6 7 8 9 10": false if it is none. The line ends with a newline. */
static bool parse_line(const char *line, size_t *cpu, struct cpu_ticks *ticks)
{
	const char *at = line + 3;
	char *end;
	int64_t wanted = 0, stolen = 0;

	if (strncmp(line, "cpu", 3) != 0 || *at < '0' || *at > '9')
		return false;
	unsigned long number = strtoul(at, &end, 10);

	if (number >= CPU_TIMES_CPUS_MAX)
		return false;
	for (int i = 0; i < NUMBERS; i++) {
		at = end;
		if (*at != ' ' || at[1] < '0' || at[1] > '9')
			return false;
		long long value = strtoll(at, &end, 10);

		if (value > TICKS_MAX)
			return false;
		wanted += i == IDLE || i == IOWAIT ? 0 : value;
		stolen = i == STEAL ? value : stolen;
	}
	if (*end != ' ' && *end != '\n')
		return false;
	*cpu = number;
	*ticks = (struct cpu_ticks){.present = true, .stolen = stolen, .wanted = wanted};
	return true;
}

size_t cpu_times_parse(const char *text, struct cpu_ticks *ticks)
{
	size_t count = 0;

	memset(ticks, 0, CPU_TIMES_CPUS_MAX * sizeof(*ticks));
	for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
		struct cpu_ticks one;
		size_t cpu;

		if (parse_line(line, &cpu, &one)) {
			count += !ticks[cpu].present;
			ticks[cpu] = one;
		}
	}
	return count;
}

/* x86 says that there is a hypervisor; where nothing says so, there is taken to be none. */
static bool is_guest(void)
{
	char text[CPU_INFO_LENGTH];

	return text_file_read("/proc/cpuinfo", text, sizeof(text)) == 0 &&
	       strstr(text, " hypervisor");
}

int cpu_times_create(struct cpu_times **result)
{
	struct cpu_times *times = calloc(1, sizeof(*times));

	if (!times)
		return -ENOMEM;
	times->fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
	times->error = times->fd < 0 ? -errno : 0;
	times->is_guest = is_guest();
	times->tick_ns = 1000000000 / sysconf(_SC_CLK_TCK);
	*result = times;
	return 0;
}

void cpu_times_destroy(struct cpu_times *times)
{
	if (!times)
		return;
	if (times->fd >= 0)
		close(times->fd);
	free(times);
}

static int read_all(struct cpu_times *times)
{
	int error = text_file_read_fd(times->fd, times->text, sizeof(times->text));

	if (error < 0)
		return error;
	if (cpu_times_parse(times->text, times->ticks) == 0)
		return -ENOTSUP;
	for (size_t i = 0; i < CPU_TIMES_CPUS_MAX; i++) {
		const struct cpu_ticks *ticks = &times->ticks[i];

		times->stolen_ns[i] = times->wanted_ns[i] = 0;
		if (!ticks->present) { /* taken out: what it counts when it is back is another matter */
			times->stolen[i].has_last = times->wanted[i].has_last = false;
			continue;
		}
		times->ever_stolen |= ticks->stolen > 0;
		times->stolen_ns[i] =
			times->tick_ns * growing_counter_step(&times->stolen[i], ticks->stolen);
		times->wanted_ns[i] =
			times->tick_ns * growing_counter_step(&times->wanted[i], ticks->wanted);
	}
	return times->is_guest && !times->ever_stolen ? -ENODATA : 0;
}

int cpu_times_look(struct cpu_times *times, struct host_ns now, const cpu_set_t *cpus,
	int64_t *stolen_ns, int64_t *wanted_ns)
{
	int64_t stolen = 0, wanted = 0;

	if (times->fd < 0)
		return times->error;
	if (!times->looked || times->looked_at.value != now.value) {
		times->error = read_all(times);
		times->looked = true;
		times->looked_at = now;
	}
	if (times->error < 0)
		return times->error;
	for (size_t i = 0; i < CPU_TIMES_CPUS_MAX; i++) {
		stolen += CPU_ISSET(i, cpus) ? times->stolen_ns[i] : 0;
		wanted += CPU_ISSET(i, cpus) ? times->wanted_ns[i] : 0;
	}
	*stolen_ns = stolen;
	*wanted_ns = wanted;
	return 0;
}
