/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/device_look.h"

#include <stdlib.h>
#include <string.h>

enum {
	NAME_SLOTS = 2 * DEVICE_LOOK_NAMES_MAX, /* a power of two */
	OTHERS = DEVICE_LOOK_NAMES_MAX,		/* sums all names that did not fit */
	COLLECTIVE = UINT16_MAX,		/* in a slot: no kernel of the rank's own */
	RECORDS_AT_FIRST = 4096,
};

enum record_kind { RECORD_KERNEL, RECORD_COLLECTIVE, RECORD_COPY, RECORD_SYNCHRONISATION };

struct record {
	int64_t start_ns, stop_ns;
	int64_t detail; /* kernel: its launch, 0 = unknown; copy: bytes */
	uint16_t name;
	uint16_t kind; /* enum record_kind */
};

struct bounds {
	int64_t start_ns, end_ns;
};

struct device_look {
	size_t record_count, record_capacity;
	struct record *records;
	uint64_t dropped, invalid;
	struct {
		uint32_t id; /* 0 = free */
		uint16_t name;
	} slots[NAME_SLOTS];
	size_t name_count;
	struct kernel_sum names[DEVICE_LOOK_NAMES_MAX + 1];
	size_t step_count;
	struct bounds steps[DEVICE_LOOK_STEPS_MAX];
};

struct device_look *device_look_create(void)
{
	return calloc(1, sizeof(struct device_look));
}

void device_look_destroy(struct device_look *look)
{
	if (!look)
		return;
	free(look->records);
	free(look);
}

/* Nothing lasts a day (2^46 ns), and hosts are not up for nine years (2^58 ns). */
static bool is_plausible(int64_t start_ns, int64_t stop_ns)
{
	return start_ns > 0 && start_ns < INT64_C(1) << 58 && stop_ns >= start_ns &&
	       stop_ns - start_ns < INT64_C(1) << 46;
}

/* NULL: no room, or times that cannot be; counted. */
static struct record *add_record(
	struct device_look *look, struct host_ns start, struct host_ns stop)
{
	if (!is_plausible(start.value, stop.value)) {
		look->invalid++;
		return NULL;
	}
	if (look->record_count == look->record_capacity) {
		size_t capacity = look->record_capacity ? look->record_capacity * 2
							: (size_t)RECORDS_AT_FIRST;
		struct record *grown = capacity <= DEVICE_LOOK_RECORDS_MAX
					       ? realloc(look->records, capacity * sizeof(*grown))
					       : NULL;

		if (!grown) {
			look->dropped++;
			return NULL;
		}
		look->records = grown;
		look->record_capacity = capacity;
	}
	return &look->records[look->record_count++];
}

/* Instances of a template have one name here: the number of its sum. */
static uint16_t find_name(struct device_look *look, const char *name)
{
	for (size_t i = 0; i < look->name_count; i++) {
		if (strcmp(look->names[i].name, name) == 0)
			return (uint16_t)i;
	}
	if (look->name_count == DEVICE_LOOK_NAMES_MAX)
		return OTHERS;
	memcpy(look->names[look->name_count].name, name, KERNEL_NAME_LENGTH);
	return (uint16_t)look->name_count++;
}

/* The number of the kernel's sum, or COLLECTIVE. Looked up once per name_id, where there is room. */
static uint16_t name_of(struct device_look *look, const struct ring_source_kernel *kernel)
{
	char simplified[KERNEL_NAME_LENGTH];
	uint16_t name;

	for (uint32_t i = 0; i < NAME_SLOTS; i++) {
		uint32_t at = (kernel->name_id + i) & (NAME_SLOTS - 1);

		if (look->slots[at].id == kernel->name_id && kernel->name_id)
			return look->slots[at].name;
		if (look->slots[at].id)
			continue;
		kernel_name_simplify(kernel->name[0] ? kernel->name : "(unnamed)", simplified);
		name = kernel_name_is_collective(simplified) ? COLLECTIVE
							     : find_name(look, simplified);
		/* A name whose pieces are not here yet is looked up again. */
		if (name != OTHERS && kernel->name[0]) {
			look->slots[at].id = kernel->name_id;
			look->slots[at].name = name;
		}
		return name;
	}
	/* No slot is free: too many names for sums of their own, but a collective is none of them. */
	kernel_name_simplify(kernel->name, simplified);
	return kernel_name_is_collective(simplified) ? COLLECTIVE : OTHERS;
}

void device_look_kernel(struct device_look *look, const struct ring_source_kernel *kernel)
{
	struct record *record = add_record(look, kernel->start, kernel->stop);
	int64_t launch_ns = kernel->launch.value;
	uint16_t name;

	if (!record)
		return;
	if (!is_plausible(launch_ns, launch_ns)) /* it is not known */
		launch_ns = 0;
	name = name_of(look, kernel);
	*record = (struct record){.start_ns = kernel->start.value,
		.stop_ns = kernel->stop.value,
		.detail = launch_ns,
		.name = name == COLLECTIVE ? OTHERS : name,
		.kind = name == COLLECTIVE ? RECORD_COLLECTIVE : RECORD_KERNEL};
}

void device_look_copy(struct device_look *look, const struct ring_source_memcpy *copy)
{
	struct record *record = add_record(look, copy->start, copy->stop);

	if (record)
		*record = (struct record){.start_ns = copy->start.value,
			.stop_ns = copy->stop.value,
			.detail = copy->length_bytes <= INT64_MAX ? (int64_t)copy->length_bytes : 0,
			.kind = RECORD_COPY};
}

void device_look_synchronisation(
	struct device_look *look, const struct ring_source_synchronisation *synchronisation)
{
	struct record *record = add_record(look, synchronisation->start, synchronisation->stop);

	if (record)
		*record = (struct record){.start_ns = synchronisation->start.value,
			.stop_ns = synchronisation->stop.value,
			.kind = RECORD_SYNCHRONISATION};
}

void device_look_step(struct device_look *look, struct host_ns start, struct host_ns end)
{
	if (look->step_count < DEVICE_LOOK_STEPS_MAX && end.value >= start.value)
		look->steps[look->step_count++] = (struct bounds){start.value, end.value};
}

uint32_t device_look_step_count(const struct device_look *look, struct host_ns on)
{
	uint32_t count = 0;

	for (size_t i = 0; i < look->step_count; i++)
		count += look->steps[i].start_ns >= on.value;
	return count;
}

/* The longest stretch of steps without a hole within on..off; returns how many they are. */
static uint32_t find_window(
	const struct device_look *look, int64_t on_ns, int64_t off_ns, struct bounds *window)
{
	uint32_t count = 0, best = 0;
	size_t first = 0, best_first = 0;

	for (size_t i = 0; i < look->step_count; i++) {
		const struct bounds *step = &look->steps[i];

		if (step->start_ns < on_ns || step->end_ns > off_ns) {
			count = 0;
			continue;
		}
		if (count == 0 || step->start_ns != look->steps[i - 1].end_ns) {
			count = 0;
			first = i;
		}
		if (++count > best) {
			best = count;
			best_first = first;
		}
	}
	if (best > 2) {
		best_first++;
		best--;
	}
	if (best)
		*window = (struct bounds){look->steps[best_first].start_ns,
			look->steps[best_first + best - 1].end_ns};
	return best;
}

static int by_start(const void *left, const void *right)
{
	const struct record *a = left, *b = right;

	return (a->start_ns > b->start_ns) - (a->start_ns < b->start_ns);
}

static void take_record(
	struct device_look *look, const struct record *record, struct kernel_profile *profile)
{
	int64_t length_ns = record->stop_ns - record->start_ns;

	switch ((enum record_kind)record->kind) {
	case RECORD_KERNEL:
		profile->kernel_count++;
		profile->kernel_ns += length_ns;
		look->names[record->name].count++;
		look->names[record->name].time_ns += length_ns;
		if (record->detail)
			profile->launches[kernel_launch_bucket(
				record->start_ns - record->detail)]++;
		break;
	case RECORD_COPY:
		profile->copy_count++;
		profile->copy_ns += length_ns;
		profile->copy_bytes += (uint64_t)record->detail;
		break;
	case RECORD_SYNCHRONISATION:
		profile->synchronise_ns += length_ns;
		break;
	case RECORD_COLLECTIVE:
		break;
	}
}

/* How much of the window is covered by records of the kinds wanted; sorted by start. */
static int64_t covered_ns(
	const struct device_look *look, const struct bounds *window, bool with_collectives)
{
	int64_t sum_ns = 0, until_ns = window->start_ns;

	for (size_t i = 0; i < look->record_count; i++) {
		const struct record *record = &look->records[i];
		int64_t start_ns = record->start_ns, stop_ns = record->stop_ns;

		if (record->kind == RECORD_SYNCHRONISATION ||
			(record->kind == RECORD_COLLECTIVE && !with_collectives))
			continue;
		start_ns = start_ns > until_ns ? start_ns : until_ns;
		stop_ns = stop_ns < window->end_ns ? stop_ns : window->end_ns;
		if (stop_ns <= start_ns)
			continue;
		sum_ns += stop_ns - start_ns;
		until_ns = stop_ns;
	}
	return sum_ns;
}

static int by_time(const void *left, const void *right)
{
	const struct kernel_sum *a = left, *b = right;

	if (a->time_ns != b->time_ns)
		return a->time_ns < b->time_ns ? 1 : -1;
	return strcmp(a->name, b->name);
}

static void fill_sums(struct device_look *look, struct kernel_profile *profile)
{
	strcpy(look->names[OTHERS].name, "(others)");
	qsort(look->names, DEVICE_LOOK_NAMES_MAX + 1, sizeof(*look->names), by_time);
	for (size_t i = 0; i < KERNEL_PROFILE_KERNELS_MAX && look->names[i].count; i++)
		profile->sums[profile->sum_count++] = look->names[i];
}

void device_look_finish(struct device_look *look, struct host_ns on, struct host_ns off,
	uint64_t invalid, uint64_t lost, struct kernel_profile *profile)
{
	struct bounds window;
	uint32_t steps = find_window(look, on.value, off.value, &window);

	*profile = (struct kernel_profile){.result = LOOK_NO_STEPS, .start = on, .stop = off};
	if (steps == 0)
		return;
	*profile = (struct kernel_profile){.steps = steps,
		.start = {window.start_ns},
		.stop = {window.end_ns},
		.invalid = invalid + look->invalid,
		.dropped = lost + look->dropped};
	if (look->record_count)
		qsort(look->records, look->record_count, sizeof(*look->records), by_start);
	for (size_t i = 0; i < look->record_count; i++) {
		if (look->records[i].start_ns >= window.start_ns &&
			look->records[i].start_ns < window.end_ns)
			take_record(look, &look->records[i], profile);
	}
	profile->busy_ns = covered_ns(look, &window, false);
	profile->idle_ns = window.end_ns - window.start_ns - covered_ns(look, &window, true);
	fill_sums(look, profile);
	if (profile->kernel_count == 0)
		profile->result = LOOK_NO_KERNELS;
}
