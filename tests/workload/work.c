/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/work.h"

#include <errno.h>
#include <time.h>

static int64_t clock_ns(clockid_t clock)
{
	struct timespec now;

	clock_gettime(clock, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t work_monotonic_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

int64_t work_realtime_ns(void)
{
	return clock_ns(CLOCK_REALTIME);
}

int64_t work_thread_cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

int64_t work_process_cpu_ns(void)
{
	return clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

void work_spin(int64_t cpu_ns)
{
	int64_t end = work_thread_cpu_ns() + cpu_ns;
	volatile double keep = 0;
	double x = 1.0;

	if (cpu_ns <= 0)
		return;
	do {
		/* About 10 us of dependent multiplications between two looks at the clock. */
		for (int i = 0; i < 4000; i++)
			x = x * 1.0000001 + 1e-9;
		keep = x;
	} while (work_thread_cpu_ns() < end);
	(void)keep;
}

void work_sleep(int64_t length_ns)
{
	struct timespec end;
	int64_t wake;

	if (length_ns <= 0)
		return;
	wake = work_monotonic_ns() + length_ns;
	end = (struct timespec){.tv_sec = wake / 1000000000, .tv_nsec = wake % 1000000000};
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}
