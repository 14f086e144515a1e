/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Symbols of the real MPI library, of a program that only imports it, of large libraries with either hash
 * table, and of broken files.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
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
#include "probe/attach/elf_symbols.h"
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

/* The most memory since the last call, in KiB. */
static long peak_kib(void)
{
	FILE *file = fopen("/proc/self/status", "re"),
	     *reset = fopen("/proc/self/clear_refs", "we");
	char line[256];
	long kib = -1;

	assert_non_null(file);
	while (kib < 0 && fgets(line, sizeof(line), file))
		(void)!sscanf(line, "VmHWM: %ld", &kib);
	fclose(file);
	assert_non_null(reset);
	assert_true(fputs("5", reset) >= 0);
	assert_int_equal(fclose(reset), 0);
	return kib;
}

static void check_place(const char *path, const char *symbol, const struct symbol_offset *offset)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char bytes[32] = "";

	assert_true(fd >= 0);
	assert_true(offset->found);
	assert_int_equal(
		pread(fd, bytes, strlen(symbol), (off_t)offset->file_offset), strlen(symbol));
	assert_string_equal(bytes, symbol);
	close(fd);
}

/* 50,000 functions with names of 100 bytes. */
static void check_large_library(const char *path, bool stripped)
{
	struct symbol_offset *offsets = calloc(collective_row_count, sizeof(*offsets));
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL), *object;
	bool position_independent = false;
	uint64_t address;
	Dl_info info;

	assert_true(offsets && library);
	(void)peak_kib();
	long before_kib = peak_kib();
	assert_int_equal(symbols_find_rows(path, offsets), 0);
	assert_in_range(peak_kib() - before_kib, 0, 2048);
	check_place(path, "ncclAllReduce", &offsets[row_of("ncclAllReduce")]);
	if (stripped)
		assert_false(offsets[row_of("ncclBroadcast")].found);
	else
		check_place(path, "ncclBroadcast", &offsets[row_of("ncclBroadcast")]);
	assert_false(offsets[row_of("ncclReduce")].found);
	object = dlsym(library, "ompi_mpi_comm_world");
	assert_true(object && dladdr(object, &info));
	assert_int_equal(
		symbols_find_object(path, "ompi_mpi_comm_world", &address, &position_independent),
		0);
	assert_int_equal(address, (uint8_t *)object - (uint8_t *)info.dli_fbase);
	assert_true(position_independent);
	assert_int_equal(
		symbols_find_object(path, "MPI_COMM_WORLD", &address, &position_independent),
		-ENOENT);
	dlclose(library);
	free(offsets);
}

static void large_libraries(void **state)
{
	(void)state;
	check_large_library(MANY_SYMBOLS_GNU, false);
	check_large_library(MANY_SYMBOLS_SYSV_STRIPPED, true);
}

static void copy_file(const char *from, int to)
{
	int fd = open(from, O_RDONLY | O_CLOEXEC);
	char bytes[4096];
	ssize_t got;

	assert_true(fd >= 0);
	while ((got = read(fd, bytes, sizeof(bytes))) > 0)
		assert_int_equal(write(to, bytes, (size_t)got), got);
	close(fd);
}

static bool any_will_do(void *context, size_t index, const GElf_Sym *symbol)
{
	(void)context;
	(void)index;
	(void)symbol;
	return true;
}

/* An update may write over a library: what was read of it is then no longer there. */
static void cut_while_it_is_read(void **state)
{
	static const char *const paths[] = {MANY_SYMBOLS_GNU, MANY_SYMBOLS_SYSV_STRIPPED};
	static const char *const names[] = {"ncclAllReduce", "MPI_Allreduce"};
	const struct elf_symbol_search search = {
		.names = names, .count = 2, .types = 1u << STT_FUNC, .found = any_will_do};
	struct symbol_offset *offsets = calloc(collective_row_count, sizeof(*offsets));

	(void)state;
	assert_non_null(offsets);
	for (size_t i = 0; i < 2; i++) {
		char path[] = "/tmp/slowrank-elf-XXXXXX";
		int fd = mkstemp(path);
		struct elf_file file;

		assert_true(fd >= 0);
		copy_file(paths[i], fd);
		assert_int_equal(elf_file_open(path, &file), 0);
		assert_int_equal(elf_symbols_find(&file, &search), 0);
		assert_int_equal(ftruncate(fd, 4096), 0);
		assert_int_equal(elf_symbols_find(&file, &search), -ENOEXEC);
		elf_file_close(&file);
		assert_int_equal(symbols_find_rows(path, offsets), -ENOEXEC);
		close(fd);
		unlink(path);
	}
	free(offsets);
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
		assert_int_equal(symbols_find_rows(path, offsets), -ENOEXEC);
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
		cmocka_unit_test(large_libraries),
		cmocka_unit_test(cut_while_it_is_read),
		cmocka_unit_test(broken_files),
	};

	return cmocka_run_group_tests(tests, set_up, NULL);
}
