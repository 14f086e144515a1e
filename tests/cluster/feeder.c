/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A probe that has nothing to look at: it sends the batches of a record through the uplink, all by way of the
 * spool, numbered from 0, and goes on where one that was killed left off.
 *
 * usage: feeder send RECORD COUNT URL FOLDER ACKNOWLEDGED   writes the number of each batch that was acknowledged
 *        feeder batches RECORD                              prints of each: its probe, its number, how many batches
 *                                                           that probe counts as lost so far, whether it is its last,
 *                                                           and how many ns after it was made it came, of this host
 *        feeder copy RECORD TO [COUNT]                      writes the same frames, at once; COUNT of them, and no end
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"
#include "probe/uplink.h"
#include "probe/wire/decode.h"

enum { BATCHES_MAX = 1000, FLUSH_MS = 60000, PAUSE_US = 500 };

extern void failing_calls_begin(void) __attribute__((weak)); /* failing_calls.c */

static int fail(const char *what, const char *why)
{
	fprintf(stderr, "feeder: %s: %s\n", what, why);
	return 1;
}

static struct host_ns host_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (struct host_ns){now.tv_sec * INT64_C(1000000000) + now.tv_nsec};
}

/* Calls take for each batch of a record until it returns an error. Returns its, or 0 at the record's end. */
static int for_each(const char *path,
	int (*take)(void *context, const void *bytes, size_t length, struct job_ns received),
	void *context)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct record_reader *reader;
	struct job_ns received;
	const void *bytes;
	size_t length;
	int error = record_reader_open(path, &reader, why);

	if (error)
		return fail(path, why);
	while (!error && !record_reader_next(reader, &bytes, &length, &received))
		error = take(context, bytes, length, received);
	record_reader_close(reader);
	return error;
}

struct batches {
	size_t count, wanted;
	struct message_batch *batches[BATCHES_MAX];
};

static int load(void *context, const void *bytes, size_t length, struct job_ns received)
{
	struct batches *all = context;

	(void)received;
	if (all->count == all->wanted)
		return 0;
	return wire_decode_batch(bytes, length, &all->batches[all->count++], NULL);
}

static void note_replies(struct uplink *uplink, int acknowledged)
{
	struct message_reply reply;

	while (uplink_take_reply(uplink, &reply)) {
		if (reply.accepted)
			dprintf(acknowledged, "%" PRIu64 "\n", reply.number);
	}
}

/* One behind the newest that was acknowledged. */
static uint64_t first_number(const char *log)
{
	FILE *file = fopen(log, "re");
	uint64_t number, next = 0;

	while (file && fscanf(file, "%" SCNu64, &number) == 1)
		next = number + 1;
	if (file)
		fclose(file);
	return next;
}

static int send_all(struct batches *all, const char *url, const char *folder, const char *log)
{
	const struct uplink_options options = {.url = url,
		.spool_folder = folder,
		.spool_name = "feeder",
		.spool_takes_over = true,
		.memory_bytes_max = 1};
	int acknowledged = open(log, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600);
	struct uplink_state state;
	struct uplink *uplink;
	uint64_t id = 1, next = 0;
	int error;

	if (failing_calls_begin)
		failing_calls_begin();
	error = uplink_create(&options, &uplink);
	if (error)
		return fail("the uplink", strerror(-error));
	if (!uplink_resumed(uplink, &id, &next))
		next = first_number(log);
	for (; next < all->count; next++) {
		struct message_batch *batch = all->batches[next];

		batch->probe_id = id;
		batch->number = next;
		batch->final = next + 1 == all->count;
		error = uplink_send(uplink, batch, host_now());
		if (error && batch->final) /* without it, the coordinator waits */
			error = uplink_send(uplink, batch, host_now());
		if (error)
			fprintf(stderr, "feeder: batch %" PRIu64 " is lost\n", next);
		note_replies(uplink, acknowledged);
		usleep(PAUSE_US);
	}
	error = uplink_flush(uplink, FLUSH_MS);
	note_replies(uplink, acknowledged);
	uplink_get_state(uplink, &state);
	uplink_destroy(uplink);
	if (state.refused[0])
		return fail("refused", state.refused);
	return error ? fail("not all is acknowledged", strerror(-error)) : 0;
}

static int print_batch(void *context, const void *bytes, size_t length, struct job_ns received)
{
	struct message_batch *batch;
	int error = wire_decode_batch(bytes, length, &batch, NULL);

	(void)context;
	if (error)
		return error;
	printf("%016" PRIx64 " %" PRIu64 " %" PRIu64 " %d %" PRId64 "\n", batch->probe_id,
		batch->number, batch->counters.batches_lost, batch->final,
		received.value - batch->sent.value);
	message_batch_destroy(batch);
	return 0;
}

struct copying {
	struct record_writer *writer;
	uint64_t left;
};

static int copy_frame(void *context, const void *bytes, size_t length, struct job_ns received)
{
	struct copying *copying = context;

	if (!copying->left)
		return 0;
	copying->left--;
	return record_writer_append(copying->writer, bytes, length, received);
}

/* count: NULL: all, and the mark of the end. */
static int copy(const char *from, const char *to, const char *count)
{
	struct record_writer_options options = {.program = "feeder"};
	struct copying copying = {.left = count ? strtoull(count, NULL, 10) : UINT64_MAX};
	int error = record_writer_create(to, &options, &copying.writer, NULL);

	if (!error)
		error = for_each(from, copy_frame, &copying);
	if (error)
		return fail(to, strerror(-error));
	if (!count)
		return record_writer_finish(copying.writer);
	record_writer_destroy(copying.writer);
	return 0;
}

int main(int argc, char **argv)
{
	static struct batches all;

	if (argc == 7 && strcmp(argv[1], "send") == 0) {
		all.wanted =
			(size_t)atoi(argv[3]) < BATCHES_MAX ? (size_t)atoi(argv[3]) : BATCHES_MAX;
		if (for_each(argv[2], load, &all))
			return fail(argv[2], "it cannot be read");
		return send_all(&all, argv[4], argv[5], argv[6]);
	}
	if (argc == 3 && strcmp(argv[1], "batches") == 0)
		return for_each(argv[2], print_batch, NULL) != 0;
	if ((argc == 4 || argc == 5) && strcmp(argv[1], "copy") == 0)
		return copy(argv[2], argv[3], argv[4]) != 0;
	return fail("usage", "send, batches or copy");
}
