/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/flame.h"

#include <errno.h>
#include <stdlib.h>

#include "coordinator/report/embed.h"
#include "coordinator/report/flame_page.h"
#include "coordinator/report/flame_tree.h"
#include "coordinator/report/look.h"
#include "coordinator/report/stacks_json.h"
#include "coordinator/report/text.h"

enum { DECIMALS_US = 2, LINES_TO_DEPTH = 2 };

static void write_look(struct json_writer *writer, const struct report_model *model,
	const struct kept_stacks *look)
{
	const struct stack_profile *profile = look->profile;

	json_object_begin(writer, NULL);
	json_unsigned(writer, "rank", profile->rank);
	json_string(writer, "host", look_host(model, profile->rank));
	stacks_json_extent(writer, model, look);
	stacks_json_why(writer, profile);
	json_object_end(writer);
}

static void write_head(
	struct json_writer *writer, const struct report_model *model, const struct flame_tree *tree)
{
	const struct verdict *verdict = tree->pair.verdict;
	static const char *const units[] = {
		[FLAME_US_PER_STEP] = "us/step", [FLAME_US] = "us", [FLAME_LOOKS] = "looks"};
	char sentence[REPORT_SENTENCE_LENGTH] = "";

	if (verdict)
		report_verdict_sentence(model, verdict, sentence);
	json_unsigned(writer, "incident", verdict ? verdict->id : 0);
	json_string(writer, "sentence", sentence);
	json_string(writer, "job", model->job_id);
	json_boolean(writer, "hang", verdict && verdict->verdict_class == VERDICT_HANG);
	json_string(writer, "unit", units[tree->unit]);
	json_array_begin(writer, "looks");
	write_look(writer, model, tree->pair.own);
	if (tree->pair.control)
		write_look(writer, model, tree->pair.control);
	json_array_end(writer);
}

static void write_labels(struct json_writer *writer, const char *key,
	const struct flame_label *labels, uint32_t count)
{
	json_array_begin(writer, key);
	for (uint32_t i = 0; i < count; i++) {
		json_array_begin(writer, NULL);
		json_string(writer, NULL, labels[i].text);
		json_unsigned(writer, NULL, labels[i].role);
		json_array_end(writer);
	}
	json_array_end(writer);
}

static void write_tree(struct json_writer *writer, const struct flame_tree *tree)
{
	json_array_begin(writer, "names");
	for (uint32_t i = 0; i < tree->name_count; i++)
		json_string(writer, NULL, tree->names[i]);
	json_array_end(writer);
	write_labels(writer, "threads", tree->threads, tree->thread_count);
	write_labels(writer, "segments", tree->segments, tree->segment_count);
	json_array_begin(writer, "nodes");
	for (uint32_t i = 0; i < tree->node_count; i++) {
		const struct flame_node *node = &tree->nodes[i];

		json_array_begin(writer, NULL);
		json_signed(
			writer, NULL, node->parent == STACK_NODE_NONE ? -1 : (int64_t)node->parent);
		json_unsigned(writer, NULL, node->kind);
		json_unsigned(writer, NULL, node->name);
		json_unsigned(writer, NULL, node->short_file);
		json_unsigned(writer, NULL, node->file);
		json_signed(writer, NULL, node->line);
		json_array_end(writer);
	}
	json_array_end(writer);
	json_array_begin(writer, "states");
	for (uint8_t state = 0; state <= STACK_STATE_OTHER; state++)
		json_string(writer, NULL, state ? stacks_state_name(state) : "on the device");
	json_array_end(writer);
	json_array_begin(writer, "sums");
	for (uint32_t i = 0; i < tree->sum_count; i++) {
		const struct flame_sum *sum = &tree->sums[i];

		json_array_begin(writer, NULL);
		json_unsigned(writer, NULL, sum->side);
		json_unsigned(writer, NULL, sum->node);
		json_unsigned(writer, NULL, sum->thread);
		json_unsigned(writer, NULL, sum->segment);
		json_unsigned(writer, NULL, sum->state);
		json_decimal(writer, NULL, sum->value, DECIMALS_US);
		json_unsigned(writer, NULL, sum->looks);
		json_array_end(writer);
	}
	json_array_end(writer);
}

int report_flame_json(struct json_writer *writer, const struct report_model *model,
	const struct stacks_pair *pair)
{
	struct flame_tree tree;
	int error = flame_tree_init(&tree, model, pair);

	if (error < 0)
		return error;
	json_object_begin(writer, NULL);
	write_head(writer, model, &tree);
	write_tree(writer, &tree);
	json_object_end(writer);
	flame_tree_fini(&tree);
	return 0;
}

int report_flame_write(const struct report_model *model, const struct stacks_pair *pair, FILE *out)
{
	char *json = NULL;
	size_t length;
	FILE *memory = open_memstream(&json, &length);
	struct json_writer writer;
	bool good;
	int error;

	if (!memory)
		return -ENOMEM;
	json_writer_init(&writer, memory, LINES_TO_DEPTH);
	error = report_flame_json(&writer, model, pair);
	good = !ferror(memory);
	good = fclose(memory) == 0 && good;
	if (error == 0)
		error = good ? embed_write((const char *)flame_page, json, length, out) : -ENOMEM;
	free(json);
	return error;
}
