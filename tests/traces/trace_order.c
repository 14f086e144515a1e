/* SPDX-License-Identifier: Apache-2.0 */
/* The graph of one step: who waits for whom, by the published rules (docs/analysis.md). */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/traces/trace_order.h"

uint32_t trace_order_count(const struct trace_order *order, uint32_t stage, unsigned kind)
{
	size_t at = (size_t)stage * TRACE_KIND_NR + kind;

	return order->first[at + 1] - order->first[at];
}

uint32_t trace_order_find(
	const struct trace_order *order, uint32_t stage, unsigned kind, uint32_t sequence)
{
	return sequence < trace_order_count(order, stage, kind)
		       ? order->first[(size_t)stage * TRACE_KIND_NR + kind] + sequence
		       : TRACE_NONE;
}

static int compare_nodes(const void *left, const void *right)
{
	const struct trace_node *a = left, *b = right;

	if (a->stage != b->stage)
		return a->stage < b->stage ? -1 : 1;
	if (a->kind != b->kind)
		return a->kind < b->kind ? -1 : 1;
	return a->sequence < b->sequence ? -1 : a->sequence > b->sequence;
}

static int fill_nodes(const struct trace *trace, const struct trace_worker *const *workers,
	struct trace_order *order)
{
	uint32_t next = 0;

	for (uint32_t s = 0; s < order->stage_count; s++) {
		for (size_t i = 0; i < workers[s]->count; i++) {
			const struct trace_operation *operation =
				&trace->operations[workers[s]->first + i];

			order->nodes[next++] = (struct trace_node){operation->start_ns,
				operation->end_ns, s, operation->sequence, operation->chunk,
				operation->kind, TRACE_NONE, 0, 0};
		}
	}
	qsort(order->nodes, next, sizeof(*order->nodes), compare_nodes);
	for (uint32_t n = 0; n < next; n++)
		order->first[(size_t)order->nodes[n].stage * TRACE_KIND_NR + order->nodes[n].kind +
			     1]++;
	for (size_t i = 0; i < (size_t)order->stage_count * TRACE_KIND_NR; i++)
		order->first[i + 1] += order->first[i];
	for (uint32_t n = 0; n < next; n++) {
		const struct trace_node *node = &order->nodes[n];

		if (trace_order_find(order, node->stage, node->kind, node->sequence) != n)
			return -EINVAL; /* a number is missing, or is there twice */
	}
	return 0;
}

/* Edges are collected as pairs and sorted by the node that waits. */
struct edge {
	uint32_t from, to;
};

struct edges {
	struct edge *list;
	size_t count, capacity;
	int error;
};

static void add_edge(struct edges *edges, uint32_t from, uint32_t to)
{
	if (from == TRACE_NONE || to == TRACE_NONE || edges->error)
		return;
	if (edges->count == edges->capacity) {
		size_t capacity = edges->capacity ? 2 * edges->capacity : 256;
		struct edge *grown = realloc(edges->list, capacity * sizeof(*grown));

		if (!grown) {
			edges->error = -ENOMEM;
			return;
		}
		edges->list = grown;
		edges->capacity = capacity;
	}
	edges->list[edges->count++] = (struct edge){from, to};
}

/* Nodes of one stage in order of start; kinds: a bit for each kind wanted. */
struct chain {
	uint32_t *nodes;
	uint32_t count;
};

static void take_chain(
	const struct trace_order *order, uint32_t stage, uint32_t kinds, struct chain *chain)
{
	chain->count = 0;
	for (unsigned kind = 0; kind < TRACE_KIND_NR; kind++) {
		for (uint32_t i = 0;
			(kinds & 1u << kind) && i < trace_order_count(order, stage, kind); i++) {
			uint32_t node = trace_order_find(order, stage, kind, i);
			uint32_t at = chain->count++;

			/* Two sorted lists at most: insertion from behind is a merge. */
			for (; at > 0 && order->nodes[chain->nodes[at - 1]].start_ns >
						 order->nodes[node].start_ns;
				at--)
				chain->nodes[at] = chain->nodes[at - 1];
			chain->nodes[at] = node;
		}
	}
}

static void link_chain(struct edges *edges, const struct chain *chain)
{
	for (uint32_t i = 1; i < chain->count; i++)
		add_edge(edges, chain->nodes[i - 1], chain->nodes[i]);
}

/* Sends and receives of one stage: what they wait for, and which computations wait for them. */
static int link_transfers(const struct trace_order *order, uint32_t stage, unsigned kind,
	struct edges *edges, uint32_t *effective, uint32_t *effective_count)
{
	uint32_t count = trace_order_count(order, stage, kind), chunks = 0;
	uint32_t compute_count = trace_order_count(order, stage, trace_compute_of(kind));
	const struct trace_node *computes =
		&order->nodes[trace_order_find(order, stage, trace_compute_of(kind), 0) ==
					      TRACE_NONE
				      ? 0
				      : trace_order_find(order, stage, trace_compute_of(kind), 0)];
	size_t all = (size_t)compute_count + count;
	struct trace_operation *copies = calloc(all + 1, sizeof(*copies));
	const struct trace_operation **list = calloc(all + 1, sizeof(*list));
	uint32_t *matches = calloc((size_t)count + 1, sizeof(*matches));
	struct trace_direction direction = {.computes = list,
		.compute_count = compute_count,
		.last_start_ns = INT64_MIN,
		.first_end_ns = INT64_MAX};
	int error = copies && list && matches ? 0 : -ENOMEM;

	*effective_count = 0;
	for (uint32_t i = 0; i < compute_count; i++) {
		if (computes[i].start_ns > direction.last_start_ns)
			direction.last_start_ns = computes[i].start_ns;
		if (computes[i].end_ns < direction.first_end_ns)
			direction.first_end_ns = computes[i].end_ns;
		if (computes[i].chunk >= 0 && (uint32_t)computes[i].chunk >= chunks)
			chunks = (uint32_t)computes[i].chunk + 1;
	}
	chunks = (chunks + order->stage_count - 1) / order->stage_count * order->stage_count;
	direction.chunk_count = (int32_t)chunks;
	for (uint32_t i = 0; i < all && error == 0; i++) {
		const struct trace_node *node = i < compute_count
							? &computes[i]
							: &order->nodes[trace_order_find(order,
								  stage, kind, i - compute_count)];

		copies[i] = (struct trace_operation){
			node->start_ns, node->end_ns, node->sequence, node->chunk, node->kind};
		list[i] = &copies[i];
	}
	if (error == 0)
		error = trace_match_transfers(
			kind, &direction, list + compute_count, count, matches);
	for (uint32_t i = 0; i < count && error == 0; i++) {
		uint32_t node = trace_order_find(order, stage, kind, i), match = matches[i];

		if (match >= compute_count)
			continue;
		uint32_t compute = (uint32_t)(computes - order->nodes) + match;

		if (trace_is_send(kind)) {
			add_edge(edges, compute, node);
		} else {
			add_edge(edges, node, compute);
			if (match > 0)
				add_edge(edges, compute - 1, node);
		}
		if (trace_neighbour_exists(kind, computes[match].chunk, (int32_t)chunks))
			effective[(*effective_count)++] = node;
	}
	free(copies);
	free(list);
	free(matches);
	return error;
}

/* The first backward send and receive follow the second-last computation before the first backward. */
static void link_first_backward(const struct trace_order *order, uint32_t stage,
	const struct chain *computes, struct edges *edges)
{
	uint32_t i = 0;

	while (i < computes->count &&
		order->nodes[computes->nodes[i]].kind != TRACE_BACKWARD_COMPUTE)
		i++;
	if (i < 2 || i == computes->count)
		return;
	add_edge(edges, computes->nodes[i - 2],
		trace_order_find(order, stage, TRACE_BACKWARD_SEND, 0));
	add_edge(edges, computes->nodes[i - 2],
		trace_order_find(order, stage, TRACE_BACKWARD_RECEIVE, 0));
}

/* A chunk's last gather comes before its first forward; the first scatter after its last backward. */
static void link_parameters(
	const struct trace_order *order, uint32_t stage, bool overlapped, struct edges *edges)
{
	uint32_t gathers = trace_order_count(order, stage, TRACE_PARAMETERS_GATHER);
	uint32_t scatters = trace_order_count(order, stage, TRACE_GRADIENTS_SCATTER);

	for (unsigned kind = TRACE_FORWARD_COMPUTE; kind <= TRACE_BACKWARD_COMPUTE; kind++) {
		bool forward = kind == TRACE_FORWARD_COMPUTE;
		uint32_t count = trace_order_count(order, stage, kind);
		uint32_t moves = forward ? gathers : overlapped ? scatters : 0;

		for (uint32_t i = 0; i < moves; i++) {
			uint32_t move = trace_order_find(order, stage,
				forward ? TRACE_PARAMETERS_GATHER : TRACE_GRADIENTS_SCATTER,
				forward ? moves - 1 - i : i);
			uint32_t best = TRACE_NONE;
			bool taken = false;

			for (uint32_t k = 0; k < i && !taken; k++)
				taken = order->nodes[trace_order_find(order, stage,
							     order->nodes[move].kind,
							     forward ? moves - 1 - k : k)]
						.chunk == order->nodes[move].chunk;
			for (uint32_t k = 0; k < count && !taken; k++) {
				uint32_t compute = trace_order_find(order, stage, kind, k);
				const struct trace_node *node = &order->nodes[compute];

				if (node->chunk != order->nodes[move].chunk)
					continue;
				if (best == TRACE_NONE ||
					(forward ? node->start_ns < order->nodes[best].start_ns
						 : node->end_ns > order->nodes[best].end_ns))
					best = compute;
			}
			if (forward)
				add_edge(edges, move, best);
			else
				add_edge(edges, best, move);
		}
	}
}

/* After the last computation: garbage collection, then the gradients, then the optimizer. */
static void link_end(const struct trace_order *order, uint32_t stage, bool overlapped,
	const struct chain *computes, struct edges *edges)
{
	uint32_t last = TRACE_NONE, scatters;
	uint32_t before = trace_order_find(order, stage, TRACE_GARBAGE_COLLECTION, 0);
	const unsigned kinds[] = {TRACE_LAYERNORM, TRACE_EMBEDDING, TRACE_GRADIENTS_SCATTER,
		TRACE_SEPARATE_GRADIENTS, TRACE_CLIP, TRACE_OPTIMIZER};

	for (uint32_t i = 0; i < computes->count; i++) {
		if (last == TRACE_NONE ||
			order->nodes[computes->nodes[i]].end_ns > order->nodes[last].end_ns)
			last = computes->nodes[i];
	}
	add_edge(edges, last, before);
	if (before == TRACE_NONE)
		before = last;
	scatters = trace_order_count(order, stage, TRACE_GRADIENTS_SCATTER);
	if (overlapped && scatters) /* the first of the rest also waits for the last scatter */
		add_edge(edges,
			trace_order_find(order, stage, TRACE_GRADIENTS_SCATTER, scatters - 1),
			trace_order_find(order, stage, TRACE_LAYERNORM, 0));
	for (size_t k = 0; k < sizeof(kinds) / sizeof(kinds[0]); k++) {
		if (kinds[k] == TRACE_GRADIENTS_SCATTER && overlapped)
			continue;
		for (uint32_t i = 0; i < trace_order_count(order, stage, kinds[k]); i++) {
			uint32_t node = trace_order_find(order, stage, kinds[k], i);

			add_edge(edges, before, node);
			before = node;
		}
	}
}

static void new_group(struct trace_order *order, bool replicas)
{
	order->groups[order->group_count++] =
		(struct trace_group){order->member_count, 0, replicas};
}

static void join(struct trace_order *order, uint32_t node)
{
	struct trace_group *group = &order->groups[order->group_count - 1];

	order->nodes[node].group = order->group_count - 1;
	order->members[order->member_count++] = node;
	group->member_count++;
}

/* The k-th effective send of a stage meets the k-th effective receive of its neighbour. */
static int pair_transfers(
	struct trace_order *order, uint32_t *const effective[4], const uint32_t *counts)
{
	for (uint32_t stage = 0; stage < order->stage_count; stage++) {
		for (int direction = 0; direction < 2; direction++) {
			uint32_t send = (uint32_t)direction * 2, receive = send + 1;
			uint32_t to = direction == 0 ? (stage + 1) % order->stage_count
						     : (stage + order->stage_count - 1) %
							       order->stage_count;
			uint32_t from_at = order->first[(size_t)stage * TRACE_KIND_NR],
				 to_at = order->first[(size_t)to * TRACE_KIND_NR];
			uint32_t count = counts[4 * stage + send];

			if (count != counts[4 * to + receive])
				return -EINVAL;
			for (uint32_t k = 0; k < count; k++) {
				new_group(order, false);
				join(order, effective[send][from_at + k]);
				join(order, effective[receive][to_at + k]);
			}
		}
	}
	return 0;
}

static bool is_transfer(unsigned kind)
{
	return kind >= TRACE_FORWARD_SEND && kind <= TRACE_BACKWARD_RECEIVE;
}

static void join_collectives(struct trace_order *order)
{
	uint32_t last = order->stage_count - 1;
	static const unsigned by_stage[] = {
		TRACE_PARAMETERS_GATHER, TRACE_GRADIENTS_SCATTER, TRACE_SEPARATE_GRADIENTS};

	for (uint32_t n = 0; n < order->node_count; n++) {
		if (is_transfer(order->nodes[n].kind) && order->nodes[n].group == TRACE_NONE) {
			new_group(order, false); /* without effect: it has only itself */
			join(order, n);
		}
	}
	for (uint32_t stage = 0; stage < order->stage_count; stage++) {
		for (size_t k = 0; k < sizeof(by_stage) / sizeof(by_stage[0]); k++) {
			for (uint32_t i = 0; i < trace_order_count(order, stage, by_stage[k]);
				i++) {
				new_group(order, true);
				join(order, trace_order_find(order, stage, by_stage[k], i));
			}
		}
	}
	for (uint32_t i = 0; i < trace_order_count(order, 0, TRACE_EMBEDDING); i++) {
		new_group(order, false);
		join(order, trace_order_find(order, 0, TRACE_EMBEDDING, i));
		if (last > 0 && i < trace_order_count(order, last, TRACE_EMBEDDING))
			join(order, trace_order_find(order, last, TRACE_EMBEDDING, i));
	}
	for (uint32_t i = 0; i < trace_order_count(order, 0, TRACE_CLIP); i++) {
		new_group(order, true);
		for (uint32_t stage = 0; stage < order->stage_count; stage++) {
			if (i < trace_order_count(order, stage, TRACE_CLIP))
				join(order, trace_order_find(order, stage, TRACE_CLIP, i));
		}
	}
}

static int compare_edges(const void *left, const void *right)
{
	const struct edge *a = left, *b = right;

	if (a->to != b->to)
		return a->to < b->to ? -1 : 1;
	return a->from < b->from ? -1 : a->from > b->from;
}

static int store_edges(struct trace_order *order, struct edges *edges)
{
	if (edges->error)
		return edges->error;
	qsort(edges->list, edges->count, sizeof(*edges->list), compare_edges);
	order->edges = calloc(edges->count + 1, sizeof(*order->edges));
	if (!order->edges)
		return -ENOMEM;
	for (size_t e = 0; e < edges->count; e++) {
		struct trace_node *node = &order->nodes[edges->list[e].to];

		if (e > 0 && compare_edges(&edges->list[e], &edges->list[e - 1]) == 0)
			continue;
		if (node->edge_count++ == 0)
			node->first_edge = order->edge_count;
		order->edges[order->edge_count++] = edges->list[e].from;
	}
	return 0;
}

/* Kahn's algorithm over nodes and groups. -EINVAL: the rules contradict the trace. */
static int order_events(struct trace_order *order, const struct edges *edges)
{
	uint32_t n = order->node_count, *missing = calloc((size_t)n + 1, sizeof(*missing));
	uint32_t *first_next = calloc((size_t)n + 2, sizeof(*first_next));
	uint32_t *next = calloc(edges->count + 1, sizeof(*next));
	uint32_t *started = calloc((size_t)order->group_count + 1, sizeof(*started));
	uint32_t *ready = calloc((size_t)n + 1, sizeof(*ready));
	uint32_t head = 0, ready_count = 0;
	int error = missing && first_next && next && started && ready ? 0 : -ENOMEM;

	if (error < 0)
		goto out;
	for (uint32_t v = 0; v < n; v++) {
		missing[v] = order->nodes[v].edge_count;
		for (uint32_t e = 0; e < order->nodes[v].edge_count; e++)
			first_next[order->edges[order->nodes[v].first_edge + e] + 2]++;
		if (!missing[v])
			ready[ready_count++] = v;
	}
	for (uint32_t v = 0; v < n; v++)
		first_next[v + 1] += first_next[v];
	for (uint32_t v = 0; v < n; v++) {
		for (uint32_t e = 0; e < order->nodes[v].edge_count; e++)
			next[first_next[order->edges[order->nodes[v].first_edge + e] + 1]++] = v;
	}
	while (head < ready_count) {
		uint32_t v = ready[head++], g = order->nodes[v].group;
		const uint32_t *ended = &v;
		uint32_t ended_count = 1;

		order->events[order->event_count++] = (struct trace_event){v, false};
		if (g != TRACE_NONE) {
			if (++started[g] < order->groups[g].member_count)
				continue;
			order->events[order->event_count++] = (struct trace_event){g, true};
			ended = &order->members[order->groups[g].first_member];
			ended_count = order->groups[g].member_count;
		}
		for (uint32_t i = 0; i < ended_count; i++) {
			for (uint32_t e = first_next[ended[i]]; e < first_next[ended[i] + 1]; e++) {
				if (--missing[next[e]] == 0)
					ready[ready_count++] = next[e];
			}
		}
	}
	error = head == n ? 0 : -EINVAL;
out:
	free(missing);
	free(first_next);
	free(next);
	free(started);
	free(ready);
	return error;
}

static int link_stage(struct trace_order *order, uint32_t stage, bool overlapped,
	struct chain *chain, struct edges *edges, uint32_t *const effective[4], uint32_t *counts)
{
	int error = 0;

	for (int t = 0; t < 4 && error == 0; t++) {
		take_chain(order, stage, 1u << trace_transfers[t], chain);
		link_chain(edges, chain);
		error = link_transfers(order, stage, trace_transfers[t], edges,
			effective[t] + order->first[(size_t)stage * TRACE_KIND_NR],
			&counts[4 * stage + (uint32_t)t]);
	}
	take_chain(
		order, stage, 1u << TRACE_PARAMETERS_GATHER | 1u << TRACE_GRADIENTS_SCATTER, chain);
	link_chain(edges, chain);
	take_chain(order, stage, 1u << TRACE_FORWARD_COMPUTE | 1u << TRACE_BACKWARD_COMPUTE, chain);
	link_chain(edges, chain);
	link_first_backward(order, stage, chain, edges);
	link_parameters(order, stage, overlapped, edges);
	link_end(order, stage, overlapped, chain, edges);
	return error;
}

static int link_all(struct trace_order *order)
{
	size_t n = order->node_count;
	struct chain chain = {calloc(n + 1, sizeof(uint32_t)), 0};
	struct edges edges = {0};
	uint32_t *lists = calloc(4 * n + 1, sizeof(*lists));
	uint32_t *counts = calloc(4 * (size_t)order->stage_count, sizeof(*counts));
	bool overlapped = false;
	int error = chain.nodes && lists && counts ? 0 : -ENOMEM;

	if (error < 0)
		goto out;
	/* In the order of trace_transfers[]: pairs of send and receive. */
	uint32_t *const effective[4] = {lists, lists + n, lists + 2 * n, lists + 3 * n};

	for (uint32_t s = 0; s < order->stage_count; s++)
		overlapped |= trace_order_count(order, s, TRACE_SEPARATE_GRADIENTS) > 0;
	for (uint32_t s = 0; s < order->stage_count && error == 0; s++)
		error = link_stage(order, s, overlapped, &chain, &edges, effective, counts);
	if (error == 0)
		error = pair_transfers(order, effective, counts);
	if (error == 0) {
		join_collectives(order);
		error = store_edges(order, &edges);
	}
	if (error == 0)
		error = order_events(order, &edges);
out:
	free(chain.nodes);
	free(edges.list);
	free(lists);
	free(counts);
	return error;
}

int trace_order_init(const struct trace *trace, const struct trace_worker *const *workers,
	uint32_t stage_count, struct trace_order *order)
{
	size_t n = 0;
	int error;

	*order = (struct trace_order){.stage_count = stage_count};
	for (uint32_t s = 0; s < stage_count; s++)
		n += workers[s]->count;
	if (n > UINT32_MAX / 8)
		return -EINVAL;
	order->node_count = (uint32_t)n;
	order->nodes = calloc(n + 1, sizeof(*order->nodes));
	order->first = calloc((size_t)stage_count * TRACE_KIND_NR + 1, sizeof(*order->first));
	order->groups = calloc(n + 1, sizeof(*order->groups));
	order->members = calloc(n + 1, sizeof(*order->members));
	order->events = calloc(2 * n + 1, sizeof(*order->events));
	if (!order->nodes || !order->first || !order->groups || !order->members || !order->events)
		return -ENOMEM;
	error = fill_nodes(trace, workers, order);
	return error < 0 ? error : link_all(order);
}

void trace_order_fini(struct trace_order *order)
{
	free(order->nodes);
	free(order->first);
	free(order->edges);
	free(order->groups);
	free(order->members);
	free(order->events);
	*order = (struct trace_order){0};
}
