/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libraries that the dynamic loader will map for a program, found before it runs: what it
 * and its libraries need, searched where the loader searches. Reads files, keeps nothing.
 */
#ifndef SLOWRANK_PROBE_ATTACH_DEPENDENCIES_H
#define SLOWRANK_PROBE_ATTACH_DEPENDENCIES_H

/*
 * Calls visit once with the path of each library that was found, the program left out; at most
 * 256 of them. search: colon-separated folders as in LD_LIBRARY_PATH, or NULL.
 */
void dependencies_visit(const char *program, const char *search,
	void (*visit)(void *context, const char *library), void *context);

#endif
