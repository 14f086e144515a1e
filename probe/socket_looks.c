/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/socket_looks.h"

#define REGULAR_NS INT64_C(1000000000)
#define REGULAR_MOST_NS INT64_C(60000000000)
#define HURRY_NS INT64_C(1000000000)
/* No look sooner after another; less than two turns of the probe's loop, which come a little early or late. */
#define HURRIED_NS INT64_C(90000000)
/* Between the beginnings of two hurries; and what all of them may cost, of a core. */
#define HURRY_INTERVAL_NS INT64_C(5000000000)
static const double hurry_share = 0.001;

void socket_looks_init(struct socket_looks *looks)
{
	*looks = (struct socket_looks){0};
	hurry_init(&looks->hurry, HURRY_NS, hurry_share, HURRY_INTERVAL_NS);
}

/* So long after the last look the next one is due, whatever happens. */
static int64_t regular_ns(int64_t step_ns)
{
	int64_t interval_ns = step_ns + step_ns / 4;

	if (interval_ns > REGULAR_MOST_NS)
		return REGULAR_MOST_NS;
	return interval_ns > REGULAR_NS ? interval_ns : REGULAR_NS;
}

bool socket_looks_due(struct socket_looks *looks, const struct job_news *news, struct host_ns now)
{
	int64_t since_ns = now.value - looks->looked.value;
	bool hurried = hurry_follow(&looks->hurry, news->slower, now);

	if (since_ns < HURRIED_NS ||
		(!hurried && !news->long_step_ended && since_ns < regular_ns(news->step_ns)))
		return false;
	looks->looked = now;
	return true;
}

void socket_looks_done(struct socket_looks *looks, int64_t cost_ns)
{
	hurry_looked(&looks->hurry, cost_ns);
}
