/* SPDX-License-Identifier: Apache-2.0 */
/* One bpf_source, the events it gave, and the programs it is tried on. One thread. */
#ifndef TESTS_BPF_HARNESS_H
#define TESTS_BPF_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "bpf/event_layout.h"
#include "probe/sources/bpf_source.h"

/* Returns 0 when the tests can run here; else prints why and returns 77. */
int harness_check(void);

struct rank {
	pid_t pid;
	int orders, answers;
};

struct rank rank_start(void);
/* An order of told_rank.c; returns its answer. Fails the test when there is none in 20 s. */
int64_t rank_do(const struct rank *rank, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
/* The same without waiting for the answer, which rank_answer() gets. */
void rank_order(const struct rank *rank, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
int64_t rank_answer(const struct rank *rank);
void rank_end(struct rank *rank);

enum { HARNESS_EVENT_BYTES_MAX = 8 << 20 };

struct harness {
	struct bpf_source *source;
	size_t used_bytes, count;
	uint8_t *bytes; /* records as they came */
};

/* With the told library attached. */
void harness_start(struct harness *harness, const struct bpf_source_options *options);
void harness_end(struct harness *harness);
/* Forgets the events so far, in the ring too. */
void harness_clear(struct harness *harness);
/* Takes what is in the ring. */
void harness_collect(struct harness *harness);

/* The number-th event (from 0) of a kind and process (0 = any) taken so far, or NULL. */
const void *harness_find(const struct harness *harness, uint16_t kind, pid_t pid, size_t number);
size_t harness_count(const struct harness *harness, uint16_t kind, pid_t pid);

/* The row of a symbol in the table of collectives. */
uint16_t row_of(const char *symbol);

int64_t now_ns(void);

/* Time that a process's first thread waited on run queues so far, as the kernel counts. */
int64_t run_delay_ns(pid_t pid);

#endif
