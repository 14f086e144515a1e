/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Real page faults. Major: pages of a mapped file that have just been dropped from the page
 * cache, so that each touch reads the disk. Minor: fresh memory, touched and given back.
 */
#include "tests/workload/fault_means.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void major_spend(void *state, int64_t length_ns)
{
	struct major *major = state;
	int64_t end = work_monotonic_ns() + length_ns;
	size_t page_count = MAJOR_FILE_BYTES / PAGE_BYTES;
	size_t touched = 0;

	while (work_monotonic_ns() < end) {
		(void)major->bytes[major->next_page * PAGE_BYTES];
		major->next_page = (major->next_page + MAJOR_STRIDE_PAGES) % page_count;
		if (++touched % (page_count / 2) == 0)
			major_drop(major);
	}
	major_drop(major);
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
