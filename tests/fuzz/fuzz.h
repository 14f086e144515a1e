/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What fuzz targets share: the promise that is broken, and files that the input is. libFuzzer has main(). One thread.
 */
#ifndef SLOWRANK_TESTS_FUZZ_FUZZ_H
#define SLOWRANK_TESTS_FUZZ_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length);

static inline void fuzz_require(bool holds)
{
	if (!holds)
		abort();
}

/* The so-manieth ask for memory from now on fails, once; 0: none does. In targets that are linked with memory.c. */
void fuzz_fail_allocation(size_t number);
bool fuzz_fails(void); /* for what else a target has fail in turn with them */

/* Some number below most, by the input: which call of several fails. */
static inline size_t fuzz_number(const uint8_t *bytes, size_t length, size_t most)
{
	size_t sum = length;

	for (size_t i = 0; i < length; i++)
		sum = 31 * sum + bytes[i];
	return sum % most;
}

enum { FUZZ_PATH_LENGTH = 32 };

/* A file of these bytes, and a path to it. The caller closes the descriptor. */
static inline int fuzz_file(const void *bytes, size_t length, char path[FUZZ_PATH_LENGTH])
{
	int fd = memfd_create("foreign", MFD_CLOEXEC);

	fuzz_require(fd >= 0 && write(fd, bytes, length) == (ssize_t)length &&
		     lseek(fd, 0, SEEK_SET) == 0);
	snprintf(path, FUZZ_PATH_LENGTH, "/proc/self/fd/%d", fd);
	return fd;
}

/* Takes count bytes off the input; zeros where it has ended. */
struct fuzz_input {
	const uint8_t *bytes;
	size_t length;
};

static inline void fuzz_take(struct fuzz_input *input, void *out, size_t count)
{
	size_t part = count < input->length ? count : input->length;

	memset(out, 0, count);
	if (part)
		memcpy(out, input->bytes, part);
	input->bytes += part;
	input->length -= part;
}

/*
 * Text of others that goes to people: no control character but line ends. A tab is one that nobody needs.
 */
static inline void fuzz_require_printable(const char *text, size_t length)
{
	for (size_t i = 0; i < length; i++) {
		unsigned char byte = (unsigned char)text[i];

		fuzz_require((byte >= ' ' || byte == '\n') && byte != 0x7f);
		fuzz_require(byte != 0xc2 || i + 1 == length || (unsigned char)text[i + 1] >= 0xa0);
	}
}

#endif
