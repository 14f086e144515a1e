/* SPDX-License-Identifier: Apache-2.0 */
/* libmicrohttpd, loaded by whoever needs it: its functions under their own names. */
#ifndef SLOWRANK_COORDINATOR_HTTP_LIBRARY_H
#define SLOWRANK_COORDINATOR_HTTP_LIBRARY_H

#include <microhttpd.h>

/* All that is used; the oldest version that has them is 0.9.59. */
#define HTTP_LIBRARY_FUNCTIONS(ROW)                                                                \
	ROW(MHD_start_daemon)                                                                      \
	ROW(MHD_stop_daemon)                                                                       \
	ROW(MHD_run)                                                                               \
	ROW(MHD_get_timeout)                                                                       \
	ROW(MHD_get_daemon_info)                                                                   \
	ROW(MHD_get_connection_info)                                                               \
	ROW(MHD_lookup_connection_value)                                                           \
	ROW(MHD_create_response_from_callback)                                                     \
	ROW(MHD_add_response_header)                                                               \
	ROW(MHD_queue_response)                                                                    \
	ROW(MHD_destroy_response)

struct http_library {
#define HTTP_LIBRARY_MEMBER(name) __typeof__(&name) name;
	HTTP_LIBRARY_FUNCTIONS(HTTP_LIBRARY_MEMBER)
#undef HTTP_LIBRARY_MEMBER
};

/* Stays loaded. Returns 0 or -ENOENT. */
int http_library_load(struct http_library *library) __attribute__((warn_unused_result));

#endif
