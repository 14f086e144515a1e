/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ring/host_clock.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Written by any thread, always with the same. */
static struct {
	int64_t monotonic_ns, boot_ns;
	bool known;
} offsets;

/* "monotonic SECONDS NANOSECONDS", as wide as it likes. */
static int64_t offset_of(const char *text, const char *clock)
{
	const char *at = strstr(text, clock);
	char *end;

	if (!at)
		return 0;
	long long seconds = strtoll(at + strlen(clock), &end, 10);

	return (int64_t)seconds * 1000000000 + strtoll(end, NULL, 10);
}

/* The offsets in the file are those of children to come: of this process too, unless it just left a namespace. */
static bool is_in_its_namespace(void)
{
	char own[64] = "", children[64] = "";

	return readlink("/proc/self/ns/time", own, sizeof(own) - 1) > 0 &&
	       readlink("/proc/self/ns/time_for_children", children, sizeof(children) - 1) > 0 &&
	       strcmp(own, children) == 0;
}

static void read_offsets(void)
{
	int fd = open("/proc/self/timens_offsets", O_RDONLY | O_CLOEXEC); /* from Linux 5.6 on */
	char text[256];
	ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (length > 0 && is_in_its_namespace()) {
		text[length] = '\0';
		__atomic_store_n(
			&offsets.monotonic_ns, offset_of(text, "monotonic"), __ATOMIC_RELAXED);
		__atomic_store_n(&offsets.boot_ns, offset_of(text, "boottime"), __ATOMIC_RELAXED);
	}
	__atomic_store_n(&offsets.known, true, __ATOMIC_RELEASE);
}

int64_t host_clock_boot_offset_ns(void)
{
	if (!__atomic_load_n(&offsets.known, __ATOMIC_ACQUIRE))
		read_offsets();
	return __atomic_load_n(&offsets.boot_ns, __ATOMIC_RELAXED);
}

int64_t host_clock_now_ns(void)
{
	struct timespec now;

	if (!__atomic_load_n(&offsets.known, __ATOMIC_ACQUIRE))
		read_offsets();
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec -
	       __atomic_load_n(&offsets.monotonic_ns, __ATOMIC_RELAXED);
}
