/* SPDX-License-Identifier: Apache-2.0 */
/* Any texts as those of /proc, /sys and cgroups that samplers read, twice: counters grow, or do not. */
#include "probe/sources/cgroup.h"
#include "probe/sources/clock_rate.h"
#include "probe/sources/cpu_throttles.h"
#include "probe/sources/cpu_times.h"
#include "probe/sources/launcher_delays.h"
#include "probe/sources/procfs.h"
#include "probe/sources/psi.h"
#include "tests/fuzz/foreign.h"
#include "tests/fuzz/fuzz.h"

enum { LOOKS = 2 };

static void sample(int error, struct sampler *sampler)
{
	struct metric_sample samples[SAMPLER_SAMPLES_MAX];

	fuzz_require(error == 0);
	for (int64_t i = 1; i <= LOOKS; i++) {
		struct host_ns now = {i * 1000000000};

		fuzz_require(sampler_sample(sampler, now, samples, SAMPLER_SAMPLES_MAX) <=
			     SAMPLER_SAMPLES_MAX);
	}
	sampler_destroy(sampler);
}

static void look_at_threads(void)
{
	struct launcher_delays *delays = launcher_delays_create(FOREIGN_PID);
	struct clock_rate rate = {0};
	struct cpu_throttles throttles = {0};
	cpu_set_t cpus;

	fuzz_require(delays != NULL);
	CPU_ZERO(&cpus);
	CPU_SET(0, &cpus);
	for (int i = 0; i <= LAUNCHER_DELAYS_THREADS_MAX; i++)
		launcher_delays_thread(delays, FOREIGN_PID - i % LAUNCHER_DELAYS_THREADS_MAX);
	launcher_delays_thread(delays, FOREIGN_PID + 1);
	clock_rate_follow(&rate, FOREIGN_PID);
	for (int i = 0; i < LOOKS; i++) {
		(void)launcher_delays_look(delays);
		clock_rate_look(&rate, FOREIGN_PID);
		cpu_throttles_look(&throttles, &cpus);
	}
	if (!launcher_delays_are_known(delays))
		fuzz_require(launcher_delays_sum(delays).queued_ns == 0);
	launcher_delays_destroy(delays);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length)
{
	struct sampler *sampler = NULL;
	int error;

	foreign_begin(bytes, length);
	error = cgroup_sampler_create(FOREIGN_PID, 0, &sampler);
	sample(error, sampler);
	error = psi_sampler_create(FOREIGN_PID, 0, &sampler);
	sample(error, sampler);
	error = procfs_sampler_create(FOREIGN_PID, 0, &sampler);
	sample(error, sampler);
	look_at_threads();
	foreign_end();
	return 0;
}
