/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ring/ring_writer.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "probe/ring/host_clock.h"

enum { PATH_BYTES_MAX = 4096, DESCRIPTOR_LEAST = 500 };

int ring_start_time(int proc_fd, const char *pid, uint64_t *start_time)
{
	char path[64], text[1024], *field;
	ssize_t length;
	int fd;

	snprintf(path, sizeof(path), "%s%s/stat", proc_fd < 0 ? "/proc/" : "", pid);
	fd = openat(proc_fd < 0 ? AT_FDCWD : proc_fd, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	length = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (length <= 0)
		return -EIO;
	text[length] = '\0';
	field = strrchr(text, ')'); /* the name may hold anything; field 2 ends here */
	for (int i = 2; field && i < 22; i++)
		field = strchr(field + 1, ' ');
	if (!field)
		return -EBADMSG;
	*start_time = strtoull(field + 1, NULL, 10) -
		      (uint64_t)(host_clock_boot_offset_ns() / (1000000000 / sysconf(_SC_CLK_TCK)));
	return 0;
}

/*
 * Stays open: a reader of another user may take it where it may not open the file. Far from the numbers that a program's
 * own files get.
 */
static int32_t keep_descriptor(int fd)
{
	int kept = fcntl(fd, F_DUPFD_CLOEXEC, DESCRIPTOR_LEAST);

	close(fd);
	return kept < 0 ? 0 : kept;
}

static void fill_header(struct ring_header *header, uint32_t slot_count, uint64_t start_time)
{
	char name[32]; /* "pid:[4026531836]" */
	ssize_t length = readlink("/proc/self/ns/pid", name, sizeof(name) - 1);

	header->version = RING_VERSION;
	header->header_bytes = RING_HEADER_BYTES;
	header->record_bytes = RING_RECORD_BYTES;
	header->slot_count = slot_count;
	header->pid = (int32_t)getpid();
	header->user_id = (uint32_t)getuid();
	header->start_time = start_time;
	if (length > 5) {
		name[length] = '\0';
		header->pid_namespace = strtoull(name + 5, NULL, 10);
	}
}

static size_t bytes_of(uint32_t slot_count)
{
	return RING_HEADER_BYTES + (size_t)slot_count * RING_RECORD_BYTES;
}

/* The file system of the ring may be small, and ranks are many. */
static uint32_t fitting_slots(int fd, uint32_t slot_count)
{
	struct statvfs status;
	uint64_t part;

	if (fstatvfs(fd, &status) < 0 || !status.f_blocks) /* no limit */
		return slot_count;
	part = (uint64_t)status.f_blocks * status.f_frsize / RING_PARTS;
	while (slot_count > RING_SLOT_COUNT_MIN && bytes_of(slot_count) > part)
		slot_count /= 2;
	return slot_count;
}

int ring_writer_create(const char *directory, uint32_t slot_count, struct ring_writer *writer)
{
	size_t bytes;
	char path[PATH_BYTES_MAX];
	struct ring_header *header;
	struct ring_record *slots;
	uint64_t start_time;
	int fd, length, descriptor, result;

	if (slot_count < RING_SLOT_COUNT_MIN || slot_count > RING_SLOT_COUNT_MAX ||
		(slot_count & (slot_count - 1)))
		return -EINVAL;
	result = ring_start_time(-1, "self", &start_time);
	if (result)
		return result;
	length = snprintf(path, sizeof(path), "%s/" RING_FILE_PREFIX "%u.%d.%" PRIu64, directory,
		(unsigned)getuid(), (int)getpid(), start_time);
	if (length < 0 || (size_t)length >= sizeof(path))
		return -ENAMETOOLONG;
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	slot_count = fitting_slots(fd, slot_count);
	bytes = bytes_of(slot_count);
	/* Reserved now: a write to a full file system would be a SIGBUS in the job. */
	result = -posix_fallocate(fd, 0, (off_t)bytes);
	if (result)
		goto remove;
	header = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (header == MAP_FAILED) {
		result = -errno;
		goto remove;
	}
	descriptor = keep_descriptor(fd);
	header->descriptor = descriptor;
	slots = (struct ring_record *)(void *)((char *)header + RING_HEADER_BYTES);
	fill_header(header, slot_count, start_time);
	for (uint32_t i = 0; i < slot_count; i++)
		slots[i].sequence = i;
	__atomic_store_n(&header->magic, RING_MAGIC, __ATOMIC_RELEASE);
	*writer = (struct ring_writer){header, slots, slot_count, descriptor};
	return 0;
remove:
	unlink(path);
	close(fd);
	return result;
}

void ring_writer_destroy(struct ring_writer *writer)
{
	if (writer->descriptor)
		close(writer->descriptor);
	if (writer->header)
		munmap(writer->header, bytes_of(writer->slot_count));
	*writer = (struct ring_writer){0};
}

/* A free slot and its position, or NULL when the ring is full. Bounded by the other writers. */
static struct ring_record *claim(struct ring_writer *writer, uint64_t *position)
{
	struct ring_header *header = writer->header;
	uint64_t head = __atomic_load_n(&header->head, __ATOMIC_RELAXED);

	for (unsigned attempt = 0; attempt < 1024; attempt++) {
		struct ring_record *slot = &writer->slots[head & (writer->slot_count - 1)];
		uint64_t sequence = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);
		int64_t lead = (int64_t)(sequence - head);

		if (lead < 0)
			return NULL;
		if (lead > 0) {
			head = __atomic_load_n(&header->head, __ATOMIC_RELAXED);
		} else if (__atomic_compare_exchange_n(&header->head, &head, head + 1, true,
				   __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			*position = head;
			return slot;
		}
	}
	return NULL;
}

bool ring_write(struct ring_writer *writer, enum ring_record_kind kind, const void *payload,
	size_t payload_bytes)
{
	struct ring_record record = {.kind = (uint16_t)kind};
	uint64_t position, expected;
	struct ring_record *slot;

	if (payload_bytes > RING_PAYLOAD_BYTES)
		payload_bytes = RING_PAYLOAD_BYTES;
	record.length_bytes = (uint16_t)payload_bytes;
	memcpy(record.words, payload, payload_bytes);
	slot = claim(writer, &position);
	if (!slot) {
		__atomic_fetch_add(&writer->header->dropped_full, 1, __ATOMIC_RELAXED);
		return false;
	}
	/* Relaxed stores, not memcpy: a reader that gave the slot up may look at it meanwhile. */
	record.check = ring_checksum(&record, position);
	__atomic_store_n(&slot->check, record.check, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->kind, record.kind, __ATOMIC_RELAXED);
	__atomic_store_n(&slot->length_bytes, record.length_bytes, __ATOMIC_RELAXED);
	for (size_t i = 0; i < RING_PAYLOAD_BYTES / 8; i++)
		__atomic_store_n(&slot->words[i], record.words[i], __ATOMIC_RELAXED);
	expected = position;
	if (__atomic_compare_exchange_n(&slot->sequence, &expected, position + 1, false,
		    __ATOMIC_RELEASE, __ATOMIC_RELAXED))
		return true;
	__atomic_fetch_add(&writer->header->dropped_late, 1, __ATOMIC_RELAXED);
	return false;
}
