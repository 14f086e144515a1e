/* SPDX-License-Identifier: Apache-2.0 */
#include "analysis/join/stream.h"

#include <stdlib.h>

void stream_batch_unref(struct stream_batch *batch)
{
	if (--batch->references > 0)
		return;
	if (batch->counted_in)
		*batch->counted_in -= batch->length_bytes;
	free(batch);
}

void stream_fini(struct rank_stream *rank)
{
	while (rank->entry_count)
		stream_pop(rank);
	free(rank->entries);
	for (size_t c = 0; c < rank->communicators.count; c++)
		free(rank->communicators.items[c].history);
	free(rank->communicators.items);
	for (size_t c = 0; c < rank->channels.count; c++)
		free(rank->channels.items[c].history);
	free(rank->channels.items);
}

size_t stream_entry_bytes(const struct packed_step *entry)
{
	return sizeof(*entry) +
	       entry->part_count * (sizeof(struct packed_times) + sizeof(struct packed_call));
}

void stream_pop(struct rank_stream *rank)
{
	const struct stream_entry *head = stream_at(rank, 0);

	rank->entry_bytes -= stream_entry_bytes(head->entry);
	if (head->entry->end.value > rank->done.value)
		rank->done = head->entry->end;
	stream_batch_unref(head->batch);
	rank->entry_head = (rank->entry_head + 1) & (rank->entry_capacity - 1);
	rank->entry_count--;
	rank->part_head = 0;
}

const struct rank_communicator *communicator_list_find(
	const struct communicator_list *list, uint64_t id)
{
	for (size_t i = 0; i < list->count; i++) {
		if (list->items[i].id == id)
			return &list->items[i];
	}
	return NULL;
}

struct rank_communicator *communicator_list_add(
	struct communicator_list *list, uint64_t id, size_t count_max)
{
	const struct rank_communicator *known = communicator_list_find(list, id);

	list->last = known ? (size_t)(known - list->items) : list->count;
	if (known)
		return &list->items[list->last];
	if (list->count == count_max)
		return NULL;
	if (array_grow((void **)&list->items, &list->capacity, list->count + 1,
		    sizeof(*list->items)) < 0)
		return NULL;
	list->items[list->count] =
		(struct rank_communicator){.id = id, .own_index = STEP_RANK_UNKNOWN};
	return &list->items[list->count++];
}
