/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open MPI polls in blocking collectives, and calls sched_yield() between two polls when
 * mpi_yield_when_idle is set. With more ranks than cores that still burns every core; this
 * sched_yield, exported by the program and so found before libc's, sleeps instead.
 */
#include <sched.h>
#include <stddef.h>
#include <time.h>

__attribute__((visibility("default"))) int sched_yield(void)
{
	const struct timespec pause = {.tv_nsec = 50000};

	nanosleep(&pause, NULL);
	return 0;
}
