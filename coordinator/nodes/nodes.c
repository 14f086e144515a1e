/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/nodes/nodes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/arena.h"
#include "coordinator/report/look.h"

void nodes_fini(struct nodes *nodes)
{
	for (size_t i = 0; i < nodes->record_count; i++)
		free(nodes->records[i].path);
	for (size_t i = 0; i < nodes->count; i++)
		free(nodes->list[i].named);
	free(nodes->records);
	free(nodes->incidents);
	free(nodes->list);
	free(nodes->table);
}

/* FNV-1a. */
static size_t hash_of(const char *name)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (; *name; name++)
		hash = (hash ^ (uint8_t)*name) * UINT64_C(0x100000001b3);
	return (size_t)hash;
}

static uint32_t *slot_of(const struct nodes *nodes, const char *name)
{
	size_t mask = nodes->table_capacity - 1, at = hash_of(name) & mask;

	while (nodes->table[at] && strcmp(nodes->list[nodes->table[at] - 1].name, name) != 0)
		at = (at + 1) & mask;
	return &nodes->table[at];
}

/* At most half full. */
static int grow_table(struct nodes *nodes)
{
	size_t capacity = nodes->table_capacity ? 2 * nodes->table_capacity : 256;
	uint32_t *grown = calloc(capacity, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	free(nodes->table);
	nodes->table = grown;
	nodes->table_capacity = capacity;
	for (size_t i = 0; i < nodes->count; i++)
		*slot_of(nodes, nodes->list[i].name) = (uint32_t)i + 1;
	return 0;
}

/* The node of that name, made when it is new. *node NULL: there are too many, which is counted. */
static int get_node(struct nodes *nodes, const char *name, struct node **node)
{
	uint32_t *slot;
	int error = 2 * nodes->count >= nodes->table_capacity ? grow_table(nodes) : 0;

	*node = NULL;
	if (error)
		return error;
	slot = slot_of(nodes, name);
	if (!*slot && nodes->count == NODES_MAX) {
		nodes->nodes_unlisted++;
		return 0;
	}
	if (!*slot) {
		error = array_grow((void **)&nodes->list, &nodes->capacity, nodes->count + 1,
			sizeof(*nodes->list));
		if (error)
			return error;
		snprintf(nodes->list[nodes->count].name, sizeof(nodes->list[0].name), "%s", name);
		*slot = (uint32_t)++nodes->count;
	}
	*node = &nodes->list[*slot - 1];
	return 0;
}

static int get_record(struct nodes *nodes, const char *path, struct nodes_record **record)
{
	int error = array_grow((void **)&nodes->records, &nodes->record_capacity,
		nodes->record_count + 1, sizeof(*nodes->records));

	if (error)
		return error;
	*record = &nodes->records[nodes->record_count];
	(*record)->path = strdup(path);
	if (!(*record)->path)
		return -ENOMEM;
	(*record)->first_incident = nodes->incident_count;
	nodes->record_count++;
	return 0;
}

int nodes_add_unreadable(struct nodes *nodes, const char *path, const char *why)
{
	struct nodes_record *record;
	int error = get_record(nodes, path, &record);

	if (!error)
		snprintf(record->why, sizeof(record->why), "%s", why);
	return error;
}

static int take_part(struct nodes *nodes, const struct report_model *model)
{
	uint32_t number = (uint32_t)nodes->record_count;
	int error = 0;

	for (uint32_t i = 0; i < model->rank_count && !error; i++) {
		const char *host = model->ranks[i].host;
		struct node *node;

		if (!host || !*host)
			continue;
		error = get_node(nodes, host, &node);
		if (error || !node || node->latest == number)
			continue;
		node->latest = number;
		node->jobs++;
	}
	return error;
}

static int name_node(struct node *node, const struct verdict *verdict, uint32_t number)
{
	size_t i = 0;

	if (verdict->verdict_class != VERDICT_WORKLOAD_IMBALANCE && node->latest_named != number) {
		node->latest_named = number;
		node->jobs_named++;
	}
	while (i < node->named_count && (node->named[i].verdict_class != verdict->verdict_class ||
						node->named[i].cause != verdict->cause))
		i++;
	if (i == node->named_count) {
		if (array_grow((void **)&node->named, &node->named_capacity, i + 1,
			    sizeof(*node->named)) < 0)
			return -ENOMEM;
		node->named[node->named_count++] = (struct node_named){
			.verdict_class = verdict->verdict_class, .cause = verdict->cause};
	}
	node->named[i].jobs += node->named[i].latest != number;
	node->named[i].latest = number;
	return 0;
}

static int name_nodes(
	struct nodes *nodes, const struct report_model *model, const struct verdict *verdict)
{
	size_t listed = look_at_most(verdict->rank_count, VERDICT_RANKS_MAX);
	int error = 0;

	for (size_t i = 0; i < listed && !error; i++) {
		const char *host = look_host(model, verdict->ranks[i]);
		struct node *node;

		if (!*host)
			continue;
		error = get_node(nodes, host, &node);
		if (!error && node)
			error = name_node(node, verdict, (uint32_t)nodes->record_count);
	}
	return error;
}

static int add_incident(struct nodes *nodes, struct nodes_record *record,
	const struct report_model *model, const struct verdict *verdict)
{
	int error = array_grow((void **)&nodes->incidents, &nodes->incident_capacity,
		nodes->incident_count + 1, sizeof(*nodes->incidents));
	struct nodes_incident *incident;

	if (error)
		return error;
	incident = &nodes->incidents[nodes->incident_count++];
	record->incident_count++;
	*incident = (struct nodes_incident){.id = verdict->id,
		.verdict_class = verdict->verdict_class,
		.cause = verdict->cause,
		.ended = verdict->ended != 0,
		.unmeasured_since = verdict->sure.unmeasured_since,
		.slowdown = verdict->slowdown,
		.onset_unix_ns = look_unix_ns(verdict->onset, model->unix_offset_ns),
		.rank_count = verdict->rank_count + verdict->more_ranks};
	if (verdict->rank_count) {
		incident->rank = verdict->ranks[0];
		snprintf(incident->node, sizeof(incident->node), "%s",
			look_host(model, verdict->ranks[0]));
	}
	return 0;
}

int nodes_add(struct nodes *nodes, const char *path, const struct report_model *model, bool whole)
{
	const struct job_totals *totals = &model->totals;
	struct nodes_record *record;
	int error = get_record(nodes, path, &record);

	if (error)
		return error;
	record->readable = true;
	record->whole = whole;
	snprintf(record->job, sizeof(record->job), "%s", model->job_id ? model->job_id : "");
	record->rank_count = model->rank_count;
	record->node_count = model->node_count;
	record->steps = totals->steps;
	if (totals->steps) {
		record->start_unix_ns = look_unix_ns(totals->first_start, model->unix_offset_ns);
		record->end_unix_ns = look_unix_ns(totals->last_end, model->unix_offset_ns);
	}
	error = take_part(nodes, model);
	for (size_t i = 0; i < model->verdict_count && !error; i++) {
		error = name_nodes(nodes, model, &model->verdicts[i]);
		if (!error && nodes->incident_count < NODES_INCIDENTS_MAX)
			error = add_incident(nodes, record, model, &model->verdicts[i]);
		else if (!error)
			nodes->incidents_unlisted++;
	}
	return error;
}

static int by_count(uint32_t one, uint32_t other)
{
	return one > other ? -1 : one < other;
}

static int compare_named(const void *one, const void *other)
{
	const struct node_named *first = one, *second = other;
	int order = by_count(first->jobs, second->jobs);

	if (!order)
		order = first->verdict_class - second->verdict_class;
	return order ? order : first->cause - second->cause;
}

static int compare_nodes(const void *one, const void *other)
{
	const struct node *first = one, *second = other;
	int order = by_count(first->jobs_named, second->jobs_named);

	if (!order) /* of as many, who was in fewer jobs */
		order = by_count(second->jobs, first->jobs);
	return order ? order : strcmp(first->name, second->name);
}

void nodes_sort(struct nodes *nodes)
{
	for (size_t i = 0; i < nodes->count; i++) {
		if (nodes->list[i].named_count)
			qsort(nodes->list[i].named, nodes->list[i].named_count,
				sizeof(nodes->list[i].named[0]), compare_named);
	}
	if (nodes->count)
		qsort(nodes->list, nodes->count, sizeof(*nodes->list), compare_nodes);
	free(nodes->table); /* no more names are looked for */
	nodes->table = NULL;
	nodes->table_capacity = 0;
}
