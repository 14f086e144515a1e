/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A user's profiler plug-in of one version of the interface (USER_PLUGIN_VERSION), for the tests of the
 * chain: counts, and checks that every handle is one it gave, stopped once, below a parent that fits.
 */
#include <limits.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/types.h>
#include <unistd.h>

#include "tests/unit/inject/user_plugin.h"
#include "tests/workload/device/nccl_profiler_api.h"

#define EXPORT __attribute__((visibility("default")))
#define JOIN_(left, right) left##right
#define JOIN(left, right) JOIN_(left, right)
#define DESCRIPTION JOIN(JOIN(ncclProfilerEventDescr_v, USER_PLUGIN_VERSION), _t)

enum { EVENTS_MAX = 1 << 19 };

struct event {
	int kind; /* number of the bit; 0 is a group */
	bool stopped;
};

#ifndef USER_PLUGIN_WISH
#define USER_PLUGIN_WISH (ncclProfileColl | ncclProfileP2p | ncclProfileKernelCh)
#endif
static struct user_plugin plugin = {.wish = USER_PLUGIN_WISH};
static struct event events[EVENTS_MAX];
static unsigned event_count;
static int context;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

EXPORT struct user_plugin *user_plugin_state(void);
EXPORT struct user_plugin *user_plugin_state(void)
{
	return &plugin;
}

static struct event *find(const void *handle)
{
	uintptr_t offset = (uintptr_t)handle - (uintptr_t)events;

	return offset < sizeof(events) && offset % sizeof(events[0]) == 0
		       ? &events[offset / sizeof(events[0])]
		       : NULL;
}

/* Odd ones: small numbers, and some with bits set where others look for marks of their own. */
static void *odd_handle(int kind)
{
	return (void *)(uintptr_t)(kind % 2 ? (uint64_t)kind + 1
					    : UINT64_C(0xffff800000000007) + (uint64_t)kind * 8);
}

static bool parent_fits(int kind, int parent)
{
	static const int task = ncclProfileColl | ncclProfileP2p;
	static const int api = ncclProfileCollApi | ncclProfileP2pApi;
	int type = 1 << kind, above = 1 << parent;

	if (type & (ncclProfileKernelCh | ncclProfileProxyOp))
		return above & task;
	if (type & task)
		return above & (USER_PLUGIN_VERSION >= 5 ? api : ncclProfileGroup);
	return type & ncclProfileProxyStep ? above & ncclProfileProxyOp : true;
}

static int begin(void **result, int *mask)
{
	plugin.begun++;
	if (plugin.fails)
		return 3;
	plugin.mask = mask;
	__atomic_store_n(mask, plugin.wish, __ATOMIC_RELAXED);
	*result = &context;
	return 0;
}

static int start(void *told, void **handle, DESCRIPTION *description)
{
	const struct event *parent = find(description->parentObj);
	int kind = __builtin_ctzll((unsigned long long)description->type);
	struct event *event;

	pthread_mutex_lock(&lock);
	plugin.started[kind]++;
	plugin.with_parent[kind] += parent != NULL;
	event = event_count < EVENTS_MAX ? &events[event_count++] : NULL;
	plugin.wrong += !event || told != &context;
	if (!plugin.odd_handles)
		plugin.wrong +=
			description->parentObj && (!parent || !parent_fits(kind, parent->kind));
	pthread_mutex_unlock(&lock);
	if (event)
		*event = (struct event){.kind = kind};
	*handle = plugin.odd_handles ? odd_handle(kind) : event;
	return 0;
}

static int stop(void *handle)
{
	struct event *event = find(handle);

	pthread_mutex_lock(&lock);
	if (plugin.odd_handles) {
		int kind = 0;

		while (kind < USER_PLUGIN_TYPES && odd_handle(kind) != handle)
			kind++;
		plugin.wrong += kind == USER_PLUGIN_TYPES;
		plugin.stopped[kind % USER_PLUGIN_TYPES]++;
	} else if (!event || event->stopped) {
		plugin.wrong++;
	} else {
		event->stopped = true;
		plugin.stopped[event->kind]++;
	}
	pthread_mutex_unlock(&lock);
	return 0;
}

static int record(void *handle, int state, void *arguments)
{
	pthread_mutex_lock(&lock);
	plugin.states++;
	plugin.wrong += !plugin.odd_handles && (!find(handle) || find(handle)->stopped);
	pthread_mutex_unlock(&lock);
	(void)state;
	(void)arguments;
	return 0;
}

/* For whole jobs: USER_PLUGIN_COUNTS is a path, the process's number comes behind it. */
static void write_counts(void)
{
	const char *path = getenv("USER_PLUGIN_COUNTS");
	char own[PATH_MAX];
	FILE *file;

	if (!path)
		return;
	snprintf(own, sizeof(own), "%s.%d", path, (int)getpid());
	file = fopen(own, "we");
	if (!file)
		return;
	fprintf(file,
		"{\"begun\": %d, \"ended\": %d, \"wrong\": %d, \"tasks\": %d, \"channels\": "
		"%d}\n",
		plugin.begun, plugin.ended, plugin.wrong, plugin.stopped[1] + plugin.stopped[2],
		plugin.stopped[6]);
	fclose(file);
}

static int end(void *told)
{
	plugin.ended++;
	plugin.wrong += told != &context;
	write_counts();
	return 0;
}

#if USER_PLUGIN_VERSION >= 5
static int init(void **result, uint64_t hash, int *mask, const char *name, int nodes, int ranks,
	int rank, void *logger)
{
	(void)name;
	(void)nodes;
	(void)rank;
	(void)logger;
	plugin.wrong += !hash || ranks < 1;
	return begin(result, mask);
}
#elif USER_PLUGIN_VERSION == 4
static int init(void **result, int *mask, const char *name, uint64_t hash, int nodes, int ranks,
	int rank, void *logger)
{
	(void)name;
	(void)nodes;
	(void)rank;
	(void)logger;
	plugin.wrong += !hash || ranks < 1;
	return begin(result, mask);
}
#else
static int init(void **result, int *mask)
{
	return begin(result, mask);
}
#endif

/* A table of each version is a name and five functions. */
struct table {
	const char *name;
	void *init, *start, *stop, *record, *end;
};

#define TABLE JOIN(ncclProfiler_v, USER_PLUGIN_EXPORTED)
EXPORT extern const struct table TABLE;
EXPORT const struct table TABLE = {
	"user", (void *)init, (void *)start, (void *)stop, (void *)record, (void *)end};
