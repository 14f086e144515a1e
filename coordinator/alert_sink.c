/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/alert_sink.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coordinator/output/file.h"
#include "coordinator/report/json.h"
#include "coordinator/report/text.h"

enum { TAIL_BYTES = 256 * 1024 }; /* what came of one frame is among the last so many */

struct alert_sink {
	FILE *text;
	int json_fd; /* -1 = none */
	bool colour;
	bool doubtful;
	bool line_is_cut; /* the last one; a full disk, a pipe that nobody reads */
	uint64_t errors;
};

static bool begins_as_alert(int fd, off_t length)
{
	static const char wanted[] = "{\"event\": \"";
	char start[sizeof(wanted) - 1];

	(void)length;
	return pread(fd, start, sizeof(start), 0) == (ssize_t)sizeof(start) &&
	       memcmp(start, wanted, sizeof(start)) == 0;
}

/* Whoever wrote there before was killed within a line. */
static bool ends_within_line(int fd)
{
	struct stat status;
	char last;

	return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && status.st_size > 0 &&
	       pread(fd, &last, 1, status.st_size - 1) == 1 && last != '\n';
}

static int open_json(const char *path, char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	static const struct output_kind kind = {"a file of alerts", begins_as_alert};
	struct output_place place;
	struct stat status;
	bool is_file;
	int fd = output_place_open(path, &place);

	if (fd < 0) {
		output_explain(path, fd, why);
		return fd;
	}
	fd = output_file_append(&place, path, &kind, &is_file, why);
	output_place_close(&place);
	/* Alerts do not wait for the reader of a pipe. Opened here, it is not the job's to share. */
	if (fd >= 0 && !is_file && fstat(fd, &status) == 0 && S_ISFIFO(status.st_mode))
		(void)fcntl(fd, F_SETFL, O_APPEND | O_NONBLOCK);
	return fd;
}

int alert_sink_create(const struct alert_sink_options *options, struct alert_sink **result,
	char why[WIRE_DETAIL_LENGTH_MAX + 1])
{
	struct alert_sink *sink;
	int fd = options->json_path ? open_json(options->json_path, why) : -1;

	if (options->json_path && fd < 0)
		return fd;
	sink = malloc(sizeof(*sink));
	if (!sink) {
		snprintf(why, WIRE_DETAIL_LENGTH_MAX + 1, "no memory");
		if (fd >= 0)
			close(fd);
		return -ENOMEM;
	}
	*sink = (struct alert_sink){.text = options->text,
		.json_fd = fd,
		.colour = options->colour,
		.line_is_cut = fd >= 0 && ends_within_line(fd)};
	*result = sink;
	return 0;
}

void alert_sink_destroy(struct alert_sink *sink)
{
	if (!sink)
		return;
	if (sink->json_fd >= 0)
		close(sink->json_fd);
	free(sink);
}

uint64_t alert_sink_errors(const struct alert_sink *sink)
{
	return sink->errors;
}

/* Writes what there is room for; *cut: that ended within bytes. */
static bool write_all(int fd, const char *bytes, size_t length, bool *cut)
{
	size_t done = 0;

	while (done < length) {
		ssize_t written = write(fd, bytes + done, length - done);

		if (written < 0 && errno == EINTR)
			continue;
		if (written <= 0) {
			*cut = *cut || done > 0;
			return false;
		}
		done += (size_t)written;
	}
	*cut = false;
	return true;
}

/* False also where that cannot be told: better twice than never. */
static bool is_there(int fd, const char *line, size_t length)
{
	struct stat status;
	off_t begin = 0;
	ssize_t got;
	bool there;
	char *tail;

	if (fstat(fd, &status) < 0 || !S_ISREG(status.st_mode))
		return false;
	tail = malloc(TAIL_BYTES);
	if (!tail)
		return false;
	if (status.st_size > TAIL_BYTES)
		begin = status.st_size - TAIL_BYTES;
	got = pread(fd, tail, TAIL_BYTES, begin);
	there = got > 0 && memmem(tail, (size_t)got, line, length);
	free(tail);
	return there;
}

/* The line is made whole first, so that a reader of the growing file never sees half of one. */
static bool write_json(struct alert_sink *sink, enum verdict_event event,
	const struct verdict *verdict, const struct report_model *model)
{
	char *line = NULL;
	size_t length = 0;
	FILE *memory = open_memstream(&line, &length);
	bool good;

	if (!memory)
		return false;
	report_json_alert(event, verdict, model, memory);
	fputc('\n', memory);
	good = !ferror(memory);
	good = fclose(memory) == 0 && good;
	if (!good || !sink->doubtful || !is_there(sink->json_fd, line, length)) {
		if (good && sink->line_is_cut)
			good = write_all(sink->json_fd, "\n", 1, &sink->line_is_cut);
		good = good && write_all(sink->json_fd, line, length, &sink->line_is_cut);
	}
	free(line);
	return good;
}

void alert_sink_doubt(struct alert_sink *sink, bool doubtful)
{
	sink->doubtful = doubtful;
}

static bool write_text(const struct alert_sink *sink, enum verdict_event event,
	const struct verdict *verdict, const struct report_model *model)
{
	const char *start = event == VERDICT_EVENT_RECOVERED ? "\033[32m" : "\033[1;31m";
	char line[REPORT_SENTENCE_LENGTH];

	report_alert_line(model, event, verdict, line);
	clearerr(sink->text);
	fprintf(sink->text, "slowrank: %s%s%s\n", sink->colour ? start : "", line,
		sink->colour ? "\033[0m" : "");
	return fflush(sink->text) == 0 && !ferror(sink->text);
}

void alert_sink_verdict(struct alert_sink *sink, enum verdict_event event,
	const struct verdict *verdict, const struct report_model *model)
{
	bool good = true;

	if (sink->json_fd >= 0)
		good = write_json(sink, event, verdict, model);
	if (sink->text)
		good = write_text(sink, event, verdict, model) && good;
	sink->errors += !good;
}
