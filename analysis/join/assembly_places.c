/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Places in an entry to cut at: one, or one for each round. Where an entry makes the same calls several times over (in
 * cycles), and takes as long for them each time, it is cut as it would be if the program's steps were so much shorter: who is
 * slow must not depend on where these are cut.
 */
#include "analysis/base/hash.h"
#include "analysis/join/assembly_internal.h"

/* How good a part is to cut at: synchronising before rooted, then the widest communicator. */
static uint64_t cut_merit(
	struct assembly *assembly, uint32_t number, const struct packed_step *entry, size_t part)
{
	const struct part_kind *kind = packed_kind(entry, part);
	struct rank_stream *rank = &assembly->streams->ranks[number];
	struct communicator_entry *shared = assembly_communicator(assembly, kind->communicator_id);
	struct rank_communicator *own;
	uint64_t sequence, size;

	if (assembly_part_is_loose(rank, kind) || !kind->communicator_id ||
		operation_waits_for(kind->operation) == WAITS_FOR_NOBODY ||
		!assembly_sequence(assembly, number, entry, part, &sequence))
		return 0;
	own = stream_communicator(rank, kind->communicator_id);
	size = own && own->size ? own->size : shared ? shared->member_count : 0;
	if (size < 2)
		return 0;
	return (operation_waits_for(kind->operation) == WAITS_FOR_ALL ? UINT64_C(1) << 40 : 0) +
	       size;
}

bool assembly_best_part(struct assembly *assembly, uint32_t number, const struct packed_step *entry,
	size_t from, bool *blocking, size_t *best)
{
	uint64_t best_merit = 0;

	for (size_t p = from; p < entry->part_count; p++) {
		uint64_t merit = cut_merit(assembly, number, entry, p);

		*blocking |= !(packed_kind(entry, p)->flags & PART_ENQUEUE_ONLY);
		if (merit && merit >= best_merit) {
			best_merit = merit;
			*best = p;
		}
	}
	return best_merit > 0;
}

/* The parts of an entry on the communicator that it is cut at, up to the best place; returns how many. */
static size_t candidates_of(struct assembly *assembly, uint32_t number,
	const struct packed_step *entry, uint16_t *parts)
{
	bool blocking = false;
	size_t count = 0, best;

	if (!assembly_best_part(assembly, number, entry, 0, &blocking, &best))
		return 0;
	uint64_t id = packed_kind(entry, best)->communicator_id;
	uint64_t merit = cut_merit(assembly, number, entry, best);

	for (size_t p = 0; p <= best; p++) {
		if (packed_kind(entry, p)->communicator_id == id &&
			cut_merit(assembly, number, entry, p) == merit)
			parts[count++] = (uint16_t)p;
	}
	return count;
}

static uint64_t call_key(const struct part_kind *kind)
{
	return hash_mix(hash_mix(hash_mix(kind->communicator_id, kind->length_bytes),
				(uint64_t)kind->operation << 8 | kind->purpose),
		(uint64_t)(uint32_t)kind->root);
}

/* The number of calls after which they repeat, up to the last of them (Knuth, Morris and Pratt, 1977). */
static size_t period_of(const uint64_t *keys, size_t count)
{
	uint16_t borders[STEP_PART_COUNT_MAX];
	size_t border = 0;

	borders[0] = 0;
	for (size_t i = 1; i < count; i++) {
		while (border && keys[i] != keys[border])
			border = borders[border - 1];
		border += keys[i] == keys[border];
		borders[i] = (uint16_t)border;
	}
	return count % (count - border) == 0 ? count - border : count;
}

/*
 * So many cycles together are a round: it is long enough, and takes as long each time. What was the longest cycle at each
 * place in it makes a round hardly longer than what was the shortest.
 */
static bool are_alike(const struct entry_cycles *cycles, uint32_t together)
{
	int64_t shortest_ns = 0, longest_ns = 0;

	for (uint32_t j = 0; j < together; j++) {
		int64_t least_ns = INT64_MAX, most_ns = 0;

		for (uint32_t i = j; i < cycles->count; i += together) {
			int64_t length_ns = cycles->least_ns[i];

			least_ns = length_ns < least_ns ? length_ns : least_ns;
			most_ns = length_ns > most_ns ? length_ns : most_ns;
		}
		shortest_ns += least_ns;
		longest_ns += most_ns;
	}
	return shortest_ns >= ROUND_NS_MIN &&
	       (double)longest_ns <= CLEARLY_MORE * (double)shortest_ns;
}

/* Notes the times of an entry's cycles, each from the end of the one before; the first has what follows the last. */
static void take_times(struct entry_cycles *cycles, const struct packed_step *entry,
	const uint16_t *parts, size_t count, bool known)
{
	int64_t before_ns = entry->start.value - entry->end.value +
			    entry->times[parts[count - 1]].departure.value;

	for (uint32_t i = 0; i < cycles->count; i++) {
		size_t last = parts[(i + 1) * count / cycles->count - 1];
		int64_t end_ns = entry->times[last].departure.value;
		int64_t length_ns = end_ns - before_ns;

		before_ns = end_ns;
		if (!known || length_ns < cycles->least_ns[i])
			cycles->least_ns[i] = length_ns;
	}
}

/* The cycles of a leader's entry; false: there are none, or it is the first one like this. */
static bool find_cycles(struct assembly *assembly, uint32_t number, const struct packed_step *entry)
{
	struct entry_cycles *cycles = &assembly->cycles;
	uint16_t parts[STEP_PART_COUNT_MAX];
	uint64_t keys[STEP_PART_COUNT_MAX], calls = number;
	size_t count, cycle_count;

	if (entry->flags & (STEP_WINDOW | STEP_INCOMPLETE))
		return false;
	count = candidates_of(assembly, number, entry, parts);
	if (count < 2)
		return false;
	for (size_t i = 0; i < count; i++) {
		keys[i] = call_key(packed_kind(entry, parts[i]));
		calls = hash_mix(calls, keys[i]);
	}
	cycle_count = count / period_of(keys, count);
	for (size_t all = cycle_count; cycle_count > ENTRY_CYCLES_MAX || all % cycle_count;)
		cycle_count--;
	if (cycle_count < 2)
		return false;
	bool known = cycles->calls == calls;

	cycles->calls = calls;
	cycles->count = (uint32_t)cycle_count;
	take_times(cycles, entry, parts, count, known);
	return known;
}

uint32_t assembly_find_rounds(
	struct assembly *assembly, uint32_t number, const struct packed_step *entry, uint16_t *ends)
{
	const struct entry_cycles *cycles = &assembly->cycles;

	if (!find_cycles(assembly, number, entry))
		return 1;
	for (uint32_t together = 1; together < cycles->count; together++) {
		uint32_t round_count = cycles->count / together;

		if (cycles->count % together == 0 && are_alike(cycles, together) &&
			assembly_round_ends(assembly, number, entry, round_count, ends))
			return round_count;
	}
	return 1;
}

bool assembly_round_ends(struct assembly *assembly, uint32_t number,
	const struct packed_step *entry, uint32_t round_count, uint16_t *ends)
{
	uint16_t parts[STEP_PART_COUNT_MAX];
	size_t count = candidates_of(assembly, number, entry, parts);

	if (count == 0 || count % round_count)
		return false;
	for (uint32_t round = 0; round < round_count; round++)
		ends[round] = parts[(round + 1) * count / round_count - 1];
	return true;
}
