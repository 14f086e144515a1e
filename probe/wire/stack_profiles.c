/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/wire/stack_profiles.h"

#include <errno.h>
#include <string.h>

#include "probe/wire/decode_steps.h"
#include "probe/wire/format.h"

static void pack_text(struct wire_packer *packer, const struct stack_profile *profile)
{
	size_t count = 0;

	for (size_t at = 0; at < profile->text_length; at += strlen(profile->text + at) + 1)
		count++;
	wire_pack_unsigned(packer, profile->text_length);
	wire_pack_array(packer, count);
	for (size_t at = 0; at < profile->text_length; at += strlen(profile->text + at) + 1)
		wire_pack_string(packer, profile->text + at, STACK_PROFILE_NAME_MAX + 1);
}

static void pack_nodes(struct wire_packer *packer, const struct stack_profile *profile)
{
	wire_pack_array(packer, profile->node_count);
	for (uint32_t i = 0; i < profile->node_count; i++) {
		const struct stack_node *node = &profile->nodes[i];

		wire_pack_array(packer, WIRE_STACK_NODE_FIELDS);
		wire_pack_unsigned(packer, node->parent == STACK_NODE_NONE ? 0 : i - node->parent);
		wire_pack_unsigned(packer, node->function);
		wire_pack_unsigned(packer, node->file);
		wire_pack_unsigned(packer, (uint64_t)node->line);
		wire_pack_unsigned(packer, node->kind);
	}
}

static void pack_threads(struct wire_packer *packer, const struct stack_profile *profile)
{
	wire_pack_array(packer, profile->thread_count);
	for (uint32_t i = 0; i < profile->thread_count; i++) {
		const struct stack_thread_info *thread = &profile->threads[i];

		wire_pack_array(packer, WIRE_STACK_THREAD_FIELDS);
		wire_pack_unsigned(packer, (uint64_t)thread->pid);
		wire_pack_unsigned(packer, (uint64_t)thread->tid);
		wire_pack_unsigned(packer, thread->role);
		wire_pack_string(packer, thread->name, sizeof(thread->name));
		wire_pack_signed(packer, thread->cpu_ns);
		wire_pack_signed(packer, thread->blocked_ns);
		wire_pack_signed(packer, thread->major_faults);
	}
}

static void pack_segments(struct wire_packer *packer, const struct stack_profile *profile)
{
	wire_pack_array(packer, profile->segment_count);
	for (uint32_t i = 0; i < profile->segment_count; i++) {
		const struct stack_segment *segment = &profile->segments[i];

		wire_pack_array(packer, WIRE_STACK_SEGMENT_FIELDS);
		wire_pack_unsigned(packer, segment->communicator_id);
		wire_pack_unsigned(packer, segment->ordinal);
		wire_pack_unsigned(packer, segment->operation);
		wire_pack_unsigned(packer, segment->inside);
	}
}

static void pack_sums(struct wire_packer *packer, const struct stack_profile *profile)
{
	wire_pack_array(packer, profile->sum_count);
	for (uint32_t i = 0; i < profile->sum_count; i++) {
		const struct stack_sum *sum = &profile->sums[i];

		wire_pack_array(packer, WIRE_STACK_SUM_FIELDS);
		wire_pack_unsigned(packer, sum->node);
		wire_pack_unsigned(packer, sum->thread);
		wire_pack_unsigned(packer, sum->segment);
		wire_pack_unsigned(packer, sum->state);
		wire_pack_unsigned(packer, sum->looks);
		wire_pack_unsigned(packer, sum->steps);
		wire_pack_unsigned(packer, (uint64_t)sum->time_ns);
	}
}

int wire_pack_stack_profiles(
	struct wire_packer *packer, const struct message_batch *batch, int64_t cursor)
{
	wire_pack_array(packer, batch->stack_profile_count);
	for (size_t i = 0; i < batch->stack_profile_count; i++) {
		const struct stack_profile *profile = batch->stack_profiles[i];
		int64_t start = wire_quanta(profile->start.value);
		int64_t stop = wire_quanta(profile->stop.value);

		if (profile->rank >= STEP_RANK_COUNT_MAX || !stack_profile_is_valid(profile))
			return -EINVAL;
		wire_pack_array(packer, WIRE_STACK_PROFILE_FIELDS);
		wire_pack_unsigned(packer, profile->rank);
		wire_pack_signed(packer, start - cursor);
		wire_pack_unsigned(packer, (uint64_t)(stop - start));
		wire_pack_unsigned(packer, profile->request);
		wire_pack_unsigned(packer, profile->result);
		wire_pack_unsigned(packer, profile->python_minor);
		wire_pack_unsigned(packer, profile->steps);
		wire_pack_unsigned(packer, profile->looks);
		wire_pack_unsigned(packer, profile->incomplete);
		wire_pack_unsigned(packer, (uint64_t)profile->cost_ns);
		wire_pack_string(packer, profile->why, sizeof(profile->why));
		pack_text(packer, profile);
		pack_nodes(packer, profile);
		pack_threads(packer, profile);
		pack_segments(packer, profile);
		pack_sums(packer, profile);
		cursor = start;
	}
	return 0;
}

static uint32_t read_number(struct wire_reader *reader)
{
	return (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
}

static uint8_t read_enum(struct wire_reader *reader)
{
	return (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
}

/* The length comes first; it is at most what the names, each with its header, have in the message. */
static void read_text(
	struct wire_reader *reader, struct wire_arena *arena, struct stack_profile *profile)
{
	size_t length = wire_read_unsigned(reader, STACK_PROFILE_TEXT_MAX), at = 0;
	size_t count = wire_read_array(reader, length);

	if (length > (size_t)(reader->end - reader->next))
		wire_reader_fail(reader, "names claim more than there are bytes");
	profile->text = wire_arena_take(arena, length, 1);
	if (reader->problem || !profile->text)
		return;
	profile->text_length = (uint32_t)length;
	for (size_t i = 0; i < count && !reader->problem; i++) {
		size_t left = length - at, most = STACK_PROFILE_NAME_MAX + 1;

		if (!left) {
			wire_reader_fail(reader, "names are longer than they claim");
			return;
		}
		wire_read_string(reader, profile->text + at, left < most ? left : most);
		at += strlen(profile->text + at) + 1;
	}
	if (at != length)
		wire_reader_fail(reader, "names are shorter than they claim");
}

static void read_nodes(
	struct wire_reader *reader, struct wire_arena *arena, struct stack_profile *profile)
{
	size_t count = wire_read_array(reader, STACK_PROFILE_NODES_MAX);

	profile->nodes = wire_arena_take(arena, count, sizeof(*profile->nodes));
	if (!profile->nodes)
		return;
	profile->node_count = (uint32_t)count;
	for (uint32_t i = 0; i < count && !reader->problem; i++) {
		struct stack_node *node = &profile->nodes[i];
		size_t later_fields = wire_read_record(reader, WIRE_STACK_NODE_FIELDS);
		uint32_t up = (uint32_t)wire_read_unsigned(reader, i);

		*node = (struct stack_node){.parent = up ? i - up : STACK_NODE_NONE};
		node->function = read_number(reader);
		node->file = read_number(reader);
		node->line = (int32_t)wire_read_unsigned(reader, INT32_MAX);
		node->kind = read_enum(reader);
		wire_skip(reader, later_fields);
	}
}

static void read_threads(
	struct wire_reader *reader, struct wire_arena *arena, struct stack_profile *profile)
{
	size_t count = wire_read_array(reader, STACK_PROFILE_THREADS_MAX);

	profile->threads = wire_arena_take(arena, count, sizeof(*profile->threads));
	if (!profile->threads)
		return;
	profile->thread_count = (uint32_t)count;
	for (uint32_t i = 0; i < count && !reader->problem; i++) {
		struct stack_thread_info *thread = &profile->threads[i];
		size_t later_fields = wire_read_record(reader, WIRE_STACK_THREAD_FIELDS);

		*thread = (struct stack_thread_info){0};
		thread->pid = (int32_t)wire_read_unsigned(reader, INT32_MAX);
		thread->tid = (int32_t)wire_read_unsigned(reader, INT32_MAX);
		thread->role = read_enum(reader);
		wire_read_string(reader, thread->name, sizeof(thread->name));
		thread->cpu_ns = wire_read_signed(reader, -1, WIRE_TIME_NS_MAX);
		thread->blocked_ns = wire_read_signed(reader, -1, WIRE_TIME_NS_MAX);
		thread->major_faults = wire_read_signed(reader, -1, INT64_MAX);
		wire_skip(reader, later_fields);
	}
}

static void read_segments(
	struct wire_reader *reader, struct wire_arena *arena, struct stack_profile *profile)
{
	size_t count = wire_read_array(reader, STACK_PROFILE_SEGMENTS_MAX);

	profile->segments = wire_arena_take(arena, count, sizeof(*profile->segments));
	if (!profile->segments)
		return;
	profile->segment_count = (uint32_t)count;
	for (uint32_t i = 0; i < count && !reader->problem; i++) {
		struct stack_segment *segment = &profile->segments[i];
		size_t later_fields = wire_read_record(reader, WIRE_STACK_SEGMENT_FIELDS);

		*segment = (struct stack_segment){0};
		segment->communicator_id = wire_read_unsigned(reader, UINT64_MAX);
		segment->ordinal = read_number(reader);
		segment->operation = read_enum(reader);
		segment->inside = read_enum(reader);
		wire_skip(reader, later_fields);
	}
}

static void read_sums(
	struct wire_reader *reader, struct wire_arena *arena, struct stack_profile *profile)
{
	size_t count = wire_read_array(reader, STACK_PROFILE_SUMS_MAX);

	profile->sums = wire_arena_take(arena, count, sizeof(*profile->sums));
	if (!profile->sums)
		return;
	profile->sum_count = (uint32_t)count;
	for (uint32_t i = 0; i < count && !reader->problem; i++) {
		struct stack_sum *sum = &profile->sums[i];
		size_t later_fields = wire_read_record(reader, WIRE_STACK_SUM_FIELDS);

		*sum = (struct stack_sum){0};
		sum->node = read_number(reader);
		sum->thread = read_number(reader);
		sum->segment = read_number(reader);
		sum->state = read_enum(reader);
		sum->looks = read_number(reader);
		sum->steps = read_number(reader);
		sum->time_ns = (int64_t)wire_read_unsigned(reader, (uint64_t)WIRE_TIME_NS_MAX);
		wire_skip(reader, later_fields);
	}
}

static void read_arrays(
	struct wire_reader *reader, struct wire_arena *arena, struct stack_profile *profile)
{
	read_text(reader, arena, profile);
	read_nodes(reader, arena, profile);
	read_threads(reader, arena, profile);
	read_segments(reader, arena, profile);
	read_sums(reader, arena, profile);
}

static int64_t read_profile(struct wire_reader *reader, struct wire_arena *arena, int64_t cursor,
	struct stack_profile *profile)
{
	size_t later_fields = wire_read_record(reader, WIRE_STACK_PROFILE_FIELDS);

	*profile = (struct stack_profile){0};
	profile->rank = wire_read_rank(reader);
	cursor = wire_read_quanta_after(reader, cursor);
	profile->start.value = cursor * WIRE_TIME_QUANTUM_NS;
	profile->stop.value = wire_read_quanta_length(reader, cursor) * WIRE_TIME_QUANTUM_NS;
	profile->request = read_number(reader);
	profile->result = read_enum(reader);
	profile->python_minor = read_enum(reader);
	profile->steps = read_number(reader);
	profile->looks = read_number(reader);
	profile->incomplete = read_number(reader);
	profile->cost_ns = (int64_t)wire_read_unsigned(reader, (uint64_t)WIRE_TIME_NS_MAX);
	wire_read_string(reader, profile->why, sizeof(profile->why));
	read_arrays(reader, arena, profile);
	if (!reader->problem && !arena->error && !stack_profile_is_valid(profile))
		wire_reader_fail(reader, "a stack profile contradicts itself");
	wire_skip(reader, later_fields);
	return cursor;
}

int wire_read_stack_profiles(struct wire_reader *reader, struct wire_arena *arena, int64_t cursor,
	struct message_batch *batch)
{
	batch->stack_profile_count = wire_read_array(reader, WIRE_STACK_PROFILES_PER_BATCH_MAX);
	batch->stack_profiles =
		wire_arena_take(arena, batch->stack_profile_count, sizeof(*batch->stack_profiles));
	for (size_t i = 0; i < batch->stack_profile_count && !reader->problem; i++) {
		struct stack_profile *profile = wire_arena_take(arena, 1, sizeof(*profile));

		if (!profile)
			break;
		batch->stack_profiles[i] = profile;
		cursor = read_profile(reader, arena, cursor, profile);
	}
	return arena->error;
}
