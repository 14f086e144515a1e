/* SPDX-License-Identifier: Apache-2.0 */
/* First in, first out, within its bound, over many turns of the ring. */
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
#include <unistd.h>

#include <cmocka.h>

#include "probe/spool.h"
#include "tests/unit/wire/random_batch.h"

enum { BYTES_MAX = 10000, ENTRY_BYTES_MAX = 3000 };

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

static void pop_and_check(struct spool *spool, uint64_t number)
{
	uint8_t expected[ENTRY_BYTES_MAX];
	void *bytes;
	size_t length;

	assert_int_equal(spool_pop(spool, &bytes, &length), 0);
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
	assert_int_equal(spool_create("/tmp", BYTES_MAX, &spool), 0);
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
	assert_int_equal(spool_pop(spool, (void **)&(void *){NULL}, &(size_t){0}), -ENODATA);
	spool_destroy(spool);
}

/* The file descriptor that the spool opened: the lowest free one before it. */
static int next_fd(void)
{
	int fd = open("/dev/null", O_RDONLY);

	close(fd);
	return fd;
}

static void test_file_is_bounded_nameless_and_given_back(void **state)
{
	uint8_t bytes[1000] = {0};
	struct spool *spool;
	struct stat status;
	int fd = next_fd(), pushed = 0;

	(void)state;
	assert_int_equal(spool_create("/tmp", BYTES_MAX, &spool), 0);
	assert_int_equal(fstat(fd, &status), -1); /* no file before it is needed */
	for (int turn = 0; turn < 5; turn++) {
		while (spool_push(spool, bytes, sizeof(bytes)) == 0)
			pushed++;
		assert_int_equal(fstat(fd, &status), 0);
		assert_int_equal(status.st_nlink, 0);
		assert_true(status.st_size > 0 && status.st_size <= BYTES_MAX);
		while (spool_count(spool)) {
			void *popped;
			size_t length;

			assert_int_equal(spool_pop(spool, &popped, &length), 0);
			free(popped);
		}
		assert_int_equal(fstat(fd, &status), 0);
		assert_int_equal(status.st_size, 0);
	}
	assert_int_equal(pushed, 5 * (BYTES_MAX / 1004));
	spool_destroy(spool);
	assert_int_equal(fstat(fd, &status), -1);
}

static void test_folder_that_cannot_be_used(void **state)
{
	struct spool *spool;

	(void)state;
	assert_int_equal(spool_create(NULL, 100, &spool), -EINVAL);
	assert_int_equal(spool_create("/tmp", 0, &spool), -EINVAL);
	assert_int_equal(spool_create("/nonexistent/folder", 100, &spool), 0);
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
	assert_int_equal(spool_create("/tmp", BYTES_MAX, &spool), 0);
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
		assert_int_equal(spool_pop(spool, &popped, &length), 0);
		assert_int_equal(length, sizeof(bytes));
		assert_memory_equal(popped, bytes, sizeof(bytes));
		free(popped);
	}
	assert_int_equal(spool_count(spool), 0);
	spool_destroy(spool);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_in_first_out),
		cmocka_unit_test(test_file_is_bounded_nameless_and_given_back),
		cmocka_unit_test(test_folder_that_cannot_be_used),
		cmocka_unit_test(test_full_disk),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
