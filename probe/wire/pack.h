/* SPDX-License-Identifier: Apache-2.0 */
/* Packing helpers on top of msgpack-c, private to probe/wire. One thread per packer. */
#ifndef SLOWRANK_PROBE_WIRE_PACK_H
#define SLOWRANK_PROBE_WIRE_PACK_H

#include <msgpack/pack.h>

#include "probe/wire/encode.h"

/* Collects the first error, so that callers check once, in wire_pack_finish(). */
struct wire_packer {
	msgpack_packer packer;
	struct wire_buffer *buffer;
	int error;
};

void wire_pack_start(struct wire_packer *packer, struct wire_buffer *buffer);
/* Returns 0, -ENOMEM or -EMSGSIZE; after a failure the buffer is empty. */
int wire_pack_finish(struct wire_packer *packer) __attribute__((warn_unused_result));

void wire_pack_array(struct wire_packer *packer, size_t count);
void wire_pack_unsigned(struct wire_packer *packer, uint64_t value);
void wire_pack_signed(struct wire_packer *packer, int64_t value);
/* An exact time or offset in ns, limited to what the decoder takes. */
void wire_pack_time(struct wire_packer *packer, int64_t time_ns);
/* A string in an array of capacity > 0 bytes; without a NUL, it is cut to capacity - 1. */
void wire_pack_string(struct wire_packer *packer, const char *text, size_t capacity);

/* An absolute time to the nearest quantum, limited to 0..WIRE_QUANTA_MAX; never decreasing in time_ns. */
int64_t wire_quanta(int64_t time_ns);

#endif
