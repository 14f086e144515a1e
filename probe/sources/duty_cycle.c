/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/duty_cycle.h"

void duty_cycle_init(struct duty_cycle *duty, double share, int64_t interval_ns)
{
	*duty = (struct duty_cycle){.share = share, .interval_ns = interval_ns};
}

bool duty_cycle_is_due(const struct duty_cycle *duty, struct host_ns now)
{
	return now.value >= duty->next_ns;
}

bool duty_cycle_may_hurry(const struct duty_cycle *duty, unsigned unpaid_most, struct host_ns now)
{
	return now.value >= duty->next_ns - (int64_t)unpaid_most * duty->rest_ns;
}

void duty_cycle_close(struct duty_cycle *duty, struct host_ns start, int64_t open_ns, uint64_t hits,
	int64_t cost_ns)
{
	int64_t rest_ns, from_ns = start.value < duty->next_ns ? duty->next_ns : start.value;

	if (cost_ns > open_ns)
		cost_ns = open_ns;
	duty->windows++;
	duty->hits += hits;
	duty->open_ns += open_ns;
	duty->cost_ns += cost_ns;
	rest_ns = (int64_t)((double)cost_ns / duty->share);
	duty->rest_ns = rest_ns > duty->interval_ns ? rest_ns : duty->interval_ns;
	duty->next_ns = from_ns + duty->rest_ns;
}
