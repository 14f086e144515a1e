/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/wire/kernel_profiles.h"

#include <errno.h>

#include "probe/wire/decode_steps.h"
#include "probe/wire/format.h"

enum { SUM_FIELDS = 3 };

static uint64_t not_negative(int64_t value)
{
	return value > 0 ? (uint64_t)value : 0;
}

int wire_pack_kernel_profiles(
	struct wire_packer *packer, const struct message_batch *batch, int64_t cursor)
{
	wire_pack_array(packer, batch->kernel_profile_count);
	for (size_t i = 0; i < batch->kernel_profile_count; i++) {
		const struct kernel_profile *profile = &batch->kernel_profiles[i];
		int64_t start = wire_quanta(profile->start.value);
		int64_t stop = wire_quanta(profile->stop.value);

		if (profile->rank >= STEP_RANK_COUNT_MAX ||
			profile->sum_count > KERNEL_PROFILE_KERNELS_MAX)
			return -EINVAL;
		wire_pack_array(
			packer, WIRE_KERNEL_PROFILE_FIELDS + (profile->launches_a_second != 0));
		wire_pack_unsigned(packer, profile->rank);
		wire_pack_signed(packer, start - cursor);
		wire_pack_unsigned(packer, not_negative(stop - start));
		wire_pack_unsigned(packer, profile->kernel_count);
		wire_pack_unsigned(packer, not_negative(profile->kernel_ns));
		wire_pack_unsigned(packer, not_negative(profile->busy_ns));
		wire_pack_unsigned(packer, not_negative(profile->copy_ns));
		wire_pack_unsigned(packer, profile->copy_bytes);
		wire_pack_unsigned(packer, profile->invalid);
		wire_pack_array(packer, KERNEL_LAUNCH_BUCKET_NR);
		for (size_t b = 0; b < KERNEL_LAUNCH_BUCKET_NR; b++)
			wire_pack_unsigned(packer, profile->launches[b]);
		wire_pack_array(packer, profile->sum_count);
		for (size_t k = 0; k < profile->sum_count; k++) {
			wire_pack_array(packer, SUM_FIELDS);
			wire_pack_string(
				packer, profile->sums[k].name, sizeof(profile->sums[k].name));
			wire_pack_unsigned(packer, profile->sums[k].count);
			wire_pack_unsigned(packer, not_negative(profile->sums[k].time_ns));
		}
		wire_pack_unsigned(packer, profile->result);
		wire_pack_unsigned(packer, profile->request);
		wire_pack_unsigned(packer, profile->steps);
		wire_pack_unsigned(packer, not_negative(profile->idle_ns));
		wire_pack_unsigned(packer, profile->copy_count);
		wire_pack_unsigned(packer, not_negative(profile->synchronise_ns));
		wire_pack_unsigned(packer, profile->dropped);
		if (profile->launches_a_second)
			wire_pack_unsigned(packer, profile->launches_a_second);
		cursor = start;
	}
	return 0;
}

static int64_t read_length_ns(struct wire_reader *reader)
{
	return (int64_t)wire_read_unsigned(reader, (uint64_t)WIRE_TIME_NS_MAX);
}

static void read_launches(struct wire_reader *reader, struct kernel_profile *profile)
{
	size_t count = wire_read_array(reader, KERNEL_LAUNCH_BUCKET_NR * 4);

	for (size_t b = 0; b < count && !reader->problem; b++) {
		uint64_t value = wire_read_unsigned(reader, UINT32_MAX);

		profile->launches[b < KERNEL_LAUNCH_BUCKET_NR ? b : KERNEL_LAUNCH_BUCKET_NR - 1] +=
			value;
	}
}

static void read_sums(struct wire_reader *reader, struct kernel_profile *profile)
{
	profile->sum_count = wire_read_array(reader, KERNEL_PROFILE_KERNELS_MAX);
	for (size_t k = 0; k < profile->sum_count && !reader->problem; k++) {
		struct kernel_sum *sum = &profile->sums[k];
		size_t later_fields = wire_read_record(reader, SUM_FIELDS);

		wire_read_string(reader, sum->name, sizeof(sum->name));
		sum->count = wire_read_unsigned(reader, UINT32_MAX);
		sum->time_ns = read_length_ns(reader);
		wire_skip(reader, later_fields);
	}
}

int wire_read_kernel_profiles(struct wire_reader *reader, struct wire_arena *arena, int64_t cursor,
	struct message_batch *batch)
{
	batch->kernel_profile_count = wire_read_array(reader, WIRE_KERNEL_PROFILES_PER_BATCH_MAX);
	batch->kernel_profiles = wire_arena_take(
		arena, batch->kernel_profile_count, sizeof(*batch->kernel_profiles));
	if (!batch->kernel_profiles)
		return arena->error;
	for (size_t i = 0; i < batch->kernel_profile_count && !reader->problem; i++) {
		struct kernel_profile *profile = &batch->kernel_profiles[i];
		size_t later_fields = wire_read_record(reader, WIRE_KERNEL_PROFILE_FIELDS);

		*profile = (struct kernel_profile){0};
		profile->rank = wire_read_rank(reader);
		cursor = wire_read_quanta_after(reader, cursor);
		profile->start.value = cursor * WIRE_TIME_QUANTUM_NS;
		profile->stop.value =
			wire_read_quanta_length(reader, cursor) * WIRE_TIME_QUANTUM_NS;
		profile->kernel_count = wire_read_unsigned(reader, UINT32_MAX);
		profile->kernel_ns = read_length_ns(reader);
		profile->busy_ns = read_length_ns(reader);
		profile->copy_ns = read_length_ns(reader);
		profile->copy_bytes = wire_read_unsigned(reader, UINT64_MAX);
		profile->invalid = wire_read_unsigned(reader, UINT64_MAX);
		read_launches(reader, profile);
		read_sums(reader, profile);
		profile->result = (uint8_t)wire_read_unsigned(reader, UINT8_MAX);
		profile->request = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		profile->steps = (uint32_t)wire_read_unsigned(reader, UINT32_MAX);
		profile->idle_ns = read_length_ns(reader);
		profile->copy_count = wire_read_unsigned(reader, UINT32_MAX);
		profile->synchronise_ns = read_length_ns(reader);
		profile->dropped = wire_read_unsigned(reader, UINT64_MAX);
		if (later_fields) {
			profile->launches_a_second =
				(uint32_t)wire_read_unsigned(reader, UINT32_MAX);
			later_fields--;
		}
		wire_skip(reader, later_fields);
	}
	return 0;
}
