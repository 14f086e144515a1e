/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rings that a hostile job wrote: the file as a whole, or records that pass the checksum with any content, all the way
 * into a deep look. The first byte says which, and what else is wrong: enum trouble.
 */
#include <fcntl.h>
#include <sys/file.h>

#include "probe/device_look.h"
#include "probe/sources/ring_source_internal.h"
#include "tests/fuzz/fuzz.h"

enum { SLOTS = RING_SLOT_COUNT_MIN, RECORDS_READ_MAX = 4 * SLOTS };
enum { FILE_BYTES = RING_HEADER_BYTES + SLOTS * RING_RECORD_BYTES };

enum trouble {
	HAS_RECORDS =
		1 << 0,	   /* behind a good header; else the input is the file, and zeros follow, */
	IS_SHORT = 1 << 1, /* or nothing does */
	IS_CUT = 1 << 2,   /* by its owner, while it is read */
	HAS_READER = 1 << 3, /* another one */
	NO_MEMORY = 1 << 4,
	WRITERS_GONE = 1 << 5,
	IS_NO_FILE = 1 << 6,
	IS_HUGE = 1 << 7,
};

struct seen {
	struct device_look *look;
	size_t callbacks;
};

static void on_collective(void *context, const struct ring_source_collective *collective)
{
	((struct seen *)context)->callbacks++;
	fuzz_require(collective->function < RING_FUNCTION_NR);
	fuzz_require(collective->rank >= -1 && collective->rank < STEP_RANK_COUNT_MAX);
	fuzz_require(collective->device_stop.value >= collective->device_start.value);
}

static void on_kernel(void *context, const struct ring_source_kernel *kernel)
{
	struct seen *seen = context;

	seen->callbacks++;
	fuzz_require(strlen(kernel->name) <= RING_SOURCE_NAME_BYTES_MAX);
	fuzz_require(kernel->stop.value >= kernel->start.value);
	device_look_kernel(seen->look, kernel);
}

static void on_copy(void *context, const struct ring_source_memcpy *copy)
{
	struct seen *seen = context;

	seen->callbacks++;
	fuzz_require(copy->stop.value >= copy->start.value);
	device_look_copy(seen->look, copy);
}

static void on_synchronisation(
	void *context, const struct ring_source_synchronisation *synchronisation)
{
	struct seen *seen = context;

	seen->callbacks++;
	device_look_synchronisation(seen->look, synchronisation);
}

static void on_deep_state(void *context, pid_t pid, const struct ring_deep_report *report)
{
	(void)pid;
	(void)report;
	((struct seen *)context)->callbacks++;
}

/* A ring whose records hold the input, one after another, each with its checksum. */
static void fill_records(uint8_t *file, const uint8_t *bytes, size_t length)
{
	struct ring_header *header = (struct ring_header *)(void *)file;
	struct ring_record *slots = (struct ring_record *)(void *)(file + RING_HEADER_BYTES);

	*header = (struct ring_header){.magic = RING_MAGIC,
		.version = RING_VERSION,
		.header_bytes = RING_HEADER_BYTES,
		.record_bytes = RING_RECORD_BYTES,
		.slot_count = SLOTS};
	for (uint64_t i = 0; i < SLOTS; i++) {
		size_t part = length < RING_PAYLOAD_BYTES + 3 ? length : RING_PAYLOAD_BYTES + 3;

		slots[i].sequence = i;
		if (part < 3)
			continue;
		slots[i].sequence = i + 1;
		slots[i].kind = bytes[0];
		slots[i].length_bytes = (uint16_t)(bytes[1] | bytes[2] << 8);
		memcpy(slots[i].words, bytes + 3, part - 3);
		slots[i].check = ring_checksum(&slots[i], i);
		header->head = i + 1;
		bytes += part;
		length -= part;
	}
}

static void read_ring(
	struct ring_source *source, struct ring_process *process, int owned, uint8_t trouble)
{
	struct ring_record record;

	for (size_t i = 0; i < RECORDS_READ_MAX; i++) {
		bool gone = trouble & WRITERS_GONE && i > SLOTS;

		if (i == 2 && trouble & IS_CUT)
			fuzz_require(ftruncate(owned, 0) == 0);
		if (ring_reader_next(process->reader, (int64_t)i << 20, gone, &record))
			continue;
		ring_source_deliver(source, process, &record);
	}
	(void)ring_reader_request(process->reader, RING_DEEP_KERNELS, 1);
	ring_reader_pause(process->reader, true);
	ring_reader_pause(process->reader, false);
}

/* The ring, with what is wrong with it. *owned: its owner's descriptor, for the caller to close. */
static int make_ring(const uint8_t *bytes, size_t length, int *owned)
{
	uint8_t trouble = length ? bytes[0] : 0, *file = calloc(1, FILE_BYTES);
	char path[FUZZ_PATH_LENGTH];
	size_t part = !length ? 0 : length - 1 < FILE_BYTES ? length - 1 : FILE_BYTES;

	fuzz_require(file != NULL);
	if (trouble & HAS_RECORDS)
		fill_records(file, bytes + 1, length - 1);
	else if (part)
		memcpy(file, bytes + 1, part);
	*owned = fuzz_file(
		file, (trouble & (HAS_RECORDS | IS_SHORT)) == IS_SHORT ? part : FILE_BYTES, path);
	free(file);
	if (trouble & IS_HUGE)
		fuzz_require(ftruncate(*owned, INT64_C(1) << 40) == 0);
	if (trouble & HAS_READER)
		fuzz_require(flock(*owned, LOCK_EX) == 0);
	return open(trouble & IS_NO_FILE ? "/dev/null" : path, O_RDWR | O_CLOEXEC);
}

static void sum_up(struct device_look *look)
{
	struct kernel_profile profile;

	for (int64_t i = 0; i < 4; i++)
		device_look_step(look, (struct host_ns){i << 20}, (struct host_ns){(i + 1) << 20});
	device_look_finish(look, (struct host_ns){0}, (struct host_ns){INT64_MAX}, 0, 0, &profile);
	fuzz_require(profile.sum_count <= KERNEL_PROFILE_KERNELS_MAX);
	fuzz_require(profile.busy_ns >= 0 && profile.idle_ns >= 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct seen seen = {.look = device_look_create()};
	struct ring_source source = {.context = &seen,
		.callbacks = {.collective = on_collective,
			.kernel = on_kernel,
			.memcpy = on_copy,
			.synchronisation = on_synchronisation,
			.deep_state = on_deep_state}};
	struct ring_process *process = calloc(1, sizeof(*process));
	uint8_t trouble = length ? bytes[0] : 0;
	int owned, fd = make_ring(bytes, length, &owned);

	fuzz_require(seen.look && process && fd >= 0);
	fuzz_fail_allocation(trouble & NO_MEMORY ? 1 : 0);
	if (ring_reader_open(fd, &process->reader) == 0) { /* takes fd over, always */
		read_ring(&source, process, owned, trouble);
		ring_reader_close(process->reader);
	}
	fuzz_fail_allocation(0);
	ring_reader_close(NULL);
	close(owned);
	sum_up(seen.look);
	for (size_t i = 0; i < RING_SOURCE_NAMES_MAX; i++)
		free(process->names[i].text);
	device_look_destroy(seen.look);
	free(process);
	return 0;
}
