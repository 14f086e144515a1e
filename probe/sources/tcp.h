/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sampler of a rank's TCP sockets: how long they had data to send, bytes sent and sent again,
 * round-trip time. Looks in the rank's own network namespace. Source "tcp". Measured: 0.1
 * to 0.5 ms per sample with 128 sockets (tests/unit/sources).
 */
#ifndef SLOWRANK_PROBE_SOURCES_TCP_H
#define SLOWRANK_PROBE_SOURCES_TCP_H

#include "probe/sources/sampler.h"
#include "probe/sources/tcp_tables.h"

/*
 * tables is shared by the ranks of a host and outlives the sampler; NULL: it has its own. Samples
 * with the same now share what the kernel said. Returns 0 or -ENOMEM; what
 * cannot be measured is in the state.
 */
int tcp_sampler_create(pid_t pid, uint32_t rank, struct tcp_tables *tables,
	struct sampler **sampler) __attribute__((warn_unused_result));

#endif
