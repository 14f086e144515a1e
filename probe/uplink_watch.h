/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says when the coordinator stays silent, and when it is heard again: a job of hours should not tell
 * at its end that nobody listened. For one thread; the clock is an argument.
 */
#ifndef SLOWRANK_PROBE_UPLINK_WATCH_H
#define SLOWRANK_PROBE_UPLINK_WATCH_H

#include "probe/uplink.h"

enum { UPLINK_SILENCE_MS = 10000 };

/* All zero at first. */
struct uplink_watch {
	uint64_t acknowledged;
	struct host_ns heard; /* or since when there is something to answer */
	bool silent;	      /* and that was said */
};

enum uplink_news {
	UPLINK_NO_NEWS = 0,
	UPLINK_FELL_SILENT = 1,
	UPLINK_HEARD_AGAIN = 2,
};

/* Takes the uplink's state, some times a second. Returns what is to be said, once for each change. */
enum uplink_news uplink_watch_take(
	struct uplink_watch *watch, const struct uplink_state *state, struct host_ns now);

/* The same, said in one line on stderr. where: the coordinator's URL, or URLs. */
void uplink_watch_tell(struct uplink_watch *watch, const struct uplink_state *state,
	struct host_ns now, const char *where);

#endif
