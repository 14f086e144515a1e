/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A job as one page for a browser: its incidents, and what led to them. assets/ with the data in it as JSON. Names are the
 * job's choice; they reach the page as text alone. One thread.
 */
#ifndef SLOWRANK_COORDINATOR_PAGE_PAGE_H
#define SLOWRANK_COORDINATOR_PAGE_PAGE_H

#include <stdio.h>

#include "coordinator/page/parts.h"
#include "coordinator/report/model.h"

/*
 * What the page shows, in two parts: begin() asks the model, and is quick; write() needs it no more. Parts of the trail are the
 * caller's to make: see parts_take_rows().
 */
struct page_data {
	char *head;
	size_t head_length;
	struct parts
		parts; /* its trail is the caller's, NULL: the course of the job is not known */
};

/* version: what a reader that has it already asks after; run: see parts_begin(). Returns 0 or -ENOMEM. */
int page_data_begin(struct page_data *data, const struct report_model *model,
	const struct trail *trail, uint64_t version, const char *run)
	__attribute__((warn_unused_result));
/* Writes JSON: slowrank.page/1; embedded: with all parts in it. Returns 0 or -ENOMEM; look at ferror(), too. */
int page_data_write(const struct page_data *data, bool embedded, FILE *out)
	__attribute__((warn_unused_result));
void page_data_fini(struct page_data *data);

/* The page without data, which asks the server that it comes from. Returns 0, or why a write failed. */
int page_write_shell(FILE *out) __attribute__((warn_unused_result));

/* trail NULL: the course of the job is not known. Returns 0, -ENOMEM, or why a write failed. */
int page_write(const struct report_model *model, const struct trail *trail, FILE *out)
	__attribute__((warn_unused_result));

#endif
