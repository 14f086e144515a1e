/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/http/curl.h"

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

int curl_library_load(struct curl_library *library)
{
	void *handle = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
	bool whole;

	if (!handle)
		handle = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
	whole = handle != NULL;
#define CURL_LIBRARY_FIND(name) whole = whole && find(handle, #name, &library->name);
	CURL_LIBRARY_FUNCTIONS(CURL_LIBRARY_FIND)
#undef CURL_LIBRARY_FIND
	return whole ? 0 : -ENOENT;
}
