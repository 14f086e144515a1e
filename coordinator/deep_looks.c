/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/deep_looks.h"

#include "analysis/base/clamp.h"
#include "analysis/explain/stack_looks.h"

/*
 * A verdict that nothing was looked at for gets its looks at once, others between two looks at one rank
 * rest, and so do suspicions of all ranks together; doubled with each, until it was left alone for so long.
 */
#define REST_FORGOTTEN_NS INT64_C(600000000000)
#define REST_NS INT64_C(15000000000)
#define REST_NS_MAX INT64_C(3600000000000)
/* After a look that saw too little; so many times, then it rests as usual. */
#define AGAIN_REST_NS INT64_C(5000000000)
enum { AGAIN_MAX = 2 };
/* After a rank that could not be looked at; as long as its probe leaves it alone. */
#define REFUSED_REST_NS INT64_C(600000000000)
/* What may be spent on a rank: so much of its time on average, and so long in a row. */
#define SPENT_SHARE 0.02
#define SPENT_NS_MAX INT64_C(10000000000)
/* A look at stacks is from outside, and its sampler has limits of its own. */
#define STACKS_SPENT_NS_MAX INT64_C(60000000000)
#define MINUTE_NS INT64_C(60000000000)
#define PLAN_NS INT64_C(250000000)

/* Long enough to even out single steps, short enough to cost little. */
enum { STEPS_MIN = 8, STEPS_MAX = 100, LIMIT_MS_MIN = 3000, LIMIT_MS_MAX = 60000 };
#define LOOK_NS INT64_C(1000000000)
/* Stacks are seen 50 times a second at most; of a fault that comes back, some of its periods are. */
#define STACKS_LOOK_NS INT64_C(4000000000)
enum { STACKS_STEPS_MAX = 10000, STACKS_PERIODS = 3, HANG_LIMIT_MS = 5000 };
/* From asking to the look: replies come four times a second, CUPTI needs up to a second. */
#define ANSWER_NS INT64_C(20000000000)

static const struct deep_rest *find_rest(
	const struct deep_looks *looks, enum judge_look_kind kind, uint32_t rank)
{
	for (size_t i = 0; i < looks->rest_count; i++) {
		if (looks->rests[i].rank == rank && looks->rests[i].kind == kind)
			return &looks->rests[i];
	}
	return NULL;
}

static struct deep_rest *get_rest(
	struct deep_looks *looks, enum judge_look_kind kind, uint32_t rank)
{
	struct deep_rest *rest = NULL, *oldest = &looks->rests[0];

	for (size_t i = 0; i < looks->rest_count; i++) {
		if (looks->rests[i].rank == rank && looks->rests[i].kind == kind)
			rest = &looks->rests[i];
		if (looks->rests[i].last_ns < oldest->last_ns)
			oldest = &looks->rests[i];
	}
	if (rest)
		return rest;
	rest = looks->rest_count < DEEP_LOOKS_REMEMBERED ? &looks->rests[looks->rest_count++]
							 : oldest;
	*rest = (struct deep_rest){.rank = rank, .kind = kind, .last_ns = looks->now_ns};
	return rest;
}

static int64_t spent_ns(const struct deep_rest *rest, int64_t now_ns)
{
	int64_t back_ns = (int64_t)(SPENT_SHARE * (double)(now_ns - rest->last_ns));

	return rest->spent_ns > back_ns ? rest->spent_ns - back_ns : 0;
}

static uint8_t directive_of(enum judge_look_kind kind)
{
	return kind == JUDGE_LOOK_KERNELS ? DIRECTIVE_DEEP : DIRECTIVE_STACKS;
}

static bool is_asked(const struct deep_looks *looks, enum judge_look_kind kind, uint32_t rank)
{
	for (size_t i = 0; i < looks->request_count; i++) {
		if (looks->requests[i].directive.rank == rank &&
			looks->requests[i].directive.kind == directive_of(kind))
			return true;
	}
	return false;
}

static bool may_look(void *context, enum judge_look_kind kind, uint32_t rank, bool first)
{
	const struct deep_looks *looks = context;
	const struct deep_rest *rest = find_rest(looks, kind, rank);
	int64_t spent_max_ns = kind == JUDGE_LOOK_KERNELS ? SPENT_NS_MAX : STACKS_SPENT_NS_MAX;

	if (is_asked(looks, kind, rank))
		return false;
	return !rest || (looks->now_ns >= rest->barred_ns &&
				(first ? spent_ns(rest, looks->now_ns) < spent_max_ns
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
	size_t under_way = 0;

	for (size_t i = 0; i < looks->request_count; i++)
		under_way += !looks->requests[i].at_hang;
	if (under_way + 2 > DEEP_LOOKS_AT_ONCE)
		return false;
	return oldest < DEEP_LOOKS_A_MINUTE ||
	       looks->now_ns - looks->asked_ns[oldest % DEEP_LOOKS_A_MINUTE] >= MINUTE_NS;
}

static void put_request(struct deep_looks *looks, const struct rank_table *ranks,
	const struct message_directive *directive, uint32_t suspect, bool at_hang)
{
	struct deep_request *request = &looks->requests[looks->request_count++];

	looks->last_request += looks->last_request == UINT32_MAX ? 2 : 1; /* never 0 */
	*request = (struct deep_request){.probe_id = ranks->ranks[directive->rank].probe_id,
		.directive = *directive,
		.suspect = suspect,
		.at_hang = at_hang,
		.until_ns = looks->now_ns + (int64_t)directive->limit_ms * 1000000 + ANSWER_NS};
	request->directive.request = looks->last_request;
}

/* How long a look may be: so many steps, and for how long they are waited for. */
struct look_length {
	enum judge_look_kind kind;
	uint32_t steps, limit_ms;
	int64_t length_ns;
};

/* rank: or JUDGE_LOOK_EARLY, for looks that no verdict has asked for. */
static void note_asked(struct deep_looks *looks, uint32_t rank, const struct look_length *length)
{
	struct deep_rest *rest = get_rest(looks, length->kind, rank);
	int64_t rest_ns;

	if (looks->now_ns - rest->until_ns > REST_FORGOTTEN_NS)
		rest->look_count = rest->again_count = 0;
	rest_ns = rest->look_count < 8 ? REST_NS << rest->look_count : REST_NS_MAX;

	rest->look_count++;
	rest->spent_ns = spent_ns(rest, looks->now_ns) + length->length_ns;
	rest->last_ns = looks->now_ns;
	rest->until_ns = looks->now_ns + rest_ns;
}

static void ask(struct deep_looks *looks, const struct rank_table *ranks, uint32_t rank,
	uint32_t suspect, const struct look_length *length)
{
	note_asked(looks, rank, length);
	looks->asked_ns[looks->asked_count++ % DEEP_LOOKS_A_MINUTE] = looks->now_ns;
	put_request(looks, ranks,
		&(struct message_directive){.kind = directive_of(length->kind),
			.rank = rank,
			.steps = length->steps,
			.limit_ms = length->limit_ms},
		suspect, false);
}

/* Twice the time that the steps should take, and one step to begin in. */
static struct look_length length_of(enum judge_look_kind kind, const struct judge_look_want *want)
{
	int64_t step_ns = want->step_ns > 0 ? want->step_ns : 1, wanted_ns = LOOK_NS;
	uint32_t most = STEPS_MAX, least = STEPS_MIN;
	struct look_length length = {.kind = kind};

	if (kind == JUDGE_LOOK_STACKS) {
		wanted_ns = STACKS_LOOK_NS;
		most = STACKS_STEPS_MAX;
		least = (uint32_t)clamp(
			(int64_t)want->period_steps * STACKS_PERIODS, STEPS_MIN, most);
	}
	length.steps = (uint32_t)clamp(wanted_ns / step_ns, least, most);
	length.limit_ms = (uint32_t)clamp(2 * ((int64_t)length.steps + 1) * (step_ns / 1000000),
		kind == JUDGE_LOOK_STACKS ? 2 * LIMIT_MS_MIN : LIMIT_MS_MIN, LIMIT_MS_MAX);
	length.length_ns = length.steps * step_ns;
	if (length.length_ns > length.limit_ms * INT64_C(1000000))
		length.length_ns = length.limit_ms * INT64_C(1000000);
	return length;
}

static void plan_kind(struct deep_looks *looks, const struct judge *judge,
	const struct rank_table *ranks, enum judge_look_kind kind)
{
	struct judge_look_want wants[DEEP_LOOKS_AT_ONCE / 2];
	size_t count;

	if (!has_room(looks))
		return;
	count = judge_look_wants(
		judge, kind, may_look, looks, wants, sizeof(wants) / sizeof(wants[0]));
	for (size_t i = 0; i < count && has_room(looks); i++) {
		const struct judge_look_want *want = &wants[i];
		struct look_length length = length_of(kind, want);

		if (want->suspect >= ranks->streams.rank_capacity ||
			want->control >= ranks->streams.rank_capacity)
			continue;
		/* Two wants may have found the same control. */
		if (!may_look(looks, kind, want->suspect, want->first) ||
			!may_look(looks, kind, want->control, true))
			continue;
		ask(looks, ranks, want->suspect, want->suspect, &length);
		ask(looks, ranks, want->control, want->suspect, &length);
		if (want->early)
			note_asked(looks, JUDGE_LOOK_EARLY, &length);
	}
}

/* Who hangs has no time to lose: at once, once each. */
static void plan_hang(
	struct deep_looks *looks, const struct judge *judge, const struct rank_table *ranks)
{
	uint32_t wanted[DEEP_LOOKS_AT_HANG];
	size_t count = judge_hang_look_wants(judge, may_look, looks, wanted, DEEP_LOOKS_AT_HANG);

	for (size_t i = 0; i < looks->request_count && count; i++)
		count = looks->requests[i].at_hang ? 0 : count;
	for (size_t i = 0; i < count; i++) {
		if (wanted[i] < ranks->streams.rank_capacity)
			put_request(looks, ranks,
				&(struct message_directive){.kind = DIRECTIVE_STACKS,
					.rank = wanted[i],
					.limit_ms = HANG_LIMIT_MS},
				wanted[i], true);
	}
}

void deep_looks_plan(struct deep_looks *looks, const struct judge *judge,
	const struct rank_table *ranks, struct job_ns received)
{
	looks->now_ns = received.value;
	if (received.value - looks->planned_ns < PLAN_NS)
		return;
	looks->planned_ns = received.value;
	give_up_late(looks);
	plan_hang(looks, judge, ranks);
	plan_kind(looks, judge, ranks, JUDGE_LOOK_STACKS);
	plan_kind(looks, judge, ranks, JUDGE_LOOK_KERNELS);
}

void deep_looks_fill(const struct deep_looks *looks, struct message_reply *reply)
{
	for (size_t i = 0; i < looks->request_count; i++) {
		if (looks->requests[i].probe_id == reply->probe_id &&
			reply->directive_count < WIRE_DIRECTIVES_MAX)
			reply->directives[reply->directive_count++] = looks->requests[i].directive;
	}
}

/* No steps, no kernels: the next look may see some. */
struct deep_answer deep_answer_of_kernels(const struct kernel_profile *profile)
{
	return (struct deep_answer){.kind = JUDGE_LOOK_KERNELS,
		.rank = profile->rank,
		.request = profile->request,
		.refused = profile->result != LOOK_DONE && profile->result != LOOK_NO_STEPS &&
			   profile->result != LOOK_NO_KERNELS};
}

struct deep_answer deep_answer_of_stacks(const struct stack_profile *profile)
{
	return (struct deep_answer){.kind = JUDGE_LOOK_STACKS,
		.rank = profile->rank,
		.request = profile->request,
		.refused = profile->result == STACK_RESULT_NO_RIGHT ||
			   profile->result == STACK_RESULT_OVER_COST ||
			   profile->result == STACK_RESULT_FAILED,
		.starved = stack_look_is_starved(profile)};
}

/* Once for both looks of a pair. */
static void look_again(struct deep_looks *looks, enum judge_look_kind kind, uint32_t suspect)
{
	struct deep_rest *rest = get_rest(looks, kind, suspect);

	if (rest->again_count == AGAIN_MAX || rest->until_ns <= looks->now_ns + AGAIN_REST_NS)
		return;
	rest->again_count++;
	rest->until_ns = looks->now_ns + AGAIN_REST_NS;
}

void deep_looks_answer(
	struct deep_looks *looks, const struct deep_answer *answer, struct job_ns received)
{
	looks->now_ns = received.value;
	if (answer->refused)
		get_rest(looks, answer->kind, answer->rank)->barred_ns =
			received.value + REFUSED_REST_NS;
	for (size_t i = 0; i < looks->request_count; i++) {
		if (looks->requests[i].directive.request != answer->request ||
			looks->requests[i].directive.rank != answer->rank)
			continue;
		if (answer->starved && !looks->requests[i].at_hang)
			look_again(looks, answer->kind, looks->requests[i].suspect);
		looks->requests[i] = looks->requests[--looks->request_count];
		return;
	}
}
