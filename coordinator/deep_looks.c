/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/deep_looks.h"

/*
 * A verdict that nothing was looked at for gets its looks at once, others between two looks at one rank
 * rest; doubled with each, until it was left alone for so long.
 */
#define REST_FORGOTTEN_NS INT64_C(600000000000)
#define REST_NS INT64_C(15000000000)
#define REST_NS_MAX INT64_C(3600000000000)
/* After a rank that could not be looked at; as long as its probe leaves it alone. */
#define REFUSED_REST_NS INT64_C(600000000000)
/* What may be spent on a rank: so much of its time on average, and so long in a row. */
#define SPENT_SHARE 0.02
#define SPENT_NS_MAX INT64_C(10000000000)
#define MINUTE_NS INT64_C(60000000000)
#define PLAN_NS INT64_C(250000000)

/* Long enough to even out single steps, short enough to cost little. */
enum { STEPS_MIN = 8, STEPS_MAX = 100, LIMIT_MS_MIN = 3000, LIMIT_MS_MAX = 60000 };
#define LOOK_NS INT64_C(1000000000)
/* From asking to the look: replies come four times a second, CUPTI needs up to a second. */
#define ANSWER_NS INT64_C(20000000000)

static const struct deep_rest *find_rest(const struct deep_looks *looks, uint32_t rank)
{
	for (size_t i = 0; i < looks->rest_count; i++) {
		if (looks->rests[i].rank == rank)
			return &looks->rests[i];
	}
	return NULL;
}

static struct deep_rest *get_rest(struct deep_looks *looks, uint32_t rank)
{
	struct deep_rest *rest = NULL, *oldest = &looks->rests[0];

	for (size_t i = 0; i < looks->rest_count; i++) {
		if (looks->rests[i].rank == rank)
			rest = &looks->rests[i];
		if (looks->rests[i].last_ns < oldest->last_ns)
			oldest = &looks->rests[i];
	}
	if (rest)
		return rest;
	rest = looks->rest_count < DEEP_LOOKS_REMEMBERED ? &looks->rests[looks->rest_count++]
							 : oldest;
	*rest = (struct deep_rest){.rank = rank, .last_ns = looks->now_ns};
	return rest;
}

static int64_t spent_ns(const struct deep_rest *rest, int64_t now_ns)
{
	int64_t back_ns = (int64_t)(SPENT_SHARE * (double)(now_ns - rest->last_ns));

	return rest->spent_ns > back_ns ? rest->spent_ns - back_ns : 0;
}

static bool is_asked(const struct deep_looks *looks, uint32_t rank)
{
	for (size_t i = 0; i < looks->request_count; i++) {
		if (looks->requests[i].directive.rank == rank)
			return true;
	}
	return false;
}

static bool may_look(void *context, uint32_t rank, bool first)
{
	const struct deep_looks *looks = context;
	const struct deep_rest *rest = find_rest(looks, rank);

	if (is_asked(looks, rank))
		return false;
	return !rest || (looks->now_ns >= rest->barred_ns &&
				(first ? spent_ns(rest, looks->now_ns) < SPENT_NS_MAX
				       : looks->now_ns >= rest->until_ns));
}

static void give_up_late(struct deep_looks *looks)
{
	size_t kept = 0;

	for (size_t i = 0; i < looks->request_count; i++) {
		if (looks->requests[i].until_ns > looks->now_ns)
			looks->requests[kept++] = looks->requests[i];
	}
	looks->request_count = kept;
}

/* Room for a suspect and its control, now and within the minute. */
static bool has_room(const struct deep_looks *looks)
{
	uint64_t oldest = looks->asked_count + 1;

	if (looks->request_count + 2 > DEEP_LOOKS_AT_ONCE)
		return false;
	return oldest < DEEP_LOOKS_A_MINUTE ||
	       looks->now_ns - looks->asked_ns[oldest % DEEP_LOOKS_A_MINUTE] >= MINUTE_NS;
}

static void ask(struct deep_looks *looks, const struct rank_table *ranks, uint32_t rank,
	uint32_t steps, uint32_t limit_ms, int64_t length_ns)
{
	struct deep_rest *rest = get_rest(looks, rank);
	int64_t rest_ns;

	if (looks->now_ns - rest->until_ns > REST_FORGOTTEN_NS)
		rest->look_count = 0;
	rest_ns = rest->look_count < 8 ? REST_NS << rest->look_count : REST_NS_MAX;

	rest->look_count++;
	rest->spent_ns = spent_ns(rest, looks->now_ns) + length_ns;
	rest->last_ns = looks->now_ns;
	rest->until_ns = looks->now_ns + rest_ns;
	looks->asked_ns[looks->asked_count++ % DEEP_LOOKS_A_MINUTE] = looks->now_ns;
	looks->last_request += looks->last_request == UINT32_MAX ? 2 : 1; /* never 0 */
	looks->requests[looks->request_count++] =
		(struct deep_request){.probe_id = ranks->ranks[rank].probe_id,
			.directive = {.kind = DIRECTIVE_DEEP,
				.rank = rank,
				.steps = steps,
				.limit_ms = limit_ms,
				.request = looks->last_request},
			.until_ns = looks->now_ns + (int64_t)limit_ms * 1000000 + ANSWER_NS};
}

static uint32_t clamp(int64_t value, uint32_t least, uint32_t most)
{
	return value < least ? least : value > most ? most : (uint32_t)value;
}

void deep_looks_plan(struct deep_looks *looks, const struct judge *judge,
	const struct rank_table *ranks, struct job_ns received)
{
	struct judge_look_want wants[DEEP_LOOKS_AT_ONCE / 2];
	size_t count;

	looks->now_ns = received.value;
	if (received.value - looks->planned_ns < PLAN_NS)
		return;
	looks->planned_ns = received.value;
	give_up_late(looks);
	if (!has_room(looks))
		return;
	count = judge_look_wants(judge, may_look, looks, wants, sizeof(wants) / sizeof(wants[0]));
	for (size_t i = 0; i < count && has_room(looks); i++) {
		const struct judge_look_want *want = &wants[i];
		int64_t step_ns = want->step_ns > 0 ? want->step_ns : 1;
		uint32_t steps = clamp(LOOK_NS / step_ns, STEPS_MIN, STEPS_MAX);
		/* Twice the time that the steps should take, and one step to begin in. */
		uint32_t limit_ms =
			clamp(2 * (steps + 1) * (step_ns / 1000000), LIMIT_MS_MIN, LIMIT_MS_MAX);

		if (want->suspect >= ranks->streams.rank_capacity ||
			want->control >= ranks->streams.rank_capacity)
			continue;
		/* Two wants may have found the same control. */
		if (!may_look(looks, want->suspect, want->first) ||
			!may_look(looks, want->control, true))
			continue;
		ask(looks, ranks, want->suspect, steps, limit_ms, steps * step_ns);
		ask(looks, ranks, want->control, steps, limit_ms, steps * step_ns);
	}
}

void deep_looks_fill(const struct deep_looks *looks, struct message_reply *reply)
{
	for (size_t i = 0; i < looks->request_count; i++) {
		if (looks->requests[i].probe_id == reply->probe_id &&
			reply->directive_count < WIRE_DIRECTIVES_MAX)
			reply->directives[reply->directive_count++] = looks->requests[i].directive;
	}
}

void deep_looks_answer(
	struct deep_looks *looks, const struct kernel_profile *profile, struct job_ns received)
{
	/* No steps, no kernels: the next look may see some. */
	if (profile->result != LOOK_DONE && profile->result != LOOK_NO_STEPS &&
		profile->result != LOOK_NO_KERNELS) {
		struct deep_rest *rest = get_rest(looks, profile->rank);

		rest->barred_ns = received.value + REFUSED_REST_NS;
	}
	for (size_t i = 0; i < looks->request_count; i++) {
		if (looks->requests[i].directive.request != profile->request ||
			looks->requests[i].directive.rank != profile->rank)
			continue;
		looks->requests[i] = looks->requests[--looks->request_count];
		return;
	}
}
