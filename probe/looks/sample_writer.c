/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/looks/sample_writer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "analysis/base/hash.h"
#include "probe/looks/sampler.h"

enum {
	/* Powers of two, more than there are names and nodes; 0 is a free place. */
	NAME_PLACES = SAMPLES_TEXT_MAX, /* each takes two bytes of it at least */
	NODE_PLACES = 2 * SAMPLES_NODES_MAX,
};

int sample_writer_init(struct sample_writer *writer, int fd)
{
	writer->fd = fd;
	writer->text = calloc(SAMPLES_TEXT_MAX, 1);
	writer->nodes = calloc(SAMPLES_NODES_MAX, sizeof(*writer->nodes));
	writer->name_places = calloc(NAME_PLACES, sizeof(*writer->name_places));
	writer->node_places = calloc(NODE_PLACES, sizeof(*writer->node_places));
	writer->text_length = 1;
	return writer->text && writer->nodes && writer->name_places && writer->node_places
		       ? 0
		       : -ENOMEM;
}

static void flush(struct sample_writer *writer)
{
	for (size_t done = 0; done < writer->used && !writer->failed;) {
		ssize_t put = write(writer->fd, writer->buffer + done, writer->used - done);

		if (put > 0)
			done += (size_t)put;
		else if (put == 0 || errno != EINTR)
			writer->failed = true;
	}
	writer->used = 0;
}

static void put(struct sample_writer *writer, const void *bytes, size_t length)
{
	if (length > sizeof(writer->buffer) - writer->used)
		flush(writer);
	memcpy(writer->buffer + writer->used, bytes, length);
	writer->used += length;
}

static void put_record(
	struct sample_writer *writer, enum sampler_record kind, const void *bytes, size_t length)
{
	const struct sampler_head head = {(uint32_t)kind, (uint32_t)length};

	put(writer, &head, sizeof(head));
	put(writer, bytes, length);
}

/* Where a name begins in the text. False: there is no room for it. */
static bool put_name(struct sample_writer *writer, const char *name, uint32_t *at)
{
	char cut[STACK_PROFILE_NAME_MAX + 1];
	size_t length = strnlen(name, STACK_PROFILE_NAME_MAX), place;

	memcpy(cut, name, length);
	cut[length] = '\0';
	*at = 0;
	if (!length)
		return true;
	place = hash_bytes(hash_bytes_begin(), cut, length) >> 20 & (NAME_PLACES - 1);
	while ((*at = writer->name_places[place])) {
		if (strcmp(writer->text + *at, cut) == 0)
			return true;
		place = (place + 1) & (NAME_PLACES - 1);
	}
	if (length + 1 > SAMPLES_TEXT_MAX - writer->text_length)
		return false;
	*at = writer->name_places[place] = writer->text_length;
	memcpy(writer->text + *at, cut, length + 1);
	writer->text_length += (uint32_t)length + 1;
	put_record(writer, SAMPLER_TEXT, cut, length + 1);
	return true;
}

uint32_t sample_writer_node(struct sample_writer *writer, uint32_t parent, uint8_t kind,
	const char *function, const char *file, int32_t line)
{
	struct stack_node node;
	size_t place;
	uint32_t at;

	memset(&node, 0, sizeof(node)); /* compared as bytes */
	node.parent = parent;
	node.line = line > 0 ? line : 0;
	node.kind = kind;
	if (!put_name(writer, function, &node.function) || !put_name(writer, file, &node.file))
		return STACK_NODE_NONE;
	place = hash_bytes(hash_bytes_begin(), &node, sizeof(node)) >> 20 & (NODE_PLACES - 1);
	while ((at = writer->node_places[place])) {
		if (memcmp(&writer->nodes[at - 1], &node, sizeof(node)) == 0)
			return at - 1;
		place = (place + 1) & (NODE_PLACES - 1);
	}
	if (writer->node_count == SAMPLES_NODES_MAX)
		return STACK_NODE_NONE;
	writer->nodes[writer->node_count++] = node;
	writer->node_places[place] = writer->node_count;
	put_record(writer, SAMPLER_NODE, &node, sizeof(node));
	return writer->node_count - 1;
}

void sample_writer_thread(
	struct sample_writer *writer, uint32_t index, const struct stack_thread_info *thread)
{
	struct sampler_thread record;

	memset(&record, 0, sizeof(record));
	record.index = index;
	record.info = *thread;
	put_record(writer, SAMPLER_THREAD, &record, sizeof(record));
}

void sample_writer_look(
	struct sample_writer *writer, int64_t time_ns, const struct sample_seen *seen, size_t count)
{
	const struct sampler_head head = {
		SAMPLER_LOOK, (uint32_t)(sizeof(time_ns) + count * sizeof(*seen))};

	put(writer, &head, sizeof(head));
	put(writer, &time_ns, sizeof(time_ns));
	put(writer, seen, count * sizeof(*seen));
	flush(writer);
}

void sample_writer_end(struct sample_writer *writer, const struct sampler_end *end)
{
	put_record(writer, SAMPLER_END, end, sizeof(*end));
	flush(writer);
}
