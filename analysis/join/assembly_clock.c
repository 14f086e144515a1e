/* SPDX-License-Identifier: Apache-2.0 */
/* Fitting the hosts' clocks to the job's from the instances of a step; see docs/clocks.md. */

#include "analysis/join/assembly_internal.h"

void assembly_take_stamps(struct clock_fit *clock, const struct stream_stamps *stamps)
{
	if (stamps->sent.value)
		clock_fit_request(clock, stamps->sent, stamps->received);
	if (!stamps->previous_reply_received.value)
		return;
	clock_fit_request(clock, stamps->previous_sent, stamps->previous_received);
	clock_fit_reply(clock, stamps->previous_reply_sent, stamps->previous_reply_received);
}

void assembly_pop(struct assembly *assembly, struct rank_stream *rank)
{
	struct stream_batch *batch = stream_at(rank, 0)->batch;

	if (batch->stamps.pending)
		assembly_take_stamps(&assembly->streams->hosts[rank->host].clock, &batch->stamps);
	batch->stamps.pending = false;
	stream_pop(rank);
}

/*
 * Where the clocks lie until instances tell: by the first batch that announces the lowest rank of each
 * host, whichever came first.
 */
static void start_clocks(struct rank_streams *streams)
{
	for (uint32_t r = streams->end; r-- > 0;) {
		const struct rank_stream *rank = &streams->ranks[r];
		struct clock_fit *clock;

		if (!rank->known || rank->host == UINT32_MAX || !rank->stamp.valid)
			continue;
		clock = &streams->hosts[rank->host].clock;
		clock_fit_init(clock);
		clock_fit_request(clock, rank->stamp.sent,
			(struct job_ns){rank->stamp.sent.value + rank->stamp.high_ns});
	}
}

/*
 * The reference's offset only sets where the job's clock starts, so it need not be the best guess, but
 * it must not hang on which frames came first: it is what the first batch that announces the lowest
 * rank says. Its stamps may be worse than later ones; nothing but assembly_job_now() minds.
 */
void assembly_fix_clock(struct assembly *assembly)
{
	struct rank_streams *streams = assembly->streams;

	if (assembly->clock.fixed)
		return;
	start_clocks(streams);
	for (uint32_t r = 0; r < streams->end && !assembly->clock.fixed; r++) {
		const struct rank_stream *rank = &streams->ranks[r];
		struct clock_fit *clock;
		int64_t offset_ns;

		if (!rank->known || rank->host == UINT32_MAX)
			continue;
		clock = &streams->hosts[rank->host].clock;
		offset_ns = rank->stamp.valid ? rank->stamp.high_ns : clock->offset_ns;
		if (rank->stamp.valid && offset_ns >= 0 && offset_ns < SAME_CLOCK_NS)
			offset_ns = 0; /* the coordinator's own host */
		/* The reference has no error against itself; others' errors are against it. */
		clock_fit_fix(clock, offset_ns, 0);
		assembly->clock.fixed = true;
		assembly->clock.reference_host = rank->host;
		assembly->clock.unix_offset_known = rank->stamp.valid;
		assembly->clock.unix_offset_ns = rank->stamp.unix_offset_ns - offset_ns;
	}
}

struct job_ns assembly_job_now(const struct assembly *assembly, struct job_ns received)
{
	const struct clock_fit *clock;

	if (!assembly->clock.fixed)
		return received;
	clock = &assembly->streams->hosts[assembly->clock.reference_host].clock;
	if (!clock->has_high)
		return received;
	int64_t best_ns = clock->has_low ? clock->low_ns + (clock->high_ns - clock->low_ns) / 2
					 : clock->high_ns;

	return (struct job_ns){received.value + clock->offset_ns - best_ns};
}

/* What one host's members say about one instance. */
struct host_ends {
	int64_t last_arrival_ns, first_departure_ns; /* job time, by the fit that the grid has */
	struct host_ns time;
	uint32_t last; /* member, by rank */
	bool present;
};

/* Members of one host that follow each other. */
struct host_run {
	uint32_t host, end; /* behind the last one */
};

/* The fits of a grid's times, by host, and the hosts of one instance. */
struct clock_fitting {
	struct rank_streams *streams;
	const struct step_grid *grid;
	struct clock_line *lines;
	struct host_ends *ends;
	struct host_run
		*runs; /* of the instance's members, and of those after it that have the same */
	size_t run_count;
	uint32_t *present; /* hosts */
	size_t present_count;
};

/* The host's time that the line maps to a job time: one step of refinement is exact to the ns. */
static struct host_ns host_time(const struct clock_line *line, int64_t job_time_ns)
{
	int64_t time_ns = job_time_ns - line->offset_ns;

	for (int i = 0; i < 2; i++)
		time_ns = job_time_ns - line->offset_ns -
			  (int64_t)(line->drift * (double)(time_ns - line->time_ns));
	return (struct host_ns){time_ns};
}

static void find_runs(struct clock_fitting *fitting, const struct grid_instance *instance)
{
	const struct grid_row *rows = fitting->grid->rows;
	const struct grid_member *members = &fitting->grid->member_parts[instance->first_member];

	fitting->run_count = 0;
	for (uint32_t m = 0; m < instance->member_count; m++) {
		uint32_t host = rows[members[m].row].host;

		if (m == 0 || fitting->runs[fitting->run_count - 1].host != host)
			fitting->runs[fitting->run_count++].host = host;
		fitting->runs[fitting->run_count - 1].end = m + 1;
	}
}

static void gather_ends(struct clock_fitting *fitting, const struct grid_instance *instance)
{
	const struct step_grid *grid = fitting->grid;
	const int64_t *arrival_ns = &grid->arrival_ns[instance->first_member];
	const int64_t *departure_ns = &grid->departure_ns[instance->first_member];
	uint32_t m = 0;

	fitting->present_count = 0;
	for (size_t run = 0; run < fitting->run_count; run++) {
		uint32_t h = fitting->runs[run].host, end = fitting->runs[run].end;
		struct host_ends *host = &fitting->ends[h];

		if (!host->present) {
			*host = (struct host_ends){INT64_MIN, INT64_MAX, .present = true};
			fitting->present[fitting->present_count++] = h;
		}
		int64_t last_ns = host->last_arrival_ns, first_ns = host->first_departure_ns;

		for (; m < end; m++) {
			last_ns = arrival_ns[m] > last_ns ? arrival_ns[m] : last_ns;
			first_ns = departure_ns[m] < first_ns ? departure_ns[m] : first_ns;
		}
		host->last = end - 1;
		host->last_arrival_ns = last_ns;
		host->first_departure_ns = first_ns;
	}
	for (size_t i = 0; i < fitting->present_count; i++) {
		struct host_ends *host = &fitting->ends[fitting->present[i]];

		host->time =
			host_time(&fitting->lines[fitting->present[i]], arrival_ns[host->last]);
		host->time.value += departure_ns[host->last] - arrival_ns[host->last];
		host->present = false; /* for the next instance */
	}
}

/* Whether a host's clock is tied to the reference. */
static bool tied(const struct host_entry *host)
{
	return host->clock.fixed || host->clock_level;
}

/* The hosts nearest to the reference in this instance, taken together. */
static struct host_ends nearest_ends(
	const struct clock_fitting *fitting, uint32_t *level, int64_t *error_ns)
{
	struct host_ends nearest = {INT64_MIN, INT64_MAX, .present = false};

	*level = UINT32_MAX;
	*error_ns = 0;
	for (size_t i = 0; i < fitting->present_count; i++) {
		const struct host_entry *host = &fitting->streams->hosts[fitting->present[i]];

		if (tied(host) && host->clock_level < *level)
			*level = host->clock_level;
	}
	for (size_t i = 0; i < fitting->present_count && *level != UINT32_MAX; i++) {
		const struct host_entry *host = &fitting->streams->hosts[fitting->present[i]];
		const struct host_ends *ends = &fitting->ends[fitting->present[i]];
		int64_t host_error_ns = clock_fit_error_ns(&host->clock);

		if (!tied(host) || host->clock_level != *level)
			continue;
		nearest.present = true;
		if (ends->last_arrival_ns > nearest.last_arrival_ns)
			nearest.last_arrival_ns = ends->last_arrival_ns;
		if (ends->first_departure_ns < nearest.first_departure_ns)
			nearest.first_departure_ns = ends->first_departure_ns;
		if (host_error_ns > *error_ns)
			*error_ns = host_error_ns;
	}
	return nearest;
}

/* No departure before any arrival, in either direction. Returns true for the first bounds. */
static bool bound_host(struct host_entry *host, const struct clock_line *line,
	const struct host_ends *own, const struct host_ends *nearest, uint32_t level,
	int64_t error_ns)
{
	/* By the line that the grid's times were made with: the host's own moves from bound to bound. */
	int64_t shown_ns = line->offset_ns +
			   (int64_t)(line->drift * (double)(own->time.value - line->time_ns));
	bool first = host->clock.bound_count == 0;

	if (host->clock.fixed || (host->clock_level && host->clock_level <= level))
		return false;
	host->clock_level = level + 1;
	clock_fit_meet(&host->clock, own->time,
		shown_ns + nearest->last_arrival_ns - own->first_departure_ns - error_ns,
		shown_ns + nearest->first_departure_ns - own->last_arrival_ns + error_ns,
		shown_ns + nearest->first_departure_ns - own->first_departure_ns);
	return first;
}

static bool fit_by_instance(struct clock_fitting *fitting, const struct grid_instance *instance)
{
	uint32_t level;
	int64_t error_ns;
	bool first = false;

	gather_ends(fitting, instance);
	struct host_ends nearest = nearest_ends(fitting, &level, &error_ns);
	for (size_t i = 0; nearest.present && i < fitting->present_count; i++) {
		uint32_t h = fitting->present[i];

		first |= bound_host(&fitting->streams->hosts[h], &fitting->lines[h],
			&fitting->ends[h], &nearest, level, error_ns);
	}
	return first;
}

bool assembly_fit_clocks(struct assembly *assembly, const struct step_grid *grid)
{
	struct rank_streams *streams = assembly->streams;
	size_t count = streams->host_count;
	struct clock_fitting fitting = {.streams = streams, .grid = grid};
	struct arena arena = {0};
	bool first = false;

	if (count < 2)
		return false;
	fitting.lines = arena_take(&arena, count, sizeof(*fitting.lines));
	fitting.ends = arena_take_zeroed(&arena, count, sizeof(*fitting.ends));
	fitting.present = arena_take(&arena, count, sizeof(*fitting.present));
	fitting.runs = arena_take(&arena, grid->row_count + 1, sizeof(*fitting.runs));
	for (size_t h = 0; h < count && !arena.failed; h++)
		fitting.lines[h] = clock_fit_line(&streams->hosts[h].clock);
	/* Without memory the clocks keep their fit; the next step tries again. */
	for (size_t o = 0; o < grid->order_count && !arena.failed; o++) {
		const struct grid_instance *instance = &grid->instances[grid->order[o]];

		if (!instance->again)
			find_runs(&fitting, instance);
		/* Hosts that wait for their devices leave when these are done, not together. */
		if (!instance->complete || instance->same_host ||
			instance->waits_for != WAITS_FOR_ALL ||
			(grid->member_parts[instance->first_member].flags & MEMBER_HOST_TIME))
			continue;
		first |= fit_by_instance(&fitting, instance);
	}
	arena_fini(&arena);
	return first;
}
