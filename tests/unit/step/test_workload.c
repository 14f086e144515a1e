/* SPDX-License-Identifier: Apache-2.0 */
/* The schedules of tests/workload, call by call: steps found against steps done, within 1 %. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "probe/step/builder.h"
#include "tests/unit/seeds.h"
#include "tests/workload/schedule.h"

/* Pure, and no library of its own. */
#include "tests/workload/schedule.c"

enum { STEPS = 500 };

static enum operation operation_of(enum collective collective)
{
	static const enum operation operations[] = {
		[COLLECTIVE_ALL_REDUCE] = OPERATION_ALL_REDUCE,
		[COLLECTIVE_ALL_GATHER] = OPERATION_ALL_GATHER,
		[COLLECTIVE_REDUCE_SCATTER] = OPERATION_REDUCE_SCATTER,
		[COLLECTIVE_BROADCAST] = OPERATION_BROADCAST,
		[COLLECTIVE_BARRIER] = OPERATION_BARRIER,
		[COLLECTIVE_REDUCE] = OPERATION_REDUCE,
	};

	return operations[collective];
}

static void take(struct step_builder *builder, uint64_t *steps)
{
	struct step_entry entry;

	while (step_builder_take(builder, &entry))
		*steps += !(entry.flags & (STEP_WINDOW | STEP_IRREGULAR));
}

static uint64_t steps_found(const struct schedule_options *options, int64_t step_ns)
{
	static struct schedule_item items[SCHEDULE_ITEMS_MAX];
	struct step_builder_options builder_options = {.rank = 0};
	struct step_builder *builder;
	struct activity others = {0};
	struct schedule schedule;
	uint64_t step, steps = 0;
	size_t item_count;
	int64_t now = 0;

	assert_int_equal(step_builder_create(&builder_options, &builder), 0);
	schedule_init(&schedule, options);
	while (schedule_next(&schedule, items, &item_count, &step) != PASS_END) {
		for (size_t i = 0; i < item_count; i++) {
			struct collective_part part = {
				.communicator_id = items[i].group ? 7 : 3,
				.length_bytes = 4 * items[i].element_count,
				.root = STEP_ROOT_NONE,
				.operation = (uint8_t)operation_of(items[i].collective),
			};

			if (part.operation == OPERATION_BROADCAST ||
				part.operation == OPERATION_REDUCE)
				part.root = 0;
			now += (int64_t)(items[i].share * (double)step_ns) + 1000;
			part.arrival.value = now;
			part.departure.value = now + 500;
			step_builder_push(builder, &part, &others);
			take(builder, &steps);
		}
	}
	step_builder_finish(builder);
	take(builder, &steps);
	step_builder_destroy(builder);
	return steps;
}

static void test_schedules(void **state)
{
	static const uint32_t collectives[] = {1, 2, 4, 8, 9, 64, 1500};
	static const int64_t step_ns[] = {5000000, 20000000, 200000000};
	int wrong = 0;

	(void)state;
	for (int kind = 0; kind < SCHEDULE_KIND_NR; kind++) {
		for (size_t i = 0; i < 7 * 2 * 3; i += SEED_STEP) {
			struct schedule_options options = {
				.kind = (enum schedule_kind)kind,
				.step_count = STEPS,
				.collectives = collectives[i / 6],
				.length_bytes = 1 << 20,
				.split = i % 2,
				.seed = i,
			};
			uint64_t found = steps_found(&options, step_ns[i % 3]);

			if (found >= STEPS - STEPS / 100 && found <= STEPS + STEPS / 100)
				continue;
			wrong++;
			print_error("%s, %u collectives, split %d, seed %zu: %lu steps of %d\n",
				schedule_kind_name(options.kind), options.collectives,
				options.split, i, (unsigned long)found, STEPS);
		}
	}
	assert_int_equal(wrong, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_schedules),
	};

	return cmocka_run_group_tests_name("step.workload", tests, NULL, NULL);
}
