/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiler plug-in as seen from the library's helper thread; NCCL finds it by its symbols
 * (nccl_abi.h). Any thread.
 */
#ifndef SLOWRANK_PROBE_INJECT_NCCL_PLUGIN_H
#define SLOWRANK_PROBE_INJECT_NCCL_PLUGIN_H

#include <stdbool.h>

/* While paused NCCL is asked for no events, so it does nothing for us; for bench/gpu_overhead. */
void nccl_plugin_pause(bool paused);

#endif
