/* SPDX-License-Identifier: Apache-2.0 */
/* First in, first out, within its bound, over many turns of the ring and lives of its process. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/spool.h"
#include "tests/unit/wire/random_batch.h"

enum { BYTES_MAX = 10000, ENTRY_BYTES_MAX = 3000, HEADER_BYTES = 64, HEAD_BYTES = 20 };

/* Entry number n: its length and bytes follow from n. */
static size_t entry_length(uint64_t number)
{
	struct random_source random = {number};

	return random_below(&random, ENTRY_BYTES_MAX);
}

static void entry_bytes(uint64_t number, uint8_t *bytes)
{
	struct random_source random = {number};
	size_t length = random_below(&random, ENTRY_BYTES_MAX);

	for (size_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)random_next(&random);
}

static char folder[] = "/tmp/slowrank-spool-XXXXXX";

static struct spool *open_spool(void)
{
	struct spool_options options = {.folder = folder,
		.name = "job",
		.epoch = 5,
		.takes_over = true,
		.bytes_max = BYTES_MAX};
	struct spool *spool = NULL;

	assert_int_equal(spool_create(&options, &spool), 0);
	return spool;
}

static int pop(struct spool *spool, void **bytes, size_t *length)
{
	int error = spool_peek(spool, bytes, length);

	if (!error)
		spool_drop(spool);
	return error;
}

static void pop_and_check(struct spool *spool, uint64_t number)
{
	uint8_t expected[ENTRY_BYTES_MAX];
	void *bytes;
	size_t length;

	assert_int_equal(pop(spool, &bytes, &length), 0);
	assert_int_equal(length, entry_length(number));
	entry_bytes(number, expected);
	assert_memory_equal(bytes, expected, length);
	free(bytes);
}

static void test_first_in_first_out(void **state)
{
	struct random_source random = {1};
	uint8_t bytes[ENTRY_BYTES_MAX];
	uint64_t pushed = 0, popped = 0, full = 0;
	struct spool *spool;

	(void)state;
	spool = open_spool();
	for (int i = 0; i < 3000; i++) {
		if (random_below(&random, 100) < 55) {
			int error;

			entry_bytes(pushed, bytes);
			error = spool_push(spool, bytes, entry_length(pushed));
			assert_true(error == 0 || error == -ENOBUFS);
			pushed += error == 0;
			full += error != 0;
		} else if (popped < pushed) {
			pop_and_check(spool, popped++);
		}
		assert_int_equal(spool_count(spool), pushed - popped);
	}
	assert_true(full > 0 && pushed > 500);
	while (popped < pushed)
		pop_and_check(spool, popped++);
	assert_int_equal(pop(spool, (void **)&(void *){NULL}, &(size_t){0}), -ENODATA);
	spool_destroy(spool);
}

static void path_of(int number, char path[64])
{
	snprintf(path, 64, "%s/job.%d.spool", folder, number);
}

static off_t file_size(int number)
{
	struct stat status;
	char path[64];

	path_of(number, path);
	return stat(path, &status) ? -1 : status.st_size;
}

static void test_file_is_bounded_removed_and_given_back(void **state)
{
	uint8_t bytes[1000] = {0};
	struct spool *spool;
	int pushed = 0;

	(void)state;
	spool = open_spool();
	assert_int_equal(file_size(0), -1); /* no file before it is needed */
	for (int turn = 0; turn < 5; turn++) {
		while (spool_push(spool, bytes, sizeof(bytes)) == 0)
			pushed++;
		assert_true(file_size(0) > 0 && file_size(0) <= HEADER_BYTES + BYTES_MAX);
		while (spool_count(spool)) {
			void *popped;
			size_t length;

			assert_int_equal(pop(spool, &popped, &length), 0);
			free(popped);
		}
		assert_int_equal(file_size(0), HEADER_BYTES);
	}
	assert_int_equal(pushed, 5 * (BYTES_MAX / (1000 + HEAD_BYTES)));
	spool_destroy(spool);
	assert_int_equal(file_size(0), -1);
}

/* A process that pushes entries from..until), delivers `delivered` of them, and is killed. */
static void leave(uint64_t from, uint64_t until, int delivered)
{
	pid_t child = fork();
	int status;

	if (child == 0) {
		uint8_t bytes[ENTRY_BYTES_MAX];
		struct spool *spool = open_spool();

		for (uint64_t i = from; i < until; i++) {
			entry_bytes(i, bytes);
			while (spool_push(spool, bytes, entry_length(i))) {
				pop_and_check(spool, from++);
				delivered--;
			}
		}
		while (delivered-- > 0)
			pop_and_check(spool, from++);
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFSIGNALED(status));
}

/* What a process that was killed left is there for the next one, at any place of the ring. */
static void test_what_is_left_is_taken_over(void **state)
{
	uint8_t bytes[ENTRY_BYTES_MAX];
	struct spool *spool;
	size_t most = 0;

	(void)state;
	for (uint64_t first = 0; first < 40; first++) {
		uint64_t until = first + 4 + first % 15, next;

		leave(first, until, (int)(first % 3));
		spool = open_spool();
		assert_int_equal(file_size(1), -1);
		next = until - spool_count(spool);
		assert_true(next >= first + first % 3 && next < until);
		if (spool_count(spool) > most)
			most = spool_count(spool);
		entry_bytes(until, bytes);
		if (spool_push(spool, bytes, entry_length(until)) == 0)
			until++;
		while (next < until)
			pop_and_check(spool, next++);
		assert_int_equal(spool_count(spool), 0);
		spool_destroy(spool);
		assert_int_equal(file_size(0), -1);
	}
	assert_true(most > 5);
}

/* Two at a time have files of their own; what both left is found by one after the other. */
static void test_probes_of_one_job(void **state)
{
	struct spool *first = open_spool(), *second;
	struct spool_options other = {.folder = folder,
		.name = "job",
		.epoch = 6,
		.takes_over = true,
		.bytes_max = BYTES_MAX};

	(void)state;
	assert_int_equal(spool_push(first, "x", 1), 0);
	leave(7, 9, 0);
	assert_true(file_size(1) > HEADER_BYTES);
	second = open_spool();
	assert_int_equal(spool_count(second), 2);
	assert_int_equal(spool_count(first), 1);
	spool_destroy(second);
	leave(7, 9, 0);
	assert_int_equal(spool_create(&other, &second), 0); /* after the host was started again */
	assert_int_equal(spool_count(second), 0);
	assert_int_equal(file_size(1), -1);
	spool_destroy(second);
	leave(7, 9, 0);
	other.epoch = 5;
	other.takes_over = false;
	assert_int_equal(spool_create(&other, &second), 0); /* of a new run */
	assert_int_equal(spool_count(second), 0);
	assert_int_equal(file_size(1), -1);
	spool_destroy(second);
	spool_destroy(first);
}

/* What is damaged is not delivered, nor what is behind it. */
static void test_damage(void **state)
{
	char path[64];
	struct spool *spool;
	size_t whole = 0;
	int fd;

	(void)state;
	path_of(0, path);
	for (size_t at = 0; at < 3000; at += 37) {
		uint64_t next = 1;

		leave(1, 4, 0);
		fd = open(path, O_RDWR);
		assert_int_equal(pwrite(fd, "\xa5", 1, (off_t)at), 1);
		close(fd);
		spool = open_spool();
		assert_true(spool_count(spool) <= 3);
		whole += spool_count(spool);
		while (spool_count(spool))
			pop_and_check(spool, next++);
		spool_destroy(spool);
	}
	assert_true(whole > 10);
}

/* Of a job that nobody starts again. */
static void test_what_nobody_comes_for_is_removed(void **state)
{
	struct timespec long_ago[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
	char path[64], other[64];

	(void)state;
	leave(1, 4, 0);
	path_of(0, path);
	snprintf(other, sizeof(other), "%s/other.0.spool", folder);
	assert_int_equal(rename(path, other), 0);
	spool_destroy(open_spool());
	assert_int_equal(access(other, F_OK), 0);
	assert_int_equal(utimensat(AT_FDCWD, other, long_ago, 0), 0);
	spool_destroy(open_spool());
	assert_int_equal(access(other, F_OK), -1);
}

static void test_folder_that_cannot_be_used(void **state)
{
	struct spool_options options = {.name = "job", .bytes_max = 100};
	struct spool *spool;

	(void)state;
	assert_int_equal(spool_create(&options, &spool), -EINVAL);
	options.folder = "/nonexistent/folder";
	options.bytes_max = 0;
	assert_int_equal(spool_create(&options, &spool), -EINVAL);
	options.bytes_max = 100;
	assert_int_equal(spool_create(&options, &spool), 0);
	assert_int_equal(spool_push(spool, "x", 1), -ENOENT);
	assert_int_equal(spool_count(spool), 0);
	spool_destroy(spool);
}

/* A disk that runs full, and has room again later: nothing that was taken is harmed. */
static void test_full_disk(void **state)
{
	struct rlimit old_limit, limit;
	uint8_t bytes[1000];
	struct spool *spool;

	(void)state;
	signal(SIGXFSZ, SIG_IGN);
	getrlimit(RLIMIT_FSIZE, &old_limit);
	limit = old_limit;
	limit.rlim_cur = 2500;
	spool = open_spool();
	for (uint8_t i = 0; i < 4; i++) {
		memset(bytes, i, sizeof(bytes));
		setrlimit(RLIMIT_FSIZE, i == 2 ? &limit : &old_limit);
		assert_int_equal(spool_push(spool, bytes, sizeof(bytes)), i == 2 ? -EFBIG : 0);
	}
	for (uint8_t i = 0; i < 4; i++) {
		void *popped;
		size_t length;

		if (i == 2)
			continue;
		memset(bytes, i, sizeof(bytes));
		assert_int_equal(pop(spool, &popped, &length), 0);
		assert_int_equal(length, sizeof(bytes));
		assert_memory_equal(popped, bytes, sizeof(bytes));
		free(popped);
	}
	assert_int_equal(spool_count(spool), 0);
	spool_destroy(spool);
}

static int make_folder(void **state)
{
	(void)state;
	return mkdtemp(folder) ? 0 : -1;
}

static int remove_folder(void **state) /* which is empty */
{
	(void)state;
	return rmdir(folder);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_in_first_out),
		cmocka_unit_test(test_file_is_bounded_removed_and_given_back),
		cmocka_unit_test(test_what_is_left_is_taken_over),
		cmocka_unit_test(test_probes_of_one_job),
		cmocka_unit_test(test_damage),
		cmocka_unit_test(test_what_nobody_comes_for_is_removed),
		cmocka_unit_test(test_folder_that_cannot_be_used),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
