/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads a profiler plug-in and calls it as NCCL does: dlopen() of NCCL_PROFILER_PLUGIN, the newest
 * table that both know, unloaded with the last communicator. SLOWRANK_STAND_IN_PROFILER=2..6 makes
 * this an NCCL that knows no newer one. Any thread; a communicator is one thread's at a time.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_DEVICE_NCCL_PROFILER_H
#define SLOWRANK_TESTS_WORKLOAD_DEVICE_NCCL_PROFILER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PROFILER_FUNCTIONS = 16, PROFILER_CHANNELS = 4 };

struct profiler_communicator {
	bool loaded; /* holds the plug-in */
	void *context;
	uint64_t hash;
	int rank, rank_count;
	uint64_t sequences[PROFILER_FUNCTIONS]; /* per function */
};

struct profiler_call {
	const char *function; /* as ncclFuncToString() says */
	unsigned function_index;
	const char *datatype;
	size_t count;
	int root; /* or peer */
	bool point_to_point;
	bool graph_captured;
	uint8_t channels;
	void *stream;
};

/* What NCCL keeps with a task, for the channels that end later. */
struct profiler_task {
	void *context;
	void *api, *event;
	int rank;
	int mask; /* what the plug-in asked for when it began */
	uint8_t channels;
	void *kernel_channels[PROFILER_CHANNELS]; /* those that have started */
};

void profiler_begin(
	struct profiler_communicator *communicator, uint64_t hash, int rank, int rank_count);
void profiler_end(struct profiler_communicator *communicator);

/* The user's call; then the launch; then, on the proxy thread, each channel of the kernel. */
void profiler_call_start(struct profiler_communicator *communicator,
	const struct profiler_call *call, struct profiler_task *task);
void profiler_launch(struct profiler_communicator *communicator, const struct profiler_call *call,
	struct profiler_task *task);
void profiler_launched(struct profiler_task *task);
void *profiler_channel_start(const struct profiler_task *task, uint8_t channel, uint64_t timer);
void profiler_channel_stop(void *channel, uint64_t timer);

/* The version in use; 0 = none. */
int profiler_version(void);

#endif
