/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/bench/simulated_job.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "coordinator/pipeline_internal.h"

static int take(void *context, struct message_batch *batch,
	void (*release)(struct message_batch *batch), struct job_ns received)
{
	struct message_reply reply;
	int result = pipeline_push_batch(context, batch, release, received, &reply);

	return result < 0 ? result : 0;
}

struct pipeline *simulated_pipeline(
	const struct sim_options *options, uint64_t feed_seed, struct sim_truth *truth)
{
	const struct sim_feed_options feed = {feed_seed, 4};
	struct simulator *simulator;
	struct pipeline *pipeline;

	assert_int_equal(pipeline_create(&(struct pipeline_options){0}, &pipeline), 0);
	assert_int_equal(simulator_create(options, &simulator), 0);
	assert_int_equal(sim_feed(simulator, &feed, take, NULL, pipeline), 0);
	assert_int_equal(pipeline_finish(pipeline), 0);
	if (truth)
		simulator_truth(simulator, truth);
	simulator_destroy(simulator);
	return pipeline;
}
