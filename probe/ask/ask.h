/* SPDX-License-Identifier: Apache-2.0 */
/* Asks the coordinator of a job that runs for a look at a rank, and waits for it. One thread. */
#ifndef SLOWRANK_PROBE_ASK_ASK_H
#define SLOWRANK_PROBE_ASK_ASK_H

#include "probe/options.h"
#include "probe/wire/message.h"

/*
 * Fills in who asks, and of which job, and waits for the look. Returns 0: *answer has one, which the caller destroys; 2
 * after saying in one line why there is none. command: what the line begins with.
 */
int ask_look(const struct probe_options *options, const char *command,
	struct message_question *question, struct message_answer **answer)
	__attribute__((warn_unused_result));

#endif
