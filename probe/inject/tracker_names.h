/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's names of functions and datatypes, as numbers. Pure; any thread. */
#ifndef SLOWRANK_PROBE_INJECT_TRACKER_NAMES_H
#define SLOWRANK_PROBE_INJECT_TRACKER_NAMES_H

#include <stdint.h>

enum { TRACKER_DATATYPE_UNKNOWN = 255 };

uint8_t tracker_function(const char *name); /* enum ring_function; NULL is fine */
uint8_t tracker_datatype(const char *name); /* ncclDataType_t of nccl.h; NULL is fine */
/* 1 for an unknown one: the length is then in elements. */
uint64_t tracker_datatype_bytes(uint8_t datatype);

#endif
