/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/host_id.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/base/hash.h"

uint64_t host_id(void)
{
	char text[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (file) {
		if (!fgets(text, sizeof(text), file))
			text[0] = '\0';
		fclose(file);
	}
	if (!text[0])
		gethostname(text, sizeof(text) - 1);
	return hash_bytes(hash_bytes_begin(), text, strlen(text));
}
