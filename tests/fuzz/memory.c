/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that runs out where the target says so: the linker's --wrap sends what the code under test asks for through here. */
#include "tests/fuzz/fuzz.h"

static size_t left; /* asks until one fails; 0: none does */

void fuzz_fail_allocation(size_t number)
{
	left = number;
}

bool fuzz_fails(void)
{
	return left && --left == 0;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
	return fuzz_fails() ? NULL : __real_malloc(size);
}

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
	return fuzz_fails() ? NULL : __real_calloc(count, size);
}

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size)
{
	return fuzz_fails() ? NULL : __real_realloc(memory, size);
}
