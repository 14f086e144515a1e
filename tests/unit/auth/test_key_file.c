/* SPDX-License-Identifier: Apache-2.0 */
/* The key's file: made once, read by its user alone; and which URLs need it. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/auth/key_file.h"

static char home[64];

static int make_home(void **state)
{
	(void)state;
	snprintf(home, sizeof(home), "/tmp/slowrank-key-XXXXXX");
	return mkdtemp(home) ? 0 : -1;
}

static int remove_home(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", home);
	return system(command);
}

static void name_file(char path[128], const char *name)
{
	snprintf(path, 128, "%s/%s", home, name);
}

static void write_file(const char *path, const char *text, mode_t mode)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	assert_int_equal(chmod(path, mode), 0);
}

static void test_made_once(void **state)
{
	struct key_file first, second;
	char path[128], why[KEY_FILE_WHY_LENGTH];
	struct stat status;

	(void)state;
	name_file(path, ".config/slowrank/key");
	assert_int_equal(key_file_make(path), 0);
	assert_int_equal(stat(path, &status), 0);
	assert_int_equal(status.st_mode & 07777, 0600);
	assert_int_equal(status.st_size, 65);
	assert_int_equal(status.st_nlink, 1);
	assert_int_equal(key_file_load(path, &first, why), 0);
	assert_int_equal(key_file_make(path), 0);
	assert_int_equal(key_file_load(path, &second, why), 0);
	assert_memory_equal(first.key, second.key, sizeof(first.key));
	assert_string_equal(first.path, path);
}

/* Nodes that share a home and begin at the same time. */
static void test_many_make_it(void **state)
{
	enum { PROCESSES = 16 };
	uint8_t keys[PROCESSES][SEAL_KEY_BYTES];
	char path[128];
	int results[2], go[2];

	(void)state;
	name_file(path, ".config/slowrank/key-of-many");
	assert_int_equal(pipe(results), 0);
	assert_int_equal(pipe(go), 0);
	for (int i = 0; i < PROCESSES; i++) {
		if (fork() == 0) {
			char why[KEY_FILE_WHY_LENGTH], byte;
			struct key_file file;

			close(go[1]);
			(void)!read(go[0], &byte, 1); /* until all are there */
			if (key_file_make(path) || key_file_load(path, &file, why) ||
				write(results[1], file.key, SEAL_KEY_BYTES) != SEAL_KEY_BYTES)
				_exit(1);
			_exit(0);
		}
	}
	close(go[0]);
	close(go[1]);
	for (int i = 0; i < PROCESSES; i++) {
		int status;

		assert_true(wait(&status) > 0);
		assert_int_equal(status, 0);
		assert_int_equal(read(results[0], keys[i], SEAL_KEY_BYTES), SEAL_KEY_BYTES);
		assert_memory_equal(keys[i], keys[0], SEAL_KEY_BYTES);
	}
	close(results[0]);
	close(results[1]);
}

#define DIGITS_62 "00112233445566778899aabbccddeeff00112233445566778899AABBCCDDEE"

static void check_refused(const char *text, mode_t mode, int error, const char *expected)
{
	char path[128], why[KEY_FILE_WHY_LENGTH] = "";
	struct key_file file;

	name_file(path, "refused");
	write_file(path, text, mode);
	assert_int_equal(key_file_load(path, &file, why), error);
	if (!strstr(why, expected) || !strstr(why, path) || strchr(why, '\n'))
		fail_msg("'%s' does not say '%s'", why, expected);
}

static void test_refused(void **state)
{
	char path[128], why[KEY_FILE_WHY_LENGTH];
	struct key_file file;

	(void)state;
	check_refused(DIGITS_62 "ff\n", 0604, -EPERM, "chmod 600");
	check_refused(DIGITS_62 "ff\n", 0622, -EPERM, "chmod 600");
	check_refused(DIGITS_62 "\n", 0600, -EBADMSG, "64 hexadecimal digits");
	check_refused(DIGITS_62 "fffff", 0600, -EBADMSG, "64 hexadecimal digits");
	check_refused(DIGITS_62 "fx\n", 0600, -EBADMSG, "64 hexadecimal digits");
	check_refused("", 0600, -EBADMSG, "64 hexadecimal digits");
	name_file(path, "missing");
	assert_int_equal(key_file_load(path, &file, why), -ENOENT);
	assert_non_null(strstr(why, "copy the file from a node that has one"));
	name_file(path, "");
	assert_int_equal(key_file_load(path, &file, why), -EPERM);
	if (geteuid() == 0) { /* somebody else's */
		name_file(path, "refused");
		write_file(path, DIGITS_62 "ff\n", 0600);
		assert_int_equal(chown(path, 12345, 12345), 0);
		assert_int_equal(key_file_load(path, &file, why), -EPERM);
	}
}

/* As Kubernetes mounts it: a link, without a newline at the end. */
static void test_read_through_a_link(void **state)
{
	char path[128], link_path[128], why[KEY_FILE_WHY_LENGTH];
	struct key_file file;

	(void)state;
	name_file(path, "secret");
	name_file(link_path, "link");
	write_file(path, DIGITS_62 "ff", 0400);
	assert_int_equal(symlink(path, link_path), 0);
	assert_int_equal(key_file_load(link_path, &file, why), 0);
	assert_int_equal(file.key[1], 0x11);
	assert_int_equal(file.key[31], 0xff);
}

static void test_where_it_is_needed(void **state)
{
	static const char *const local[] = {"ipc:///tmp/x", "tcp://127.0.0.1:80",
		"tcp://127.9.9.9:80", "tcp://localhost:80", "tcp://[::1]:80", "nonsense://x", ""};
	static const char *const beyond[] = {"tcp://0.0.0.0:80", "tcp://*:80", "tcp://:80",
		"tcp://10.0.0.1:80", "tcp://node0:80", "tcp://[::]:80",
		"tcp://127.0.0.1.example:80", "tcp://localhost.example:80",
		"tcp://[2001:db8::1]:80", "tls+tcp://127.0.0.1:80"};

	(void)state;
	for (size_t i = 0; i < sizeof(local) / sizeof(local[0]); i++)
		assert_false(key_file_needed(local[i]));
	for (size_t i = 0; i < sizeof(beyond) / sizeof(beyond[0]); i++)
		assert_true(key_file_needed(beyond[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_made_once),
		cmocka_unit_test(test_many_make_it),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_read_through_a_link),
		cmocka_unit_test(test_where_it_is_needed),
	};

	return cmocka_run_group_tests(tests, make_home, remove_home);
}
