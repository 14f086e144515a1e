/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/simulator/layout.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/base/step.h"

/* The group a rank is in and its place there. Returns false when it is in none. */
static bool place(const struct sim_layout *layout, enum sim_group_type type, uint32_t rank,
	uint32_t *group, uint32_t *index)
{
	const struct sim_shape *shape = &layout->shape;
	uint32_t stage = sim_stage(layout, rank), data = sim_data_index(layout, rank);
	uint32_t tensor = sim_tensor_index(layout, rank);

	switch (type) {
	case SIM_TENSOR:
		*group = stage * shape->data + data;
		*index = tensor;
		return true;
	case SIM_DATA:
		*group = stage * shape->tensor + tensor;
		*index = data;
		return true;
	case SIM_EXPERT:
		*group = (stage * shape->tensor + tensor) * (shape->data / shape->expert) +
			 data / shape->expert;
		*index = data % shape->expert;
		return true;
	case SIM_EMBEDDING:
		*group = data * shape->tensor + tensor;
		*index = stage != 0;
		return stage == 0 || stage == shape->pipeline - 1;
	case SIM_MODEL:
		*group = data;
		*index = stage * shape->tensor + tensor;
		return true;
	case SIM_PIPELINE:
		*group = data * shape->tensor + tensor;
		*index = stage;
		return true;
	case SIM_WORLD:
		*group = 0;
		*index = rank;
		return true;
	default:
		return false;
	}
}

static uint32_t group_size(const struct sim_shape *shape, enum sim_group_type type)
{
	switch (type) {
	case SIM_TENSOR:
		return shape->tensor;
	case SIM_DATA:
		return shape->data;
	case SIM_EXPERT:
		return shape->expert;
	case SIM_EMBEDDING:
		return shape->pipeline > 1 ? 2 : 1;
	case SIM_MODEL:
		return shape->tensor * shape->pipeline;
	case SIM_PIPELINE:
		return shape->pipeline;
	default:
		return shape->data * shape->tensor * shape->pipeline;
	}
}

static int fill(struct sim_layout *layout, enum sim_group_type type)
{
	struct sim_group_table *table = &layout->groups[type];
	uint32_t in_groups = layout->rank_count;

	table->size = group_size(&layout->shape, type);
	if (table->size < 2)
		return 0;
	if (type == SIM_EMBEDDING)
		in_groups = 2 * layout->shape.data * layout->shape.tensor;
	table->count = in_groups / table->size;
	table->members = calloc(in_groups, sizeof(uint32_t));
	table->group_of = calloc(layout->rank_count, sizeof(uint32_t));
	table->index_of = calloc(layout->rank_count, sizeof(uint32_t));
	table->crosses = calloc(table->count, sizeof(bool));
	if (!table->members || !table->group_of || !table->index_of || !table->crosses)
		return -ENOMEM;
	for (uint32_t rank = 0; rank < layout->rank_count; rank++) {
		uint32_t group, index;

		table->group_of[rank] = UINT32_MAX;
		if (!place(layout, type, rank, &group, &index))
			continue;
		table->group_of[rank] = group;
		table->index_of[rank] = index;
		table->members[group * table->size + index] = rank;
	}
	for (uint32_t i = 0; i < in_groups; i++) {
		uint32_t first = table->members[i / table->size * table->size];

		if (sim_host(layout, table->members[i]) != sim_host(layout, first))
			table->crosses[i / table->size] = true;
	}
	return 0;
}

int sim_layout_init(struct sim_layout *layout, const struct sim_shape *shape)
{
	uint64_t ranks = (uint64_t)shape->data * shape->tensor * shape->pipeline;

	memset(layout, 0, sizeof(*layout));
	if (ranks < 1 || ranks > STEP_RANK_COUNT_MAX || !shape->expert || !shape->ranks_per_host ||
		shape->data % shape->expert)
		return -EINVAL;
	layout->shape = *shape;
	layout->rank_count = (uint32_t)ranks;
	layout->host_count =
		(layout->rank_count + shape->ranks_per_host - 1) / shape->ranks_per_host;
	for (int type = 0; type < SIM_GROUP_NR; type++) {
		int error = fill(layout, (enum sim_group_type)type);

		if (error < 0) {
			sim_layout_fini(layout);
			return error;
		}
	}
	return 0;
}

void sim_layout_fini(struct sim_layout *layout)
{
	for (int type = 0; type < SIM_GROUP_NR; type++) {
		free(layout->groups[type].members);
		free(layout->groups[type].group_of);
		free(layout->groups[type].index_of);
		free(layout->groups[type].crosses);
	}
	memset(layout, 0, sizeof(*layout));
}
