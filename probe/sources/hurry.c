/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/hurry.h"

/* What pauses for less still goes on. */
#define PAUSE_NS INT64_C(500000000)
enum { UNPAID_MOST = 4 };

void hurry_init(struct hurry *hurry, int64_t length_ns, double share, int64_t interval_ns)
{
	*hurry = (struct hurry){.length_ns = length_ns};
	duty_cycle_init(&hurry->duty, share, interval_ns);
}

bool hurry_follow(struct hurry *hurry, bool wanted, struct host_ns now)
{
	if (wanted && (hurry->wanted.value == 0 || now.value - hurry->wanted.value > PAUSE_NS))
		hurry->onset = now;
	if (wanted)
		hurry->wanted = now;
	if (hurry->on && now.value - hurry->start.value >= hurry->length_ns) {
		hurry->on = false;
		duty_cycle_close(&hurry->duty, hurry->start, now.value - hurry->start.value,
			hurry->looks, hurry->cost_ns);
	}
	if (!hurry->on && wanted && now.value - hurry->onset.value < hurry->length_ns &&
		duty_cycle_may_hurry(&hurry->duty, UNPAID_MOST, now)) {
		hurry->on = true;
		hurry->start = now;
		hurry->looks = 0;
		hurry->cost_ns = 0;
	}
	return hurry->on;
}

void hurry_looked(struct hurry *hurry, int64_t cost_ns)
{
	if (!hurry->on)
		return;
	hurry->looks++;
	hurry->cost_ns += cost_ns;
}
