/* SPDX-License-Identifier: Apache-2.0 */
/* The loader's cache: the real one, both formats, and files cut short or filled with garbage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/loader_cache.h"

static char path[] = "/tmp/slowrank-cache-XXXXXX";

static int set_up(void **state)
{
	int fd = mkstemp(path);

	(void)state;
	if (fd < 0)
		return -1;
	close(fd);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	return unlink(path);
}

struct visits {
	size_t count, bytes;
	char last[128], first[128];
};

static void on_library(void *context, const char *library)
{
	struct visits *visits = context;

	visits->bytes += strlen(library); /* reads all of it: a sanitizer sees a bad one */
	if (visits->count++ == 0)
		snprintf(visits->first, sizeof(visits->first), "%s", library);
	snprintf(visits->last, sizeof(visits->last), "%s", library);
}

static struct visits visit_bytes(const void *bytes, size_t length)
{
	struct visits visits = {0};
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
	loader_cache_visit(path, on_library, &visits);
	return visits;
}

static void put(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* glibc's new format with two libraries. */
static size_t make_cache(uint8_t out[256])
{
	static const char strings[] = "libmpi.so.40\0/opt/libmpi.so.40\0libc.so.6\0/lib/libc.so.6";
	const uint32_t entries = 48, text = entries + 2 * 24;

	memset(out, 0, 256);
	memcpy(out, "glibc-ld.so.cache1.1", 20);
	put(out + 20, 2);
	put(out + 24, sizeof(strings));
	put(out + entries + 4, text);
	put(out + entries + 8, text + 13);
	put(out + entries + 24 + 4, text + 31);
	put(out + entries + 24 + 8, text + 41);
	memcpy(out + text, strings, sizeof(strings));
	return text + sizeof(strings);
}

static void reads_the_format(void **state)
{
	uint8_t bytes[256];
	size_t length = make_cache(bytes);
	struct visits visits = visit_bytes(bytes, length);

	(void)state;
	assert_int_equal(visits.count, 2);
	assert_string_equal(visits.first, "/opt/libmpi.so.40");
	assert_string_equal(visits.last, "/lib/libc.so.6");
}

/* Until glibc 2.32 ldconfig wrote the new format behind an old one. */
static void reads_the_compatible_format(void **state)
{
	for (uint32_t old_entries = 0; old_entries < 4; old_entries++) {
		uint8_t bytes[512] = "ld.so-1.7.0";
		uint8_t newer[256];
		size_t length = make_cache(newer);
		size_t at = (16 + old_entries * 12 + 7) / 8 * 8;

		put(bytes + 12, old_entries);
		memcpy(bytes + at, newer, length);
		struct visits visits = visit_bytes(bytes, at + length);
		assert_int_equal(visits.count, 2);
		assert_string_equal(visits.first, "/opt/libmpi.so.40");
		for (size_t cut = 0; cut < at + length; cut++)
			assert_true(visit_bytes(bytes, cut).count <= 2);
	}
	(void)state;
}

static void every_truncation(void **state)
{
	uint8_t bytes[256];
	size_t length = make_cache(bytes);

	(void)state;
	for (size_t cut = 0; cut < length; cut++) {
		struct visits visits = visit_bytes(bytes, cut);

		assert_true(visits.count < 2); /* the last path has lost its end */
	}
}

static void garbage(void **state)
{
	uint8_t good[256], bytes[256];
	size_t length = make_cache(good);
	uint32_t seed = 1;

	(void)state;
	for (size_t i = 0; i < 48 + 48; i++) {
		static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};

		for (size_t v = 0; v < sizeof(values); v++) {
			memcpy(bytes, good, length);
			bytes[i] = values[v];
			assert_true(visit_bytes(bytes, length).count <= 2);
		}
	}
	for (int round = 0; round < 300; round++) {
		memcpy(bytes, good, length);
		for (size_t i = 20; i < length; i++) {
			seed = seed * 1664525u + 1013904223u;
			bytes[i] = (uint8_t)(seed >> 24);
		}
		assert_true(visit_bytes(bytes, length).bytes < 256 * 256);
	}
	put(good + 20, UINT32_MAX);
	assert_int_equal(visit_bytes(good, length).count, 0);
}

static void the_real_cache(void **state)
{
	struct visits visits = {0};

	(void)state;
	loader_cache_visit("/nonexistent", on_library, &visits);
	loader_cache_visit("/", on_library, &visits);
	assert_int_equal(visits.count, 0);
	if (access("/etc/ld.so.cache", R_OK) < 0)
		skip();
	loader_cache_visit("/etc/ld.so.cache", on_library, &visits);
	assert_true(visits.count > 5);
	assert_int_equal(visits.first[0], '/');
	assert_int_equal(access(visits.first, R_OK), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_the_format),
		cmocka_unit_test(reads_the_compatible_format),
		cmocka_unit_test(every_truncation),
		cmocka_unit_test(garbage),
		cmocka_unit_test(the_real_cache),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
