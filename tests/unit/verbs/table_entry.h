/* SPDX-License-Identifier: Apache-2.0 */
/* A queue pair's entry in the table of the library that wraps. After <cmocka.h>; the test's thread. */
#ifndef SLOWRANK_TESTS_TABLE_ENTRY_H
#define SLOWRANK_TESTS_TABLE_ENTRY_H

#include "probe/inject/verbs_wrap.h"
#include "probe/ring/verbs_table.h"

/* The newest one that lives under this number; the test fails without one. */
static const struct verbs_queue_pair *entry_of(uint32_t number)
{
	const struct verbs_table *table = verbs_wrap_table();

	assert_non_null(table);
	for (size_t i = VERBS_QUEUE_PAIRS_MAX; i-- > 0;) {
		if (table->queue_pairs[i].state == VERBS_QUEUE_PAIR_LIVE &&
			table->queue_pairs[i].number == number)
			return &table->queue_pairs[i];
	}
	fail_msg("queue pair %u is not in the table", number);
	return NULL;
}

#endif
