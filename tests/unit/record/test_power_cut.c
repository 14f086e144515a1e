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
	FRAMES = 64,
	FRAME_BYTES_MAX = 700,
	SYNC_EVERY = 6,
	FULL_AT = 15, /* the disk has no room for half of this one at first */
	LIMIT_BYTES = 26 * 1024,
	SUMS_BYTES = 50,
	CALLS_MAX = 2000,
	FILES_MAX = 16,
	DISK_BYTES = 64 * 1024,
	SECTOR_BYTES = 512,
};

enum call_kind { CALL_WRITE, CALL_CUT, CALL_SYNC, CALL_RENAME, CALL_SYNC_FOLDER };

struct call {
	enum call_kind kind;
	size_t file;	       /* of a rename: which the record's name is from now on */
	size_t offset, length; /* of a cut: the length of the file after it */
	uint8_t *bytes;
	size_t promised, written; /* frames, before it */
};

static struct call calls[CALLS_MAX];
static size_t call_count;
static ino_t files[FILES_MAX]; /* the newest of a number is meant: numbers come again */
static size_t file_count;
static size_t promised, written;
static bool logging;
static int full_in = -1; /* calls until the disk is full, for one write */

static struct call *log_call(enum call_kind kind, size_t file)
{
	struct call *call = &calls[call_count++];

	assert_true(call_count <= CALLS_MAX);
	*call = (struct call){.kind = kind, .file = file, .promised = promised, .written = written};
	return call;
}

static size_t file_of(ino_t number)
{
	for (size_t i = file_count; i-- > 0;) {
		if (files[i] == number)
			return i;
	}
	assert_true(file_count < FILES_MAX);
	files[file_count] = number;
	return file_count++;
}

static size_t file_of_descriptor(int fd)
{
	struct stat status;

	assert_int_equal(fstat(fd, &status), 0);
	return file_of(status.st_ino);
}

ssize_t writev(int fd, const struct iovec *pieces, int count)
{
	struct stat status;
	ssize_t done;

	fstat(fd, &status);
	if (logging && full_in == 0) {
		full_in = -1;
		errno = ENOSPC;
		return -1;
	}
	if (logging && full_in > 0 && --full_in == 0)
		count = 1; /* the head, and nothing more */
	done = syscall(SYS_writev, fd, pieces, count);
	if (logging && done > 0) {
		struct call *call = log_call(CALL_WRITE, file_of(status.st_ino));
		size_t head = pieces[0].iov_len;

		call->offset = (size_t)status.st_size;
		call->length = (size_t)done;
		call->bytes = malloc((size_t)done);
		memcpy(call->bytes, pieces[0].iov_base, head);
		if (call->length > head)
			memcpy(call->bytes + head, pieces[1].iov_base, call->length - head);
	}
	return done;
}

int ftruncate(int fd, off_t length)
{
	int result = (int)syscall(SYS_ftruncate, fd, length);

	if (logging && result == 0) {
		struct stat status;

		fstat(fd, &status);
		if (length == 0) { /* a new one */
			assert_true(file_count < FILES_MAX);
			files[file_count++] = status.st_ino;
		} else {
			log_call(CALL_CUT, file_of_descriptor(fd))->length = (size_t)length;
		}
	}
	return result;
}

int fdatasync(int fd)
{
	if (logging)
		log_call(CALL_SYNC, file_of_descriptor(fd));
	return 0;
}

int fsync(int fd) /* of the folder */
{
	(void)fd;
	if (logging)
		log_call(CALL_SYNC_FOLDER, 0);
	return 0;
}

int renameat(int from_folder, const char *from, int to_folder, const char *to)
{
	struct stat status;

	if (logging && fstatat(from_folder, from, &status, 0) == 0)
		log_call(CALL_RENAME, file_of(status.st_ino));
	return (int)syscall(SYS_renameat, from_folder, from, to_folder, to);
}

static size_t make_frame(size_t number, uint8_t bytes[FRAME_BYTES_MAX])
{
	struct random_source random = {number + 1};
	size_t length = random_below(&random, FRAME_BYTES_MAX);

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)random_next(&random);
	return length;
}

static int save(void *context, struct record_writer *writer)
{
	uint8_t bytes[SUMS_BYTES] = {0};

	(void)context;
	return record_writer_save(
		writer, RECORD_JOB, bytes, sizeof(bytes), (struct job_ns){(int64_t)written});
}

/* What came with frames 20 to 22. */
static const struct record_span *get_spans(void *context, size_t *count)
{
	static const struct record_span span = {{20}, {22}};

	(void)context;
	*count = 1;
	return &span;
}

static struct record_writer *open_writer(const char *path, bool continues, uint64_t bytes_max)
{
	struct record_writer_options options = {.program = "test",
		.continues = continues,
		.bytes_max = bytes_max,
		.get_spans = get_spans,
		.save = save};
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

static void write_record(const char *path, uint64_t bytes_max)
{
	struct record_writer *writer;

	for (size_t i = 0; i < call_count; i++)
		free(calls[i].bytes);
	call_count = file_count = promised = written = 0;
	logging = true;
	writer = open_writer(path, false, bytes_max);
	assert_int_equal(record_writer_settle(writer), 0);
	for (size_t i = 0; i < FRAMES; i++) {
		if (i == FULL_AT) {
			full_in = 1;
			assert_int_equal(append(writer, i), -ENOSPC);
		}
		assert_int_equal(append(writer, i), 0);
		written = i + 1;
		if (record_writer_wants_sums(writer))
			assert_int_equal(save(NULL, writer), 0);
		assert_int_equal(record_writer_thin(writer), 0);
		if (i % SYNC_EVERY == SYNC_EVERY - 1) {
			assert_int_equal(record_writer_sync(writer), 0);
			promised = i + 1;
		}
	}
	assert_int_equal(record_writer_finish(writer), 0);
	promised = FRAMES;
	logging = false;
}

struct disk {
	uint8_t bytes[DISK_BYTES];
	size_t length;
};

/* part: how much of a write is there, in bytes. */
static void apply(struct disk *disk, const struct call *call, size_t part)
{
	if (call->kind == CALL_CUT) {
		if (call->length < disk->length)
			memset(disk->bytes + call->length, 0, disk->length - call->length);
		disk->length = call->length;
	}
	if (call->kind != CALL_WRITE)
		return;
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

/*
 * Only frames that were written, each once and in their order, or told of as thinned. Returns how many;
 * *result: the last of the reader.
 */
static size_t read_back(const char *path, size_t synced, int *result)
{
	uint8_t expected[FRAME_BYTES_MAX];
	struct record_reader *reader;
	struct record_frame frame;
	struct record_reader_state state;
	size_t count = 0, next = 0;

	assert_int_equal(record_reader_open(path, &reader, NULL), 0);
	while ((*result = record_reader_frame(reader, &frame)) == 0) {
		size_t number = (size_t)frame.stamp.value;

		record_reader_get_state(reader, &state);
		count = state.frames + state.frames_thinned;
		if (frame.kind == RECORD_GAP)
			next = number + 1;
		if (frame.kind != RECORD_BATCH)
			continue;
		assert_true(number >= next);
		assert_true(
			count > synced || number == count - 1); /* none of the synced is missing */
		assert_int_equal(frame.length, make_frame(number, expected));
		assert_memory_equal(frame.bytes, expected, frame.length);
		next = number + 1;
	}
	record_reader_close(reader);
	assert_true(count >= synced);
	return count;
}

static size_t states_checked, thinned_checked;

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
		struct record_writer *writer = open_writer(path, true, LIMIT_BYTES);
		struct record_writer_state state;

		assert_int_equal(append(writer, FRAMES), 0);
		record_writer_get_state(writer, &state);
		thinned_checked += state.thinned;
		assert_int_equal(record_writer_thin(writer), 0);
		assert_int_equal(record_writer_finish(writer), 0);
		assert_int_equal(read_back(path, synced, &result), count + 1);
		assert_int_equal(result, -ENODATA);
	}
}

/* Where a power cut happens: behind calls[until - 1]; the record's name is that of a file. */
struct moment {
	size_t until, file;
	size_t synced; /* calls before this one, of the file, are on the disk */
	size_t promised;
};

/* All that the file was given but calls[one], of which `part` bytes are there. */
static void check_but_one(const char *path, const struct moment *moment, size_t one, size_t part)
{
	static struct disk disk;

	memset(&disk, 0, sizeof(disk));
	for (size_t i = 0; i < moment->until; i++)
		if (calls[i].file == moment->file &&
			(i != one || (calls[i].kind == CALL_WRITE && part)))
			apply(&disk, &calls[i], i == one ? part : SIZE_MAX);
	check(path, &disk, moment->promised);
}

static void check_at_random(
	const char *path, const struct moment *moment, struct random_source *random)
{
	static struct disk disk;

	memset(&disk, 0, sizeof(disk));
	for (size_t i = 0; i < moment->until; i++)
		if (calls[i].file == moment->file &&
			(i < moment->synced || random_below(random, 2)))
			apply(&disk, &calls[i],
				i < moment->synced || random_below(random, 3)
					? SIZE_MAX
					: random_below(random, calls[i].length + 1));
	check(path, &disk, moment->promised);
}

static void check_moment(const char *path, struct moment *moment, struct random_source *random)
{
	moment->synced = 0;
	for (size_t i = 0; i < moment->until; i++)
		if (calls[i].kind == CALL_SYNC && calls[i].file == moment->file)
			moment->synced = i;
	if (!moment->synced && moment->file == 0)
		return; /* nothing was acknowledged yet */
	check_but_one(path, moment, SIZE_MAX, 0);
	for (size_t one = moment->synced; one < moment->until; one++) {
		if (calls[one].file != moment->file || calls[one].kind == CALL_SYNC)
			continue;
		check_but_one(path, moment, one, 0);
		check_but_one(path, moment, one, 1);
		check_but_one(path, moment, one, calls[one].length / 2);
		check_but_one(path, moment, one, SECTOR_BYTES - calls[one].offset % SECTOR_BYTES);
	}
	for (int i = 0; i < 4; i++)
		check_at_random(path, moment, random);
}

static size_t check_all(const char *path)
{
	struct random_source random = {7};
	size_t before = 0, named = 0,
	       renames = 0; /* before: what has its name if the new one is lost */

	states_checked = thinned_checked = 0;
	for (size_t until = 1; until <= call_count; until++) {
		const struct call *last = &calls[until - 1];
		struct moment moment = {.until = until, .promised = last->promised};

		if (last->kind == CALL_RENAME) {
			named = last->file;
			renames++;
		} else if (last->kind == CALL_SYNC_FOLDER) {
			before = named;
		}
		moment.file = named;
		check_moment(path, &moment, &random);
		if (before == named)
			continue;
		moment.file = before;
		check_moment(path, &moment, &random);
	}
	return renames;
}

static void test_power_cut_at_any_moment(void **state)
{
	char path[] = "/tmp/slowrank-power-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	write_record(path, 0);
	assert_int_equal(check_all(path), 0);
	assert_true(states_checked > 1000);
	assert_int_equal(calls[call_count - 1].kind, CALL_SYNC);
	close(fd);
	unlink(path);
}

/* The same of a record that is thinned a few times. */
static void test_power_cut_while_it_is_thinned(void **state)
{
	char path[] = "/tmp/slowrank-power-XXXXXX";
	int fd = mkstemp(path);

	(void)state;
	write_record(path, LIMIT_BYTES);
	assert_true(check_all(path) >= 2);
	assert_true(states_checked > 1000);
	assert_true(thinned_checked > 100);
	close(fd);
	unlink(path);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_power_cut_at_any_moment),
		cmocka_unit_test(test_power_cut_while_it_is_thinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
