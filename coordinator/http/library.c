/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/http/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <string.h>

/* ISO C has no conversion from an object's pointer to a function's. */
static bool find(void *library, const char *name, void *function)
{
	void *found = dlsym(library, name);

	memcpy(function, &found, sizeof(found));
	return found != NULL;
}

int http_library_load(struct http_library *library)
{
	struct http_library loaded;
	void *handle = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);
	bool whole = handle != NULL;

#define HTTP_LIBRARY_FIND(name) whole = whole && find(handle, #name, &loaded.name);
	HTTP_LIBRARY_FUNCTIONS(HTTP_LIBRARY_FIND)
#undef HTTP_LIBRARY_FIND
	if (!whole)
		return -ENOENT;
	*library = loaded;
	return 0;
}
