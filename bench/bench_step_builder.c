/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the step builder costs for each collective, for several kinds of programs: learning,
 * following, and where nothing repeats. Compared with copying the part, which any builder must.
 * Prints one JSON object.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

#include "probe/step/builder.h"

enum { PARTS = 2000000 };

struct program {
	const char *name;
	uint64_t period; /* 0 = nothing repeats */
	uint64_t loop;	 /* equal calls at the start of a step */
};

static int64_t now_ns(void)
{
	struct timespec time;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static void fill(struct collective_part *part, const struct program *program, uint64_t number)
{
	uint64_t place = program->period ? number % program->period : number;
	uint64_t value = place < program->loop ? 1 : mix(place + 1);

	*part = (struct collective_part){
		.communicator_id = 1 + value % 4,
		.sequence = number,
		.length_bytes = 64 + value % 1000,
		.arrival = {(int64_t)number * 100000},
		.departure = {(int64_t)number * 100000 + 20000},
		.root = STEP_ROOT_NONE,
		.operation = (uint8_t)(1 + value / 4 % 6),
	};
}

static volatile uint64_t sink;

static double copy_cost(const struct program *program)
{
	static struct collective_part kept[1024];
	int64_t start = now_ns();

	for (uint64_t i = 0; i < PARTS; i++) {
		fill(&kept[i % 1024], program, i);
		sink += kept[i % 1024].length_bytes;
	}
	return (double)(now_ns() - start) / PARTS;
}

/* Returns 0 or -1; *push_ns is the cost of a part, taking its step included. */
static int builder_cost(const struct program *program, double *push_ns, uint64_t *steps)
{
	struct step_builder_options options = {.rank = 0};
	struct activity others = {0};
	struct step_builder *builder;
	struct step_entry entry;
	int64_t start;

	if (step_builder_create(&options, &builder) < 0)
		return -1;
	*steps = 0;
	start = now_ns();
	for (uint64_t i = 0; i < PARTS; i++) {
		struct collective_part part;

		fill(&part, program, i);
		step_builder_push(builder, &part, &others);
		while (step_builder_take(builder, &entry)) {
			sink += entry.signature;
			*steps += !(entry.flags & (STEP_WINDOW | STEP_IRREGULAR));
		}
	}
	*push_ns = (double)(now_ns() - start) / PARTS;
	step_builder_destroy(builder);
	return 0;
}

int main(void)
{
	static const struct program programs[] = {
		{"one call a step", 1, 0},
		{"64 calls", 64, 0},
		{"1,500 calls, 500 of them equal", 1500, 500},
		{"16,384 calls", 16384, 0},
		{"nothing repeats", 0, 0},
	};
	struct rusage usage;

	printf("{\"bench\": \"step_builder\", \"parts\": %d, \"compared_with\": \"copying the "
	       "part\", "
	       "\"programs\": [",
		PARTS);
	for (size_t i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		double push_ns, copy_ns = copy_cost(&programs[i]);
		uint64_t steps;

		if (builder_cost(&programs[i], &push_ns, &steps) < 0) {
			fprintf(stderr, "no memory for a step builder: free some and run again\n");
			return 1;
		}
		printf("%s{\"program\": \"%s\", \"ns_per_part\": %.1f, \"copy_ns_per_part\": %.1f, "
		       "\"steps\": %llu, \"steps_true\": %llu}",
			i ? ", " : "", programs[i].name, push_ns, copy_ns,
			(unsigned long long)steps,
			(unsigned long long)(programs[i].period ? PARTS / programs[i].period : 0));
	}
	getrusage(RUSAGE_SELF, &usage);
	printf("], \"peak_resident_kib\": %ld}\n", usage.ru_maxrss);
	return 0;
}
