/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/export/csv.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "coordinator/report/decimal.h"
#include "coordinator/report/utf8.h"

static int check(FILE *out)
{
	if (!ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}

/* Always quoted, so that an empty text is not taken for one that is not known. */
static void write_text(FILE *out, const char *text)
{
	fputc('"', out);
	if (text[0] && strchr("=+-@\t\r\n", text[0]))
		fputc('\'', out);
	while (*text) {
		const char *start = text;
		uint32_t point = utf8_next(&text);

		if (point == '"')
			fputs("\"\"", out);
		else if (point == UTF8_REPLACEMENT)
			fputs("\xEF\xBF\xBD", out);
		else
			fwrite(start, 1, (size_t)(text - start), out);
	}
	fputc('"', out);
}

static void write_value(FILE *out, enum export_type type, const struct export_value *value)
{
	char decimal[DECIMAL_LENGTH];

	if (!value->known)
		return;
	if (type == EXPORT_INTEGER)
		fprintf(out, "%" PRId64, value->integer);
	else if (type == EXPORT_TEXT)
		write_text(out, value->text);
	else if (isfinite(value->real))
		fputs(decimal_format(value->real, DECIMAL_DIGITS_MAX, decimal), out);
}

int csv_begin(const struct csv *csv)
{
	const struct export_shape *shape = export_shape(csv->table);

	errno = 0;
	for (size_t c = 0; c < shape->column_count; c++)
		fprintf(csv->out, "%s%s", c ? "," : "", shape->columns[c].name);
	fputs(csv->line_end, csv->out);
	return check(csv->out);
}

int csv_put(void *context, enum export_table table, const struct export_value *values)
{
	const struct export_shape *shape = export_shape(table);
	const struct csv *csv = context;

	if (table != csv->table)
		return 0;
	errno = 0;
	for (size_t c = 0; c < shape->column_count; c++) {
		if (c)
			fputc(',', csv->out);
		write_value(csv->out, shape->columns[c].type, &values[c]);
	}
	fputs(csv->line_end, csv->out);
	return check(csv->out);
}
