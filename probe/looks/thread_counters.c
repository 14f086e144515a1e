/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/looks/thread_counters.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "probe/sources/text_file.h"

enum { TEXT_LENGTH = 1024 };

struct counters {
	int64_t cpu_ns, blocked_ns, major_faults;
};

/* Without delay accounting (kernel.task_delayacct) the kernel's count stays 0. */
static bool counts_delays(void)
{
	char text[8];

	return text_file_read("/proc/sys/kernel/task_delayacct", text, sizeof(text)) == 0 &&
	       text[0] == '1';
}

/* proc(5), /proc/PID/stat: fields 12 and 42, counted from 1; behind the name, which ends with the last bracket. */
static void read_stat(const char *text, struct counters *counters)
{
	const char *at = strrchr(text, ')');
	int64_t ticks_a_second = sysconf(_SC_CLK_TCK), number;

	for (int field = 3; at && field <= 42; field++) {
		at = strchr(at + 1, ' ');
		if (!at || !text_parse_number(at, &number))
			continue;
		if (field == 12)
			counters->major_faults = number;
		else if (field == 42 && ticks_a_second > 0 && counts_delays())
			counters->blocked_ns = number * (1000000000 / ticks_a_second);
	}
}

static struct counters read_counters(const struct stack_thread_info *thread)
{
	struct counters counters = {-1, -1, -1};
	char text[TEXT_LENGTH];

	if (text_file_read_at(text, sizeof(text), "/proc/%d/task/%d/schedstat", thread->pid,
		    thread->tid) == 0 &&
		!text_parse_number(text, &counters.cpu_ns))
		counters.cpu_ns = -1;
	if (text_file_read_at(
		    text, sizeof(text), "/proc/%d/task/%d/stat", thread->pid, thread->tid) == 0)
		read_stat(text, &counters);
	return counters;
}

void thread_counters_begin(struct stack_thread_info *thread)
{
	struct counters now = read_counters(thread);

	thread->cpu_ns = now.cpu_ns;
	thread->blocked_ns = now.blocked_ns;
	thread->major_faults = now.major_faults;
}

static int64_t growth(int64_t from, int64_t to)
{
	return from >= 0 && to >= from ? to - from : -1;
}

void thread_counters_end(struct stack_thread_info *thread)
{
	struct counters now = read_counters(thread);

	thread->cpu_ns = growth(thread->cpu_ns, now.cpu_ns);
	thread->blocked_ns = growth(thread->blocked_ns, now.blocked_ns);
	thread->major_faults = growth(thread->major_faults, now.major_faults);
}
