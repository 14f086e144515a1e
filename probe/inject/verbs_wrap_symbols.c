/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes over functions of the mapped libibverbs: the values of its dynamic symbols are changed so
 * that base + value is our function. The loader reads them at every lookup (ELF gABI, "Symbol
 * Table"). Only default versions are changed: the compatibility functions of IBVERBS_1.0 have other
 * structs. Writing goes through /proc/self/mem, which copies the private page and needs no change
 * of its protection, so no other thread sees the pages anything but readable.
 */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

#include "probe/inject/verbs_wrap_internal.h"

enum { VERSION_HIDDEN = 0x8000, SYMBOLS_MAX = 65536 };

static const char *const names[VERBS_FUNCTION_NR] = {"ibv_open_device", "ibv_import_device",
	"ibv_close_device", "ibv_create_cq", "ibv_create_qp", "ibv_modify_qp", "ibv_destroy_qp",
	"ibv_destroy_cq"};

static struct {
	uintptr_t base;
	void *original[VERBS_FUNCTION_NR];
	ElfW(Sym) * changed[VERBS_FUNCTION_NR];
	ElfW(Addr) old_value[VERBS_FUNCTION_NR];
} state;

struct dynamic_tables {
	uintptr_t base;
	ElfW(Sym) * symbols;
	const char *strings;
	const ElfW(Half) * versions;
	const uint32_t *gnu_hash, *hash;
	uintptr_t end; /* of the library's last mapping */
};

void *verbs_symbols_original(enum verbs_function function)
{
	return state.original[function];
}

static int on_object(struct dl_phdr_info *info, size_t size, void *context)
{
	struct dynamic_tables *tables = context;
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	const char *name = slash ? slash + 1 : info->dlpi_name ? info->dlpi_name : "";

	(void)size;
	if (strncmp(name, "libibverbs.so", strlen("libibverbs.so")) != 0)
		return 0;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *header = &info->dlpi_phdr[i];

		if (header->p_type == PT_LOAD &&
			info->dlpi_addr + header->p_vaddr + header->p_memsz > tables->end)
			tables->end = info->dlpi_addr + header->p_vaddr + header->p_memsz;
		if (header->p_type != PT_DYNAMIC)
			continue;
		tables->base = info->dlpi_addr;
		const ElfW(Dyn) *entry = (const ElfW(Dyn) *)(info->dlpi_addr + header->p_vaddr);
		for (; entry->d_tag != DT_NULL; entry++) {
			/* glibc adds the base in place on most machines. */
			uintptr_t address = entry->d_un.d_ptr < info->dlpi_addr
						    ? entry->d_un.d_ptr + info->dlpi_addr
						    : entry->d_un.d_ptr;

			if (entry->d_tag == DT_SYMTAB)
				tables->symbols = (ElfW(Sym) *)address;
			else if (entry->d_tag == DT_STRTAB)
				tables->strings = (const char *)address;
			else if (entry->d_tag == DT_VERSYM)
				tables->versions = (const ElfW(Half) *)address;
			else if (entry->d_tag == DT_GNU_HASH)
				tables->gnu_hash = (const uint32_t *)address;
			else if (entry->d_tag == DT_HASH)
				tables->hash = (const uint32_t *)address;
		}
	}
	return 1;
}

/* The table's length is not written anywhere: the end of the last chain tells it. */
static size_t symbol_count(const struct dynamic_tables *tables)
{
	const uint32_t *buckets, *chains;
	uint32_t bucket_count, first, last = 0;

	if (tables->hash)
		return tables->hash[1];
	if (!tables->gnu_hash)
		return 0;
	bucket_count = tables->gnu_hash[0];
	first = tables->gnu_hash[1];
	buckets = tables->gnu_hash + 4 + tables->gnu_hash[2] * (sizeof(ElfW(Addr)) / 4);
	chains = buckets + bucket_count;
	for (uint32_t i = 0; i < bucket_count; i++) {
		if (buckets[i] > last)
			last = buckets[i];
	}
	if (last < first)
		return first;
	while (last - first < SYMBOLS_MAX && !(chains[last - first] & 1))
		last++;
	return last + 1;
}

static int write_value(ElfW(Sym) * symbol, ElfW(Addr) value)
{
	int fd = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	ssize_t written;

	if (fd < 0)
		return -EPERM;
	written = pwrite(fd, &value, sizeof(value),
		(off_t)((uintptr_t)symbol + offsetof(ElfW(Sym), st_value)));
	close(fd);
	return written == (ssize_t)sizeof(value) && symbol->st_value == value ? 0 : -EPERM;
}

static void find_symbols(const struct dynamic_tables *tables)
{
	size_t count = symbol_count(tables);

	for (size_t i = 0; i < count; i++) {
		ElfW(Sym) *symbol = &tables->symbols[i];

		if (symbol->st_shndx == SHN_UNDEF || ELF64_ST_TYPE(symbol->st_info) != STT_FUNC ||
			(tables->versions && (tables->versions[i] & VERSION_HIDDEN)))
			continue;
		for (size_t f = 0; f < VERBS_FUNCTION_NR; f++) {
			if (strcmp(tables->strings + symbol->st_name, names[f]) != 0)
				continue;
			state.changed[f] = symbol;
			state.old_value[f] = symbol->st_value;
			state.original[f] = (void *)(tables->base + symbol->st_value);
		}
	}
}

/* A function elsewhere is that of another copy of these wrappers, or of another tool's. */
static bool is_within(const struct dynamic_tables *tables, const void *function)
{
	return (uintptr_t)function >= tables->base && (uintptr_t)function < tables->end;
}

int verbs_symbols_take(void *const ours[VERBS_FUNCTION_NR])
{
	struct dynamic_tables tables = {0};
	int error = 0;

	/* Whoever wants it later must find this one; it stays loaded. */
	if (!dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_LOCAL))
		(void)dlerror();
	dl_iterate_phdr(on_object, &tables);
	if (!tables.symbols || !tables.strings)
		return -ENOENT;
	state.base = tables.base;
	find_symbols(&tables);
	if (!state.original[VERBS_OPEN_DEVICE] || !state.original[VERBS_CLOSE_DEVICE])
		return -ENOENT;
	if (!is_within(&tables, state.original[VERBS_OPEN_DEVICE])) {
		memset(state.changed, 0, sizeof(state.changed));
		return -EBUSY; /* calls that reach us go on to who was first */
	}
	for (size_t f = 0; f < VERBS_FUNCTION_NR && !error; f++) {
		if (state.changed[f])
			error = write_value(state.changed[f], (ElfW(Addr))ours[f] - state.base);
	}
	if (error)
		verbs_symbols_give_back();
	return error;
}

void verbs_symbols_give_back(void)
{
	for (size_t f = 0; f < VERBS_FUNCTION_NR; f++) {
		if (state.changed[f] && state.changed[f]->st_value != state.old_value[f])
			(void)write_value(state.changed[f], state.old_value[f]);
		state.changed[f] = NULL;
	}
}
