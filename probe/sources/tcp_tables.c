/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/sources/tcp_tables.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "probe/sources/net_namespace.h"
#include "probe/sources/netlink_dump.h"

enum { TABLES_MAX = 64 }; /* network namespaces at once; beyond them the least recently used goes */

struct table {
	uint64_t namespace_id;
	int fd; /* -1: not open */
	bool whole;
	struct host_ns taken;
	uint32_t dumps;
	bool too_many;
	size_t count, capacity;
	struct tcp_socket *sockets;
};

struct tcp_tables {
	size_t count;
	struct table tables[TABLES_MAX];
};

int tcp_tables_create(struct tcp_tables **tables)
{
	struct tcp_tables *made = calloc(1, sizeof(*made));

	if (!made)
		return -ENOMEM;
	*tables = made;
	return 0;
}

static void table_fini(struct table *table)
{
	if (table->fd >= 0)
		close(table->fd);
	free(table->sockets);
}

void tcp_tables_destroy(struct tcp_tables *tables)
{
	if (!tables)
		return;
	for (size_t i = 0; i < tables->count; i++)
		table_fini(&tables->tables[i]);
	free(tables);
}

static struct table *find_or_add(struct tcp_tables *tables, uint64_t namespace_id)
{
	struct table *oldest = &tables->tables[0];

	for (size_t i = 0; i < tables->count; i++) {
		struct table *table = &tables->tables[i];

		if (table->namespace_id == namespace_id)
			return table;
		if (table->taken.value < oldest->taken.value)
			oldest = table;
	}
	if (tables->count < TABLES_MAX)
		oldest = &tables->tables[tables->count++];
	else
		table_fini(oldest);
	*oldest = (struct table){.namespace_id = namespace_id, .fd = -1};
	return oldest;
}

static void keep(void *context, const struct tcp_socket *socket)
{
	struct table *table = context;

	if (socket->inode == 0) /* no process holds it any more */
		return;
	if (table->count == table->capacity) {
		size_t capacity = table->capacity ? 2 * table->capacity : 64;
		struct tcp_socket *sockets = NULL;

		if (capacity <= TCP_TABLE_SOCKETS_MAX)
			sockets = reallocarray(table->sockets, capacity, sizeof(*sockets));
		if (!sockets) {
			table->too_many = true;
			return;
		}
		table->sockets = sockets;
		table->capacity = capacity;
	}
	table->sockets[table->count++] = *socket;
}

static int fill(struct table *table, pid_t pid, struct host_ns now)
{
	int error = netlink_follow(pid, NETLINK_SOCK_DIAG, &table->fd, &table->namespace_id);

	if (error < 0)
		return error;
	table->taken = now;
	table->whole = false;
	table->too_many = false;
	table->count = 0;
	error = tcp_dump(table->fd, ++table->dumps, keep, table);
	if (error == 0 && table->too_many)
		error = -E2BIG;
	if (error < 0) {
		/* The rest of its answer is not waited for: the next one has another number. */
		netlink_drain(table->fd);
		return error;
	}
	table->whole = true;
	return 0;
}

void tcp_tables_open(struct tcp_tables *tables, pid_t pid)
{
	uint64_t namespace_id;
	struct table *table;

	if (net_namespace_id(pid, &namespace_id) < 0)
		return;
	table = find_or_add(tables, namespace_id);
	(void)!netlink_follow(pid, NETLINK_SOCK_DIAG, &table->fd, &table->namespace_id);
}

int tcp_tables_look(struct tcp_tables *tables, pid_t pid, struct host_ns now,
	void (*on_socket)(void *context, const struct tcp_socket *socket), void *context)
{
	struct table *table;
	uint64_t namespace_id;
	int error = net_namespace_id(pid, &namespace_id);

	if (error < 0)
		return error;
	table = find_or_add(tables, namespace_id);
	if (!table->whole || table->taken.value != now.value) {
		error = fill(table, pid, now);
		if (error < 0)
			return error;
	}
	for (size_t i = 0; i < table->count; i++)
		on_socket(context, &table->sockets[i]);
	return 0;
}
