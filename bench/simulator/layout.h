/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who talks to whom in a hybrid-parallel job: ranks, hosts, and the groups of each kind of
 * parallelism. The order of ranks is Megatron's: tensor parallel innermost, then data, then
 * pipeline. Constant after sim_layout_init(); any thread may read it.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_LAYOUT_H
#define SLOWRANK_BENCH_SIMULATOR_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

enum sim_group_type {
	SIM_TENSOR = 0,	   /* ranks that share a layer */
	SIM_DATA = 1,	   /* ranks with the same part of the model */
	SIM_EXPERT = 2,	   /* ranks that share the experts of a layer */
	SIM_EMBEDDING = 3, /* first and last stage, with tied embeddings */
	SIM_MODEL = 4,	   /* all ranks of one copy of the model */
	SIM_WORLD = 5,
	SIM_PIPELINE = 6, /* the stages of one copy's shard: sends and receives */
	SIM_GROUP_NR
};

enum sim_direction {
	SIM_FORWARD = 0,  /* activations, to the next stage */
	SIM_BACKWARD = 1, /* gradients, to the stage before */
	SIM_DIRECTION_NR
};

struct sim_shape {
	uint32_t data, tensor, pipeline; /* ranks = their product */
	uint32_t expert;		 /* divides data; 1 = no experts */
	uint32_t ranks_per_host;
};

struct sim_group_table {
	uint32_t count, size; /* groups, members of each; size < 2: not used */
	uint32_t *members;    /* count * size */
	uint32_t *group_of;   /* by rank; UINT32_MAX = in none */
	uint32_t *index_of;   /* by rank */
	bool *crosses;	      /* by group: members on several hosts */
};

struct sim_layout {
	struct sim_shape shape;
	uint32_t rank_count, host_count;
	struct sim_group_table groups[SIM_GROUP_NR];
};

/* Returns 0, -EINVAL for a shape that cannot be, or -ENOMEM. */
int sim_layout_init(struct sim_layout *layout, const struct sim_shape *shape)
	__attribute__((warn_unused_result));
void sim_layout_fini(struct sim_layout *layout);

static inline uint32_t sim_stage(const struct sim_layout *layout, uint32_t rank)
{
	return rank / (layout->shape.data * layout->shape.tensor);
}
static inline uint32_t sim_data_index(const struct sim_layout *layout, uint32_t rank)
{
	return rank / layout->shape.tensor % layout->shape.data;
}
static inline uint32_t sim_tensor_index(const struct sim_layout *layout, uint32_t rank)
{
	return rank % layout->shape.tensor;
}
static inline uint32_t sim_host(const struct sim_layout *layout, uint32_t rank)
{
	return rank / layout->shape.ranks_per_host;
}
/* The rank of another stage with the same place otherwise. */
static inline uint32_t sim_at_stage(const struct sim_layout *layout, uint32_t rank, uint32_t stage)
{
	uint32_t stride = layout->shape.data * layout->shape.tensor;

	return rank % stride + stage * stride;
}

#endif
