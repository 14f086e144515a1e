/* SPDX-License-Identifier: Apache-2.0 */
/* The probe's side of a sampler's pipe: takes records as they come into samples, and believes none of them. One thread. */
#ifndef SLOWRANK_PROBE_LOOKS_SAMPLE_READER_H
#define SLOWRANK_PROBE_LOOKS_SAMPLE_READER_H

#include "probe/looks/sampler.h"

struct sample_reader {
	struct samples *samples; /* the caller's */
	bool ended;		 /* SAMPLER_END came: what it says is in end */
	struct sampler_end end;
	size_t used;
	unsigned char buffer[sizeof(struct sampler_head) + SAMPLER_RECORD_BYTES];
};

void sample_reader_init(struct sample_reader *reader, struct samples *samples);

/* The next bytes of the pipe. Returns 0, -EBADMSG when they cannot be a sampler's, or -ENOMEM. */
int sample_reader_take(struct sample_reader *reader, const void *bytes, size_t length)
	__attribute__((warn_unused_result));

#endif
