/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bpf/told_rank.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

enum { PAGE_BYTES = 4096 };

int64_t told_touch_anonymous(int64_t page_count)
{
	size_t length = (size_t)page_count * PAGE_BYTES;
	volatile char *memory =
		mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (memory == MAP_FAILED)
		return -1;
	madvise((void *)memory, length, MADV_NOHUGEPAGE);
	int64_t start = told_now_ns();
	for (size_t i = 0; i < length; i += PAGE_BYTES)
		memory[i] = 1;
	int64_t end = told_now_ns();
	munmap((void *)memory, length);
	return end - start;
}

/* The page cache forgets the file, so that each page comes from the disk. */
static int open_uncached(const char *path)
{
	int fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return -1;
	fsync(fd);
	posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
	posix_fadvise(fd, 0, 0, POSIX_FADV_RANDOM); /* no read-ahead */
	return fd;
}

int64_t told_touch_file(const char *path, int64_t page_count)
{
	size_t length = (size_t)page_count * PAGE_BYTES;
	struct rusage before, after;
	int fd = open_uncached(path);
	volatile char sum = 0;
	volatile char *memory;

	if (fd < 0)
		return -1;
	memory = mmap(NULL, length, PROT_READ, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED) {
		close(fd);
		return -1;
	}
	madvise((void *)memory, length, MADV_RANDOM);
	getrusage(RUSAGE_THREAD, &before);
	for (size_t i = 0; i < length; i += PAGE_BYTES)
		sum = (char)(sum + memory[i]);
	getrusage(RUSAGE_THREAD, &after);
	munmap((void *)memory, length);
	close(fd);
	return after.ru_majflt - before.ru_majflt;
}

int64_t told_read_file(const char *path, int64_t page_count)
{
	char bytes[PAGE_BYTES];
	int fd = open_uncached(path);

	if (fd < 0)
		return -1;
	int64_t start = told_now_ns();
	for (int64_t i = 0; i < page_count; i++) {
		if (pread(fd, bytes, sizeof(bytes), i * PAGE_BYTES) != sizeof(bytes)) {
			close(fd);
			return -1;
		}
	}
	int64_t end = told_now_ns();
	close(fd);
	return end - start;
}
