/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the seed corpora: make_seeds FOLDER fills FOLDER/wire_batch and the others. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "coordinator/history/sums.h"
#include "coordinator/record/writer.h"
#include "probe/auth/seal.h"
#include "probe/ring/ring_layout.h"
#include "probe/wire/encode.h"
#include "tests/unit/wire/random_batch.h"

enum {
	BATCH_SEEDS = 40,
	BATCH_BYTES_MAX = 3000, /* small ones are tried more often in the same time */
	BATCH_TRIES = 1000,
	REPLY_SEEDS = 10,
	RECORD_SEEDS = 10,
};

static int make_folder(const char *folder, const char *name, char path[4096])
{
	snprintf(path, 4096, "%s/%s", folder, name);
	if (mkdir(path, 0755) < 0 && errno != EEXIST) {
		perror(path);
		return -1;
	}
	return 0;
}

static int write_seed(const char *folder, int number, const struct wire_buffer *buffer)
{
	char path[4200];
	FILE *file;

	snprintf(path, sizeof(path), "%s/seed-%d", folder, number);
	file = fopen(path, "w");
	if (!file || fwrite(buffer->bytes, 1, buffer->length, file) != buffer->length ||
		fclose(file)) {
		perror(path);
		return -1;
	}
	return 0;
}

/* The same as a frame that fuzz_report.c takes. */
static int write_frame(const char *folder, int number, const struct wire_buffer *batch)
{
	uint32_t head[] = {(uint32_t)batch->length, 100};
	uint8_t bytes[sizeof(head) + BATCH_BYTES_MAX];
	struct wire_buffer frame = {.bytes = bytes, .length = sizeof(head) + batch->length};

	memcpy(bytes, head, sizeof(head));
	memcpy(bytes + sizeof(head), batch->bytes, batch->length);
	return write_seed(folder, number, &frame);
}

/* The same batch with looks at stacks of its two ranks: a report shows them. */
static int write_stacks(const char *folder, int number, struct message_batch *batch)
{
	struct random_source random = {(uint64_t)number + 1};
	struct wire_buffer buffer = {0};
	int error;

	batch->stack_profiles = calloc(2, sizeof(*batch->stack_profiles));
	if (!batch->stack_profiles)
		return -ENOMEM;
	for (uint32_t rank = 0; rank < 2; rank++) {
		struct stack_profile *profile = random_stack_profile(&random);

		profile->rank = rank;
		batch->stack_profiles[batch->stack_profile_count++] = profile;
	}
	error = wire_encode_batch(batch, &buffer);
	if (!error && buffer.length <= BATCH_BYTES_MAX)
		error = write_frame(folder, BATCH_SEEDS + number, &buffer);
	wire_buffer_fini(&buffer);
	return error;
}

static int make_batches(const char *folder, const char *report_folder)
{
	struct wire_buffer buffer = {0};
	int error = 0, made = 0;

	for (int i = 0; made < BATCH_SEEDS && i < BATCH_TRIES && !error; i++) {
		struct message_batch batch;

		if (i % 4 == 0) {
			struct job_batch job = {.rank_count = 2,
				.steps_per_rank = 3,
				.collectives_per_step = 5,
				.step_ns = 20000000,
				.activity_percent = 30};

			job_batch_init(&batch, &job, (uint64_t)i);
		} else {
			random_batch_init(&batch, (uint64_t)i);
		}
		error = wire_encode_batch(&batch, &buffer);
		if (!error && buffer.length <= BATCH_BYTES_MAX) {
			error = write_seed(folder, made, &buffer);
			/* Tables of the ranks that random ones tell of take half a second. */
			if (!error && i % 4 == 0)
				error = write_frame(report_folder, made, &buffer);
			if (!error && i % 4 == 0)
				error = write_stacks(report_folder, made, &batch);
			made++;
		}
		random_batch_fini(&batch);
	}
	wire_buffer_fini(&buffer);
	return error;
}

static int make_replies(const char *folder)
{
	struct wire_buffer buffer = {0};
	int error = 0;

	for (int i = 0; i < REPLY_SEEDS && !error; i++) {
		struct random_source random = {(uint64_t)i};
		struct message_reply reply = {.probe_id = random_next(&random),
			.number = random_wide(&random),
			.received = {random_length_ns(&random)},
			.accepted = (uint8_t)(i % 2),
			.directive_count = (size_t)i % 3,
			.directives = {{.kind = DIRECTIVE_DEEP, .rank = 3, .steps = 50}}};

		random_text(&random, reply.why, sizeof(reply.why));
		error = wire_encode_reply(&reply, &buffer);
		if (!error)
			error = write_seed(folder, i, &buffer);
	}
	wire_buffer_fini(&buffer);
	return error;
}

/* A hello and batches with the key and the nonce of fuzz_seal.c: some are proven. */
static int make_seals(const char *folder)
{
	static const uint8_t key[SEAL_KEY_BYTES] = {1};
	struct wire_buffer buffer = {0};
	uint8_t bytes[BATCH_BYTES_MAX];
	struct seal *seal;
	int error = seal_create(key, &seal);

	for (uint64_t i = 0; i < REPLY_SEEDS && !error; i++) {
		struct message_batch batch = {.probe_id = i % 2 ? 5 : UINT64_MAX, .number = i};
		struct seal_head head = {.kind = i ? SEAL_BATCH : SEAL_HELLO,
			.probe_id = batch.probe_id,
			.nonce = {i % 4 == 3 ? 3 : 2},
			.number = i};
		struct wire_buffer seed = {.bytes = bytes, .length = SEAL_HEAD_BYTES};

		error = wire_encode_batch(&batch, &buffer);
		if (!error && i) {
			memcpy(bytes + SEAL_HEAD_BYTES, buffer.bytes, buffer.length);
			seed.length += buffer.length;
		}
		if (!error)
			error = seal_write(seal, &head, NULL, bytes + SEAL_HEAD_BYTES,
				seed.length - SEAL_HEAD_BYTES, bytes);
		if (!error)
			error = write_seed(folder, (int)i, &seed);
	}
	wire_buffer_fini(&buffer);
	seal_destroy(seal);
	return error;
}

static size_t put_record(
	uint8_t *bytes, enum ring_record_kind kind, const void *payload, size_t length)
{
	memset(bytes, 0, RING_PAYLOAD_BYTES + 3);
	bytes[0] = (uint8_t)kind;
	bytes[1] = (uint8_t)length;
	memcpy(bytes + 3, payload, length);
	return RING_PAYLOAD_BYTES + 3;
}

/* A look as the library writes it: a clock, a name, kernels, a copy, the end. */
static int make_rings(const char *folder)
{
	uint8_t bytes[1 + 16 * (RING_PAYLOAD_BYTES + 3)] = {1};
	struct ring_clock_pair pair = {
		.domain = RING_CLOCK_CUPTI, .gpu_ns = 1000, .host_ns = 2000, .error_ns = 10};
	struct ring_kernel_name name = {.name_id = 7, .total_bytes = 5, .piece_bytes = 5};
	struct ring_kernel kernel = {.start_ns = 2000000, .stop_ns = 3000000, .name_id = 7};
	struct ring_memcpy copy = {.start_ns = 3000000, .stop_ns = 3500000, .length_bytes = 9};
	struct ring_collective call = {.rank = 1, .function = RING_FUNCTION_ALL_REDUCE};
	struct ring_deep_report report = {.state = RING_DEEP_OFF};
	struct wire_buffer buffer = {.bytes = bytes, .length = 1};

	memcpy(name.text, "_Z1kv", 5);
	buffer.length +=
		put_record(bytes + buffer.length, RING_RECORD_CLOCK_PAIR, &pair, sizeof(pair));
	buffer.length +=
		put_record(bytes + buffer.length, RING_RECORD_KERNEL_NAME, &name, sizeof(name));
	buffer.length +=
		put_record(bytes + buffer.length, RING_RECORD_KERNEL, &kernel, sizeof(kernel));
	buffer.length += put_record(bytes + buffer.length, RING_RECORD_MEMCPY, &copy, sizeof(copy));
	buffer.length +=
		put_record(bytes + buffer.length, RING_RECORD_COLLECTIVE, &call, sizeof(call));
	buffer.length +=
		put_record(bytes + buffer.length, RING_RECORD_DEEP_STATE, &report, sizeof(report));
	return write_seed(folder, 0, &buffer);
}

static size_t put_piece(uint8_t *bytes, uint8_t kind, size_t length)
{
	bytes[0] = kind;
	bytes[1] = (uint8_t)length;
	bytes[2] = (uint8_t)(length >> 8);
	return 3 + length;
}

/* A verdict, sums of two ranks and of their job, as fuzz_history.c takes them. */
static int make_history(const char *folder)
{
	static uint8_t bytes[3 * (3 + SUMS_BYTES_MAX)];
	struct wire_buffer buffer = {.bytes = bytes};
	struct verdict verdict = {.id = 1,
		.verdict_class = VERDICT_HOST_SLOW,
		.rank_count = 1,
		.evidence_count = 1,
		.evidence = {{.detail = "ran instead: stress-ng"}}};
	static struct sums_ranks ranks = {
		.count = 2, .ranks = {{.host = "node-a"}, {.totals = {.rank = 1, .steps = 5}}}};
	static struct sums_job job = {.job_id = "job",
		.totals = {.steps = 5, .time_ns = 100, .ideal_ns = 50},
		.cost_count = 1,
		.costs = {{.slowdown = 1.5}},
		.source_count = 1};

	buffer.length = put_piece(bytes, 1, sums_put_verdict(&verdict, bytes + 3));
	buffer.length += put_piece(
		bytes + buffer.length, 2, sums_put_ranks(&ranks, bytes + buffer.length + 3));
	buffer.length +=
		put_piece(bytes + buffer.length, 3, sums_put_job(&job, bytes + buffer.length + 3));
	return write_seed(folder, 0, &buffer);
}

static int make_records(const char *folder)
{
	const struct record_writer_options options = {.program = "seeds"};
	int error = 0;

	for (int i = 0; i < RECORD_SEEDS && !error; i++) {
		struct random_source random = {(uint64_t)i};
		struct record_writer *writer;
		char path[4200];

		snprintf(path, sizeof(path), "%s/seed-%d", folder, i);
		error = record_writer_create(path, &options, &writer, NULL);
		for (int frame = 0; frame < i && !error; frame++) {
			char bytes[300];

			random_text(&random, bytes, sizeof(bytes));
			error = record_writer_append(
				writer, bytes, strlen(bytes), (struct job_ns){frame});
		}
		if (error)
			break;
		if (i % 3 == 2)
			record_writer_destroy(writer);
		else
			error = record_writer_finish(writer);
	}
	return error;
}

int main(int argc, char **argv)
{
	char path[4096], report[4096];

	if (argc != 2) {
		fprintf(stderr, "usage: make_seeds FOLDER\n");
		return 2;
	}
	if (make_folder(argv[1], "report", report) || make_folder(argv[1], "wire_batch", path) ||
		make_batches(path, report) || make_folder(argv[1], "wire_reply", path) ||
		make_replies(path) || make_folder(argv[1], "seal", path) || make_seals(path) ||
		make_folder(argv[1], "record_reader", path) || make_records(path) ||
		make_folder(argv[1], "history", path) || make_history(path) ||
		make_folder(argv[1], "ring", path) || make_rings(path))
		return 1;
	return 0;
}
