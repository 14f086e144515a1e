/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/stacks_text.h"

#include <inttypes.h>

#include "coordinator/report/stacks.h"

enum { TEXT_LENGTH = 1024, THREADS_SHOWN = 2 };

static void write_thread(const struct stack_profile *profile, const struct stacks_caller *caller,
	const char *part, FILE *out)
{
	uint32_t nodes[STACKS_INNERMOST_MAX];
	size_t count = stacks_innermost(profile, caller->node, nodes);
	char text[TEXT_LENGTH];
	struct line line;

	line_init(&line, text, sizeof(text));
	line_add(&line, "     stacks:  rank %" PRIu32 " (%s), thread ", profile->rank, part);
	line_add_outside(&line, profile->threads[caller->thread].name);
	line_add(&line, ", %s:", stacks_state_name(caller->state));
	fprintf(out, "%s\n", text);
	for (size_t i = 0; i < count; i++) {
		line_init(&line, text, sizeof(text));
		stacks_add_node(&line, profile, nodes[i]);
		fprintf(out, "                %s\n", text);
	}
}

static void write_hang(const struct report_model *model, const struct verdict *verdict,
	const struct stacks_pair *pair, FILE *out)
{
	const struct kept_stacks *looks[STACKS_HANG_SHOWN];
	size_t count = stacks_of_hang(model, verdict, looks);

	for (size_t i = 0; i < count; i++) {
		struct stacks_caller callers[THREADS_SHOWN];
		size_t threads = stacks_callers(looks[i]->profile, callers, THREADS_SHOWN);
		const char *part = stacks_part_in(verdict, pair, looks[i]);

		for (size_t t = 0; t < threads; t++)
			write_thread(looks[i]->profile, &callers[t], part, out);
	}
}

static void write_pair(const struct verdict *verdict, const struct stacks_pair *pair, FILE *out)
{
	const struct stack_profile *own = pair->own->profile;

	fprintf(out, "     stacks:  rank %" PRIu32 " in %" PRIu32 " step%s", own->rank, own->steps,
		own->steps == 1 ? "" : "s");
	if (pair->control)
		fprintf(out, ", beside it rank %" PRIu32, pair->control->profile->rank);
	fprintf(out, "; --format flame --incident %" PRIu32 " shows them\n", verdict->id);
}

/* The newest look that saw nothing. */
static void write_refused(
	const struct report_model *model, const struct verdict *verdict, FILE *out)
{
	const struct stacks_pair none = {0};

	for (size_t i = model->stacks->count; i-- > 0;) {
		const struct kept_stacks *look = &model->stacks->kept[i];
		char text[TEXT_LENGTH];
		struct line line;

		if (!stacks_part_in(verdict, &none, look) ||
			stack_look_is(look->profile, STACK_LOOK_SEEN))
			continue;
		line_init(&line, text, sizeof(text));
		line_add(&line, "     stacks:  none of rank %" PRIu32 ": ", look->profile->rank);
		stacks_add_why(&line, look->profile);
		fprintf(out, "%s\n", text);
		return;
	}
}

void stacks_text_write(const struct report_model *model, const struct verdict *verdict, FILE *out)
{
	struct stacks_pair pair = {0};

	if (!model->stacks)
		return;
	if (verdict->verdict_class == VERDICT_HANG) {
		(void)stacks_of_verdict(model, verdict, &pair);
		write_hang(model, verdict, &pair, out);
	} else if (stacks_of_verdict(model, verdict, &pair)) {
		write_pair(verdict, &pair, out);
	}
	if (!pair.own)
		write_refused(model, verdict, out);
}
