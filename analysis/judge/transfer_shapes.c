/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds of transfers, each with what it is expected to take. */
#include "analysis/judge/internal.h"

struct transfer_shape *judge_transfer_shape(
	struct comm_state *comm, const struct blame_transfer *transfer)
{
	size_t at = (size_t)(transfer->shape >> 20) & (SHAPES_MAX - 1);

	while (comm->shapes[at].shape && comm->shapes[at].shape != transfer->shape)
		at = (at + 1) & (SHAPES_MAX - 1);
	if (!comm->shapes[at].shape) {
		if (comm->shape_count >= SHAPES_MAX / 2)
			return NULL; /* a program of that many shapes: the first ones must do */
		comm->used[comm->shape_count++] = (uint32_t)at;
		comm->shapes[at] = (struct transfer_shape){.shape = transfer->shape,
			.kind = transfer->kind,
			.usual_ns = -1,
			.expected_ns = -1};
	}
	return &comm->shapes[at];
}

int64_t judge_transfer_excess_ns(struct comm_state *comm, const struct blame_transfer *transfer)
{
	const struct transfer_shape *shape = judge_transfer_shape(comm, transfer);

	return shape && shape->expected_ns >= 0
		       ? transfer->transfer_ns - (int64_t)shape->expected_ns
		       : 0;
}
