/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/ring/ring_reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "probe/ring/foreign_map.h"

struct ring_reader {
	int fd;
	struct ring_header *header;
	struct ring_record *slots;
	struct foreign_map map;
	uint32_t slot_count;
	uint64_t tail;
	uint64_t stalled_position;
	int64_t stalled_since_ns; /* 0 = no stall */
	struct ring_identity identity;
	struct ring_reader_counts counts;
};

static int check_header(struct ring_reader *reader, size_t file_bytes)
{
	const struct ring_header *header = reader->header;
	uint64_t magic = __atomic_load_n(&header->magic, __ATOMIC_ACQUIRE);
	uint32_t slot_count = __atomic_load_n(&header->slot_count, __ATOMIC_RELAXED);

	if (magic == 0)
		return -EAGAIN;
	if (magic != RING_MAGIC || header->version != RING_VERSION ||
		header->header_bytes != RING_HEADER_BYTES ||
		header->record_bytes != RING_RECORD_BYTES)
		return -EBADMSG;
	if (slot_count < RING_SLOT_COUNT_MIN || slot_count > RING_SLOT_COUNT_MAX ||
		(slot_count & (slot_count - 1)) ||
		file_bytes < RING_HEADER_BYTES + (size_t)slot_count * RING_RECORD_BYTES)
		return -EBADMSG;
	reader->slot_count = slot_count;
	reader->identity = (struct ring_identity){
		header->pid, header->user_id, header->start_time, header->pid_namespace};
	return 0;
}

int ring_reader_open(int fd, struct ring_reader **reader)
{
	return ring_reader_open_by(fd, fd, reader);
}

int ring_reader_open_by(int fd, int writable, struct ring_reader **result_reader)
{
	struct ring_reader *reader = calloc(1, sizeof(*reader));
	const size_t most = RING_HEADER_BYTES + (size_t)RING_SLOT_COUNT_MAX * RING_RECORD_BYTES;
	struct stat status;
	int result = -ENOMEM;

	if (!reader)
		goto close_fd;
	if (fstat(fd, &status)) {
		result = -errno;
		goto free_reader;
	}
	if (!S_ISREG(status.st_mode) || (uint64_t)status.st_size > most) {
		result = -EBADMSG;
		goto free_reader;
	}
	if (status.st_size < RING_HEADER_BYTES) {
		result = -EAGAIN;
		goto free_reader;
	}
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		result = errno == EWOULDBLOCK ? -EBUSY : -errno;
		goto free_reader;
	}
	result = foreign_map_init(&reader->map, writable, (size_t)status.st_size);
	if (result)
		goto free_reader;
	reader->header = reader->map.address;
	result = check_header(reader, reader->map.length_bytes);
	if (result)
		goto unmap;
	reader->fd = fd;
	reader->slots = (struct ring_record *)(void *)((char *)reader->header + RING_HEADER_BYTES);
	reader->tail = __atomic_load_n(&reader->header->tail, __ATOMIC_RELAXED);
	__atomic_fetch_add(&reader->header->control.reader_count, 1, __ATOMIC_RELAXED);
	*result_reader = reader;
	return 0;
unmap:
	foreign_map_fini(&reader->map);
free_reader:
	free(reader);
close_fd:
	close(fd);
	return result;
}

void ring_reader_close(struct ring_reader *reader)
{
	if (!reader)
		return;
	foreign_map_fini(&reader->map);
	close(reader->fd); /* gives the lock back */
	free(reader);
}

/* Gives the slot at the tail back to the writers, and goes on. */
static void release_slot(struct ring_reader *reader)
{
	struct ring_record *slot = &reader->slots[reader->tail & (reader->slot_count - 1)];

	__atomic_store_n(&slot->sequence, reader->tail + reader->slot_count, __ATOMIC_RELEASE);
	reader->tail++;
	reader->stalled_since_ns = 0;
	__atomic_store_n(&reader->header->tail, reader->tail, __ATOMIC_RELAXED);
}

/* Positions that cannot be: every slot is made free for the lap that starts at the head. */
static void resynchronise(struct ring_reader *reader)
{
	uint64_t head = __atomic_load_n(&reader->header->head, __ATOMIC_ACQUIRE);

	for (uint64_t i = 0; i < reader->slot_count; i++)
		__atomic_store_n(&reader->slots[(head + i) & (reader->slot_count - 1)].sequence,
			head + i, __ATOMIC_RELEASE);
	reader->tail = head;
	reader->stalled_since_ns = 0;
	reader->counts.resynchronised++;
	__atomic_store_n(&reader->header->tail, reader->tail, __ATOMIC_RELAXED);
}

static bool copy_record(struct ring_reader *reader, struct ring_record *record)
{
	const struct ring_record *slot = &reader->slots[reader->tail & (reader->slot_count - 1)];

	record->sequence = reader->tail;
	record->check = __atomic_load_n(&slot->check, __ATOMIC_RELAXED);
	record->kind = __atomic_load_n(&slot->kind, __ATOMIC_RELAXED);
	record->length_bytes = __atomic_load_n(&slot->length_bytes, __ATOMIC_RELAXED);
	for (size_t i = 0; i < RING_PAYLOAD_BYTES / 8; i++)
		record->words[i] = __atomic_load_n(&slot->words[i], __ATOMIC_RELAXED);
	return record->length_bytes <= RING_PAYLOAD_BYTES &&
	       record->check == ring_checksum(record, reader->tail);
}

/* True when the slot at the tail was claimed and its writer is to be given up. */
static bool is_abandoned(struct ring_reader *reader, int64_t now_ns, bool writers_gone)
{
	if (writers_gone)
		return true;
	if (!reader->stalled_since_ns || reader->stalled_position != reader->tail) {
		reader->stalled_position = reader->tail;
		reader->stalled_since_ns = now_ns ? now_ns : 1;
		return false;
	}
	return now_ns - reader->stalled_since_ns >= RING_STALL_NS;
}

int ring_reader_next(
	struct ring_reader *reader, int64_t now_ns, bool writers_gone, struct ring_record *record)
{
	for (uint32_t skipped = 0; skipped <= reader->slot_count; skipped++) {
		struct ring_record *slot = &reader->slots[reader->tail & (reader->slot_count - 1)];
		uint64_t head = __atomic_load_n(&reader->header->head, __ATOMIC_ACQUIRE);
		uint64_t sequence = __atomic_load_n(&slot->sequence, __ATOMIC_ACQUIRE);

		if (foreign_map_is_cut(&reader->map))
			return -EIO;
		if (head - reader->tail > reader->slot_count) {
			resynchronise(reader);
			return -EAGAIN;
		}
		if (sequence == reader->tail + 1) {
			bool good = copy_record(reader, record);

			release_slot(reader);
			if (good) {
				reader->counts.records++;
				return 0;
			}
			reader->counts.damaged++;
			continue;
		}
		if (sequence != reader->tail) {
			resynchronise(reader);
			return -EAGAIN;
		}
		if (head == reader->tail || !is_abandoned(reader, now_ns, writers_gone))
			return -EAGAIN;
		reader->counts.abandoned++;
		release_slot(reader);
	}
	return -EAGAIN;
}

void ring_reader_identity(const struct ring_reader *reader, struct ring_identity *identity)
{
	*identity = reader->identity;
}

void ring_reader_counts(const struct ring_reader *reader, struct ring_reader_counts *counts)
{
	*counts = reader->counts;
	counts->dropped_full = __atomic_load_n(&reader->header->dropped_full, __ATOMIC_RELAXED);
	counts->dropped_late = __atomic_load_n(&reader->header->dropped_late, __ATOMIC_RELAXED);
}

uint32_t ring_reader_request(struct ring_reader *reader, uint32_t kinds, int64_t stop_host_ns)
{
	struct ring_control *control = &reader->header->control;
	uint32_t request = __atomic_load_n(&control->deep_request, __ATOMIC_RELAXED) + 1;

	if (request == 0)
		request = 1;
	__atomic_store_n(&control->deep_kinds, kinds, __ATOMIC_RELAXED);
	__atomic_store_n(&control->deep_stop_host_ns, stop_host_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&control->deep_request, request, __ATOMIC_RELEASE);
	return request;
}

void ring_reader_want_launchers_cpu(struct ring_reader *reader)
{
	__atomic_store_n(&reader->header->control.launchers_cpu, 1, __ATOMIC_RELAXED);
}

void ring_reader_pause(struct ring_reader *reader, bool paused)
{
	__atomic_store_n(&reader->header->control.paused, paused ? 1 : 0, __ATOMIC_RELAXED);
}

void ring_reader_time_calls(struct ring_reader *reader, int64_t until_host_ns)
{
	__atomic_store_n(
		&reader->header->control.timed_until_host_ns, until_host_ns, __ATOMIC_RELAXED);
}
