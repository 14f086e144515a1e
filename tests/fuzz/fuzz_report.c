/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any frames of a record, on through the analysis to alerts, sheets and all reports, which go to people. Frames are
 * their length (4 bytes), how many ms after the one before they came (4), and so many bytes: a record's checksums
 * would let few inputs through, and are fuzz_record_reader's.
 */
#include "coordinator/page/page.h"
#include "coordinator/pipeline.h"
#include "coordinator/report/file.h"
#include "coordinator/report/sheets.h"
#include "coordinator/report/text.h"
#include "tests/fuzz/fuzz.h"

enum { GAP_MS_MAX = 3600000 };

struct told {
	struct pipeline *pipeline;
};

static void on_verdict(void *context, enum verdict_event event, const struct verdict *verdict)
{
	char line[REPORT_SENTENCE_LENGTH];
	struct told *told = context;

	report_alert_line(pipeline_report(told->pipeline), event, verdict, line);
	fuzz_require_printable(line, strlen(line));
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
	struct trail *trail;
	struct told told;

	fuzz_require(sheets && pipeline_create(&(struct pipeline_options){on_verdict, &told},
				       &told.pipeline) == 0);
	fuzz_require(trail_create(&trail) == 0);
	pipeline_watch_steps(told.pipeline, trail_take, trail);
	pipeline_watch_sheets(told.pipeline, report_sheets_take, sheets);
	push_frames(told.pipeline, (struct fuzz_input){bytes, length});
	fuzz_require(pipeline_finish(told.pipeline) == 0);
	model = *pipeline_report(told.pipeline);
	model.sheets = sheets;
	check_report(&model, &(struct report_choice){.format = REPORT_TEXT});
	check_report(&model, &(struct report_choice){.format = REPORT_JSON});
	check_report(
		&model, &(struct report_choice){
				.format = REPORT_PAGE, .write_page = page_write, .trail = trail});
	check_stacks(&model);
	trail_destroy(trail);
	pipeline_destroy(told.pipeline);
	report_sheets_destroy(sheets);
	return 0;
}
