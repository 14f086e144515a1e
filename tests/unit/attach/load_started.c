/* SPDX-License-Identifier: Apache-2.0 */
/* A library that is loaded: its function allocates, as a real one would, and counts its calls. */
#include <stdlib.h>
#include <string.h>

int load_started(void);
int load_refused(void);

__attribute__((visibility("default"))) int load_started(void)
{
	char *text = malloc(100000);

	if (!text)
		return -1;
	memset(text, 1, 100000);
	free(text);
	return 0;
}

__attribute__((visibility("default"))) int load_refused(void)
{
	return -19; /* -ENODEV */
}
