/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes in the table that a process shares of its queue pairs: what is told can be encoded, and is read back. The first
 * byte says what else is wrong: enum trouble.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>

#include "probe/ring/verbs_table.h"
#include "probe/sources/verbs_source.h"
#include "probe/wire/decode.h"
#include "probe/wire/encode.h"
#include "tests/fuzz/fuzz.h"

enum { PAIRS_MAX = 64, READS_MAX = 8, FAILS_MAX = 4 };

enum trouble {
	OWN_HEAD = 1 << 0, /* the input has the head, too; else a good one is in front of it */
	HAS_ENDED = 1 << 1,
	OTHER_USERS = 1 << 2, /* where this is root */
	IS_CUT = 1 << 3,      /* while it is read */
	HAS_DEVICES = 1 << 4, /* whose files are the end of the input */
	NO_MEMORY = 1 << 5,
	NO_FOLDER = 1 << 6,
	NOT_OURS = 1 << 7, /* to be signalled */
};

static struct {
	uint8_t trouble;
	size_t reads; /* until the file is cut */
	const uint8_t *text;
	size_t length;
} foreign;

static const size_t rooms[] = {1, PAIRS_MAX, PAIRS_MAX}; /* of each look */

static char folder[] = "/dev/shm/slowrank-fuzz-XXXXXX", path[96];
static int table = -1;

static const char *const strange[] = {"x", "1.2.3x", ".1.2"};

static void remove_table(void)
{
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		char name[96];

		snprintf(name, sizeof(name), "%s/" VERBS_TABLE_PREFIX "%s", folder, strange[i]);
		unlink(name);
	}
	unlink(path);
	rmdir(folder);
}

static void make_folder(void)
{
	fuzz_require(mkdtemp(folder) != NULL && atexit(remove_table) == 0);
	snprintf(path, sizeof(path), "%s/" VERBS_TABLE_PREFIX "%u.%d.1", folder, (unsigned)getuid(),
		(int)getpid());
	for (size_t i = 0; i < sizeof(strange) / sizeof(strange[0]); i++) {
		char name[96];

		snprintf(name, sizeof(name), "%s/" VERBS_TABLE_PREFIX "%s", folder, strange[i]);
		fuzz_require(close(open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600)) == 0);
	}
}

/* It is removed when its process has ended. */
static void make_table(void)
{
	if (!path[0])
		make_folder();
	if (table >= 0 && access(path, F_OK) == 0)
		return;
	if (table >= 0)
		close(table);
	table = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	fuzz_require(table >= 0);
}

int __wrap_kill(pid_t pid, int number);
int __wrap_kill(pid_t pid, int number)
{
	(void)pid;
	fuzz_require(number == 0);
	errno = foreign.trouble & NOT_OURS ? EPERM : ESRCH;
	return foreign.trouble & (HAS_ENDED | NOT_OURS) ? -1 : 0;
}

ssize_t __real_pread(int fd, void *bytes, size_t length, off_t at);
ssize_t __wrap_pread(int fd, void *bytes, size_t length, off_t at);
ssize_t __wrap_pread(int fd, void *bytes, size_t length, off_t at)
{
	if (foreign.trouble & IS_CUT && fd != table && foreign.reads-- == 0)
		return 0;
	return __real_pread(fd, bytes, length, at);
}

int __wrap_text_file_read_at(char *buffer, size_t capacity, const char *format, ...);
int __wrap_text_file_read_at(char *buffer, size_t capacity, const char *format, ...)
{
	(void)format;
	if (!(foreign.trouble & HAS_DEVICES))
		return -ENOENT;
	snprintf(buffer, capacity, "%.*s", (int)foreign.length, (const char *)foreign.text);
	return 0;
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
		fuzz_require(pwrite(table, bytes + 1, length - 1,
				     foreign.trouble & OWN_HEAD ? 0 : behind) > 0);
	if (geteuid() == 0)
		fuzz_require(fchown(table, foreign.trouble & OTHER_USERS ? 65534 : 0, 0) == 0);
}

static void set_foreign(const uint8_t *bytes, size_t length)
{
	enum { TEXT_MAX = 48 };

	foreign.trouble = length ? bytes[0] : 0;
	foreign.reads = fuzz_number(bytes, length, READS_MAX);
	foreign.length = length < TEXT_MAX ? length : TEXT_MAX;
	foreign.text = bytes + length - foreign.length;
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
	bool starved;

	make_table();
	set_foreign(bytes, length);
	starved = foreign.trouble & NO_MEMORY;
	fill(bytes, length);
	fuzz_require(pairs != NULL);
	fuzz_fail_allocation(starved ? 1 + fuzz_number(bytes, length, FAILS_MAX) : 0);
	if (verbs_source_create(foreign.trouble & NO_FOLDER ? NULL : folder, &source)) {
		fuzz_fail_allocation(0);
		fuzz_require(starved);
		free(pairs);
		return 0;
	}
	fuzz_require(verbs_source_follow(source, getpid(), 0) == 0);
	fuzz_require(verbs_source_follow(source, getpid(), 1) == 0);
	fuzz_require(verbs_source_follow(source, INT32_MAX, 2) < 0);
	for (size_t i = 0; i < sizeof(rooms) / sizeof(rooms[0]); i++) {
		struct host_ns now = {(int64_t)i + 1};
		size_t count = verbs_source_read(source, now, pairs, rooms[i]);

		fuzz_require(count <= rooms[i]);
		fuzz_fail_allocation(0);
		check(pairs, count);
	}
	if (!(foreign.trouble & (OTHER_USERS | NO_FOLDER)))
		fuzz_require(verbs_source_counts(source, getpid()));
	fuzz_require(!verbs_source_counts(source, INT32_MAX));
	(void)verbs_source_state(source);
	verbs_source_destroy(source);
	verbs_source_destroy(NULL);
	free(pairs);
	return 0;
}
