/* SPDX-License-Identifier: Apache-2.0 */
/* What is written is read back; what a crash, a full disk or a bad bit leaves is read as far as it goes. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <zstd.h>

#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"
#include "probe/wire/frame.h"
#include "tests/unit/seeds.h"
#include "tests/unit/wire/random_batch.h"

enum { HEADER_BYTES = 68, HEAD_BYTES = FRAME_HEAD_BYTES, FRAME_COUNT = 20, END_BYTES = 36 };

static const struct record_writer_options options = {
	.program = "slowrank test", .created = {123456789}, .created_unix_ns = 1700000000000000000};

struct file {
	char path[64];
	uint8_t bytes[64 * 1024];
	size_t length;
};

static size_t frame_length(size_t number)
{
	return number * number * 7 % 500;
}

/* Every third one can be packed. */
static void frame_bytes(size_t number, uint8_t *bytes)
{
	for (size_t i = 0; i < frame_length(number); i++)
		bytes[i] = number % 3 ? (uint8_t)((number * 31 + i * 7) * 2654435761U >> 24)
				      : (uint8_t)number;
}

/* How long a frame is in the file, whose begin is at bytes. */
static size_t size_in_file(const uint8_t *bytes)
{
	return HEAD_BYTES + frame_get_u32(bytes + 4);
}

static struct record_writer *create(const char *path)
{
	struct record_writer *writer = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	if (record_writer_create(path, &options, &writer, why))
		fail_msg("%s", why);
	return writer;
}

static int set_up(void **state)
{
	struct file *file = calloc(1, sizeof(*file));
	struct record_writer *writer;
	uint8_t bytes[500];
	int fd;

	snprintf(file->path, sizeof(file->path), "/tmp/slowrank-record-XXXXXX");
	fd = mkstemp(file->path);
	assert_true(fd >= 0);
	writer = create(file->path);
	for (size_t i = 0; i < FRAME_COUNT; i++) {
		frame_bytes(i, bytes);
		assert_int_equal(record_writer_append(writer, bytes, frame_length(i),
					 (struct job_ns){-5 + (int64_t)i * 1000}),
			0);
	}
	assert_int_equal(record_writer_finish(writer), 0);
	file->length = (size_t)read(fd, file->bytes, sizeof(file->bytes));
	close(fd);
	*state = file;
	return 0;
}

static int tear_down(void **state)
{
	struct file *file = *state;

	unlink(file->path);
	free(file);
	return 0;
}

static void store(const struct file *file, const uint8_t *bytes, size_t length)
{
	int fd = open(file->path, O_WRONLY | O_TRUNC);

	assert_int_equal(write(fd, bytes, length), length);
	close(fd);
}

/* Reads all; every frame delivered must be one that was written, in order. Returns the last result. */
static int read_all(const char *path, struct record_reader_state *state)
{
	struct record_reader *reader;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	const void *bytes;
	size_t length, number = 0;
	struct job_ns received;
	uint8_t expected[500];
	int result = record_reader_open(path, &reader, why);

	if (result) {
		memset(state, 0, sizeof(*state));
		return result;
	}
	while ((result = record_reader_next(reader, &bytes, &length, &received)) == 0) {
		size_t found = (size_t)(received.value + 5) / 1000;

		assert_true(found >= number && found < FRAME_COUNT);
		number = found + 1;
		assert_int_equal(length, frame_length(found));
		frame_bytes(found, expected);
		assert_memory_equal(bytes, expected, length);
	}
	assert_int_equal(record_reader_next(reader, &bytes, &length, &received), result);
	record_reader_get_state(reader, state);
	record_reader_close(reader);
	return result;
}

static void test_whole_record(void **state)
{
	struct file *file = *state;
	struct record_reader_state found;

	assert_int_equal(read_all(file->path, &found), -ENODATA);
	assert_int_equal(found.frames, FRAME_COUNT);
	assert_true(found.ended);
	assert_false(found.truncated);
	assert_int_equal(found.damaged, 0);
	assert_int_equal(found.skipped_bytes, 0);
	assert_int_equal(found.frames_missing, 0);
	assert_string_equal(found.program, "slowrank test");
	assert_int_equal(found.created.value, 123456789);
	assert_int_equal(found.created_unix_ns, 1700000000000000000);
}

/* The layout is a contract with later versions: the bytes themselves, little-endian. */
static void test_layout(void **state)
{
	struct file *file = *state;
	static const uint8_t header[] = {'s', 'l', 'o', 'w', 'r', 'a', 'n', 'k', 2, 0, 0, 0, 68, 0,
		0, 0, 0x15, 0xcd, 0x5b, 0x07, 0, 0, 0, 0};
	static const uint8_t frame[] = {0xc1, 0xc1, 0x52, 0xf1, 1, 0, 0, 0};
	static const uint8_t received[] = {0xfb, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

	assert_memory_equal(file->bytes, header, sizeof(header));
	assert_memory_equal(file->bytes + HEADER_BYTES, frame, sizeof(frame));
	assert_memory_equal(file->bytes + HEADER_BYTES + 12, received, sizeof(received));
}

/* Those that can be are packed, and are shorter for it; a codec of later versions is damage, and no more. */
static void test_packed_frames(void **state)
{
	struct file *file = *state;
	struct record_reader_state found;
	size_t at = HEADER_BYTES, unpacked = 0, unknown = 0;

	for (size_t i = 0; i < FRAME_COUNT; i++) {
		uint8_t *head = file->bytes + at;
		uint8_t codec = head[HEAD_BYTES];
		bool packs = i % 3 == 0 && frame_length(i) > 50;

		assert_true(codec == 1 || (codec == 0 && !packs));
		if (packs)
			assert_true(size_in_file(head) < HEAD_BYTES + 40);
		else if (!codec)
			assert_int_equal(size_in_file(head), HEAD_BYTES + 1 + frame_length(i));
		if (codec) {
			head[HEAD_BYTES] = 2;
			frame_put_u32(head + 8,
				frame_crc(head, head + HEAD_BYTES, frame_get_u32(head + 4)));
			unknown++;
		}
		at += size_in_file(head);
		unpacked += frame_length(i);
	}
	assert_true(file->length < HEADER_BYTES + FRAME_COUNT * (HEAD_BYTES + 1) + unpacked);
	store(file, file->bytes, file->length);
	assert_int_equal(read_all(file->path, &found), -ENODATA);
	assert_int_equal(found.frames, FRAME_COUNT - unknown);
	assert_int_equal(found.frames_missing, unknown);
	assert_in_range(found.damaged, 1, unknown);
}

/* A frame whose checksum is right, and whose packed bytes are none, or become more than a batch may have. */
static void test_what_cannot_be_unpacked(void **state)
{
	struct file *file = *state;
	struct record_reader_state found;
	uint8_t bomb[FRAME_HEAD_BYTES + 64 * 1024] = {0};
	size_t zeros = WIRE_MESSAGE_LENGTH_MAX + 1, length;
	void *plain = calloc(1, zeros);

	length = ZSTD_compress(
		bomb + HEAD_BYTES + 1, sizeof(bomb) - HEAD_BYTES - 1, plain, zeros, 3);
	assert_false(ZSTD_isError(length));
	free(plain);
	bomb[HEAD_BYTES] = 1;
	for (int i = 0; i < 2; i++) {
		frame_write_head(bomb, 0xf152c1c1, 0, bomb + HEAD_BYTES, 1 + length);
		memcpy(file->bytes + HEADER_BYTES, bomb, HEAD_BYTES + 1 + length);
		store(file, file->bytes, HEADER_BYTES + HEAD_BYTES + 1 + length);
		assert_int_equal(read_all(file->path, &found), -EBADMSG);
		assert_int_equal(found.frames, 0);
		assert_int_equal(found.damaged, 1);
		memset(bomb + HEAD_BYTES + 1, 0xff, length);
	}
}

/* Version 1: payloads without a codec. */
static void test_earlier_version(void **state)
{
	struct file *file = *state;
	struct record_writer_options continues = options;
	struct record_writer *writer;
	struct record_reader_state found;
	uint8_t old[sizeof(file->bytes)], payload[500];
	char kept[sizeof(file->path) + 4];
	size_t length = HEADER_BYTES;

	memcpy(old, file->bytes, HEADER_BYTES);
	old[8] = 1;
	frame_put_u32(old + HEADER_BYTES - 4, (uint32_t)crc32(0, old, HEADER_BYTES - 4));
	for (size_t i = 0; i < FRAME_COUNT; i++) {
		frame_bytes(i, payload);
		frame_write_head(old + length, 0xf152c1c1, (uint64_t)(-5 + (int64_t)i * 1000),
			payload, frame_length(i));
		memcpy(old + length + HEAD_BYTES, payload, frame_length(i));
		length += HEAD_BYTES + frame_length(i);
	}
	store(file, old, length);
	assert_int_equal(read_all(file->path, &found), -EBADMSG);
	assert_int_equal(found.frames, FRAME_COUNT);
	assert_int_equal(found.damaged, 0);
	/* It is not gone on with in another layout, but kept. */
	continues.continues = true;
	assert_int_equal(record_writer_create(file->path, &continues, &writer, NULL), 0);
	assert_int_equal(record_writer_finish(writer), 0);
	snprintf(kept, sizeof(kept), "%s.1", file->path);
	assert_int_equal(read_all(kept, &found), -EBADMSG);
	assert_int_equal(found.frames, FRAME_COUNT);
	unlink(kept);
}

static void test_cut_at_every_byte(void **state)
{
	struct file *file = *state;
	size_t whole_end = HEADER_BYTES, whole = 0;

	for (size_t length = 0; length < file->length; length++) {
		struct record_reader_state found;

		assert_int_equal(truncate(file->path, 0), 0);
		store(file, file->bytes, length);
		if (length < HEADER_BYTES) {
			assert_int_equal(read_all(file->path, &found), -EBADMSG);
			continue;
		}
		if (whole < FRAME_COUNT &&
			length == whole_end + size_in_file(file->bytes + whole_end))
			whole_end = length, whole++;
		assert_int_equal(read_all(file->path, &found), -EBADMSG);
		assert_int_equal(found.frames, whole);
		assert_true(found.truncated);
		assert_false(found.ended);
		assert_int_equal(found.damaged, 0);
		assert_int_equal(found.skipped_bytes, length - whole_end);
	}
}

/* A reader that follows gets each frame once it is whole, and skips nothing meanwhile. */
static void test_followed_at_every_byte(void **state)
{
	struct file *file = *state;
	struct record_reader *reader;
	struct record_reader_state found;
	struct record_frame frame;
	size_t whole_end = HEADER_BYTES, whole = 0;
	int fd, result;

	assert_int_equal(truncate(file->path, 0), 0);
	store(file, file->bytes, HEADER_BYTES);
	assert_int_equal(record_reader_open(file->path, &reader, NULL), 0);
	record_reader_follow(reader, true);
	fd = open(file->path, O_WRONLY | O_APPEND);
	assert_true(fd >= 0);
	for (size_t length = HEADER_BYTES; length < file->length; length++) {
		result = record_reader_frame(reader, &frame);
		if (whole < FRAME_COUNT &&
			length == whole_end + size_in_file(file->bytes + whole_end)) {
			assert_int_equal(result, 0);
			assert_int_equal(frame.length, frame_length(whole));
			whole_end = length, whole++;
			result = record_reader_frame(reader, &frame);
		}
		assert_int_equal(result, -EINPROGRESS);
		assert_int_equal(write(fd, file->bytes + length, 1), 1);
	}
	assert_int_equal(record_reader_frame(reader, &frame), -ENODATA);
	record_reader_get_state(reader, &found);
	assert_int_equal(found.frames, FRAME_COUNT);
	assert_int_equal(found.damaged, 0);
	assert_int_equal(found.skipped_bytes, 0);
	record_reader_close(reader);
	close(fd);
}

/* When its writer is gone, what is cut short is an end after all. */
static void test_followed_no_more(void **state)
{
	struct file *file = *state;
	struct record_reader *reader;
	struct record_frame frame;
	struct record_writer *writer;
	int result;

	store(file, file->bytes, file->length - 1);
	assert_false(record_reader_is_written(file->path));
	assert_int_equal(record_reader_open(file->path, &reader, NULL), 0);
	record_reader_follow(reader, true);
	while ((result = record_reader_frame(reader, &frame)) == 0)
		;
	assert_int_equal(result, -EINPROGRESS);
	record_reader_follow(reader, false);
	assert_int_equal(record_reader_frame(reader, &frame), -EBADMSG);
	record_reader_close(reader);
	assert_int_equal(unlink(file->path), 0);
	writer = create(file->path);
	assert_true(record_reader_is_written(file->path));
	assert_int_equal(record_writer_finish(writer), 0);
	assert_false(record_reader_is_written(file->path));
}

static void test_every_flipped_bit_is_noticed(void **state)
{
	struct file *file = *state;

	for (size_t byte = 0; byte < file->length; byte++) {
		struct record_reader_state found;
		uint8_t flip = (uint8_t)(1 << (byte % 8));
		int result;

		file->bytes[byte] ^= flip;
		store(file, file->bytes, file->length);
		file->bytes[byte] ^= flip;
		result = read_all(file->path, &found);
		if (byte < HEADER_BYTES) {
			assert_true(result == -EBADMSG || result == -EPROTONOSUPPORT);
			continue;
		}
		if (byte >= file->length - END_BYTES) { /* the mark of the end is gone */
			assert_int_equal(result, -EBADMSG);
			assert_int_equal(found.frames, FRAME_COUNT);
			assert_true(found.truncated);
			continue;
		}
		/* One frame is lost and no other; the clean end knows how many were written. */
		assert_int_equal(result, -ENODATA);
		assert_int_equal(found.frames, FRAME_COUNT - 1);
		assert_int_equal(found.damaged, 1);
		assert_int_equal(found.frames_missing, 1);
		assert_true(found.skipped_bytes >= HEAD_BYTES);
	}
}

static void test_a_hole_in_the_middle(void **state)
{
	struct file *file = *state;
	struct record_reader_state found;

	/* A lost disk block reads as zeros. */
	memset(file->bytes + 600, 0, file->length / 2);
	store(file, file->bytes, file->length);
	assert_int_equal(read_all(file->path, &found), -ENODATA);
	assert_int_equal(found.damaged, 1);
	assert_true(found.frames < FRAME_COUNT - 3 && found.frames > 5);
	assert_int_equal(found.frames + found.frames_missing, FRAME_COUNT);
}

static void test_newer_version(void **state)
{
	struct file *file = *state;
	struct record_reader *reader;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	file->bytes[8] = 3;
	store(file, file->bytes, file->length);
	assert_int_equal(record_reader_open(file->path, &reader, why), -EPROTONOSUPPORT);
	assert_non_null(strstr(why, file->path));
	assert_non_null(strstr(why, "record version 3"));
	assert_null(strchr(why, '\n'));
}

static void test_unreadable_files(void **state)
{
	struct file *file = *state;
	struct record_reader *reader;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	assert_int_equal(record_reader_open("/nonexistent/record", &reader, why), -ENOENT);
	assert_non_null(strstr(why, "/nonexistent/record"));
	assert_int_equal(record_reader_open("/tmp", &reader, why), -EISDIR);
	store(file, (const uint8_t *)"", 0);
	assert_int_equal(record_reader_open(file->path, &reader, why), -EBADMSG);
	assert_non_null(strstr(why, "not a slowrank record"));
	store(file, (const uint8_t *)"{\"schema\": \"slowrank.report/1\"}", 31);
	assert_int_equal(record_reader_open(file->path, &reader, why), -EBADMSG);
}

static void test_unwritable_files(void **state)
{
	struct record_writer *writer;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	(void)state;
	assert_int_equal(
		record_writer_create("/nonexistent/record", &options, &writer, why), -ENOENT);
	assert_non_null(strstr(why, "/nonexistent/record"));
	assert_int_equal(record_writer_create("/tmp", &options, &writer, why), -EISDIR);
	if (access("/dev/full", W_OK) == 0)
		assert_int_equal(
			record_writer_create("/dev/full", &options, &writer, why), -ENOSPC);
}

static void test_two_writers(void **state)
{
	struct file *file = *state;
	struct record_writer *first = create(file->path), *second;
	struct record_reader_state found;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	assert_int_equal(record_writer_create(file->path, &options, &second, why), -EBUSY);
	assert_non_null(strstr(why, "another process is recording"));
	assert_int_equal(record_writer_finish(first), 0);
	assert_int_equal(read_all(file->path, &found), -ENODATA);
	assert_int_equal(found.frames, 0); /* the old record was replaced, and not mixed with */
}

/* A file-size limit fails writes as a full disk does, also in the middle of a frame. */
static void test_full_disk(void **state)
{
	struct file *file = *state;
	struct record_writer *writer = create(file->path);
	struct record_writer_state written;
	struct record_reader_state found;
	struct rlimit old_limit, limit;
	uint8_t bytes[500];
	size_t failed = 0;

	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &old_limit), 0);
	limit = old_limit;
	limit.rlim_cur = 1500;
	for (size_t i = 0; i < FRAME_COUNT; i++) {
		if (i == 3)
			assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
		if (i == 15) /* there is room again */
			assert_int_equal(setrlimit(RLIMIT_FSIZE, &old_limit), 0);
		frame_bytes(i, bytes);
		if (record_writer_append(writer, bytes, frame_length(i),
			    (struct job_ns){-5 + (int64_t)i * 1000})) {
			record_writer_lose(writer);
			failed++;
		}
	}
	record_writer_get_state(writer, &written);
	assert_true(failed > 0);
	assert_int_equal(written.frames_lost, failed);
	assert_int_equal(written.frames, FRAME_COUNT - failed);
	assert_int_equal(record_writer_finish(writer), 0);
	assert_int_equal(read_all(file->path, &found), -ENODATA);
	assert_int_equal(found.frames, FRAME_COUNT - failed);
	assert_int_equal(found.frames_lost, failed);
	assert_int_equal(found.damaged, 0); /* what was written in part was taken back */
}

/* SIGKILL between two frames: everything appended is there, without the mark of the end. */
static void test_killed_writer(void **state)
{
	struct file *file = *state;
	struct record_reader_state found;
	struct record_writer *writer = create(file->path);
	uint8_t bytes[500];

	for (size_t i = 0; i < 5; i++) {
		frame_bytes(i, bytes);
		assert_int_equal(record_writer_append(writer, bytes, frame_length(i),
					 (struct job_ns){-5 + (int64_t)i * 1000}),
			0);
	}
	/* Not closed: nothing may be waiting in the process. */
	assert_int_equal(read_all(file->path, &found), -EBADMSG);
	assert_int_equal(found.frames, 5);
	assert_true(found.truncated);
	assert_int_equal(found.skipped_bytes, 0);
	record_writer_destroy(writer);
}

static unsigned kept_by(struct record_writer *writer)
{
	struct record_writer_state state;

	record_writer_get_state(writer, &state);
	return state.kept_number;
}

/* What a killed coordinator left is not overwritten by the one that is started after it. */
static void test_unfinished_record_is_kept(void **state)
{
	struct file *file = *state;
	struct record_reader_state found;
	struct record_writer *writer = create(file->path); /* over a whole record */
	char kept[2][sizeof(file->path) + 12];
	uint8_t bytes[500];

	for (int i = 0; i < 2; i++)
		snprintf(kept[i], sizeof(kept[i]), "%s.%d", file->path, i + 1);
	frame_bytes(0, bytes);
	assert_int_equal(kept_by(writer), 0);
	record_writer_destroy(writer);
	writer = create(file->path); /* over one without a frame */
	assert_int_equal(kept_by(writer), 0);
	for (unsigned i = 1; i <= 2; i++) {
		assert_int_equal(
			record_writer_append(writer, bytes, frame_length(0), (struct job_ns){-5}),
			0);
		record_writer_destroy(writer);
		writer = create(file->path);
		assert_int_equal(kept_by(writer), i);
	}
	assert_int_equal(record_writer_finish(writer), 0);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(read_all(kept[i], &found), -EBADMSG);
		assert_int_equal(found.frames, 1);
		unlink(kept[i]);
	}
	assert_int_equal(read_all(file->path, &found), -ENODATA);
	assert_int_equal(found.frames, 0);
}

static void test_large_frames(void **state)
{
	struct file *file = *state;
	struct record_writer *writer = create(file->path);
	struct record_reader *reader;
	uint8_t *large = malloc(WIRE_MESSAGE_LENGTH_MAX + 1);
	const void *bytes;
	size_t length;
	struct job_ns received;

	for (size_t i = 0; i <= WIRE_MESSAGE_LENGTH_MAX; i++)
		large[i] = (uint8_t)(i * 2654435761U >> 24);
	assert_int_equal(record_writer_append(
				 writer, large, WIRE_MESSAGE_LENGTH_MAX + 1, (struct job_ns){1}),
		-EMSGSIZE);
	assert_int_equal(
		record_writer_append(writer, large, WIRE_MESSAGE_LENGTH_MAX, (struct job_ns){2}),
		0);
	assert_int_equal(record_writer_append(writer, large, 100, (struct job_ns){3}), 0);
	assert_int_equal(record_writer_finish(writer), 0);
	assert_int_equal(record_reader_open(file->path, &reader, NULL), 0);
	assert_int_equal(record_reader_next(reader, &bytes, &length, &received), 0);
	assert_int_equal(length, WIRE_MESSAGE_LENGTH_MAX);
	assert_int_equal(memcmp(bytes, large, length), 0);
	assert_int_equal(record_reader_next(reader, &bytes, &length, &received), 0);
	assert_int_equal(length, 100);
	assert_int_equal(received.value, 3);
	assert_int_equal(record_reader_next(reader, &bytes, &length, &received), -ENODATA);
	record_reader_close(reader);
	free(large);
}

enum {
	THIN_LIMIT_BYTES = 4 << 20,
	THIN_FRAMES = 6000,
	THIN_FRAME_BYTES = 4000,
	THIN_SPAN = 300,
	THIN_WAYS = 8
};

static size_t saved_count, thinned_count;

static int save_sums(struct record_writer *writer)
{
	uint8_t sums[100];

	memset(sums, (int)saved_count++, sizeof(sums));
	if (record_writer_save(writer, RECORD_RANKS, sums, sizeof(sums), (struct job_ns){0}))
		return -EIO;
	return record_writer_save(writer, RECORD_JOB, sums, sizeof(sums), (struct job_ns){0});
}

static int save_all(void *context, struct record_writer *writer)
{
	(void)context;
	thinned_count++;
	return save_sums(writer);
}

static const struct record_span *around_an_incident(void *context, size_t *count)
{
	static const struct record_span span = {
		{THIN_SPAN * INT64_C(1000000000)}, {(THIN_SPAN + 10) * INT64_C(1000000000)}};

	(void)context;
	*count = 1;
	return &span;
}

static uint64_t bytes_at(const char *path)
{
	struct stat status;

	return stat(path, &status) ? 0 : (uint64_t)status.st_size;
}

/* One a second, of what cannot be packed. Returns the most bytes that were in use. */
static uint64_t write_long(
	const char *path, size_t from, size_t until, bool continues, struct random_source *random)
{
	struct record_writer_options long_options = options;
	struct record_writer *writer;
	char beside[100], why[WIRE_DETAIL_LENGTH_MAX + 1];
	uint8_t bytes[THIN_FRAME_BYTES];
	uint64_t most = 0;

	snprintf(beside, sizeof(beside), "%s.thinned", path);
	long_options.continues = continues;
	long_options.bytes_max = THIN_LIMIT_BYTES;
	long_options.get_spans = around_an_incident;
	long_options.save = save_all;
	if (record_writer_create(path, &long_options, &writer, why))
		fail_msg("%s", why);
	assert_int_not_equal(access(beside, F_OK), 0); /* nothing is left of one that was killed */
	for (size_t i = from; i < until; i++) {
		uint64_t used;

		for (size_t b = 0; b < sizeof(bytes); b += 8)
			frame_put_u64(bytes + b, random_next(random));
		assert_int_equal(
			record_writer_append(writer, bytes,
				sizeof(bytes) / 2 + random_below(random, sizeof(bytes) / 2),
				(struct job_ns){(int64_t)i * 1000000000}),
			0);
		if (record_writer_wants_sums(writer) || !random_below(random, 3)) /* also early */
			assert_int_equal(save_sums(writer), 0);
		assert_int_equal(record_writer_thin(writer), 0);
		used = bytes_at(path) + bytes_at(beside);
		most = used > most ? used : most;
	}
	if (until == THIN_FRAMES)
		assert_int_equal(record_writer_finish(writer), 0);
	else
		record_writer_destroy(writer);
	return most;
}

/* The limit holds at any moment; what is left is told of, and what is told of is all that was written. */
static void write_and_thin(const struct file *file, struct random_source *random)
{
	struct record_reader_state found;
	struct record_reader *reader;
	struct record_frame frame;
	uint64_t gaps = 0, whole_at_end = 0, of_span = 0, next = 0;
	char beside[100];
	int fd;

	saved_count = thinned_count = 0;
	assert_true(write_long(file->path, 0, THIN_FRAMES / 2, false, random) <= THIN_LIMIT_BYTES);
	snprintf(beside, sizeof(beside), "%s.thinned", file->path); /* of one that was killed */
	fd = open(beside, O_WRONLY | O_CREAT | O_EXCL, 0600);
	assert_int_equal(write(fd, file->bytes, file->length), file->length);
	close(fd);
	assert_true(write_long(file->path, THIN_FRAMES / 2, THIN_FRAMES, true, random) <=
		    THIN_LIMIT_BYTES);
	assert_true(thinned_count >= 5);
	assert_int_equal(record_reader_open(file->path, &reader, NULL), 0);
	while (record_reader_frame(reader, &frame) == 0) {
		uint64_t second = (uint64_t)frame.stamp.value / 1000000000;

		if (frame.kind == RECORD_GAP) {
			const uint8_t *payload = frame.bytes;

			assert_int_equal(frame_get_u64(payload + 8) / 1000000000, next);
			next = frame_get_u64(payload + 16) / 1000000000 + 1;
			gaps++;
			whole_at_end = 0;
		} else if (frame.kind == RECORD_BATCH) {
			assert_int_equal(second, next++);
			whole_at_end++;
			of_span += second >= THIN_SPAN && second <= THIN_SPAN + 10;
		}
	}
	record_reader_get_state(reader, &found);
	record_reader_close(reader);
	assert_true(found.ended);
	assert_int_equal(found.frames + found.frames_thinned, THIN_FRAMES);
	assert_int_equal(found.frames_missing, 0);
	assert_int_equal(found.damaged, 0);
	assert_int_equal(next, THIN_FRAMES);
	assert_true(gaps > 10);	       /* of the minutes before, sums are kept */
	assert_int_equal(of_span, 11); /* and all around the incident */
	assert_true(whole_at_end * THIN_FRAME_BYTES > THIN_LIMIT_BYTES / 6 - 64 * THIN_FRAME_BYTES);
}

static void test_thinned(void **state)
{
	for (uint64_t way = 0; way < SEEDS_OF(THIN_WAYS); way++)
		write_and_thin(*state, &(struct random_source){way});
}

/* What cannot be thinned stays as it is, and is whole. */
static void test_cannot_be_thinned(void **state)
{
	struct file *file = *state;
	struct record_writer_options long_options = options;
	struct record_writer *writer;
	struct record_reader_state found;
	uint8_t bytes[500];
	char beside[100];
	size_t failed = 0;

	snprintf(beside, sizeof(beside), "%s.thinned", file->path);
	assert_int_equal(mkdir(beside, 0700), 0);
	long_options.bytes_max = 6000;
	assert_int_equal(record_writer_create(file->path, &long_options, &writer, NULL), 0);
	for (size_t i = 0; i < FRAME_COUNT; i++) {
		frame_bytes(i, bytes);
		assert_int_equal(record_writer_append(writer, bytes, frame_length(i),
					 (struct job_ns){-5 + (int64_t)i * 1000}),
			0);
		if (record_writer_wants_sums(writer))
			assert_int_equal(save_sums(writer), 0);
		failed += record_writer_thin(writer) == -EISDIR;
	}
	assert_true(failed > 0 && failed < FRAME_COUNT / 2); /* not at each call */
	assert_int_equal(record_writer_finish(writer), 0);
	assert_int_equal(read_all(file->path, &found), -ENODATA);
	assert_int_equal(found.frames, FRAME_COUNT);
	assert_int_equal(rmdir(beside), 0);
}

#define RECORD_TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		RECORD_TEST(test_whole_record),
		RECORD_TEST(test_layout),
		RECORD_TEST(test_packed_frames),
		RECORD_TEST(test_what_cannot_be_unpacked),
		RECORD_TEST(test_earlier_version),
		RECORD_TEST(test_cut_at_every_byte),
		RECORD_TEST(test_followed_at_every_byte),
		RECORD_TEST(test_followed_no_more),
		RECORD_TEST(test_every_flipped_bit_is_noticed),
		RECORD_TEST(test_a_hole_in_the_middle),
		RECORD_TEST(test_newer_version),
		RECORD_TEST(test_unreadable_files),
		RECORD_TEST(test_unwritable_files),
		RECORD_TEST(test_two_writers),
		RECORD_TEST(test_full_disk),
		RECORD_TEST(test_killed_writer),
		RECORD_TEST(test_unfinished_record_is_kept),
		RECORD_TEST(test_large_frames),
		RECORD_TEST(test_thinned),
		RECORD_TEST(test_cannot_be_thinned),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
