/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/json_writer.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "coordinator/report/decimal.h"
#include "coordinator/report/utf8.h"

void json_writer_init(struct json_writer *writer, FILE *out, unsigned broken_depth)
{
	*writer = (struct json_writer){.out = out, .broken_depth = broken_depth};
}

static void new_line(struct json_writer *writer)
{
	fputc('\n', writer->out);
	for (unsigned i = 0; i < writer->depth; i++)
		fputc(' ', writer->out);
}

static void write_text(struct json_writer *writer, const char *text)
{
	fputc('"', writer->out);
	while (*text) {
		const char *start = text;
		uint32_t point = utf8_next(&text);

		if (point == '"' || point == '\\')
			fprintf(writer->out, "\\%c", (char)point);
		else if (point == '\n')
			fputs("\\n", writer->out);
		else if (point == '\t')
			fputs("\\t", writer->out);
		else if (point < 0x20 || point == 0x7F)
			fprintf(writer->out, "\\u%04" PRIx32, point);
		else if (point == UTF8_REPLACEMENT)
			fputs("\xEF\xBF\xBD", writer->out);
		else
			fwrite(start, 1, (size_t)(text - start), writer->out);
	}
	fputc('"', writer->out);
}

/* What stands before a value: the comma, the line, the key. */
static void begin_value(struct json_writer *writer, const char *key)
{
	if (writer->depth > 0) {
		bool *has_member = &writer->has_member[writer->depth - 1];

		if (*has_member)
			fputc(',', writer->out);
		if (writer->depth <= writer->broken_depth)
			new_line(writer);
		else if (*has_member)
			fputc(' ', writer->out);
		*has_member = true;
	}
	if (key) {
		write_text(writer, key);
		fputs(": ", writer->out);
	}
}

static void begin_container(struct json_writer *writer, const char *key, char bracket)
{
	assert(writer->depth < JSON_DEPTH_MAX);
	begin_value(writer, key);
	fputc(bracket, writer->out);
	writer->has_member[writer->depth++] = false;
}

static void end_container(struct json_writer *writer, char bracket)
{
	assert(writer->depth > 0);
	bool broken = writer->depth <= writer->broken_depth;

	writer->depth--;
	if (broken && writer->has_member[writer->depth])
		new_line(writer);
	fputc(bracket, writer->out);
}

void json_object_begin(struct json_writer *writer, const char *key)
{
	begin_container(writer, key, '{');
}

void json_object_end(struct json_writer *writer)
{
	end_container(writer, '}');
}

void json_array_begin(struct json_writer *writer, const char *key)
{
	begin_container(writer, key, '[');
}

void json_array_end(struct json_writer *writer)
{
	end_container(writer, ']');
}

void json_string(struct json_writer *writer, const char *key, const char *text)
{
	begin_value(writer, key);
	write_text(writer, text ? text : "");
}

void json_boolean(struct json_writer *writer, const char *key, bool value)
{
	begin_value(writer, key);
	fputs(value ? "true" : "false", writer->out);
}

void json_signed(struct json_writer *writer, const char *key, int64_t value)
{
	begin_value(writer, key);
	fprintf(writer->out, "%" PRId64, value);
}

void json_unsigned(struct json_writer *writer, const char *key, uint64_t value)
{
	begin_value(writer, key);
	fprintf(writer->out, "%" PRIu64, value);
}

void json_thousandth(struct json_writer *writer, const char *key, int64_t value)
{
	uint64_t magnitude = value < 0 ? -(uint64_t)value : (uint64_t)value;

	begin_value(writer, key);
	fprintf(writer->out, "%s%" PRIu64 ".%03u", value < 0 ? "-" : "", magnitude / 1000,
		(unsigned)(magnitude % 1000));
}

void json_decimal(struct json_writer *writer, const char *key, double value, unsigned decimals)
{
	char text[DECIMAL_LENGTH];
	size_t length;

	begin_value(writer, key);
	if (!isfinite(value)) {
		fputs("null", writer->out);
		return;
	}
	assert(decimals > 0);
	length = strlen(decimal_format(value, decimals, text));
	while (text[length - 1] == '0' && text[length - 2] != '.')
		length--;
	fwrite(text, 1, length, writer->out);
}
