/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes Prometheus' text format 0.0.4 to a stream: families of samples with help, type and labels. One thread per
 * writer; it does not own the stream. Write errors stay in the stream.
 */
#ifndef SLOWRANK_COORDINATOR_METRICS_TEXT_H
#define SLOWRANK_COORDINATOR_METRICS_TEXT_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define METRICS_TYPE "text/plain; version=0.0.4; charset=utf-8"

struct metrics_text {
	FILE *out;
	const char *name; /* of the family */
};

enum metrics_kind {
	METRICS_COUNTER = 0,
	METRICS_GAUGE = 1,
	METRICS_HISTOGRAM = 2,
};

struct metrics_label {
	const char *name;  /* a literal */
	const char *value; /* any text: broken UTF-8 becomes U+FFFD */
};

/* name and help are literals; the samples that follow are of this family. */
void metrics_family(
	struct metrics_text *text, const char *name, enum metrics_kind kind, const char *help);

void metrics_sample(struct metrics_text *text, const struct metrics_label *labels,
	size_t label_count, double value);

/* A family of one sample without labels. */
void metrics_single(struct metrics_text *text, const char *name, enum metrics_kind kind,
	const char *help, double value);

enum { METRICS_BUCKETS = 20 };

/* Zero-initialised is empty. Bounds are those of metrics_bounds; the last bucket has what is beyond. */
struct metrics_histogram {
	uint64_t counts[METRICS_BUCKETS + 1];
	uint64_t count;
	double sum;
};

/* Upper bounds, included, in seconds: from 100 us to 200 s. */
extern const double metrics_bounds[METRICS_BUCKETS];

void metrics_observe(struct metrics_histogram *histogram, double seconds);
void metrics_histogram(struct metrics_text *text, const char *name, const char *help,
	const struct metrics_histogram *histogram);

#endif
