/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernel, copy and synchronisation activity by CUPTI, while the probe wants it. CUPTI is taken from
 * the process, or from beside libcudart; it has one subscriber at a time (before CUDA 13.3), so we
 * give way to any other, and hold the place only during a look. Only the helper thread calls.
 */
#ifndef SLOWRANK_PROBE_INJECT_DEEP_LOOK_H
#define SLOWRANK_PROBE_INJECT_DEEP_LOOK_H

/* Starts, goes on with or ends a look, as the ring's control area says. */
void deep_look_poll(void);

#endif
