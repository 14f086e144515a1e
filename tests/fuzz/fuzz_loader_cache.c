/* SPDX-License-Identifier: Apache-2.0 */
/* Any bytes as the dynamic loader's cache: what is told are strings. */
#include "probe/attach/loader_cache.h"
#include "tests/fuzz/fuzz.h"

static void on_library(void *context, const char *library)
{
	*(size_t *)context += strlen(library);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	char path[FUZZ_PATH_LENGTH];
	int fd = fuzz_file(bytes, length, path);
	size_t told = 0;

	loader_cache_visit(path, on_library, &told);
	close(fd);
	return 0;
}
