/* SPDX-License-Identifier: Apache-2.0 */
/* What goes in comes out: all fields exactly, times within the quantum, and nothing reordered. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <msgpack.h>

#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/unit/wire/random_batch.h"

enum { QUANTUM_NS = 100, NOISE_NS = 1000 };

#define assert_near(a, b, limit) assert_true(llabs((long long)((a) - (b))) <= (limit))

static int64_t activity_total(const struct activity *activity)
{
	return activity->preempted_ns + activity->throttled_ns + activity->block_io_ns +
	       activity->asleep_ns + activity->major_fault_ns + activity->minor_fault_ns +
	       activity->comm_call_ns + activity->host_ns + activity->collector_ns;
}

static void check_activity(const struct activity *in, const struct activity *out)
{
	static const struct activity none;

	if (activity_total(in) < NOISE_NS && !in->major_faults) {
		assert_memory_equal(out, &none, sizeof(none));
		return;
	}
	assert_near(in->preempted_ns, out->preempted_ns, QUANTUM_NS / 2);
	assert_near(in->throttled_ns, out->throttled_ns, QUANTUM_NS / 2);
	assert_near(in->block_io_ns, out->block_io_ns, QUANTUM_NS / 2);
	assert_near(in->asleep_ns, out->asleep_ns, QUANTUM_NS / 2);
	assert_near(in->major_fault_ns, out->major_fault_ns, QUANTUM_NS / 2);
	assert_near(in->minor_fault_ns, out->minor_fault_ns, QUANTUM_NS / 2);
	assert_near(in->comm_call_ns, out->comm_call_ns, QUANTUM_NS / 2);
	assert_near(in->host_ns, out->host_ns, QUANTUM_NS / 2);
	assert_near(in->collector_ns, out->collector_ns, QUANTUM_NS / 2);
	assert_int_equal(in->major_faults, out->major_faults);
	assert_int_equal(in->minor_faults, out->minor_faults);
}

static void check_part(const struct collective_part *in, const struct collective_part *out)
{
	assert_int_equal(in->communicator_id, out->communicator_id);
	assert_int_equal(in->sequence, out->sequence);
	assert_int_equal(in->length_bytes, out->length_bytes);
	assert_int_equal(in->root, out->root);
	assert_int_equal(in->operation, out->operation);
	assert_int_equal(in->flags, out->flags);
	assert_int_equal(in->purpose, out->purpose);
	assert_int_equal(in->stream, out->stream);
	assert_int_equal(in->peer, out->peer);
	assert_int_equal(in->chunk, out->chunk);
	assert_near(in->arrival.value, out->arrival.value, QUANTUM_NS / 2);
	assert_near(in->departure.value, out->departure.value, QUANTUM_NS / 2);
	assert_true(out->departure.value >= out->arrival.value);
	check_activity(&in->before, &out->before);
	check_activity(&in->inside, &out->inside);
}

static void check_step(const struct step_entry *in, const struct step_entry *out)
{
	assert_int_equal(in->rank, out->rank);
	assert_int_equal(in->flags, out->flags);
	assert_int_equal(in->index, out->index);
	assert_int_equal(in->signature, out->signature);
	assert_near(in->start.value, out->start.value, QUANTUM_NS / 2);
	assert_near(in->end.value, out->end.value, QUANTUM_NS / 2);
	assert_near(in->input_ns, out->input_ns, QUANTUM_NS);
	assert_near(in->compute_ns, out->compute_ns, QUANTUM_NS);
	assert_near(in->host_ns, out->host_ns, QUANTUM_NS);
	assert_near(in->comm_ns, out->comm_ns, 2 * QUANTUM_NS);
	assert_int_equal(out->launches.window, in->launches.window != 0);
	assert_int_equal(in->launches.launches, out->launches.launches);
	assert_int_equal(in->launches.graph_launches, out->launches.graph_launches);
	assert_near(in->launches.silence_ns, out->launches.silence_ns, QUANTUM_NS / 2);
	assert_near(in->launches.idle_ns, out->launches.idle_ns, QUANTUM_NS / 2);
	assert_near(in->launches.wait_ns, out->launches.wait_ns, QUANTUM_NS / 2);
	/* The sum rule survives exactly. */
	assert_int_equal(out->input_ns + out->compute_ns + out->host_ns + out->comm_ns,
		out->end.value - out->start.value);
	check_activity(&in->tail, &out->tail);
	check_activity(&in->other_threads, &out->other_threads);
	assert_int_equal(in->part_count, out->part_count);
	for (size_t i = 0; i < in->part_count; i++) {
		check_part(&in->parts[i], &out->parts[i]);
		assert_true(
			i == 0 || out->parts[i].arrival.value >= out->parts[i - 1].arrival.value);
	}
}

static void check_lists(const struct message_batch *in, const struct message_batch *out)
{
	assert_int_equal(in->rank_count, out->rank_count);
	for (size_t i = 0; i < in->rank_count; i++) {
		assert_int_equal(in->ranks[i].rank, out->ranks[i].rank);
		assert_int_equal(in->ranks[i].world_size, out->ranks[i].world_size);
		assert_int_equal(in->ranks[i].local_rank, out->ranks[i].local_rank);
		assert_int_equal(in->ranks[i].pid, out->ranks[i].pid);
		assert_int_equal(in->ranks[i].exited, out->ranks[i].exited);
		assert_int_equal(in->ranks[i].exit_code, out->ranks[i].exit_code);
		assert_string_equal(in->ranks[i].host, out->ranks[i].host);
		assert_string_equal(in->ranks[i].program, out->ranks[i].program);
		assert_int_equal(in->ranks[i].restarts, out->ranks[i].restarts);
	}
	assert_int_equal(in->communicator_count, out->communicator_count);
	for (size_t i = 0; i < in->communicator_count; i++) {
		assert_int_equal(in->communicators[i].rank, out->communicators[i].rank);
		assert_int_equal(in->communicators[i].communicator.id,
			out->communicators[i].communicator.id);
		assert_int_equal(in->communicators[i].communicator.size,
			out->communicators[i].communicator.size);
		assert_int_equal(in->communicators[i].communicator.own_index,
			out->communicators[i].communicator.own_index);
	}
	assert_int_equal(in->source_count, out->source_count);
	for (size_t i = 0; i < in->source_count; i++) {
		assert_string_equal(in->sources[i].name, out->sources[i].name);
		assert_string_equal(in->sources[i].why, out->sources[i].why);
		assert_int_equal(in->sources[i].state, out->sources[i].state);
	}
}

static void check_evidence(const struct message_batch *in, const struct message_batch *out)
{
	assert_int_equal(in->interval_count, out->interval_count);
	for (size_t i = 0; i < in->interval_count; i++) {
		const struct off_cpu_interval *a = &in->intervals[i], *b = &out->intervals[i];

		assert_int_equal(a->rank, b->rank);
		assert_int_equal(a->thread_id, b->thread_id);
		assert_near(a->start.value, b->start.value, QUANTUM_NS / 2);
		assert_near(a->end.value, b->end.value, QUANTUM_NS / 2);
		assert_true(b->end.value >= b->start.value);
		assert_int_equal(a->other_pid, b->other_pid);
		assert_int_equal(a->reason, b->reason);
		assert_string_equal(a->other_name, b->other_name);
	}
	assert_int_equal(in->sample_count, out->sample_count);
	for (size_t i = 0; i < in->sample_count; i++) {
		assert_int_equal(in->samples[i].rank, out->samples[i].rank);
		assert_int_equal(in->samples[i].metric, out->samples[i].metric);
		assert_int_equal(in->samples[i].value, out->samples[i].value);
		assert_near(in->samples[i].time.value, out->samples[i].time.value, QUANTUM_NS / 2);
	}
}

static void check_stall(const struct message_stall *a, const struct message_stall *b)
{
	assert_int_equal(a->communicator_id, b->communicator_id);
	assert_int_equal(a->sequence, b->sequence);
	if (a->operation)
		assert_near(a->launched.value, b->launched.value, QUANTUM_NS / 2);
	assert_int_equal(a->calls, b->calls);
	assert_int_equal(a->operation, b->operation);
	assert_int_equal(a->started, b->started);
	assert_int_equal(a->threads, b->threads);
	assert_int_equal(a->cpu_ms, b->cpu_ms);
	assert_int_equal(a->over_ms, b->over_ms);
	assert_string_equal(a->wait_channel, b->wait_channel);
	assert_int_equal(a->io_bytes, b->io_bytes);
	assert_int_equal(a->acted_ms, b->acted_ms);
}

static void check_open_calls(const struct message_batch *in, const struct message_batch *out)
{
	assert_int_equal(in->open_call_count, out->open_call_count);
	for (size_t i = 0; i < in->open_call_count; i++) {
		const struct message_open_call *a = &in->open_calls[i], *b = &out->open_calls[i];

		assert_int_equal(a->rank, b->rank);
		assert_int_equal(a->peer, b->peer);
		assert_int_equal(a->communicator_id, b->communicator_id);
		assert_int_equal(a->sequence, b->sequence);
		assert_near(a->arrival.value, b->arrival.value, QUANTUM_NS / 2);
		assert_int_equal(a->operation, b->operation);
		assert_int_equal(a->flags, b->flags);
		assert_int_equal(a->kind, b->kind);
		assert_int_equal(a->state, b->state);
		assert_int_equal(a->reason, b->reason);
		assert_string_equal(a->where, b->where);
		check_stall(&a->stall, &b->stall);
	}
}

static void check_queue_pairs(const struct message_batch *in, const struct message_batch *out)
{
	assert_int_equal(in->queue_pair_count, out->queue_pair_count);
	for (size_t i = 0; i < in->queue_pair_count; i++) {
		const struct message_queue_pair *a = &in->queue_pairs[i], *b = &out->queue_pairs[i];

		assert_int_equal(a->rank, b->rank);
		assert_int_equal(a->number, b->number);
		assert_int_equal(a->peer_number, b->peer_number);
		assert_near(a->time.value, b->time.value, QUANTUM_NS / 2);
		assert_int_equal(a->flags, b->flags);
		assert_int_equal(a->own_lid, b->own_lid);
		assert_int_equal(a->peer_lid, b->peer_lid);
		assert_int_equal(a->port, b->port);
		assert_int_equal(a->type, b->type);
		assert_int_equal(a->retry_count, b->retry_count);
		assert_int_equal(a->timeout, b->timeout);
		assert_memory_equal(a->own_gid, b->own_gid, sizeof(a->own_gid));
		assert_memory_equal(a->peer_gid, b->peer_gid, sizeof(a->peer_gid));
		assert_string_equal(a->device, b->device);
		/* All counts, to the end of the struct. */
		assert_memory_equal(&a->posted_requests, &b->posted_requests,
			sizeof(*a) - offsetof(struct message_queue_pair, posted_requests));
	}
}

static void check_stack_profile(const struct stack_profile *a, const struct stack_profile *b)
{
	struct stack_profile fields = *b;

	assert_true(stack_profile_is_valid(b));
	fields.sums = a->sums;
	fields.threads = a->threads;
	fields.segments = a->segments;
	fields.nodes = a->nodes;
	fields.text = a->text;
	assert_memory_equal(&fields, a, sizeof(fields));
	assert_memory_equal(a->sums, b->sums, a->sum_count * sizeof(*a->sums));
	assert_memory_equal(a->threads, b->threads, a->thread_count * sizeof(*a->threads));
	assert_memory_equal(a->segments, b->segments, a->segment_count * sizeof(*a->segments));
	assert_memory_equal(a->nodes, b->nodes, a->node_count * sizeof(*a->nodes));
	assert_memory_equal(a->text, b->text, a->text_length);
}

static void check_batch(const struct message_batch *in, const struct message_batch *out)
{
	assert_int_equal(in->probe_id, out->probe_id);
	assert_int_equal(in->number, out->number);
	assert_int_equal(in->host_id, out->host_id);
	assert_int_equal(in->sent.value, out->sent.value);
	assert_int_equal(in->previous_sent.value, out->previous_sent.value);
	assert_int_equal(in->previous_reply_received.value, out->previous_reply_received.value);
	assert_int_equal(in->previous_received.value, out->previous_received.value);
	assert_int_equal(in->previous_reply_sent.value, out->previous_reply_sent.value);
	assert_int_equal(in->final, out->final);
	assert_string_equal(in->job_id, out->job_id);
	assert_int_equal(in->unix_offset_ns, out->unix_offset_ns);
	assert_memory_equal(&in->counters, &out->counters, sizeof(in->counters));
	check_lists(in, out);
	check_evidence(in, out);
	check_queue_pairs(in, out);
	check_open_calls(in, out);
	assert_int_equal(in->kernel_profile_count, out->kernel_profile_count);
	if (in->kernel_profile_count)
		assert_memory_equal(in->kernel_profiles, out->kernel_profiles,
			in->kernel_profile_count * sizeof(*in->kernel_profiles));
	assert_int_equal(in->stack_profile_count, out->stack_profile_count);
	for (size_t i = 0; i < in->stack_profile_count; i++)
		check_stack_profile(in->stack_profiles[i], out->stack_profiles[i]);
	assert_int_equal(in->step_count, out->step_count);
	for (size_t i = 0; i < in->step_count; i++)
		check_step(&in->steps[i], &out->steps[i]);
}

static struct message_batch *decode(const struct wire_buffer *buffer)
{
	struct message_batch *batch = NULL;
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";

	if (wire_decode_batch(buffer->bytes, buffer->length, &batch, why))
		fail_msg("%s", why);
	return batch;
}

static void test_random_batches(void **state)
{
	struct wire_buffer buffer = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= 2000; seed++) {
		struct message_batch in, *out;

		random_batch_init(&in, seed);
		assert_int_equal(wire_encode_batch(&in, &buffer), 0);
		out = decode(&buffer);
		check_batch(&in, out);
		message_batch_destroy(out);
		random_batch_fini(&in);
	}
	wire_buffer_fini(&buffer);
}

/* What was decoded and is encoded again gives the same bytes: rounding happens once. */
static void test_second_encoding_is_equal(void **state)
{
	struct wire_buffer first = {0}, second = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct message_batch in, *out;

		random_batch_init(&in, seed);
		assert_int_equal(wire_encode_batch(&in, &first), 0);
		out = decode(&first);
		assert_int_equal(wire_encode_batch(out, &second), 0);
		message_batch_destroy(out);
		out = decode(&second);
		assert_int_equal(wire_encode_batch(out, &first), 0);
		assert_int_equal(first.length, second.length);
		assert_memory_equal(first.bytes, second.bytes, first.length);
		message_batch_destroy(out);
		random_batch_fini(&in);
	}
	wire_buffer_fini(&first);
	wire_buffer_fini(&second);
}

/* A stranger's msgpack reads our bytes: one array, nothing behind it. */
static void test_bytes_are_msgpack(void **state)
{
	struct wire_buffer buffer = {0};

	(void)state;
	for (uint64_t seed = 1; seed <= 50; seed++) {
		struct message_batch in;
		msgpack_unpacked unpacked;
		size_t offset = 0;

		random_batch_init(&in, seed);
		assert_int_equal(wire_encode_batch(&in, &buffer), 0);
		msgpack_unpacked_init(&unpacked);
		assert_int_equal(msgpack_unpack_next(&unpacked, (const char *)buffer.bytes,
					 buffer.length, &offset),
			MSGPACK_UNPACK_SUCCESS);
		assert_int_equal(offset, buffer.length);
		assert_int_equal(unpacked.data.type, MSGPACK_OBJECT_ARRAY);
		assert_int_equal(unpacked.data.via.array.ptr[0].via.u64, 1);
		assert_int_equal(unpacked.data.via.array.ptr[1].via.u64, WIRE_VERSION);
		assert_int_equal(unpacked.data.via.array.ptr[2].via.u64, in.probe_id);
		msgpack_unpacked_destroy(&unpacked);
		random_batch_fini(&in);
	}
	wire_buffer_fini(&buffer);
}

/* Contiguous steps stay contiguous, within a batch and from one to the next. */
static void test_contiguous_steps_stay_contiguous(void **state)
{
	struct random_source random = {7};
	struct wire_buffer buffer = {0};
	int64_t cursor = 123456789012345, last_end = -1;

	(void)state;
	for (int number = 0; number < 100; number++) {
		struct message_batch in = {.sent = {cursor}}, *out;
		struct step_entry steps[3] = {0};

		for (int i = 0; i < 3; i++) {
			steps[i].start.value = cursor;
			cursor += random_length_ns(&random);
			steps[i].end.value = cursor;
			steps[i].comm_ns = steps[i].end.value - steps[i].start.value;
		}
		in.steps = steps;
		in.step_count = 3;
		assert_int_equal(wire_encode_batch(&in, &buffer), 0);
		out = decode(&buffer);
		for (int i = 0; i < 3; i++) {
			assert_true(last_end < 0 || out->steps[i].start.value == last_end);
			last_end = out->steps[i].end.value;
		}
		message_batch_destroy(out);
	}
	wire_buffer_fini(&buffer);
}

/* What a probe should never say is repaired, so that one bad step does not cost the batch. */
static void test_impossible_times_are_repaired(void **state)
{
	struct collective_part parts[3] = {
		{.communicator_id = 1, .sequence = 5, .arrival = {5000}, .departure = {4000}},
		{.communicator_id = 1, .sequence = 4, .arrival = {2000}, .departure = {3000}},
		{.communicator_id = 2, .sequence = 0, .arrival = {-7}, .departure = {100}},
	};
	struct step_entry step = {.start = {6000},
		.end = {1000},
		.input_ns = -1,
		.compute_ns = INT64_MAX,
		.host_ns = INT64_MIN,
		.tail = {.asleep_ns = INT64_MIN, .preempted_ns = INT64_MAX},
		.part_count = 3,
		.parts = parts};
	struct message_batch in = {.sent = {-5}, .step_count = 1, .steps = &step}, *out;
	struct wire_buffer buffer = {0};

	(void)state;
	assert_int_equal(wire_encode_batch(&in, &buffer), 0);
	out = decode(&buffer);
	assert_int_equal(out->steps[0].start.value, 6000);
	assert_int_equal(out->steps[0].end.value, 6000);
	assert_int_equal(out->steps[0].input_ns, 0);
	assert_int_equal(out->steps[0].host_ns, 0);
	assert_true(out->steps[0].compute_ns > INT64_MAX / 64);
	assert_true(out->steps[0].tail.preempted_ns > INT64_MAX / 64);
	assert_int_equal(out->steps[0].tail.asleep_ns, 0);
	assert_int_equal(out->steps[0].part_count, 3);
	assert_int_equal(out->steps[0].parts[0].communicator_id, 2);
	assert_int_equal(out->steps[0].parts[0].arrival.value, 0);
	assert_int_equal(out->steps[0].parts[1].sequence, 4);
	assert_int_equal(out->steps[0].parts[2].sequence, 5);
	assert_int_equal(out->steps[0].parts[2].arrival.value, 5000);
	assert_int_equal(out->steps[0].parts[2].departure.value, 5000);
	assert_int_equal(parts[0].arrival.value, 5000); /* the caller's own are as they were */
	message_batch_destroy(out);
	wire_buffer_fini(&buffer);
}

static void test_bad_text_is_cleaned(void **state)
{
	struct off_cpu_interval interval = {
		.other_name = {'a', '\x1b', '[', '\xff', '\xc3', '\xa9', 'b', 'c', 'd', 'e', 'f',
			'g', 'h', 'i', 'j', 'k'}}; /* no NUL at all */
	struct message_batch in = {.interval_count = 1, .intervals = &interval}, *out;
	struct wire_buffer buffer = {0};

	(void)state;
	strcpy(in.job_id, "two\nlines\xe2\x82");
	assert_int_equal(wire_encode_batch(&in, &buffer), 0);
	/* 16 characters and no room for a NUL: the decoder would refuse, so the encoder cuts. */
	out = decode(&buffer);
	assert_string_equal(out->job_id, "two?lines??");
	assert_string_equal(out->intervals[0].other_name, "a?[?\xc3\xa9"
							  "bcdefghij");
	message_batch_destroy(out);
	wire_buffer_fini(&buffer);
}

/* All parts of a job make the same of its name, whoever is told it, and the wire leaves it. */
static void test_a_jobs_name_is_one(void **state)
{
	static const char *const names[][2] = {{"plain-1.x", "plain-1.x"}, {"my job/7", "my-job-7"},
		{"j\x1b[2J\x7f", "j-[2J-"}, {"r\xc3\xa9sum\xc3\xa9", "r\xc3\xa9sum\xc3\xa9"},
		{"\xff\xc2\x9b", "---"}, {"", ""}};
	char id[STEP_NAME_LENGTH_MAX + 1], long_name[200];

	(void)state;
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		message_job_id(id, names[i][0]);
		assert_string_equal(id, names[i][1]);
	}
	memset(long_name, 'x', sizeof(long_name));
	strcpy(long_name + STEP_NAME_LENGTH_MAX - 1, "\xc3\xa9"); /* cut in the middle */
	message_job_id(id, long_name);
	assert_int_equal(strlen(id), STEP_NAME_LENGTH_MAX);
	assert_int_equal(id[STEP_NAME_LENGTH_MAX - 1], '-');
}

static void test_reply(void **state)
{
	struct wire_buffer buffer = {0};
	struct random_source random = {3};

	(void)state;
	for (int i = 0; i < 500; i++) {
		struct message_reply in = {0}, out;
		char why[WIRE_DETAIL_LENGTH_MAX + 1];

		in.probe_id = random_next(&random);
		in.number = random_wide(&random);
		in.received.value = random_length_ns(&random);
		in.reply_sent.value = random_length_ns(&random);
		in.accepted = (uint8_t)random_below(&random, 2);
		in.directive_count = random_below(&random, WIRE_DIRECTIVES_MAX + 1);
		for (size_t d = 0; d < in.directive_count; d++)
			in.directives[d] = (struct message_directive){
				.kind = (uint8_t)random_below(&random, 4),
				.rank = (uint32_t)random_wide(&random),
				.steps = (uint32_t)random_wide(&random),
				.limit_ms = (uint32_t)random_wide(&random),
				.request = (uint32_t)random_wide(&random)};
		random_text(&random, in.why, sizeof(in.why));
		assert_int_equal(wire_encode_reply(&in, &buffer), 0);
		assert_int_equal(wire_decode_reply(buffer.bytes, buffer.length, &out, why), 0);
		assert_int_equal(in.probe_id, out.probe_id);
		assert_int_equal(in.number, out.number);
		assert_int_equal(in.received.value, out.received.value);
		assert_int_equal(in.reply_sent.value, out.reply_sent.value);
		assert_int_equal(in.accepted, out.accepted);
		assert_int_equal(in.directive_count, out.directive_count);
		for (size_t d = 0; d < in.directive_count; d++) {
			assert_int_equal(in.directives[d].kind, out.directives[d].kind);
			assert_int_equal(in.directives[d].rank, out.directives[d].rank);
			assert_int_equal(in.directives[d].steps, out.directives[d].steps);
			assert_int_equal(in.directives[d].limit_ms, out.directives[d].limit_ms);
			assert_int_equal(in.directives[d].request, out.directives[d].request);
		}
		assert_string_equal(in.why, out.why);
	}
	wire_buffer_fini(&buffer);
}

/* A reply from before there were lists of directives has 11 fields: it asks for nothing. */
static void test_reply_without_directives(void **state)
{
	struct message_reply in = {.probe_id = 7, .number = 9, .accepted = 1}, out;
	struct wire_buffer buffer = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	(void)state;
	assert_int_equal(wire_encode_reply(&in, &buffer), 0);
	assert_int_equal(buffer.bytes[0], 0x90 | 11); /* msgpack: an array of 11 */
	assert_int_equal(wire_decode_reply(buffer.bytes, buffer.length, &out, why), 0);
	assert_int_equal(out.directive_count, 0);
	in.directive_count = WIRE_DIRECTIVES_MAX + 1;
	assert_int_equal(wire_encode_reply(&in, &buffer), -EMSGSIZE);
	wire_buffer_fini(&buffer);
}

/* As many of the largest as a batch may hold are one message. */
static void test_largest_stack_profiles(void **state)
{
	struct stack_profile *profile = stack_profile_create(&(struct stack_profile){
		.node_count = STACK_PROFILE_NODES_MAX,
		.sum_count = STACK_PROFILE_SUMS_MAX,
		.thread_count = STACK_PROFILE_THREADS_MAX,
		.segment_count = STACK_PROFILE_SEGMENTS_MAX,
		.text_length = STACK_PROFILE_TEXT_MAX,
	});
	struct stack_profile *profiles[WIRE_STACK_PROFILES_PER_BATCH_MAX];
	struct message_batch in = {.stack_profile_count = WIRE_STACK_PROFILES_PER_BATCH_MAX,
				     .stack_profiles = profiles},
			     *out;
	struct wire_buffer buffer = {0};

	(void)state;
	for (uint32_t i = 1; i + 1 < STACK_PROFILE_TEXT_MAX; i++)
		profile->text[i] = i % 250 ? 'f' : 0;
	for (uint32_t i = 0; i < STACK_PROFILE_NODES_MAX; i++)
		profile->nodes[i] =
			(struct stack_node){i % STACK_PROFILE_DEPTH_MAX ? i - 1 : STACK_NODE_NONE,
				STACK_PROFILE_TEXT_MAX / 250 * 250 + 1, 251, INT32_MAX, UINT8_MAX};
	for (uint32_t i = 0; i < STACK_PROFILE_SUMS_MAX; i++)
		profile->sums[i] = (struct stack_sum){STACK_PROFILE_NODES_MAX - 1,
			STACK_PROFILE_THREADS_MAX - 1, STACK_PROFILE_SEGMENTS_MAX - 1, UINT8_MAX,
			UINT32_MAX, UINT32_MAX, INT64_MAX / 8};
	for (size_t i = 0; i < WIRE_STACK_PROFILES_PER_BATCH_MAX; i++)
		profiles[i] = profile;
	assert_int_equal(wire_encode_batch(&in, &buffer), 0);
	assert_true(buffer.length < WIRE_MESSAGE_LENGTH_MAX / 2);
	out = decode(&buffer);
	check_batch(&in, out);
	message_batch_destroy(out);
	stack_profile_destroy(profile);
	wire_buffer_fini(&buffer);
}

static void encode_invalid(struct message_batch *batch, struct wire_buffer *buffer)
{
	assert_false(stack_profile_is_valid(batch->stack_profiles[0]));
	assert_int_equal(wire_encode_batch(batch, buffer), -EINVAL);
}

/* What is refused by the decoder is not encoded either: each index and each name is looked at. */
static void test_invalid_stack_profiles(void **state)
{
	struct random_source random = {11};
	struct wire_buffer buffer = {0};

	(void)state;
	for (int i = 0; i < 200; i++) {
		struct stack_profile *profile = random_stack_profile(&random);
		struct message_batch batch = {.stack_profile_count = 1, .stack_profiles = &profile};
		struct stack_node node = profile->nodes[profile->node_count - 1];
		struct stack_node *last = &profile->nodes[profile->node_count - 1];

		assert_true(stack_profile_is_valid(profile));
		last->parent = profile->node_count - 1; /* its own */
		encode_invalid(&batch, &buffer);
		*last = node;
		last->file = profile->text_length;
		encode_invalid(&batch, &buffer);
		*last = node;
		last->line = -1;
		encode_invalid(&batch, &buffer);
		*last = node;
		profile->text[profile->text_length - 1] = 'x';
		encode_invalid(&batch, &buffer);
		profile->text[profile->text_length - 1] = 0;
		profile->stop.value = profile->start.value - 1;
		encode_invalid(&batch, &buffer);
		profile->stop.value = profile->start.value;
		assert_true(stack_profile_is_valid(profile));
		if (profile->sum_count) {
			profile->sums[0].segment = profile->segment_count;
			encode_invalid(&batch, &buffer);
		}
		stack_profile_destroy(profile);
	}
	wire_buffer_fini(&buffer);
}

static void test_limits_of_the_encoder(void **state)
{
	struct message_rank rank = {.rank = STEP_RANK_COUNT_MAX};
	struct step_entry step = {.rank = STEP_RANK_UNKNOWN};
	struct message_batch batch = {.rank_count = 1, .ranks = &rank};
	struct wire_buffer buffer = {0};

	(void)state;
	assert_int_equal(wire_encode_batch(&batch, &buffer), -EINVAL);
	assert_int_equal(buffer.length, 0);
	batch = (struct message_batch){.step_count = 1, .steps = &step};
	assert_int_equal(wire_encode_batch(&batch, &buffer), -EINVAL);
	batch = (struct message_batch){.rank_count = WIRE_RANKS_PER_BATCH_MAX + 1};
	assert_int_equal(wire_encode_batch(&batch, &buffer), -EMSGSIZE);
	batch = (struct message_batch){.step_count = WIRE_STEPS_PER_BATCH_MAX + 1};
	assert_int_equal(wire_encode_batch(&batch, &buffer), -EMSGSIZE);
	step = (struct step_entry){.part_count = STEP_PART_COUNT_MAX + 1};
	batch = (struct message_batch){.step_count = 1, .steps = &step};
	assert_int_equal(wire_encode_batch(&batch, &buffer), -EMSGSIZE);
	wire_buffer_fini(&buffer);
}

static void test_source_state_names(void **state)
{
	(void)state;
	assert_string_equal(source_state_name(SOURCE_ON), "on");
	assert_string_equal(source_state_name(SOURCE_MISSING), "not measurable");
	assert_string_equal(source_state_name((enum source_state)99), "unknown");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random_batches),
		cmocka_unit_test(test_second_encoding_is_equal),
		cmocka_unit_test(test_bytes_are_msgpack),
		cmocka_unit_test(test_contiguous_steps_stay_contiguous),
		cmocka_unit_test(test_impossible_times_are_repaired),
		cmocka_unit_test(test_bad_text_is_cleaned),
		cmocka_unit_test(test_a_jobs_name_is_one),
		cmocka_unit_test(test_reply),
		cmocka_unit_test(test_reply_without_directives),
		cmocka_unit_test(test_largest_stack_profiles),
		cmocka_unit_test(test_invalid_stack_profiles),
		cmocka_unit_test(test_limits_of_the_encoder),
		cmocka_unit_test(test_source_state_names),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
