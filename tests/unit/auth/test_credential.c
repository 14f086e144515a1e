/* SPDX-License-Identifier: Apache-2.0 */
/* MUNGE's credentials, with a munged of the test's own where one is installed. */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/auth/credential.h"

/* The declarations of credential.c are its own: libmunge is no part of the build. */
#if __has_include(<munge.h>)
#include <munge.h>
_Static_assert(EMUNGE_SUCCESS == 0 && EMUNGE_SOCKET == 6, "results");
_Static_assert(MUNGE_OPT_SOCKET == 8 && MUNGE_OPT_UID_RESTRICTION == 9, "options");
#endif

static char folder[] = "/tmp/munge-XXXXXX", socket_path[64];

static int start_munged(void **state)
{
	char command[512];

	(void)state;
	assert_non_null(mkdtemp(folder));
	assert_int_equal(chmod(folder, 0755), 0);
	snprintf(socket_path, sizeof(socket_path), "%s/socket", folder);
	snprintf(command, sizeof(command),
		"PATH=$PATH:/usr/sbin; cd %s && umask 077 && head -c 64 /dev/urandom > key && "
		"munged "
		"--force --key-file=$PWD/key --socket=$PWD/socket --pid-file=$PWD/pid "
		"--log-file=$PWD/log --seed-file=$PWD/seed >/dev/null 2>&1",
		folder);
	if (system(command) != 0)
		socket_path[0] = '\0'; /* there is none */
	return 0;
}

static int stop_munged(void **state)
{
	char command[128];

	(void)state;
	snprintf(command, sizeof(command),
		"cd %s && { [ ! -e pid ] || kill $(cat pid); }; rm -r %s", folder, folder);
	return system(command) == 0 ? 0 : -1;
}

static void nobody_there(void **state)
{
	struct credential *credential;

	(void)state;
	assert_int_equal(credential_open("/nonexistent/munge.socket", &credential), -ENOENT);
}

static void read_once_and_whole(void **state)
{
	char text[CREDENTIAL_LENGTH_MAX], bytes[] = "some bytes", read[sizeof(bytes)] = "";
	struct credential *credential;

	(void)state;
	if (!socket_path[0])
		skip();
	assert_int_equal(credential_open(socket_path, &credential), 0);
	assert_int_equal(credential_make(credential, bytes, sizeof(bytes), text), 0);
	assert_null(strstr(text, "some"));
	assert_int_equal(credential_read(credential, text, read, sizeof(read)), 0);
	assert_memory_equal(read, bytes, sizeof(bytes));
	assert_int_equal(
		credential_read(credential, text, read, sizeof(read)), -EPERM); /* replayed */
	assert_int_equal(credential_make(credential, bytes, sizeof(bytes), text), 0);
	assert_int_equal(credential_read(credential, text, read, 4), -EBADMSG);
	assert_int_equal(credential_make(credential, bytes, sizeof(bytes), text), 0);
	text[strlen(text) / 2] ^= 1;
	assert_int_equal(credential_read(credential, text, read, sizeof(read)), -EPERM);
	assert_int_equal(credential_read(credential, "", read, sizeof(read)), -EPERM);
	credential_close(credential);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nobody_there),
		cmocka_unit_test(read_once_and_whole),
	};

	return cmocka_run_group_tests(tests, start_munged, stop_munged);
}
