/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "probe/wire/format.h"
#include "probe/wire/pack.h"
#include "probe/wire/text.h"

enum { BUFFER_START_BYTES = 4096 };

void wire_buffer_fini(struct wire_buffer *buffer)
{
	if (!buffer)
		return;
	free(buffer->bytes);
	*buffer = (struct wire_buffer){0};
}

static int buffer_reserve(struct wire_buffer *buffer, size_t length)
{
	size_t capacity = buffer->capacity ? buffer->capacity : BUFFER_START_BYTES;
	uint8_t *bytes;

	while (capacity < length)
		capacity *= 2;
	if (capacity == buffer->capacity)
		return 0;
	bytes = realloc(buffer->bytes, capacity);
	if (!bytes)
		return -ENOMEM;
	buffer->bytes = bytes;
	buffer->capacity = capacity;
	return 0;
}

static int buffer_append(void *context, const char *bytes, size_t length)
{
	struct wire_packer *packer = context;
	struct wire_buffer *buffer = packer->buffer;

	if (packer->error)
		return -1;
	if (length > WIRE_MESSAGE_LENGTH_MAX - buffer->length)
		packer->error = -EMSGSIZE;
	else
		packer->error = buffer_reserve(buffer, buffer->length + length);
	if (packer->error)
		return -1;
	memcpy(buffer->bytes + buffer->length, bytes, length);
	buffer->length += length;
	return 0;
}

void wire_pack_start(struct wire_packer *packer, struct wire_buffer *buffer)
{
	buffer->length = 0;
	packer->buffer = buffer;
	packer->error = 0;
	msgpack_packer_init(&packer->packer, packer, buffer_append);
}

int wire_pack_finish(struct wire_packer *packer)
{
	if (packer->error)
		packer->buffer->length = 0;
	return packer->error;
}

void wire_pack_array(struct wire_packer *packer, size_t count)
{
	msgpack_pack_array(&packer->packer, count);
}

void wire_pack_unsigned(struct wire_packer *packer, uint64_t value)
{
	msgpack_pack_uint64(&packer->packer, value);
}

void wire_pack_signed(struct wire_packer *packer, int64_t value)
{
	msgpack_pack_int64(&packer->packer, value);
}

void wire_pack_time(struct wire_packer *packer, int64_t time_ns)
{
	if (time_ns < 0)
		time_ns = 0;
	if (time_ns > WIRE_TIME_NS_MAX)
		time_ns = WIRE_TIME_NS_MAX;
	msgpack_pack_int64(&packer->packer, time_ns);
}

void wire_pack_string(struct wire_packer *packer, const char *text, size_t capacity)
{
	char clean[WIRE_DETAIL_LENGTH_MAX + 1];
	size_t length_max = (capacity < sizeof(clean) ? capacity : sizeof(clean)) - 1;
	size_t length = strnlen(text, length_max);

	memcpy(clean, text, length);
	wire_text_clean(clean, length);
	msgpack_pack_str(&packer->packer, length);
	msgpack_pack_str_body(&packer->packer, clean, length);
}

int64_t wire_quanta(int64_t time_ns)
{
	if (time_ns < 0)
		return 0;
	if (time_ns > WIRE_TIME_NS_MAX)
		time_ns = WIRE_TIME_NS_MAX;
	/* WIRE_TIME_NS_MAX is no multiple of the quantum: keep the rounded one below the limit. */
	time_ns = (time_ns + WIRE_TIME_QUANTUM_NS / 2) / WIRE_TIME_QUANTUM_NS;
	return time_ns < WIRE_QUANTA_MAX ? time_ns : WIRE_QUANTA_MAX;
}
