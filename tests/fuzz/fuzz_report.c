/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any frames of a record, on through the analysis to alerts, sheets, exports and all reports, which go to people. Frames are
 * their length (4 bytes), how many ms after the one before they came (4), and so many bytes: a record's checksums
 * would let few inputs through, and are fuzz_record_reader's.
 */
#include "coordinator/export/exporter.h"
#include "coordinator/page/page.h"
#include "coordinator/pipeline.h"
#include "coordinator/report/file.h"
#include "coordinator/report/sheets.h"
#include "coordinator/report/text.h"
#include "tests/fuzz/fuzz.h"

enum { GAP_MS_MAX = 3600000 };

struct told {
	struct pipeline *pipeline;
	struct exporter *exporters[2]; /* of tables, and of a trace */
	struct trail *trail;
};

static void on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	char line[REPORT_SENTENCE_LENGTH];
	struct told *told = context;

	report_alert_line(pipeline_report(told->pipeline), event, verdict, line);
	fuzz_require_printable(line, strlen(line));
}

static const struct export_record exported = {.number = 1, .path = "fuzz"};

/* For the trace, some ranks are to blame all the time. */
static void begin_exports(struct told *told)
{
	static const struct export_choice choices[2] = {
		{.format = EXPORT_CSV, .table = EXPORT_RANK_STEPS}, {.format = EXPORT_PERFETTO}};
	static const struct verdict verdict = {
		.id = 1, .rank_count = 3, .ranks = {0, 1, 2}, .end = {INT64_MAX}};
	static const struct report_model model = {.verdict_count = 1, .verdicts = &verdict};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	for (int i = 0; i < 2; i++) {
		fuzz_require(
			exporter_open(&choices[i], "/dev/null", &told->exporters[i], why) == 0);
		fuzz_require(exporter_begin(told->exporters[i], &exported, &model) == 0);
	}
}

static void on_step(void *context, const struct judged_step *step)
{
	struct told *told = context;

	trail_take(told->trail, step);
	for (int i = 0; i < 2; i++)
		fuzz_require(exporter_step(told->exporters[i], step,
				     pipeline_unix_offset_ns(told->pipeline)) == 0);
}

static void end_exports(struct told *told, const struct report_model *model)
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	uint64_t left_out;

	for (int i = 0; i < 2; i++) {
		fuzz_require(exporter_end_stretch(told->exporters[i]) == 0);
		fuzz_require(exporter_end(told->exporters[i], model) == 0);
		fuzz_require(exporter_finish(told->exporters[i], &left_out, why) == 0);
		exporter_close(told->exporters[i]);
	}
}

static void check_report(const struct report_model *model, const struct report_choice *choice)
{
	size_t length = 0;
	char *text = NULL;
	FILE *out = open_memstream(&text, &length);

	fuzz_require(out != NULL);
	fuzz_require(report_write(model, choice, out) == 0);
	fclose(out);
	fuzz_require(length > 0 || choice->format == REPORT_FOLDED);
	if (choice->format != REPORT_FLAME &&
		choice->format != REPORT_PAGE) /* which have tabs, and are for no terminal */
		fuzz_require_printable(text, length);
	free(text);
}

/* Of each rank that was looked at, and of the first incident. */
static void check_stacks(const struct report_model *model)
{
	size_t count = model->stacks ? model->stacks->count : 0;

	for (size_t i = 0; i <= count; i++) {
		struct stacks_wish wish = {.has_rank = i < count};
		struct report_choice choice = {.format = REPORT_FLAME};
		char why[STACKS_WHY_LENGTH];

		if (wish.has_rank)
			wish.rank = model->stacks->kept[i].profile->rank;
		if (!stacks_find(model, &wish, &choice.stacks, why)) {
			fuzz_require_printable(why, strlen(why));
			continue;
		}
		check_report(model, &choice);
		choice.format = REPORT_FOLDED;
		check_report(model, &choice);
		choice.of = FOLDED_DIFFERENCE;
		check_report(model, &choice);
	}
}

static void push_frames(struct pipeline *pipeline, struct fuzz_input input)
{
	struct job_ns now = {0};

	while (input.length > 0) {
		struct message_reply reply;
		uint32_t length, gap_ms;

		fuzz_take(&input, &length, sizeof(length));
		fuzz_take(&input, &gap_ms, sizeof(gap_ms));
		length = length < input.length ? length : (uint32_t)input.length;
		now.value += gap_ms % GAP_MS_MAX * INT64_C(1000000);
		fuzz_require(pipeline_push(pipeline, input.bytes, length, now, &reply) >= 0);
		input.bytes += length;
		input.length -= length;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	const struct sheets_wish wish = {.all = true};
	struct report_sheets *sheets = report_sheets_create(&wish);
	struct report_model model;
	struct told told;

	fuzz_require(sheets && pipeline_create(&(struct pipeline_options){on_verdict, &told},
				       &told.pipeline) == 0);
	fuzz_require(trail_create(&told.trail) == 0);
	pipeline_watch_sheets(told.pipeline, report_sheets_take, sheets);
	begin_exports(&told);
	pipeline_watch_steps(told.pipeline, on_step, &told);
	push_frames(told.pipeline, (struct fuzz_input){bytes, length});
	fuzz_require(pipeline_finish(told.pipeline) == 0);
	model = *pipeline_report(told.pipeline);
	model.sheets = sheets;
	check_report(&model, &(struct report_choice){.format = REPORT_TEXT});
	check_report(&model, &(struct report_choice){.format = REPORT_JSON});
	check_report(&model,
		&(struct report_choice){
			.format = REPORT_PAGE, .write_page = page_write, .trail = told.trail});
	check_stacks(&model);
	end_exports(&told, &model);
	trail_destroy(told.trail);
	pipeline_destroy(told.pipeline);
	report_sheets_destroy(sheets);
	return 0;
}
