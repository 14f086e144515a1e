/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/watch/view.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "coordinator/report/utf8.h"

bool watch_wish_set(struct watch_wish *wish, const char *ranks, const char *host)
{
	struct export_selection selection = {0};

	if (ranks && (strlen(ranks) >= sizeof(wish->ranks_text) ||
			     (*ranks && !export_ranks_parse(ranks, &selection))))
		return false;
	if (host && strlen(host) >= sizeof(wish->host))
		return false;
	if (ranks) {
		snprintf(wish->ranks_text, sizeof(wish->ranks_text), "%s", ranks);
		wish->selection = selection;
	}
	if (host)
		snprintf(wish->host, sizeof(wish->host), "%s", host);
	return true;
}

/* A pattern is matched once for each run of ranks on one host. */
struct chooser {
	const struct watch_table *table;
	const struct watch_wish *wish;
	uint32_t host;
	bool host_known, host_fits;
};

static bool fits_place(struct chooser *chooser, const struct watch_rank *rank)
{
	if (!export_selects_rank(&chooser->wish->selection, rank->rank))
		return false;
	if (!*chooser->wish->host)
		return true;
	if (!chooser->host_known || chooser->host != rank->host)
		chooser->host_fits =
			fnmatch(chooser->wish->host, chooser->table->names + rank->host, 0) == 0;
	chooser->host = rank->host;
	chooser->host_known = true;
	return chooser->host_fits;
}

static bool fits(struct chooser *chooser, const struct watch_rank *rank)
{
	return (!chooser->wish->named || rank->part == WATCH_NAMED) && fits_place(chooser, rank);
}

static int compare_ranks(const void *one, const void *other)
{
	const struct watch_rank *a = one, *b = other;

	return (a->rank > b->rank) - (a->rank < b->rank);
}

/* An incident of ranks that are not in the table (of links, or of the job) is everywhere. */
static bool incident_fits(struct chooser *chooser, const struct watch_incident *incident)
{
	bool known = false;

	for (size_t i = 0; i < incident->rank_count; i++) {
		const struct watch_rank wanted = {.rank = incident->ranks[i]},
					*found = bsearch(&wanted, chooser->table->ranks,
						chooser->table->rank_count, sizeof(wanted),
						compare_ranks);

		if (found && fits_place(chooser, found))
			return true;
		known |= found != NULL;
	}
	return !known;
}

/* The latest ones so far of many, in order. */
struct list {
	bool (*is_later)(const void *one, const void *other);
	const void *kept[WATCH_ROWS_MAX];
	size_t count, total;
};

static void keep(struct list *list, const void *one)
{
	size_t place = list->count;

	list->total++;
	while (place > 0 && list->is_later(one, list->kept[place - 1]))
		place--;
	if (place == WATCH_ROWS_MAX)
		return;
	if (list->count < WATCH_ROWS_MAX)
		list->count++;
	memmove(&list->kept[place + 1], &list->kept[place],
		(list->count - place - 1) * sizeof(list->kept[0]));
	list->kept[place] = one;
}

static bool is_later_rank(const void *one, const void *other)
{
	const struct watch_rank *a = one, *b = other;

	if ((a->part == WATCH_NAMED) != (b->part == WATCH_NAMED))
		return a->part == WATCH_NAMED;
	return a->own_ms > b->own_ms;
}

static int compare_rows(const void *one, const void *other)
{
	const struct watch_row *a = one, *b = other;

	return compare_ranks(&a->rank, &b->rank);
}

/* Ranks of one host, or some of them. */
struct part {
	const char *host;
	const struct watch_rank *worst;
	uint32_t count, first, last, named;
	float held_ms;
};

static void part_join(struct part *into, const struct part *from)
{
	into->count += from->count;
	into->named += from->named;
	into->first = into->first < from->first ? into->first : from->first;
	into->last = into->last > from->last ? into->last : from->last;
	into->held_ms = into->held_ms > from->held_ms ? into->held_ms : from->held_ms;
	if (is_later_rank(from->worst, into->worst))
		into->worst = from->worst;
}

static int compare_parts(const void *one, const void *other)
{
	return strcmp(((const struct part *)one)->host, ((const struct part *)other)->host);
}

static bool is_later_part(const void *one, const void *other)
{
	return is_later_rank(
		((const struct part *)one)->worst, ((const struct part *)other)->worst);
}

static void show_ranks(struct watch_view *view, const struct list *list, const char *names)
{
	view->rank_count = list->count;
	view->rank_total = list->total;
	for (size_t i = 0; i < list->count; i++) {
		view->ranks[i].rank = *(const struct watch_rank *)list->kept[i];
		utf8_copy_printable(
			view->ranks[i].host, WATCH_HOST_LENGTH, names + view->ranks[i].rank.host);
	}
	if (list->count == list->total)
		qsort(view->ranks, view->rank_count, sizeof(view->ranks[0]), compare_rows);
}

static void show_nodes(struct watch_view *view, const struct list *list)
{
	view->node_count = list->count;
	view->node_total = list->total;
	for (size_t i = 0; i < list->count; i++) {
		const struct part *part = list->kept[i];

		view->nodes[i] = (struct watch_node){
			.rank_count = part->count,
			.first_rank = part->first,
			.last_rank = part->last,
			.worst_rank = part->worst->rank,
			.named = part->named,
			.own_ms = part->worst->own_ms,
			.held_ms = part->held_ms,
		};
		utf8_copy_printable(view->nodes[i].host, WATCH_HOST_LENGTH, part->host);
	}
}

/* Parts of one host become one; how many are left is returned. */
static size_t join_parts(struct part *parts, size_t count)
{
	size_t whole = 0;

	qsort(parts, count, sizeof(*parts), compare_parts);
	for (size_t i = 0; i < count; i++) {
		if (whole && compare_parts(&parts[whole - 1], &parts[i]) == 0)
			part_join(&parts[whole - 1], &parts[i]);
		else
			parts[whole++] = parts[i];
	}
	return whole;
}

/* parts has room for one of each rank. */
static void take_ranks(struct watch_view *view, struct chooser *chooser, struct part *parts)
{
	const struct watch_table *table = chooser->table;
	struct list ranks = {.is_later = is_later_rank}, nodes = {.is_later = is_later_part};
	size_t count = 0;

	for (size_t i = 0; i < table->rank_count; i++) {
		const struct watch_rank *rank = &table->ranks[i];
		const struct part now = {.host = table->names + rank->host,
			.worst = rank,
			.count = 1,
			.first = rank->rank,
			.last = rank->rank,
			.named = rank->part == WATCH_NAMED,
			.held_ms = watch_held_ms(rank)};

		if (!fits(chooser, rank))
			continue;
		keep(&ranks, rank);
		if (count && parts[count - 1].host == now.host)
			part_join(&parts[count - 1], &now);
		else
			parts[count++] = now;
	}
	show_ranks(view, &ranks, table->names);
	count = join_parts(parts, count);
	for (size_t i = 0; i < count; i++)
		keep(&nodes, &parts[i]);
	show_nodes(view, &nodes);
}

int watch_view_take(struct watch_view *view, const struct watch_table *table,
	const struct watch_wish *wish, uint64_t version)
{
	struct chooser chooser = {.table = table, .wish = wish};
	struct part *parts = calloc(table->rank_count + 1, sizeof(*parts));

	if (!parts)
		return -ENOMEM;
	view->version = version;
	view->job = table->job;
	view->incident_total = view->incidents_elsewhere = view->incident_count = 0;
	for (size_t i = 0; i < table->incident_count; i++) {
		if (!incident_fits(&chooser, &table->incidents[i])) {
			view->incidents_elsewhere++;
			continue;
		}
		view->incident_total++;
		if (view->incident_count < WATCH_INCIDENTS_MAX)
			view->incidents[view->incident_count++] = table->incidents[i];
	}
	take_ranks(view, &chooser, parts);
	free(parts);
	return 0;
}
