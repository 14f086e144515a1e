/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <zstd.h>

#include "coordinator/record/format.h"
#include "coordinator/record/reader.h"

enum { WINDOW_START_BYTES = 256 * 1024 };

/* A window on the file: bytes[start..end) are read and not yet used. */
struct record_reader {
	int fd;
	uint8_t *bytes;
	size_t capacity;
	size_t start;
	size_t end;
	uint64_t position; /* of bytes[start] in the file */
	bool file_ended;
	uint8_t *unpacked; /* WIRE_MESSAGE_LENGTH_MAX bytes */
	ZSTD_DCtx *unpacker;
	int result; /* of all later calls, once it is not 0 */
	bool in_damage;
	bool follows;
	struct record_reader_state state;
};

static size_t available(const struct record_reader *reader)
{
	return reader->end - reader->start;
}

/* Reads until need bytes are available or the file ends. Returns 0 or a negative errno. */
static int fill(struct record_reader *reader, size_t need)
{
	if (available(reader) >= need || reader->file_ended)
		return 0;
	memmove(reader->bytes, reader->bytes + reader->start, available(reader));
	reader->end -= reader->start;
	reader->start = 0;
	if (need > reader->capacity) {
		size_t capacity = reader->capacity;
		uint8_t *bytes;

		while (capacity < need)
			capacity *= 2;
		bytes = realloc(reader->bytes, capacity);
		if (!bytes)
			return -ENOMEM;
		reader->bytes = bytes;
		reader->capacity = capacity;
	}
	while (available(reader) < need && !reader->file_ended) {
		ssize_t got = read(
			reader->fd, reader->bytes + reader->end, reader->capacity - reader->end);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -errno;
		reader->file_ended = got == 0;
		reader->end += (size_t)got;
	}
	return 0;
}

static int read_header(struct record_reader *reader, const char *path, char *why)
{
	const size_t why_length = WIRE_DETAIL_LENGTH_MAX + 1;
	struct record_reader_state *state = &reader->state;
	uint32_t version, length;
	const uint8_t *header;
	int error = fill(reader, 16);

	if (error)
		return error;
	header = reader->bytes;
	if (available(reader) < 16 || memcmp(header, RECORD_MAGIC, 8)) {
		snprintf(why, why_length, "%.150s is not a slowrank record", path);
		return -EBADMSG;
	}
	version = frame_get_u32(header + 8);
	length = frame_get_u32(header + 12);
	if (version != RECORD_VERSION && version != RECORD_VERSION_PLAIN) {
		snprintf(why, why_length,
			"%.150s has record version %u, this program reads %d: use a newer slowrank",
			path, version, RECORD_VERSION);
		return -EPROTONOSUPPORT;
	}
	if (length >= RECORD_HEADER_BYTES && length <= RECORD_HEADER_BYTES_MAX)
		error = fill(reader, length);
	if (error)
		return error;
	header = reader->bytes;
	if (length < RECORD_HEADER_BYTES || length > RECORD_HEADER_BYTES_MAX ||
		available(reader) < length ||
		crc32(0, header, length - 4) != frame_get_u32(header + length - 4)) {
		snprintf(why, why_length, "%.150s is damaged: its header is not whole", path);
		return -EBADMSG;
	}
	state->version = version;
	state->created.value = (int64_t)frame_get_u64(header + 16);
	state->created_unix_ns = (int64_t)frame_get_u64(header + 24);
	memcpy(state->program, header + RECORD_PROGRAM_OFFSET, RECORD_PROGRAM_BYTES);
	state->program[RECORD_PROGRAM_BYTES - 1] = '\0';
	reader->start = length;
	reader->position = state->frames_end = length;
	return 0;
}

int record_reader_open(
	const char *path, struct record_reader **reader, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	char unused_why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct record_reader *made = calloc(1, sizeof(*made));
	struct stat status;
	int error = 0;

	if (!why)
		why = unused_why;
	why[0] = '\0';
	if (!made) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "no memory");
		return -ENOMEM;
	}
	made->capacity = WINDOW_START_BYTES;
	made->bytes = malloc(made->capacity);
	made->unpacked = malloc(WIRE_MESSAGE_LENGTH_MAX);
	made->unpacker = ZSTD_createDCtx();
	made->fd = open(path, O_RDONLY | O_CLOEXEC);
	if (made->fd < 0)
		error = -errno;
	else if (!made->bytes || !made->unpacked || !made->unpacker)
		error = -ENOMEM;
	else if (fstat(made->fd, &status) == 0 && S_ISDIR(status.st_mode))
		error = -EISDIR;
	if (!error)
		error = read_header(made, path, why);
	if (error) {
		if (!why[0])
			snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "cannot read %.150s: %s", path,
				strerror(-error));
		record_reader_close(made);
		return error;
	}
	*reader = made;
	return 0;
}

void record_reader_close(struct record_reader *reader)
{
	if (!reader)
		return;
	if (reader->fd >= 0)
		close(reader->fd);
	ZSTD_freeDCtx(reader->unpacker);
	free(reader->unpacked);
	free(reader->bytes);
	free(reader);
}

/* Whether a frame head can be one; its checksum is not known yet. */
static bool head_plausible(const struct record_reader *reader, const uint8_t *head)
{
	uint32_t magic = frame_get_u32(head), length = frame_get_u32(head + 4);
	bool plain = reader->state.version == RECORD_VERSION_PLAIN;

	if (magic == RECORD_END_MAGIC)
		return length >= RECORD_END_BYTES && length <= RECORD_HEADER_BYTES_MAX;
	return magic >= RECORD_MAGIC_OF(RECORD_BATCH) &&
	       magic <= RECORD_MAGIC_OF(plain ? RECORD_BATCH : RECORD_GAP) &&
	       (magic & 0xffffff) == RECORD_MAGIC_OF(0) && (plain || length) &&
	       length <= RECORD_PAYLOAD_BYTES_MAX;
}

/*
 * What lies at the window's start: 1 a whole frame, *frame_length bytes of it; 0 none; -EAGAIN
 * the beginning of one that the file's end cuts short; another negative errno.
 */
static int look(struct record_reader *reader, size_t *frame_length)
{
	const uint8_t *head;
	size_t length;
	int error = fill(reader, RECORD_FRAME_HEAD_BYTES);

	if (error)
		return error;
	if (available(reader) < RECORD_FRAME_HEAD_BYTES)
		return -EAGAIN;
	if (!head_plausible(reader, reader->bytes + reader->start))
		return 0;
	length = frame_get_u32(reader->bytes + reader->start + 4);
	error = fill(reader, RECORD_FRAME_HEAD_BYTES + length);
	if (error)
		return error;
	if (available(reader) < RECORD_FRAME_HEAD_BYTES + length)
		return -EAGAIN;
	head = reader->bytes + reader->start;
	if (frame_get_u32(head + 8) != frame_crc(head, head + RECORD_FRAME_HEAD_BYTES, length))
		return 0;
	*frame_length = RECORD_FRAME_HEAD_BYTES + length;
	return 1;
}

static void skip(struct record_reader *reader, size_t length)
{
	if (!reader->in_damage)
		reader->state.damaged++;
	reader->in_damage = true;
	reader->state.skipped_bytes += length;
	reader->start += length;
	reader->position += length;
}

/* Goes on to the next place that may be a frame's start: both magics begin alike. */
static void skip_to_magic(struct record_reader *reader)
{
	const uint8_t *from = reader->bytes + reader->start + 1;
	const uint8_t *found = memchr(from, RECORD_END_MAGIC & 0xff, available(reader) - 1);

	skip(reader, found ? (size_t)(found - (from - 1)) : available(reader));
}

/*
 * The file ends within what may be a frame. It is the last one cut short; or its length is
 * damaged, and whole frames hide behind its head: look on from the next byte. If there are
 * none, the rest counts as cut short and not as damage; or, of a record that is followed, is not written yet.
 */
static int take_end(struct record_reader *reader, size_t *frame_length)
{
	struct record_reader before = *reader;
	int found = 0;

	while (available(reader) > RECORD_FRAME_HEAD_BYTES && found <= 0) {
		skip_to_magic(reader);
		found = look(reader, frame_length);
	}
	if (found > 0)
		return found;
	if (reader->follows) {
		*reader = before;
		reader->file_ended = false;
		return -EINPROGRESS;
	}
	before.state.skipped_bytes += available(&before);
	before.position += available(&before);
	before.start = before.end;
	*reader = before;
	reader->state.truncated = true;
	return -EBADMSG;
}

/* The payload behind its codec. False: it is none that can be read here, though it is whole. */
static bool unpack(struct record_reader *reader, struct record_frame *frame)
{
	const uint8_t *packed = frame->bytes;
	size_t length;

	if (reader->state.version == RECORD_VERSION_PLAIN)
		return true;
	frame->bytes = packed + RECORD_CODEC_BYTES;
	frame->length -= RECORD_CODEC_BYTES;
	if (*packed == RECORD_CODEC_NONE)
		return true;
	if (*packed != RECORD_CODEC_ZSTD)
		return false;
	length = ZSTD_decompressDCtx(reader->unpacker, reader->unpacked, WIRE_MESSAGE_LENGTH_MAX,
		frame->bytes, frame->length);
	if (ZSTD_isError(length))
		return false;
	frame->bytes = reader->unpacked;
	frame->length = length;
	return true;
}

static int take_end_mark(struct record_reader *reader, const uint8_t *counts)
{
	struct record_reader_state *state = &reader->state;
	uint64_t written = frame_get_u64(counts), found = state->frames + state->frames_thinned;

	state->ended = true;
	state->frames_lost = frame_get_u64(counts + 8);
	if (written > found)
		state->frames_missing = written - found;
	return -ENODATA;
}

/* Returns 0, -ENODATA at the end, or -EAGAIN for a frame that cannot be unpacked: it was skipped. */
static int deliver(struct record_reader *reader, size_t frame_length, struct record_frame *frame)
{
	const uint8_t *head = reader->bytes + reader->start;

	*frame = (struct record_frame){
		.kind = (enum record_kind)head[RECORD_MAGIC_BYTES - 1],
		.bytes = head + RECORD_FRAME_HEAD_BYTES,
		.length = frame_length - RECORD_FRAME_HEAD_BYTES,
		.stamp = {(int64_t)frame_get_u64(head + 12)},
		.offset = reader->position,
		.size = frame_length,
	};
	if (frame_get_u32(head) != RECORD_END_MAGIC && !unpack(reader, frame)) {
		skip(reader, frame_length);
		return -EAGAIN;
	}
	reader->in_damage = false;
	reader->start += frame_length;
	reader->position += frame_length;
	if (frame_get_u32(head) == RECORD_END_MAGIC)
		return take_end_mark(reader, frame->bytes);
	reader->state.frames += frame->kind == RECORD_BATCH;
	if (frame->kind == RECORD_GAP && frame->length >= RECORD_GAP_BYTES)
		reader->state.frames_thinned += frame_get_u64(frame->bytes);
	reader->state.frames_end = reader->position;
	return 0;
}

int record_reader_frame(struct record_reader *reader, struct record_frame *frame)
{
	size_t frame_length = 0;
	int found = 0;

	while (!reader->result) {
		found = look(reader, &frame_length);
		if (found == 0) {
			skip_to_magic(reader);
			continue;
		}
		if (found == -EAGAIN)
			found = take_end(reader, &frame_length);
		if (found > 0)
			found = deliver(reader, frame_length, frame);
		if (found == 0)
			return 0;
		if (found == -EINPROGRESS)
			return found;
		if (found != -EAGAIN)
			reader->result = found;
	}
	return reader->result;
}

void record_reader_follow(struct record_reader *reader, bool follows)
{
	reader->follows = follows;
}

bool record_reader_is_written(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	bool written = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;

	if (fd >= 0)
		close(fd);
	return written;
}

int record_reader_next(
	struct record_reader *reader, const void **bytes, size_t *length, struct job_ns *received)
{
	struct record_frame frame;
	int result;

	do {
		result = record_reader_frame(reader, &frame);
	} while (result == 0 && frame.kind != RECORD_BATCH);
	if (result == 0) {
		*bytes = frame.bytes;
		*length = frame.length;
		*received = frame.stamp;
	}
	return result;
}

void record_reader_get_state(const struct record_reader *reader, struct record_reader_state *state)
{
	*state = reader->state;
}
