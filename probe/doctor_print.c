/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/doctor.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static const char *state_name(enum doctor_state state)
{
	switch (state) {
	case DOCTOR_FINE:
		return "fine";
	case DOCTOR_DEGRADED:
		return "degraded";
	case DOCTOR_MISSING:
		return "missing";
	}
	return "unknown";
}

struct doctor_line *doctor_add(
	struct doctor *doctor, enum doctor_state state, const char *name, const char *found, ...)
{
	struct doctor_line *line;
	va_list arguments;

	if (doctor->line_count == DOCTOR_LINES_MAX)
		doctor->line_dropped++;
	else
		doctor->line_count++;
	line = &doctor->lines[doctor->line_count - 1];
	*line = (struct doctor_line){.state = state};
	snprintf(line->name, sizeof(line->name), "%s", name);
	va_start(arguments, found);
	vsnprintf(line->found, sizeof(line->found), found, arguments);
	va_end(arguments);
	return line;
}

void doctor_advise(struct doctor_line *line, const char *advice, ...)
{
	va_list arguments;

	va_start(arguments, advice);
	vsnprintf(line->advice, sizeof(line->advice), advice, arguments);
	va_end(arguments);
}

void doctor_print_text(const struct doctor *doctor, FILE *out)
{
	char host[65] = "this host";

	gethostname(host, sizeof(host) - 1);
	fprintf(out, "slowrank on %s: %s\n\n", host,
		doctor->sees_collectives ? "the collectives of jobs can be seen"
					 : "cannot see into jobs here; look at what is missing");
	for (size_t i = 0; i < doctor->line_count; i++) {
		const struct doctor_line *line = &doctor->lines[i];

		fprintf(out, "%-9s %-20s %s\n", state_name(line->state), line->name, line->found);
		if (line->advice[0])
			fprintf(out, "%-30s -> %s\n", "", line->advice);
	}
	if (doctor->line_dropped)
		fprintf(out, "(%zu more lines did not fit)\n", doctor->line_dropped);
}

/* What stands here comes from the kernel and from file names: bytes above 0x7e are kept out. */
static void print_string(const char *text, FILE *out)
{
	fputc('"', out);
	for (; *text; text++) {
		uint8_t byte = (uint8_t)*text;

		if (byte == '"' || byte == '\\')
			fprintf(out, "\\%c", byte);
		else if (byte < 0x20)
			fprintf(out, "\\u%04x", byte);
		else
			fputc(byte < 0x7f ? byte : '?', out);
	}
	fputc('"', out);
}

void doctor_print_json(const struct doctor *doctor, FILE *out)
{
	char host[65] = "";

	gethostname(host, sizeof(host) - 1);
	fputs("{\n \"schema\": \"slowrank.doctor/1\",\n \"host\": ", out);
	print_string(host, out);
	fprintf(out, ",\n \"sees_collectives\": %s,\n \"checks\": [",
		doctor->sees_collectives ? "true" : "false");
	for (size_t i = 0; i < doctor->line_count; i++) {
		const struct doctor_line *line = &doctor->lines[i];

		fputs(i ? ",\n  {\"name\": " : "\n  {\"name\": ", out);
		print_string(line->name, out);
		fprintf(out, ", \"state\": \"%s\", \"found\": ", state_name(line->state));
		print_string(line->found, out);
		fputs(", \"advice\": ", out);
		print_string(line->advice, out);
		fputc('}', out);
	}
	fputs("\n ]\n}\n", out);
}
