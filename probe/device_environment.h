/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a job must find in its environment so that the in-process library gets loaded: by NCCL as its
 * profiler plug-in, by the CUDA driver as an injection. Changes the environment of this process,
 * before the job is started from it; for one thread.
 */
#ifndef SLOWRANK_PROBE_DEVICE_ENVIRONMENT_H
#define SLOWRANK_PROBE_DEVICE_ENVIRONMENT_H

#include "probe/options.h"
#include "probe/wire/message.h"

/*
 * Sets NCCL_PROFILER_PLUGIN, and CUDA_INJECTION64_PATH where options->deep allows kernel timing.
 * A plug-in that the user has set (there, or in NCCL's own files) is left to the library, which loads
 * it and passes everything on; an injection stays as it is, and so does the wish to have no plug-in.
 * why: one line when the library will not be loaded, else "". Returns whether NCCL will load it.
 */
bool device_environment_set(
	const struct probe_options *options, char why[WIRE_DETAIL_LENGTH_MAX + 1]);

/* The library beside this program, or where it is installed. Returns false when it is not there. */
bool device_environment_library(char *path, size_t capacity);

/*
 * Of a process that NCCL's plug-in was given to and that tells no device times: why, if it is the library that
 * is missing there, as one line. Reads its mappings. Returns false when that is not it, or not known.
 */
bool device_environment_explain(pid_t pid, char why[WIRE_DETAIL_LENGTH_MAX + 1]);

#endif
