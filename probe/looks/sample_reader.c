/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/looks/sample_reader.h"

#include <errno.h>
#include <string.h>

void sample_reader_init(struct sample_reader *reader, struct samples *samples)
{
	reader->samples = samples;
	reader->ended = false;
	reader->used = 0;
}

static int take_look(struct samples *samples, const unsigned char *bytes, size_t length)
{
	struct sample_seen seen[STACK_PROFILE_THREADS_MAX];
	struct host_ns time;

	if (length < sizeof(time.value) || (length - sizeof(time.value)) % sizeof(seen[0]) ||
		length - sizeof(time.value) > sizeof(seen))
		return -EBADMSG;
	memcpy(&time.value, bytes, sizeof(time.value));
	length -= sizeof(time.value);
	memcpy(seen, bytes + sizeof(time.value), length);
	return samples_look(samples, time, seen, length / sizeof(seen[0]));
}

static int take_end(struct sample_reader *reader, const unsigned char *bytes)
{
	struct sampler_end *end = &reader->end;

	memcpy(end, bytes, sizeof(*end));
	end->why[sizeof(end->why) - 1] = '\0';
	if (end->cost_ns < 0 || end->result >= STACK_RESULT_NR)
		return -EBADMSG;
	reader->ended = true;
	return 0;
}

static int take_record(struct sample_reader *reader, uint32_t kind, size_t length)
{
	const unsigned char *bytes = reader->buffer + sizeof(struct sampler_head);
	struct sampler_thread thread;
	struct stack_node node;

	switch (kind) {
	case SAMPLER_TEXT:
		return samples_text(reader->samples, (const char *)bytes, length);
	case SAMPLER_NODE:
		if (length != sizeof(node))
			return -EBADMSG;
		memcpy(&node, bytes, sizeof(node));
		return samples_node(reader->samples, &node);
	case SAMPLER_THREAD:
		if (length != sizeof(thread))
			return -EBADMSG;
		memcpy(&thread, bytes, sizeof(thread));
		return samples_thread(reader->samples, thread.index, &thread.info);
	case SAMPLER_LOOK:
		return take_look(reader->samples, bytes, length);
	case SAMPLER_END:
		return length == sizeof(struct sampler_end) ? take_end(reader, bytes) : -EBADMSG;
	default:
		return -EBADMSG;
	}
}

int sample_reader_take(struct sample_reader *reader, const void *bytes, size_t length)
{
	const unsigned char *at = bytes;
	struct sampler_head head;

	while (length && !reader->ended) {
		size_t wanted = sizeof(head), part;
		int error;

		if (reader->used >= sizeof(head)) {
			memcpy(&head, reader->buffer, sizeof(head));
			if (head.length == 0 || head.length > SAMPLER_RECORD_BYTES)
				return -EBADMSG;
			wanted += head.length;
		}
		part = wanted - reader->used < length ? wanted - reader->used : length;
		memcpy(reader->buffer + reader->used, at, part);
		reader->used += part;
		at += part;
		length -= part;
		if (wanted == sizeof(head) || reader->used < wanted)
			continue;
		reader->used = 0;
		error = take_record(reader, head.kind, head.length);
		if (error)
			return error;
	}
	return 0;
}
