/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that started a rank on its host: Open MPI's orted (or mpirun itself), MPICH's
 * hydra_pmi_proxy, slurmstepd. Ranks of one daemon are what the launcher takes for one node. Reads
 * /proc, keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_LAUNCHER_DAEMON_H
#define SLOWRANK_PROBE_ATTACH_LAUNCHER_DAEMON_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct launcher_daemon {
	pid_t pid;
	uint64_t start_ticks; /* since boot; with pid it names the process among all of this boot */
};

/*
 * The nearest ancestor whose environment lacks rank_variable: wrappers and shells between have it
 * from the daemon. Returns 0; -ENOENT when there is none that can be seen, -EACCES without
 * rights, -ENOMEM.
 */
int launcher_daemon_find(pid_t rank, const char *rank_variable, struct launcher_daemon *daemon)
	__attribute__((warn_unused_result));

/*
 * Where mpiexec of a Hydra (MPICH) listens for its proxies, as "HOST:PORT", from a proxy's command
 * line: the same on all nodes of a job, and no other's while the job runs. Returns 0, -ENOENT when
 * the process is no such proxy, -ENAMETOOLONG.
 */
int launcher_daemon_control_port(pid_t daemon, char *text, size_t capacity_bytes)
	__attribute__((warn_unused_result));

#endif
