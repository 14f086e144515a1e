/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of the tables, against a preloaded program and against damaged files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/inject/verbs_wrap.h"
#include "probe/ring/verbs_table.h"
#include "probe/sources/verbs_source.h"
#include "tests/unit/verbs/ring_folder.h"
#include "tests/unit/verbs/verbs_pair.h"

enum { RANK = 7, CAPACITY = 64 };

static const struct message_queue_pair *find(
	const struct message_queue_pair *pairs, size_t count, uint32_t number)
{
	for (size_t i = 0; i < count; i++) {
		if (pairs[i].number == number)
			return &pairs[i];
	}
	fail_msg("queue pair %u was not told", number);
	return NULL;
}

static size_t file_count(void)
{
	char command[128];
	FILE *pipe;
	size_t count = 0;

	snprintf(command, sizeof(command), "ls %s | wc -l", ring_folder);
	pipe = popen(command, "r");
	assert_non_null(pipe);
	assert_int_equal(fscanf(pipe, "%zu", &count), 1);
	pclose(pipe);
	return count;
}

static void test_own_process(void **state)
{
	struct message_queue_pair pairs[CAPACITY];
	const struct message_queue_pair *pair;
	struct verbs_source *source;
	struct verbs_pair verbs;

	(void)state;
	assert_int_equal(verbs_wrap_start(), 0);
	assert_int_equal(verbs_source_create(ring_folder, &source), 0);
	assert_int_equal(verbs_source_follow(source, getpid(), RANK), 0);
	assert_int_equal(verbs_source_read(source, (struct host_ns){5}, pairs, CAPACITY), 0);
	assert_int_equal(verbs_source_state(source)->state, SOURCE_MISSING);

	verbs_pair_open(&verbs, (struct verbs_pair_options){.device = 1});
	assert_int_equal(verbs_pair_post(&verbs, 0, IBV_WR_RDMA_WRITE, 4, 100, 2), 0);
	verbs_pair_poll(verbs.send_cq, 2);
	/* One at a time; nothing is lost. */
	assert_int_equal(verbs_source_read(source, (struct host_ns){6}, &pairs[0], 1), 1);
	assert_int_equal(verbs_source_read(source, (struct host_ns){7}, &pairs[1], 1), 1);
	assert_int_equal(verbs_source_read(source, (struct host_ns){8}, &pairs[2], 1), 0);
	pair = find(pairs, 2, verbs.qps[0]->qp_num);
	assert_int_equal(pair->rank, RANK);
	assert_int_equal(pair->time.value, pair == pairs ? 6 : 7);
	assert_int_equal(pair->peer_number, verbs.qps[1]->qp_num);
	assert_int_equal(pair->flags, QUEUE_PAIR_HAS_PEER | QUEUE_PAIR_PEER_GLOBAL);
	assert_int_equal(pair->peer_gid[7], 0xa0);
	assert_string_equal(pair->device, "stand_in_1");
	assert_int_equal(pair->posted_requests, 4);
	assert_int_equal(pair->completed_bytes, 400);
	assert_int_equal(pair->statuses[0], 2);
	assert_int_equal(pair->latency_count, 2);
	assert_int_equal(verbs_source_state(source)->state, SOURCE_ON);

	assert_int_equal(verbs_source_read(source, (struct host_ns){9}, pairs, CAPACITY), 0);
	verbs_pair_close(&verbs);
	assert_int_equal(verbs_source_read(source, (struct host_ns){10}, pairs, CAPACITY), 2);
	assert_true(pairs[0].flags & QUEUE_PAIR_DESTROYED);
	verbs_source_destroy(source);
	verbs_wrap_stop();
}

/* Linked with -z now, preloaded, ended before it is read. */
static void test_preloaded_program(void **state)
{
	struct message_queue_pair pairs[CAPACITY];
	const struct message_queue_pair *sender, *receiver;
	int to[2], from[2], status;
	struct verbs_source *source;
	unsigned number, peer;
	FILE *output;
	char word[8] = "", preloaded[64]; /* the loader takes blanks as ends of names */
	pid_t child;

	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* the sanitizer's library must come before a preloaded one */
#endif
	snprintf(preloaded, sizeof(preloaded), "/tmp/slowrank-preload-%d.so", (int)getpid());
	assert_int_equal(symlink(PRELOAD, preloaded), 0);
	assert_int_equal(pipe(to), 0);
	assert_int_equal(pipe(from), 0);
	child = fork();
	if (child == 0) {
		dup2(to[0], 0);
		dup2(from[1], 1);
		close(to[1]);
		setenv("LD_PRELOAD", preloaded, 1);
		execl(PROGRAM, PROGRAM, "1000", "4097", (char *)NULL);
		_exit(127);
	}
	close(to[0]);
	close(from[1]);
	output = fdopen(from[0], "r");
	status = fscanf(output, "%u %u %7s", &number, &peer, word);
	unlink(preloaded);
	if (status != 3) {
		waitpid(child, &status, 0);
		fail_msg("the program ended with status %d", status);
	}
	assert_int_equal(verbs_source_create(ring_folder, &source), 0);
	assert_int_equal(verbs_source_follow(source, child, RANK), 0);
	assert_int_equal(file_count(), 1);
	assert_int_equal(verbs_source_read(source, (struct host_ns){1}, pairs, CAPACITY), 2);
	sender = find(pairs, 2, number);
	assert_int_equal(sender->posted_requests, 1000);
	assert_int_equal(sender->posted_bytes, 1000 * 4097);
	assert_int_equal(sender->completed_bytes, 1000 * 4097);
	assert_int_equal(sender->latency_count, 1000);
	receiver = find(pairs, 2, peer);
	assert_int_equal(receiver->received_requests, 1000);
	assert_int_equal(receiver->received_bytes, 1000 * 4097);
	close(to[1]);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	/* The last counts, then its file goes. */
	assert_int_equal(verbs_source_read(source, (struct host_ns){2}, pairs, CAPACITY), 2);
	assert_int_equal(file_count(), 0);
	assert_int_equal(verbs_source_read(source, (struct host_ns){3}, pairs, CAPACITY), 0);
	fclose(output);
	verbs_source_destroy(source);
}

/* In a child, as a rank: what loads the in-process library loads the wrappers with it. */
static void count_in_child(bool own_first)
{
	int (*inject_start)(void);
	struct verbs_pair verbs;
	void *library;

	if (own_first && verbs_wrap_start() != 0)
		_exit(2);
	library = dlopen(INJECT, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		_exit(3);
	*(void **)&inject_start = dlsym(library, "slowrank_inject_start");
	if (!inject_start || inject_start() != 0)
		_exit(4);
	verbs_pair_open(&verbs, (struct verbs_pair_options){0});
	if (verbs_pair_post(&verbs, 0, IBV_WR_RDMA_WRITE, 4, 100, 1) != 0)
		_exit(5);
	verbs_pair_poll(verbs.send_cq, 4);
	verbs_pair_close(&verbs);
	_exit(0);
}

static void check_inject_library(bool own_first)
{
	struct message_queue_pair pairs[CAPACITY];
	struct verbs_source *source;
	uint64_t posted = 0;
	pid_t child = fork();
	int status;

	if (child == 0)
		count_in_child(own_first);
	assert_int_equal(verbs_source_create(ring_folder, &source), 0);
	assert_int_equal(verbs_source_follow(source, child, RANK), 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	assert_int_equal(verbs_source_read(source, (struct host_ns){5}, pairs, CAPACITY), 2);
	for (int i = 0; i < 2; i++)
		posted += pairs[i].posted_requests;
	assert_int_equal(posted, 4); /* once */
	verbs_source_destroy(source);
}

static void test_inject_library(void **state)
{
	(void)state;
	check_inject_library(false);
}

/* Both copies of the wrappers in one process: the first one counts. */
static void test_both_libraries(void **state)
{
	(void)state;
	check_inject_library(true);
}

static void test_switched_off(void **state)
{
	(void)state;
	setenv("SLOWRANK_VERBS", "off", 1);
	assert_int_equal(verbs_wrap_start_where_used(true), -ECANCELED);
	unsetenv("SLOWRANK_VERBS");
}

static void test_damaged_files(void **state)
{
	struct message_queue_pair pairs[CAPACITY];
	char path[128], bytes[4096];
	struct verbs_source *source;
	struct verbs_table *table = calloc(1, sizeof(*table));
	FILE *file;

	(void)state;
	memset(bytes, 0xff, sizeof(bytes));
	snprintf(path, sizeof(path), "%s/" VERBS_TABLE_PREFIX "0.%d.1", ring_folder, (int)getpid());
	for (int kind = 0; kind < 4; kind++) {
		*table = (struct verbs_table){.magic = VERBS_TABLE_MAGIC,
			.version = kind == 1 ? 99 : VERBS_TABLE_VERSION,
			.length_bytes = sizeof(*table),
			.pid = (uint32_t)getpid()};
		for (size_t i = 0; i < VERBS_QUEUE_PAIRS_MAX; i++)
			memset(&table->queue_pairs[i], kind == 2 ? 0xff : 0,
				sizeof(table->queue_pairs[i]));
		for (size_t i = 0; kind == 3 && i < VERBS_QUEUE_PAIRS_MAX; i++) {
			table->queue_pairs[i].state = VERBS_QUEUE_PAIR_LIVE;
			table->queue_pairs[i].device = 60000;
			table->queue_pairs[i].flags = UINT32_MAX;
			table->queue_pairs[i].posted_bytes = UINT64_MAX;
		}
		file = fopen(path, "w");
		assert_int_equal(fwrite(table, kind == 0 ? 1000 : sizeof(*table), 1, file), 1);
		fclose(file);
		assert_int_equal(verbs_source_create(ring_folder, &source), 0);
		assert_int_equal(verbs_source_follow(source, getpid(), RANK), 0);
		assert_int_equal(verbs_source_read(source, (struct host_ns){1}, pairs, CAPACITY),
			kind == 3 ? CAPACITY : 0);
		assert_int_equal(
			verbs_source_state(source)->state, kind < 2 ? SOURCE_DEGRADED : SOURCE_ON);
		if (kind == 3) {
			assert_string_equal(pairs[0].device, "");
			/* Cut short while it is read. */
			assert_int_equal(truncate(path, 5000), 0);
			assert_int_equal(
				verbs_source_read(source, (struct host_ns){2}, pairs, CAPACITY), 0);
			assert_int_equal(verbs_source_state(source)->state, SOURCE_DEGRADED);
		}
		verbs_source_destroy(source);
	}
	unlink(path);
	free(table);
}

/* A stranger's file under the name of root's process says nothing, and stays. */
static void test_another_users_file(void **state)
{
	struct message_queue_pair pairs[CAPACITY];
	struct verbs_source *source;
	struct verbs_table *table = calloc(1, sizeof(*table));
	char path[128];
	FILE *file;

	(void)state;
	if (geteuid() != 0)
		skip();
	*table = (struct verbs_table){.magic = VERBS_TABLE_MAGIC,
		.version = VERBS_TABLE_VERSION,
		.length_bytes = sizeof(*table),
		.pid = (uint32_t)getpid()};
	table->queue_pairs[0].state = VERBS_QUEUE_PAIR_LIVE;
	snprintf(path, sizeof(path), "%s/" VERBS_TABLE_PREFIX "0.%d.1", ring_folder, (int)getpid());
	file = fopen(path, "w");
	assert_int_equal(fwrite(table, sizeof(*table), 1, file), 1);
	fclose(file);
	assert_int_equal(chown(path, 65534, 65534), 0);
	assert_int_equal(verbs_source_create(ring_folder, &source), 0);
	assert_int_equal(verbs_source_follow(source, getpid(), RANK), 0);
	assert_int_equal(verbs_source_read(source, (struct host_ns){1}, pairs, CAPACITY), 0);
	assert_int_equal(verbs_source_state(source)->state, SOURCE_MISSING);
	assert_int_equal(unlink(path), 0);
	verbs_source_destroy(source);
	free(table);
}

static int start(void **state)
{
	(void)state;
	return ring_folder_make();
}

static int stop(void **state)
{
	(void)state;
	return ring_folder_remove();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_own_process),
		cmocka_unit_test(test_preloaded_program),
		cmocka_unit_test(test_inject_library),
		cmocka_unit_test(test_both_libraries),
		cmocka_unit_test(test_switched_off),
		cmocka_unit_test(test_damaged_files),
		cmocka_unit_test(test_another_users_file),
	};

	return cmocka_run_group_tests(tests, start, stop);
}
