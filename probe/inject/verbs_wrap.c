/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrappers in the tables of contexts. Each context has a slot, and each slot wrappers of its own,
 * made by a macro: so a wrapper knows the provider's function without looking for it.
 */
#include "probe/inject/verbs_wrap.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "probe/inject/verbs_wrap_internal.h"

struct slot {
	struct verbs_abi_context *_Atomic context;
	verbs_abi_post_send *post_send; /* the provider's; kept when the context is closed */
	verbs_abi_poll *poll;
};

static struct {
	pthread_mutex_t mutex; /* slots; never taken by a wrapper of the table */
	bool symbols_taken, fork_guarded;
	struct slot slots[VERBS_DEVICES_MAX];
} state = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static inline __attribute__((always_inline)) int count_post(unsigned slot, struct verbs_abi_qp *qp,
	struct verbs_abi_send_request *request, struct verbs_abi_send_request **bad)
{
	struct verbs_counter *counter = verbs_counter_of(slot, qp->number);
	struct verbs_post post;
	int error;

	if (__builtin_expect(!counter, 0))
		return state.slots[slot].post_send(qp, request, bad);
	/* Before the call: its completion may be polled before it returns. */
	verbs_counter_post(counter, request, &post);
	error = state.slots[slot].post_send(qp, request, bad);
	if (__builtin_expect(error != 0, 0))
		verbs_counter_refused(counter, bad ? *bad : NULL, &post);
	return error;
}

static __attribute__((noinline)) void count_completions(
	unsigned slot, int entry_count, const struct verbs_abi_completion *entries)
{
	uint64_t ticks = verbs_clock_ticks();

	for (int i = 0; i < entry_count; i++) {
		verbs_counter_complete(slot, &entries[i], ticks);
	}
}

static inline __attribute__((always_inline)) int count_poll(unsigned slot, struct verbs_abi_cq *cq,
	int entry_count, struct verbs_abi_completion *entries)
{
	int count = state.slots[slot].poll(cq, entry_count, entries);

	if (__builtin_expect(count > 0, 0))
		count_completions(slot, count, entries);
	return count;
}

/* Each pass of clang-format lays this out otherwise. */
/* clang-format off */
#define SLOTS(F)                                                                                   \
	F(0)                                                                                       \
	F(1)                                                                                       \
	F(2)                                                                                       \
	F(3)                                                                                       \
	F(4)                                                                                       \
	F(5)                                                                                       \
	F(6)                                                                                       \
	F(7)                                                                                       \
	F(8)                                                                                       \
	F(9)                                                                                       \
	F(10)                                                                                      \
	F(11)                                                                                      \
	F(12) F(13) F(14) F(15) F(16) F(17) F(18) F(19) F(20) F(21) F(22) F(23) F(24) F(25) F(26)  \
		F(27) F(28) F(29) F(30) F(31)
/* clang-format on */

#define WRAPPERS(n)                                                                                \
	static int post_##n(struct verbs_abi_qp *qp, struct verbs_abi_send_request *request,       \
		struct verbs_abi_send_request **bad)                                               \
	{                                                                                          \
		return count_post(n, qp, request, bad);                                            \
	}                                                                                          \
	static int poll_##n(                                                                       \
		struct verbs_abi_cq *cq, int entry_count, struct verbs_abi_completion *entries)    \
	{                                                                                          \
		return count_poll(n, cq, entry_count, entries);                                    \
	}
SLOTS(WRAPPERS)

#define POST_NAME(n) post_##n,
#define POLL_NAME(n) poll_##n,
static verbs_abi_post_send *const post_wrappers[VERBS_DEVICES_MAX] = {SLOTS(POST_NAME)};
static verbs_abi_poll *const poll_wrappers[VERBS_DEVICES_MAX] = {SLOTS(POLL_NAME)};

static int slot_of(const struct verbs_abi_context *context)
{
	for (int i = 0; i < VERBS_DEVICES_MAX; i++) {
		if (context && atomic_load(&state.slots[i].context) == context)
			return i;
	}
	return -1;
}

static bool is_wrapper(const struct verbs_abi_context *context)
{
	for (size_t i = 0; i < VERBS_DEVICES_MAX; i++) {
		if (context->post_send == post_wrappers[i] || context->poll == poll_wrappers[i])
			return true;
	}
	return false;
}

static int free_slot(void)
{
	for (int i = 0; i < VERBS_DEVICES_MAX; i++) {
		if (!atomic_load(&state.slots[i].context))
			return i;
	}
	return -1;
}

/* Called with the mutex. */
static void wrap_context(struct verbs_table *table, struct verbs_abi_context *context)
{
	int slot = slot_of(context);

	if (!context->post_send || !context->poll || is_wrapper(context))
		return;
	if (slot >= 0) /* closed unseen, and a new one at its address */
		verbs_counter_context_closed((unsigned)slot);
	else
		slot = free_slot();
	if (slot < 0) {
		__atomic_fetch_add(&table->contexts_unseen, 1, __ATOMIC_RELAXED);
		return;
	}
	if (context->device)
		memcpy(table->devices[slot], context->device->name, VERBS_DEVICE_NAME_LENGTH - 1);
	state.slots[slot].post_send = context->post_send;
	state.slots[slot].poll = context->poll;
	atomic_store(&state.slots[slot].context, context);
	__atomic_store_n(&context->post_send, post_wrappers[slot], __ATOMIC_RELEASE);
	__atomic_store_n(&context->poll, poll_wrappers[slot], __ATOMIC_RELEASE);
	verbs_extended_wrap((size_t)slot, context);
}

/* Called with the mutex. What another tool has put on top stays, and so do we below it. */
static void unwrap_context(size_t slot)
{
	struct verbs_abi_context *context = atomic_load(&state.slots[slot].context);

	if (context->post_send == post_wrappers[slot])
		__atomic_store_n(
			&context->post_send, state.slots[slot].post_send, __ATOMIC_RELEASE);
	if (context->poll == poll_wrappers[slot])
		__atomic_store_n(&context->poll, state.slots[slot].poll, __ATOMIC_RELEASE);
	verbs_extended_unwrap(slot, context);
}

/* A child counts nothing into its parent's file. */
static void after_fork(void)
{
	pthread_mutex_init(&state.mutex, NULL);
	verbs_counters_stop();
	verbs_table_forget();
}

/* A file for this process, when it opens its first device; a forked child makes its own. */
static int ensure_table(void)
{
	struct verbs_table *table;
	int error;

	if (verbs_counters_table())
		return 0;
	error = verbs_table_create(&table);
	if (error)
		return error;
	verbs_clock_calibrate();
	error = verbs_counters_start(table);
	if (error)
		verbs_table_remove();
	return error;
}

/*
 * glibc's own, below pthread_atfork(). Weak: in a program of another C library (musl) it is missing, which would else
 * be the end of the program, and nothing is counted.
 */
extern int __register_atfork(void (*before)(void), void (*parent)(void), void (*child)(void),
	void *object) __attribute__((weak));
extern void *__dso_handle __attribute__((visibility("hidden")));

static int guard_fork(void)
{
	return __register_atfork ? -__register_atfork(NULL, NULL, after_fork, __dso_handle)
				 : -ENOSYS;
}

int verbs_wrap_start(void)
{
	void *const ours[VERBS_FUNCTION_NR] = {(void *)verbs_wrap_open_device,
		(void *)verbs_wrap_import_device, (void *)verbs_wrap_close_device,
		(void *)verbs_wrap_create_cq, (void *)verbs_wrap_create_qp,
		(void *)verbs_wrap_modify_qp, (void *)verbs_wrap_destroy_qp,
		(void *)verbs_wrap_destroy_cq};
	int error = 0, old_errno = errno;

	pthread_mutex_lock(&state.mutex);
	if (!state.fork_guarded) {
		error = guard_fork();
		state.fork_guarded = error == 0;
	}
	if (!error && !state.symbols_taken) {
		error = verbs_symbols_take(ours);
		state.symbols_taken = error == 0;
	}
	pthread_mutex_unlock(&state.mutex);
	errno = old_errno;
	return error;
}

void verbs_wrap_stop(void)
{
	int old_errno = errno;

	pthread_mutex_lock(&state.mutex);
	if (state.symbols_taken)
		verbs_symbols_give_back();
	state.symbols_taken = false;
	for (size_t i = 0; i < VERBS_DEVICES_MAX; i++) {
		if (!atomic_load(&state.slots[i].context))
			continue;
		unwrap_context(i);
		atomic_store(&state.slots[i].context, NULL);
	}
	/* The mapping stays: a call that runs now may be writing to it. */
	verbs_counters_stop();
	verbs_table_remove();
	pthread_mutex_unlock(&state.mutex);
	errno = old_errno;
}

const struct verbs_table *verbs_wrap_table(void)
{
	return verbs_counters_table();
}

static void see_context(struct verbs_abi_context *context)
{
	int old_errno = errno;

	pthread_mutex_lock(&state.mutex);
	if (state.symbols_taken && ensure_table() == 0) {
		verbs_clock_calibrate();
		wrap_context(verbs_counters_table(), context);
	}
	pthread_mutex_unlock(&state.mutex);
	errno = old_errno;
}

#define ORIGINAL(function, type) ((type)verbs_symbols_original(function))

void *verbs_wrap_open_device(void *device)
{
	void *context;

	if (!verbs_symbols_original(VERBS_OPEN_DEVICE)) {
		errno = ENOSYS;
		return NULL;
	}
	context = ORIGINAL(VERBS_OPEN_DEVICE, void *(*)(void *))(device);
	if (context)
		see_context(context);
	return context;
}

void *verbs_wrap_import_device(int fd)
{
	void *context;

	if (!verbs_symbols_original(VERBS_IMPORT_DEVICE)) {
		errno = ENOSYS;
		return NULL;
	}
	context = ORIGINAL(VERBS_IMPORT_DEVICE, void *(*)(int))(fd);
	if (context)
		see_context(context);
	return context;
}

int verbs_wrap_close_device(struct verbs_abi_context *context)
{
	int slot, old_errno = errno;

	if (!verbs_symbols_original(VERBS_CLOSE_DEVICE))
		return ENOSYS;
	/* Before it is freed. A poll that runs now ends in the provider's function as before. */
	pthread_mutex_lock(&state.mutex);
	slot = slot_of(context);
	if (slot >= 0) {
		unwrap_context((size_t)slot);
		verbs_counter_context_closed((unsigned)slot);
		atomic_store(&state.slots[slot].context, NULL);
	}
	pthread_mutex_unlock(&state.mutex);
	errno = old_errno;
	return ORIGINAL(VERBS_CLOSE_DEVICE, int (*)(struct verbs_abi_context *))(context);
}

void *verbs_wrap_create_cq(struct verbs_abi_context *context, int entry_count, void *cq_context,
	void *channel, int vector)
{
	if (!verbs_symbols_original(VERBS_CREATE_CQ)) {
		errno = ENOSYS;
		return NULL;
	}
	see_context(context); /* opened before we came */
	return ORIGINAL(VERBS_CREATE_CQ, void *(*)(void *, int, void *, void *, int))(
		context, entry_count, cq_context, channel, vector);
}

void verbs_wrap_see_queue_pair(const struct verbs_abi_qp *qp, bool signal_all, uint32_t flags)
{
	struct verbs_counter *counter;
	int slot;

	see_context(qp->context);
	slot = slot_of(qp->context);
	counter = slot >= 0 ? verbs_counter_of((unsigned)slot, qp->number) : NULL;
	if (counter)
		verbs_counter_set_options(counter, qp, signal_all, flags);
}

void *verbs_wrap_create_qp(void *pd, void *options)
{
	const struct verbs_abi_qp_options *wanted = options;
	struct verbs_abi_qp *qp;

	if (!verbs_symbols_original(VERBS_CREATE_QP)) {
		errno = ENOSYS;
		return NULL;
	}
	qp = ORIGINAL(VERBS_CREATE_QP, void *(*)(void *, void *))(pd, options);
	if (qp)
		verbs_wrap_see_queue_pair(qp, wanted->signal_all != 0, 0);
	return qp;
}

int verbs_wrap_modify_qp(void *opaque, void *attributes, int mask)
{
	struct verbs_abi_qp *qp = opaque;
	struct verbs_counter *counter;
	int slot, result;

	if (!verbs_symbols_original(VERBS_MODIFY_QP))
		return ENOSYS;
	result = ORIGINAL(VERBS_MODIFY_QP, int (*)(void *, void *, int))(qp, attributes, mask);
	if (result)
		return result;
	slot = slot_of(qp->context);
	counter = slot >= 0 ? verbs_counter_of((unsigned)slot, qp->number) : NULL;
	if (counter)
		verbs_counter_set_attributes(counter, attributes, (unsigned)mask);
	return 0;
}

int verbs_wrap_destroy_qp(void *opaque)
{
	struct verbs_abi_qp *qp = opaque;
	uint32_t number = qp->number, generation = verbs_extended_pair_generation(opaque);
	int slot = slot_of(qp->context), result;

	if (!verbs_symbols_original(VERBS_DESTROY_QP))
		return ENOSYS;
	result = ORIGINAL(VERBS_DESTROY_QP, int (*)(void *))(qp);
	if (result == 0 && slot >= 0)
		verbs_counter_destroyed((unsigned)slot, number);
	if (result == 0)
		verbs_extended_forget_pair(opaque, generation);
	return result;
}

int verbs_wrap_destroy_cq(void *cq)
{
	uint32_t generation = verbs_extended_queue_generation(cq);
	int result;

	if (!verbs_symbols_original(VERBS_DESTROY_CQ))
		return ENOSYS;
	result = ORIGINAL(VERBS_DESTROY_CQ, int (*)(void *))(cq);
	if (result == 0)
		verbs_extended_forget_queue(cq, generation);
	return result;
}
