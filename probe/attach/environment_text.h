/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment that a process started with, as NUL-separated NAME=VALUE strings. Reads /proc,
 * keeps nothing; any thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_ENVIRONMENT_TEXT_H
#define SLOWRANK_PROBE_ATTACH_ENVIRONMENT_TEXT_H

#include <stddef.h>
#include <sys/types.h>

/*
 * Returns 0 and a text that the caller frees; -ESRCH when the process is gone, -EACCES without
 * rights, -ENOMEM.
 */
int environment_text_read(pid_t pid, char **text, size_t *length_bytes)
	__attribute__((warn_unused_result));

/* The value of a name, within the text; NULL when it is not set, or name is NULL. */
const char *environment_text_find(const char *text, size_t length_bytes, const char *name);

#endif
