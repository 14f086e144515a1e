/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/decimal.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>

/* 1e12 keeps every magnitude times 10^6 inside an int64_t. */
static const double magnitude_max = 1e12;

const char *decimal_format(double value, unsigned decimals, char text[DECIMAL_LENGTH])
{
	static const int64_t powers[DECIMAL_DIGITS_MAX + 1] = {
		1, 10, 100, 1000, 10000, 100000, 1000000};

	assert(decimals <= DECIMAL_DIGITS_MAX && isfinite(value));
	double magnitude = fmin(fabs(value), magnitude_max);
	int64_t scaled = (int64_t)round(magnitude * (double)powers[decimals]);
	const char *sign = value < 0 && scaled != 0 ? "-" : "";

	if (decimals == 0)
		snprintf(text, DECIMAL_LENGTH, "%s%" PRId64, sign, scaled);
	else
		snprintf(text, DECIMAL_LENGTH, "%s%" PRId64 ".%0*" PRId64, sign,
			scaled / powers[decimals], (int)decimals, scaled % powers[decimals]);
	return text;
}
