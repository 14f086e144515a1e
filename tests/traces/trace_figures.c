/* SPDX-License-Identifier: Apache-2.0 */
/* Replays a trace with operations as they were, or as they would be at best. */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/robust_stats.h"
#include "analysis/base/step.h"
#include "tests/traces/trace_order.h"

/* Shorter transfers than this come from clocks that differ; they count as 0 (the artifact's). */
#define TRANSFER_NEGATIVE_NS (-10000000)
#define WORST_RANKS_SHARE 0.03

static const char *const figure_names[TRACE_FIGURE_NR] = {"forward-compute", "backward-compute",
	"forward-pp-comm", "backward-pp-comm", "params-all-gather", "grads-reduce-scatter",
	"separate-grads-all-reduce", "layernorm-grads-all-reduce", "embedding-grads-all-reduce",
	"optimizer-clip-main-grad", "gc", "optimizer"};

static const uint8_t figure_of[TRACE_KIND_NR] = {0, 1, 2, 2, 3, 3, 4, 5, 6, 7, 8, 9, 10, 11};

const char *trace_figure_name(unsigned figure)
{
	return figure < TRACE_FIGURE_NR ? figure_names[figure] : "unknown";
}

static bool is_compute(unsigned kind) /* its ideal is the mean; that of the others the median */
{
	return kind == TRACE_FORWARD_COMPUTE || kind == TRACE_BACKWARD_COMPUTE ||
	       kind == TRACE_OPTIMIZER || kind == TRACE_GARBAGE_COLLECTION;
}

/* Which operations are meant: of a replica, a stage, a kind of figure, or of chosen workers. */
enum subset { SUBSET_NONE, SUBSET_REPLICA, SUBSET_STAGE, SUBSET_FIGURE, SUBSET_WORKERS };

struct scenario {
	enum subset subset;
	uint32_t index;
	const uint8_t *workers; /* [replica * stages + stage] */
	bool subset_real;	/* those are as they were, the rest at best; false: the reverse */
};

struct replay {
	const struct trace *trace;
	struct trace_order order;
	uint32_t replica_count, stage_count;
	size_t step_count;
	const struct trace_worker **table; /* [step][replica][stage]; sorted workers */
	double *values;	       /* [step][replica][node]: duration, or transfer when joined */
	double *starts, *ends; /* [node][replica], at work */
	double ideal[TRACE_KIND_NR];
	double actual_ns; /* mean */
};

static int compare_workers(const void *left, const void *right)
{
	const struct trace_worker *a = *(const struct trace_worker *const *)left;
	const struct trace_worker *b = *(const struct trace_worker *const *)right;

	if (a->step != b->step)
		return a->step < b->step ? -1 : 1;
	if (a->replica != b->replica)
		return a->replica < b->replica ? -1 : 1;
	return a->stage < b->stage ? -1 : a->stage > b->stage;
}

/* Has the step every worker once, with the operations of the first? */
static bool step_fits(const struct replay *replay, const struct trace_worker *const *workers)
{
	for (uint32_t r = 0; r < replay->replica_count; r++) {
		for (uint32_t s = 0; s < replay->stage_count; s++) {
			const struct trace_worker *worker = workers[r * replay->stage_count + s];
			uint32_t nodes = replay->order.first[(size_t)(s + 1) * TRACE_KIND_NR] -
					 replay->order.first[(size_t)s * TRACE_KIND_NR];

			if (worker->replica != r || worker->stage != s || worker->count != nodes)
				return false;
			for (size_t i = 0; i < worker->count; i++) {
				const struct trace_operation *operation =
					&replay->trace->operations[worker->first + i];

				if (trace_order_find(&replay->order, s, operation->kind,
					    operation->sequence) == TRACE_NONE)
					return false;
			}
		}
	}
	return true;
}

static uint64_t mix(uint64_t value)
{
	value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	return value ^ (value >> 27);
}

/* What a step's workers did, without the times: equal for steps of the same operations. */
static uint64_t pattern_of(
	const struct replay *replay, const struct trace_worker *const *workers, size_t count)
{
	uint64_t pattern = 0;

	for (size_t w = 0; w < count; w++) {
		for (size_t i = 0; i < workers[w]->count; i++) {
			const struct trace_operation *operation =
				&replay->trace->operations[workers[w]->first + i];

			pattern += mix((uint64_t)(w + 1) << 40 ^ (uint64_t)operation->kind << 32 ^
					   operation->sequence) |
				   1;
		}
	}
	return pattern;
}

static int compare_patterns(const void *left, const void *right)
{
	const uint64_t *a = left, *b = right;

	return *a < *b ? -1 : *a > *b;
}

/* The commonest of them; of equally common ones the lowest. */
static uint64_t commonest(uint64_t *patterns, size_t count)
{
	uint64_t best = 0;
	size_t most = 0;

	qsort(patterns, count, sizeof(*patterns), compare_patterns);
	for (size_t i = 0, next; i < count; i = next) {
		for (next = i + 1; next < count && patterns[next] == patterns[i]; next++)
			;
		if (next - i > most) {
			most = next - i;
			best = patterns[i];
		}
	}
	return best;
}

static size_t workers_of_step(const struct replay *replay, size_t first)
{
	size_t end = first;

	while (end < replay->trace->worker_count &&
		replay->table[end]->step == replay->table[first]->step)
		end++;
	return end - first;
}

/* Sorts the workers and keeps the steps of the commonest pattern; the first of these gives the order. */
static int arrange(struct replay *replay, struct trace_figures *figures)
{
	const struct trace *trace = replay->trace;
	size_t workers = (size_t)replay->replica_count * replay->stage_count, kept = 0, whole = 0;
	uint64_t *patterns = calloc(trace->worker_count, sizeof(*patterns)), usual;
	bool ordered = false;
	int error = 0;

	if (!patterns)
		return -ENOMEM;
	for (size_t i = 0; i < trace->worker_count; i++)
		replay->table[i] = &trace->workers[i];
	qsort(replay->table, trace->worker_count, sizeof(*replay->table), compare_workers);
	for (size_t i = 0, count; i < trace->worker_count; i += count) {
		count = workers_of_step(replay, i);
		if (count == workers)
			patterns[whole++] = pattern_of(replay, &replay->table[i], count);
	}
	usual = commonest(patterns, whole);
	free(patterns);
	for (size_t i = 0, count; i < trace->worker_count && error == 0; i += count) {
		count = workers_of_step(replay, i);
		bool fits =
			count == workers && pattern_of(replay, &replay->table[i], count) == usual;

		if (fits && !ordered) {
			error = trace_order_init(
				trace, &replay->table[i], replay->stage_count, &replay->order);
			ordered = true;
		}
		if (error == 0 && fits && step_fits(replay, &replay->table[i])) {
			memmove(&replay->table[kept], &replay->table[i],
				workers * sizeof(*replay->table));
			kept += workers;
			figures->steps++;
		} else {
			figures->steps_left_out++;
		}
	}
	replay->step_count = (size_t)figures->steps;
	return error < 0 ? error : kept ? 0 : -EINVAL;
}

/* The operations' own times of one step, starts and ends first; transfers need their groups. */
static double take_step(struct replay *replay, size_t step)
{
	const struct trace_order *order = &replay->order;
	uint32_t replicas = replay->replica_count;
	double *values = replay->values + step * replicas * order->node_count;
	double first = INFINITY, last = -INFINITY;

	for (uint32_t w = 0; w < replicas * replay->stage_count; w++) {
		const struct trace_worker *worker =
			replay->table[step * replicas * replay->stage_count + w];

		for (size_t i = 0; i < worker->count; i++) {
			const struct trace_operation *operation =
				&replay->trace->operations[worker->first + i];
			uint32_t node = trace_order_find(
				order, worker->stage, operation->kind, operation->sequence);
			size_t at = (size_t)node * replicas + worker->replica;

			replay->starts[at] = (double)operation->start_ns;
			replay->ends[at] = (double)operation->end_ns;
			first = fmin(first, replay->starts[at]);
			last = fmax(last, replay->ends[at]);
		}
	}
	for (uint32_t v = 0; v < order->node_count; v++) {
		uint32_t g = order->nodes[v].group;

		for (uint32_t r = 0; r < replicas; r++) {
			double from = replay->starts[(size_t)v * replicas + r];

			for (uint32_t m = 0; g != TRACE_NONE && m < order->groups[g].member_count;
				m++) {
				const double *starts =
					&replay->starts[(size_t)order->members
								[order->groups[g].first_member +
									m] *
							replicas];

				for (uint32_t q = 0; q < replicas; q++) {
					if (q == r || order->groups[g].replicas)
						from = fmax(from, starts[q]);
				}
			}
			double value = replay->ends[(size_t)v * replicas + r] - from;

			values[(size_t)r * order->node_count + v] =
				g != TRACE_NONE && value <= TRANSFER_NEGATIVE_NS ? 0 : value;
		}
	}
	return last - first;
}

static int find_ideals(struct replay *replay)
{
	const struct trace_order *order = &replay->order;
	size_t lanes = replay->step_count * replay->replica_count;
	double *scratch = malloc(lanes * order->node_count * sizeof(*scratch));

	if (!scratch)
		return -ENOMEM;
	for (unsigned kind = 0; kind < TRACE_KIND_NR; kind++) {
		size_t count = 0;
		double sum = 0;

		for (uint32_t v = 0; v < order->node_count; v++) {
			for (size_t lane = 0; lane < lanes && order->nodes[v].kind == kind;
				lane++) {
				scratch[count] = replay->values[lane * order->node_count + v];
				sum += scratch[count++];
			}
		}
		replay->ideal[kind] = !count		 ? 0
				      : is_compute(kind) ? sum / (double)count
							 : median_double(scratch, count);
	}
	free(scratch);
	return 0;
}

static bool in_subset(const struct replay *replay, const struct scenario *scenario,
	const struct trace_node *node, uint32_t replica)
{
	switch (scenario->subset) {
	case SUBSET_REPLICA:
		return replica == scenario->index;
	case SUBSET_STAGE:
		return node->stage == scenario->index;
	case SUBSET_FIGURE:
		return figure_of[node->kind] == scenario->index;
	case SUBSET_WORKERS:
		return scenario->workers[replica * replay->stage_count + node->stage];
	default:
		return false;
	}
}

/* All members of a group have started: it ends at the last start plus each one's transfer. */
static void end_group(struct replay *replay, const struct scenario *scenario, const double *values,
	const struct trace_group *group)
{
	const struct trace_order *order = &replay->order;
	const uint32_t *members = &order->members[group->first_member];
	uint32_t replicas = replay->replica_count;
	double over_all = -INFINITY;

	for (uint32_t m = 0; group->replicas && m < group->member_count; m++) {
		for (uint32_t r = 0; r < replicas; r++)
			over_all =
				fmax(over_all, replay->starts[(size_t)members[m] * replicas + r]);
	}
	for (uint32_t r = 0; r < replicas; r++) {
		double from = over_all;

		for (uint32_t m = 0; !group->replicas && m < group->member_count; m++)
			from = fmax(from, replay->starts[(size_t)members[m] * replicas + r]);
		for (uint32_t m = 0; m < group->member_count; m++) {
			const struct trace_node *node = &order->nodes[members[m]];
			bool real = in_subset(replay, scenario, node, r) == scenario->subset_real;

			replay->ends[(size_t)members[m] * replicas + r] =
				from + (real ? values[(size_t)r * order->node_count + members[m]]
					     : replay->ideal[node->kind]);
		}
	}
}

/* The mean time of a step in a scenario. */
static double replay_all(struct replay *replay, const struct scenario *scenario)
{
	const struct trace_order *order = &replay->order;
	uint32_t replicas = replay->replica_count;
	double total = 0;

	for (size_t step = 0; step < replay->step_count; step++) {
		const double *values = replay->values + step * replicas * order->node_count;
		double end = 0;

		for (uint32_t e = 0; e < order->event_count; e++) {
			uint32_t v = order->events[e].index;

			if (order->events[e].group_ends) {
				end_group(replay, scenario, values, &order->groups[v]);
				continue;
			}
			const struct trace_node *node = &order->nodes[v];

			for (uint32_t r = 0; r < replicas; r++) {
				size_t at = (size_t)v * replicas + r;
				double start = 0;

				for (uint32_t k = 0; k < node->edge_count; k++)
					start = fmax(start,
						replay->ends[(size_t)order->edges[node->first_edge +
										  k] *
								     replicas +
							     r]);
				replay->starts[at] = start;
				if (node->group == TRACE_NONE) {
					bool real = in_subset(replay, scenario, node, r) ==
						    scenario->subset_real;

					replay->ends[at] =
						start +
						(real ? values[(size_t)r * order->node_count + v]
						      : replay->ideal[node->kind]);
				}
			}
		}
		for (uint32_t v = 0; v < order->node_count; v++) {
			for (uint32_t r = 0; r < replicas; r++)
				end = fmax(end, replay->ends[(size_t)v * replicas + r]);
		}
		total += end;
	}
	return total / (double)replay->step_count;
}

/* The worst 3 % of workers by the lower of their replica's and their stage's S. */
static double worst_ranks_share(struct replay *replay, const struct trace_figures *figures)
{
	size_t workers = (size_t)replay->replica_count * replay->stage_count;
	size_t wanted = (size_t)ceil((double)workers * WORST_RANKS_SHARE - 1e-9);
	uint8_t *chosen = calloc(workers, 1);
	double without;

	if (!chosen)
		return NAN;
	for (size_t n = 0; n < wanted; n++) {
		size_t best = SIZE_MAX;
		double best_score = -INFINITY;

		for (size_t w = 0; w < workers; w++) {
			/* by rank: the table's first step holds them by replica and stage */
			double score = fmin(figures->by_replica[w / replay->stage_count],
				figures->by_stage[w % replay->stage_count]);

			if (chosen[w] || score < best_score ||
				(best != SIZE_MAX && score <= best_score &&
					replay->table[w]->rank > replay->table[best]->rank))
				continue;
			best = w;
			best_score = score;
		}
		chosen[best] = 1;
	}
	without = replay_all(
		replay, &(struct scenario){
				.subset = SUBSET_WORKERS, .workers = chosen, .subset_real = false});
	free(chosen);
	return (figures->step_ns - without) / (figures->step_ns - figures->step_ns_ideal);
}

/* Sums for Pearson's correlation of one worker's microbatches, forward and backward. */
struct pearson {
	double count, x, y, xx, yy, xy;
};

static void correlate_worker(
	const struct replay *replay, uint32_t replica, uint32_t stage, struct pearson *sums)
{
	const struct trace_order *order = &replay->order;
	uint32_t count = trace_order_count(order, stage, TRACE_FORWARD_COMPUTE);
	struct pearson own = {0};

	if (count == 0 || count != trace_order_count(order, stage, TRACE_BACKWARD_COMPUTE))
		return;
	uint32_t forward = trace_order_find(order, stage, TRACE_FORWARD_COMPUTE, 0);
	uint32_t backward = trace_order_find(order, stage, TRACE_BACKWARD_COMPUTE, 0);

	for (size_t step = 0; step < replay->step_count; step++) {
		const double *values = replay->values +
				       (step * replay->replica_count + replica) * order->node_count;

		for (uint32_t i = 0; i < count; i++) {
			double x = values[forward + i] * 1e-6, y = values[backward + i] * 1e-6;

			own = (struct pearson){own.count + 1, own.x + x, own.y + y, own.xx + x * x,
				own.yy + y * y, own.xy + x * y};
		}
	}
	/* around the worker's own means: slow workers and long stages are no uneven sequences */
	sums->count += own.count;
	sums->xx += own.xx - own.x * own.x / own.count;
	sums->yy += own.yy - own.y * own.y / own.count;
	sums->xy += own.xy - own.x * own.y / own.count;
}

/* Uneven sequences make both directions of a microbatch long: they correlate (Pearson). */
static double correlate(const struct replay *replay)
{
	struct pearson sums = {0};

	for (uint32_t replica = 0; replica < replay->replica_count; replica++) {
		for (uint32_t stage = 0; stage < replay->stage_count; stage++)
			correlate_worker(replay, replica, stage, &sums);
	}
	return sums.xx > 0 && sums.yy > 0 ? sums.xy / sqrt(sums.xx * sums.yy) : NAN;
}

static void fill_figures(struct replay *replay, struct trace_figures *figures)
{
	struct scenario scenario = {.subset = SUBSET_NONE, .subset_real = true};
	double ideal = replay_all(replay, &scenario);

	scenario.subset_real = false;
	figures->step_ns_actual = replay->actual_ns;
	figures->step_ns = replay_all(replay, &scenario);
	figures->step_ns_ideal = ideal;
	figures->slowdown = figures->step_ns / ideal;
	figures->launch_slowdown = figures->step_ns_actual / figures->step_ns;
	scenario.subset_real = true;
	for (uint32_t r = 0; r < replay->replica_count; r++) {
		scenario.subset = SUBSET_REPLICA;
		scenario.index = r;
		figures->by_replica[r] = replay_all(replay, &scenario) / ideal;
	}
	for (uint32_t s = 0; s < replay->stage_count; s++) {
		scenario.subset = SUBSET_STAGE;
		scenario.index = s;
		figures->by_stage[s] = replay_all(replay, &scenario) / ideal;
	}
	for (uint32_t v = 0; v < replay->order.node_count; v++)
		figures->has_kind[figure_of[replay->order.nodes[v].kind]] = true;
	for (uint32_t k = 0; k < TRACE_FIGURE_NR; k++) {
		scenario.subset = SUBSET_FIGURE;
		scenario.index = k;
		figures->by_kind[k] =
			figures->has_kind[k] ? replay_all(replay, &scenario) / ideal : 1;
	}
	scenario = (struct scenario){
		.subset = SUBSET_STAGE, .index = replay->stage_count - 1, .subset_real = false};
	figures->last_stage_share =
		(figures->step_ns - replay_all(replay, &scenario)) / (figures->step_ns - ideal);
	figures->worst_ranks_share = worst_ranks_share(replay, figures);
	figures->forward_backward_correlation = correlate(replay);
}

static int reserve(struct replay *replay)
{
	size_t cells = (size_t)replay->order.node_count * replay->replica_count;

	replay->values = malloc(replay->step_count * cells * sizeof(double) + 1);
	replay->starts = malloc(cells * sizeof(double) + 1);
	replay->ends = malloc(cells * sizeof(double) + 1);
	return replay->values && replay->starts && replay->ends ? 0 : -ENOMEM;
}

int trace_figures_init(const struct trace *trace, struct trace_figures *figures)
{
	struct replay replay = {.trace = trace};
	struct trace_figures result = {0};
	int error;

	for (size_t i = 0; i < trace->worker_count; i++) {
		if (trace->workers[i].replica >= STEP_RANK_COUNT_MAX ||
			trace->workers[i].stage >= TRACE_STAGES_MAX)
			return -EINVAL;
		if (trace->workers[i].replica >= replay.replica_count)
			replay.replica_count = trace->workers[i].replica + 1;
		if (trace->workers[i].stage >= replay.stage_count)
			replay.stage_count = trace->workers[i].stage + 1;
	}
	if ((size_t)replay.replica_count * replay.stage_count > trace->worker_count ||
		trace->worker_count == 0)
		return -EINVAL;
	result.replica_count = replay.replica_count;
	result.stage_count = replay.stage_count;
	result.by_replica = calloc(replay.replica_count, sizeof(double));
	result.by_stage = calloc(replay.stage_count, sizeof(double));
	replay.table = calloc(trace->worker_count, sizeof(*replay.table));
	error = result.by_replica && result.by_stage && replay.table ? arrange(&replay, &result)
								     : -ENOMEM;
	if (error == 0)
		error = reserve(&replay);
	for (size_t step = 0; step < replay.step_count && error == 0; step++)
		replay.actual_ns += take_step(&replay, step) / (double)replay.step_count;
	if (error == 0)
		error = find_ideals(&replay);
	if (error == 0) {
		fill_figures(&replay, &result);
		*figures = result;
	} else {
		trace_figures_fini(&result);
	}
	trace_order_fini(&replay.order);
	free(replay.table);
	free(replay.values);
	free(replay.starts);
	free(replay.ends);
	return error;
}

void trace_figures_fini(struct trace_figures *figures)
{
	free(figures->by_replica);
	free(figures->by_stage);
	*figures = (struct trace_figures){0};
}
