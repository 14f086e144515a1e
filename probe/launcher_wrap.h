/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `slowrank run -- LAUNCHER [OPTION...] PROGRAM` where the ranks will be on other hosts, too: it becomes
 * what `LAUNCHER [OPTION...] slowrank run -- PROGRAM` is. A host without slowrank starts the program as it
 * is. Changes the environment of this process; one thread.
 */
#ifndef SLOWRANK_PROBE_LAUNCHER_WRAP_H
#define SLOWRANK_PROBE_LAUNCHER_WRAP_H

#include "probe/options.h"

/*
 * Returns true when options->command starts slowrank with each rank: this process is to become it, and
 * to watch nothing itself. False: it is as it was; one line on stderr where ranks will not be seen so.
 */
bool launcher_wrap(struct probe_options *options);

#endif
