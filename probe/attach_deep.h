/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach --deep: puts libslowrank_inject.so into the ranks of a job that already runs, after saying
 * so. Before the session starts (it forks; nng may not be loaded yet). One thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_DEEP_H
#define SLOWRANK_PROBE_ATTACH_DEEP_H

#include "probe/options.h"
#include "probe/wire/message.h"

struct attach_process {
	pid_t pid, parent;
};

struct attach_deep_result {
	size_t rank_count, loaded_count; /* loaded: or there already */
	int64_t longest_stop_ns;
	char coverage[WIRE_DETAIL_LENGTH_MAX + 1]; /* what was touched, and what not and why */
};

/*
 * tree: the processes of the job. Returns false when the user, asked on a terminal, said no; else
 * true, whatever could be loaded: the watch goes on without the rest. Says on stderr what it does.
 */
bool attach_deep(const struct probe_options *options, const struct attach_process *tree,
	size_t count, struct attach_deep_result *result);

#endif
