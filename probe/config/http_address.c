/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/config/http_address.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* "[host]:port" or "host:port"; without a port, *port is NULL. False where it is neither. */
static bool split(const char *text, char host[HTTP_HOST_LENGTH], const char **port)
{
	bool bracketed = *text == '[';
	size_t length = strcspn(text += bracketed, bracketed ? "]" : ":");
	const char *rest = text + length;

	if (bracketed && *rest++ != ']')
		return false;
	if (length == 0 || length >= HTTP_HOST_LENGTH || (*rest && *rest != ':'))
		return false;
	memcpy(host, text, length);
	host[length] = '\0';
	*port = *rest ? rest + 1 : NULL;
	return true;
}

static bool is_port(const char *text)
{
	size_t length = strspn(text, "0123456789");

	return length > 0 && length < HTTP_PORT_LENGTH && !text[length] && atoi(text) <= 65535;
}

int http_address_parse(const char *text, struct http_address *address)
{
	struct http_address parsed = {.host = "127.0.0.1"};
	const char *port = text;

	if (!is_port(text) && (!split(text, parsed.host, &port) || !port || !is_port(port)))
		return -EINVAL;
	snprintf(parsed.port, sizeof(parsed.port), "%s", port);
	*address = parsed;
	return 0;
}

static bool is_literal(const char *host)
{
	struct in6_addr ignored;

	return inet_pton(AF_INET, host, &ignored) == 1 || inet_pton(AF_INET6, host, &ignored) == 1;
}

bool http_address_is_loopback(const struct sockaddr *address)
{
	const struct sockaddr_in6 *six = (const void *)address;
	const struct sockaddr_in *four = (const void *)address;

	if (address->sa_family == AF_INET)
		return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	return address->sa_family == AF_INET6 &&
	       (IN6_IS_ADDR_LOOPBACK(&six->sin6_addr) ||
		       (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr) &&
			       six->sin6_addr.s6_addr[12] == IN_LOOPBACKNET));
}

bool http_host_is_here(const char *host, const char *name)
{
	char asked[HTTP_HOST_LENGTH];
	const char *port;

	if (!host || !split(host, asked, &port) || (port && *port && !is_port(port)))
		return false;
	return is_literal(asked) || strcasecmp(asked, "localhost") == 0 ||
	       (name && strcasecmp(asked, name) == 0);
}
