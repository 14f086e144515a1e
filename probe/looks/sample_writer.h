/* SPDX-License-Identifier: Apache-2.0 */
/* A sampler's side of the pipe: names and nodes are told once, looks by their numbers. One thread. */
#ifndef SLOWRANK_PROBE_LOOKS_SAMPLE_WRITER_H
#define SLOWRANK_PROBE_LOOKS_SAMPLE_WRITER_H

#include <stdbool.h>
#include <stddef.h>

#include "probe/looks/samples.h"

struct sampler_end;

struct sample_writer {
	int fd;
	bool failed; /* nobody reads any more */
	uint32_t text_length, node_count;
	char *text;		  /* SAMPLES_TEXT_MAX: what was told */
	struct stack_node *nodes; /* SAMPLES_NODES_MAX: likewise */
	uint32_t *name_places, *node_places;
	size_t used;
	char buffer[65536];
};

/* Returns 0 or -ENOMEM; the process ends with it. */
int sample_writer_init(struct sample_writer *writer, int fd) __attribute__((warn_unused_result));

/* The node with this parent, its names cut to STACK_PROFILE_NAME_MAX; STACK_NODE_NONE: there is no room for it. */
uint32_t sample_writer_node(struct sample_writer *writer, uint32_t parent, uint8_t kind,
	const char *function, const char *file, int32_t line);
void sample_writer_thread(
	struct sample_writer *writer, uint32_t index, const struct stack_thread_info *thread);
/* Writes all that was told so far. */
void sample_writer_look(struct sample_writer *writer, int64_t time_ns,
	const struct sample_seen *seen, size_t count);
void sample_writer_end(struct sample_writer *writer, const struct sampler_end *end);

#endif
