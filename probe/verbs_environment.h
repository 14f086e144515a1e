/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job must find in its environment so that its processes count their verbs themselves:
 * libslowrank_verbs.so at the end of LD_PRELOAD. Changes the environment of this process, before
 * the job is started from it; for one thread.
 */
#ifndef SLOWRANK_PROBE_VERBS_ENVIRONMENT_H
#define SLOWRANK_PROBE_VERBS_ENVIRONMENT_H

#include "probe/options.h"
#include "probe/wire/message.h"

struct verbs_environment {
	const char *library;	   /* path; NULL: beside this program, or where it is installed */
	const char *device_folder; /* NULL: /sys/class/infiniband */
};

/*
 * Sets LD_PRELOAD where this host has an RDMA device, source rdma is asked for and --verbs is not
 * off; what the user preloads stays before it. Set already: nothing changes. why: one line when it
 * is not set, else "". Returns whether it is set.
 */
bool verbs_environment_set(const struct verbs_environment *environment,
	const struct probe_options *options, char why[WIRE_DETAIL_LENGTH_MAX + 1]);

#endif
