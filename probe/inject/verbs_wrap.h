/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what a process does with verbs, from within: post_send and poll_cq are inline functions
 * that call through the table of their context, so the two pointers there are replaced by
 * counting wrappers (docs/rdma.md). An empty poll costs two jumps: no clock is read, nothing is
 * written. The counts are in a file that the probe maps (probe/ring/verbs_table.h).
 *
 * Contexts are learnt from libibverbs' own functions that open, create, change and destroy. These
 * are taken over by changing their values in the dynamic symbol table of the mapped libibverbs,
 * so that every later lookup, dlvsym() included (NCCL), finds ours. Lookups before that are not
 * affected: start early. No system call, lock that waits, or allocation after a queue pair's
 * first use; errno stays as it is. Any thread; one process-wide state, for the ABI has no context.
 */
#ifndef SLOWRANK_PROBE_INJECT_VERBS_WRAP_H
#define SLOWRANK_PROBE_INJECT_VERBS_WRAP_H

#include <stdbool.h>
#include <stddef.h>

struct verbs_table;
struct verbs_abi_context;

/*
 * Takes over the functions of libibverbs.so.1, which is loaded if it can be; again: nothing. The
 * file is made when the process opens its first device. Returns 0; -ENOENT when there is no
 * libibverbs; -EBUSY when another library of slowrank's counts already; -EPERM when its symbol table
 * cannot be changed; another negative errno. The process goes on as before in every case.
 */
int verbs_wrap_start(void) __attribute__((warn_unused_result));

/*
 * Starts where verbs are used or will be: libibverbs is mapped, or the host has an RDMA device and
 * this is a rank (a launcher's variables say so) or computes on a device. -ENOENT: not here;
 * -ECANCELED: SLOWRANK_VERBS=off.
 */
int verbs_wrap_start_where_used(bool on_device) __attribute__((warn_unused_result));

/*
 * Gives everything back: the pointers of every open context, the symbols; removes the file. Calls
 * that run meanwhile end well, for the code stays (the library must be linked with -z nodelete).
 */
void verbs_wrap_stop(void);

/* The table that is written now, or NULL. */
const struct verbs_table *verbs_wrap_table(void);

/* libibverbs' functions, counted; for a library that is preloaded and exports them by name. */
void *verbs_wrap_open_device(void *device);
void *verbs_wrap_import_device(int fd);
int verbs_wrap_close_device(struct verbs_abi_context *context);
void *verbs_wrap_create_cq(struct verbs_abi_context *context, int entry_count, void *cq_context,
	void *channel, int vector);
void *verbs_wrap_create_qp(void *pd, void *options);
int verbs_wrap_modify_qp(void *qp, void *attributes, int mask);
int verbs_wrap_destroy_qp(void *qp);
int verbs_wrap_destroy_cq(void *cq);

#endif
