/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a process's cgroups are in the file system: v1, v2 and both at once (hybrid), in
 * containers too. Pure functions of /proc texts, and one that reads /proc. No state; any thread.
 *
 * Both /proc/PID/cgroup and the root field of mountinfo are relative to the cgroup namespace
 * of whoever reads them (cgroup_namespaces(7)), so the two fit together in any namespace; a
 * path that lies outside of what a mount shows is looked for in the process's own mounts.
 */
#ifndef SLOWRANK_PROBE_SOURCES_CGROUP_PLACE_H
#define SLOWRANK_PROBE_SOURCES_CGROUP_PLACE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum { CGROUP_PATH_LENGTH = 512 };

struct cgroup_place {
	bool found;
	bool unified;			    /* cgroup v2 */
	size_t top_length;		    /* bytes of directory that are the mount point */
	char directory[CGROUP_PATH_LENGTH]; /* of the process's group */
};

/*
 * The group of the process for a v1 controller ("cpu", "memory"), or its v2 group (controller
 * ""), as written in the text of /proc/PID/cgroup. False when there is no such line, or the
 * path is too long.
 */
bool cgroup_path_of(const char *cgroup_text, const char *controller, char path[CGROUP_PATH_LENGTH]);

/*
 * Finds the directory of that path through the mounts in a mountinfo text; prefix is put
 * before mount points ("" or "/proc/PID/root"). False when no mount shows it.
 */
bool cgroup_place_from_texts(const char *mountinfo_text, const char *prefix, const char *controller,
	const char *path, struct cgroup_place *place);

/*
 * The place of a controller's files for a process: v1 if the controller is mounted as v1, else
 * v2. Looks in the mounts of this process, then in those of pid. cgroup_text is that of pid.
 */
bool cgroup_place_find(
	pid_t pid, const char *cgroup_text, const char *controller, struct cgroup_place *place);

/*
 * Opens a file in the group that the first length bytes of the place's directory name, for reading.
 * The process may have mounted or linked anything there: only what a cgroup file system holds is
 * opened. Returns a descriptor or a negative errno.
 */
int cgroup_open(const struct cgroup_place *place, size_t length, const char *name)
	__attribute__((warn_unused_result));

/* True when nothing above the place's top is hidden: it is the real root of the hierarchy. */
bool cgroup_top_is_root(const struct cgroup_place *place);

#endif
