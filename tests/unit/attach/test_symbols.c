/* SPDX-License-Identifier: Apache-2.0 */
/* Symbols of the real MPI library, of a program that only imports it, and of broken files. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "probe/attach/collective_table.h"
#include "probe/attach/library.h"
#include "probe/attach/symbols.h"

static char library[LIBRARY_PATH_LENGTH];

static int set_up(void **state)
{
	char *argv[] = {"mpirun", NULL};
	struct library_file files[64];
	size_t count;

	(void)state;
	if (library_find_for_command(argv, files, 64, &count) < 0)
		return -1;
	for (size_t i = 0; i < count; i++) {
		if (strstr(files[i].name, "/libmpi.so"))
			snprintf(library, sizeof(library), "%s", files[i].path);
	}
	return 0;
}

static size_t row_of(const char *symbol)
{
	for (size_t row = 0; row < collective_row_count; row++) {
		if (strcmp(collective_rows[row].symbol, symbol) == 0)
			return row;
	}
	fail_msg("no row for %s", symbol);
	return 0;
}

static void rows_of_the_real_library(void **state)
{
	struct symbol_offset *offsets = calloc(collective_row_count, sizeof(*offsets));

	(void)state;
	assert_non_null(offsets);
	if (!library[0]) {
		print_message("skipped: libmpi.so.40 is not installed\n");
		skip();
	}
	assert_int_equal(symbols_find_rows(library, offsets), 0);
	assert_true(symbols_has_rows(library));
	assert_true(offsets[row_of("MPI_Allreduce")].found);
	for (size_t row = 0; row < collective_row_count; row++) {
		bool mpi = collective_rows[row].library == ROW_LIBRARY_MPI;

		/* Open MPI 4 has every MPI row of the table, and nothing else. */
		if (offsets[row].found != mpi)
			fail_msg("%s", collective_rows[row].symbol);
		if (!mpi)
			continue;
		assert_int_not_equal(offsets[row].file_offset, 0);
		for (size_t other = 0; other < row; other++) {
			if (offsets[other].found)
				assert_int_not_equal(
					offsets[other].file_offset, offsets[row].file_offset);
		}
	}
	free(offsets);
}

static void imports_are_not_found(void **state)
{
	static const char program[] = "/usr/bin/hpcc"; /* linked with libmpi */

	(void)state;
	if (access(program, R_OK) < 0) {
		print_message("skipped: hpcc is not installed\n");
		skip();
	}
	assert_false(symbols_has_rows(program));
}

static void objects(void **state)
{
	bool position_independent = false;
	uint64_t address = 0;

	(void)state;
	if (!library[0])
		skip();
	assert_int_equal(symbols_find_object(
				 library, "ompi_mpi_comm_world", &address, &position_independent),
		0);
	assert_int_not_equal(address, 0);
	assert_true(position_independent);
	/* A function is no object. */
	assert_int_equal(
		symbols_find_object(library, "MPI_Allreduce", &address, &position_independent),
		-ENOENT);
}

static void write_file(const char *path, const void *bytes, size_t length)
{
	FILE *file = fopen(path, "we");

	assert_non_null(file);
	assert_int_equal(fwrite(bytes, 1, length, file), length);
	assert_int_equal(fclose(file), 0);
}

/* This program itself, cut and damaged: errors or fewer symbols, never a crash. */
static void broken_files(void **state)
{
	struct symbol_offset *offsets = calloc(collective_row_count, sizeof(*offsets));
	char path[] = "/tmp/slowrank-elf-XXXXXX";
	int fd = mkstemp(path), result;
	FILE *self = fopen("/proc/self/exe", "re");
	uint32_t seed = 7;

	(void)state;
	assert_non_null(offsets);
	assert_true(fd >= 0);
	close(fd);
	assert_non_null(self);
	assert_int_equal(fseek(self, 0, SEEK_END), 0);
	size_t length = (size_t)ftell(self);
	uint8_t *bytes = malloc(length), *damaged = malloc(length);
	assert_true(bytes && damaged);
	rewind(self);
	assert_int_equal(fread(bytes, 1, length, self), length);
	fclose(self);
	for (size_t cut = 0; cut < length; cut += cut < 200 ? 1 : length / 60) {
		write_file(path, bytes, cut);
		result = symbols_find_rows(path, offsets);
		assert_true(result == 0 || result == -ENOEXEC);
	}
	for (int round = 0; round < 200; round++) {
		memcpy(damaged, bytes, length);
		for (int i = 0; i < 16; i++) {
			/* Headers at the start, section headers at the end. */
			seed = seed * 1664525u + 1013904223u;
			size_t at = (seed >> 8) % 2048;
			damaged[i & 1 ? 16 + at : length - 1 - at] = (uint8_t)(seed >> 3);
		}
		write_file(path, damaged, length);
		result = symbols_find_rows(path, offsets);
		assert_true(result == 0 || result == -ENOEXEC);
	}
	write_file(path, "#!/bin/sh\n", 10);
	assert_int_equal(symbols_find_rows(path, offsets), -ENOEXEC);
	assert_false(symbols_has_rows(path));
	unlink(path);
	assert_int_equal(symbols_find_rows(path, offsets), -ENOENT);
	free(bytes);
	free(damaged);
	free(offsets);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rows_of_the_real_library),
		cmocka_unit_test(imports_are_not_found),
		cmocka_unit_test(objects),
		cmocka_unit_test(broken_files),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
