/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes as what a sampler tells its probe, in pieces, with steps that pass meanwhile: it is refused, or becomes a profile
 * that is valid and can be sent.
 */
#include <string.h>

#include "probe/looks/sample_reader.h"
#include "probe/wire/encode.h"
#include "tests/fuzz/fuzz.h"

enum { PIECE_BYTES = 61, STEP_NS = 1000 };

static void check_profile(struct samples *samples, const struct sample_reader *reader)
{
	const struct stack_profile fields = {
		.rank = 1, .result = reader->ended ? reader->end.result : STACK_RESULT_FAILED};
	struct stack_profile *profile = samples_finish(samples, &fields, true);
	struct message_batch batch = {.stack_profile_count = 1, .stack_profiles = &profile};
	struct wire_buffer buffer = {0};

	fuzz_require(profile && stack_profile_is_valid(profile));
	fuzz_require(wire_encode_batch(&batch, &buffer) == 0);
	wire_buffer_fini(&buffer);
	stack_profile_destroy(profile);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct samples *samples = samples_create();
	struct sample_reader reader;
	int64_t at_ns = 1;
	int error = 0;

	fuzz_require(samples != NULL);
	sample_reader_init(&reader, samples);
	for (size_t at = 0; at < length && !error; at += PIECE_BYTES) {
		size_t piece = length - at < PIECE_BYTES ? length - at : PIECE_BYTES;
		struct collective_part part = {.communicator_id = 1,
			.operation = OPERATION_BARRIER,
			.arrival = {at_ns + STEP_NS / 2},
			.departure = {at_ns + STEP_NS / 2 + 1}};
		const struct step_entry step = {.start = {at_ns},
			.end = {at_ns + STEP_NS},
			.part_count = 1,
			.parts = &part};

		error = sample_reader_take(&reader, bytes + at, piece);
		fuzz_require(samples_step(samples, &step) == 0);
		at_ns += STEP_NS;
	}
	check_profile(samples, &reader);
	samples_destroy(samples);
	return 0;
}
