/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/nccl_chain.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/mman.h>

#include "probe/inject/nccl_abi.h"
#include "probe/inject/process.h"

enum {
	VERSION_FIRST = 1, /* that there ever was */
	SERVED_FIRST = 2,  /* that there are tables of ours for */
	SERVED_LAST = 6,
	VERSION_LAST = 9,	/* that is looked for: a user's plug-in may be newer than we are */
	TRANSLATED_FIRST = 4,	/* newer events are these, and more kinds of them */
	NET_FALLBACK_FIRST = 5, /* since NCCL 2.28 a network plug-in may be the profiler, too */
};
enum { MEMBERS_MAX = 1024 };
/*
 * An event that others have for a parent is needed after its stop, and nobody says how long: its pair
 * is kept until so many others came. The largest group (a send and a receive for each of 8,192 ranks,
 * each with a call, a task and channels) fits. Calls captured in a graph are parents at each replay:
 * they are kept for good, the first of them.
 */
enum { RECENT_MAX = 1 << 17, LASTING_MAX = 1 << 14 };
enum { KIND_PAIR = 7, KIND_BITS = 3, KEY_SHIFT = 48 }; /* beside the tracker's kinds */
#define LASTING_BIT (UINT64_C(1) << 44)

/* One of the two plug-ins. */
struct side {
	int version;
	union {
		const struct nccl_profiler_v2 *v2;
		const struct nccl_profiler_v4 *v4;
		const struct nccl_profiler_v5 *v5;
	};
	int (*start_event)(void *context, void **handle, void *event);
	int (*stop_event)(void *handle);
	int (*record_event_state)(void *handle, int state, const void *arguments);
	int (*finalize)(void *context);
};

/* A communicator: what NCCL takes for our context. */
struct member {
	uint32_t used; /* atomic */
	bool theirs_began;
	void *own, *theirs;
};

/* Both handles of an event; mask: what the user's plug-in asked for when it began. */
struct pair {
	uint64_t tag; /* atomic: its number + 1; 0 while it changes */
	void *own, *theirs;
	int mask;
};

/* What init() is told, of all versions. */
struct told {
	uint64_t hash;
	const char *name;
	int node_count, rank_count, rank;
	nccl_logger logger;
};

static struct {
	pthread_mutex_t lock; /* of the loading */
	bool tried;
	void *library; /* NULL: there is no plug-in of the user's */
	struct side own, theirs;
	struct pair *pairs;
	uint64_t recent, lasting; /* atomic */
	uint64_t cursor;	  /* atomic */
	struct member members[MEMBERS_MAX];
	int own_mask, user_mask; /* atomic */
	int *theirs_mask;	 /* atomic: user_mask, or NCCL's own where nothing of ours runs */

	pthread_mutex_t mask_lock;
	int *mask; /* NCCL's; touched only while a communicator lives */
	uint32_t communicators;
} chain = {.lock = PTHREAD_MUTEX_INITIALIZER,
	.mask_lock = PTHREAD_MUTEX_INITIALIZER,
	.theirs_mask = &chain.user_mask};

/* Which of the mask's bits make NCCL tell of an event: its own, and those of its children. */
enum {
	CAUSES_STEP = NCCL_EVENT_PROXY_STEP | NCCL_EVENT_NET_PLUGIN,
	CAUSES_TASK = NCCL_EVENT_PROXY_OPERATION | CAUSES_STEP | NCCL_EVENT_KERNEL_CHANNEL,
	CAUSES_COLLECTIVE = NCCL_EVENT_COLLECTIVE | CAUSES_TASK,
	CAUSES_POINT_TO_POINT = NCCL_EVENT_POINT_TO_POINT | CAUSES_TASK,
	CAUSES_GROUP = NCCL_EVENT_GROUP | CAUSES_COLLECTIVE | CAUSES_POINT_TO_POINT,
	CAUSES_COPY_ENGINE = NCCL_EVENT_COPY_ENGINE_COLLECTIVE |
			     NCCL_EVENT_COPY_ENGINE_SYNCHRONISATION | NCCL_EVENT_COPY_ENGINE_BATCH,
	CAUSES_COLLECTIVE_API = NCCL_EVENT_COLLECTIVE_API | CAUSES_COLLECTIVE | CAUSES_COPY_ENGINE,
	CAUSES_POINT_TO_POINT_API = NCCL_EVENT_POINT_TO_POINT_API | CAUSES_POINT_TO_POINT,
	CAUSES_GROUP_API = NCCL_EVENT_GROUP_API | NCCL_EVENT_KERNEL_LAUNCH | CAUSES_GROUP |
			   CAUSES_COLLECTIVE_API | CAUSES_POINT_TO_POINT_API,
};

/* For those that ours make NCCL tell of; 0: of the others nothing comes but what the user's asked for. */
static int causes(uint64_t type)
{
	switch (type) {
	case NCCL_EVENT_GROUP:
		return CAUSES_GROUP;
	case NCCL_EVENT_COLLECTIVE:
		return CAUSES_COLLECTIVE;
	case NCCL_EVENT_POINT_TO_POINT:
		return CAUSES_POINT_TO_POINT;
	case NCCL_EVENT_KERNEL_CHANNEL:
		return NCCL_EVENT_KERNEL_CHANNEL;
	case NCCL_EVENT_GROUP_API:
		return CAUSES_GROUP_API;
	case NCCL_EVENT_COLLECTIVE_API:
		return CAUSES_COLLECTIVE_API;
	case NCCL_EVENT_POINT_TO_POINT_API:
		return CAUSES_POINT_TO_POINT_API;
	case NCCL_EVENT_COPY_ENGINE_COLLECTIVE:
		return CAUSES_COPY_ENGINE;
	default:
		return 0;
	}
}

static bool is_call(uint64_t type)
{
	return type == NCCL_EVENT_COLLECTIVE_API || type == NCCL_EVENT_POINT_TO_POINT_API;
}

static bool is_task(uint64_t type)
{
	return type == NCCL_EVENT_COLLECTIVE || type == NCCL_EVENT_POINT_TO_POINT;
}

/* No handle of the user's looks so, or it gets a pair: a pointer's upper bits are 0, the key may be anything. */
static bool has_key(const void *handle)
{
	return (uintptr_t)handle >> KEY_SHIFT == (process_key() & UINT16_MAX);
}

static struct pair *pair_of(uint64_t number)
{
	return number & LASTING_BIT ? &chain.pairs[RECENT_MAX + (number & (LASTING_MAX - 1))]
				    : &chain.pairs[number & (RECENT_MAX - 1)];
}

/* One that was told of long ago may be overwritten: its number is not there then. */
static void *make_pair(const struct pair *made, bool lasting)
{
	uint64_t number = LASTING_MAX;
	struct pair *pair;

	if (lasting && __atomic_load_n(&chain.lasting, __ATOMIC_RELAXED) < LASTING_MAX)
		number = __atomic_fetch_add(&chain.lasting, 1, __ATOMIC_RELAXED);
	number = number < LASTING_MAX ? number | LASTING_BIT
				      : __atomic_fetch_add(&chain.recent, 1, __ATOMIC_RELAXED);
	pair = pair_of(number);
	/* Who finds what is new in it (find_pair()) finds the tag gone. */
	__atomic_store_n(&pair->tag, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&pair->own, made->own, __ATOMIC_RELEASE);
	__atomic_store_n(&pair->theirs, made->theirs, __ATOMIC_RELEASE);
	__atomic_store_n(&pair->mask, made->mask, __ATOMIC_RELEASE);
	__atomic_store_n(&pair->tag, number + 1, __ATOMIC_RELEASE);
	return (void *)(uintptr_t)((uint64_t)(process_key() & UINT16_MAX) << KEY_SHIFT |
				   number << KIND_BITS | KIND_PAIR);
}

/* Both handles of what NCCL has; of one without a pair it is the user's. False: it has no pair. */
static bool find_pair(void *handle, struct pair *found)
{
	uint64_t number = ((uintptr_t)handle & ((UINT64_C(1) << KEY_SHIFT) - 1)) >> KIND_BITS;
	const struct pair *pair;

	*found = (struct pair){.theirs = handle};
	if (((uintptr_t)handle & ((1U << KIND_BITS) - 1)) != KIND_PAIR || !has_key(handle))
		return false;
	pair = pair_of(number);
	if (__atomic_load_n(&pair->tag, __ATOMIC_ACQUIRE) == number + 1) {
		found->own = __atomic_load_n(&pair->own, __ATOMIC_ACQUIRE);
		found->theirs = __atomic_load_n(&pair->theirs, __ATOMIC_ACQUIRE);
		found->mask = __atomic_load_n(&pair->mask, __ATOMIC_ACQUIRE);
		if (__atomic_load_n(&pair->tag, __ATOMIC_RELAXED) == number + 1)
			return true;
	}
	*found = (struct pair){0};
	process_count_drop(PROCESS_DROP_LATE);
	return true;
}

static int theirs_mask(void)
{
	return __atomic_load_n(
		__atomic_load_n(&chain.theirs_mask, __ATOMIC_RELAXED), __ATOMIC_RELAXED);
}

static struct member *find_member(void *context)
{
	uintptr_t offset = (uintptr_t)context - (uintptr_t)chain.members;

	return offset < sizeof(chain.members) ? context : NULL;
}

static struct member *take_member(void)
{
	for (int tries = 0; tries < MEMBERS_MAX; tries++) {
		struct member *member =
			&chain.members[__atomic_fetch_add(&chain.cursor, 1, __ATOMIC_RELAXED) %
				       MEMBERS_MAX];
		uint32_t unused = 0;

		if (__atomic_compare_exchange_n(
			    &member->used, &unused, 1, false, __ATOMIC_ACQUIRE, __ATOMIC_RELAXED))
			return member;
	}
	return NULL;
}

/* In a forked child it may be taken for good, and there is no helper to keep out. */
static bool lock_mask(void)
{
	return process_is_live() && pthread_mutex_lock(&chain.mask_lock) == 0;
}

static void unlock_mask(bool locked)
{
	if (locked)
		pthread_mutex_unlock(&chain.mask_lock);
}

/* Kinds of events that came after the user's plug-in are not for it. */
static uint64_t theirs_known(void)
{
	if (chain.theirs.version <= 4)
		return NCCL_EVENTS_V4;
	return chain.theirs.version == 5 ? NCCL_EVENTS_V5 : UINT64_MAX;
}

static void ask_for_both(void)
{
	int both = __atomic_load_n(&chain.own_mask, __ATOMIC_RELAXED) |
		   (theirs_mask() & (int)theirs_known());

	if (chain.mask && __atomic_load_n(chain.mask, __ATOMIC_RELAXED) != both)
		__atomic_store_n(chain.mask, both, __ATOMIC_RELAXED);
}

void nccl_chain_refresh(void)
{
	bool locked = lock_mask();

	if (locked && chain.communicators > 0)
		ask_for_both();
	unlock_mask(locked);
}

static int side_init(const struct side *side, void **context, int *mask, const struct told *told)
{
	*context = NULL;
	if (side->version >= 5)
		return side->v5->init(context, told->hash, mask, told->name, told->node_count,
			told->rank_count, told->rank, told->logger);
	if (side->version == 4)
		return side->v4->init(context, mask, told->name, told->hash, told->node_count,
			told->rank_count, told->rank, told->logger);
	return side->v2->init(context, mask);
}

static void note_began(int *mask)
{
	bool locked = lock_mask();

	chain.communicators++;
	chain.mask = mask;
	ask_for_both();
	unlock_mask(locked);
}

/* Whatever becomes of the user's plug-in, ours goes on, and the other way round. */
static int begin(void **context, int *mask, const struct told *told)
{
	struct member *member = take_member();
	int *wish = &chain.user_mask;

	*context = NULL;
	if (!member) {
		process_count_drop(PROCESS_DROP_COMMUNICATOR);
		return side_init(&chain.theirs, context, wish, told);
	}
	(void)side_init(&chain.own, &member->own, &chain.own_mask, told);
	if (!process_is_live()) /* nobody would tell NCCL when the user's changes its mind */
		wish = mask;
	__atomic_store_n(&chain.theirs_mask, wish, __ATOMIC_RELAXED);
	member->theirs_began = side_init(&chain.theirs, &member->theirs, wish, told) == 0;
	note_began(mask);
	*context = member;
	return NCCL_ABI_SUCCESS;
}

static int end(void *context)
{
	struct member *member = find_member(context);
	bool locked;

	if (!member)
		return chain.theirs.finalize(context);
	if (member->own)
		(void)chain.own.finalize(member->own);
	if (member->theirs_began && member->theirs)
		(void)chain.theirs.finalize(member->theirs);
	locked = lock_mask();
	if (--chain.communicators == 0)
		chain.mask = NULL;
	unlock_mask(locked);
	__atomic_store_n(&member->used, 0, __ATOMIC_RELEASE);
	return NCCL_ABI_SUCCESS;
}

static bool own_wants(uint64_t type, bool has_pair, const struct pair *parent)
{
	if (type == NCCL_EVENT_KERNEL_CHANNEL || (is_task(type) && has_pair))
		return parent->own != NULL;
	return (is_call(type) || is_task(type) || type == NCCL_EVENT_COPY_ENGINE_COLLECTIVE) &&
	       __atomic_load_n(&chain.own_mask, __ATOMIC_RELAXED) & causes(type);
}

/* mask: what it asked for when the call began. */
static bool theirs_wants(const struct member *member, uint64_t type, int mask)
{
	if ((member && !member->theirs_began) || !(type & theirs_known()))
		return false;
	return !causes(type) || mask & causes(type);
}

/* The user's plug-in finds its own handles in the event, and for version 4 the group as the parent. */
static void *start_theirs(
	const struct member *member, void *context, uint64_t type, void *parent, void *descriptor)
{
	struct nccl_event_v5 *event = descriptor;
	void *kept_parent = event->parent, *handle = NULL, **group = NULL, *kept_group = NULL;
	struct pair found;

	event->parent = parent;
	if (chain.own.version >= 5 && is_task(type)) {
		group = type == NCCL_EVENT_COLLECTIVE ? &event->collective.group
						      : &event->point_to_point.group;
		kept_group = *group;
		(void)find_pair(kept_group, &found);
		*group = found.theirs;
		if (chain.theirs.version <= 4)
			event->parent = found.theirs;
	}
	(void)chain.theirs.start_event(member ? member->theirs : context, &handle, event);
	event->parent = kept_parent;
	if (group)
		*group = kept_group;
	return handle;
}

static int start_event(void *context, void **handle, void *descriptor)
{
	const struct member *member = find_member(context);
	struct nccl_event_v5 *event = descriptor;
	uint64_t type =
		chain.own.version >= 5 ? event->type : ((struct nccl_event_v4 *)descriptor)->type;
	void *kept = event->parent;
	struct pair parent, made = {.mask = theirs_mask()};
	bool has_pair = find_pair(kept, &parent);

	if (has_pair && !is_call(type))
		made.mask = parent.mask;
	if (member && own_wants(type, has_pair, &parent)) {
		event->parent = parent.own;
		(void)chain.own.start_event(member->own, &made.own, event);
		event->parent = kept;
	}
	if (theirs_wants(member, type, made.mask))
		made.theirs = start_theirs(member, context, type, parent.theirs, event);
	if (made.own || (made.theirs && (is_call(type) || is_task(type) || has_key(made.theirs))))
		*handle = make_pair(
			&made, is_call(type) &&
				       (type == NCCL_EVENT_COLLECTIVE_API
						       ? event->collective_api.graph_captured
						       : event->point_to_point_api.graph_captured));
	else
		*handle = made.theirs;
	return NCCL_ABI_SUCCESS;
}

static int stop_event(void *handle)
{
	struct pair pair;

	(void)find_pair(handle, &pair);
	if (pair.own)
		(void)chain.own.stop_event(pair.own);
	if (pair.theirs)
		(void)chain.theirs.stop_event(pair.theirs);
	return NCCL_ABI_SUCCESS;
}

static int record_event_state(void *handle, int state, const void *arguments)
{
	struct pair pair;

	(void)find_pair(handle, &pair);
	if (pair.own)
		(void)chain.own.record_event_state(pair.own, state, arguments);
	if (pair.theirs)
		(void)chain.theirs.record_event_state(pair.theirs, state, arguments);
	return NCCL_ABI_SUCCESS;
}

static int init_v2(void **context, int *mask)
{
	return begin(context, mask, &(struct told){.rank = -1});
}

static int init_v4(void **context, int *mask, const char *name, uint64_t hash, int node_count,
	int rank_count, int rank, nccl_logger logger)
{
	return begin(
		context, mask, &(struct told){hash, name, node_count, rank_count, rank, logger});
}

static int init_v5(void **context, uint64_t hash, int *mask, const char *name, int node_count,
	int rank_count, int rank, nccl_logger logger)
{
	return begin(
		context, mask, &(struct told){hash, name, node_count, rank_count, rank, logger});
}

static const struct nccl_profiler_v2 table_v2 = {
	"slowrank", init_v2, start_event, stop_event, record_event_state, end};
static const struct nccl_profiler_v4 table_v4 = {
	"slowrank", init_v4, start_event, stop_event, record_event_state, end};
static const struct nccl_profiler_v5 table_v5 = {
	"slowrank", init_v5, start_event, stop_event, record_event_state, end};

static void side_take(struct side *side, int version, const void *table)
{
	side->version = version;
#define TAKE(member)                                                                               \
	(side->member = table, side->start_event = side->member->start_event,                      \
		side->stop_event = side->member->stop_event,                                       \
		side->record_event_state = side->member->record_event_state,                       \
		side->finalize = side->member->finalize)
	if (version >= 5)
		TAKE(v5);
	else if (version == 4)
		TAKE(v4);
	else
		TAKE(v2);
#undef TAKE
}

static void *theirs_table(void *library, int version)
{
	char name[32];

	snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
	return dlsym(library, name);
}

/* The newest of these versions that the user's plug-in has; 0 = none. */
static int theirs_newest(void *library, int first, int last)
{
	while (last >= first && !theirs_table(library, last))
		last--;
	return last >= first ? last : 0;
}

/* A library with a table that is not ours: a user may have set what `slowrank run` sets. */
static void *open_library(const char *name, int flags)
{
	void *library = dlopen(name, flags | RTLD_NOW | RTLD_LOCAL);

	if (!library)
		return NULL;
	if (!dlsym(library, "slowrank_inject_start") &&
		theirs_newest(library, VERSION_FIRST, VERSION_LAST))
		return library;
	dlclose(library);
	return NULL;
}

/* As NCCL does: the name as it is, or PREFIX-NAME.so for one that is neither a path nor a library's. */
static void *open_named(const char *name, const char *prefix, int flags)
{
	size_t length = strlen(name);
	char built[PATH_MAX];
	void *library;

	if (!length) {
		snprintf(built, sizeof(built), "%s.so", prefix);
		return open_library(built, flags);
	}
	library =
		open_library(strncasecmp(name, "STATIC_PLUGIN", length) == 0 ? NULL : name, flags);
	if (library || strchr(name, '/') ||
		(strncmp(name, "lib", 3) == 0 && length > 3 &&
			strcmp(name + length - 3, ".so") == 0))
		return library;
	snprintf(built, sizeof(built), "%s-%s.so", prefix, name);
	return open_library(built, flags);
}

static void load(int version)
{
	const char *name = secure_getenv(RING_USER_PLUGIN_VARIABLE);
	const char *net = secure_getenv("NCCL_NET_PLUGIN");
	void *memory;

	if (!name)
		return;
	chain.library = open_named(name, "libnccl-profiler", 0);
	if (!chain.library && version >= NET_FALLBACK_FIRST)
		chain.library = open_named(net ? net : "", "libnccl-net", RTLD_NOLOAD);
	if (!chain.library)
		return;
	memory = mmap(NULL, (RECENT_MAX + LASTING_MAX) * sizeof(struct pair),
		PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	chain.pairs = memory == MAP_FAILED ? NULL : memory;
}

static const void *chained_table(int version)
{
	return version >= 5   ? (const void *)&table_v5
	       : version == 4 ? (const void *)&table_v4
			      : &table_v2;
}

static const void *choose(int version, const void *own)
{
	void *theirs = theirs_table(chain.library, version);
	int first = version < TRANSLATED_FIRST ? version : TRANSLATED_FIRST;
	int newest = own ? theirs_newest(chain.library, first, version) : 0;

	if (!chain.pairs || (chain.own.version && chain.own.version != version))
		return theirs;
	if (newest) {
		if (!chain.own.version) {
			side_take(&chain.theirs, newest, theirs_table(chain.library, newest));
			side_take(&chain.own, version, own);
		}
		return chained_table(version);
	}
	if (own) /* NCCL goes on to what both know, if there is any */
		return theirs_newest(chain.library, VERSION_FIRST, version) ? NULL : own;
	return version > SERVED_LAST && theirs_newest(chain.library, SERVED_FIRST, SERVED_LAST)
		       ? NULL
		       : theirs;
}

const void *nccl_chain_table(int version, const void *own)
{
	int kept = errno;
	const void *table;

	pthread_mutex_lock(&chain.lock);
	if (!chain.tried) {
		chain.tried = true;
		load(version);
	}
	table = chain.library ? choose(version, own) : own;
	pthread_mutex_unlock(&chain.lock);
	errno = kept;
	return table;
}
