/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/memory_view.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void memory_view_init(struct memory_view *view, memory_read_page read_page, void *context)
{
	view->read_page = read_page;
	view->context = context;
	view->reads = 0;
	memory_view_forget(view);
}

void memory_view_forget(struct memory_view *view)
{
	memset(view->kept, 0, sizeof(view->kept));
}

static const uint8_t *page_at(struct memory_view *view, uint64_t address)
{
	size_t slot = address / MEMORY_PAGE_BYTES % MEMORY_VIEW_PAGES;

	if (view->kept[slot] && view->addresses[slot] == address)
		return view->pages[slot];
	view->reads++;
	view->kept[slot] = view->read_page(view->context, address, view->pages[slot]) == 0;
	view->addresses[slot] = address;
	return view->kept[slot] ? view->pages[slot] : NULL;
}

int memory_view_read(struct memory_view *view, uint64_t address, void *bytes, size_t length)
{
	uint8_t *to = bytes;

	if (address + length < address)
		return -EFAULT;
	while (length) {
		size_t at = address % MEMORY_PAGE_BYTES, part = MEMORY_PAGE_BYTES - at;
		const uint8_t *page = page_at(view, address - at);

		if (!page)
			return -EFAULT;
		if (part > length)
			part = length;
		memcpy(to, page + at, part);
		to += part;
		address += part;
		length -= part;
	}
	return 0;
}

int memory_open(pid_t pid)
{
	char path[32];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		return fd;
	return errno == ENOENT || errno == ESRCH ? -ESRCH : -errno;
}

int memory_read_process(void *context, uint64_t address, uint8_t *page)
{
	const int *fd = context;

	if (address > INT64_MAX)
		return -EFAULT;
	return pread(*fd, page, MEMORY_PAGE_BYTES, (off_t)address) == MEMORY_PAGE_BYTES ? 0
											: -EFAULT;
}
