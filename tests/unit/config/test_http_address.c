/* SPDX-License-Identifier: Apache-2.0 */
/* What --http takes, and what a request's Host may be. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "probe/config/http_address.h"

static void test_parse(void **state)
{
	static const struct {
		const char *text, *host, *port; /* host NULL: it is none */
	} rows[] = {
		{"9400", "127.0.0.1", "9400"},
		{"0", "127.0.0.1", "0"},
		{"0.0.0.0:9400", "0.0.0.0", "9400"},
		{"node7:80", "node7", "80"},
		{"[::1]:9400", "::1", "9400"},
		{"[::]:0", "::", "0"},
		{"", NULL, NULL},
		{":", NULL, NULL},
		{":80", NULL, NULL},
		{"node7", NULL, NULL},
		{"node7:", NULL, NULL},
		{"node7:http", NULL, NULL},
		{"65536", NULL, NULL},
		{"-1", NULL, NULL},
		{"100000", NULL, NULL},
		{"[::1]", NULL, NULL},
		{"[::1:80", NULL, NULL},
		{"::1:80", NULL, NULL},
		{"[]:80", NULL, NULL},
	};
	struct http_address address;
	char longer[HTTP_HOST_LENGTH + 8];

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		int error = http_address_parse(rows[i].text, &address);

		assert_int_equal(error, rows[i].host ? 0 : -EINVAL);
		if (error)
			continue;
		assert_string_equal(address.host, rows[i].host);
		assert_string_equal(address.port, rows[i].port);
	}
	memset(longer, 'a', sizeof(longer));
	memcpy(longer + HTTP_HOST_LENGTH, ":80", 4);
	assert_int_equal(http_address_parse(longer, &address), -EINVAL);
	assert_int_equal(http_address_parse(longer + 1, &address), 0);
}

static void test_host(void **state)
{
	static const char *const here[] = {"localhost", "LocalHost:9400", "127.0.0.1",
		"10.1.2.3:80", "[::1]", "[fe80::1]:9400", "node7", "NODE7:9400", "node7:"};
	static const char *const elsewhere[] = {"", ":", "evil.example", "node7.evil.example",
		"localhost.", "localhost.evil:80", "127.0.0.1.nip.io", "127.1", "0x7f000001",
		"2130706433", "node7:99999", "node7:80:80", "[::1", "[::1]x", "[evil]", "node7/",
		"node7 ", "user@localhost"};

	(void)state;
	for (size_t i = 0; i < sizeof(here) / sizeof(here[0]); i++)
		assert_true(http_host_is_here(here[i], "node7"));
	for (size_t i = 0; i < sizeof(elsewhere) / sizeof(elsewhere[0]); i++)
		assert_false(http_host_is_here(elsewhere[i], "node7"));
	assert_false(http_host_is_here(NULL, "node7"));
	assert_false(http_host_is_here("node7", NULL));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse),
		cmocka_unit_test(test_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
