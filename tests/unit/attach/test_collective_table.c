/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and libraries agree, and what follows from a library's row is found by it alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bpf/ranks_shared.h"
#include "probe/attach/collective_table.h"

static const struct collective_row *row_of(const char *symbol)
{
	for (size_t row = 0; row < collective_row_count; row++) {
		if (strcmp(collective_rows[row].symbol, symbol) == 0)
			return &collective_rows[row];
	}
	fail_msg("no row for %s", symbol);
	return NULL;
}

static void every_row_has_a_library(void **state)
{
	(void)state;
	assert_in_range(collective_row_count, 1, RANK_ROWS_MAX);
	for (size_t i = 0; i < collective_row_count; i++) {
		const struct collective_row *row = &collective_rows[i];
		const struct library_traits *library;

		assert_in_range(row->library, 1, ROW_LIBRARY_NR - 1);
		library = collective_library(row);
		assert_non_null(library->name);
		assert_non_null(library->files[0]);
		for (size_t other = 0; other < i; other++)
			assert_string_not_equal(collective_rows[other].symbol, row->symbol);
		if (row->kind != ROW_COLLECTIVE)
			continue;
		/* What joins needs its communicator; what a device does needs the stream that is waited for. */
		assert_int_not_equal(row->communicator, ROW_ARGUMENT_NONE);
		assert_int_equal(library->on_device, row->stream != ROW_ARGUMENT_NONE);
		if (library->on_device)
			assert_false(row->blocking);
		if (row->datatype != ROW_ARGUMENT_NONE)
			assert_non_null(library->datatype_bytes);
	}
}

static void names(void **state)
{
	char text[COLLECTIVE_NAMES_LENGTH];

	(void)state;
	collective_library_names(text);
	assert_string_equal(text, "MPI, NCCL, RCCL");
}

static void datatypes(void **state)
{
	(void)state;
	assert_int_equal(collective_datatype_bytes(row_of("ncclAllReduce"), 7), 4); /* float */
	assert_int_equal(collective_datatype_bytes(row_of("ncclAllReduce"), 99), 0);
	assert_int_equal(collective_datatype_bytes(row_of("MPI_Allreduce"), 0x4c00080b), 8);
	assert_int_equal(collective_datatype_bytes(row_of("MPI_Allreduce"), 0x55d0c0ffee00), 0);
	assert_int_equal(collective_datatype_bytes(row_of("hipStreamSynchronize"), 7), 0);
}

/* Whatever is seen of one device's runtime is seen of the other's, as the same. */
static void rocm_as_cuda(void **state)
{
	static const char *const pairs[][2] = {
		{"cuStreamSynchronize", "hipStreamSynchronize"},
		{"cuStreamSynchronize_ptsz", "hipStreamSynchronize_spt"},
		{"cuEventSynchronize", "hipEventSynchronize"},
		{"cuCtxSynchronize", "hipDeviceSynchronize"},
		{"cuMemcpyDtoH_v2", "hipMemcpyDtoH"},
		{"cuMemcpyHtoD_v2", "hipMemcpyHtoD"},
		{"cuMemcpy", "hipMemcpy"},
		{"cuStreamWaitEvent", "hipStreamWaitEvent"},
		{"cuStreamWaitEvent_ptsz", "hipStreamWaitEvent_spt"},
		{"cuLaunchKernel", "hipLaunchKernel"},
		{"cuLaunchKernel", "hipModuleLaunchKernel"},
		{"cuLaunchCooperativeKernel", "hipLaunchCooperativeKernel"},
		{"cuGraphLaunch", "hipGraphLaunch"},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++) {
		struct collective_row rocm = *row_of(pairs[i][1]);

		assert_int_equal(rocm.library, ROW_LIBRARY_HIP);
		rocm.symbol = row_of(pairs[i][0])->symbol;
		rocm.library = row_of(pairs[i][0])->library;
		assert_memory_equal(&rocm, row_of(pairs[i][0]), sizeof(rocm));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_row_has_a_library),
		cmocka_unit_test(names),
		cmocka_unit_test(datatypes),
		cmocka_unit_test(rocm_as_cuda),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
