/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Preloaded into a program: its time of day is off by as many nanoseconds as the file of STEPPED_CLOCK says, a number
 * of 8 bytes, which may change at any time. The clocks that no one sets are as they are.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static const volatile int64_t none;
static const volatile int64_t *offset_ns = &none;

__attribute__((constructor)) static void open_offset(void)
{
	const char *path = getenv("STEPPED_CLOCK");
	int fd = path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
	void *map = MAP_FAILED;

	if (fd >= 0 && ftruncate(fd, sizeof(*offset_ns)) == 0)
		map = mmap(NULL, sizeof(*offset_ns), PROT_READ, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (map != MAP_FAILED)
		offset_ns = map;
}

int clock_gettime(clockid_t clock, struct timespec *now)
{
	int result = (int)syscall(SYS_clock_gettime, clock, now);
	int64_t value;

	if (result || (clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE))
		return result;
	value = now->tv_sec * INT64_C(1000000000) + now->tv_nsec + *offset_ns;
	*now = (struct timespec){value / 1000000000, value % 1000000000};
	return 0;
}

int gettimeofday(struct timeval *restrict now, void *restrict zone)
{
	struct timespec time;

	(void)zone;
	clock_gettime(CLOCK_REALTIME, &time);
	*now = (struct timeval){time.tv_sec, time.tv_nsec / 1000};
	return 0;
}

time_t time(time_t *result)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	if (result)
		*result = now.tv_sec;
	return now.tv_sec;
}
