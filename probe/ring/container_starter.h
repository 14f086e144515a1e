/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Commands that start others in another root, with their own environment. A path in LD_PRELOAD means something else there, or
 * nothing, and the loader would say so in each process. Pure; any thread.
 */
#ifndef SLOWRANK_PROBE_RING_CONTAINER_STARTER_H
#define SLOWRANK_PROBE_RING_CONTAINER_STARTER_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

/* Of a word of a command line: such a command, or Slurm's option for one (Pyxis). */
static inline bool is_container_starter(const char *word)
{
	static const char *const names[] = {"apptainer", "singularity", "enroot", "docker",
		"podman", "nerdctl", "ch-run", "shifter", "sarus", "bwrap", "chroot", "unshare",
		"nsenter", "systemd-nspawn", "proot"};
	const char *slash = strrchr(word, '/');

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(slash ? slash + 1 : word, names[i]) == 0)
			return true;
	}
	return strncmp(word, "--container-image", strlen("--container-image")) == 0;
}

#endif
