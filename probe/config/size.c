/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/config/size.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int size_parse(const char *text, uint64_t *bytes)
{
	static const char units[] = "KMGT";
	const char *unit;
	char *end;
	double value;

	if (*text < '0' || *text > '9')
		return -EINVAL;
	errno = 0;
	value = strtod(text, &end);
	unit = *end ? strchr(units, *end >= 'a' ? *end - 'a' + 'A' : *end) : NULL;
	if (unit) {
		for (const char *step = units; step <= unit; step++)
			value *= 1024;
		end++;
	}
	if (errno || *end || strspn(text, "0123456789.") != (size_t)(end - text) - (unit != NULL) ||
		!(value < 9e18))
		return -EINVAL;
	*bytes = (uint64_t)value;
	return 0;
}

int record_max_parse(const char *text, uint64_t *bytes)
{
	uint64_t parsed;

	if (size_parse(text, &parsed) || (parsed && parsed < RECORD_BYTES_LEAST))
		return -EINVAL;
	*bytes = parsed;
	return 0;
}
