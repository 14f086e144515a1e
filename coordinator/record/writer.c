/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <zstd.h>

#include "coordinator/output/file.h"
#include "coordinator/record/format.h"
#include "coordinator/record/minutes.h"
#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"

enum {
	KEPT_MAX = 99,
	COPY_BYTES = 256 * 1024,	   /* at a time, while the record is thinned, */
	COPY_SHARE = 16,		   /* or so many times what was appended */
	COPY_SYNC_BYTES = 8 * 1024 * 1024, /* so that the last sync is short */
	FREE_BYTES = 4096,		   /* what a minute costs of which nothing is copied */
	/* Parts of the limit. The record and what it is thinned to are at most 1/2 + 1/3 + what came meanwhile. */
	FULL_PARTS = 2,
	KEPT_PARTS = 3,
	RETRY_PARTS = 16,
	SUMS_PARTS =
		64, /* what is larger than such a part of the limit gets sums before its minute is over */
	PACK_LEVEL = 1, /* level 3 takes twice the time for 2 % fewer bytes: docs/results.md */
};

static const int64_t minute_ns = INT64_C(60) * 1000000000;

struct record_file {
	int fd;
	uint64_t bytes;
	struct record_minutes minutes;
};

/* The record as it will be: beside it, until it is whole and takes its place. */
struct thinning {
	struct record_file file; /* fd -1: the record is not being thinned */
	char name[NAME_MAX + 1];
	size_t minute;	       /* of the record, that is copied now, */
	uint64_t offset;       /* and from where on; 0: from its begin */
	uint64_t start;	       /* where it begins in the file */
	struct record_gap gap; /* of minutes before it that left no sums */
	uint64_t gap_offset;
	uint64_t synced;    /* bytes of the file */
	uint64_t due_bytes; /* of the record, when it is thinned next */
	bool ending;	    /* what is saved goes to the file already */
};

struct record_writer {
	struct record_file file;
	struct record_writer_options options;
	struct thinning thinning;
	uint64_t appended; /* bytes since record_writer_thin() */
	bool can_cut;	   /* a regular file: what was written in part can be taken back */
	bool broken;	   /* a part could not be taken back; the next frame starts behind it */
	bool replaces;	   /* output is open, to be committed at the end */
	bool placed;	   /* output's place alone is open */
	bool unsettled;	   /* its folder is not synced */
	struct output_replacement output;
	ZSTD_CCtx *packer;
	uint8_t *packed; /* a codec and a payload: packed_capacity bytes */
	size_t packed_capacity;
	struct record_writer_state state;
};

/* Writes both pieces whole, or takes back what was written and returns an error. */
static int append(struct record_writer *writer, struct record_file *file, const void *head,
	size_t head_length, const void *payload, size_t payload_length)
{
	struct iovec pieces[2] = {
		{.iov_base = (void *)head, .iov_len = head_length},
		{.iov_base = (void *)payload, .iov_len = payload_length},
	};
	size_t left = head_length + payload_length, total = left;
	int error = 0;

	while (left) {
		ssize_t written = writev(file->fd, pieces, 2);

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
		file->bytes += total;
		return 0;
	}
	/* Readers find the next frame behind a cut one by its magic, but better leave none. */
	if (left < total && (!writer->can_cut || ftruncate(file->fd, (off_t)file->bytes) < 0)) {
		writer->broken = true;
		file->bytes += total - left;
	}
	return error;
}

int record_writer_sync(const struct record_writer *writer)
{
	/* A pipe cannot be synced, and need not be. */
	return fdatasync(writer->file.fd) < 0 && errno != EINVAL && errno != ENOTSUP ? -errno : 0;
}

static void put_gap(uint8_t payload[RECORD_GAP_BYTES], const struct record_gap *gap)
{
	frame_put_u64(payload, gap->batches);
	frame_put_u64(payload + 8, (uint64_t)gap->first_ns);
	frame_put_u64(payload + 16, (uint64_t)gap->last_ns);
}

static struct record_gap get_gap(const uint8_t payload[RECORD_GAP_BYTES])
{
	return (struct record_gap){.batches = frame_get_u64(payload),
		.first_ns = (int64_t)frame_get_u64(payload + 8),
		.last_ns = (int64_t)frame_get_u64(payload + 16)};
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
	return append(writer, &writer->file, header, sizeof(header), NULL, 0);
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

	writer->file.fd = output_file_append(place, path, &record_kind, &writer->can_cut, why);
	if (writer->file.fd < 0)
		return writer->file.fd;
	if (fstat(writer->file.fd, status) < 0)
		return -errno;
	if (!writer->can_cut)
		return 0; /* a pipe or /dev/null: nothing to empty, nobody to race with */
	/* Or somebody has it, and has moved it away since it was opened. */
	if ((flock(writer->file.fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) ||
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

	if (status->st_size > RECORD_HEADER_BYTES && !has_end(writer->file.fd, status->st_size)) {
		error = move_away(writer, path, why);
		close(writer->file.fd);
		writer->file.fd = -1;
		if (!error)
			error = claim(writer, path, status, why);
	}
	return !error && ftruncate(writer->file.fd, 0) < 0 ? -errno : error;
}

/* Of a frame that is in the file from its end on, or was found there. */
static int note(struct record_writer *writer, const struct record_frame *frame)
{
	struct record_gap gap = {0};

	if (frame->kind == RECORD_GAP && frame->length >= RECORD_GAP_BYTES) {
		gap = get_gap(frame->bytes);
		writer->state.thinned = true;
	}
	return record_minutes_note(
		&writer->file.minutes, frame->kind, frame->offset, frame->size, frame->stamp, &gap);
}

/* Behind the last whole frame of what is there. -EBADMSG: that is no record to go on with. */
static int go_on(struct record_writer *writer, const char *path)
{
	struct record_reader_state state;
	struct record_reader *reader;
	struct record_frame frame;
	int result = record_reader_open(path, &reader, NULL), error = 0;

	if (result)
		return result == -EPROTONOSUPPORT ? -EBADMSG : result;
	while (!error && (result = record_reader_frame(reader, &frame)) == 0) {
		error = note(writer, &frame);
		if (frame.kind == RECORD_BATCH)
			writer->state.newest = frame.stamp;
	}
	record_reader_get_state(reader, &state);
	record_reader_close(reader);
	if (error || (result != -ENODATA && result != -EBADMSG))
		return error ? error : result;
	if (state.version != RECORD_VERSION)
		return -EBADMSG; /* of an earlier slowrank: kept as it is */
	writer->state.frames_found = state.frames;
	writer->state.frames = state.frames + state.frames_thinned;
	writer->state.frames_lost = state.frames_lost;
	writer->file.bytes = state.frames_end;
	return ftruncate(writer->file.fd, (off_t)state.frames_end) < 0 ? -errno : 0;
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

/* What is there was begun by a thinning that a crash ended: a record, or what never reached the disk. */
static bool is_leftover(int fd, off_t length)
{
	uint8_t start[8] = {0};
	static const uint8_t nothing[8];

	return begins_as_record(fd, length) ||
	       (pread(fd, start, sizeof(start), 0) >= 0 && !memcmp(start, nothing, sizeof(start)));
}

static const struct output_kind leftover_kind = {"a record", is_leftover};

/* Where a record is thinned to: beside it. */
static int thinned_place(const struct record_writer *writer, struct output_place *place)
{
	int length;

	*place = writer->output.place;
	length = snprintf(
		place->name, sizeof(place->name), "%.240s.thinned", writer->output.place.name);
	return length < 0 || (size_t)length >= sizeof(place->name) ? -ENAMETOOLONG : 0;
}

static void remove_leftover(const struct record_writer *writer)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct output_place place;
	bool is_file;
	int fd;

	if (thinned_place(writer, &place) ||
		faccessat(place.folder, place.name, F_OK, AT_SYMLINK_NOFOLLOW))
		return;
	fd = output_file_append(&place, place.name, &leftover_kind, &is_file, why);
	if (fd < 0)
		return;
	if (is_file)
		(void)unlinkat(place.folder, place.name, 0);
	close(fd);
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
	if (!error && !writer->file.bytes)
		error = write_header(writer, options);
	writer->placed = writer->unsettled = !error && writer->can_cut;
	if (writer->placed) {
		remove_leftover(writer);
		return 0;
	}
	output_place_close(&writer->output.place);
	writer->options.bytes_max = 0; /* of a device or pipe */
	return error;
}

int record_writer_settle(struct record_writer *writer)
{
	int error = record_writer_sync(writer);

	if (!writer->unsettled)
		return error;
	(void)sync_folder(&writer->output.place); /* not every file system can */
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
	writer->file.fd = writer->output.fd;
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
	made->file.fd = made->thinning.file.fd = -1;
	made->options = *options;
	made->packer = ZSTD_createCCtx();
	made->packed_capacity = RECORD_CODEC_BYTES + ZSTD_compressBound(WIRE_MESSAGE_LENGTH_MAX);
	made->packed = malloc(made->packed_capacity);
	if (!made->packer || !made->packed) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "no memory");
		record_writer_destroy(made);
		return -ENOMEM;
	}
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

/* A codec and the payload, packed where that makes it shorter. Returns how long that is. */
static size_t pack(struct record_writer *writer, const void *bytes, size_t length)
{
	uint8_t *out = writer->packed;
	size_t packed = ZSTD_compressCCtx(writer->packer, out + RECORD_CODEC_BYTES,
		writer->packed_capacity - RECORD_CODEC_BYTES, bytes, length, PACK_LEVEL);

	*out = RECORD_CODEC_ZSTD;
	if (ZSTD_isError(packed) || packed >= length) {
		*out = RECORD_CODEC_NONE;
		if (length)
			memcpy(out + RECORD_CODEC_BYTES, bytes, length);
		packed = length;
	}
	return RECORD_CODEC_BYTES + packed;
}

static int append_frame(struct record_writer *writer, struct record_file *file, uint32_t magic,
	const void *payload, size_t length, struct job_ns stamp)
{
	uint8_t head[RECORD_FRAME_HEAD_BYTES];

	frame_write_head(head, magic, (uint64_t)stamp.value, payload, length);
	return append(writer, file, head, sizeof(head), payload, length);
}

static int append_packed(struct record_writer *writer, struct record_file *file,
	enum record_kind kind, const void *bytes, size_t length, struct job_ns stamp)
{
	uint64_t offset = file->bytes;
	int error;

	if (length > WIRE_MESSAGE_LENGTH_MAX)
		return -EMSGSIZE;
	length = pack(writer, bytes, length);
	error = append_frame(writer, file, RECORD_MAGIC_OF(kind), writer->packed, length, stamp);
	if (error || !writer->options.bytes_max)
		return error;
	writer->appended += file->bytes - offset;
	/* Without memory for it, the frame counts as one of the next minute. */
	(void)!record_minutes_note(&file->minutes, kind, offset, file->bytes - offset, stamp, NULL);
	return 0;
}

int record_writer_append(
	struct record_writer *writer, const void *bytes, size_t length, struct job_ns received)
{
	int error = append_packed(writer, &writer->file, RECORD_BATCH, bytes, length, received);

	writer->state.frames += !error;
	return error;
}

int record_writer_save(struct record_writer *writer, enum record_kind kind, const void *bytes,
	size_t length, struct job_ns stamp)
{
	return append_packed(writer,
		writer->thinning.ending ? &writer->thinning.file : &writer->file, kind, bytes,
		length, stamp);
}

bool record_writer_wants_sums(const struct record_writer *writer)
{
	const struct record_minute *open = record_minutes_open(&writer->file.minutes);

	return open && open->batches.batches &&
	       (open->batches.last_ns - open->batches.first_ns >= minute_ns ||
		       writer->file.bytes - open->begin >= writer->options.bytes_max / SUMS_PARTS);
}

static void close_thinning(struct thinning *thinning)
{
	if (thinning->file.fd >= 0)
		close(thinning->file.fd);
	record_minutes_fini(&thinning->file.minutes);
	*thinning = (struct thinning){.file.fd = -1, .due_bytes = thinning->due_bytes};
}

/* The record stays as it is. */
static void abandon(struct record_writer *writer)
{
	struct output_place place;

	if (writer->thinning.file.fd >= 0 && !thinned_place(writer, &place))
		(void)unlinkat(place.folder, place.name, 0);
	close_thinning(&writer->thinning);
}

/* Copies bytes of the record to the file that takes its place. Returns 0 or a negative errno. */
static int copy(struct record_writer *writer, uint64_t from, size_t length)
{
	struct record_file *file = &writer->thinning.file;
	ssize_t got;

	assert(length <= writer->packed_capacity);
	do {
		got = pread(writer->file.fd, writer->packed, length, (off_t)from);
	} while (got < 0 && errno == EINTR);
	if (got != (ssize_t)length)
		return got < 0 ? -errno : -EIO;
	return append(writer, file, writer->packed, length, NULL, 0);
}

static int begin_thinning(struct record_writer *writer)
{
	struct thinning *thinning = &writer->thinning;
	struct record_minutes *minutes = &writer->file.minutes;
	const struct record_span *spans = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct output_place place;
	struct stat status;
	size_t span_count = 0;
	bool is_file;
	int error = thinned_place(writer, &place);

	if (error)
		return error;
	thinning->file.fd = output_file_append(&place, place.name, &leftover_kind, &is_file, why);
	if (thinning->file.fd < 0)
		return thinning->file.fd;
	if (!is_file || flock(thinning->file.fd, LOCK_EX | LOCK_NB) < 0 ||
		ftruncate(thinning->file.fd, 0) < 0)
		return is_file ? -errno : -EEXIST;
	if (fstat(writer->file.fd, &status) == 0)
		(void)fchmod(thinning->file.fd, status.st_mode & 07777);
	if (writer->options.get_spans)
		spans = writer->options.get_spans(writer->options.context, &span_count);
	record_minutes_choose(minutes, spans, span_count, writer->options.bytes_max / KEPT_PARTS);
	return copy(writer, 0, minutes->minutes[0].begin); /* the header */
}

/* What is in the file of minutes that left no sums: in front of what comes. */
static int write_gap(struct record_writer *writer, bool of_its_own)
{
	struct thinning *thinning = &writer->thinning;
	uint8_t payload[RECORD_CODEC_BYTES + RECORD_GAP_BYTES] = {RECORD_CODEC_NONE};
	struct record_file *file = &thinning->file;
	struct record_minute minute = {
		.begin = file->bytes, .batches = thinning->gap, .thinned = true};
	int error;

	if (!thinning->gap.batches)
		return 0;
	put_gap(payload + RECORD_CODEC_BYTES, &thinning->gap);
	error = append_frame(writer, file, RECORD_MAGIC_OF(RECORD_GAP), payload, sizeof(payload),
		(struct job_ns){thinning->gap.last_ns});
	if (error)
		return error;
	minute.sums = minute.end = file->bytes;
	thinning->gap = (struct record_gap){0};
	return of_its_own ? record_minutes_add(&file->minutes, &minute) : 0;
}

/* The minute's turn has come. */
static int begin_minute(struct record_writer *writer, const struct record_minute *minute)
{
	struct thinning *thinning = &writer->thinning;
	struct record_minute copied = *minute;
	int error;

	if (minute->keep != RECORD_KEEP_WHOLE)
		record_gap_add(&thinning->gap, &minute->batches);
	thinning->offset = minute->keep == RECORD_KEEP_WHOLE  ? minute->begin
			   : minute->keep == RECORD_KEEP_SUMS ? minute->sums
							      : minute->end;
	if (minute->keep == RECORD_KEEP_NOTHING)
		return 0;
	copied.begin = thinning->file.bytes;
	if (minute->keep == RECORD_KEEP_SUMS) {
		copied.thinned = true;
		copied.batches = thinning->gap;
	}
	error = write_gap(writer, minute->keep == RECORD_KEEP_WHOLE);
	if (error)
		return error;
	thinning->start = thinning->file.bytes;
	if (minute->keep == RECORD_KEEP_WHOLE)
		copied.begin = thinning->start;
	copied.keep = RECORD_KEEP_WHOLE;
	copied.sums = thinning->start + minute->sums - thinning->offset;
	copied.end = 0;
	return record_minutes_add(&thinning->file.minutes, &copied);
}

/* Copies at most `bytes` of a minute. Returns how many, or a negative errno; *done: it is all there. */
static int64_t copy_minute(struct record_writer *writer, size_t bytes, bool *done)
{
	struct thinning *thinning = &writer->thinning;
	const struct record_minute *minute = &writer->file.minutes.minutes[thinning->minute];
	struct record_minute *copied;
	uint64_t end, left;
	int error = thinning->offset ? 0 : begin_minute(writer, minute);

	if (error)
		return error;
	end = minute->end ? minute->end : writer->file.bytes;
	left = end - thinning->offset;
	if (left > bytes)
		left = bytes;
	error = left ? copy(writer, thinning->offset, (size_t)left) : 0;
	if (error)
		return error;
	thinning->offset += left;
	*done = thinning->offset == end;
	if (!*done || !minute->end || minute->keep == RECORD_KEEP_NOTHING)
		return (int64_t)left;
	copied = record_minutes_open(&thinning->file.minutes);
	if (minute->keep == RECORD_KEEP_WHOLE) /* more came while it was copied */
		copied->batches = minute->batches;
	copied->sums = thinning->file.bytes - (minute->end - minute->sums);
	copied->end = thinning->file.bytes;
	return (int64_t)left;
}

/* All is copied: what was said is saved behind it, and it takes the record's place. */
static int end_thinning(struct record_writer *writer)
{
	struct thinning *thinning = &writer->thinning;
	struct record_minute *open = record_minutes_open(&thinning->file.minutes);
	const struct output_place *at = &writer->output.place;
	struct output_place place;
	int error = thinned_place(writer, &place);

	if (open) { /* as it is by now */
		const struct record_minute *now = record_minutes_open(&writer->file.minutes);

		open->batches = now->batches;
		open->sums = now->sums ? thinning->start + now->sums - now->begin : 0;
	}
	if (!error)
		error = write_gap(writer, true);
	thinning->ending = true;
	if (!error && writer->options.save)
		error = writer->options.save(writer->options.context, writer);
	thinning->ending = false;
	if (!error && fdatasync(thinning->file.fd) < 0)
		error = -errno;
	/* Whoever syncs the record has the descriptor's number: it stays. */
	if (!error && renameat(place.folder, place.name, at->folder, at->name) < 0)
		error = -errno;
	if (error)
		return error;
	while (dup3(thinning->file.fd, writer->file.fd, O_CLOEXEC) < 0)
		assert(errno == EINTR || errno == EBUSY); /* both are open */
	(void)sync_folder(at); /* or what is acknowledged from now on might be in neither */
	record_minutes_fini(&writer->file.minutes);
	writer->file.minutes = thinning->file.minutes;
	writer->file.bytes = thinning->file.bytes;
	writer->state.thinned = true;
	thinning->file.minutes = (struct record_minutes){0};
	close_thinning(thinning);
	return 0;
}

static int copy_some(struct record_writer *writer, uint64_t budget)
{
	struct thinning *thinning = &writer->thinning;

	while (budget) {
		bool done = false, last = thinning->minute + 1 == writer->file.minutes.count;
		uint64_t at_once = budget < COPY_BYTES ? budget : COPY_BYTES;
		int64_t copied = copy_minute(writer, (size_t)at_once, &done);

		if (copied < 0)
			return (int)copied;
		if (done && last)
			return end_thinning(writer);
		/* Minutes without anything to copy are work, too. */
		budget -= (uint64_t)copied > FREE_BYTES ? (uint64_t)copied
			  : budget > FREE_BYTES		? FREE_BYTES
							: budget;
		if (done) {
			thinning->minute++;
			thinning->offset = 0;
		}
	}
	if (thinning->file.bytes - thinning->synced >= COPY_SYNC_BYTES) {
		thinning->synced = thinning->file.bytes;
		return fdatasync(thinning->file.fd) < 0 ? -errno : 0;
	}
	return 0;
}

int record_writer_thin(struct record_writer *writer)
{
	struct thinning *thinning = &writer->thinning;
	uint64_t limit = writer->options.bytes_max,
		 budget = COPY_BYTES + COPY_SHARE * writer->appended;
	int error = 0;

	writer->appended = 0;
	if (!limit)
		return 0;
	if (thinning->file.fd < 0 && writer->file.minutes.count >= RECORD_MINUTES_MAX)
		record_minutes_halve(&writer->file.minutes);
	if (!thinning->due_bytes)
		thinning->due_bytes = limit / FULL_PARTS;
	if (thinning->file.fd < 0) {
		if (writer->file.bytes < thinning->due_bytes || writer->file.minutes.count < 2)
			return 0;
		error = begin_thinning(writer);
	}
	if (!error)
		error = copy_some(writer, budget);
	if (error)
		abandon(writer);
	if (thinning->file.fd < 0) { /* what must be kept may be more than the limit */
		thinning->due_bytes = writer->file.bytes + limit / RETRY_PARTS;
		if (thinning->due_bytes < limit / FULL_PARTS)
			thinning->due_bytes = limit / FULL_PARTS;
	}
	return error;
}

void record_writer_lose(struct record_writer *writer)
{
	writer->state.frames_lost++;
}

int record_writer_finish(struct record_writer *writer)
{
	uint8_t counts[RECORD_END_BYTES];
	int error, synced = 0;

	if (!writer)
		return 0;
	frame_put_u64(counts, writer->state.frames);
	frame_put_u64(counts + 8, writer->state.frames_lost);
	if (!writer->replaces) /* else it can be made again */
		synced = record_writer_settle(writer);
	error = append_frame(writer, &writer->file, RECORD_END_MAGIC, counts, sizeof(counts),
		(struct job_ns){0});
	if (!writer->replaces && !synced)
		synced = record_writer_sync(writer);
	if (!error)
		error = synced;
	if (close(writer->file.fd) < 0 && !error)
		error = -errno;
	writer->file.fd = -1;
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
	if (writer->file.fd >= 0)
		close(writer->file.fd);
	if (writer->replaces)
		output_replacement_abort(&writer->output);
	abandon(writer);
	if (writer->placed)
		output_place_close(&writer->output.place);
	record_minutes_fini(&writer->file.minutes);
	ZSTD_freeCCtx(writer->packer);
	free(writer->packed);
	free(writer);
}

void record_writer_get_state(const struct record_writer *writer, struct record_writer_state *state)
{
	*state = writer->state;
	state->bytes = writer->file.bytes;
}
