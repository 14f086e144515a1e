/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device times that are a later call's: NCCL keeps 64 a channel, and a progress thread that gets no CPU time reads what came
 * there since, one lap or several later (docs/clocks.md). All leave together what waits for all. So it shows where a rank
 * entered a call, by its times, after others had left it; and of which call such times are: the one that others left just
 * then. They are kept until its turn comes.
 */
#include <errno.h>
#include <stdlib.h>

#include "analysis/join/assembly_internal.h"

enum {
	TOLD_CALLS_MAX = 1024, /* kept of a rank: 16 laps */
	TOLD_RANKS_MAX = 256,  /* of whom they are kept: 6 MB */
};

/* Times that were told of another call than theirs. */
struct told_call {
	uint64_t communicator_id; /* 0: none */
	int64_t arrival_ns, departure_ns;
};

/* The latest of a rank. */
struct told_calls {
	struct told_call ring[TOLD_CALLS_MAX];
	uint64_t count;
};

void assembly_retold_fini(struct retold_calls *retold)
{
	for (size_t r = 0; r < retold->told_capacity; r++)
		free(retold->told[r]);
	free(retold->told);
	free(retold->calls);
}

static int remember(struct retold_calls *retold, uint32_t rank, const struct told_call *told)
{
	struct told_calls *calls;

	if (array_grow((void **)&retold->told, &retold->told_capacity, (size_t)rank + 1,
		    sizeof(*retold->told)) < 0)
		return -ENOMEM;
	if (!retold->told[rank] && retold->told_count < TOLD_RANKS_MAX) {
		retold->told[rank] = calloc(1, sizeof(*retold->told[rank]));
		if (!retold->told[rank])
			return -ENOMEM;
		retold->told_count++;
	}
	calls = retold->told[rank];
	if (calls)
		calls->ring[calls->count++ % TOLD_CALLS_MAX] = *told;
	return 0;
}

/* What was told of another call, and ended when others left this one; NULL: nothing was. */
static const struct told_call *find_told(
	const struct told_calls *calls, uint64_t communicator_id, int64_t left_ns)
{
	const struct told_call *best = NULL;
	int64_t best_ns = (int64_t)(NEXT_TO_NOTHING * CONTRADICTION_NS);

	for (size_t i = 0; calls && i < TOLD_CALLS_MAX; i++) {
		const struct told_call *told = &calls->ring[i];
		int64_t apart_ns = llabs(told->departure_ns - left_ns);

		if (told->communicator_id != communicator_id || apart_ns > best_ns)
			continue;
		best = told;
		best_ns = apart_ns;
	}
	return best;
}

static int by_rank(const void *a, const void *b)
{
	const struct retold_call *one = a, *other = b;

	return one->rank < other->rank ? -1 : one->rank > other->rank;
}

static int by_call(const void *a, const void *b)
{
	const struct retold_call *one = a, *other = b;

	if (one->rank != other->rank)
		return by_rank(one, other);
	if (one->communicator_id != other->communicator_id)
		return one->communicator_id < other->communicator_id ? -1 : 1;
	return one->sequence < other->sequence ? -1 : one->sequence > other->sequence;
}

/* A member that is told to have entered after others had left. */
static int note_member(struct assembly *assembly, const struct step_grid *grid,
	const struct grid_instance *instance, uint32_t member, int64_t entered_ns, int64_t left_ns)
{
	size_t at = instance->first_member + member;
	const struct told_call told = {
		instance->communicator_id, grid->arrival_ns[at], grid->departure_ns[at]};
	uint32_t row = grid->member_parts[at].row, rank = grid->rows[row].rank;
	struct retold_calls *retold = &assembly->retold;

	if (array_grow((void **)&retold->calls, &retold->capacity, retold->count + 1,
		    sizeof(*retold->calls)) < 0)
		return -ENOMEM;
	retold->calls[retold->count++] =
		(struct retold_call){.communicator_id = instance->communicator_id,
			.sequence = instance->sequence,
			.rank = rank,
			.row = row,
			.arrival_ns = entered_ns < left_ns ? entered_ns : left_ns,
			.departure_ns = left_ns};
	return remember(retold, rank, &told);
}

static int note_instance(struct assembly *assembly, const struct step_grid *grid,
	const struct grid_instance *instance)
{
	int64_t left_ns, entered_ns = INT64_MAX;
	int error = 0;

	if (!grid_times_contradict(grid, instance, &left_ns))
		return 0;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		int64_t arrival_ns = grid->arrival_ns[instance->first_member + m];

		entered_ns = arrival_ns < entered_ns ? arrival_ns : entered_ns;
	}
	for (uint32_t m = 0; m < instance->member_count && error == 0; m++) {
		if (grid->arrival_ns[instance->first_member + m] - CONTRADICTION_NS > left_ns)
			error = note_member(assembly, grid, instance, m, entered_ns, left_ns);
	}
	return error;
}

/* Gives the calls of a rank, count of them, the times that are theirs. False: those of most are not known. */
static bool retell_rank(const struct retold_calls *retold, struct retold_call *calls, size_t count)
{
	size_t found = 0;

	for (size_t i = 0; i < count; i++) {
		const struct told_call *told = find_told(retold->told[calls[i].rank],
			calls[i].communicator_id, calls[i].departure_ns);

		if (!told)
			continue;
		calls[i].found = true;
		calls[i].arrival_ns = told->arrival_ns < calls[i].departure_ns
					      ? told->arrival_ns
					      : calls[i].departure_ns;
		calls[i].departure_ns = told->departure_ns;
		found++;
	}
	return 2 * found > count;
}

/* Where the leader's part that the step ends with has another call's time, the step ended when others had left all such. */
static void move_cut(struct assembly *assembly)
{
	struct assembly_cut *cut = &assembly->cut;

	if (cut->by_time ||
		!assembly_retold_call(assembly, cut->rank, cut->communicator_id, cut->sequence))
		return;
	cut->time_ns = INT64_MIN;
	for (size_t i = 0; i < assembly->retold.count; i++) {
		const struct retold_call *call = &assembly->retold.calls[i];

		if (call->rank == cut->rank && call->departure_ns > cut->time_ns)
			cut->time_ns = call->departure_ns;
	}
}

/* Of a rank whose times are not known, it is known when others left its last call of this step: there the next one starts. */
static void end_rank(struct assembly *assembly, const struct step_grid *grid,
	const struct retold_call *calls, size_t count)
{
	struct rank_scan *scan = &assembly->scans[calls[0].rank];
	int64_t left_ns = calls[0].departure_ns;

	for (size_t i = 1; i < count; i++)
		left_ns = calls[i].departure_ns > left_ns ? calls[i].departure_ns : left_ns;
	scan->reckoned = true;
	scan->reckoned_end.value = left_ns - grid->rows[calls[0].row].host_to_job_ns;
}

int assembly_retell(struct assembly *assembly, const struct step_grid *grid)
{
	struct retold_calls *retold = &assembly->retold;
	bool known = true;
	int error = 0;

	for (size_t i = 0; i < grid->instance_count && error == 0; i++)
		error = note_instance(assembly, grid, &grid->instances[i]);
	if (error < 0 || retold->count == 0)
		return error;
	qsort(retold->calls, retold->count, sizeof(*retold->calls), by_call);
	move_cut(assembly);
	for (size_t i = 0, next; i < retold->count; i = next) {
		for (next = i + 1;
			next < retold->count && retold->calls[next].rank == retold->calls[i].rank;)
			next++;
		end_rank(assembly, grid, &retold->calls[i], next - i);
		known &= retell_rank(retold, &retold->calls[i], next - i);
	}
	if (!known)
		retold->count = 0;
	return known;
}

const struct retold_call *assembly_retold_call(
	const struct assembly *assembly, uint32_t rank, uint64_t communicator_id, uint64_t sequence)
{
	const struct retold_call key = {
		.rank = rank, .communicator_id = communicator_id, .sequence = sequence};

	return assembly->retold.count ? bsearch(&key, assembly->retold.calls,
						assembly->retold.count, sizeof(key), by_call)
				      : NULL;
}

bool assembly_is_retold(const struct assembly *assembly, uint32_t rank)
{
	const struct retold_call key = {.rank = rank};

	return assembly->retold.count &&
	       bsearch(&key, assembly->retold.calls, assembly->retold.count, sizeof(key), by_rank);
}
