/* SPDX-License-Identifier: Apache-2.0 */
/* The dynamic loader's cache of libraries. Reads the file, keeps nothing. */
#ifndef SLOWRANK_PROBE_ATTACH_LOADER_CACHE_H
#define SLOWRANK_PROBE_ATTACH_LOADER_CACHE_H

/* Calls visit with the path of each library in the cache; a missing or odd cache has none. */
void loader_cache_visit(
	const char *path, void (*visit)(void *context, const char *library), void *context);

#endif
