/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/explain/stack_looks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/explain/measures.h"
#include "analysis/policy.h"

void stack_looks_destroy(struct stack_looks *looks)
{
	if (!looks)
		return;
	for (size_t i = 0; i < looks->count; i++)
		stack_profile_destroy(looks->kept[i].profile);
	free(looks->compared);
	free(looks);
}

bool stack_look_is(const struct stack_profile *profile, enum stack_look_kind kind)
{
	switch (kind) {
	case STACK_LOOK_STEPS: /* whose rank ended: what was seen until then */
		return (profile->result == STACK_RESULT_DONE ||
			       profile->result == STACK_RESULT_ENDED) &&
		       profile->steps > 0;
	case STACK_LOOK_SEEN:
		return profile->sum_count > 0;
	case STACK_LOOK_ANY:
		break;
	}
	return true;
}

bool stack_look_is_starved(const struct stack_profile *profile)
{
	return stack_look_is(profile, STACK_LOOK_STEPS) && profile->looks < STACK_SAMPLES_MIN;
}

static void forget_compared(struct stack_looks *looks, const struct stack_profile *profile)
{
	for (size_t i = 0; looks->compared && i < STACK_LOOKS_COMPARED_MAX; i++) {
		if (looks->compared[i].own == profile || looks->compared[i].control == profile)
			looks->compared[i].own = NULL;
	}
}

static void forget(struct stack_looks *looks, size_t index)
{
	forget_compared(looks, looks->kept[index].profile);
	looks->bytes -= stack_profile_bytes(looks->kept[index].profile);
	stack_profile_destroy(looks->kept[index].profile);
	looks->count--;
	memmove(&looks->kept[index], &looks->kept[index + 1],
		(looks->count - index) * sizeof(looks->kept[0]));
}

/* Of a rank that has as many as it may: one that came to nothing, or its oldest. */
static void make_room_of_rank(struct stack_looks *looks, uint32_t rank)
{
	size_t count = 0, oldest = 0, empty = SIZE_MAX;

	for (size_t i = looks->count; i-- > 0;) {
		if (looks->kept[i].profile->rank != rank)
			continue;
		count++;
		oldest = i;
		if (!stack_look_is(looks->kept[i].profile, STACK_LOOK_SEEN))
			empty = i;
	}
	if (count >= STACK_LOOKS_OF_RANK_MAX)
		forget(looks, empty != SIZE_MAX ? empty : oldest);
}

int stack_looks_keep(struct stack_looks *looks, const struct stack_profile *profile,
	int64_t start_ns, int64_t stop_ns)
{
	struct stack_profile *copy = stack_profile_copy(profile);

	if (!copy)
		return -ENOMEM;
	make_room_of_rank(looks, profile->rank);
	while (looks->count == STACK_LOOKS_KEPT_MAX ||
		(looks->count && looks->bytes + stack_profile_bytes(copy) > STACK_LOOKS_BYTES_MAX))
		forget(looks, 0);
	looks->kept[looks->count++] = (struct kept_stacks){start_ns, stop_ns, copy};
	looks->bytes += stack_profile_bytes(copy);
	return 0;
}

static bool is_of_host(bool on_device, enum verdict_class verdict_class)
{
	return verdict_class == VERDICT_HOST_SLOW || verdict_class == VERDICT_UNKNOWN ||
	       (verdict_class == VERDICT_COMPUTE_SLOW && !on_device);
}

bool stacks_can_tell(bool on_device, enum verdict_class verdict_class, enum cause cause)
{
	return is_of_host(on_device, verdict_class) &&
	       (cause == CAUSE_UNKNOWN || cause == CAUSE_LAUNCH_GAPS ||
		       cause == CAUSE_INPUT_PIPELINE || cause == CAUSE_BLOCK_IO);
}

bool stacks_can_add(const struct verdict *verdict)
{
	enum verdict_class class = (enum verdict_class)verdict->verdict_class;
	enum cause cause = (enum cause)verdict->cause;

	if (stacks_can_tell(verdict->on_device, class, cause))
		return true;
	return is_of_host(verdict->on_device, class) &&
	       !(cause_rule(cause)->sources & EVIDENCE_STACKS) &&
	       verdict->sure.share_explained <= 1 - LOOK_SHARE_MIN;
}

bool stack_look_is_better(const struct kept_stacks *look, const struct kept_stacks *best)
{
	return !best || look->profile->looks > best->profile->looks ||
	       (look->profile->looks == best->profile->looks && look->stop_ns > best->stop_ns);
}

const struct kept_stacks *stack_looks_best(const struct stack_looks *looks, uint32_t rank,
	int64_t from_ns, int64_t until_ns, enum stack_look_kind kind)
{
	const struct kept_stacks *best = NULL;

	for (size_t i = 0; looks && i < looks->count; i++) {
		const struct kept_stacks *look = &looks->kept[i];
		int64_t middle_ns = look->start_ns + (look->stop_ns - look->start_ns) / 2;

		if (look->profile->rank == rank && middle_ns >= from_ns && middle_ns <= until_ns &&
			stack_look_is(look->profile, kind) && stack_look_is_better(look, best))
			best = look;
	}
	return best;
}

const struct stack_compared *stack_looks_compare(struct stack_looks *looks,
	const struct kept_stacks *own, const struct kept_stacks *control, uint32_t every_steps)
{
	struct stack_compared *compared;

	if (!looks->compared)
		looks->compared = calloc(STACK_LOOKS_COMPARED_MAX, sizeof(*looks->compared));
	for (size_t i = 0; looks->compared && i < STACK_LOOKS_COMPARED_MAX; i++) {
		compared = &looks->compared[i];
		if (compared->own == own->profile && compared->control == control->profile &&
			compared->every_steps == every_steps)
			return compared;
	}
	if (!looks->compared)
		return NULL;
	compared = &looks->compared[looks->compared_count++ % STACK_LOOKS_COMPARED_MAX];
	*compared = (struct stack_compared){
		.own = own->profile, .control = control->profile, .every_steps = every_steps};
	compared->result = stack_profile_compare(
		own->profile, control->profile, every_steps, &compared->difference, compared->why);
	if (compared->result != -ENOMEM)
		return compared;
	compared->own = NULL; /* next time there may be some */
	return NULL;
}

const struct kept_stacks *stack_looks_control(const struct explain_context *context,
	const struct episode *episode, const struct kept_stacks *own)
{
	const struct kept_stacks *nearest = NULL;

	for (size_t i = 0; i < context->stacks->count; i++) {
		const struct kept_stacks *look = &context->stacks->kept[i];
		int64_t apart_ns = llabs(look->start_ns - own->start_ns);

		if (!stack_look_is(look->profile, STACK_LOOK_STEPS) || apart_ns > LOOK_PAIR_NS ||
			!explain_is_control(
				context, episode, own->profile->rank, look->profile->rank))
			continue;
		if (!nearest || apart_ns < llabs(nearest->start_ns - own->start_ns))
			nearest = look;
	}
	return nearest;
}
