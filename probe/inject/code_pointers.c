/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/code_pointers.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
	RANGES_MAX = 8192,
	PLACES_MAX = 1024,
	CHUNK_BYTES = 64 * 1024,
	LINE_BYTES = 4608,
};
/* More data than any library has that makes calls: a table of its own. */
#define RANGE_BYTES_MAX (UINT64_C(1) << 30)

struct range {
	uintptr_t start, end;
};

struct place {
	uintptr_t address;
	size_t pair;
	bool read_only;
};

struct scan {
	const struct code_pointer *pairs;
	size_t pair_count;
	uintptr_t lowest, highest; /* of what is looked for */
	size_t range_count, place_count;
};

/* One thread at a time: too large for the helper's stack. */
static struct range ranges[RANGES_MAX];
static struct place places[PLACES_MAX];
static uintptr_t chunk[CHUNK_BYTES / sizeof(uintptr_t)];

struct library_search {
	const char *name;
	char *path;
	size_t capacity;
};

static int match_library(struct dl_phdr_info *info, size_t size, void *context)
{
	struct library_search *search = context;
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *base = slash ? slash + 1 : info->dlpi_name;

	(void)size;
	if (strncmp(base, search->name, strlen(search->name)) ||
		strlen(info->dlpi_name) >= search->capacity)
		return 0;
	memcpy(search->path, info->dlpi_name, strlen(info->dlpi_name) + 1);
	return 1;
}

int code_pointers_library(const char *name, char *path, size_t capacity)
{
	struct library_search search = {name, path, capacity};

	return dl_iterate_phdr(match_library, &search) ? 0 : -ENOENT;
}

/* The library has code or data at that address. */
static bool holds(const struct dl_phdr_info *info, uintptr_t address)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		uintptr_t start = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type == PT_LOAD && address >= start &&
			address - start < info->dlpi_phdr[i].p_memsz)
			return true;
	}
	return false;
}

static bool is_left_alone(const struct dl_phdr_info *info, const struct scan *scan)
{
	return holds(info, (uintptr_t)&ranges) || holds(info, scan->pairs[0].from) ||
	       holds(info, scan->pairs[0].to);
}

static int note_ranges(struct dl_phdr_info *info, size_t size, void *context)
{
	struct scan *scan = context;

	(void)size;
	if (is_left_alone(info, scan))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && scan->range_count < RANGES_MAX; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_W) ||
			segment->p_memsz > RANGE_BYTES_MAX)
			continue;
		ranges[scan->range_count++] =
			(struct range){(start + sizeof(uintptr_t) - 1) & ~(sizeof(uintptr_t) - 1),
				start + segment->p_memsz};
	}
	return 0;
}

static const struct code_pointer *find_pair(const struct scan *scan, uintptr_t word)
{
	if (word < scan->lowest || word > scan->highest)
		return NULL;
	for (size_t i = 0; i < scan->pair_count; i++) {
		if (scan->pairs[i].from == word)
			return &scan->pairs[i];
	}
	return NULL;
}

static void scan_range(struct scan *scan, int memory, const struct range *range)
{
	for (uintptr_t at = range->start; at < range->end; at += CHUNK_BYTES) {
		size_t bytes = range->end - at < CHUNK_BYTES ? range->end - at : CHUNK_BYTES;
		ssize_t got = pread(memory, chunk, bytes, (off_t)at);

		for (size_t i = 0; got > 0 && i < (size_t)got / sizeof(chunk[0]); i++) {
			const struct code_pointer *pair = find_pair(scan, chunk[i]);

			if (pair && scan->place_count < PLACES_MAX)
				places[scan->place_count++] =
					(struct place){.address = at + i * sizeof(chunk[0]),
						.pair = (size_t)(pair - scan->pairs)};
		}
	}
}

/* As /proc/self/maps says; false where it does not. */
static bool is_read_only(uintptr_t address)
{
	FILE *file = fopen("/proc/self/maps", "re");
	char line[LINE_BYTES], *rest;
	bool read_only = false;

	/* START-END RIGHTS ... */
	while (file && fgets(line, sizeof(line), file)) {
		unsigned long long start = strtoull(line, &rest, 16), end = 0;

		if (*rest == '-')
			end = strtoull(rest + 1, &rest, 16);
		if (address >= start && address < end) {
			read_only = strncmp(rest, " r-", 3) == 0;
			break;
		}
	}
	if (file)
		fclose(file);
	return read_only;
}

/* What the loader makes read-only after relocation: whole pages (glibc, _dl_protect_relro()). */
static bool is_relocated_page(const struct dl_phdr_info *info, uintptr_t page, uintptr_t page_bytes)
{
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
		uintptr_t start = info->dlpi_addr + segment->p_vaddr;

		if (segment->p_type == PT_GNU_RELRO && page >= (start & ~(page_bytes - 1)) &&
			page < ((start + segment->p_memsz) & ~(page_bytes - 1)))
			return true;
	}
	return false;
}

struct change {
	const struct place *place;
	const struct code_pointer *pair;
	uintptr_t page_bytes;
	bool done;
};

/*
 * Under the loader's lock, so the library stays. A page that it is still to make read-only is left alone, as
 * is one that the program has made so: a write might come right behind that.
 */
static int change_place(struct dl_phdr_info *info, size_t size, void *context)
{
	struct change *change = context;
	uintptr_t *word = (uintptr_t *)change->place->address, from = change->pair->from;
	uintptr_t page = change->place->address & ~(change->page_bytes - 1);

	(void)size;
	if (!holds(info, change->place->address))
		return 0;
	if (is_relocated_page(info, page, change->page_bytes) != change->place->read_only)
		return 1;
	if (change->place->read_only &&
		mprotect((void *)page, change->page_bytes, PROT_READ | PROT_WRITE))
		return 1;
	change->done = __atomic_compare_exchange_n(
		word, &from, change->pair->to, false, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	if (change->place->read_only)
		(void)mprotect((void *)page, change->page_bytes, PROT_READ);
	return 1;
}

static void look_at_rights(const struct scan *scan, uintptr_t page_bytes)
{
	uintptr_t page = 0;
	bool read_only = false;

	for (size_t i = 0; i < scan->place_count; i++) {
		if ((places[i].address & ~(page_bytes - 1)) != page) {
			page = places[i].address & ~(page_bytes - 1);
			read_only = is_read_only(page);
		}
		places[i].read_only = read_only;
	}
}

static size_t change_places(const struct scan *scan, uintptr_t page_bytes)
{
	size_t changed = 0;

	for (size_t pair = 0; pair < scan->pair_count; pair++) {
		for (size_t i = 0; i < scan->place_count; i++) {
			struct change change = {&places[i], &scan->pairs[pair], page_bytes, false};

			if (places[i].pair == pair)
				(void)dl_iterate_phdr(change_place, &change);
			changed += change.done;
		}
	}
	return changed;
}

size_t code_pointers_swap(const struct code_pointer *pairs, size_t pair_count)
{
	struct scan scan = {.pairs = pairs, .pair_count = pair_count, .lowest = UINTPTR_MAX};
	uintptr_t page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
	int memory = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);

	if (memory < 0)
		return 0;
	for (size_t i = 0; i < pair_count; i++) {
		scan.lowest = pairs[i].from < scan.lowest ? pairs[i].from : scan.lowest;
		scan.highest = pairs[i].from > scan.highest ? pairs[i].from : scan.highest;
	}
	if (pair_count)
		(void)dl_iterate_phdr(note_ranges, &scan);
	for (size_t i = 0; i < scan.range_count; i++)
		scan_range(&scan, memory, &ranges[i]);
	close(memory);
	look_at_rights(&scan, page_bytes);
	return change_places(&scan, page_bytes);
}
