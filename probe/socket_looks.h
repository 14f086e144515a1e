/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When the probe looks at the ranks' sockets, and how much their processes run: once a second, so that it costs next to nothing; ten times a
 * second, for one second, where steps became longer, so that a slow link is named within a second and not
 * when the next sample happens to come; where steps last a second and more, when each ends: in parts of them
 * sockets do now more, now less. Hurries keep within a share of a core. No I/O, no clock. One thread.
 */
#ifndef SLOWRANK_PROBE_SOCKET_LOOKS_H
#define SLOWRANK_PROBE_SOCKET_LOOKS_H

#include "probe/job.h"
#include "probe/options.h"
#include "probe/sources/hurry.h"

/* Whose transfers are long is told by the ranks' sockets, and by how much their processes ran meanwhile. */
#define SOCKET_LOOK_SOURCES (PROBE_SOURCE_TCP | PROBE_SOURCE_PROCFS)

struct socket_looks {
	struct host_ns looked; /* last; 0: never */
	struct hurry hurry;
};

void socket_looks_init(struct socket_looks *looks);

/* Whether to look now; news: of the job since the last call. */
bool socket_looks_due(struct socket_looks *looks, const struct job_news *news, struct host_ns now);

/* What the look cost, CPU time. */
void socket_looks_done(struct socket_looks *looks, int64_t cost_ns);

#endif
