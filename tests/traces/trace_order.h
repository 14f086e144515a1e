/* SPDX-License-Identifier: Apache-2.0 */
/* In which order the operations of a step can happen, and who waits for whom. Pure. */
#ifndef SLOWRANK_TESTS_TRACES_TRACE_ORDER_H
#define SLOWRANK_TESTS_TRACES_TRACE_ORDER_H

#include "tests/traces/trace_figures.h"

#define TRACE_NONE UINT32_MAX

/* One replica's step as a graph: what each operation waits for, and who is joined with it. */
struct trace_node {
	int64_t start_ns, end_ns;
	uint32_t stage, sequence;
	int32_t chunk;
	uint8_t kind;
	uint32_t group;	     /* joined operations end together; TRACE_NONE: it ends by itself */
	uint32_t first_edge; /* into edges; edge_count of them */
	uint32_t edge_count;
};

struct trace_group {
	uint32_t first_member, member_count; /* into members */
	bool replicas;			     /* joins the replicas too */
};

/* What happens next: a node starts (and ends, unless it is joined), or a group ends. */
struct trace_event {
	uint32_t index;
	bool group_ends;
};

struct trace_order {
	uint32_t stage_count, node_count, edge_count, group_count, member_count, event_count;
	struct trace_node *nodes; /* by stage, kind, sequence */
	uint32_t *first;	  /* [stage * TRACE_KIND_NR + kind]: its first node */
	uint32_t *edges;	  /* nodes that a node waits for */
	struct trace_group *groups;
	uint32_t *members;
	struct trace_event *events; /* in an order in which they can happen */
};

/* The node of a (stage, kind, sequence); TRACE_NONE when there is none. */
uint32_t trace_order_find(
	const struct trace_order *order, uint32_t stage, unsigned kind, uint32_t sequence);
uint32_t trace_order_count(const struct trace_order *order, uint32_t stage, unsigned kind);

/*
 * From the operations of all stages of one replica in one step: workers[s] is stage s. Returns 0,
 * -EINVAL or -ENOMEM; trace_order_fini() in any case.
 */
int trace_order_init(const struct trace *trace, const struct trace_worker *const *workers,
	uint32_t stage_count, struct trace_order *order) __attribute__((warn_unused_result));
void trace_order_fini(struct trace_order *order);

#endif
