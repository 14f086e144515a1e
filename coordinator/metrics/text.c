/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/metrics/text.h"

#include <inttypes.h>
#include <math.h>

#include "coordinator/report/utf8.h"

const double metrics_bounds[METRICS_BUCKETS] = {1e-4, 2e-4, 5e-4, 1e-3, 2e-3, 5e-3, 1e-2, 2e-2,
	5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100, 200};

static void put_code_point(FILE *out, uint32_t code)
{
	if (code < 0x80) {
		fputc((int)code, out);
		return;
	}
	if (code < 0x800) {
		fputc((int)(0xC0 | code >> 6), out);
	} else if (code < 0x10000) {
		fputc((int)(0xE0 | code >> 12), out);
		fputc((int)(0x80 | (code >> 6 & 0x3F)), out);
	} else {
		fputc((int)(0xF0 | code >> 18), out);
		fputc((int)(0x80 | (code >> 12 & 0x3F)), out);
		fputc((int)(0x80 | (code >> 6 & 0x3F)), out);
	}
	fputc((int)(0x80 | (code & 0x3F)), out);
}

static void put_label(FILE *out, const struct metrics_label *label)
{
	const char *value = label->value ? label->value : "";

	fprintf(out, "%s=\"", label->name);
	while (*value) {
		uint32_t code = utf8_next(&value);

		if (code == '\\' || code == '"')
			fprintf(out, "\\%c", (int)code);
		else if (code == '\n')
			fputs("\\n", out);
		else
			put_code_point(out, code);
	}
	fputc('"', out);
}

static void put_number(FILE *out, double value)
{
	if (isnan(value))
		fputs("NaN", out);
	else if (isinf(value))
		fputs(value > 0 ? "+Inf" : "-Inf", out);
	else if (value == floor(value) && fabs(value) < 1e15)
		fprintf(out, "%.0f", value);
	else
		fprintf(out, "%.12g", value);
}

void metrics_family(
	struct metrics_text *text, const char *name, enum metrics_kind kind, const char *help)
{
	static const char *const kinds[] = {"counter", "gauge", "histogram"};

	text->name = name;
	fprintf(text->out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kinds[kind]);
}

void metrics_sample(struct metrics_text *text, const struct metrics_label *labels,
	size_t label_count, double value)
{
	fputs(text->name, text->out);
	for (size_t i = 0; i < label_count; i++) {
		fputc(i ? ',' : '{', text->out);
		put_label(text->out, &labels[i]);
	}
	fputs(label_count ? "} " : " ", text->out);
	put_number(text->out, value);
	fputc('\n', text->out);
}

void metrics_single(struct metrics_text *text, const char *name, enum metrics_kind kind,
	const char *help, double value)
{
	metrics_family(text, name, kind, help);
	metrics_sample(text, NULL, 0, value);
}

void metrics_observe(struct metrics_histogram *histogram, double seconds)
{
	size_t bucket = 0;

	while (bucket < METRICS_BUCKETS && seconds > metrics_bounds[bucket])
		bucket++;
	histogram->counts[bucket]++;
	histogram->count++;
	histogram->sum += seconds;
}

void metrics_histogram(struct metrics_text *text, const char *name, const char *help,
	const struct metrics_histogram *histogram)
{
	uint64_t below = 0;

	metrics_family(text, name, METRICS_HISTOGRAM, help);
	for (size_t i = 0; i < METRICS_BUCKETS; i++) {
		below += histogram->counts[i];
		fprintf(text->out, "%s_bucket{le=\"%g\"} %" PRIu64 "\n", name, metrics_bounds[i],
			below);
	}
	fprintf(text->out,
		"%s_bucket{le=\"+Inf\"} %" PRIu64 "\n%s_sum %.12g\n%s_count %" PRIu64 "\n", name,
		histogram->count, name, histogram->sum, name, histogram->count);
}
