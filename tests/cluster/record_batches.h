/* SPDX-License-Identifier: Apache-2.0 */
/* What programs that print what is in a record have in common. */
#ifndef SLOWRANK_TESTS_RECORD_BATCHES_H
#define SLOWRANK_TESTS_RECORD_BATCHES_H

#include <errno.h>
#include <stdio.h>

#include "coordinator/record/reader.h"
#include "probe/wire/decode.h"

/* Takes each batch of the record that the only argument names. Returns the program's exit status. */
static inline int record_batches(
	int argc, char **argv, const char *program, void (*take)(const struct message_batch *batch))
{
	char why[WIRE_DETAIL_LENGTH_MAX + 1];
	struct record_reader *reader;
	struct message_batch *batch;
	struct job_ns received;
	const void *bytes;
	size_t length;
	int error = 0;

	if (argc != 2) {
		fprintf(stderr, "%s: usage: %s FILE\n", program, program);
		return 2;
	}
	if (record_reader_open(argv[1], &reader, why) < 0) {
		fprintf(stderr, "%s: %s\n", program, why);
		return 2;
	}
	while (!error && (error = record_reader_next(reader, &bytes, &length, &received)) == 0) {
		error = wire_decode_packed_batch(bytes, length, &batch, why);
		if (error)
			break;
		take(batch);
		message_batch_destroy(batch);
	}
	record_reader_close(reader);
	return error == -ENODATA ? 0 : 1;
}

#endif
