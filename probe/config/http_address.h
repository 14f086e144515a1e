/* SPDX-License-Identifier: Apache-2.0 */
/* Where an HTTP server listens, and what readers may call that place. Any thread. */
#ifndef SLOWRANK_PROBE_CONFIG_HTTP_ADDRESS_H
#define SLOWRANK_PROBE_CONFIG_HTTP_ADDRESS_H

#include <stdbool.h>
#include <sys/socket.h>

enum { HTTP_HOST_LENGTH = 256, HTTP_PORT_LENGTH = 6 };

struct http_address {
	char host[HTTP_HOST_LENGTH]; /* without the brackets of IPv6 */
	char port[HTTP_PORT_LENGTH];
};

/* Reads PORT (of 127.0.0.1), ADDRESS:PORT, NAME:PORT, [ADDRESS]:PORT. Returns 0 or -EINVAL. */
int http_address_parse(const char *text, struct http_address *address)
	__attribute__((warn_unused_result));

/* The address is one of this host's loopback, IPv4's in IPv6 too. */
bool http_address_is_loopback(const struct sockaddr *address);

/*
 * A request's Host is an address, localhost, or name (NULL: none), with or without a port. Such a Host no page of
 * another place can send, whatever its name resolves to (DNS rebinding). host NULL: there is none, false.
 */
bool http_host_is_here(const char *host, const char *name);

#endif
