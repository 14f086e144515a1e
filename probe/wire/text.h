/* SPDX-License-Identifier: Apache-2.0 */
/* What may be in a string on the wire: UTF-8 without control characters. Private to probe/wire. */
#ifndef SLOWRANK_PROBE_WIRE_TEXT_H
#define SLOWRANK_PROBE_WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

bool wire_text_valid(const char *text, size_t length);
/* Replaces every byte that makes the text invalid by '?'. */
void wire_text_clean(char *text, size_t length);

#endif
