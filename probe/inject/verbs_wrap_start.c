/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a process starts to count: at once where libibverbs is mapped; where it is not, only in
 * a rank on a host with an RDMA device, for there NCCL or UCX load it later and look its functions
 * up in ways that no preloaded library comes before. Every other process (shells, launchers) is
 * left as it is.
 */
#include <dirent.h>
#include <errno.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

#include "probe/inject/verbs_wrap_internal.h"

static int is_verbs(struct dl_phdr_info *info, size_t size, void *unused)
{
	const char *slash = info->dlpi_name ? strrchr(info->dlpi_name, '/') : NULL;
	const char *name = slash ? slash + 1 : info->dlpi_name ? info->dlpi_name : "";

	(void)size;
	(void)unused;
	return strncmp(name, "libibverbs.so", strlen("libibverbs.so")) == 0;
}

static bool has_device(void)
{
	DIR *directory = opendir("/sys/class/infiniband");
	struct dirent *entry;
	bool found = false;

	while (directory && !found && (entry = readdir(directory)))
		found = entry->d_name[0] != '.';
	if (directory)
		closedir(directory);
	return found;
}

/* What launchers tell each rank, and nobody else (docs/rdma.md). */
static bool is_rank(void)
{
	static const char *const variables[] = {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK",
		"MV2_COMM_WORLD_RANK", "SLURM_PROCID", "RANK"};

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
		if (getenv(variables[i]))
			return true;
	}
	return false;
}

int verbs_wrap_start_where_used(bool on_device)
{
	const char *wish = getenv("SLOWRANK_VERBS");
	int kept = errno, error = -ENOENT;

	if (wish && strcmp(wish, "off") == 0)
		error = -ECANCELED;
	else if (dl_iterate_phdr(is_verbs, NULL) || ((on_device || is_rank()) && has_device()))
		error = verbs_wrap_start();
	errno = kept;
	return error;
}
