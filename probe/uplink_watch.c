/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/uplink_watch.h"

#include <stdio.h>

enum uplink_news uplink_watch_take(
	struct uplink_watch *watch, const struct uplink_state *state, struct host_ns now)
{
	const int64_t silence_ns = INT64_C(1000000) * UPLINK_SILENCE_MS;

	if (state->batches_acknowledged != watch->acknowledged || !state->batches_pending ||
		!watch->heard.value) {
		bool was_silent = watch->silent;

		watch->acknowledged = state->batches_acknowledged;
		watch->heard = now;
		watch->silent = false;
		return was_silent ? UPLINK_HEARD_AGAIN : UPLINK_NO_NEWS;
	}
	if (watch->silent || now.value - watch->heard.value < silence_ns)
		return UPLINK_NO_NEWS;
	watch->silent = true;
	return UPLINK_FELL_SILENT;
}

void uplink_watch_tell(struct uplink_watch *watch, const struct uplink_state *state,
	struct host_ns now, const char *where)
{
	switch (uplink_watch_take(watch, state, now)) {
	case UPLINK_FELL_SILENT:
		fprintf(stderr,
			"slowrank: no answer from the coordinator at %s for %d s; the job goes on, "
			"and what is seen is kept, %.3g MiB at most, until it answers\n",
			where, UPLINK_SILENCE_MS / 1000,
			(double)state->spool_bytes_max / (1 << 20));
		break;
	case UPLINK_HEARD_AGAIN:
		fprintf(stderr, "slowrank: the coordinator at %s answers again\n", where);
		break;
	case UPLINK_NO_NEWS:
		break;
	}
}
