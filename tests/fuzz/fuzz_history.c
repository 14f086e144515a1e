/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a coordinator saved of a job: taken as a verdict, as ranks, as the job and as a gap, in turn, and
 * a report made of it. What is read is written and read again as the same.
 */
#include <stdlib.h>
#include <string.h>

#include "coordinator/history/history.h"
#include "coordinator/report/json.h"
#include "coordinator/report/text.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static const struct report_model empty;

static const struct report_model *nothing(void *context)
{
	(void)context;
	return &empty;
}

static void check_job(const uint8_t *bytes, size_t length)
{
	static uint8_t first[SUMS_BYTES_MAX], second[SUMS_BYTES_MAX];
	static struct sums_job job;
	size_t written;

	if (sums_get_job(bytes, length, &job))
		return;
	written = sums_put_job(&job, first);
	if (sums_get_job(first, written, &job) || sums_put_job(&job, second) != written ||
		memcmp(first, second, written) != 0)
		abort();
}

/* Pieces: a kind, two bytes of length, and so many bytes. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	static const uint8_t gap[24] = {1};
	struct record_frame frame = {.kind = RECORD_GAP, .bytes = gap, .length = sizeof(gap)};
	struct history history = {0};
	struct report_model model = empty;
	FILE *sink = fopen("/dev/null", "we");

	if (!sink || history_take(&history, &frame, nothing, NULL) < 0)
		abort();
	while (length > 3) {
		size_t piece = bytes[1] | (size_t)bytes[2] << 8;

		piece = piece < length - 3 ? piece : length - 3;
		frame = (struct record_frame){
			.kind = (enum record_kind)(RECORD_BATCH + bytes[0] % 5),
			.bytes = bytes + 3,
			.length = piece};
		(void)!history_take(&history, &frame, nothing, NULL);
		check_job(bytes + 3, piece);
		bytes += 3 + piece;
		length -= 3 + piece;
	}
	if (history_end(&history, &model) || history_report(&history, &model))
		abort();
	if (report_json_write(&model, sink) || report_text_write(&model, NULL, sink))
		abort();
	fclose(sink);
	history_fini(&history);
	return 0;
}
