/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's plug-in behind ours, event by event: the test is NCCL. Each case is a process of its own.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/ring/ring_layout.h"
#include "tests/unit/inject/user_plugin.h"
#include "tests/workload/device/nccl_profiler_api.h"

enum { ALL = 0x7fff, TASKS = ncclProfileColl | ncclProfileP2p, CHANNELS = 3 };

static struct nccl {
	void *library;
	const ncclProfiler_v5_t *table; /* of version 6 */
	struct user_plugin *user;
	int mask;
	void *context;
} nccl;

static char directory[64];

static void *find_table(int version)
{
	char name[32];

	snprintf(name, sizeof(name), "ncclProfiler_v%d", version);
	return dlsym(nccl.library, name);
}

static bool open_chain(const char *user)
{
	void *library;
	user_plugin_get get;

	setenv(RING_DIRECTORY_VARIABLE, directory, 1);
	if (user)
		setenv(RING_USER_PLUGIN_VARIABLE, user, 1);
	nccl.library = dlopen(INJECT_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	library = user ? dlopen(user, RTLD_NOW | RTLD_LOCAL) : NULL;
	get = library ? (user_plugin_get)dlsym(library, "user_plugin_state") : NULL;
	nccl.user = get ? get() : NULL;
	return nccl.library != NULL;
}

static bool begin(uint64_t hash)
{
	nccl.table = find_table(6);
	return nccl.table &&
	       nccl.table->init(&nccl.context, hash, &nccl.mask, "name", 1, 2, 1, NULL) == 0;
}

static void *tell(uint64_t type, void *parent, void *group)
{
	ncclProfilerEventDescr_v5_t event = {.type = type, .parentObj = parent, .rank = 1};
	ncclProfilerEventDescr_v5_t before;
	void *handle = (void *)1;

	if (type == ncclProfileColl) {
		event.coll.func = "AllReduce";
		event.coll.datatype = "ncclFloat32";
		event.coll.count = 10;
		event.coll.nChannels = CHANNELS;
		event.coll.parentGroup = group;
	} else if (type == ncclProfileCollApi) {
		event.collApi.func = "AllReduce";
	}
	memcpy(&before, &event, sizeof(event));
	nccl.table->startEvent(nccl.context, &handle, &event);
	return memcmp(&before, &event, sizeof(event)) ? (void *)1 : handle; /* it is NCCL's */
}

static void channels(void *task)
{
	ncclProfilerEventStateArgs_t stop = {.kernelCh = {.pTimer = 6}};

	for (int i = 0; i < CHANNELS; i++) {
		void *channel = tell(ncclProfileKernelCh, task, NULL);

		if (!channel)
			continue;
		nccl.table->recordEventState(channel, ncclProfilerKernelChStop, &stop);
		nccl.table->stopEvent(channel);
	}
}

static void stop(void *handle)
{
	if (handle)
		nccl.table->stopEvent(handle);
}

/* A call with all that NCCL tells of it, to who asked for all. */
static void whole_call(void)
{
	void *group_api = tell(ncclProfileGroupApi, NULL, NULL);
	void *api = tell(ncclProfileCollApi, group_api, NULL);
	void *group, *task, *operation, *step;

	stop(api);
	stop(group_api);
	group = tell(ncclProfileGroup, NULL, NULL);
	task = tell(ncclProfileColl, api, group);
	stop(task);
	stop(group);
	operation = tell(ncclProfileProxyOp, task, NULL);
	step = tell(ncclProfileProxyStep, operation, NULL);
	nccl.table->recordEventState(step, 8, NULL);
	stop(step);
	stop(operation);
	channels(task);
}

static int whole(void)
{
	const struct user_plugin *user = nccl.user;

	nccl.user->wish = ALL;
	if (!begin(5) || !(nccl.mask & ncclProfileProxyStep) || !(nccl.mask & ncclProfileKernelCh))
		return 1;
	whole_call();
	nccl.table->finalize(nccl.context);
	if (user->wrong || user->begun != 1 || user->ended != 1 || user->states != CHANNELS + 1)
		return 2;
	for (int i = 0; i < USER_PLUGIN_TYPES; i++) {
		int expected =
			i == 6 ? CHANNELS
			       : (1 << i) & (ncclProfileGroup | ncclProfileColl |
						    ncclProfileProxyOp | ncclProfileProxyStep |
						    ncclProfileGroupApi | ncclProfileCollApi);

		if (user->started[i] != (expected && i != 6 ? 1 : expected) ||
			user->stopped[i] != user->started[i])
			return 10 + i;
	}
	return user->with_parent[1] == 1 && user->with_parent[3] == 1 &&
			       user->with_parent[4] == 1 && user->with_parent[6] == CHANNELS &&
			       user->with_parent[9] == 1
		       ? 0
		       : 3;
}

/* Version 4 has no calls, and the group for a parent. */
static int whole_of_4(void)
{
	const struct user_plugin *user = nccl.user;

	nccl.user->wish = 0xff;
	if (!begin(5))
		return 1;
	whole_call();
	nccl.table->finalize(nccl.context);
	return user->wrong == 0 && user->started[8] == 0 && user->started[9] == 0 &&
			       user->started[1] == 1 && user->with_parent[1] == 1 &&
			       user->with_parent[6] == CHANNELS && user->stopped[4] == 1
		       ? 0
		       : 2;
}

/* Its handles are what it likes; none is taken for one of ours, or the other way round. */
static int odd(void)
{
	const struct user_plugin *user = nccl.user;

	nccl.user->wish = ALL;
	nccl.user->odd_handles = 1;
	if (!begin(5))
		return 1;
	for (int i = 0; i < 100; i++)
		whole_call();
	return user->wrong == 0 && user->started[1] == 100 && user->stopped[1] == 100 &&
			       user->stopped[6] == 100 * CHANNELS && user->stopped[4] == 100
		       ? 0
		       : 2;
}

static int failing(void)
{
	nccl.user->fails = 1;
	if (!begin(5) || !nccl.context || !(nccl.mask & ncclProfileKernelCh))
		return 1;
	whole_call();
	nccl.table->finalize(nccl.context);
	return nccl.user->begun == 1 && nccl.user->started[1] == 0 && nccl.user->ended == 0 ? 0 : 2;
}

static int changing_its_mind(void)
{
	struct user_plugin *user = nccl.user;
	void *task;

	user->wish = 0;
	if (!begin(5) || nccl.mask & ncclProfileProxyOp)
		return 1;
	whole_call(); /* group and proxy are told here though nobody asked: NCCL does not */
	if (user->started[1] || user->started[6] || user->started[9] || user->started[0])
		return 2;
	__atomic_store_n(user->mask, ncclProfileProxyOp, __ATOMIC_RELAXED);
	for (int i = 0;
		i < 500 && !(__atomic_load_n(&nccl.mask, __ATOMIC_RELAXED) & ncclProfileProxyOp);
		i++)
		usleep(10000);
	if (!(nccl.mask & ncclProfileProxyOp))
		return 3;
	task = tell(ncclProfileColl, tell(ncclProfileCollApi, NULL, NULL), NULL);
	__atomic_store_n(user->mask, 0, __ATOMIC_RELAXED);
	stop(tell(ncclProfileProxyOp, task, NULL)); /* NCCL goes on by what was asked at the call */
	channels(task);
	return user->started[1] == 1 && user->with_parent[1] == 1 && user->with_parent[3] >= 1 &&
			       user->started[6] == 0 && user->wrong == 0
		       ? 0
		       : 4;
}

static int forked(void)
{
	int status;
	pid_t child;

	if (!begin(5))
		return 1;
	child = fork();
	if (child == 0) {
		whole_call();
		nccl.table->finalize(nccl.context);
		_exit(begin(6) && nccl.user->started[1] == 1 && nccl.user->stopped[6] == CHANNELS &&
					nccl.user->ended == 1 && nccl.user->begun == 2
				? 0
				: 1);
	}
	return waitpid(child, &status, 0) == child && status == 0 ? 0 : 2;
}

/* Without a ring ours asks for nothing, and the user's plug-in is as it would be alone. */
static int without_a_ring(void)
{
	setenv(RING_DIRECTORY_VARIABLE, "/nonexistent", 1);
	if (!begin(5) || nccl.mask != (TASKS | ncclProfileKernelCh) ||
		nccl.user->mask != &nccl.mask)
		return 1;
	whole_call();
	nccl.table->finalize(nccl.context);
	return nccl.user->stopped[6] == CHANNELS && nccl.user->ended == 1 && !nccl.user->wrong ? 0
											       : 2;
}

/* The call of a graph is the parent at each of its replays, however much came between. */
static int replays(void)
{
	ncclProfilerEventDescr_v5_t event = {.type = ncclProfileCollApi, .rank = 1};
	void *captured;

	if (!begin(5))
		return 1;
	event.collApi.func = "AllReduce";
	event.collApi.graphCaptured = true;
	nccl.table->startEvent(nccl.context, &captured, &event);
	stop(captured);
	for (int i = 0; i < 200000; i++) {
		void *task = tell(ncclProfileColl, captured, NULL);

		stop(task);
		stop(tell(ncclProfileKernelCh, task, NULL));
	}
	return nccl.user->wrong == 0 && nccl.user->with_parent[1] == 200000 &&
			       nccl.user->stopped[6] == 200000
		       ? 0
		       : 2;
}

/* One that is stopped after far too many others is not told of; nobody gets another's. */
static int forgotten(void)
{
	void *first;

	nccl.user->wish = ncclProfileColl;
	if (!begin(5))
		return 1;
	first = tell(ncclProfileColl, NULL, NULL);
	for (int i = 0; i < 140000; i++)
		stop(tell(ncclProfileColl, NULL, NULL));
	stop(first);
	return nccl.user->wrong == 0 && nccl.user->stopped[1] == 140000 ? 0 : 2;
}

/* What ours does not know has its place for itself; what NCCL would not take leaves it to ours. */
static int alone_1(void)
{
	for (int version = 9; version > 1; version--) {
		if (find_table(version))
			return version;
	}
	return find_table(1) && nccl.user && nccl.user->begun == 0 ? 0 : 1;
}

static int alone_7(void)
{
	const ncclProfiler_v5_t *table = find_table(7);

	return table && strcmp(table->name, "user") == 0 && !find_table(8) ? 0 : 1;
}

static int newer_than_nccl(void)
{
	const ncclProfiler_v5_t *table = find_table(6);

	return table && strcmp(table->name, "slowrank") == 0 && begin(5) && nccl.user->begun == 0
		       ? 0
		       : 1;
}

static int none(void)
{
	return !find_table(7) && begin(5) && !find_table(1) && nccl.context ? 0 : 1;
}

static int run(const char *user, int (*body)(void))
{
	int status;
	pid_t child;

	child = fork();
	if (child == 0)
		_exit(open_chain(user) ? body() : 99);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

struct chain_case {
	const char *user;
	int (*body)(void);
};

static void in_a_process(void **state)
{
	const struct chain_case *chain_case = *state;

	assert_int_equal(run(chain_case->user, chain_case->body), 0);
}

#define CASE(name, user, body)                                                                     \
	{                                                                                          \
		name, in_a_process, NULL, NULL, &(struct chain_case)                               \
		{                                                                                  \
			user, body                                                                 \
		}                                                                                  \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE("a user's plug-in gets all it asked for", USER_PLUGINS "user6.so", whole),
		CASE("also an older one", USER_PLUGINS "user5.so", whole),
		CASE("also one that knows no calls", USER_PLUGINS "user4.so", whole_of_4),
		CASE("handles may be anything", USER_PLUGINS "user6.so", odd),
		CASE("its init fails: ours goes on", USER_PLUGINS "user6.so", failing),
		CASE("it asks later", USER_PLUGINS "user6.so", changing_its_mind),
		CASE("a forked child goes on with it", USER_PLUGINS "user6.so", forked),
		CASE("without a ring it goes on", USER_PLUGINS "user6.so", without_a_ring),
		CASE("calls of a graph stay known", USER_PLUGINS "user6.so", replays),
		CASE("what was long ago is forgotten", USER_PLUGINS "user6.so", forgotten),
		CASE("one of version 1 has its place", USER_PLUGINS "user1.so", alone_1),
		CASE("one that is newer than ours, too", USER_PLUGINS "user7.so", alone_7),
		CASE("NCCL knows no such new one", USER_PLUGINS "user7.so", newer_than_nccl),
		CASE("it cannot be loaded: ours goes on", "/nonexistent.so", none),
		CASE("ours twice is ours once", INJECT_LIBRARY, none),
		CASE("the user has none", NULL, none),
	};
	int result;

	strcpy(directory, "/tmp/slowrank-test-chain.XXXXXX");
	if (!mkdtemp(directory))
		return 1;
	result = cmocka_run_group_tests(tests, NULL, NULL);
	rmdir(directory);
	return result;
}
