/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_ingest [--stages] RECORD [SCRATCH]: what the coordinator's work on the frames of a record costs,
 * per rank-step, beside unpacking the same messages with msgpack and writing the same bytes; of all frames,
 * and of their second half, when memory has been touched and grids made. Frames are read outside of the
 * measured time. --stages: also what each stage of the pipeline takes,
 * which costs a reading of the clock for each. key_ns_per_rank_step is what comes on top where probes prove the
 * job's key: each request checked, each reply sealed. Prints one JSON object. Make records with
 * bench_simulator; one process for each, so that the peak of memory is its own.
 */
#include <errno.h>
#include <fcntl.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "coordinator/gate.h"
#include "coordinator/pipeline.h"
#include "coordinator/pipeline_internal.h"
#include "coordinator/record/reader.h"
#include "coordinator/record/writer.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"

struct totals {
	double push_s, append_s, unpack_s, write_s, decode_s;
	uint64_t frames, bytes;
	uint64_t half;	/* of the frames */
	double first_s; /* push and append of these */
	bool stages;	/* asked for */
	double stage_s[PIPELINE_STAGE_NR];
	enum pipeline_stage stage; /* since stage_since_s */
	double stage_since_s;
	double key_s;
	struct seal *seal; /* the probes' */
	struct gate *gate;
	struct wire_buffer sealed, reply;
};

static double cpu_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void on_stage(void *context, enum pipeline_stage stage)
{
	struct totals *totals = context;
	double now = cpu_s();

	totals->stage_s[totals->stage] += now - totals->stage_since_s;
	totals->stage = stage;
	totals->stage_since_s = now;
}

/* The floor: unpack, and write as it is; and, to tell it apart, our decoder alone. */
static int unpack_and_write(int fd, const void *bytes, size_t length, struct totals *totals)
{
	double start = cpu_s();
	struct message_batch *batch;
	msgpack_unpacked unpacked;
	int result;
	size_t offset = 0;
	ssize_t written;

	msgpack_unpacked_init(&unpacked);
	if (msgpack_unpack_next(&unpacked, bytes, length, &offset) != MSGPACK_UNPACK_SUCCESS) {
		msgpack_unpacked_destroy(&unpacked);
		return -EBADMSG;
	}
	msgpack_unpacked_destroy(&unpacked);
	totals->unpack_s += cpu_s() - start;
	start = cpu_s();
	result = wire_decode_packed_batch(bytes, length, &batch, NULL);
	if (result < 0)
		return result;
	message_batch_destroy(batch);
	totals->decode_s += cpu_s() - start;
	start = cpu_s();
	written = write(fd, bytes, length);
	totals->write_s += cpu_s() - start;
	return written == (ssize_t)length ? 0 : -EIO;
}

static const uint8_t key[SEAL_KEY_BYTES] = {1}, nonce[SEAL_NONCE_BYTES] = {2};

/* The frame with a proof in front, as its probe would send it. */
static int seal_frame(const void *bytes, size_t length, struct totals *totals)
{
	struct seal_head head = {.kind = SEAL_BATCH, .number = totals->frames};
	int error = wire_sender_id(bytes, length, &head.probe_id);

	if (error < 0)
		return error;
	if (totals->sealed.capacity < SEAL_HEAD_BYTES + length) {
		wire_buffer_fini(&totals->sealed);
		totals->sealed.bytes = malloc(SEAL_HEAD_BYTES + length);
		if (!totals->sealed.bytes)
			return -ENOMEM;
		totals->sealed.capacity = SEAL_HEAD_BYTES + length;
	}
	totals->sealed.length = SEAL_HEAD_BYTES + length;
	memcpy(head.nonce, nonce, sizeof(nonce));
	memcpy(totals->sealed.bytes + SEAL_HEAD_BYTES, bytes, length);
	return seal_write(totals->seal, &head, NULL, bytes, length, totals->sealed.bytes);
}

/* What the key adds to the work on one frame that was answered so. */
static int check_key(
	const void *bytes, size_t length, const struct message_reply *reply, struct totals *totals)
{
	struct gate_request request;
	uint8_t head[SEAL_HEAD_BYTES];
	double start;
	int result = seal_frame(bytes, length, totals);

	if (result == 0)
		result = wire_encode_reply(reply, &totals->reply);
	if (result < 0)
		return result;
	start = cpu_s();
	result = gate_take(
		totals->gate, false, totals->sealed.bytes, totals->sealed.length, &request);
	if (result == GATE_BATCH)
		result = gate_close_reply(
			totals->gate, &request, totals->reply.bytes, totals->reply.length, head);
	else
		result = result < 0 ? result : -EBADMSG;
	totals->key_s += cpu_s() - start;
	return result;
}

static int ingest(struct pipeline *pipeline, struct record_writer *writer, const void *bytes,
	size_t length, struct job_ns received, struct totals *totals)
{
	double start = cpu_s();
	struct message_reply reply;
	int result = record_writer_append(writer, bytes, length, received);

	totals->append_s += cpu_s() - start;
	if (result < 0)
		return result;
	start = cpu_s();
	if (totals->stages) { /* what lay between two frames is none of it */
		totals->stage = PIPELINE_STAGE_IDLE;
		totals->stage_since_s = start;
	}
	result = pipeline_push(pipeline, bytes, length, received, &reply);
	if (totals->stages)
		on_stage(totals, PIPELINE_STAGE_IDLE);
	totals->push_s += cpu_s() - start;
	if (result != PIPELINE_ACCEPTED)
		return result < 0 ? result : -EBADMSG;
	return check_key(bytes, length, &reply, totals);
}

/* One pass over the record: with a pipeline the coordinator's work, with a file the floor; else frames are counted. */
static int read_frames(const char *path, struct pipeline *pipeline, struct record_writer *writer,
	int fd, struct totals *totals)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct record_reader *reader;
	const void *bytes;
	size_t length;
	struct job_ns received;
	int result = record_reader_open(path, &reader, why);

	if (result < 0) {
		fprintf(stderr, "bench_ingest: %s\n", why);
		return result;
	}
	totals->frames = totals->bytes = 0;
	while ((result = record_reader_next(reader, &bytes, &length, &received)) == 0) {
		totals->frames++;
		totals->bytes += length;
		if (pipeline && totals->frames == totals->half)
			totals->first_s = totals->push_s + totals->append_s;
		if (pipeline)
			result = ingest(pipeline, writer, bytes, length, received, totals);
		else if (fd >= 0)
			result = unpack_and_write(fd, bytes, length, totals);
		if (result < 0)
			break;
	}
	record_reader_close(reader);
	return result == -ENODATA ? 0 : result;
}

static long peak_kib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss;
}

static void print_result(const struct totals *totals, const struct report_model *model, long kib)
{
	double rank_steps = (double)model->rank_count * (double)model->totals.steps;
	double coordinator_s = totals->push_s + totals->append_s;
	double floor_s = totals->unpack_s + totals->write_s;
	double later_share = 1 - (double)totals->half / (double)totals->frames;

	printf("{\"ranks\": %u, \"steps\": %llu, \"frames\": %llu, \"bytes\": %llu, "
	       "\"bytes_per_rank_step\": %.1f, \"ns_per_rank_step\": %.1f, "
	       "\"ns_in_second_half\": %.1f, \"key_ns_per_rank_step\": %.1f, "
	       "\"rank_steps_per_s\": %.0f, \"decode_and_analyse_s\": %.3f, \"record_s\": %.3f, "
	       "\"decode_alone_s\": %.3f, "
	       "\"msgpack_unpack_s\": %.3f, \"write_s\": %.3f, \"times_the_floor\": %.2f, "
	       "\"peak_mib\": %.1f",
		model->rank_count, (unsigned long long)model->totals.steps,
		(unsigned long long)totals->frames, (unsigned long long)totals->bytes,
		(double)totals->bytes / rank_steps, 1e9 * coordinator_s / rank_steps,
		1e9 * (coordinator_s - totals->first_s) / (rank_steps * later_share),
		1e9 * totals->key_s / rank_steps, rank_steps / coordinator_s, totals->push_s,
		totals->append_s, totals->decode_s, totals->unpack_s, totals->write_s,
		coordinator_s / floor_s, (double)kib / 1024);
	static const char *const names[PIPELINE_STAGE_NR] = {
		"other", "decode", "take", "assemble", "judge"};

	for (int stage = 0; totals->stages && stage < PIPELINE_STAGE_NR; stage++)
		printf("%s\"%s\": %.1f", stage ? ", " : ", \"stage_ns_per_rank_step\": {",
			names[stage], 1e9 * totals->stage_s[stage] / rank_steps);
	printf("%s}\n", totals->stages ? "}" : "");
}

static int measure(const char *path, const char *scratch, bool stages)
{
	const struct record_writer_options writer_options = {.program = "bench_ingest"};
	const struct pipeline_options pipeline_options = {NULL, NULL};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct record_writer *writer = NULL;
	struct pipeline *pipeline = NULL;
	struct totals totals = {.stages = stages};
	double start;
	long kib;
	int fd = -1, error = record_writer_create(scratch, &writer_options, &writer, why);

	if (error == 0)
		error = seal_create(key, &totals.seal);
	if (error == 0)
		error = gate_create(key, nonce, &totals.gate);
	if (error == 0)
		error = pipeline_create(&pipeline_options, &pipeline);
	if (error == 0 && stages)
		pipeline_watch_stages(pipeline, on_stage, &totals);
	if (error == 0)
		error = read_frames(path, NULL, NULL, -1, &totals);
	totals.half = totals.frames / 2;
	if (error == 0)
		error = read_frames(path, pipeline, writer, -1, &totals);
	if (error < 0)
		goto done;
	start = totals.stage_since_s = cpu_s();
	error = pipeline_finish(pipeline);
	totals.push_s += cpu_s() - start;
	kib = peak_kib(); /* before the floor is measured */
	if (error < 0)
		goto done;
	fd = open(scratch, O_WRONLY | O_TRUNC | O_CLOEXEC);
	error = fd < 0 ? -errno : read_frames(path, NULL, NULL, fd, &totals);
	if (error == 0)
		print_result(&totals, pipeline_report(pipeline), kib);
done:
	if (fd >= 0)
		close(fd);
	gate_destroy(totals.gate);
	seal_destroy(totals.seal);
	wire_buffer_fini(&totals.sealed);
	wire_buffer_fini(&totals.reply);
	pipeline_destroy(pipeline);
	record_writer_destroy(writer);
	unlink(scratch);
	return error;
}

int main(int argc, char **argv)
{
	char scratch[4096];
	bool stages = argc > 1 && strcmp(argv[1], "--stages") == 0;
	int error;

	argv += stages;
	argc -= stages;
	if (argc < 2 || argc > 3) {
		fprintf(stderr, "usage: bench_ingest [--stages] RECORD [SCRATCH]\n");
		return 2;
	}
	snprintf(scratch, sizeof(scratch), "%s%s", argc > 2 ? argv[2] : argv[1],
		argc > 2 ? "" : ".scratch");
	error = measure(argv[1], scratch, stages);
	if (error < 0)
		fprintf(stderr, "bench_ingest: %s\n", strerror(-error));
	return error < 0;
}
