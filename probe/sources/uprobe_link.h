/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attaches one program to many places of one file. Since Linux 6.6 one link holds them all
 * (uprobe_multi), so that detaching waits for the kernel once, not once per symbol (seen: 190
 * single uprobes took 20 s to detach, two links 0.1 s). Older kernels get single uprobes. One
 * thread.
 */
#ifndef SLOWRANK_PROBE_SOURCES_UPROBE_LINK_H
#define SLOWRANK_PROBE_SOURCES_UPROBE_LINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpf_program;

enum { UPROBE_ATTACH_TYPE_MULTI = 48 }; /* BPF_TRACE_UPROBE_MULTI, linux/bpf.h of 6.6 */

struct uprobe_place {
	uint64_t file_offset;
	uint64_t cookie;	   /* bpf_get_attach_cookie() */
	uint64_t reference_offset; /* of a static probe's counter; 0 = none */
};

/* What holds the attachment: file descriptors of links or perf events. */
struct uprobe_link {
	size_t fd_count;
	int *fds;
};

/*
 * True when the kernel attaches a program that was loaded for uprobe_multi. Kernels before 6.6 load
 * such a program without a complaint.
 */
bool uprobe_link_multi_works(const struct bpf_program *program);

/*
 * multi: the program was loaded for uprobe_multi. Returns 0 or a negative errno; then nothing
 * stays attached. Processes that map the file later are covered too.
 */
int uprobe_link_attach(struct uprobe_link *link, const struct bpf_program *program, bool multi,
	bool at_return, const char *path, const struct uprobe_place *places, size_t place_count)
	__attribute__((warn_unused_result));
void uprobe_link_detach(struct uprobe_link *link);

#endif
