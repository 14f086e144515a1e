/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/tcp.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/sources/socket_inodes.h"

enum {
	SOCKETS_MAX = SOCKET_INODES_MAX,
};

/* New sockets are found this late at most. */
#define INODES_REFRESH_NS INT64_C(4500000000)
/* A rank that sent nothing for so long is looked at every five seconds only: the kernel's answer is dear. */
#define QUIET_NS INT64_C(10000000000)
#define QUIET_INTERVAL_NS INT64_C(4500000000)

struct tracked {
	struct tcp_socket socket; /* as of the last sample that saw it */
	bool seen;		  /* in this sample */
	bool active;		  /* it sent something since the sample before */
};

struct tcp_sampler {
	struct sampler base;
	struct tcp_tables *tables, *own_tables;	  /* the latter NULL: shared */
	struct host_ns inodes_read, sent, looked; /* when they were, something was, it was last */
	bool has_inodes;
	struct socket_inodes inodes;
	uint64_t not_tracked; /* sockets that did not fit, in the last sample */
	bool without_bytes;   /* the kernel is too old to count bytes */
	/* What closed sockets had counted when they were last seen. */
	int64_t closed_busy_us, closed_sent, closed_retransmitted;
	size_t socket_count;
	struct tracked sockets[SOCKETS_MAX]; /* by cookie */
};

/* The index of the cookie, or where it belongs. */
static size_t find(const struct tcp_sampler *sampler, uint64_t cookie)
{
	size_t low = 0, high = sampler->socket_count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (sampler->sockets[middle].socket.cookie < cookie)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void on_socket(void *context, const struct tcp_socket *socket)
{
	struct tcp_sampler *sampler = context;
	struct tracked *tracked;
	size_t index;

	if (!socket_inodes_has(&sampler->inodes, socket->inode))
		return;
	index = find(sampler, socket->cookie);
	tracked = &sampler->sockets[index];
	if (index == sampler->socket_count || tracked->socket.cookie != socket->cookie) {
		if (sampler->socket_count == SOCKETS_MAX) {
			sampler->not_tracked++;
			return;
		}
		memmove(tracked + 1, tracked,
			(sampler->socket_count - index) * sizeof(sampler->sockets[0]));
		sampler->socket_count++;
		*tracked = (struct tracked){.socket = {.cookie = socket->cookie}};
	}
	tracked->active = socket->bytes_sent > tracked->socket.bytes_sent;
	tracked->socket = *socket;
	tracked->seen = true;
	sampler->without_bytes |= !socket->has_bytes;
}

/* Sockets that were not seen are closed: their last counts stay in the sums. */
static void retire_closed(struct tcp_sampler *sampler)
{
	size_t kept = 0;

	for (size_t i = 0; i < sampler->socket_count; i++) {
		const struct tracked *tracked = &sampler->sockets[i];

		if (tracked->seen) {
			sampler->sockets[kept++] = *tracked;
			continue;
		}
		sampler->closed_busy_us += tracked->socket.busy_us;
		sampler->closed_sent += tracked->socket.bytes_sent;
		sampler->closed_retransmitted += tracked->socket.bytes_retransmitted;
	}
	sampler->socket_count = kept;
}

static void explain(struct tcp_sampler *sampler, int error)
{
	switch (error) {
	case -ENOENT:
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"the kernel cannot list TCP sockets: load the module tcp_diag");
		break;
	case -EPERM:
	case -EACCES:
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"no right to look at the rank's sockets: needs CAP_SYS_PTRACE and "
			"CAP_SYS_ADMIN (setns)");
		break;
	case -E2BIG:
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"the host has more than %d TCP sockets: too many to look at",
			TCP_TABLE_SOCKETS_MAX);
		break;
	default:
		sampler_set_state(&sampler->base, SOURCE_MISSING,
			"the rank's TCP sockets cannot be read: %s", strerror(-error));
	}
}

static int read_sockets(struct tcp_sampler *sampler, struct host_ns now)
{
	int error;

	if (!sampler->has_inodes || now.value - sampler->inodes_read.value >= INODES_REFRESH_NS) {
		error = socket_inodes_read(sampler->base.pid, &sampler->inodes);
		if (error < 0)
			return error;
		sampler->has_inodes = true;
		sampler->inodes_read = now;
	}
	for (size_t i = 0; i < sampler->socket_count; i++)
		sampler->sockets[i].seen = sampler->sockets[i].active = false;
	sampler->not_tracked = 0;
	error = tcp_tables_look(sampler->tables, sampler->base.pid, now, on_socket, sampler);
	if (error < 0)
		return error;
	retire_closed(sampler);
	return 0;
}

static void note_sent(struct tcp_sampler *sampler, struct host_ns now)
{
	bool sent = sampler->looked.value == 0; /* what was before the first look is not known */

	for (size_t i = 0; i < sampler->socket_count && !sent; i++)
		sent = sampler->sockets[i].active;
	if (sent)
		sampler->sent = now;
	sampler->looked = now;
}

static void sum_up(struct tcp_sampler *sampler, struct sample_list *list)
{
	int64_t busy_us = sampler->closed_busy_us, sent = sampler->closed_sent;
	int64_t retransmitted = sampler->closed_retransmitted;

	for (size_t i = 0; i < sampler->socket_count; i++) {
		busy_us += sampler->sockets[i].socket.busy_us;
		sent += sampler->sockets[i].socket.bytes_sent;
		retransmitted += sampler->sockets[i].socket.bytes_retransmitted;
	}
	if (!sampler->without_bytes) {
		sample_list_add(list, METRIC_TCP_BUSY_NS, busy_us * 1000);
		sample_list_add(list, METRIC_TCP_BYTES_SENT, sent);
		sample_list_add(list, METRIC_TCP_BYTES_RETRANSMITTED, retransmitted);
	}
}

static size_t tcp_sample(
	struct sampler *base, struct host_ns now, struct metric_sample *out, size_t capacity)
{
	struct tcp_sampler *sampler = (struct tcp_sampler *)base;
	struct sample_list list = {
		.out = out, .capacity = capacity, .rank = base->rank, .now = now};
	int error;

	if (now.value - sampler->sent.value >= QUIET_NS &&
		now.value - sampler->looked.value < QUIET_INTERVAL_NS)
		return 0;
	error = read_sockets(sampler, now);
	if (error == -ESRCH)
		return 0; /* gone: keeps the state it had */
	if (error < 0) {
		explain(sampler, error);
		return 0;
	}
	if (sampler->without_bytes)
		sampler_set_state(base, SOURCE_DEGRADED,
			"this kernel does not count bytes per socket (needs 4.19): only the "
			"round-trip time is seen");
	else if (sampler->inodes.cut || sampler->not_tracked)
		sampler_set_state(base, SOURCE_DEGRADED,
			"the rank has more than %d sockets: the rest is not seen", SOCKETS_MAX);
	else
		sampler_set_state(base, SOURCE_ON, "%s", "");
	note_sent(sampler, now);
	sum_up(sampler, &list);
	return list.count;
}

static void tcp_destroy(struct sampler *base)
{
	struct tcp_sampler *sampler = (struct tcp_sampler *)base;

	tcp_tables_destroy(sampler->own_tables);
	free(sampler);
}

int tcp_sampler_create(pid_t pid, uint32_t rank, struct tcp_tables *tables, struct sampler **result)
{
	static const struct sampler_operations operations = {
		.sample = tcp_sample, .destroy = tcp_destroy};
	struct tcp_sampler *sampler = calloc(1, sizeof(*sampler));
	int error;

	if (!sampler)
		return -ENOMEM;
	sampler_init(&sampler->base, &operations, "tcp", pid, rank);
	if (!tables && tcp_tables_create(&sampler->own_tables) < 0) {
		free(sampler);
		return -ENOMEM;
	}
	sampler->tables = tables ? tables : sampler->own_tables;
	error = read_sockets(sampler, (struct host_ns){0}); /* the first look, for the state */
	if (error < 0)
		explain(sampler, error);
	*result = &sampler->base;
	return 0;
}
