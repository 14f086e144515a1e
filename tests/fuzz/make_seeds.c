/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the seed corpora: make_seeds FOLDER fills FOLDER/wire_batch and the others. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zstd.h>

#include "coordinator/history/sums.h"
#include "coordinator/record/format.h"
#include "coordinator/record/writer.h"
#include "probe/auth/seal.h"
#include "probe/looks/sampler.h"
#include "probe/ring/ring_layout.h"
#include "probe/ring/verbs_table.h"
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

/* Questions, and answers with either look and with none; beside the replies, of the same target. */
static int make_answers(const char *folder)
{
	struct random_source random = {REPLY_SEEDS};
	struct stack_profile *stacks = random_stack_profile(&random);
	struct kernel_profile kernels = {.rank = 3,
		.request = 7,
		.steps = 10,
		.stop = {1000},
		.sum_count = 1,
		.sums = {{"gemm", 2, 100}}};
	const struct message_question question = {
		.asker_id = 77, .kind = DIRECTIVE_STACKS, .rank = 3, .job_id = "slurm.1"};
	const struct message_answer answers[] = {
		{.asker_id = 77, .state = ANSWER_WAIT, .host = "node", .pid = 12},
		{.asker_id = 77, .state = ANSWER_LOOK, .stacks = stacks},
		{.asker_id = 77, .state = ANSWER_LOOK, .kernels = &kernels},
		{.asker_id = 77, .state = ANSWER_REFUSED, .why = "there is no rank 9"},
	};
	struct wire_buffer buffer = {0};
	int error = wire_encode_question(&question, &buffer), number = REPLY_SEEDS;

	if (!error)
		error = write_seed(folder, number++, &buffer);
	for (size_t i = 0; i < sizeof(answers) / sizeof(answers[0]) && !error; i++) {
		error = wire_encode_answer(&answers[i], &buffer);
		if (!error)
			error = write_seed(folder, number++, &buffer);
	}
	stack_profile_destroy(stacks);
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
	if (!error)
		error = write_seed(folder, REPLY_SEEDS, &buffer); /* as it is */
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

/* A table of two queue pairs, with each trouble of fuzz_verbs_table.c, and what a device's files say. */
static int make_tables(const char *folder)
{
	static const char *const texts[] = {"0x12", "-1", "fe80::1", "70000"};
	enum { HAS_DEVICES = 1 << 4, PAIRS = 2, TEXT_BYTES = 64, TEXT_MAX = 48 };
	const size_t devices = sizeof(((struct verbs_table *)0)->devices);
	const size_t length = 1 + devices + PAIRS * sizeof(struct verbs_queue_pair) + TEXT_BYTES;
	struct verbs_queue_pair pairs[PAIRS] = {{.state = VERBS_QUEUE_PAIR_LIVE,
							.generation = 1,
							.flags = VERBS_HAS_PEER,
							.port = 1},
		{.state = VERBS_QUEUE_PAIR_DESTROYED, .generation = 2, .device = 1}};
	uint8_t *bytes = calloc(1, length);
	struct wire_buffer seed = {.bytes = bytes, .length = length};
	int error = bytes ? 0 : -1;

	for (int i = 0; i < 16 && !error; i++) {
		int bit = i < 8 ? 1 << i : 0;

		memset(bytes, 0, length);
		bytes[0] = (uint8_t)(bit | (i == 0 ? 0 : HAS_DEVICES));
		snprintf((char *)bytes + 1, VERBS_DEVICE_NAME_LENGTH, "%s",
			i == 9 ? ".x" : "mlx5_0");
		memcpy(bytes + 1 + devices, pairs, sizeof(pairs));
		memcpy(bytes + length - TEXT_MAX, texts[i % 4], strlen(texts[i % 4]));
		error = write_seed(folder, i, &seed);
	}
	free(bytes);
	return error;
}

/* Files of a ring with a head that is nearly right, and with records that are. */
static int make_ring_heads(const char *folder, int first)
{
	const struct ring_header good = {.magic = RING_MAGIC,
		.version = RING_VERSION,
		.header_bytes = RING_HEADER_BYTES,
		.record_bytes = RING_RECORD_BYTES,
		.slot_count = RING_SLOT_COUNT_MIN,
		.head = 3};
	struct ring_header heads[] = {good, good, good, good, good, good, good, good, good, good};
	enum { SLOTS = 3, LENGTH = 1 + RING_HEADER_BYTES + SLOTS * RING_RECORD_BYTES };
	enum { WRITERS_GONE = 1 << 5 };
	uint8_t bytes[LENGTH] = {0};
	struct ring_record *slots = calloc(SLOTS, sizeof(*slots));
	int error = slots ? 0 : -1;

	heads[1].version++;
	heads[2].header_bytes++;
	heads[3].record_bytes++;
	heads[4].slot_count = RING_SLOT_COUNT_MIN / 2;
	heads[5].slot_count = RING_SLOT_COUNT_MAX * 2;
	heads[6].slot_count = RING_SLOT_COUNT_MIN + 1;
	heads[7].slot_count = RING_SLOT_COUNT_MAX;
	heads[8].head = 2 * RING_SLOT_COUNT_MIN;
	heads[9].control.deep_request = UINT32_MAX;
	for (size_t i = 0; i < 2 * sizeof(heads) / sizeof(heads[0]) && !error; i++) {
		struct wire_buffer seed = {.bytes = bytes, .length = LENGTH};

		/* One that is damaged, and one that is claimed; the next one would be of another lap. */
		slots[0].sequence = 1;
		slots[1].sequence = 1;
		slots[2].sequence = i % 3 ? 7 : 2;
		bytes[0] = i % 2 ? WRITERS_GONE : 0;
		memcpy(bytes + 1, &heads[i / 2], sizeof(heads[0]));
		memcpy(bytes + 1 + RING_HEADER_BYTES, slots, SLOTS * sizeof(*slots));
		error = write_seed(folder, first + (int)i, &seed);
	}
	free(slots);
	return error;
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
	for (int i = 0; i < 8; i++) { /* each with another trouble: fuzz_ring.c */
		bytes[0] = (uint8_t)(1 | 1 << i);
		if (write_seed(folder, i, &buffer))
			return -1;
	}
	return make_ring_heads(folder, 8);
}

static void put_sampled(
	struct wire_buffer *buffer, enum sampler_record kind, const void *bytes, size_t length)
{
	const struct sampler_head head = {(uint32_t)kind, (uint32_t)length};

	memcpy(buffer->bytes + buffer->length, &head, sizeof(head));
	memcpy(buffer->bytes + buffer->length + sizeof(head), bytes, length);
	buffer->length += sizeof(head) + length;
}

/* A look as a sampler tells it: names, nodes, a thread, what it was seen at, the end. */
static int make_samplers(const char *folder)
{
	static uint8_t bytes[8192];
	struct wire_buffer buffer = {.bytes = bytes};
	struct stack_node outer = {.parent = STACK_NODE_NONE, .function = 1, .kind = 1};
	struct stack_node inner = {.parent = 0, .function = 6, .file = 1, .line = 7, .kind = 2};
	struct sampler_thread thread = {.info = {.pid = 5, .tid = 5, .role = 1}};
	struct sampler_end end = {.python_minor = 11, .cost_ns = 1000};
	struct {
		int64_t time_ns;
		struct sample_seen seen;
	} __attribute__((packed)) look = {1500, {.node = 1, .state = STACK_STATE_RUNNING}};

	put_sampled(&buffer, SAMPLER_TEXT, "main\0load", 10);
	put_sampled(&buffer, SAMPLER_NODE, &outer, sizeof(outer));
	put_sampled(&buffer, SAMPLER_NODE, &inner, sizeof(inner));
	put_sampled(&buffer, SAMPLER_THREAD, &thread, sizeof(thread));
	for (int i = 0; i < 20; i++, look.time_ns += 300)
		put_sampled(&buffer, SAMPLER_LOOK, &look, sizeof(look));
	put_sampled(&buffer, SAMPLER_END, &end, sizeof(end));
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

/* Frames as fuzz_record_reader.c takes them: packed, as they are, by an unknown codec, damaged, a gap, an unknown kind, an end. */
static int make_frames(const char *folder, int first)
{
	static const char text[] = "sent sent sent sent sent sent sent sent sent sent sent sent";
	uint8_t bytes[512] = {0}, packed[128];
	struct wire_buffer seed = {.bytes = bytes};
	size_t length = ZSTD_compress(packed + 1, sizeof(packed) - 1, text, sizeof(text), 1);
	const struct {
		uint8_t kind, codec;
		size_t length;
	} frames[] = {{RECORD_BATCH, RECORD_CODEC_ZSTD, length},
		{RECORD_BATCH, RECORD_CODEC_NONE, length}, {RECORD_BATCH, 7, length},
		{RECORD_BATCH, RECORD_CODEC_ZSTD, length - 4},
		{RECORD_GAP, RECORD_CODEC_NONE, RECORD_GAP_BYTES},
		{RECORD_GAP, RECORD_CODEC_NONE, 4}, {200, RECORD_CODEC_NONE, 3},
		{RECORD_BATCH, RECORD_CODEC_ZSTD, length},
		{RECORD_END_MAGIC >> 24, RECORD_CODEC_NONE, RECORD_END_BYTES}};

	for (int plain = 0; plain < 2; plain++) {
		bytes[1] = (uint8_t)plain;
		seed.length = 2;
		for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
			size_t all = RECORD_CODEC_BYTES + frames[i].length;
			uint8_t head[] = {frames[i].kind, (uint8_t)all, 0};

			packed[0] = frames[i].codec;
			memcpy(bytes + seed.length, head, sizeof(head));
			memcpy(bytes + seed.length + sizeof(head), packed, all);
			seed.length += sizeof(head) + all;
		}
		if (write_seed(folder, first + plain, &seed))
			return -1;
	}
	return 0;
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
	return error ? error : make_frames(folder, RECORD_SEEDS);
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
		make_replies(path) || make_answers(path) || make_folder(argv[1], "seal", path) ||
		make_seals(path) || make_folder(argv[1], "record_reader", path) ||
		make_records(path) || make_folder(argv[1], "history", path) || make_history(path) ||
		make_folder(argv[1], "ring", path) || make_rings(path) ||
		make_folder(argv[1], "sampler", path) || make_samplers(path) ||
		make_folder(argv[1], "verbs_table", path) || make_tables(path))
		return 1;
	return 0;
}
