/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "probe/wire/decode.h"
#include "probe/wire/decode_steps.h"
#include "probe/wire/format.h"
#include "probe/wire/kernel_profiles.h"
#include "probe/wire/queue_pairs.h"
#include "probe/wire/stack_profiles.h"

enum { REPLY_SINGLE_DIRECTIVE_FIELDS = 3 };

/* What wire_decode_batch() hands out: the batch comes first, so that its address is this one. */
struct decoded_batch {
	struct message_batch batch;
	struct wire_arena arena;
};

/* And wire_decode_answer(). */
struct decoded_answer {
	struct message_answer answer;
	struct message_batch looks; /* no more than its profiles */
	struct wire_arena arena;
};

__attribute__((format(printf, 3, 4))) static int refuse(
	char why[WIRE_DETAIL_LENGTH_MAX + 1], int error, const char *format, ...)
{
	va_list arguments;

	if (why) {
		va_start(arguments, format);
		vsnprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, format, arguments);
		va_end(arguments);
	}
	return error;
}

static const char *const type_names[] = {
	[WIRE_TYPE_BATCH] = "batch",
	[WIRE_TYPE_REPLY] = "reply",
	[WIRE_TYPE_QUESTION] = "question",
	[WIRE_TYPE_ANSWER] = "answer",
};

/* Checks version, type and length, in this order; later_fields: fields behind the known ones. */
static int read_envelope(struct wire_reader *reader, const void *bytes, size_t length,
	enum wire_type type, size_t known_fields, size_t *later_fields,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	size_t field_count;
	uint64_t found_type, version;

	if (length > WIRE_MESSAGE_LENGTH_MAX)
		return refuse(why, -EMSGSIZE, "the message has %zu bytes; at most %d are allowed",
			length, WIRE_MESSAGE_LENGTH_MAX);
	wire_reader_init(reader, bytes, length);
	field_count = wire_read_array(reader, WIRE_MESSAGE_LENGTH_MAX);
	if (!reader->problem && field_count < 2)
		wire_reader_fail(reader, "an array has too few items");
	found_type = wire_read_unsigned(reader, UINT64_MAX);
	version = wire_read_unsigned(reader, UINT64_MAX);
	if (reader->problem)
		return refuse(why, -EBADMSG, "not a slowrank message: at byte %td %s",
			reader->problem_at - (const uint8_t *)bytes, reader->problem);
	if (version != WIRE_VERSION)
		return refuse(why, -EPROTONOSUPPORT,
			"the message has wire version %" PRIu64 ", this program knows %d: use the "
			"same slowrank version everywhere",
			version, WIRE_VERSION);
	if (found_type != (uint64_t)type)
		return refuse(why, -EBADMSG, "the message has type %" PRIu64 ", not %d (%s)",
			found_type, (int)type, type_names[type]);
	if (field_count < known_fields)
		return refuse(why, -EBADMSG, "the message has %zu fields; %zu are needed",
			field_count, known_fields);
	*later_fields = field_count - known_fields;
	return 0;
}

/* After the last known field. */
static int read_end(struct wire_reader *reader, const void *bytes, size_t later_fields,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	wire_skip(reader, later_fields);
	if (!reader->problem && reader->next != reader->end)
		wire_reader_fail(reader, "there are bytes behind its end");
	if (reader->problem)
		return refuse(why, -EBADMSG, "the message is damaged: at byte %td %s",
			reader->problem_at - (const uint8_t *)bytes, reader->problem);
	return 0;
}

static bool is_question(const void *bytes, size_t length)
{
	struct wire_reader reader;

	wire_reader_init(&reader, bytes, length);
	(void)wire_read_array(&reader, WIRE_MESSAGE_LENGTH_MAX);
	return wire_read_unsigned(&reader, UINT64_MAX) == WIRE_TYPE_QUESTION && !reader.problem;
}

int wire_sender_id(const void *bytes, size_t length, uint64_t *sender_id)
{
	bool asks = is_question(bytes, length);
	struct wire_reader reader;
	size_t later_fields;
	int error =
		read_envelope(&reader, bytes, length, asks ? WIRE_TYPE_QUESTION : WIRE_TYPE_BATCH,
			asks ? WIRE_QUESTION_FIELDS : WIRE_BATCH_FIELDS, &later_fields, NULL);
	uint64_t found;

	if (error)
		return error;
	found = wire_read_unsigned(&reader, UINT64_MAX);
	if (reader.problem)
		return -EBADMSG;
	*sender_id = found;
	return 0;
}

static int64_t read_time(struct wire_reader *reader)
{
	return (int64_t)wire_read_unsigned(reader, (uint64_t)WIRE_TIME_NS_MAX);
}

static void read_header(struct wire_reader *reader, struct message_batch *batch)
{
	struct message_counters *counters = &batch->counters;
	size_t later_fields;

	batch->probe_id = wire_read_unsigned(reader, UINT64_MAX);
	batch->number = wire_read_unsigned(reader, UINT64_MAX);
	batch->host_id = wire_read_unsigned(reader, UINT64_MAX);
	batch->sent.value = read_time(reader);
	later_fields = wire_read_record(reader, WIRE_PREVIOUS_FIELDS);
	batch->previous_sent.value = read_time(reader);
	batch->previous_reply_received.value = read_time(reader);
	batch->previous_received.value = read_time(reader);
	batch->previous_reply_sent.value = read_time(reader);
	wire_skip(reader, later_fields);
	batch->final = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
	wire_read_string(reader, batch->job_id, sizeof(batch->job_id));
	batch->unix_offset_ns = wire_read_signed(reader, -WIRE_TIME_NS_MAX, WIRE_TIME_NS_MAX);
	later_fields = wire_read_record(reader, WIRE_COUNTERS_FIELDS);
	counters->events = wire_read_unsigned(reader, UINT64_MAX);
	counters->dropped = wire_read_unsigned(reader, UINT64_MAX);
	counters->steps_incomplete = wire_read_unsigned(reader, UINT64_MAX);
	counters->batches_spooled = wire_read_unsigned(reader, UINT64_MAX);
	counters->batches_lost = wire_read_unsigned(reader, UINT64_MAX);
	counters->cpu_ns = wire_read_unsigned(reader, UINT64_MAX);
	counters->resident_bytes = wire_read_unsigned(reader, UINT64_MAX);
	wire_skip(reader, later_fields);
}

static int read_sources(
	struct wire_reader *reader, struct wire_arena *arena, struct message_batch *batch)
{
	batch->source_count = wire_read_array(reader, WIRE_SOURCES_MAX);
	batch->sources = wire_arena_take(arena, batch->source_count, sizeof(*batch->sources));
	if (!batch->sources)
		return arena->error;
	for (size_t i = 0; i < batch->source_count && !reader->problem; i++) {
		struct message_source *source = &batch->sources[i];
		size_t later_fields = wire_read_record(reader, WIRE_SOURCE_FIELDS);

		*source = (struct message_source){0};
		wire_read_string(reader, source->name, sizeof(source->name));
		source->state = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		wire_read_string(reader, source->why, sizeof(source->why));
		wire_skip(reader, later_fields);
	}
	return 0;
}

static int read_ranks(
	struct wire_reader *reader, struct wire_arena *arena, struct message_batch *batch)
{
	batch->rank_count = wire_read_array(reader, WIRE_RANKS_PER_BATCH_MAX);
	batch->ranks = wire_arena_take(arena, batch->rank_count, sizeof(*batch->ranks));
	if (!batch->ranks)
		return arena->error;
	for (size_t i = 0; i < batch->rank_count && !reader->problem; i++) {
		struct message_rank *rank = &batch->ranks[i];
		size_t later_fields = wire_read_record(reader, WIRE_RANK_FIELDS);

		*rank = (struct message_rank){0};
		rank->rank = wire_read_rank(reader);
		rank->world_size = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		rank->local_rank = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		rank->pid = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		rank->exited = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		rank->exit_code = (int32_t)wire_read_signed(reader, INT32_MIN, INT32_MAX);
		wire_read_string(reader, rank->host, sizeof(rank->host));
		wire_read_string(reader, rank->program, sizeof(rank->program));
		if (later_fields >= WIRE_RANK_LATER_FIELDS) {
			rank->restarts = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
			later_fields -= WIRE_RANK_LATER_FIELDS;
		}
		wire_skip(reader, later_fields);
	}
	return 0;
}

static int read_communicators(
	struct wire_reader *reader, struct wire_arena *arena, struct message_batch *batch)
{
	batch->communicator_count = wire_read_array(reader, WIRE_COMMUNICATORS_PER_BATCH_MAX);
	batch->communicators =
		wire_arena_take(arena, batch->communicator_count, sizeof(*batch->communicators));
	if (!batch->communicators)
		return arena->error;
	for (size_t i = 0; i < batch->communicator_count && !reader->problem; i++) {
		struct message_communicator *entry = &batch->communicators[i];
		size_t later_fields = wire_read_record(reader, WIRE_COMMUNICATOR_FIELDS);

		*entry = (struct message_communicator){0};
		entry->rank = wire_read_rank(reader);
		entry->communicator.id = wire_read_unsigned(reader, UINT64_MAX);
		entry->communicator.size = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		entry->communicator.own_index = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		wire_skip(reader, later_fields);
	}
	return 0;
}

static int read_intervals(struct wire_reader *reader, struct wire_arena *arena, int64_t cursor,
	struct message_batch *batch)
{
	batch->interval_count = wire_read_array(reader, WIRE_INTERVALS_PER_BATCH_MAX);
	batch->intervals = wire_arena_take(arena, batch->interval_count, sizeof(*batch->intervals));
	if (!batch->intervals)
		return arena->error;
	for (size_t i = 0; i < batch->interval_count && !reader->problem; i++) {
		struct off_cpu_interval *interval = &batch->intervals[i];
		size_t later_fields = wire_read_record(reader, WIRE_INTERVAL_FIELDS);

		*interval = (struct off_cpu_interval){0};
		interval->rank = wire_read_rank(reader);
		interval->thread_id = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		cursor = wire_read_quanta_after(reader, cursor);
		interval->start.value = cursor * WIRE_TIME_QUANTUM_NS;
		interval->end.value =
			wire_read_quanta_length(reader, cursor) * WIRE_TIME_QUANTUM_NS;
		interval->other_pid = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		interval->reason = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		wire_read_string(reader, interval->other_name, sizeof(interval->other_name));
		wire_skip(reader, later_fields);
	}
	return 0;
}

static int read_samples(struct wire_reader *reader, struct wire_arena *arena, int64_t cursor,
	struct message_batch *batch)
{
	batch->sample_count = wire_read_array(reader, WIRE_SAMPLES_PER_BATCH_MAX);
	batch->samples = wire_arena_take(arena, batch->sample_count, sizeof(*batch->samples));
	if (!batch->samples)
		return arena->error;
	for (size_t i = 0; i < batch->sample_count && !reader->problem; i++) {
		struct metric_sample *sample = &batch->samples[i];
		size_t later_fields = wire_read_record(reader, WIRE_SAMPLE_FIELDS);

		*sample = (struct metric_sample){0};
		sample->rank = wire_read_rank(reader);
		sample->metric = (uint16_t)wire_read_unsigned(reader, UINT16_MAX);
		cursor = wire_read_quanta_after(reader, cursor);
		sample->time.value = cursor * WIRE_TIME_QUANTUM_NS;
		sample->value = wire_read_signed(reader, INT64_MIN, INT64_MAX);
		wire_skip(reader, later_fields);
	}
	return 0;
}

static void read_stall(struct wire_reader *reader, struct message_stall *stall, int64_t arrival)
{
	stall->communicator_id = wire_read_unsigned(reader, UINT64_MAX);
	stall->sequence = wire_read_unsigned(reader, UINT64_MAX);
	stall->launched.value = wire_read_quanta_after(reader, arrival) * WIRE_TIME_QUANTUM_NS;
	stall->calls = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	stall->operation = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
	stall->started = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
	stall->threads = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	stall->cpu_ms = wire_read_unsigned(reader, UINT64_MAX);
	stall->over_ms = wire_read_unsigned(reader, UINT64_MAX);
	wire_read_string(reader, stall->wait_channel, sizeof(stall->wait_channel));
}

static int read_open_calls(struct wire_reader *reader, struct wire_arena *arena, int64_t cursor,
	struct message_batch *batch)
{
	batch->open_call_count = wire_read_array(reader, WIRE_OPEN_CALLS_PER_BATCH_MAX);
	batch->open_calls =
		wire_arena_take(arena, batch->open_call_count, sizeof(*batch->open_calls));
	if (!batch->open_calls)
		return arena->error;
	for (size_t i = 0; i < batch->open_call_count && !reader->problem; i++) {
		struct message_open_call *call = &batch->open_calls[i];
		size_t later_fields = wire_read_record(reader, WIRE_OPEN_CALL_FIELDS);

		*call = (struct message_open_call){0};
		call->rank = wire_read_rank(reader);
		call->communicator_id = wire_read_unsigned(reader, UINT64_MAX);
		call->sequence = wire_read_unsigned(reader, UINT64_MAX);
		cursor = wire_read_quanta_after(reader, cursor);
		call->arrival.value = cursor * WIRE_TIME_QUANTUM_NS;
		call->operation = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		call->flags = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		call->peer = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		if (later_fields >= WIRE_OPEN_CALL_LATER_FIELDS) {
			call->kind = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
			call->state = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
			call->reason = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
			wire_read_string(reader, call->where, sizeof(call->where));
			later_fields -= WIRE_OPEN_CALL_LATER_FIELDS;
			if (later_fields >= WIRE_STALL_FIELDS) {
				read_stall(reader, &call->stall, cursor);
				later_fields -= WIRE_STALL_FIELDS;
				if (later_fields >= WIRE_STALL_LATER_FIELDS) {
					call->stall.io_bytes =
						wire_read_unsigned(reader, UINT64_MAX);
					call->stall.acted_ms =
						(uint32_t)wire_read_unsigned(reader, UINT32_MAX);
					later_fields -= WIRE_STALL_LATER_FIELDS;
				}
			}
		}
		wire_skip(reader, later_fields);
	}
	return 0;
}

/* later_fields: how many follow those of the first version; lowered by those that are read. */
static int read_batch(struct wire_reader *reader, struct wire_arena *arena, bool unpack,
	struct message_batch *batch, size_t *later_fields)
{
	int64_t base;
	int error;

	read_header(reader, batch);
	base = (batch->sent.value + WIRE_TIME_QUANTUM_NS / 2) / WIRE_TIME_QUANTUM_NS;
	if (base > WIRE_QUANTA_MAX)
		base = WIRE_QUANTA_MAX;
	error = read_sources(reader, arena, batch);
	if (!error)
		error = read_ranks(reader, arena, batch);
	if (!error)
		error = read_communicators(reader, arena, batch);
	if (!error)
		error = wire_read_steps(reader, arena, base, unpack, batch);
	if (!error)
		error = read_intervals(reader, arena, base, batch);
	if (!error)
		error = read_samples(reader, arena, base, batch);
	if (!error && *later_fields > 0) {
		(*later_fields)--;
		error = wire_read_queue_pairs(reader, arena, base, batch);
	}
	if (!error && *later_fields > 0) {
		(*later_fields)--;
		error = read_open_calls(reader, arena, base, batch);
	}
	if (!error && *later_fields > 0) {
		(*later_fields)--;
		error = wire_read_kernel_profiles(reader, arena, base, batch);
	}
	if (!error && *later_fields > 0) {
		(*later_fields)--;
		error = wire_read_stack_profiles(reader, arena, base, batch);
	}
	batch->rank_end = reader->rank_end;
	return error;
}

static int decode_batch(const void *bytes, size_t length, bool unpack, struct message_batch **batch,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct decoded_batch *decoded;
	struct wire_reader reader;
	size_t later_fields;
	int error = read_envelope(
		&reader, bytes, length, WIRE_TYPE_BATCH, WIRE_BATCH_FIELDS, &later_fields, why);

	if (error)
		return error;
	decoded = calloc(1, sizeof(*decoded));
	if (!decoded)
		return refuse(why, -ENOMEM, "no memory to decode the message");
	wire_arena_init(&decoded->arena, WIRE_DECODED_BYTES_MAX);
	error = read_batch(&reader, &decoded->arena, unpack, &decoded->batch, &later_fields);
	if (error == -EMSGSIZE)
		refuse(why, error, "the message needs more memory than %d bytes",
			WIRE_DECODED_BYTES_MAX);
	else if (error)
		refuse(why, error, "no memory to decode the message");
	else
		error = read_end(&reader, bytes, later_fields, why);
	if (error) {
		message_batch_destroy(&decoded->batch);
		return error;
	}
	*batch = &decoded->batch;
	return 0;
}

int wire_decode_batch(const void *bytes, size_t length, struct message_batch **batch,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	return decode_batch(bytes, length, true, batch, why);
}

int wire_decode_packed_batch(const void *bytes, size_t length, struct message_batch **batch,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	return decode_batch(bytes, length, false, batch, why);
}

static void read_directives(struct wire_reader *reader, struct message_reply *reply)
{
	size_t count = wire_read_array(reader, WIRE_DIRECTIVES_MAX);

	for (size_t i = 0; i < count && !reader->problem; i++) {
		struct message_directive *directive = &reply->directives[i];
		size_t later_fields = wire_read_record(reader, WIRE_DIRECTIVE_FIELDS);

		directive->kind = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		directive->rank = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		directive->steps = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		directive->limit_ms = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		directive->request = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		wire_skip(reader, later_fields);
	}
	reply->directive_count = count;
}

int wire_decode_reply(const void *bytes, size_t length, struct message_reply *reply,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct message_reply decoded = {0};
	struct wire_reader reader;
	size_t later_fields;
	int error = read_envelope(
		&reader, bytes, length, WIRE_TYPE_REPLY, WIRE_REPLY_FIELDS, &later_fields, why);

	if (error)
		return error;
	decoded.probe_id = wire_read_unsigned(&reader, UINT64_MAX);
	decoded.number = wire_read_unsigned(&reader, UINT64_MAX);
	decoded.received.value = read_time(&reader);
	decoded.reply_sent.value = read_time(&reader);
	decoded.accepted = (uint8_t)wire_read_unsigned(&reader, UINT8_MAX);
	/* One directive without a number to know it by: from before there were lists of them. */
	for (int i = 0; i < REPLY_SINGLE_DIRECTIVE_FIELDS; i++)
		(void)wire_read_unsigned(&reader, UINT32_MAX);
	wire_read_string(&reader, decoded.why, sizeof(decoded.why));
	if (later_fields > 0) {
		later_fields--;
		read_directives(&reader, &decoded);
	}
	error = read_end(&reader, bytes, later_fields, why);
	if (!error)
		*reply = decoded;
	return error;
}

int wire_decode_question(const void *bytes, size_t length, struct message_question *question,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct message_question decoded = {0};
	struct wire_reader reader;
	size_t later_fields;
	int error = read_envelope(&reader, bytes, length, WIRE_TYPE_QUESTION, WIRE_QUESTION_FIELDS,
		&later_fields, why);

	if (error)
		return error;
	decoded.asker_id = wire_read_unsigned(&reader, UINT64_MAX);
	decoded.kind = (uint8_t)wire_read_unsigned(&reader, UINT8_MAX);
	decoded.rank = wire_read_rank(&reader);
	decoded.steps = (uint32_t)wire_read_unsigned(&reader, UINT32_MAX);
	decoded.limit_ms = (uint32_t)wire_read_unsigned(&reader, UINT32_MAX);
	wire_read_string(&reader, decoded.job_id, sizeof(decoded.job_id));
	error = read_end(&reader, bytes, later_fields, why);
	if (!error)
		*question = decoded;
	return error;
}

/* One look at most, of either kind. */
static int read_answer(struct wire_reader *reader, struct decoded_answer *decoded)
{
	struct message_answer *answer = &decoded->answer;
	struct message_batch *looks = &decoded->looks;
	int error;

	answer->asker_id = wire_read_unsigned(reader, UINT64_MAX);
	answer->state = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
	wire_read_string(reader, answer->why, sizeof(answer->why));
	wire_read_string(reader, answer->host, sizeof(answer->host));
	answer->pid = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
	error = wire_read_kernel_profiles(reader, &decoded->arena, 0, looks);
	if (!error)
		error = wire_read_stack_profiles(reader, &decoded->arena, 0, looks);
	if (error)
		return error;
	if (looks->kernel_profile_count + looks->stack_profile_count > 1)
		wire_reader_fail(reader, "an answer has several looks");
	if (reader->problem)
		return 0;
	answer->kernels = looks->kernel_profile_count ? looks->kernel_profiles : NULL;
	answer->stacks = looks->stack_profile_count ? looks->stack_profiles[0] : NULL;
	return 0;
}

int wire_decode_answer(const void *bytes, size_t length, struct message_answer **answer,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct decoded_answer *decoded;
	struct wire_reader reader;
	size_t later_fields;
	int error = read_envelope(
		&reader, bytes, length, WIRE_TYPE_ANSWER, WIRE_ANSWER_FIELDS, &later_fields, why);

	if (error)
		return error;
	decoded = calloc(1, sizeof(*decoded));
	if (!decoded)
		return refuse(why, -ENOMEM, "no memory to decode the message");
	wire_arena_init(&decoded->arena, WIRE_DECODED_BYTES_MAX);
	error = read_answer(&reader, decoded);
	if (error)
		refuse(why, error, "no memory to decode the message");
	else
		error = read_end(&reader, bytes, later_fields, why);
	if (error) {
		message_answer_destroy(&decoded->answer);
		return error;
	}
	*answer = &decoded->answer;
	return 0;
}

void message_answer_destroy(struct message_answer *answer)
{
	struct decoded_answer *decoded = (struct decoded_answer *)answer;

	if (!decoded)
		return;
	wire_arena_fini(&decoded->arena);
	free(decoded);
}

void message_batch_destroy(struct message_batch *batch)
{
	struct decoded_batch *decoded = (struct decoded_batch *)batch;

	if (!decoded)
		return;
	wire_arena_fini(&decoded->arena);
	free(decoded);
}
