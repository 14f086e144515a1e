/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real page faults. Major: pages of a mapped file that have just been dropped from the page
 * cache, so that each touch reads the disk. Reclaim: the same pages, which the limit of the rank's
 * own cgroup drops. Minor: fresh memory, touched and given back.
 */
#include "tests/workload/fault_means.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/workload/fault_group.h"
#include "tests/workload/work.h"

enum {
	MAJOR_FILE_BYTES = 32 << 20,
	MINOR_MAP_BYTES = 2 << 20,
	PAGE_BYTES = 4096,
	MAJOR_STRIDE_PAGES = 17, /* far enough apart that no read brings the next page in */
};

struct major {
	int fd;
	size_t next_page;
	volatile unsigned char *bytes;
};

/* Drops what was read: out of the page tables first, else the cache keeps it. */
static void major_drop(struct major *major)
{
	(void)madvise((void *)(uintptr_t)major->bytes, MAJOR_FILE_BYTES, MADV_DONTNEED);
	(void)posix_fadvise(major->fd, 0, MAJOR_FILE_BYTES, POSIX_FADV_DONTNEED);
}

/* True when the file's first page is gone from the page cache, as it should after a drop. */
static bool major_is_dropped(const struct major *major)
{
	unsigned char resident = 1;

	return mincore((void *)(uintptr_t)major->bytes, PAGE_BYTES, &resident) == 0 &&
	       (resident & 1) == 0;
}

static int major_fill(int fd)
{
	static unsigned char block[1 << 20];
	uint64_t seed = 1;

	for (size_t i = 0; i < sizeof(block); i += 8) {
		uint64_t number = random_next(&seed);

		memcpy(block + i, &number, 8);
	}
	for (size_t done = 0; done < MAJOR_FILE_BYTES; done += sizeof(block)) {
		if (write(fd, block, sizeof(block)) != (ssize_t)sizeof(block))
			return errno ? -errno : -EIO;
	}
	return fsync(fd) ? -errno : 0;
}

static int major_prepare(
	const struct fault *fault, const struct fault_environment *environment, void **state)
{
	struct major *major = calloc(1, sizeof(*major));
	char path[512];
	int result;

	(void)fault;
	if (!major)
		return -ENOMEM;
	snprintf(path, sizeof(path), "%s/slowrank-major-XXXXXX",
		environment->options->work_directory);
	major->fd = mkostemp(path, O_CLOEXEC);
	if (major->fd < 0) {
		result = -errno;
		goto free_major;
	}
	unlink(path);
	result = major_fill(major->fd);
	if (result)
		goto close_file;
	void *mapped = mmap(NULL, MAJOR_FILE_BYTES, PROT_READ, MAP_SHARED, major->fd, 0);
	if (mapped == MAP_FAILED) {
		result = -errno;
		goto close_file;
	}
	major->bytes = mapped;
	(void)madvise(mapped, MAJOR_FILE_BYTES, MADV_RANDOM);
	major_drop(major);
	if (!major_is_dropped(major)) {
		fprintf(stderr,
			"workload: %s keeps its files in memory: choose a --work-directory "
			"on a disk\n",
			environment->options->work_directory);
		result = -ENOTSUP;
		goto unmap;
	}
	*state = major;
	return 0;

unmap:
	munmap(mapped, MAJOR_FILE_BYTES);
close_file:
	close(major->fd);
free_major:
	free(major);
	return result;
}

static void major_touch(struct major *major, int64_t length_ns, bool drops)
{
	int64_t end = work_monotonic_ns() + length_ns;
	size_t page_count = MAJOR_FILE_BYTES / PAGE_BYTES;
	size_t touched = 0;

	while (work_monotonic_ns() < end) {
		(void)major->bytes[major->next_page * PAGE_BYTES];
		major->next_page = (major->next_page + MAJOR_STRIDE_PAGES) % page_count;
		if (++touched % (page_count / 2) == 0 && drops)
			major_drop(major);
	}
}

static void major_spend(void *state, int64_t length_ns)
{
	major_touch(state, length_ns, true);
	major_drop(state);
}

static void major_release(void *state)
{
	struct major *major = state;

	munmap((void *)(uintptr_t)major->bytes, MAJOR_FILE_BYTES);
	close(major->fd);
	free(major);
}

const struct fault_means fault_means_major = {
	.prepare = major_prepare,
	.spend = major_spend,
	.release = major_release,
};

struct reclaim {
	struct fault_group group;
	struct major *major;
};

/* It lives in its group from the start: only what it takes there counts. */
static int reclaim_prepare(
	const struct fault *fault, const struct fault_environment *environment, void **state)
{
	struct reclaim *reclaim = calloc(1, sizeof(*reclaim));
	void *major = NULL;
	int result;

	if (!reclaim)
		return -ENOMEM;
	result = major_prepare(fault, environment, &major);
	if (result)
		goto free_reclaim;
	reclaim->major = major;
	result = fault_group_enter(&reclaim->group, "memory");
	if (result)
		goto release_major;
	*state = reclaim;
	return 0;

release_major:
	major_release(major);
free_reclaim:
	free(reclaim);
	return result;
}

static int set_limit(const struct reclaim *reclaim, const char *limit)
{
	return fault_group_write(&reclaim->group,
		reclaim->group.unified ? "memory.max" : "memory.limit_in_bytes", limit);
}

/* Room for an eighth of the file. */
static int reclaim_begin(void *state, const struct fault_environment *environment)
{
	const struct reclaim *reclaim = state;
	char text[64];
	int result = fault_group_read(&reclaim->group,
		reclaim->group.unified ? "memory.current" : "memory.usage_in_bytes", text,
		sizeof(text));

	(void)environment;
	if (result)
		return result;
	snprintf(text, sizeof(text), "%lld", atoll(text) + MAJOR_FILE_BYTES / 8);
	return set_limit(reclaim, text);
}

static void reclaim_spend(void *state, int64_t length_ns)
{
	struct reclaim *reclaim = state;

	major_touch(reclaim->major, length_ns, false);
}

static void reclaim_end(void *state)
{
	const struct reclaim *reclaim = state;

	if (set_limit(reclaim, reclaim->group.unified ? "max" : "-1"))
		fprintf(stderr, "workload: cannot lift the memory limit\n");
}

static void reclaim_release(void *state)
{
	struct reclaim *reclaim = state;

	major_release(reclaim->major);
	fault_group_leave(&reclaim->group);
	free(reclaim);
}

const struct fault_means fault_means_reclaim = {
	.prepare = reclaim_prepare,
	.begin = reclaim_begin,
	.spend = reclaim_spend,
	.end = reclaim_end,
	.release = reclaim_release,
};

static void minor_spend(void *state, int64_t length_ns)
{
	int64_t end = work_monotonic_ns() + length_ns;

	(void)state;
	while (work_monotonic_ns() < end) {
		volatile unsigned char *bytes = mmap(NULL, MINOR_MAP_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (bytes == MAP_FAILED)
			return;
		(void)madvise((void *)(uintptr_t)bytes, MINOR_MAP_BYTES, MADV_NOHUGEPAGE);
		for (size_t i = 0; i < MINOR_MAP_BYTES && work_monotonic_ns() < end;
			i += PAGE_BYTES)
			bytes[i] = 1;
		munmap((void *)(uintptr_t)bytes, MINOR_MAP_BYTES);
	}
}

const struct fault_means fault_means_minor = {
	.spend = minor_spend,
};
