/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/page/page.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/page/page_asset.h"
#include "coordinator/page/trail_json.h"
#include "coordinator/report/cause_text.h"
#include "coordinator/report/embed.h"
#include "coordinator/report/flame.h"
#include "coordinator/report/json.h"
#include "coordinator/report/look.h"
#include "coordinator/report/text.h"

enum {
	LINES_TO_DEPTH = 2,
	RANKS_SHOWN = 512, /* of the table of ranks */
	FLAMES_MAX = 8,
	FLAMES_BYTES_MAX = 2 << 20,
};

/* What a person is told of each verdict. */
static void write_incidents(struct json_writer *writer, const struct report_model *model)
{
	char sentence[REPORT_SENTENCE_LENGTH];

	json_array_begin(writer, "incidents");
	for (size_t i = 0; i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];

		report_verdict_sentence(model, verdict, sentence);
		json_object_begin(writer, NULL);
		json_unsigned(writer, "id", verdict->id);
		json_string(writer, "sentence", sentence);
		json_string(writer, "advice", cause_advice(verdict));
		json_object_end(writer);
	}
	json_array_end(writer);
}

/* One flame graph of each incident that has stacks, as long as there is room. */
static int write_flames(struct json_writer *writer, const struct report_model *model)
{
	uint32_t written = 0, left_out = 0;
	struct stacks_pair pair;
	long begin = ftell(writer->out);
	int error = 0;

	json_array_begin(writer, "flames");
	for (size_t i = 0; i < model->verdict_count && error == 0; i++) {
		if (!stacks_of_verdict(model, &model->verdicts[i], &pair))
			continue;
		if (written == FLAMES_MAX || ftell(writer->out) - begin > FLAMES_BYTES_MAX) {
			left_out++;
			continue;
		}
		error = report_flame_json(writer, model, &pair);
		written++;
	}
	json_array_end(writer);
	json_unsigned(writer, "flames_left_out", left_out);
	return error;
}

/* A node or a link that costs something is called by it. */
static bool names_cost(const struct report_model *model, uint32_t rank)
{
	for (size_t i = 0; i < model->cost_count; i++) {
		if (model->costs[i].number == rank || model->costs[i].other == rank)
			return true;
	}
	return false;
}

/* Named ones, those that were looked at, those that costs are of, and the first ones: by rank. The caller frees them; NULL without memory. */
static struct report_rank *choose_ranks(const struct report_model *model, uint32_t *count)
{
	uint32_t most = model->rank_count < RANKS_SHOWN ? model->rank_count : RANKS_SHOWN,
		 left = most;
	struct report_rank *ranks = calloc(most ? most : 1, sizeof(*ranks));
	uint8_t *wanted = calloc(model->rank_count ? model->rank_count : 1, 1);

	*count = 0;
	for (uint32_t i = 0; ranks && wanted && i < model->rank_count && left; i++) {
		wanted[i] = most == model->rank_count || model->ranks[i].look ||
			    look_is_named(model, model->ranks[i].totals.rank) ||
			    names_cost(model, model->ranks[i].totals.rank);
		left -= wanted[i];
	}
	for (uint32_t i = 0; ranks && wanted && i < model->rank_count; i++) {
		if (!wanted[i] && left) {
			wanted[i] = 1;
			left--;
		}
		if (wanted[i])
			ranks[(*count)++] = model->ranks[i];
	}
	if (!wanted) {
		free(ranks);
		ranks = NULL;
	}
	free(wanted);
	return ranks;
}

static int write_report(struct json_writer *writer, const struct report_model *model)
{
	struct report_model shown = *model;
	struct report_rank *ranks = choose_ranks(model, &shown.rank_count);

	if (!ranks)
		return -ENOMEM;
	shown.ranks = ranks;
	shown.pair_count = 0; /* what RDMA pairs did is for the JSON report */
	report_json_object(writer, "report", &shown);
	free(ranks);
	return 0;
}

int page_data_begin(struct page_data *data, const struct report_model *model,
	const struct trail *trail, uint64_t version, const char *run)
{
	FILE *memory;
	struct json_writer writer;
	bool good;
	int error;

	*data = (struct page_data){0};
	memory = open_memstream(&data->head, &data->head_length);
	if (!memory)
		return -ENOMEM;
	json_writer_init(&writer, memory, LINES_TO_DEPTH);
	json_object_begin(&writer, NULL);
	json_string(&writer, "schema", "slowrank.page/1");
	json_unsigned(&writer, "version", version);
	json_unsigned(&writer, "rank_count", model->rank_count);
	write_incidents(&writer, model);
	error = write_report(&writer, model);
	if (error == 0)
		error = write_flames(&writer, model);
	if (trail)
		parts_begin(&data->parts, trail, model, run);
	good = !ferror(memory);
	good = fclose(memory) == 0 && good;
	if (error == 0 && !good)
		error = -ENOMEM;
	if (error)
		page_data_fini(data);
	return error;
}

int page_data_write(const struct page_data *data, bool embedded, FILE *out)
{
	const struct parts *parts = &data->parts;
	struct json_writer writer;
	int error = 0;

	fwrite(data->head, 1, data->head_length, out);
	if (parts->trail) {
		fputs(",\n \"trail\": ", out);
		json_writer_init(&writer, out, LINES_TO_DEPTH);
		trail_index_json(&writer, parts->trail, parts->layout, parts->shown);
	}
	if (parts->trail && embedded) {
		fputs(",\n \"parts\": ", out);
		json_writer_init(&writer, out, LINES_TO_DEPTH);
		error = parts_json(&writer, parts);
	}
	fputs("\n}\n", out);
	return error;
}

void page_data_fini(struct page_data *data)
{
	parts_fini(&data->parts);
	free(data->head);
	data->head = NULL;
}

int page_write_shell(FILE *out)
{
	return embed_write((const char *)page_asset, "null", strlen("null"), out);
}

int page_write(const struct report_model *model, const struct trail *trail, FILE *out)
{
	struct page_data data;
	char *json = NULL;
	size_t length;
	FILE *memory;
	bool good;
	int error = page_data_begin(&data, model, trail, 0, "");

	if (error)
		return error;
	if (trail)
		error = parts_take_rows(&data.parts, model);
	memory = error ? NULL : open_memstream(&json, &length);
	error = memory ? page_data_write(&data, true, memory) : -ENOMEM;
	good = memory && !ferror(memory);
	good = memory && fclose(memory) == 0 && good;
	if (error == 0)
		error = good ? embed_write((const char *)page_asset, json, length, out) : -ENOMEM;
	free(json);
	page_data_fini(&data);
	return error;
}
