/* SPDX-License-Identifier: Apache-2.0 */
/* The shared file, and the clock of the wrappers. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#include <x86intrin.h>
#endif

#include "probe/inject/verbs_wrap_internal.h"

static struct {
	char path[256];
	bool has_ticks; /* the processor's counter is constant and shared */
	bool clock_chosen;
	uint64_t first_ticks, first_ns;
	_Atomic uint64_t ns_per_tick; /* 32 bits behind the point; 0: not known yet */
} state;

/* Field 22 of /proc/self/stat: the start time, which tells apart processes of the same number. */
static unsigned long long own_start_time(void)
{
	char text[1024], *next;
	unsigned long long start = 0;
	int fd = open("/proc/self/stat", O_RDONLY | O_CLOEXEC);
	ssize_t length = fd >= 0 ? read(fd, text, sizeof(text) - 1) : -1;

	if (fd >= 0)
		close(fd);
	if (length <= 0)
		return 0;
	text[length] = '\0';
	next = strrchr(text, ')'); /* the name may hold anything */
	for (int field = 2; next && field < 22; field++)
		next = strchr(next + 1, ' ');
	if (next)
		start = strtoull(next + 1, NULL, 10);
	return start;
}

int verbs_table_create(struct verbs_table **result)
{
	const char *directory = getenv("SLOWRANK_RING_DIRECTORY");
	struct verbs_table *table;
	int error = 0, fd;

	if (!directory || directory[0] != '/')
		directory = VERBS_TABLE_DIRECTORY;
	if (snprintf(state.path, sizeof(state.path), "%s/" VERBS_TABLE_PREFIX "%u.%d.%llu",
		    directory, (unsigned)getuid(), (int)getpid(),
		    own_start_time()) >= (int)sizeof(state.path)) {
		state.path[0] = '\0';
		return -ENAMETOOLONG;
	}
	fd = open(state.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0 && errno == EEXIST) { /* of the program before an exec in this process */
		unlink(state.path);
		fd = open(state.path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	}
	if (fd < 0) {
		error = -errno;
		state.path[0] = '\0';
		return error;
	}
	/* Memory is taken now: a write into a full file system would be a signal later. */
	error = -posix_fallocate(fd, 0, sizeof(*table));
	table = error ? MAP_FAILED
		      : mmap(NULL, sizeof(*table), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (!error && table == MAP_FAILED)
		error = -errno;
	close(fd);
	if (error) {
		verbs_table_remove();
		return error;
	}
	table->version = VERBS_TABLE_VERSION;
	table->length_bytes = sizeof(*table);
	table->pid = (uint32_t)getpid();
	table->queue_pair_limit = VERBS_QUEUE_PAIRS_MAX;
	__atomic_store_n(&table->magic, VERBS_TABLE_MAGIC, __ATOMIC_RELEASE);
	*result = table;
	return 0;
}

void verbs_table_remove(void)
{
	if (state.path[0])
		unlink(state.path);
	state.path[0] = '\0';
}

void verbs_table_forget(void)
{
	state.path[0] = '\0';
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

#if defined(__x86_64__)
/* Invariant TSC: CPUID 80000007h, EDX bit 8 (Intel SDM 18.17.1, AMD APM volume 3 E.4.6). */
static bool has_ticks(void)
{
	unsigned a, b, c, d;

	return __get_cpuid(0x80000007, &a, &b, &c, &d) && (d & (1u << 8));
}

static uint64_t read_ticks(void)
{
	return __rdtsc();
}
#else
static bool has_ticks(void)
{
	return false;
}

static uint64_t read_ticks(void)
{
	return 0;
}
#endif

uint64_t verbs_clock_ticks(void)
{
	return state.has_ticks ? read_ticks() : monotonic_ns();
}

uint64_t verbs_clock_ns(uint64_t ticks)
{
	uint64_t scale;

	if (!state.has_ticks)
		return ticks;
	scale = atomic_load_explicit(&state.ns_per_tick, memory_order_relaxed);
	return (uint64_t)(((unsigned __int128)ticks * scale) >> 32);
}

/*
 * The longer the base, the better: with 100 us, two clock reads of 30 ns each are 0.06 %. The
 * first estimate waits for 20 us, once in a process.
 */
void verbs_clock_calibrate(void)
{
	uint64_t ticks, ns;

	if (!state.clock_chosen) {
		state.clock_chosen = true;
		state.has_ticks = has_ticks();
		state.first_ns = monotonic_ns();
		state.first_ticks = read_ticks();
	}
	if (!state.has_ticks)
		return;
	do {
		ns = monotonic_ns();
		ticks = read_ticks();
	} while (ns - state.first_ns < 20000);
	if (ticks > state.first_ticks)
		atomic_store_explicit(&state.ns_per_tick,
			(uint64_t)((((unsigned __int128)(ns - state.first_ns)) << 32) /
				   (ticks - state.first_ticks)),
			memory_order_relaxed);
}
