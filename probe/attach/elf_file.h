/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An ELF file that is read piece by piece. Libraries of GB have symbol tables of 100 MB, which as mapped pages
 * would count as our memory; and where a mapped file is cut short, reading it is a signal, not an error.
 * A file is for one thread at a time.
 */
#ifndef SLOWRANK_PROBE_ATTACH_ELF_FILE_H
#define SLOWRANK_PROBE_ATTACH_ELF_FILE_H

#include <gelf.h>
#include <stddef.h>
#include <stdint.h>

struct elf_file {
	int fd;
	Elf *elf; /* for the headers and small sections: what libelf reads, it keeps until the close */
};

/*
 * Returns 0, -ENOENT when the file cannot be opened, -ENOEXEC when it is no ELF file of 64 bits in this
 * machine's byte order, or its headers are cut off.
 */
int elf_file_open(const char *path, struct elf_file *file) __attribute__((warn_unused_result));
void elf_file_close(struct elf_file *file);

/* Reads length bytes at an offset of a section. Returns 0, or -ENOEXEC when they are not there. */
int elf_file_read(const struct elf_file *file, const GElf_Shdr *section, uint64_t offset,
	void *bytes, size_t length) __attribute__((warn_unused_result));

/* The same, as many of them as are there; returns how many. */
size_t elf_file_read_some(const struct elf_file *file, const GElf_Shdr *section, uint64_t offset,
	void *bytes, size_t length);

/* Turns a virtual address into an offset in the file; 0 when no segment holds it. */
uint64_t elf_file_offset(const struct elf_file *file, uint64_t address);

#endif
