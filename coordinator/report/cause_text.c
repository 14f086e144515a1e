/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/cause_text.h"

#include "analysis/explain/causes.h"

static const char *unknown_advice(const struct verdict *verdict)
{
	switch (verdict->verdict_class) {
	case VERDICT_COMPUTE_SLOW:
		if (verdict->on_device)
			return "the rank's GPU worked longer than its peers': compare clocks, "
			       "temperature, memory errors and other processes on it (nvidia-smi "
			       "-q); see above why its kernels do not tell, and profile it beside "
			       "a healthy rank";
		return "the rank's own code took longer on the CPU than on its peers: compare CPU "
		       "frequency, NUMA placement and input; profile it beside a healthy rank "
		       "(perf record -p PID)";
	case VERDICT_HOST_SLOW:
		return "something on the host held the rank up that was not measurable here: see "
		       "the coverage below, and run 'slowrank doctor' on that host";
	case VERDICT_COMM_SLOW:
		if (!verdict->rank_count)
			return "transfers take longer, and could not be attributed to a rank: look "
			       "at "
			       "the links that lead the costs below (ethtool -S, ss -ti on "
			       "their hosts), and at the coverage for what would tell more";
		return "transfers of this rank take longer than the same transfers elsewhere: look "
		       "at its NIC, link and path (ethtool -S, ss -ti)";
	case VERDICT_WORKLOAD_IMBALANCE:
		return "the rank has more work than its peers: balance the split or the batches";
	case VERDICT_HANG:
		return "before ending the job, see what the rank is in: its stacks are below where "
		       "they could be read; otherwise gdb -p PID, py-spy dump --pid PID";
	default:
		return "look at the evidence and the coverage below, and run 'slowrank doctor' on "
		       "that host";
	}
}

const char *cause_phrase(enum cause cause)
{
	const char *phrase = cause_rule(cause)->phrase;

	return phrase ? phrase : "of its own excess";
}

const char *cause_advice(const struct verdict *verdict)
{
	const char *advice = cause_rule((enum cause)verdict->cause)->advice;

	return advice ? advice : unknown_advice(verdict);
}
