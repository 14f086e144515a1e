/* SPDX-License-Identifier: Apache-2.0 */
/* Which host this is, for the coordinator. Any thread. */
#ifndef SLOWRANK_PROBE_HOST_ID_H
#define SLOWRANK_PROBE_HOST_ID_H

#include <stdint.h>

/*
 * A hash of the boot id; of the host's name where there is none. Two probes with one boot id share
 * CLOCK_MONOTONIC, whatever network namespace they are in.
 */
uint64_t host_id(void);

#endif
