/* SPDX-License-Identifier: Apache-2.0 */
/* libcurl, loaded by whoever needs it: its functions under their own names. */
#ifndef SLOWRANK_COORDINATOR_HTTP_CURL_H
#define SLOWRANK_COORDINATOR_HTTP_CURL_H

#define CURL_DISABLE_TYPECHECK
#define CURL_DISABLE_DEPRECATION
#include <curl/curl.h>

#define CURL_LIBRARY_MISSING "libcurl.so.4 is missing (Debian: libcurl4)"

#define CURL_LIBRARY_FUNCTIONS(ROW)                                                                \
	ROW(curl_global_init)                                                                      \
	ROW(curl_easy_init)                                                                        \
	ROW(curl_easy_cleanup)                                                                     \
	ROW(curl_easy_setopt)                                                                      \
	ROW(curl_easy_perform)                                                                     \
	ROW(curl_easy_getinfo)                                                                     \
	ROW(curl_easy_strerror)                                                                    \
	ROW(curl_slist_append)                                                                     \
	ROW(curl_slist_free_all)

struct curl_library {
#define CURL_LIBRARY_MEMBER(name) __typeof__(&name) name;
	CURL_LIBRARY_FUNCTIONS(CURL_LIBRARY_MEMBER)
#undef CURL_LIBRARY_MEMBER
};

/* Stays loaded. Returns 0 or -ENOENT: then CURL_LIBRARY_MISSING says what to do. */
int curl_library_load(struct curl_library *library) __attribute__((warn_unused_result));

#endif
