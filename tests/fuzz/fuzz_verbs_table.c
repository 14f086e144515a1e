/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes in the table that a process shares of its queue pairs, behind a good head (first byte even) or in its
 * place: what is told can be encoded, and is read back.
 */
#include <fcntl.h>

#include "probe/ring/verbs_table.h"
#include "probe/sources/verbs_source.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/fuzz/fuzz.h"

enum { PAIRS_MAX = 64 };

static const size_t rooms[] = {1, PAIRS_MAX, PAIRS_MAX}; /* of each look */

static char folder[] = "/dev/shm/slowrank-fuzz-XXXXXX", path[96];
static int table = -1;

static void remove_table(void)
{
	unlink(path);
	rmdir(folder);
}

static void make_table(void)
{
	fuzz_require(mkdtemp(folder) != NULL);
	snprintf(path, sizeof(path), "%s/" VERBS_TABLE_PREFIX "%u.%d.1", folder, (unsigned)getuid(),
		(int)getpid());
	table = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	fuzz_require(table >= 0 && atexit(remove_table) == 0);
}

static void fill(const uint8_t *bytes, size_t length)
{
	const struct verbs_table head = {.magic = VERBS_TABLE_MAGIC,
		.version = VERBS_TABLE_VERSION,
		.length_bytes = sizeof(head),
		.pid = (uint32_t)getpid(),
		.queue_pair_limit = VERBS_QUEUE_PAIRS_MAX};
	const off_t behind = offsetof(struct verbs_table, devices);

	fuzz_require(ftruncate(table, 0) == 0 && ftruncate(table, sizeof(head)) == 0);
	fuzz_require(pwrite(table, &head, (size_t)behind, 0) == (ssize_t)behind);
	if (length > 1)
		fuzz_require(pwrite(table, bytes + 1, length - 1, bytes[0] & 1 ? 0 : behind) > 0);
}

static void check(struct message_queue_pair *pairs, size_t count)
{
	struct message_batch batch = {.queue_pair_count = count, .queue_pairs = pairs}, *again;
	struct wire_buffer buffer = {0};
	char why[WIRE_DETAIL_LENGTH_MAX + 1];

	fuzz_require(wire_encode_batch(&batch, &buffer) == 0);
	fuzz_require(wire_decode_packed_batch(buffer.bytes, buffer.length, &again, why) == 0);
	fuzz_require(again->queue_pair_count == count);
	message_batch_destroy(again);
	wire_buffer_fini(&buffer);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct message_queue_pair *pairs = calloc(PAIRS_MAX, sizeof(*pairs));
	struct verbs_source *source = NULL;

	if (table < 0)
		make_table();
	fill(bytes, length);
	fuzz_require(pairs && verbs_source_create(folder, &source) == 0);
	fuzz_require(verbs_source_follow(source, getpid(), 0) == 0);
	fuzz_require(verbs_source_follow(source, getpid(), 1) == 0);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		struct host_ns now = {(int64_t)i + 1};
		size_t count = verbs_source_read(source, now, pairs, rooms[i]);

		fuzz_require(count <= rooms[i]);
		check(pairs, count);
	}
	fuzz_require(verbs_source_counts(source, getpid()));
	(void)verbs_source_state(source);
	verbs_source_destroy(source);
	free(pairs);
	return 0;
}
