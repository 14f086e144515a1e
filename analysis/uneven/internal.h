/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of uneven/ share. One thread. */
#ifndef SLOWRANK_ANALYSIS_UNEVEN_INTERNAL_H
#define SLOWRANK_ANALYSIS_UNEVEN_INTERNAL_H

#include "analysis/judge/internal.h"

/* Work on both ends of messages: deviations from the usual, slow sums. */
struct message_state {
	float *work; /* per cell of the step */
	double count, xx, yy, xy;
};

/* What peers do at each place of a layout, on average over steps. */
struct even_layout {
	uint64_t key, seen; /* seen: the last step */
	uint32_t cell_count;
	float samples;
	float *work_ns; /* by place */
};

enum { EVEN_LAYOUTS_MAX = 64 };

/* The step with even sequences. */
struct even_state {
	struct even_layout layouts[EVEN_LAYOUTS_MAX];
	uint32_t layout_count;
	int64_t *own_ns; /* per cell of the step */
	struct whatif_line line;
	double gain_ns, time_ns; /* of steps looked at: slow sums */
};

/* How the work of rows differs from their usual, forward and backward; slow sums over steps. */
struct deviation_sums {
	double products[3];    /* of deviations of both directions: xx, yy, xy */
	double absolute, work; /* of deviations of both together, of rows' work */
	double taken;	       /* of the work, while the rank was kept off its CPU */
	double led;	       /* steps whose hosts lead their devices */
	double rows, steps;    /* in them */
	bool beside; /* in the last step, some device's collectives went on beside its work */
};

/* Per row: which role, as a key. Kept while rows and layouts stay. */
struct role_keys {
	uint64_t *keys;
	size_t capacity;
	uint64_t grouped; /* hash of the rows that the keys are of */
};

/* What is known of the work of rows. */
struct uneven_work {
	struct role_keys rows;
	double worst_work_ms, mean_work_ms; /* a step; of the worst role, and of all */
	int64_t block_gain_ns[2];	    /* of stages, of uneven input */
	struct deviation_sums deviations;
	struct message_state messages;
	struct even_state even;
	bool sequences; /* they are uneven, as of this step */
	struct whatif_line line;
};

/* uneven/experts.c: of suspected ranks, where in the step their excess is. */
void judge_experts_step(struct judge *judge, const struct step_grid *grid);
/* uneven/messages.c: after blame, of steps with sends and receives. */
int judge_messages_step(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));
/* What the two ends of a message do goes together, and differs from message to message. */
bool judge_messages_alike(const struct message_state *state);
double judge_messages_correlation(const struct message_state *state);

/* uneven/roles.c: fills keys for the step's rows. Returns 0 or -ENOMEM. */
int judge_roles_key(struct judge *judge, const struct step_grid *grid)
	__attribute__((warn_unused_result));

/* uneven/even.c: by how much the step is longer than with even sequences. sampled: to be looked at. */
int judge_even_step(struct judge *judge, const struct step_grid *grid, bool sampled,
	int64_t *gain_ns) __attribute__((warn_unused_result));
void judge_even_fini(struct even_state *state);

#endif
