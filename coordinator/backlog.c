/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/backlog.h"

/* Clocks drift apart by less than one part in this many. */
enum { DRIFT_PARTS = 5000 };

/* How much later than the shortest way a batch came in. */
static int64_t late_ns(struct probe_backlog *probe, struct host_ns made, struct job_ns received)
{
	int64_t way_ns = received.value - made.value;

	if (probe->known)
		probe->least_way_ns += (received.value - probe->received.value) / DRIFT_PARTS;
	if (!probe->known || way_ns < probe->least_way_ns)
		probe->least_way_ns = way_ns;
	probe->known = true;
	probe->received = received;
	return way_ns - probe->least_way_ns;
}

enum backlog_change backlog_take(struct backlog *backlog, struct probe_backlog *probe,
	struct host_ns made, struct job_ns received, bool last)
{
	int64_t behind_ns = late_ns(probe, made, received);
	bool was_late = probe->late;

	probe->late = !last && behind_ns > (was_late ? BACKLOG_CAUGHT_UP_NS : BACKLOG_LATE_NS);
	if (behind_ns > backlog->most_ns && (probe->late || was_late))
		backlog->most_ns = behind_ns;
	if (probe->late == was_late)
		return BACKLOG_SAME;
	if (probe->late && backlog->late_count++ == 0) {
		backlog->most_ns = behind_ns;
		return BACKLOG_BEGAN;
	}
	if (probe->late)
		return BACKLOG_SAME;
	return --backlog->late_count == 0 ? BACKLOG_CAUGHT_UP : BACKLOG_SAME;
}
