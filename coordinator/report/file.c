/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/file.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "coordinator/output/file.h"
#include "coordinator/report/flame.h"
#include "coordinator/report/json.h"
#include "coordinator/report/text.h"

enum { LOOKED_AT_BYTES = 1 << 20 }; /* of a file that may be a report; reports are smaller */

static bool is_report(int fd, off_t length)
{
	static const char json[] = "{\n \"schema\": \"" REPORT_JSON_SCHEMA "\"",
			  flame[] = FLAME_PAGE_MARK, page[] = REPORT_PAGE_MARK,
			  text[] = "\n" REPORT_TEXT_MARK "\n";
	size_t count = length < LOOKED_AT_BYTES ? (size_t)length : LOOKED_AT_BYTES;
	char *bytes = malloc(count);
	ssize_t got = bytes ? pread(fd, bytes, count, 0) : -1;
	bool found = (got >= (ssize_t)strlen(json) && memcmp(bytes, json, strlen(json)) == 0) ||
		     (got >= (ssize_t)strlen(flame) && memcmp(bytes, flame, strlen(flame)) == 0) ||
		     (got >= (ssize_t)strlen(page) && memcmp(bytes, page, strlen(page)) == 0) ||
		     (got > 0 && memmem(bytes, (size_t)got, text, strlen(text)));

	free(bytes);
	return found;
}

static const struct output_kind report_kind = {"a report", is_report};

int report_write(const struct report_model *model, const struct report_choice *choice, FILE *out)
{
	const struct report_text_options text = {.colour = choice->colour};

	switch (choice->format) {
	case REPORT_TEXT:
		return report_text_write(model, &text, out);
	case REPORT_JSON:
		return report_json_write(model, out);
	case REPORT_FOLDED:
		return report_folded_write(model, &choice->stacks, choice->of, out);
	case REPORT_FLAME:
		return report_flame_write(model, &choice->stacks, out);
	case REPORT_PAGE:
		return choice->write_page(model, choice->trail, out);
	}
	return -EINVAL;
}

int report_file_write(const struct report_model *model, const char *path,
	const struct report_choice *choice, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct output_replacement output;
	int error = output_replacement_begin(path, &report_kind, &output, why);
	FILE *out;

	if (error < 0)
		return error;
	out = fdopen(output.fd, "w");
	if (!out) {
		error = -errno;
		close(output.fd);
	} else {
		error = report_write(model, choice, out);
		if (fclose(out) != 0 && error == 0)
			error = -errno;
	}
	if (error)
		output_replacement_abort(&output);
	else
		error = output_replacement_commit(&output);
	if (error)
		output_explain(path, error, why);
	return error;
}

int report_file_check(const char *path, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct output_replacement output;
	int error = output_replacement_begin(path, &report_kind, &output, why);

	if (error < 0)
		return error == -ENXIO ? 0 : error; /* a pipe's reader may come later */
	close(output.fd);
	output_replacement_abort(&output);
	return 0;
}
