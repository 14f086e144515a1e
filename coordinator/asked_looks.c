/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/asked_looks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS_NS INT64_C(1000000)
/* Beside the look itself: replies come four times a second, samplers have 5 s to begin and to end. */
#define STACKS_ANSWER_NS INT64_C(15000000000)
/* Launches may have to be counted before, for 30 s; then CUPTI has 10. */
#define KERNELS_ANSWER_NS INT64_C(50000000000)
/* An answer may be lost, and asked for again. */
#define ANSWERED_NS INT64_C(60000000000)
/* A probe that is there sends each second. */
#define PROBE_SILENT_NS INT64_C(10000000000)
/* A look begins with opening the process and finding names. */
#define LOOK_LEAST_NS INT64_C(1000000000)

static void free_look(struct asked_look *look)
{
	stack_profile_destroy(look->stacks);
	free(look->kernels);
}

void asked_looks_fini(struct asked_looks *looks)
{
	for (size_t i = 0; i < looks->count; i++)
		free_look(&looks->list[i]);
	stack_looks_destroy(looks->stacks);
	looks_destroy(looks->kernels);
}

__attribute__((format(printf, 2, 3))) static void refuse(
	struct message_answer *answer, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(answer->why, sizeof(answer->why), format, arguments);
	va_end(arguments);
	answer->state = ANSWER_REFUSED;
}

static void wait_for(struct message_answer *answer, const char *what)
{
	snprintf(answer->why, sizeof(answer->why), "%s", what);
	answer->state = ANSWER_WAIT;
}

static void give_up(struct asked_look *look, int64_t now_ns)
{
	snprintf(look->why, sizeof(look->why),
		"the probe of rank %" PRIu32 " did not answer in %" PRIu32
		" s: it stands still, or is of a version that makes no such looks",
		look->directive.rank,
		(uint32_t)((look->directive.limit_ms * MS_NS +
				   (look->directive.kind == DIRECTIVE_DEEP ? KERNELS_ANSWER_NS
									   : STACKS_ANSWER_NS)) /
			   1000000000));
	look->state = ANSWER_REFUSED;
	look->until_ns = now_ns + ANSWERED_NS;
}

static void look_at_time(struct asked_looks *looks, int64_t now_ns)
{
	size_t kept = 0;

	for (size_t i = 0; i < looks->count; i++) {
		struct asked_look *look = &looks->list[i];

		if (look->until_ns > now_ns) {
			looks->list[kept++] = *look;
		} else if (look->state == ANSWER_WAIT) {
			give_up(look, now_ns);
			looks->list[kept++] = *look;
		} else {
			free_look(look);
		}
	}
	looks->count = kept;
}

static struct asked_rank *rank_of(struct asked_looks *looks, uint32_t rank)
{
	struct asked_rank *oldest = &looks->ranks[0];

	for (size_t i = 0; i < looks->rank_count; i++) {
		if (looks->ranks[i].rank == rank)
			return &looks->ranks[i];
		if (looks->ranks[i].last_ns < oldest->last_ns)
			oldest = &looks->ranks[i];
	}
	if (looks->rank_count < ASKED_RANKS_MAX)
		oldest = &looks->ranks[looks->rank_count++];
	*oldest = (struct asked_rank){.rank = rank};
	return oldest;
}

static bool spend_kernels(struct asked_rank *rank, int64_t now_ns, struct message_answer *answer)
{
	if (rank->kernel_count == ASKED_KERNELS_OF_RANK_MAX) {
		refuse(answer,
			"kernels of rank %" PRIu32
			" were looked at %d times by hand: more would disturb the job",
			rank->rank, ASKED_KERNELS_OF_RANK_MAX);
		return false;
	}
	rank->kernel_count++;
	if (!rank->last_ns)
		rank->last_ns = now_ns;
	return true;
}

static bool spend_stacks(
	struct asked_rank *rank, uint32_t limit_ms, int64_t now_ns, struct message_answer *answer)
{
	int64_t back_ns = (int64_t)(ASKED_SHARE * (double)(now_ns - rank->last_ns));
	int64_t spent_ns = rank->spent_ns > back_ns ? rank->spent_ns - back_ns : 0;
	int64_t length_ns = LOOK_LEAST_NS + limit_ms * MS_NS;

	if (spent_ns + length_ns > ASKED_SPENT_NS_MAX) {
		refuse(answer,
			"rank %" PRIu32 " was looked at for %" PRId64
			" s lately: ask for a shorter look, or again in %.0f s",
			rank->rank, spent_ns / 1000000000,
			(double)(spent_ns + length_ns - ASKED_SPENT_NS_MAX) / ASKED_SHARE / 1e9);
		return false;
	}
	rank->spent_ns = spent_ns + length_ns;
	rank->last_ns = now_ns;
	return true;
}

/* Takes what the look may cost from the rank's part. False: it has none left; the answer says so. */
static bool spend(struct asked_looks *looks, const struct message_directive *directive,
	int64_t now_ns, struct message_answer *answer)
{
	struct asked_rank *rank = rank_of(looks, directive->rank);

	return directive->kind == DIRECTIVE_DEEP
		       ? spend_kernels(rank, now_ns, answer)
		       : spend_stacks(rank, directive->limit_ms, now_ns, answer);
}

/* The rank, where its probe can be asked. Else NULL: the answer says why not. */
static const struct rank_entry *find_rank(uint32_t number, const struct rank_table *ranks,
	const struct probe_table *probes, int64_t now_ns, struct message_answer *answer)
{
	const struct rank_streams *streams = &ranks->streams;
	const struct rank_entry *rank;
	const struct probe_entry *probe;

	if (number >= streams->end || !streams->ranks[number].known ||
		!ranks->ranks[number].owned) {
		refuse(answer, "there is no rank %" PRIu32 ": %" PRIu32 " ranks are seen", number,
			streams->known_count);
		return NULL;
	}
	rank = &ranks->ranks[number];
	snprintf(answer->host, sizeof(answer->host), "%s", rank->host_name);
	answer->pid = rank->pid;
	probe = probe_table_find(probes, rank->probe_id);
	if (streams->ranks[number].exited)
		refuse(answer, "rank %" PRIu32 " has ended, with exit code %" PRId32, number,
			rank->exit_code);
	else if (!probe || probe->final)
		refuse(answer, "the probe of rank %" PRIu32 " has ended", number);
	else if (now_ns - probe->last_received.value >= PROBE_SILENT_NS)
		refuse(answer,
			"the probe of rank %" PRIu32 " does not answer: it was last heard %" PRId64
			" s ago",
			number, (now_ns - probe->last_received.value) / 1000000000);
	else
		return rank;
	return NULL;
}

/* A place for a new one: in that of the one that was answered longest ago, if need be. NULL: it has to wait. */
static struct asked_look *find_place(struct asked_looks *looks, uint32_t rank, int64_t now_ns)
{
	struct asked_look *place = NULL;
	size_t under_way = 0;

	for (size_t i = 0; i < looks->count; i++) {
		struct asked_look *look = &looks->list[i];

		if (look->state == ANSWER_WAIT && look->directive.rank == rank)
			return NULL;
		under_way += look->state == ANSWER_WAIT;
		if (look->state != ANSWER_WAIT && (!place || look->until_ns < place->until_ns))
			place = look;
	}
	if (under_way == ASKED_AT_ONCE ||
		(looks->asked_ns && now_ns - looks->asked_ns < ASKED_PAUSE_MS * MS_NS))
		return NULL;
	return looks->count < ASKED_KEPT ? &looks->list[looks->count] : place;
}

static uint32_t at_most(uint32_t number, uint32_t most)
{
	return number < most ? number : most;
}

/* Begins a look. NULL: not, or not yet; the answer says why. */
static struct asked_look *begin(struct asked_looks *looks, const struct message_question *question,
	const struct rank_table *ranks, const struct probe_table *probes, int64_t now_ns,
	struct message_answer *answer)
{
	bool deep = question->kind == DIRECTIVE_DEEP;
	struct message_directive directive = {.kind = question->kind,
		.rank = question->rank,
		.steps = question->steps,
		.limit_ms = at_most(question->limit_ms, ASKED_LIMIT_MS_MAX)};
	const struct rank_entry *rank;
	struct asked_look *look;

	if (!deep && question->kind != DIRECTIVE_STACKS) {
		refuse(answer, "this version does not know what was asked for");
		return NULL;
	}
	if (deep)
		directive.steps = at_most(question->steps, ASKED_KERNEL_STEPS_MAX);
	rank = find_rank(question->rank, ranks, probes, now_ns, answer);
	if (!rank)
		return NULL;
	look = find_place(looks, question->rank, now_ns);
	if (!look) {
		wait_for(answer, "other looks come first");
		return NULL;
	}
	if (!spend(looks, &directive, now_ns, answer))
		return NULL;
	if (look == &looks->list[looks->count])
		looks->count++;
	else
		free_look(look);
	/* By the time: a coordinator that is started again uses no number twice. */
	directive.request = ASKED_REQUEST_FIRST | (uint32_t)(now_ns / MS_NS);
	looks->asked_ns = now_ns;
	*look = (struct asked_look){.asker_id = question->asker_id,
		.probe_id = rank->probe_id,
		.directive = directive,
		.state = ANSWER_WAIT,
		.until_ns = now_ns + directive.limit_ms * MS_NS +
			    (deep ? KERNELS_ANSWER_NS : STACKS_ANSWER_NS)};
	return look;
}

void asked_looks_question(struct asked_looks *looks, const struct message_question *question,
	const struct rank_table *ranks, const struct probe_table *probes, struct job_ns now,
	struct message_answer *answer)
{
	struct asked_look *look = NULL;

	look_at_time(looks, now.value);
	for (size_t i = 0; i < looks->count && !look; i++) {
		if (looks->list[i].asker_id == question->asker_id)
			look = &looks->list[i];
	}
	if (!look)
		look = begin(looks, question, ranks, probes, now.value, answer);
	if (!look)
		return;
	answer->state = look->state;
	memcpy(answer->why, look->why, sizeof(answer->why));
	answer->stacks = look->stacks;
	answer->kernels = look->kernels;
	if (look->directive.rank < ranks->streams.end) {
		const struct rank_entry *rank = &ranks->ranks[look->directive.rank];

		snprintf(answer->host, sizeof(answer->host), "%s", rank->host_name);
		answer->pid = rank->pid;
	}
}

void asked_looks_fill(const struct asked_looks *looks, struct message_reply *reply)
{
	for (size_t i = 0; i < looks->count; i++) {
		const struct asked_look *look = &looks->list[i];

		if (look->state == ANSWER_WAIT && look->probe_id == reply->probe_id &&
			reply->directive_count < WIRE_DIRECTIVES_MAX)
			reply->directives[reply->directive_count++] = look->directive;
	}
}

/* The look that a profile answers, which is taken as answered; NULL: nobody waits for it. */
static struct asked_look *answered(
	struct asked_looks *looks, uint32_t request, uint32_t rank, uint8_t kind, struct job_ns now)
{
	for (size_t i = 0; i < looks->count; i++) {
		struct asked_look *look = &looks->list[i];

		if (look->state != ANSWER_WAIT || look->directive.request != request ||
			look->directive.rank != rank || look->directive.kind != kind)
			continue;
		look->state = ANSWER_LOOK;
		look->until_ns = now.value + ANSWERED_NS;
		return look;
	}
	return NULL;
}

int asked_looks_take_stacks(struct asked_looks *looks, const struct stack_profile *profile,
	struct job_ns start, struct job_ns stop, struct job_ns now)
{
	struct asked_look *look =
		answered(looks, profile->request, profile->rank, DIRECTIVE_STACKS, now);

	if (look)
		look->stacks = stack_profile_copy(profile);
	if (!looks->stacks)
		looks->stacks = calloc(1, sizeof(*looks->stacks));
	if (!looks->stacks || (look && !look->stacks))
		return -ENOMEM;
	return stack_looks_keep(looks->stacks, profile, start.value, stop.value);
}

int asked_looks_take_kernels(struct asked_looks *looks, const struct kernel_profile *profile,
	struct job_ns start, struct job_ns stop, struct job_ns now)
{
	struct asked_look *look =
		answered(looks, profile->request, profile->rank, DIRECTIVE_DEEP, now);
	const struct kept_look kept = {start.value, stop.value, *profile};

	if (look)
		look->kernels = malloc(sizeof(*look->kernels));
	if (!looks->kernels)
		looks->kernels = calloc(1, sizeof(*looks->kernels));
	if (!looks->kernels || (look && !look->kernels))
		return -ENOMEM;
	if (look)
		*look->kernels = *profile;
	return looks_keep(looks->kernels, &kept);
}
