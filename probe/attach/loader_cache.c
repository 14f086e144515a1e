/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/loader_cache.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* glibc's sysdeps/generic/dl-cache.h, format "glibc-ld.so.cache1.1". */
static const char magic[] = "glibc-ld.so.cache1.1";
enum {
	MAGIC_BYTES = sizeof(magic) - 1,
	FILE_BYTES_MAX = 16 << 20, /* 100 times what a full installation has */
};

struct cache_header {
	char magic[MAGIC_BYTES];
	uint32_t library_count;
	uint32_t string_bytes;
	uint8_t flags;
	uint8_t padding[3];
	uint32_t extension_offset;
	uint32_t unused[3];
};
_Static_assert(sizeof(struct cache_header) == 48, "loader cache header layout");

struct cache_entry {
	int32_t flags;
	uint32_t key;	/* offset of the name, from the start of the header */
	uint32_t value; /* offset of the path */
	uint32_t os_version;
	uint64_t hardware;
};
_Static_assert(sizeof(struct cache_entry) == 24, "loader cache entry layout");

/* Until glibc 2.32 the new format lies behind the old one: magic, padding, count, entries of 12
 * bytes, then aligned. Returns where it starts. */
static size_t skip_old_format(const char *bytes, size_t length)
{
	static const char old_magic[] = "ld.so-1.7.0";
	enum { OLD_HEADER_BYTES = 16, OLD_ENTRY_BYTES = 12, ALIGNMENT = 8 };
	uint32_t count;
	size_t end;

	if (length < OLD_HEADER_BYTES || memcmp(bytes, old_magic, sizeof(old_magic) - 1) != 0)
		return 0;
	memcpy(&count, bytes + OLD_HEADER_BYTES - sizeof(count), sizeof(count));
	end = OLD_HEADER_BYTES + (size_t)count * OLD_ENTRY_BYTES;
	end = (end + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	return end < length ? end : length;
}

static void visit_entries(const char *bytes, size_t length,
	void (*visit)(void *context, const char *library), void *context)
{
	const struct cache_header *header = (const void *)bytes;
	const struct cache_entry *entries = (const void *)(bytes + sizeof(*header));

	if (length < sizeof(*header) || memcmp(header->magic, magic, MAGIC_BYTES) != 0 ||
		header->library_count > (length - sizeof(*header)) / sizeof(*entries))
		return;
	for (uint32_t i = 0; i < header->library_count; i++) {
		size_t at = entries[i].value;

		if (at < length && memchr(bytes + at, '\0', length - at))
			visit(context, bytes + at);
	}
}

/* A copy: whoever owns the file may cut it, and behind the end of a mapping a look would be a signal. */
static char *read_file(int fd, size_t *length)
{
	struct stat status;
	char *bytes;
	ssize_t got;

	if (fstat(fd, &status) || status.st_size <= 0 || status.st_size > FILE_BYTES_MAX)
		return NULL;
	bytes = malloc((size_t)status.st_size);
	if (!bytes)
		return NULL;
	got = pread(fd, bytes, (size_t)status.st_size, 0);
	if (got <= 0) {
		free(bytes);
		return NULL;
	}
	*length = (size_t)got;
	return bytes;
}

void loader_cache_visit(
	const char *path, void (*visit)(void *context, const char *library), void *context)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	size_t length, skipped;
	char *bytes;

	if (fd < 0)
		return;
	bytes = read_file(fd, &length);
	close(fd);
	if (!bytes)
		return;
	skipped = skip_old_format(bytes, length);
	visit_entries(bytes + skipped, length - skipped, visit, context);
	free(bytes);
}
