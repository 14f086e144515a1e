/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/elf_symbols.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum {
	SYMBOLS_AT_ONCE = 256,
	CHAIN_AT_ONCE = 16,
	/* Longer than any chain of a table that a linker made; where it is damaged, the loop ends. */
	CHAIN_MAX = 65536,
	WINDOW_BYTES = 4096,
	DONE = 1, /* the caller has what it wants */
};

struct table {
	const struct elf_file *file;
	GElf_Shdr symbols, names, hash; /* hash: its type is SHT_NULL where there is none */
};

static bool is_wanted(const struct elf_symbol_search *search, const GElf_Sym *symbol)
{
	return symbol->st_shndx != SHN_UNDEF && search->types & 1u << GELF_ST_TYPE(symbol->st_info);
}

/* Tells of one symbol, if it is what is looked for. Returns 0, DONE, or -ENOEXEC. */
static int try_symbol(const struct table *table, const struct elf_symbol_search *search,
	size_t wanted, uint32_t index)
{
	size_t length = strlen(search->names[wanted]) + 1;
	char name[ELF_SYMBOL_NAME_MAX + 1];
	GElf_Sym symbol;
	int error = elf_file_read(table->file, &table->symbols, (uint64_t)index * sizeof(symbol),
		&symbol, sizeof(symbol));

	if (error)
		return error;
	if (!is_wanted(search, &symbol) ||
		elf_file_read_some(table->file, &table->names, symbol.st_name, name, length) <
			length ||
		memcmp(name, search->names[wanted], length) != 0)
		return 0;
	return search->found(search->context, wanted, &symbol) ? 0 : DONE;
}

/* The layout is told by the GNU C library's dl-lookup.c: four words, a filter, buckets, chains. */
struct gnu_hash {
	uint32_t bucket_count, first_symbol, filter_words, filter_shift;
};

static uint32_t gnu_hash_of(const char *name)
{
	uint32_t hash = 5381;

	for (; *name; name++)
		hash = hash * 33 + (unsigned char)*name;
	return hash;
}

/* Those of one bucket, in their order in the table; the last one's hash has its low bit set. */
static int follow_gnu_chain(const struct table *table, const struct elf_symbol_search *search,
	size_t wanted, uint64_t chains_at, uint32_t first_symbol, uint32_t index)
{
	uint32_t hash = gnu_hash_of(search->names[wanted]), chain[CHAIN_AT_ONCE];

	for (uint32_t followed = 0; followed < CHAIN_MAX; followed++, index++) {
		uint32_t at = followed % CHAIN_AT_ONCE;
		uint64_t offset = chains_at + sizeof(chain[0]) * (uint64_t)(index - first_symbol);

		if (at == 0) {
			memset(chain, 0, sizeof(chain));
			if (elf_file_read_some(table->file, &table->hash, offset, chain,
				    sizeof(chain)) < sizeof(chain[0]))
				return -ENOEXEC;
		}
		if ((chain[at] | 1) == (hash | 1)) {
			int error = try_symbol(table, search, wanted, index);

			if (error)
				return error;
		}
		if (chain[at] & 1)
			return 0;
	}
	return -ENOEXEC;
}

static int find_by_gnu_hash(
	const struct table *table, const struct elf_symbol_search *search, size_t wanted)
{
	uint32_t hash = gnu_hash_of(search->names[wanted]), index;
	struct gnu_hash header;
	uint64_t filter, bits, buckets_at;
	int error = elf_file_read(table->file, &table->hash, 0, &header, sizeof(header));

	if (error)
		return error;
	if (header.bucket_count == 0 || header.filter_words == 0 || header.filter_shift > 31)
		return -ENOEXEC;
	error = elf_file_read(table->file, &table->hash,
		sizeof(header) + sizeof(filter) * (uint64_t)(hash / 64 % header.filter_words),
		&filter, sizeof(filter));
	bits = UINT64_C(1) << hash % 64 | UINT64_C(1) << (hash >> header.filter_shift) % 64;
	if (error || (filter & bits) != bits)
		return error;
	buckets_at = sizeof(header) + sizeof(filter) * (uint64_t)header.filter_words;
	error = elf_file_read(table->file, &table->hash,
		buckets_at + sizeof(index) * (uint64_t)(hash % header.bucket_count), &index,
		sizeof(index));
	if (error || index == 0)
		return error;
	if (index < header.first_symbol)
		return -ENOEXEC;
	return follow_gnu_chain(table, search, wanted,
		buckets_at + sizeof(index) * (uint64_t)header.bucket_count, header.first_symbol,
		index);
}

/* The layout and the function are told by the System V ABI, "Hash Table". */
static uint32_t sysv_hash_of(const char *name)
{
	uint32_t hash = 0;

	for (; *name; name++) {
		hash = (hash << 4) + (unsigned char)*name;
		hash = (hash ^ (hash >> 24 & 0xf0)) & 0x0fffffff;
	}
	return hash;
}

static int find_by_sysv_hash(
	const struct table *table, const struct elf_symbol_search *search, size_t wanted)
{
	uint32_t counts[2], index; /* of buckets, of chain entries */
	int error = elf_file_read(table->file, &table->hash, 0, counts, sizeof(counts));
	uint64_t at;

	if (error)
		return error;
	if (counts[0] == 0)
		return -ENOEXEC;
	at = sysv_hash_of(search->names[wanted]) % counts[0];
	for (uint32_t followed = 0; followed < CHAIN_MAX; followed++) {
		error = elf_file_read(table->file, &table->hash,
			sizeof(counts) + sizeof(index) * at, &index, sizeof(index));
		if (error || index == STN_UNDEF)
			return error;
		error = try_symbol(table, search, wanted, index);
		if (error)
			return error;
		at = (uint64_t)counts[0] + index;
	}
	return -ENOEXEC;
}

/* A part of the names: linkers put them in the symbols' order, mostly. */
struct window {
	uint64_t offset;
	size_t length;
	char bytes[WINDOW_BYTES];
};

/* The name at an offset; NULL when it is longer than those that are looked for. */
static const char *name_at(const struct table *table, struct window *window, uint64_t offset)
{
	if (offset < window->offset ||
		offset + ELF_SYMBOL_NAME_MAX + 1 > window->offset + window->length) {
		window->offset = offset;
		window->length = elf_file_read_some(
			table->file, &table->names, offset, window->bytes, sizeof(window->bytes));
	}
	offset -= window->offset;
	return memchr(window->bytes + offset, '\0', window->length - offset)
		       ? window->bytes + offset
		       : NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(**(const char *const *const *)a, **(const char *const *const *)b);
}

/* Goes through all symbols; sorted: the names that are looked for. */
static int visit_all(const struct table *table, const struct elf_symbol_search *search,
	const char *const **sorted)
{
	uint64_t count = table->symbols.sh_size / sizeof(GElf_Sym);
	GElf_Sym symbols[SYMBOLS_AT_ONCE];
	struct window window = {0};

	for (uint64_t i = 0; i < count; i++) {
		const GElf_Sym *symbol = &symbols[i % SYMBOLS_AT_ONCE];
		uint64_t left = count - i;

		if (i % SYMBOLS_AT_ONCE == 0 &&
			elf_file_read(table->file, &table->symbols, i * sizeof(*symbol), symbols,
				sizeof(*symbol) *
					(left < SYMBOLS_AT_ONCE ? left : SYMBOLS_AT_ONCE)) < 0)
			return -ENOEXEC;
		if (!is_wanted(search, symbol))
			continue;
		const char *name = name_at(table, &window, symbol->st_name);
		const char *const *const *place =
			name ? bsearch(&(const char *const *){&name}, sorted, search->count,
				       sizeof(*sorted), compare_names)
			     : NULL;

		if (place &&
			!search->found(search->context, (size_t)(*place - search->names), symbol))
			return DONE;
	}
	return 0;
}

static int find_by_going_through(const struct table *table, const struct elf_symbol_search *search)
{
	const char *const **sorted = calloc(search->count, sizeof(*sorted));
	int result;

	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < search->count; i++)
		sorted[i] = &search->names[i];
	qsort(sorted, search->count, sizeof(*sorted), compare_names);
	result = visit_all(table, search, sorted);
	free(sorted);
	return result;
}

static int find_in_table(const struct table *table, const struct elf_symbol_search *search)
{
	int result = 0;

	if (table->hash.sh_type == SHT_NULL)
		return find_by_going_through(table, search);
	for (size_t i = 0; i < search->count && result == 0; i++) {
		assert(strlen(search->names[i]) <= ELF_SYMBOL_NAME_MAX);
		result = table->hash.sh_type == SHT_GNU_HASH ? find_by_gnu_hash(table, search, i)
							     : find_by_sysv_hash(table, search, i);
	}
	return result;
}

/* The table of a section of symbols, with the better one of its hash tables. */
static bool make_table(const struct elf_file *file, Elf_Scn *section, struct table *table)
{
	GElf_Shdr header;
	Elf_Scn *names;

	*table = (struct table){.file = file};
	if (!gelf_getshdr(section, &table->symbols) ||
		table->symbols.sh_entsize != sizeof(GElf_Sym))
		return false;
	names = elf_getscn(file->elf, table->symbols.sh_link);
	if (!names || !gelf_getshdr(names, &table->names) || table->names.sh_type != SHT_STRTAB)
		return false;
	for (Elf_Scn *other = elf_nextscn(file->elf, NULL); other;
		other = elf_nextscn(file->elf, other)) {
		if (!gelf_getshdr(other, &header) || header.sh_link != elf_ndxscn(section))
			continue;
		/* Some machines have System V tables of longer entries. */
		if (header.sh_type == SHT_GNU_HASH ||
			(header.sh_type == SHT_HASH && header.sh_entsize == sizeof(uint32_t) &&
				table->hash.sh_type == SHT_NULL))
			table->hash = header;
	}
	return true;
}

int elf_symbols_find(const struct elf_file *file, const struct elf_symbol_search *search)
{
	static const unsigned types[] = {SHT_DYNSYM, SHT_SYMTAB};
	int result = 0;

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		for (Elf_Scn *section = elf_nextscn(file->elf, NULL); section && result == 0;
			section = elf_nextscn(file->elf, section)) {
			struct table table;
			GElf_Shdr header;

			if (gelf_getshdr(section, &header) && header.sh_type == types[i] &&
				make_table(file, section, &table))
				result = find_in_table(&table, search);
		}
	}
	return result < 0 ? result : 0;
}
