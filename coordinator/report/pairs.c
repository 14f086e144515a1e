/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/pairs.h"

#include <math.h>
#include <stdio.h>

#include "coordinator/report/line.h"
#include "coordinator/report/look.h"

enum { PAIRS_SHOWN = 16, ROW_LENGTH = 256, DECIMALS_US = 3, DECIMALS_LOSS = 6 };

/*
 * The time that this share of the requests stayed below, by the histogram (within a factor of two,
 * from above, and at most the longest); negative when there are no times.
 */
static double quantile_ns(const struct report_pair *pair, double share)
{
	uint64_t total = 0, sum = 0;

	for (size_t i = 0; i < WIRE_QUEUE_PAIR_BUCKET_NR; i++)
		total += pair->latency[i];
	if (total == 0)
		return -1;
	for (size_t i = 0; i < WIRE_QUEUE_PAIR_BUCKET_NR; i++) {
		sum += pair->latency[i];
		if ((double)sum >= share * (double)total)
			return fmin(ldexp(1, (int)i + 1), (double)pair->latency_max_ns);
	}
	return (double)pair->latency_max_ns;
}

/* In words with hyphens: enum ibv_wc_status, infiniband/verbs.h. */
static const char *status_name(size_t status)
{
	static const char *const names[WIRE_QUEUE_PAIR_STATUS_NR] = {"success", "local-length",
		"local-operation", "local-eec", "local-protection", "flushed", "window-bind",
		"bad-response", "local-access", "remote-invalid-request", "remote-access",
		"remote-operation", "retry-exceeded", "receiver-not-ready-exceeded", "local-rdd",
		"remote-rdd", "remote-aborted", "invalid-eec", "invalid-eec-state", "fatal",
		"response-timeout", "general", "tag-matching", "other"};

	return status < WIRE_QUEUE_PAIR_STATUS_NR ? names[status] : "other";
}

/* Why posts or times are not measurable; NULL when they are. */
static const char *unmeasurable(const struct report_pair *pair)
{
	if (pair->flags & QUEUE_PAIR_EXTENDED_POSTS)
		return "posts go by ibv_wr_...: not measurable";
	if (pair->flags & QUEUE_PAIR_EXTENDED_POLL)
		return "completions are taken by ibv_start_poll: not measurable";
	if (pair->flags & QUEUE_PAIR_POSTS_UNSEEN)
		return "some posts went a way that is not seen";
	if (pair->flags & QUEUE_PAIR_SAMPLED)
		return "counted in short windows only";
	return NULL;
}

/* Not measured is null: 0 would say that it was. */
static void put_measured(
	struct json_writer *writer, const char *key, double value, double scale, unsigned decimals)
{
	json_decimal(writer, key, value < 0 ? (double)NAN : value * scale, decimals);
}

static void put_statuses(struct json_writer *writer, const struct report_pair *pair)
{
	json_object_begin(writer, "errors");
	for (size_t i = 1; i < WIRE_QUEUE_PAIR_STATUS_NR; i++) {
		if (pair->statuses[i])
			json_unsigned(writer, status_name(i), pair->statuses[i]);
	}
	json_object_end(writer);
}

/* [lower bound in us, count] of the buckets that hold something. */
static void put_histogram(struct json_writer *writer, const struct report_pair *pair)
{
	json_array_begin(writer, "latency_histogram");
	for (size_t i = 0; i < WIRE_QUEUE_PAIR_BUCKET_NR; i++) {
		if (!pair->latency[i])
			continue;
		json_array_begin(writer, NULL);
		json_decimal(writer, NULL, ldexp(1e-3, (int)i), DECIMALS_US);
		json_unsigned(writer, NULL, pair->latency[i]);
		json_array_end(writer);
	}
	json_array_end(writer);
}

static double mean_ns(const struct report_pair *pair)
{
	return pair->latency_count ? (double)pair->latency_sum_ns / (double)pair->latency_count
				   : -1;
}

static uint64_t outstanding(const struct report_pair *pair)
{
	return pair->posted_requests > pair->completed_requests
		       ? pair->posted_requests - pair->completed_requests
		       : 0;
}

static void put_pair(struct json_writer *writer, const struct report_pair *pair)
{
	const char *why = unmeasurable(pair);

	json_object_begin(writer, NULL);
	json_unsigned(writer, "rank", pair->rank);
	if (pair->peer != STEP_RANK_UNKNOWN)
		json_unsigned(writer, "peer", pair->peer);
	else
		json_decimal(writer, "peer", (double)NAN, 1);
	json_unsigned(writer, "queue_pairs", pair->queue_pairs);
	json_unsigned(writer, "live", pair->live);
	json_string(writer, "not_measurable", why ? why : "");
	json_unsigned(writer, "posted_requests", pair->posted_requests);
	json_unsigned(writer, "posted_bytes", pair->posted_bytes);
	json_unsigned(writer, "read_bytes", pair->read_bytes);
	json_unsigned(writer, "refused_requests", pair->post_errors);
	json_unsigned(writer, "completed_requests", pair->completed_requests);
	json_unsigned(writer, "completed_bytes", pair->completed_bytes);
	json_unsigned(writer, "received_requests", pair->received_requests);
	json_unsigned(writer, "received_bytes", pair->received_bytes);
	json_unsigned(writer, "outstanding_requests", outstanding(pair));
	put_measured(writer, "bytes_per_s", pair->bytes_per_s, 1, 1);
	put_measured(writer, "latency_us_mean", mean_ns(pair), 1e-3, DECIMALS_US);
	put_measured(writer, "latency_us_p50", quantile_ns(pair, 0.5), 1e-3, DECIMALS_US);
	put_measured(writer, "latency_us_p99", quantile_ns(pair, 0.99), 1e-3, DECIMALS_US);
	put_measured(writer, "latency_us_max",
		pair->latency_count ? (double)pair->latency_max_ns : -1, 1e-3, DECIMALS_US);
	json_unsigned(writer, "latency_unmeasured", pair->latency_unmeasured);
	put_measured(writer, "port_loss_rate", pair->port_loss, 1, DECIMALS_LOSS);
	json_unsigned(writer, "retry_count", pair->retry_count);
	/* InfiniBand specification, 9.7.6.1.3: 4.096 us * 2^timeout; 0 is none. */
	put_measured(writer, "timeout_us", pair->timeout ? ldexp(4.096, pair->timeout) : -1, 1,
		DECIMALS_US);
	put_statuses(writer, pair);
	put_histogram(writer, pair);
	json_object_end(writer);
}

void report_json_pairs(struct json_writer *writer, const struct report_model *model)
{
	if (model->pair_count == 0)
		return;
	json_array_begin(writer, "pairs");
	for (size_t i = 0; i < model->pair_count; i++)
		put_pair(writer, &model->pairs[i]);
	json_array_end(writer);
	json_unsigned(writer, "pairs_unseen", model->pairs_unseen);
}

static bool is_named(const struct report_model *model, const struct report_pair *pair)
{
	for (size_t i = 0; i < model->verdict_count; i++) {
		const struct verdict *verdict = &model->verdicts[i];

		if (verdict->verdict_class != VERDICT_COMM_SLOW)
			continue;
		for (size_t j = 0; j < look_at_most(verdict->rank_count, VERDICT_RANKS_MAX); j++) {
			if (verdict->ranks[j] == pair->rank || verdict->ranks[j] == pair->peer)
				return true;
		}
		for (size_t j = 0; j < look_at_most(verdict->pairs.count, VERDICT_PAIRS_MAX); j++) {
			if (verdict->pairs.list[j].from == pair->rank ||
				verdict->pairs.list[j].to == pair->rank)
				return true;
		}
	}
	return false;
}

bool report_pairs_text_wanted(const struct report_model *model)
{
	for (size_t i = 0; i < model->pair_count; i++) {
		if (is_named(model, &model->pairs[i]))
			return true;
	}
	return false;
}

static void add_measured(struct line *line, double value, double scale, unsigned decimals)
{
	char text[32];
	struct line number;

	line_init(&number, text, sizeof(text));
	if (value < 0)
		line_add(&number, "?");
	else
		line_add_decimal(&number, value * scale, decimals);
	line_add(line, " %10s", text);
}

static uint64_t error_count(const struct report_pair *pair)
{
	uint64_t sum = 0;

	for (size_t i = 1; i < WIRE_QUEUE_PAIR_STATUS_NR; i++)
		sum += pair->statuses[i];
	return sum;
}

static void write_row(const struct report_pair *pair, FILE *out)
{
	const char *why = unmeasurable(pair);
	char text[ROW_LENGTH], peer[16] = "?";
	struct line line;

	if (pair->peer != STEP_RANK_UNKNOWN)
		snprintf(peer, sizeof(peer), "%u", pair->peer);
	line_init(&line, text, sizeof(text));
	line_add(&line, "  %6u %6s", pair->rank, peer);
	add_measured(&line, (double)pair->completed_bytes, 1e-6, 1);
	add_measured(&line, pair->bytes_per_s, 1e-6, 2);
	add_measured(&line, mean_ns(pair), 1e-6, 3);
	add_measured(&line, quantile_ns(pair, 0.99), 1e-6, 3);
	add_measured(&line, pair->port_loss, 100, 3);
	add_measured(&line, (double)error_count(pair), 1, 0);
	line_add(&line, "%s%s", why ? "  " : "", why ? why : "");
	fprintf(out, "%s\n", text);
}

void report_pairs_text_write(const struct report_model *model, FILE *out)
{
	size_t shown = 0, more = 0;

	fprintf(out, "  %6s %6s %10s %10s %10s %10s %10s %10s\n", "rank", "peer", "MB", "MB/s",
		"mean ms", "p99 ms", "loss %", "errors");
	for (size_t i = 0; i < model->pair_count; i++) {
		if (!is_named(model, &model->pairs[i]))
			continue;
		if (shown < PAIRS_SHOWN)
			write_row(&model->pairs[i], out);
		shown++;
	}
	more = shown > PAIRS_SHOWN ? shown - PAIRS_SHOWN : 0;
	if (more)
		fprintf(out, "  … %zu more (the JSON report has all)\n", more);
	fprintf(out, "  times: posted to completed; loss: packets sent again by the ports that "
		     "the rank uses\n");
}
