/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a piece of program in a child that slowrank follows, and keeps what the kernel told. For
 * one thread.
 */
#ifndef SLOWRANK_TESTS_KERNEL_HARNESS_H
#define SLOWRANK_TESTS_KERNEL_HARNESS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <cmocka.h>

#include "probe/attach/collective_table.h"
#include "probe/sources/bpf_source.h"
#include "tests/kernel/calls.h"

enum { RECORD_BYTES_MAX = 512, RECORDS_MAX = 8192 };

struct record {
	_Alignas(8) unsigned char bytes[RECORD_BYTES_MAX];
};

struct harness {
	struct bpf_source *source;
	size_t record_count;
	struct record *records;
	int to_child, from_child; /* pipes, seen from the parent */
};

/*
 * The source and the attached library. Exits the test program with 77 and a reason on stdout
 * where the kernel or the rights do not allow it. cmocka's group set-up and tear-down.
 */
int harness_set_up(void **state);
int harness_tear_down(void **state);
/* The same with a ring of this size. */
void harness_open(struct harness *harness, size_t ring_bytes);
void harness_close(struct harness *harness);

/* Starts a tracked child that waits; runs work in it when let go; then it exits with 0. */
pid_t harness_start(struct harness *harness, void (*work)(void));
void harness_let_go(struct harness *harness);
/* In the child: says that a point is reached, and waits until it may go on. In the parent: waits
 * until the child is there. */
void child_wait(void);
void harness_wait_for_child(struct harness *harness);
/* Waits for the child's end, and takes all records. */
void harness_finish(struct harness *harness, pid_t child);
/* All of it. Records of earlier children are forgotten. */
pid_t harness_run(struct harness *harness, void (*work)(void));

/* The number-th record of a kind of a process, or NULL. */
const void *harness_find(
	const struct harness *harness, enum event_kind kind, pid_t pid, size_t number);
size_t harness_count(const struct harness *harness, enum event_kind kind, pid_t pid);
/* The number-th collective: it must be there. */
const struct event_collective *harness_collective(
	const struct harness *harness, pid_t pid, size_t number);
/* A number that the child says and the parent reads, by slot. */
extern volatile int64_t *harness_notes;

uint16_t row_of(const char *symbol);
int64_t clock_ns(int clock);
void spin_ns(int64_t wall_ns);
void sleep_ns(int64_t ns);
void pin_to_cpu(int cpu);

#define MILLISECONDS 1000000LL

#endif
