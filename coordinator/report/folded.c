/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/folded.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/report/flame_tree.h"
#include "coordinator/report/flush.h"

enum { DEPTH_MAX = 2 * STACK_PROFILE_DEPTH_MAX };

/* What sets frames apart is in no name, and none ends as if a count followed it. */
static void write_frame(const char *text, FILE *out)
{
	const char *last = strrchr(text, ' ');
	bool like_count = last && last[1] && strspn(last + 1, "0123456789.") == strlen(last + 1);

	for (const char *c = text; *c; c++)
		fputc(*c == ';' ? ':' : c == last && like_count ? '_' : *c, out);
}

static void write_stack(const struct flame_tree *tree, uint32_t thread, uint32_t node, FILE *out)
{
	uint32_t path[DEPTH_MAX];
	size_t depth = 0;

	write_frame(tree->threads[thread].text, out);
	for (; node != STACK_NODE_NONE && depth < DEPTH_MAX; node = tree->nodes[node].parent)
		path[depth++] = node;
	while (depth-- > 0) {
		char text[STACKS_FRAME_LENGTH];
		struct line line;

		line_init(&line, text, sizeof(text));
		flame_tree_add_frame(&line, tree, path[depth]);
		fputc(';', out);
		write_frame(text, out);
	}
}

static int compare_sums(const void *a, const void *b)
{
	const struct flame_sum *one = a, *other = b;

	if (one->thread != other->thread)
		return one->thread < other->thread ? -1 : 1;
	return one->node < other->node ? -1 : one->node > other->node;
}

static void write_sums(const struct flame_tree *tree, enum folded_of of, FILE *out)
{
	for (uint32_t i = 0; i < tree->sum_count;) {
		uint32_t thread = tree->sums[i].thread, node = tree->sums[i].node;
		double values[FLAME_SIDES] = {0};
		uint64_t own, control;

		for (; i < tree->sum_count && tree->sums[i].thread == thread &&
			tree->sums[i].node == node;
			i++)
			values[tree->sums[i].side] += tree->sums[i].value;
		own = (uint64_t)(values[FLAME_OWN] + 0.5);
		control = (uint64_t)(values[FLAME_CONTROL] + 0.5);
		if (!(of == FOLDED_SUSPECT ? own : of == FOLDED_CONTROL ? control : own + control))
			continue;
		write_stack(tree, thread, node, out);
		if (of == FOLDED_DIFFERENCE)
			fprintf(out, " %" PRIu64, control);
		fprintf(out, " %" PRIu64 "\n", of == FOLDED_CONTROL ? control : own);
	}
}

int report_folded_write(const struct report_model *model, const struct stacks_pair *pair,
	enum folded_of of, FILE *out)
{
	struct flame_tree tree;
	int error = flame_tree_init(&tree, model, pair);

	if (error < 0)
		return error;
	errno = 0; /* for report_flush() */
	if (tree.sum_count)
		qsort(tree.sums, tree.sum_count, sizeof(*tree.sums), compare_sums);
	write_sums(&tree, of, out);
	flame_tree_fini(&tree);
	return report_flush(out);
}
