/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/rights.h"

#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t bit(unsigned capability)
{
	return UINT64_C(1) << capability;
}

uint64_t rights_kept(void)
{
	return bit(CAP_BPF) | bit(CAP_PERFMON) | bit(CAP_SYS_PTRACE) | bit(CAP_DAC_READ_SEARCH);
}

void rights_keep(void)
{
	struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct data[_LINUX_CAPABILITY_U32S_3];
	uint64_t kept = rights_kept();

	if (prctl(PR_CAPBSET_READ, CAP_BPF, 0, 0, 0) < 0 || syscall(SYS_capget, &header, data) < 0)
		return;
	for (unsigned i = 0; i < _LINUX_CAPABILITY_U32S_3; i++) {
		uint32_t some = (uint32_t)(kept >> 32 * i);

		data[i].effective &= some;
		data[i].permitted &= some;
		data[i].inheritable = 0;
	}
	(void)syscall(SYS_capset, &header, data);
}
