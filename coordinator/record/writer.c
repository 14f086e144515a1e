/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include "coordinator/output/file.h"
#include "coordinator/record/format.h"
#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"

enum { KEPT_MAX = 99 };

/* Frames that wait for room on the record's disk: a record of its own, whose first frames may have moved on. */
struct overflow {
	char *path;
	struct record_writer *writer; /* NULL: nothing waits */
	struct record_reader *reader; /* behind the frames that moved, and the next one: */
	const void *bytes;	      /* NULL: not read */
	size_t length;
	struct job_ns received;
	uint64_t moved;
};

struct record_writer {
	int fd;
	bool can_cut;	/* a regular file: what was written in part can be taken back */
	bool broken;	/* a part could not be taken back; the next frame starts behind it */
	bool replaces;	/* output is open, to be committed at the end */
	bool unsettled; /* output's place alone is open: its folder is not synced */
	struct output_replacement output;
	struct overflow overflow;
	struct job_ns newest; /* of the frames */
	struct record_writer_state state;
};

/* Writes both pieces whole, or takes back what was written and returns an error. */
static int append(struct record_writer *writer, const void *head, size_t head_length,
	const void *payload, size_t payload_length)
{
	struct iovec pieces[2] = {
		{.iov_base = (void *)head, .iov_len = head_length},
		{.iov_base = (void *)payload, .iov_len = payload_length},
	};
	size_t left = head_length + payload_length, total = left;
	int error = 0;

	while (left) {
		ssize_t written = writev(writer->fd, pieces, 2);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			error = written < 0 ? -errno : -EIO;
			break;
		}
		left -= (size_t)written;
		for (int i = 0; i < 2; i++) {
			size_t step = (size_t)written < pieces[i].iov_len ? (size_t)written
									  : pieces[i].iov_len;

			if (step) /* the payload of an empty frame is NULL */
				pieces[i].iov_base = (char *)pieces[i].iov_base + step;
			pieces[i].iov_len -= step;
			written -= (ssize_t)step;
		}
	}
	if (!error) {
		writer->state.bytes += total;
		return 0;
	}
	/* Readers find the next frame behind a cut one by its magic, but better leave none. */
	if (left < total &&
		(!writer->can_cut || ftruncate(writer->fd, (off_t)writer->state.bytes) < 0)) {
		writer->broken = true;
		writer->state.bytes += total - left;
	}
	return error;
}

int record_writer_sync(const struct record_writer *writer)
{
	/* A pipe cannot be synced, and need not be. */
	return fdatasync(writer->fd) < 0 && errno != EINVAL && errno != ENOTSUP ? -errno : 0;
}

static int write_header(struct record_writer *writer, const struct record_writer_options *options)
{
	uint8_t header[RECORD_HEADER_BYTES] = {0};
	size_t program_length = options->program ? strlen(options->program) : 0;

	if (program_length >= RECORD_PROGRAM_BYTES)
		program_length = RECORD_PROGRAM_BYTES - 1;
	memcpy(header, RECORD_MAGIC, 8);
	frame_put_u32(header + 8, RECORD_VERSION);
	frame_put_u32(header + 12, RECORD_HEADER_BYTES);
	frame_put_u64(header + 16, (uint64_t)options->created.value);
	frame_put_u64(header + 24, (uint64_t)options->created_unix_ns);
	if (program_length)
		memcpy(header + RECORD_PROGRAM_OFFSET, options->program, program_length);
	frame_put_u32(header + RECORD_HEADER_BYTES - 4,
		(uint32_t)crc32(0, header, RECORD_HEADER_BYTES - 4));
	return append(writer, header, sizeof(header), NULL, 0);
}

static bool begins_as_record(int fd, off_t length)
{
	uint8_t start[8];

	(void)length;
	return pread(fd, start, sizeof(start), 0) == (ssize_t)sizeof(start) &&
	       memcmp(start, RECORD_MAGIC, sizeof(start)) == 0;
}

static bool has_end(int fd, off_t length)
{
	uint8_t end[RECORD_MAGIC_BYTES];

	return length > RECORD_HEADER_BYTES &&
	       pread(fd, end, sizeof(end), length - RECORD_FRAME_HEAD_BYTES - RECORD_END_BYTES) ==
		       (ssize_t)sizeof(end) &&
	       frame_get_u32(end) == RECORD_END_MAGIC;
}

static const struct output_kind record_kind = {"a record", begins_as_record};

/* Nobody records to it, and its writer came to its end: not all that is left of a run. */
static bool is_whole_record(int fd, off_t length)
{
	return begins_as_record(fd, length) && has_end(fd, length) &&
	       !(flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK);
}

static const struct output_kind whole_record_kind = {"a whole record", is_whole_record};

/* Gives the file at the place the first free name NAME.1, NAME.2, ... */
static int move_away(
	struct record_writer *writer, const char *path, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	const struct output_place *place = &writer->output.place;
	char kept[NAME_MAX + 1];

	for (unsigned number = 1; number <= KEPT_MAX; number++) {
		int length = snprintf(kept, sizeof(kept), "%s.%u", place->name, number);

		if (length < 0 || (size_t)length >= sizeof(kept))
			return -ENAMETOOLONG;
		if (faccessat(place->folder, kept, F_OK, AT_SYMLINK_NOFOLLOW) == 0)
			continue;
		writer->state.kept_number = number;
		return renameat(place->folder, place->name, place->folder, kept) < 0 ? -errno : 0;
	}
	snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
		"%.150s and %d files beside it are records of runs that did not end: remove some",
		path, KEPT_MAX);
	return -EEXIST;
}

/* Opens the file and takes it for this process alone. */
static int claim(struct record_writer *writer, const char *path, struct stat *status,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	const struct output_place *place = &writer->output.place;
	struct stat now;

	writer->fd = output_file_append(place, path, &record_kind, &writer->can_cut, why);
	if (writer->fd < 0)
		return writer->fd;
	if (fstat(writer->fd, status) < 0)
		return -errno;
	if (!writer->can_cut)
		return 0; /* a pipe or /dev/null: nothing to empty, nobody to race with */
	/* Or somebody has it, and has moved it away since it was opened. */
	if ((flock(writer->fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) ||
		fstatat(place->folder, place->name, &now, AT_SYMLINK_NOFOLLOW) < 0 ||
		now.st_ino != status->st_ino) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1,
			"another process is recording to %.150s: name another file", path);
		return -EBUSY;
	}
	return 0;
}

/* An empty file; what a killed writer left there gets another name. */
static int make_empty(struct record_writer *writer, const char *path, struct stat *status,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	int error = 0;

	if (status->st_size > RECORD_HEADER_BYTES && !has_end(writer->fd, status->st_size)) {
		error = move_away(writer, path, why);
		close(writer->fd);
		writer->fd = -1;
		if (!error)
			error = claim(writer, path, status, why);
	}
	return !error && ftruncate(writer->fd, 0) < 0 ? -errno : error;
}

/* Behind the last whole frame of what is there. -EBADMSG: that is no record to go on with. */
static int go_on(struct record_writer *writer, const char *path)
{
	struct record_reader_state state;
	struct record_reader *reader;
	struct job_ns received;
	const void *bytes;
	size_t length;
	int result = record_reader_open(path, &reader, NULL);

	if (result)
		return result == -EPROTONOSUPPORT ? -EBADMSG : result;
	while ((result = record_reader_next(reader, &bytes, &length, &received)) == 0)
		writer->newest = received;
	record_reader_get_state(reader, &state);
	record_reader_close(reader);
	if (result != -ENODATA && result != -EBADMSG)
		return result;
	writer->state.frames = state.frames;
	writer->state.frames_lost = state.frames_lost;
	writer->state.bytes = state.frames_end;
	return ftruncate(writer->fd, (off_t)state.frames_end) < 0 ? -errno : 0;
}

/* A name that is only in memory is lost in a power cut, and the file with it. */
static int sync_folder(const struct output_place *place)
{
	int fd = openat(place->folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int error = fd < 0 || fsync(fd) < 0 ? -errno : 0;

	if (fd >= 0)
		close(fd);
	return error;
}

static void end_overflow(struct record_writer *writer)
{
	struct overflow *overflow = &writer->overflow;

	record_reader_close(overflow->reader);
	record_writer_destroy(overflow->writer);
	(void)unlink(overflow->path);
	*overflow = (struct overflow){.path = overflow->path};
	writer->state.overflow_frames = 0;
}

/* Reads the next frame that has not moved on. Returns 0 or a negative errno. */
static int peek_overflow(struct overflow *overflow)
{
	int error = 0;

	if (overflow->bytes)
		return 0;
	if (overflow->reader)
		error = record_reader_next(
			overflow->reader, &overflow->bytes, &overflow->length, &overflow->received);
	if (overflow->reader && !error)
		return 0;
	/* The reader does not see what was written behind its end. */
	record_reader_close(overflow->reader);
	overflow->reader = NULL;
	error = record_reader_open(overflow->path, &overflow->reader, NULL);
	for (uint64_t i = 0; !error && i <= overflow->moved; i++)
		error = record_reader_next(
			overflow->reader, &overflow->bytes, &overflow->length, &overflow->received);
	if (error)
		overflow->bytes = NULL;
	return error;
}

/* How many of its frames are in the record, too: up to the record's newest. */
static uint64_t count_moved(const char *path, struct job_ns newest)
{
	uint64_t count = 0, moved = 0;
	struct record_reader *reader;
	struct job_ns received;
	const void *bytes;
	size_t length;

	if (record_reader_open(path, &reader, NULL))
		return 0;
	while (!record_reader_next(reader, &bytes, &length, &received)) {
		count++;
		if (received.value == newest.value)
			moved = count;
	}
	record_reader_close(reader);
	return moved;
}

/* What a writer before left, less what it came to move. */
static void take_overflow_over(struct record_writer *writer)
{
	const struct record_writer_options options = {.continues = true};
	struct overflow *overflow = &writer->overflow;

	if (record_writer_create(overflow->path, &options, &overflow->writer, NULL))
		return;
	overflow->moved = writer->state.frames ? count_moved(overflow->path, writer->newest) : 0;
	writer->state.overflow_frames = overflow->writer->state.frames - overflow->moved;
	if (!writer->state.overflow_frames)
		end_overflow(writer);
}

static int open_overflow(struct record_writer *writer, const struct record_writer_options *options)
{
	if (!options->overflow)
		return 0;
	writer->overflow.path = strdup(options->overflow);
	if (!writer->overflow.path)
		return -ENOMEM;
	if (access(options->overflow, F_OK) == 0)
		take_overflow_over(writer);
	if (!options->continues && writer->overflow.writer)
		end_overflow(writer);
	return 0;
}

/* The file that is this process's alone, with a header. */
static int open_live(struct record_writer *writer, const char *path,
	const struct record_writer_options *options, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct stat status;
	int error = output_place_open(path, &writer->output.place);

	if (error < 0) {
		output_explain(path, error, why);
		return error;
	}
	error = claim(writer, path, &status, why);
	if (!error && writer->can_cut) {
		error = options->continues && status.st_size >= RECORD_HEADER_BYTES
				? go_on(writer, path)
				: -EBADMSG;
		if (error == -EBADMSG)
			error = make_empty(writer, path, &status, why);
	}
	if (!error && !writer->state.bytes)
		error = write_header(writer, options);
	if (!error && writer->can_cut)
		error = open_overflow(writer, options);
	writer->unsettled = !error && writer->can_cut;
	if (!writer->unsettled)
		output_place_close(&writer->output.place);
	return error;
}

int record_writer_settle(struct record_writer *writer)
{
	int error = record_writer_sync(writer);

	if (!writer->unsettled)
		return error;
	(void)sync_folder(&writer->output.place); /* not every file system can */
	output_place_close(&writer->output.place);
	writer->unsettled = false;
	return error;
}

/* A file beside the place, which record_writer_finish() moves there. */
static int open_beside(
	struct record_writer *writer, const char *path, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	int error = output_replacement_begin(path, &whole_record_kind, &writer->output, why);

	if (error < 0)
		return error;
	writer->fd = writer->output.fd;
	writer->can_cut = writer->output.temporary[0];
	writer->replaces = true;
	return 0;
}

int record_writer_create(const char *path, const struct record_writer_options *options,
	struct record_writer **writer, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	char unused_why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct record_writer *made = calloc(1, sizeof(*made));
	int error;

	if (!why)
		why = unused_why;
	why[0] = '\0';
	if (!made) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "no memory");
		return -ENOMEM;
	}
	made->fd = -1;
	error = options->whole ? open_beside(made, path, why) : open_live(made, path, options, why);
	if (!error && options->whole)
		error = write_header(made, options);
	if (error) {
		if (!why[0])
			output_explain(path, error, why);
		record_writer_destroy(made);
		return error;
	}
	*writer = made;
	return 0;
}

static int append_frame(struct record_writer *writer, uint32_t magic, const void *bytes,
	size_t length, struct job_ns received)
{
	uint8_t head[RECORD_FRAME_HEAD_BYTES];

	frame_write_head(head, magic, (uint64_t)received.value, bytes, length);
	return append(writer, head, sizeof(head), bytes, length);
}

static int append_now(
	struct record_writer *writer, const void *bytes, size_t length, struct job_ns received)
{
	int error = append_frame(writer, RECORD_FRAME_MAGIC, bytes, length, received);

	writer->state.frames += !error;
	return error;
}

/* Moves on what waits. Returns 0: nothing does any more; or why not. */
static int empty_overflow(struct record_writer *writer)
{
	struct overflow *overflow = &writer->overflow;
	int error;

	while (writer->state.overflow_frames) {
		error = peek_overflow(overflow);
		if (error && error != -ENOMEM) { /* damaged */
			writer->state.frames_lost += writer->state.overflow_frames;
			break;
		}
		if (!error)
			error = append_now(
				writer, overflow->bytes, overflow->length, overflow->received);
		if (error)
			return error;
		overflow->bytes = NULL;
		overflow->moved++;
		writer->state.overflow_frames--;
	}
	if (overflow->writer)
		end_overflow(writer);
	return 0;
}

/* error: why the record cannot have it now. Returns 0 or, where that cannot either, that error. */
static int append_to_overflow(struct record_writer *writer, int error, const void *bytes,
	size_t length, struct job_ns received)
{
	struct overflow *overflow = &writer->overflow;

	if (!overflow->path || (error != -ENOSPC && error != -EDQUOT))
		return error;
	if (!overflow->writer &&
		record_writer_create(overflow->path, &(struct record_writer_options){0},
			&overflow->writer, NULL))
		return error;
	if (overflow->writer->state.bytes + length > RECORD_OVERFLOW_BYTES ||
		append_now(overflow->writer, bytes, length, received))
		return error;
	writer->state.overflow_frames++;
	return 0;
}

int record_writer_append(
	struct record_writer *writer, const void *bytes, size_t length, struct job_ns received)
{
	int error;

	if (length > RECORD_PAYLOAD_BYTES_MAX)
		return -EMSGSIZE;
	error = empty_overflow(writer);
	if (!error)
		error = append_now(writer, bytes, length, received);
	return error ? append_to_overflow(writer, error, bytes, length, received) : 0;
}

void record_writer_lose(struct record_writer *writer)
{
	writer->state.frames_lost++;
}

void record_writer_wait_no_more(struct record_writer *writer)
{
	if (empty_overflow(writer)) {
		writer->state.frames_lost += writer->state.overflow_frames;
		end_overflow(writer);
	}
}

int record_writer_finish(struct record_writer *writer)
{
	uint8_t counts[RECORD_END_BYTES];
	int error, synced = 0;

	if (!writer)
		return 0;
	record_writer_wait_no_more(writer);
	frame_put_u64(counts, writer->state.frames);
	frame_put_u64(counts + 8, writer->state.frames_lost);
	if (!writer->replaces) /* else it can be made again */
		synced = record_writer_settle(writer);
	error = append_frame(writer, RECORD_END_MAGIC, counts, sizeof(counts), (struct job_ns){0});
	if (!writer->replaces && !synced)
		synced = record_writer_sync(writer);
	if (!error)
		error = synced;
	if (close(writer->fd) < 0 && !error)
		error = -errno;
	writer->fd = -1;
	if (writer->replaces && !error) {
		error = output_replacement_commit(&writer->output);
		writer->replaces = false;
	}
	record_writer_destroy(writer);
	return error;
}

void record_writer_destroy(struct record_writer *writer)
{
	if (!writer)
		return;
	if (writer->fd >= 0)
		close(writer->fd);
	if (writer->replaces)
		output_replacement_abort(&writer->output);
	if (writer->unsettled)
		output_place_close(&writer->output.place);
	record_reader_close(writer->overflow.reader);
	record_writer_destroy(writer->overflow.writer); /* its file is for the next one */
	free(writer->overflow.path);
	free(writer);
}

void record_writer_get_state(const struct record_writer *writer, struct record_writer_state *state)
{
	*state = writer->state;
	state->overflow_moved = writer->overflow.moved;
}
