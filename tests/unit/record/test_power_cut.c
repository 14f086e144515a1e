/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A power cut at any moment: what was synced is on the disk; of what was written after that each write is there,
 * missing or torn. The writer's calls are logged (this program has them in place of libc's), and what a disk
 * may hold is made of the log.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cmocka.h>

#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"
#include "tests/unit/wire/random_batch.h"

enum {
	FRAMES = 40,
	FRAME_BYTES_MAX = 700,
	SYNC_EVERY = 9,
	FULL_AT = 15, /* the disk has no room for half of this one at first */
	CALLS_MAX = 200,
	DISK_BYTES = 64 * 1024,
	SECTOR_BYTES = 512,
};

enum call_kind { CALL_WRITE, CALL_CUT, CALL_SYNC };

struct call {
	enum call_kind kind;
	size_t offset, length; /* of a cut: the length of the file after it */
	uint8_t bytes[FRAME_BYTES_MAX + 100];
};

static struct call calls[CALLS_MAX];
static size_t call_count;
static bool logging;
static int full_in = -1; /* calls until the disk is full, for one write */

static struct call *log_call(enum call_kind kind)
{
	struct call *call = &calls[call_count++];

	assert_true(call_count <= CALLS_MAX);
	call->kind = kind;
	return call;
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	struct stat status;
	ssize_t written;

	fstat(fd, &status);
	if (logging && full_in == 0) {
		full_in = -1;
		errno = ENOSPC;
		return -1;
	}
	if (logging && full_in > 0 && --full_in == 0)
		count = 1; /* the head, and nothing more */
	written = syscall(SYS_writev, fd, pieces, count);
	if (logging && written > 0) {
		struct call *call = log_call(CALL_WRITE);
		size_t head = pieces[0].iov_len;

		call->offset = (size_t)status.st_size;
		call->length = (size_t)written;
		memcpy(call->bytes, pieces[0].iov_base, head);
		if (call->length > head)
			memcpy(call->bytes + head, pieces[1].iov_base, call->length - head);
	}
	return written;
}

int ftruncate(int fd, off_t length)
{
	int result = (int)syscall(SYS_ftruncate, fd, length);

	if (logging && result == 0)
		log_call(CALL_CUT)->length = (size_t)length;
	return result;
}

int fdatasync(int fd)
{
	(void)fd;
	if (logging)
		log_call(CALL_SYNC);
	return 0;
}

int fsync(int fd) /* of the folder */
{
	(void)fd;
	return 0;
}

static size_t make_frame(size_t number, uint8_t bytes[FRAME_BYTES_MAX])
{
	struct random_source random = {number + 1};
	size_t length = random_below(&random, FRAME_BYTES_MAX);

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)random_next(&random);
	return length;
}

static struct record_writer *open_writer(const char *path, bool continues)
{
	struct record_writer_options options = {.program = "test", .continues = continues};
	struct record_writer *writer = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	if (record_writer_create(path, &options, &writer, why))
		fail_msg("%s", why);
	return writer;
}

static int append(struct record_writer *writer, size_t number)
{
	uint8_t bytes[FRAME_BYTES_MAX];
	size_t length = make_frame(number, bytes);

	return record_writer_append(writer, bytes, length, (struct job_ns){(int64_t)number});
}

/* After each call: how many frames were whole in the file then. */
static size_t frames_after[CALLS_MAX];

static void write_record(const char *path)
{
	struct record_writer *writer;
	size_t noted = 0;

	logging = true;
	writer = open_writer(path, false);
	assert_int_equal(record_writer_settle(writer), 0);
	for (size_t i = 0; i < FRAMES; i++) {
		if (i == FULL_AT) {
			full_in = 1;
			assert_int_equal(append(writer, i), -ENOSPC);
		}
		for (; noted < call_count; noted++)
			frames_after[noted] = i;
		assert_int_equal(append(writer, i), 0);
		for (; noted < call_count; noted++)
			frames_after[noted] = i + 1;
		if (i % SYNC_EVERY == SYNC_EVERY - 1)
			assert_int_equal(record_writer_sync(writer), 0);
	}
	assert_int_equal(record_writer_finish(writer), 0);
	for (; noted < call_count; noted++)
		frames_after[noted] = FRAMES;
	logging = false;
}

struct disk {
	uint8_t bytes[DISK_BYTES];
	size_t length;
};

/* part: how much of a write is there, in bytes. */
static void apply(struct disk *disk, const struct call *call, size_t part)
{
	if (call->kind == CALL_SYNC)
		return;
	if (call->kind == CALL_CUT) {
		if (call->length < disk->length)
			memset(disk->bytes + call->length, 0, disk->length - call->length);
		disk->length = call->length;
		return;
	}
	assert_true(call->offset + call->length <= DISK_BYTES);
	memcpy(disk->bytes + call->offset, call->bytes, part < call->length ? part : call->length);
	if (part && disk->length < call->offset + call->length)
		disk->length = call->offset + call->length; /* the rest reads as zeros */
}

static void store(const char *path, const struct disk *disk)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CREAT, 0600);

	assert_int_equal(write(fd, disk->bytes, disk->length), disk->length);
	close(fd);
}

/* Only frames that were written, each once and in their order. Returns how many; *result: the last of the reader. */
static size_t read_back(const char *path, size_t synced, int *result)
{
	uint8_t expected[FRAME_BYTES_MAX];
	struct record_reader *reader;
	struct job_ns received;
	const void *bytes;
	size_t length, count = 0, next = 0;

	assert_int_equal(record_reader_open(path, &reader, NULL), 0);
	while ((*result = record_reader_next(reader, &bytes, &length, &received)) == 0) {
		size_t number = (size_t)received.value;

		assert_true(number >= next);
		assert_true(count >= synced || number == count); /* none of the synced is missing */
		assert_int_equal(length, make_frame(number, expected));
		assert_memory_equal(bytes, expected, length);
		next = number + 1;
		count++;
	}
	record_reader_close(reader);
	assert_true(count >= synced);
	return count;
}

static size_t states_checked;

static void check(const char *path, const struct disk *disk, size_t synced)
{
	int result;
	size_t count;

	states_checked++;
	store(path, disk);
	count = read_back(path, synced, &result);
	if (result == -ENODATA) /* the mark of a clean end promises that all is there */
		assert_int_equal(count, FRAMES);
	else
		assert_int_equal(result, -EBADMSG);
	if (result != -ENODATA && states_checked % 5 == 0) {
		struct record_writer *writer = open_writer(path, true);

		assert_int_equal(append(writer, FRAMES), 0);
		assert_int_equal(record_writer_finish(writer), 0);
		assert_int_equal(read_back(path, synced, &result), count + 1);
		assert_int_equal(result, -ENODATA);
	}
}

/* What calls[from..until) left unsynced: all of it but one call, of which `part` bytes are there. */
static void check_but_one(const char *path, const struct disk *synced_disk, size_t from,
	size_t until, size_t one, size_t part)
{
	static struct disk disk;

	disk = *synced_disk;
	for (size_t i = from; i < until; i++)
		if (i != one || (calls[i].kind == CALL_WRITE && part))
			apply(&disk, &calls[i], i == one ? part : SIZE_MAX);
	check(path, &disk, from ? frames_after[from - 1] : 0);
}

static void check_at_random(const char *path, const struct disk *synced_disk, size_t from,
	size_t until, struct random_source *random)
{
	static struct disk disk;

	disk = *synced_disk;
	for (size_t i = from; i < until; i++)
		if (random_below(random, 2))
			apply(&disk, &calls[i],
				random_below(random, 3)
					? SIZE_MAX
					: random_below(random, calls[i].length + 1));
	check(path, &disk, from ? frames_after[from - 1] : 0);
}

static void test_power_cut_at_any_moment(void **state)
{
	char path[] = "/tmp/slowrank-power-XXXXXX";
	struct random_source random = {7};
	static struct disk synced_disk; /* as of the last sync */
	size_t from = 0;		/* the first call after it */
	int fd = mkstemp(path);

	(void)state;
	write_record(path);
	for (size_t until = 1; until <= call_count; until++) {
		if (calls[until - 1].kind == CALL_SYNC) {
			for (; from < until; from++)
				apply(&synced_disk, &calls[from], SIZE_MAX);
		}
		if (!synced_disk.length)
			continue; /* nothing was acknowledged yet */
		check_but_one(path, &synced_disk, from, until, SIZE_MAX, 0);
		for (size_t one = from; one < until; one++) {
			check_but_one(path, &synced_disk, from, until, one, 0);
			check_but_one(path, &synced_disk, from, until, one, 1);
			check_but_one(path, &synced_disk, from, until, one, calls[one].length / 2);
			check_but_one(path, &synced_disk, from, until, one,
				SECTOR_BYTES - calls[one].offset % SECTOR_BYTES);
		}
		for (int i = 0; i < 8; i++)
			check_at_random(path, &synced_disk, from, until, &random);
	}
	assert_true(states_checked > 1000);
	assert_int_equal(calls[call_count - 1].kind, CALL_SYNC);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(test_power_cut_at_any_moment)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
