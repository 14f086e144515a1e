/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one rank of a pipeline stage does in one step: work, collectives, sends and receives,
 * in order. 1F1B and interleaved 1F1B as Megatron-LM runs them (Narayanan et al., Efficient
 * Large-Scale Language Model Training on GPU Clusters, SC 2021, section 2.2), GPipe (Huang et al., 2019), zero bubble
 * (ZB-H1 of Qi et al., Zero Bubble Pipeline Parallelism, ICLR 2024); gradient buckets,
 * tied embeddings, gradient norm, FSDP-like gathers, all-to-all of experts. Built once for each
 * stage and kind of step; constant afterwards.
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_PROGRAM_H
#define SLOWRANK_BENCH_SIMULATOR_PROGRAM_H

#include "bench/simulator/layout.h"

enum sim_op_kind {
	SIM_OP_WORK = 0,
	SIM_OP_COLLECTIVE = 1,	     /* the rank waits for it */
	SIM_OP_COLLECTIVE_ASYNC = 2, /* on the communication stream */
	SIM_OP_JOIN = 3,	     /* waits for the communication stream */
	SIM_OP_SEND = 4,	     /* does not wait for the receiver */
	SIM_OP_RECEIVE = 5,
};

enum sim_section {
	SIM_SECTION_INPUT = 0,
	SIM_SECTION_FORWARD = 1,
	SIM_SECTION_BACKWARD = 2,
	SIM_SECTION_OPTIMIZER = 3,
	SIM_SECTION_EXPERT = 4,	   /* forward or backward of the rank's experts */
	SIM_SECTION_IRREGULAR = 5, /* checkpoint, evaluation */
};

struct sim_op {
	uint8_t kind;	   /* enum sim_op_kind */
	uint8_t group;	   /* enum sim_group_type, of collectives */
	uint8_t direction; /* enum sim_direction, of sends and receives */
	uint8_t section;   /* enum sim_section, of work */
	uint8_t operation; /* enum operation */
	uint16_t microbatch;
	uint32_t peer_stage; /* of sends and receives */
	uint32_t slot;	     /* counts the messages of a (receiver, direction) in a step */
	uint32_t part;	     /* index of the part it makes; collectives, sends, receives */
	double work_ns;
	double transfer_ns;
	uint64_t length_bytes;
};

struct sim_program {
	struct sim_op *ops;
	uint32_t op_count, op_capacity;
	uint32_t part_count;
	uint32_t async_count;
	uint32_t *async_ops;			  /* indices of the asynchronous collectives */
	uint32_t receive_count[SIM_DIRECTION_NR]; /* messages that come in */
	double work_ns;				  /* sum */
	double cross_transfer_ns;		  /* sum of transfers other than tensor parallel */
	uint64_t signature;
};

enum sim_schedule {
	SIM_SCHEDULE_1F1B = 0,	      /* interleaved with virtual stages */
	SIM_SCHEDULE_GPIPE = 1,	      /* all forward passes, then all backward ones */
	SIM_SCHEDULE_ZERO_BUBBLE = 2, /* gradients of weights later, where the stage would wait */
};

struct sim_program_options {
	double step_ns;		 /* aimed at; the schedule's bubbles are allowed for */
	double transfer_share;	 /* of the step, in transfers */
	uint32_t microbatches;	 /* of one step; with virtual stages a multiple of pipeline */
	uint32_t virtual_stages; /* 1 = plain 1F1B */
	enum sim_schedule schedule;
	uint32_t layers;  /* of one chunk: places of tensor parallel collectives */
	uint32_t buckets; /* of gradients */
	bool sharded;	  /* FSDP: gathers before each layer, scatters after */
	bool overlap;	  /* gradients and gathers go on the communication stream */
	bool norm;	  /* all-reduce of the gradient norm over the model */
	bool untied;	  /* first and last stage share no embedding */
};

/* The usual step of a stage, or (irregular) one with a checkpoint before it. */
int sim_program_init(struct sim_program *program, const struct sim_layout *layout,
	const struct sim_program_options *options, uint32_t stage, bool irregular)
	__attribute__((warn_unused_result));
void sim_program_fini(struct sim_program *program);

#endif
