/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the verbs wrappers share. The state is process-wide: see verbs_wrap.h. */
#ifndef SLOWRANK_PROBE_INJECT_VERBS_WRAP_INTERNAL_H
#define SLOWRANK_PROBE_INJECT_VERBS_WRAP_INTERNAL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "probe/inject/verbs_wrap.h"
#include "probe/ring/verbs_abi.h"
#include "probe/ring/verbs_table.h"

/* ---- functions of libibverbs ---- */

enum verbs_function {
	VERBS_OPEN_DEVICE = 0,
	VERBS_IMPORT_DEVICE = 1,
	VERBS_CLOSE_DEVICE = 2,
	VERBS_CREATE_CQ = 3,
	VERBS_CREATE_QP = 4,
	VERBS_MODIFY_QP = 5,
	VERBS_DESTROY_QP = 6,
	VERBS_DESTROY_CQ = 7,
	VERBS_FUNCTION_NR = 8,
};

/* The library's own function; NULL: it has none, or the library was not found. */
void *verbs_symbols_original(enum verbs_function function);
/* Finds libibverbs and lets later lookups find ours[]. Returns 0, -ENOENT, -EPERM. */
int verbs_symbols_take(void *const ours[VERBS_FUNCTION_NR]) __attribute__((warn_unused_result));
void verbs_symbols_give_back(void);

/* ---- the shared file ---- */

/* Makes and maps the file. Returns 0 or a negative errno. */
int verbs_table_create(struct verbs_table **table) __attribute__((warn_unused_result));
void verbs_table_remove(void); /* its name only: mappings stay valid */
void verbs_table_forget(void); /* in a forked child, which has no file of its own yet */

/* ---- the clock ---- */

/* Ticks of the cheapest clock that all processors share; a length in ns. */
uint64_t verbs_clock_ticks(void);
uint64_t verbs_clock_ns(uint64_t ticks);
void verbs_clock_calibrate(void); /* again and again, on slow paths */

/* ---- counting ---- */

struct verbs_counter;

/* The counter of a queue pair; NULL: there is no room. Adds it when it is new. */
struct verbs_counter *verbs_counter_of(unsigned slot, uint32_t number);
/* Before the provider's call: what is posted. token: for the two below. */
struct verbs_post {
	uint64_t requests, bytes, read_bytes, signaled, first_signaled;
	bool counted;
};
void verbs_counter_post(struct verbs_counter *counter, struct verbs_abi_send_request *request,
	struct verbs_post *post);
/* The provider refused the requests from bad on. */
void verbs_counter_refused(struct verbs_counter *counter, struct verbs_abi_send_request *bad,
	const struct verbs_post *post);
/* Counts a completion that a poll told at ticks. */
void verbs_counter_complete(
	unsigned slot, const struct verbs_abi_completion *entry, uint64_t ticks);

/* flags: enum verbs_queue_pair_flag, of how it was made */
void verbs_counter_set_options(struct verbs_counter *counter, const struct verbs_abi_qp *qp,
	bool signal_all, uint32_t flags);
void verbs_counter_set_attributes(struct verbs_counter *counter,
	const struct verbs_abi_qp_attributes *attributes, unsigned mask);
void verbs_counter_destroyed(unsigned slot, uint32_t number);
void verbs_counter_context_closed(unsigned slot); /* destroys all that is left of it */

/* Sets flags of all queue pairs that send into this completion queue. */
void verbs_counters_flag_queue(const void *cq, uint32_t flags);

/* Counts into this table; the counters of an older one are forgotten. Returns 0 or -ENOMEM. */
int verbs_counters_start(struct verbs_table *table) __attribute__((warn_unused_result));
void verbs_counters_stop(void); /* counts nothing from now on */
struct verbs_table *verbs_counters_table(void);

/* ---- objects by address (verbs_wrap_addresses.c) ---- */

/* Looked up at any time, changed under the lock. An address stays at its place. */
enum { VERBS_ADDRESSES_MAX = 2048 };
struct verbs_addresses {
	const void *_Atomic places[VERBS_ADDRESSES_MAX];
	uint32_t generations[VERBS_ADDRESSES_MAX]; /* of their objects; never 0 */
	uint32_t generation;			   /* the newest */
	atomic_uint lock;
};

int verbs_addresses_find(const struct verbs_addresses *addresses, const void *address); /* or -1 */
bool verbs_addresses_lock(struct verbs_addresses *addresses) /* tries for a bounded time */
	__attribute__((warn_unused_result));
void verbs_addresses_unlock(struct verbs_addresses *addresses);
/* The place of an address that is there, or a free one for it, or -1. It is found from set() on. */
int verbs_addresses_place(const struct verbs_addresses *addresses, const void *address);
void verbs_addresses_set(struct verbs_addresses *addresses, int place, const void *address);
/*
 * An object is removed after it was destroyed, when another one may have come to its address:
 * generation, asked for before, tells them apart. 0: not there, which is fine for both.
 */
uint32_t verbs_addresses_generation(const struct verbs_addresses *addresses, const void *address);
void verbs_addresses_remove(
	struct verbs_addresses *addresses, const void *address, uint32_t generation);

/* ---- the extended interface (verbs_wrap_extended.c) ---- */

struct verbs_abi_cq_extended;

/* With the slot's context, under the mutex of the slots. */
void verbs_extended_wrap(size_t slot, struct verbs_abi_context *context);
void verbs_extended_unwrap(size_t slot, struct verbs_abi_context *context);
/* Of a new completion queue; verbs_wrap_extended_poll.c. */
void verbs_extended_watch_queue(unsigned slot, struct verbs_abi_cq_extended *cq);
/* True when ibv_start_poll() was called on this completion queue and cannot be counted. */
bool verbs_extended_polls_unseen(const void *cq);
/* Of a new queue pair with functions (enum ibv_qp_create_send_ops_flags) to post by; false: what
 * these post cannot be counted. verbs_wrap_extended_post.c */
bool verbs_extended_watch_pair(unsigned slot, struct verbs_abi_qp *qp, uint64_t functions)
	__attribute__((warn_unused_result));
/* Before an object is destroyed, and after it was (verbs_addresses_remove()). */
uint32_t verbs_extended_pair_generation(const void *qp);
void verbs_extended_forget_pair(const void *qp, uint32_t generation);
uint32_t verbs_extended_queue_generation(const void *cq);
void verbs_extended_forget_queue(const void *cq, uint32_t generation);

/* A queue pair was made, by whatever function. */
void verbs_wrap_see_queue_pair(const struct verbs_abi_qp *qp, bool signal_all, uint32_t flags);

#endif
