/* SPDX-License-Identifier: Apache-2.0 */
/* Packing keeps every field of every part that the analysis reads, whatever repeats. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "coordinator/held_steps.h"
#include "coordinator/step_packer.h"

enum { STEPS = 12, PARTS_MAX = 40 };

static uint64_t next_random(uint64_t *state)
{
	*state += UINT64_C(0x9e3779b97f4a7c15);
	uint64_t value = (*state ^ (*state >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);

	return value ^ (value >> 27);
}

static void fill_activity(struct activity *activity, uint64_t choice)
{
	*activity = (struct activity){0};
	if (choice % 4 == 0)
		activity->preempted_ns = (int64_t)(choice >> 40);
	if (choice % 5 == 0)
		activity->collector_ns = (int64_t)(choice >> 44) + 1;
	if (choice % 7 == 0)
		activity->minor_faults = 3;
}

/* Steps of some lengths; places mostly, but not always, repeat what the step before had there. */
static void fill_steps(struct step_entry steps[STEPS], uint64_t seed)
{
	for (uint32_t s = 0; s < STEPS; s++) {
		size_t count = seed % 3 == 0 ? 0 : s % 4 == 3 ? PARTS_MAX / 2 : PARTS_MAX;

		steps[s] = (struct step_entry){.rank = s,
			.flags = s % 2,
			.index = s,
			.signature = seed,
			.start.value = (int64_t)s * 1000,
			.end.value = (int64_t)s * 1000 + 999,
			.compute_ns = s,
			.comm_ns = 2 * s,
			.launches = s % 3 == 1 ? (struct step_launches){.window = 1,
							 .launches = s,
							 .silence_ns = (int64_t)seed}
					       : (struct step_launches){0},
			.part_count = count,
			.parts = calloc(PARTS_MAX, sizeof(struct collective_part))};
		for (size_t p = 0; p < count; p++) {
			uint64_t choice = next_random(&seed);
			uint64_t odd = choice % 9 == 0 ? choice : 0;

			steps[s].parts[p] =
				(struct collective_part){.communicator_id = p % 5 + (odd & 1),
					.sequence = choice,
					.length_bytes = p * 64 + (odd & 2),
					.arrival.value = (int64_t)(s * 1000 + p),
					.departure.value = (int64_t)(s * 1000 + p + 5),
					.root = (int32_t)(odd & 4) - 1,
					.operation = (uint8_t)(1 + p % 12),
					.flags = (uint8_t)(odd >> 8 & 7),
					.purpose = (uint8_t)(odd >> 16 & 7),
					.stream = (uint8_t)(odd >> 24 & 3),
					.peer = (uint32_t)(odd >> 32 & 3),
					.chunk = (uint32_t)(odd >> 40 & 3)};
			fill_activity(&steps[s].parts[p].before, choice >> 8);
			fill_activity(&steps[s].parts[p].inside, choice >> 16);
		}
	}
}

static void assert_same_part(
	const struct collective_part *part, const struct packed_step *step, size_t held)
{
	const struct part_kind *kind = packed_kind(step, held);

	assert_int_equal(part->arrival.value, step->times[held].arrival.value);
	assert_int_equal(part->departure.value, step->times[held].departure.value);
	assert_true(part->sequence == packed_sequence(step, held));
	assert_true(part->communicator_id == kind->communicator_id);
	assert_true(part->length_bytes == kind->length_bytes);
	assert_int_equal(part->root, kind->root);
	assert_int_equal(part->peer, kind->peer);
	assert_int_equal(part->operation, kind->operation);
	assert_int_equal(part->flags, kind->flags);
	assert_int_equal(part->purpose, kind->purpose);
	assert_int_equal(part->stream, kind->stream);
	assert_int_equal(part->chunk, kind->chunk);
	assert_memory_equal(&part->before, packed_before(step, held), sizeof(struct activity));
	assert_memory_equal(&part->inside, packed_inside(step, held), sizeof(struct activity));
}

static int hold(
	struct step_packer *packer, const struct step_entry steps[STEPS], struct held_steps **held)
{
	const struct packed_step *packed;
	int error = step_packer_pack(packer, steps, STEPS, &packed);

	return error < 0 ? error : held_steps_create(packed, STEPS, held);
}

static void nothing_is_lost(void **state)
{
	struct step_packer packer = {0};

	(void)state;
	for (uint64_t seed = 0; seed < 50; seed++) {
		struct step_entry steps[STEPS];
		struct held_steps *held;

		fill_steps(steps, seed);
		assert_int_equal(hold(&packer, steps, &held), 0);
		assert_int_equal(held->step_count, STEPS);
		for (size_t s = 0; s < STEPS; s++) {
			const struct packed_step *step = &held->steps[s];
			uint32_t flags = 0;

			assert_int_equal(step->rank, steps[s].rank);
			assert_int_equal(step->flags, steps[s].flags);
			assert_int_equal(step->start.value, steps[s].start.value);
			assert_int_equal(step->end.value, steps[s].end.value);
			assert_int_equal(step->comm_ns, steps[s].comm_ns);
			assert_int_equal(step->part_count, steps[s].part_count);
			assert_true((step->launches != NULL) == (steps[s].launches.window != 0));
			if (step->launches)
				assert_memory_equal(step->launches, &steps[s].launches,
					sizeof(*step->launches));
			for (size_t p = 0; p < step->part_count; p++) {
				assert_same_part(&steps[s].parts[p], step, p);
				flags |= steps[s].parts[p].flags;
			}
			assert_int_equal(step->part_flags, flags);
			free(steps[s].parts); /* nothing points there */
		}
		held_steps_unref(held);
	}
	step_packer_fini(&packer);
}

/* What all steps of a batch have in common is there once. */
static void what_repeats_is_kept_once(void **state)
{
	struct collective_part parts[PARTS_MAX] = {0};
	struct step_entry steps[STEPS] = {0};
	struct step_packer packer = {0};
	struct held_steps *held;

	(void)state;
	for (uint64_t p = 0; p < PARTS_MAX; p++)
		parts[p].communicator_id = 1 + p % 3;
	for (size_t s = 0; s < STEPS; s++) {
		steps[s].part_count = PARTS_MAX;
		steps[s].parts = parts;
	}
	assert_int_equal(hold(&packer, steps, &held), 0);
	assert_int_equal(packer.kind_count, 3);
	assert_int_equal(packer.activity_count, 0);
	assert_null(held->steps[0].marks);
	assert_ptr_equal(packed_before(&held->steps[0], 0), &activity_none);
	held_steps_unref(held);
	step_packer_fini(&packer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_lost),
		cmocka_unit_test(what_repeats_is_kept_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
