/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers as text, without the locale: always a point, never a thousands mark. Pure.
 */
#ifndef SLOWRANK_COORDINATOR_REPORT_DECIMAL_H
#define SLOWRANK_COORDINATOR_REPORT_DECIMAL_H

enum { DECIMAL_LENGTH = 48, DECIMAL_DIGITS_MAX = 6 };

/*
 * Writes a finite value rounded half away from zero to that many decimals (0 to
 * DECIMAL_DIGITS_MAX), e.g. "18.20". Magnitudes above 1e12 are cut to it. Never "-0".
 * Returns text.
 */
const char *decimal_format(double value, unsigned decimals, char text[DECIMAL_LENGTH]);

#endif
