/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ways into the library other than NCCL: the driver's injection (CUDA_INJECTION64_PATH), and a
 * loader that puts the library into a process that already runs.
 */
#include <errno.h>

#include "probe/inject/process.h"
#include "probe/inject/verbs_wrap.h"

#define ENTRY_EXPORT __attribute__((visibility("default")))

ENTRY_EXPORT int InitializeInjection(void);
ENTRY_EXPORT int slowrank_inject_start(void);

/* Called by cuInit(); 1 = well, which the driver is always told: it would print otherwise. */
int InitializeInjection(void)
{
	/* NCCL opens the devices later, where there are any. */
	(void)!verbs_wrap_start_where_used(true);
	(void)process_start(0);
	return 1;
}

/* 0, or a negative errno: the library is in the process but has no ring. */
int slowrank_inject_start(void)
{
	return process_start(0) ? 0 : -ENODEV;
}
