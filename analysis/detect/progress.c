/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/detect/progress.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/policy.h"

enum {
	KIND_BITS = 10, /* of a hash: kinds that share a place count as one */
	SLOT_COUNT = 1024,
	USUAL_SLOTS_MAX = PROGRESS_BEFORE_SLOTS + PROGRESS_AROUND_SLOTS,
};

/* Calls of one operation, purpose and stream, and of about one length. */
struct call_kind {
	double usual_ns, slot_ns; /* from the call before; slot_ns, calls: sums of the open slot */
	uint32_t calls, sample_count;
	float samples_ns[PROGRESS_SAMPLES]; /* means of slots */
};

struct slot {
	int64_t start_ns, end_ns;
	double done_ns,
		time_ns; /* of a rank: usual time of its calls, and the time that they took */
	bool aside;
};

struct progress {
	struct call_kind kinds[1 << KIND_BITS];
	struct slot slots[SLOT_COUNT];
	uint64_t slot_count;
	struct slot open;
};

int progress_create(struct progress **result)
{
	struct progress *progress = calloc(1, sizeof(*progress));

	if (!progress)
		return -ENOMEM;
	*result = progress;
	return 0;
}

void progress_destroy(struct progress *progress)
{
	free(progress);
}

static struct call_kind *kind_of(struct progress *progress, const struct part_kind *part)
{
	uint64_t length_bits =
		part->length_bytes ? 64 - (uint64_t)__builtin_clzll(part->length_bytes) : 0;
	uint64_t key = (uint64_t)part->operation << 24 | (uint64_t)part->purpose << 16 |
		       (uint64_t)part->stream << 8 | length_bits;

	return &progress->kinds[(key + 1) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - KIND_BITS)];
}

/* Adds a rank's calls to the open slot. */
static void take_row(
	struct progress *progress, const struct step_grid *grid, const struct grid_row *row)
{
	int64_t before_ns = row->start_ns;

	for (uint32_t i = 0; i < row->cell_count; i++) {
		uint32_t c = row->overlapped ? grid->by_departure[row->first_cell + i]
					     : row->first_cell + i;
		struct call_kind *kind = kind_of(progress, grid->cells[c].part);
		int64_t end_ns = grid->departure_ns[grid->places[c]];
		double took_ns = fmax((double)(end_ns - before_ns), 0);

		if (end_ns > before_ns)
			before_ns = end_ns;
		kind->calls++;
		kind->slot_ns += took_ns;
		if (kind->sample_count < PROGRESS_SAMPLES_MIN)
			continue;
		progress->open.done_ns += kind->usual_ns;
		progress->open.time_ns += took_ns;
	}
}

void progress_step(struct progress *progress, const struct step_grid *grid)
{
	size_t stride = grid->row_count / PROGRESS_ROWS_MAX + 1, rows = 0;
	struct slot *open = &progress->open, before = *open;

	for (size_t r = 0; r < grid->row_count; r += stride) {
		if (grid->rows[r].hole)
			continue;
		take_row(progress, grid, &grid->rows[r]);
		rows++;
	}
	if (rows) {
		open->done_ns = before.done_ns + (open->done_ns - before.done_ns) / (double)rows;
		open->time_ns = before.time_ns + (open->time_ns - before.time_ns) / (double)rows;
	}
	if (open->end_ns == 0)
		open->start_ns = grid->step.start_ns;
	open->end_ns = grid->step.end_ns;
}

/* What calls take is learnt once: a fault changes it, and what is usual is measured in the same units. */
static void learn(struct call_kind *kind)
{
	double samples_ns[PROGRESS_SAMPLES];

	if (kind->calls && kind->sample_count < PROGRESS_SAMPLES) {
		kind->samples_ns[kind->sample_count++] = (float)(kind->slot_ns / kind->calls);
		for (uint32_t i = 0; i < kind->sample_count; i++)
			samples_ns[i] = (double)kind->samples_ns[i];
		kind->usual_ns = median_double(samples_ns, kind->sample_count);
	}
	kind->calls = 0;
	kind->slot_ns = 0;
}

void progress_end_slot(struct progress *progress, bool aside)
{
	if (progress->open.end_ns <= progress->open.start_ns)
		return;
	for (size_t k = 0; k < sizeof(progress->kinds) / sizeof(progress->kinds[0]); k++)
		learn(&progress->kinds[k]);
	progress->open.aside = aside;
	progress->slots[progress->slot_count++ % SLOT_COUNT] = progress->open;
	progress->open = (struct slot){0};
}

static uint64_t kept_slots(const struct progress *progress)
{
	return progress->slot_count < SLOT_COUNT ? progress->slot_count : SLOT_COUNT;
}

/* Counted from the latest one, 1. */
static const struct slot *slot_at(const struct progress *progress, uint64_t distance)
{
	return &progress->slots[(progress->slot_count - distance) % SLOT_COUNT];
}

void progress_set_aside(struct progress *progress, int64_t from_ns, int64_t until_ns, bool aside)
{
	for (uint64_t i = 0; i < kept_slots(progress); i++) {
		struct slot *slot = &progress->slots[i];

		if (slot->end_ns > from_ns && slot->start_ns < until_ns)
			slot->aside = aside;
	}
}

/* Most of its time is of kinds that are known. */
static bool is_measured(const struct slot *slot)
{
	return slot->time_ns > PROGRESS_MEASURED_MIN * (double)(slot->end_ns - slot->start_ns);
}

double progress_latest_done_ns(const struct progress *progress)
{
	return progress->slot_count && is_measured(slot_at(progress, 1))
		       ? slot_at(progress, 1)->done_ns
		       : 0;
}

struct rate_sums {
	double done, time, done_done, done_time, time_time;
	uint32_t slots;
};

static void sums_add(struct rate_sums *sums, const struct slot *slot)
{
	sums->done += slot->done_ns;
	sums->time += slot->time_ns;
	sums->done_done += slot->done_ns * slot->done_ns;
	sums->done_time += slot->done_ns * slot->time_ns;
	sums->time_time += slot->time_ns * slot->time_ns;
	sums->slots++;
}

/* A ratio of sums; its error is that of a ratio estimator, by the residuals done - rate * time. */
static struct progress_rate rate_of(const struct rate_sums *sums)
{
	double rate, squares;

	if (sums->done <= 0)
		return (struct progress_rate){0};
	rate = sums->done / sums->time;
	squares = fmax(
		sums->done_done - 2 * rate * sums->done_time + rate * rate * sums->time_time, 0);
	return (struct progress_rate){
		.rate = rate,
		.error = sums->slots > 1
				 ? sqrt(squares * sums->slots / (sums->slots - 1)) / sums->time
				 : rate,
		.slots = sums->slots,
	};
}

static struct progress_rate rate_between(
	const struct progress *progress, int64_t from_ns, int64_t until_ns, bool with_aside)
{
	struct rate_sums sums = {0};

	for (uint64_t i = 1; i <= kept_slots(progress); i++) {
		const struct slot *slot = slot_at(progress, i);
		int64_t middle_ns = slot->start_ns + (slot->end_ns - slot->start_ns) / 2;

		if (slot->end_ns <= from_ns)
			break;
		if (middle_ns >= from_ns && middle_ns < until_ns && is_measured(slot) &&
			(with_aside || !slot->aside))
			sums_add(&sums, slot);
	}
	return rate_of(&sums);
}

struct progress_rate progress_between(
	const struct progress *progress, int64_t from_ns, int64_t until_ns)
{
	return rate_between(progress, from_ns, until_ns, true);
}

struct progress_rate progress_beside(
	const struct progress *progress, int64_t from_ns, int64_t until_ns)
{
	struct progress_rate rate = rate_between(progress, from_ns, until_ns, false);

	return rate.slots >= PROGRESS_USUAL_SLOTS_MIN
		       ? rate
		       : rate_between(progress, from_ns, until_ns, true);
}

/* Slots that tell what is usual. */
struct usual_slots {
	const struct slot *slots[USUAL_SLOTS_MAX];
	uint32_t count;
};

static double rate_of_slot(const struct slot *slot)
{
	return slot->done_ns / slot->time_ns;
}

static double quantile_rate(const struct usual_slots *usual, double share)
{
	double rates[USUAL_SLOTS_MAX];

	for (uint32_t i = 0; i < usual->count; i++)
		rates[i] = rate_of_slot(usual->slots[i]);
	return quantile_double(rates, usual->count, share);
}

/*
 * The latest ones before a time. Those at its begin that are more like what came since belong to that: it began somewhat
 * earlier than it was found to.
 */
static void take_before(const struct progress *progress, int64_t from_ns, int64_t until_ns,
	struct usual_slots *usual)
{
	uint32_t earlier = 0;
	double least;

	for (uint64_t i = 1; i <= kept_slots(progress) && usual->count < PROGRESS_BEFORE_SLOTS;
		i++) {
		const struct slot *slot = slot_at(progress, i);

		if (slot->end_ns <= from_ns && !slot->aside && is_measured(slot))
			usual->slots[usual->count++] = slot;
	}
	least = (quantile_rate(usual, CHANGE_REFERENCE_QUANTILE) +
			progress_between(progress, from_ns, until_ns).rate) /
		2;
	while (earlier < usual->count && earlier < PROGRESS_EARLIER_SLOTS &&
		rate_of_slot(usual->slots[earlier]) < least)
		earlier++;
	usual->count -= earlier;
	memmove(usual->slots, usual->slots + earlier, usual->count * sizeof(usual->slots[0]));
}

/* The first ones after a time; returns how many. */
static uint32_t take_after(
	const struct progress *progress, int64_t after_ns, struct usual_slots *usual)
{
	uint32_t taken = 0;

	for (uint64_t i = kept_slots(progress); i > 0 && taken < PROGRESS_AROUND_SLOTS; i--) {
		const struct slot *slot = slot_at(progress, i);

		if (slot->start_ns < after_ns || slot->aside || !is_measured(slot))
			continue;
		usual->slots[usual->count++] = slot;
		taken++;
	}
	return taken;
}

/* What stood still is not usual: a hang, a checkpoint, the first step. */
static struct progress_rate usual_rate(const struct usual_slots *usual)
{
	double least = PROGRESS_STALLED_SHARE * quantile_rate(usual, 0.5);
	struct rate_sums sums = {0};

	if (usual->count < PROGRESS_USUAL_SLOTS_MIN)
		return (struct progress_rate){0};
	for (uint32_t i = 0; i < usual->count; i++) {
		if (rate_of_slot(usual->slots[i]) >= least)
			sums_add(&sums, usual->slots[i]);
	}
	return rate_of(&sums);
}

struct progress_rate progress_before(
	const struct progress *progress, int64_t from_ns, int64_t until_ns)
{
	struct usual_slots usual = {.count = 0};

	take_before(progress, from_ns, until_ns, &usual);
	return usual_rate(&usual);
}

struct progress_rate progress_around(
	const struct progress *progress, int64_t from_ns, int64_t until_ns)
{
	struct usual_slots usual = {.count = 0};

	take_before(progress, from_ns, until_ns, &usual);
	if (usual.count > PROGRESS_AROUND_SLOTS)
		usual.count = PROGRESS_AROUND_SLOTS;
	if (take_after(progress, until_ns + PROGRESS_SETTLES_NS, &usual) < PROGRESS_AFTER_SLOTS_MIN)
		return (struct progress_rate){0};
	return usual_rate(&usual);
}

struct progress_loss progress_lost(
	const struct progress_rate *usual, const struct progress_rate *now)
{
	double left;

	if (!usual->slots || !now->slots)
		return (struct progress_loss){0};
	left = now->rate / usual->rate;
	return (struct progress_loss){
		.share = 1 - left,
		.error = left * hypot(usual->error / usual->rate, now->error / now->rate),
		.known = true,
	};
}

bool progress_is_back(const struct progress *progress, int64_t from_ns,
	const struct progress_rate *usual, const struct progress_loss *loss)
{
	double noise = usual->error / usual->rate * sqrt(usual->slots); /* of one slot */
	uint32_t needed = loss->share >= PROGRESS_BACK_ERRORS * noise ? 1 : PROGRESS_BACK_SLOTS;
	struct rate_sums latest = {0};

	if (!loss->known || loss->share < PROGRESS_BACK_ERRORS * noise / sqrt(needed))
		return false;
	for (uint64_t i = 1; i <= needed && i <= kept_slots(progress); i++) {
		const struct slot *slot = slot_at(progress, i);

		if (slot->start_ns >= from_ns && is_measured(slot))
			sums_add(&latest, slot);
	}
	return latest.slots == needed &&
	       1 - latest.done / latest.time / usual->rate < PROGRESS_BACK_SHARE * loss->share;
}
