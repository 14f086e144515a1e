/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

static const uint16_t byte_order = 1;

static bool is_readable(Elf *elf)
{
	unsigned char native = *(const uint8_t *)&byte_order ? ELFDATA2LSB : ELFDATA2MSB;
	GElf_Ehdr header;

	if (!elf || elf_kind(elf) != ELF_K_ELF || gelf_getclass(elf) != ELFCLASS64 ||
		!gelf_getehdr(elf, &header) || header.e_ident[EI_DATA] != native)
		return false;
	return header.e_shoff == 0 || elf_getscn(elf, 0);
}

int elf_file_open(const char *path, struct elf_file *file)
{
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	Elf *elf;

	if (fd < 0)
		return -ENOENT;
	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	if (!is_readable(elf)) {
		elf_end(elf);
		close(fd);
		return -ENOEXEC;
	}
	*file = (struct elf_file){fd, elf};
	return 0;
}

void elf_file_close(struct elf_file *file)
{
	elf_end(file->elf);
	close(file->fd);
}

size_t elf_file_read_some(const struct elf_file *file, const GElf_Shdr *section, uint64_t offset,
	void *bytes, size_t length)
{
	size_t done = 0;

	if (section->sh_type == SHT_NOBITS || offset >= section->sh_size)
		return 0;
	if (length > section->sh_size - offset)
		length = (size_t)(section->sh_size - offset);
	while (done < length) {
		ssize_t got = pread(file->fd, (char *)bytes + done, length - done,
			(off_t)(section->sh_offset + offset + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

int elf_file_read(const struct elf_file *file, const GElf_Shdr *section, uint64_t offset,
	void *bytes, size_t length)
{
	return elf_file_read_some(file, section, offset, bytes, length) == length ? 0 : -ENOEXEC;
}

uint64_t elf_file_offset(const struct elf_file *file, uint64_t address)
{
	GElf_Phdr segment;
	size_t count;

	if (elf_getphdrnum(file->elf, &count) != 0)
		return 0;
	for (size_t i = 0; i < count; i++) {
		if (gelf_getphdr(file->elf, (int)i, &segment) && segment.p_type == PT_LOAD &&
			address >= segment.p_vaddr && address - segment.p_vaddr < segment.p_filesz)
			return address - segment.p_vaddr + segment.p_offset;
	}
	return 0;
}
