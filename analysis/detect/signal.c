/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/detect/signal.h"

#include <math.h>
#include <string.h>

#include "analysis/base/robust_stats.h"

void excess_add(struct excess_sums *sums, const struct excess_sums *other)
{
	sums->steps += other->steps;
	sums->program_steps += other->program_steps;
	sums->time_ns += other->time_ns;
	sums->delay_ns += other->delay_ns;
	for (int k = 0; k < EXCESS_NR; k++) {
		sums->own[k] += other->own[k];
		sums->control[k] += other->control[k];
	}
	sums->minor_faults += other->minor_faults;
	sums->control_minor_faults += other->control_minor_faults;
	sums->past_ns += other->past_ns;
	sums->evidence_mask = other->evidence_mask;
	sums->on_device |= other->on_device;
	sums->host_times |= other->host_times;
	sums->several_groups |= other->several_groups;
}

void excess_subtract(struct excess_sums *sums, const struct excess_sums *other)
{
	sums->steps -= other->steps;
	sums->program_steps -= other->program_steps;
	sums->time_ns -= other->time_ns;
	sums->delay_ns -= other->delay_ns;
	for (int k = 0; k < EXCESS_NR; k++) {
		sums->own[k] -= other->own[k];
		sums->control[k] -= other->control[k];
	}
	sums->minor_faults -= other->minor_faults;
	sums->control_minor_faults -= other->control_minor_faults;
}

void signal_take_step(
	struct signal *signal, const struct step_times *times, double lost_ns, bool told)
{
	size_t at = (times->next - 1) % STEP_HISTORY;

	if (times->counts[at] > 1)
		lost_ns += fabs((double)signal->lost_ns[at]);
	signal->lost_ns[at] = (float)(told ? -lost_ns : lost_ns);
}

double signal_step_ns(const struct signal *signal, const struct step_times *times, uint64_t step)
{
	return fabs((double)signal->lost_ns[step % STEP_HISTORY]) -
	       signal->usual * step_length_ns(times, step);
}

void signal_set_told(struct signal *signal, const struct step_times *times, uint64_t since)
{
	for (uint64_t i = 1; i <= steps_kept_since(times, since); i++) {
		float *lost_ns = &signal->lost_ns[(times->next - i) % STEP_HISTORY];

		*lost_ns = -fabsf(*lost_ns);
	}
}

double signal_latest_level(const struct signal *signal, const struct step_times *times,
	uint64_t step_count, bool without_most)
{
	double lost = 0, length = 0, most = -INFINITY, most_length = 0;

	for (uint64_t i = 1; i <= step_count; i++) {
		double value = signal_step_ns(signal, times, times->next - i);
		double step = step_length_ns(times, times->next - i);

		lost += value;
		length += step;
		if (value > most) {
			most = value;
			most_length = step;
		}
	}
	if (without_most) {
		lost -= most;
		length -= most_length;
	}
	return length > 0 ? lost / length : 0;
}

double signal_height_of_hits(
	const struct signal *signal, const struct step_times *times, uint64_t step_count)
{
	double sum = 0, squares = 0;

	for (uint64_t i = 1; i <= step_count; i++) {
		double length = step_length_ns(times, times->next - i);
		double lost = signal_step_ns(signal, times, times->next - i);

		if (lost <= 0 || length <= 0)
			continue;
		sum += lost / length;
		squares += (lost / length) * (lost / length);
	}
	return sum > 0 ? squares / sum : 0;
}

uint64_t signal_hits(const struct signal *signal, const struct step_times *times,
	uint64_t step_count, double share, uint64_t *tries)
{
	uint64_t hits = 0;

	for (uint64_t i = 1; i <= step_count; i++) {
		uint64_t step = times->next - i;

		if (signbit(signal->lost_ns[step % STEP_HISTORY]))
			continue;
		++*tries;
		hits += signal_step_ns(signal, times, step) > share * step_length_ns(times, step);
	}
	return hits;
}

/* Faults of before made steps longer, too: so of those that are known, the usual one is among the shorter ones. */
static double usual_before(const struct step_times *times, uint64_t step)
{
	double lengths[STEP_HISTORY];
	size_t count = 0;

	for (uint64_t s = step_oldest(times); s < step; s++)
		lengths[count++] = step_mean_ns(times, s);
	return count < STEPS_KNOWN_MIN ? 0 : quantile_double(lengths, count, ONSET_USUAL_QUANTILE);
}

/* As far as steps are kept, and not beyond a hang, whose step has no length: runs begin anew behind it. */
static uint64_t a_block_before(
	const struct step_times *times, const struct block *block, uint64_t step)
{
	uint64_t oldest = step_oldest(times), before = step > oldest ? step : oldest;

	while (before > oldest && before + (block->end_step - block->first_step) > step &&
		step_length_ns(times, before - 1) > 0)
		before--;
	return before;
}

uint64_t signal_onset(const struct signal *signal, const struct step_times *times,
	const struct block *block, struct run_begin begin, double level)
{
	double values[STEP_HISTORY] = {0}, lengths[STEP_HISTORY] = {0}, sorted[STEP_HISTORY];
	size_t count = 0, skipped;

	/* The block before may hold the first steps, too few of them to show. */
	uint64_t first = a_block_before(times, block, begin.first_step);
	uint64_t of_side = a_block_before(times, block, begin.side_since);
	double usual = usual_before(times, first);

	if (of_side < first)
		of_side = first;
	for (uint64_t s = first; s < times->next; s++) {
		double length = step_length_ns(times, s), value = signal_step_ns(signal, times, s);
		double grown = length - usual * (double)times->counts[s % STEP_HISTORY];

		/* What made no step longer had not begun yet. */
		values[count] = usual > 0 && grown < GAIN_SHARE_MIN * value ? 0 : value;
		lengths[count++] = length;
	}
	memcpy(sorted, lengths, sizeof(sorted));
	skipped = of_side - first;
	size_t onset = change_onset(values + skipped, lengths + skipped, count - skipped,
		lower_median_double(sorted, count), level);

	/* Loud through all of the history: it began with the run. */
	return onset == 0 && of_side > begin.side_since ? begin.side_since : of_side + onset;
}

static void push_past(struct signal *signal, float level)
{
	signal->past[signal->past_count++ % PAST_BLOCKS] = level;
	if (signal->past_count == 2 * PAST_BLOCKS)
		signal->past_count = PAST_BLOCKS; /* keeps the ring's phase */
}

/*
 * The first blocks of a run may be a fault's, and are no noise then: they would hide the next one. Known
 * when the run has come to nothing, or was told (then the verdict forgets them).
 */
static void push_doubtful(struct signal *signal)
{
	for (uint32_t i = 0; i < signal->doubtful_count; i++)
		push_past(signal, signal->doubtful[i]);
	signal->doubtful_count = 0;
}

void signal_settle(struct signal *signal, double least)
{
	double values[WARM_UP_BLOCKS], median;

	if (signal->settled || signal->past_count < WARM_UP_BLOCKS)
		return;
	for (uint32_t i = 0; i < WARM_UP_BLOCKS; i++)
		values[i] = (double)signal->past[i];
	median = fmax(median_double(values, WARM_UP_BLOCKS), 0);
	signal->settled = true;
	signal->usual_blocks = WARM_UP_BLOCKS;
	if (median >= least)
		return;
	signal->usual = signal->usual_least = median;
	for (uint32_t i = 0; i < WARM_UP_BLOCKS; i++)
		signal->past[i] -= (float)median;
	memset(signal->runs, 0, sizeof(signal->runs));
}

/*
 * What is usual follows slowly, and upwards only so far that a drift is told in the end: not
 * above what was usual at best by more than what is worth telling.
 */
static void learn_usual(struct signal *signal, double by)
{
	double most = signal->usual_least + SMALL_SHARE_MIN;

	signal->usual = fmin(fmax(signal->usual + by, 0), most);
	signal->usual_least = fmin(signal->usual_least, signal->usual);
}

size_t signal_past(const struct signal *signal, double *values)
{
	size_t count = 0;

	for (; count < signal->past_count && count < PAST_BLOCKS; count++)
		values[count] = (double)signal->past[count];
	return count;
}

void signal_noises(double *values, size_t count, struct change_noise noises[RUN_NR])
{
	noises[RUN_QUICK] = change_noise_of(values, count, QUICK_REFERENCE_SHARE * DELAY_SHARE_MIN);
	noises[RUN_SLOW] = change_noise_of(values, count, SLOW_REFERENCE);
	noises[RUN_SLOW].forget = SLOW_FORGET;
	noises[RUN_STEEP] = change_noise_of(values, count, LARGE_SHARE_MIN);
}

bool signal_suspected(const struct signal *signal, enum run_kind kind)
{
	return signal->runs[kind].change.sum >= (kind == RUN_QUICK ? CHANGE_SUSPECT : CHANGE_NEAR);
}

bool signal_suspected_any(const struct signal *signal)
{
	return signal_suspected(signal, RUN_QUICK) || signal_suspected(signal, RUN_SLOW);
}

/*
 * A stall (a checkpoint, a late start) outweighs many ordinary blocks, and would determine the run's
 * level and its cause. A block that alone lost more than all others of its run together is
 * taken out of it: one in a run, so that stalls that come again count.
 */
static void drop_peak(struct run *run)
{
	if (run->peak_dropped || run->blocks <= QUICK_BLOCKS_MIN ||
		run->peak.delay_ns <= run->sums.delay_ns - run->peak.delay_ns)
		return;
	excess_subtract(&run->sums, &run->peak);
	run->level -= run->peak_level;
	run->blocks--;
	run->peak_dropped = true;
}

double run_least(const struct run *run)
{
	return run->small ? SMALL_SHARE_MIN : DELAY_SHARE_MIN;
}

double run_level(const struct run *run)
{
	return run->blocks ? run->level / (double)run->blocks : 0;
}

double run_share(const struct run *run)
{
	const struct excess_sums *sums = &run->sums;

	return sums->time_ns > 0 ? (double)sums->delay_ns / (double)sums->time_ns : 0;
}

double run_step_ns(const struct run *run)
{
	return run->sums.steps ? (double)run->sums.time_ns / (double)run->sums.steps : 0;
}

int64_t run_span_ns(const struct run *run)
{
	return run->sums.time_ns * (run->every ? run->every : 1);
}

/* By how much more of the work's time than of the host's it was late. */
static double leaning_to_work(const struct excess_sums *sums)
{
	double ns = (double)(sums->own[EXCESS_COMPUTE] - sums->control[EXCESS_COMPUTE]);

	for (int k = EXCESS_COMPUTE + 1; k < EXCESS_NR; k++)
		ns -= (double)(sums->own[k] - sums->control[k]);
	return ns;
}

static const struct run_lean *lean_of(const struct run *run)
{
	return &run->leans[leaning_to_work(&run->sums) > 0 ? SIDE_WORK : SIDE_HOST];
}

struct run_begin run_begin(const struct run *run)
{
	return (struct run_begin){
		.first_step = run->first_step, .side_since = run->first_step + lean_of(run)->after};
}

double run_side_share(const struct run *run)
{
	const struct run_lean *lean = lean_of(run);

	return lean->after && run->sums.delay_ns > 0
		       ? fmin((double)lean->sum_ns / (double)run->sums.delay_ns, 1)
		       : 1;
}

static void lean(struct run *run, const struct block *block, const struct excess_sums *sums)
{
	double to_work_ns = leaning_to_work(sums);

	for (int side = 0; side < SIDE_NR; side++) {
		struct run_lean *lean = &run->leans[side];

		lean->sum_ns += (float)(side == SIDE_WORK ? to_work_ns : -to_work_ns);
		if (lean->sum_ns >= 0)
			continue;
		lean->sum_ns = 0;
		lean->after = (uint32_t)(block->end_step - run->first_step);
	}
}

/* Takes a block, loud or not by the run's own level. */
static void extend(
	struct run *run, const struct block *block, const struct excess_sums *sums, double level)
{
	bool loud = level >= QUIET_SHARE * run_least(run);

	if (run->blocks == 0) {
		run->first_step = block->first_step;
		run->start_ns = block->start_ns;
	}
	excess_add(&run->sums, sums);
	lean(run, block, sums);
	run->level += level;
	run->blocks++;
	run->loud_blocks += loud;
	run->loud_ns += loud ? block->time_ns : 0;
	if (sums->delay_ns > run->peak.delay_ns) {
		run->peak = *sums;
		run->peak_level = (float)level;
	}
	drop_peak(run);
}

/* How many blocks the quick run had before the steep one began. */
static uint32_t blocks_before_steep(const struct signal *signal)
{
	uint32_t quick = signal->runs[RUN_QUICK].blocks, steep = signal->runs[RUN_STEEP].blocks;

	return quick > steep ? quick - steep : 0;
}

/* Mean level of these. */
static double level_before_steep(const struct signal *signal)
{
	uint32_t blocks = blocks_before_steep(signal);

	return blocks ? (signal->runs[RUN_QUICK].level - signal->runs[RUN_STEEP].level) / blocks
		      : 0;
}

/* Of a steep run: what it rises above is the quick run before it, where there was one. */
static struct change_noise noise_of_steep(
	const struct signal *signal, const struct change_noise noises[RUN_NR])
{
	struct change_noise noise = noises[RUN_QUICK];

	if (!blocks_before_steep(signal))
		return noises[RUN_STEEP];

	double least = fmin(HALF_AS_MUCH * level_before_steep(signal), noises[RUN_STEEP].reference);

	noise.reference = fmax(noise.reference, least);
	noise.scale = fmax(noise.scale, 0.5 * least);
	return noise;
}

/* Takes the block into a run. False: there is none, its sum is 0. */
static bool push_run(struct run *run, const struct block *block, const struct block_loss *loss,
	const struct change_noise *noise, double level)
{
	(void)change_point_push(&run->change, noise, level, loss->weight);
	if (run->change.sum <= 0)
		return false;
	if (run->change.run <= 1)
		*run = (struct run){.change = run->change, .small = run->small};
	extend(run, block, loss->sums, level);
	return true;
}

/* A steep run begins anew where the level rises above its own. */
static bool push_steep(struct signal *signal, const struct block *block,
	const struct block_loss *loss, const struct change_noise *noise)
{
	struct run *run = &signal->runs[RUN_STEEP];

	if (signal->level > HALF_AS_MUCH * run_level(run))
		run->change = (struct change_point){0};
	return push_run(run, block, loss, noise, signal->level);
}

void signal_push(struct signal *signal, const struct block *block, const struct block_loss *loss,
	const struct change_noise noises[RUN_NR])
{
	double scale = noises[RUN_QUICK].scale;
	/* Who is suspected in a steep run, is in the quick one. */
	bool quick = signal_suspected(signal, RUN_QUICK), slow = signal_suspected(signal, RUN_SLOW);

	/* What may be a fault is no noise. */
	if (!signal->settled || signal->runs[RUN_QUICK].change.sum < CHANGE_NEAR) {
		if (signal->doubtful_count == DOUBTFUL_BLOCKS)
			push_doubtful(signal);
		signal->doubtful[signal->doubtful_count++] = (float)signal->level;
	}
	if (signal->settled && !quick && !slow) {
		signal->usual_blocks += signal->usual_blocks < USUAL_MEMORY;
		learn_usual(signal, fmin(fmax(signal->level, -2 * scale), 2 * scale) /
					    (double)signal->usual_blocks);
	}
	signal->runs[RUN_SLOW].small = true;
	for (int kind = 0; kind < RUN_NR; kind++) {
		struct run *run = &signal->runs[kind];
		struct change_noise noise =
			kind == RUN_STEEP ? noise_of_steep(signal, noises) : noises[kind];
		bool open = kind == RUN_STEEP ? push_steep(signal, block, loss, &noise)
					      : push_run(run, block, loss, &noise, signal->level);

		if (!open || !(kind == RUN_SLOW ? slow : quick))
			continue;
		run->suspect_gain_ns += loss->suspect_gain_ns[kind];
		run->suspect_delay_ns += loss->sums->delay_ns;
	}
	if (signal->runs[RUN_QUICK].change.sum <= 0)
		push_doubtful(signal);
	/* What was not worth telling for so long is usual. */
	if (signal->runs[RUN_SLOW].blocks >= SLOW_RUN_BLOCKS_MAX && signal->settled) {
		learn_usual(signal, run_level(&signal->runs[RUN_SLOW]));
		signal->runs[RUN_SLOW] = (struct run){.small = true};
	}
}

void signal_push_told(struct signal *signal, const struct block *block,
	const struct block_loss *loss, const struct change_noise noises[RUN_NR])
{
	struct run *quick = &signal->runs[RUN_QUICK];
	struct change_noise noise = noises[RUN_STEEP];
	double before, lost;

	if (signal->level >= QUIET_SHARE * run_least(quick))
		extend(quick, block, loss->sums, signal->level);
	if (blocks_before_steep(signal) < WORSE_BLOCKS_MIN)
		return;
	before = level_before_steep(signal);
	lost = WORSE_FACTOR * before / fmax(1 - before, LEFT_SHARE_MIN);
	noise.reference = fmax(noise.reference, lost / (1 + lost));
	noise.scale = fmax(noise.scale, 0.5 * (noise.reference - before));
	(void)push_steep(signal, block, loss, &noise);
}

void signal_note_quiet(struct signal *signal)
{
	push_past(signal, (float)signal->level);
}

void signal_forget_some(struct signal *signal)
{
	for (int kind = 0; kind < RUN_NR; kind++) {
		struct run *run = &signal->runs[kind];

		run->change.sum = fmax(0, run->change.sum - 0.5);
		if (run->change.sum <= 0)
			*run = (struct run){.small = kind == RUN_SLOW};
	}
}

/*
 * Means over so many blocks, of which the one of what is usual, differ by less than this by chance. scale: of
 * the noise of one block.
 */
static double chance_level(double scale, uint64_t blocks, uint64_t usual_blocks)
{
	return CHANCE_UNITS * scale * sqrt(1 / (double)blocks + 1 / fmax((double)usual_blocks, 1));
}

double run_evidence_in_time(const struct run *run)
{
	double usual_ns = (double)run->blocks * BLOCK_NS;

	return run->change.evidence *
	       (usual_ns > 0 ? fmax((double)run->sums.time_ns / usual_ns, 1) : 1);
}

bool run_is_of_long_steps(const struct run *run)
{
	return !run->small && run->blocks >= LONG_BLOCKS_MIN && run_level(run) >= HALF_SHARE;
}

bool run_is_open(const struct signal *signal, enum run_kind kind, struct gate_sheet *sheet)
{
	const struct run *quick = &signal->runs[RUN_QUICK], *run = &signal->runs[kind];

	/* What has ended is not told any more. */
	if (kind != RUN_SLOW &&
		!gate_passed(sheet, GATE_LOUD, signal->level, QUIET_SHARE * run_least(run)))
		return false;
	/* What began a moment ago is the quick run's to tell: it may be a stall. */
	if (kind == RUN_SLOW &&
		!gate_is(sheet, GATE_NOT_NEW,
			!signal_suspected(signal, RUN_QUICK) || quick->blocks >= SLOW_BLOCKS_MIN))
		return false;
	return gate_passed(sheet, GATE_CHANGE,
		run_is_of_long_steps(run) ? run_evidence_in_time(run) : run->change.sum,
		CHANGE_THRESHOLD);
}

bool run_is_large(const struct signal *signal, const struct step_times *times, enum run_kind kind,
	double scale, struct gate_sheet *sheet)
{
	const struct run *run = &signal->runs[kind];
	bool slow = kind == RUN_SLOW;
	double level = run_level(run);

	if (!gate_passed(sheet, GATE_LASTS, (double)run->blocks,
		    slow			? SLOW_BLOCKS_MIN
		    : run_is_of_long_steps(run) ? LONG_BLOCKS_MIN
						: QUICK_BLOCKS_MIN) ||
		!gate_passed_in(sheet, GATE_DELAY,
			(double)run->sums.delay_ns / (double)run->sums.steps, WAKE_UP_NS, 1e6))
		return false;
	if (!gate_passed(sheet, GATE_LEVEL, level, run_least(run)) &&
		!(slow && level >= RARE_SHARE_MIN &&
			gate_passed(sheet, GATE_LEVEL,
				signal_height_of_hits(
					signal, times, steps_kept_since(times, run->first_step)),
				RARE_HEIGHT_MIN)))
		return false;
	return !slow || gate_passed(sheet, GATE_NOISE, level,
				chance_level(scale, run->blocks, signal->usual_blocks));
}
