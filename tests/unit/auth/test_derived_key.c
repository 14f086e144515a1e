/* SPDX-License-Identifier: Apache-2.0 */
/* Known answers, made by another: python3's hmac. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "probe/auth/derived_key.h"

static const uint8_t key[SEAL_KEY_BYTES] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
	17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31, 32};

/* hmac.new(bytes(range(1, 33)), b'slowrank http 1', 'sha256').hexdigest() */
static void test_uses(void **state)
{
	char http[DERIVED_KEY_LENGTH], webhook[DERIVED_KEY_LENGTH];

	(void)state;
	assert_int_equal(derived_key(key, DERIVED_KEY_HTTP, http), 0);
	assert_int_equal(derived_key(key, DERIVED_KEY_WEBHOOK, webhook), 0);
	assert_string_equal(
		http, "13ff65a927b7f614c36505ea0630af9a15fdf5169a79267e0ea5fe08abfec15d");
	assert_string_equal(
		webhook, "fbe18de11a065a9463aa2d9d4da8964b073a900494176c4f0fd97931f7feddc6");
}

/* hmac.new(b'secret', b'1700000000.{"event": "alert"}', 'sha256').hexdigest() */
static void test_sign(void **state)
{
	static const char bytes[] = "1700000000.{\"event\": \"alert\"}";
	char text[DERIVED_KEY_LENGTH];

	(void)state;
	assert_int_equal(derived_key_sign("secret", bytes, strlen(bytes), text), 0);
	assert_string_equal(
		text, "c46ae8a9e8ba971c85198256f0145bec93621856e733b48190137e37a08030ba");
}

static void test_compare(void **state)
{
	char text[DERIVED_KEY_LENGTH], other[DERIVED_KEY_LENGTH + 1] = {0};

	(void)state;
	assert_int_equal(derived_key(key, DERIVED_KEY_HTTP, text), 0);
	assert_true(derived_key_is(text, text));
	assert_false(derived_key_is(text, ""));
	for (size_t i = 0; i < DERIVED_KEY_LENGTH - 1; i++) {
		memcpy(other, text, DERIVED_KEY_LENGTH);
		other[i] ^= 1;
		assert_false(derived_key_is(text, other));
		other[i] = '\0';
		assert_false(derived_key_is(text, other));
	}
	memcpy(other, text, DERIVED_KEY_LENGTH);
	other[DERIVED_KEY_LENGTH - 1] = '0';
	assert_false(derived_key_is(text, other));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uses),
		cmocka_unit_test(test_sign),
		cmocka_unit_test(test_compare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
