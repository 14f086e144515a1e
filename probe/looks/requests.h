/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The latest requests that were acted on: a directive is repeated in each reply until it is answered, and is followed once. One
 * thread.
 */
#ifndef SLOWRANK_PROBE_LOOKS_REQUESTS_H
#define SLOWRANK_PROBE_LOOKS_REQUESTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { LOOK_REQUESTS_KEPT = 64 }; /* the coordinator has fewer under way */

struct look_requests {
	uint32_t numbers[LOOK_REQUESTS_KEPT]; /* a ring */
	size_t count;
};

static inline bool look_requests_know(const struct look_requests *requests, uint32_t number)
{
	for (size_t i = 0; i < LOOK_REQUESTS_KEPT && i < requests->count; i++) {
		if (requests->numbers[i] == number)
			return true;
	}
	return false;
}

static inline void look_requests_add(struct look_requests *requests, uint32_t number)
{
	requests->numbers[requests->count++ % LOOK_REQUESTS_KEPT] = number;
}

#endif
