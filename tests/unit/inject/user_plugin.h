/* SPDX-License-Identifier: Apache-2.0 */
/* A user's profiler plug-in, as the tests see it: what it was told, and whether that was in order. */
#ifndef SLOWRANK_TESTS_UNIT_INJECT_USER_PLUGIN_H
#define SLOWRANK_TESTS_UNIT_INJECT_USER_PLUGIN_H

enum { USER_PLUGIN_TYPES = 16 }; /* bits of the mask */

struct user_plugin {
	/* Before the first communicator: */
	int wish;	 /* the mask that it asks for */
	int fails;	 /* init() does */
	int odd_handles; /* all events of a kind have one handle, that is no address */
	/* What it was told. */
	int begun, ended; /* communicators */
	int started[USER_PLUGIN_TYPES], stopped[USER_PLUGIN_TYPES], states;
	int with_parent[USER_PLUGIN_TYPES]; /* of them, those whose parent it knew */
	int wrong; /* calls that no NCCL makes: unknown handles, wrong parents, a second stop */
	int *mask; /* where it may ask for something else */
};

/* By dlsym() from the plug-in. */
typedef struct user_plugin *(*user_plugin_get)(void);

#endif
