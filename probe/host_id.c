/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/host_id.h"

#include <stdio.h>
#include <unistd.h>

uint64_t host_id(void)
{
	uint64_t hash = 14695981039346656037u; /* FNV-1a, 64 bits */
	char text[64] = "";
	FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

	if (file) {
		if (!fgets(text, sizeof(text), file))
			text[0] = '\0';
		fclose(file);
	}
	if (!text[0])
		gethostname(text, sizeof(text) - 1);
	for (const char *c = text; *c; c++)
		hash = (hash ^ (uint8_t)*c) * 1099511628211u;
	return hash;
}
