/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/look.h"

#include <string.h>

int64_t look_unix_ns(struct job_ns time, int64_t unix_offset_ns)
{
	int64_t sum;

	if (__builtin_add_overflow(time.value, unix_offset_ns, &sum))
		return unix_offset_ns > 0 ? INT64_MAX : INT64_MIN;
	return sum;
}

double look_ms_per_step(int64_t sum_ns, uint64_t steps)
{
	return steps ? (double)sum_ns / (double)steps / 1e6 : 0.0;
}

const struct report_rank *look_rank(const struct report_model *model, uint32_t rank)
{
	size_t low = 0, high = model->rank_count;

	while (low < high) { /* ranks are sorted, but some may be missing */
		size_t middle = low + (high - low) / 2;
		uint32_t found = model->ranks[middle].totals.rank;

		if (found == rank)
			return &model->ranks[middle];
		if (found < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return NULL;
}

bool look_is_named(const struct report_model *model, uint32_t rank)
{
	for (size_t i = 0; i < model->verdict_count; i++) {
		if (verdict_names(&model->verdicts[i], rank))
			return true;
	}
	return false;
}

const char *look_host(const struct report_model *model, uint32_t rank)
{
	const struct report_rank *row = look_rank(model, rank);

	return row && row->host ? row->host : "";
}

const char *look_common_host(const struct report_model *model, const uint32_t *ranks, size_t count)
{
	const char *host = count ? look_host(model, ranks[0]) : "";

	for (size_t i = 1; i < count; i++) {
		if (strcmp(host, look_host(model, ranks[i])) != 0)
			return NULL;
	}
	return *host ? host : NULL;
}

bool look_two_hosts(
	const struct report_model *model, const uint32_t *ranks, size_t count, const char *hosts[2])
{
	hosts[0] = hosts[1] = count ? look_host(model, ranks[0]) : "";
	for (size_t i = 1; i < count; i++) {
		const char *host = look_host(model, ranks[i]);

		if (strcmp(host, hosts[0]) == 0 || strcmp(host, hosts[1]) == 0)
			continue;
		if (hosts[0] != hosts[1])
			return false;
		hosts[1] = host;
	}
	return hosts[0] != hosts[1] && *hosts[0] && *hosts[1];
}

const struct alert_limits *look_alert_limits(const struct report_model *model)
{
	const struct alert_limits *limits = model->alerts ? &model->alerts->limits : NULL;

	return limits && (limits->slowdown > 0 || limits->after_ns > 0 || limits->imbalance > 0)
		       ? limits
		       : NULL;
}

const struct verdict_evidence *look_main_evidence(const struct verdict *verdict)
{
	size_t count = look_at_most(verdict->evidence_count, VERDICT_EVIDENCE_MAX);

	for (size_t i = 0; i < count; i++) {
		if (verdict->evidence[i].kind == verdict->cause)
			return &verdict->evidence[i];
	}
	return count ? &verdict->evidence[0] : NULL;
}

bool look_is_worse(const struct verdict *one, const struct verdict *other)
{
	if (one->ended != other->ended)
		return !one->ended;
	if ((one->verdict_class == VERDICT_HANG) != (other->verdict_class == VERDICT_HANG))
		return one->verdict_class == VERDICT_HANG;
	if (one->slowdown > other->slowdown || one->slowdown < other->slowdown)
		return one->slowdown > other->slowdown;
	return one->id < other->id;
}
