/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as an ELF file, for all who read one: symbols, libraries, static probes, verbs, code. */
#include <inttypes.h>

#include "probe/attach/collective_table.h"
#include "probe/attach/elf_paths.h"
#include "probe/attach/first_opcode.h"
#include "probe/attach/symbols.h"
#include "probe/attach/verbs_attach.h"
#include "tests/fuzz/foreign.h"
#include "tests/fuzz/fuzz.h"

static void on_text(void *context, const char *text)
{
	*(size_t *)context += strlen(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct symbol_offset *offsets = calloc(collective_row_count, sizeof(*offsets));
	char path[FUZZ_PATH_LENGTH];
	int fd = fuzz_file(bytes, length, path);
	struct verbs_library library;
	enum opcode_cost cost;
	bool independent;
	uint64_t address;
	size_t told = 0;

	fuzz_require(offsets != NULL);
	if (symbols_find_rows(path, offsets) == 0) {
		for (size_t i = 0; i < collective_row_count; i++) {
			uint64_t offset = offsets[i].file_offset;

			if (offsets[i].found)
				(void)!first_opcode_read(path, &offset, &cost);
		}
	}
	(void)!symbols_find_object(path, "ompi_mpi_comm_world", &address, &independent);
	(void)!verbs_library_read(path, &library);
	elf_paths_visit(path, on_text, &told);
	elf_needed_visit(path, on_text, &told);
	free(offsets);
	close(fd);
	return 0;
}
