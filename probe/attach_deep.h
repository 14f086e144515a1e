/* SPDX-License-Identifier: Apache-2.0 */
/*
 * attach --deep: puts libslowrank_inject.so into the ranks of a job that already runs, after saying so.
 * Which processes are ranks is not guessed: one is, when it makes a collective call and has a GPU's libraries. A
 * launcher that only has the libraries, and helpers that inherit a rank's name and mappings, make none.
 *
 * The loading is the work of a process of its own, forked before the session starts (nng may not be
 * in a process that forks) and told by the session who called; it ends with it. One thread.
 */
#ifndef SLOWRANK_PROBE_ATTACH_DEEP_H
#define SLOWRANK_PROBE_ATTACH_DEEP_H

#include "probe/options.h"
#include "probe/wire/message.h"

struct attach_deep;

/*
 * Says on stderr what it will do. Returns -ECANCELED when the user, asked on a terminal, said no; -ENOMEM;
 * else 0, whatever can be loaded. The caller owns *deep.
 */
int attach_deep_create(const struct probe_options *options, struct attach_deep **deep)
	__attribute__((warn_unused_result));
void attach_deep_destroy(struct attach_deep *deep); /* NULL is fine */

/* The file descriptor by which the loading process is told: of a process that closes its files, to keep. -1: none. */
int attach_deep_descriptor(const struct attach_deep *deep); /* NULL is fine */

/* A process made a collective call: has the library loaded into it, once. NULL is fine. */
void attach_deep_called(struct attach_deep *deep, pid_t pid);
/* It ended; its number may be another's later. */
void attach_deep_ended(struct attach_deep *deep, pid_t pid);

/* Takes what the loading process has done since; says on stderr what failed. */
void attach_deep_poll(struct attach_deep *deep);

/* "device.attach": what was touched, and what not and why. */
void attach_deep_state(const struct attach_deep *deep, struct message_source *out);

#endif
