/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/end_hold.h"

#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <time.h>

enum { NOT_ASKED = 0, REFUSED = -1 }; /* for a process id */

struct end_hold {
	atomic_int coordinator;
	atomic_int_least64_t until_ms;
};

struct end_hold *end_hold_create(void)
{
	struct end_hold *hold = mmap(
		NULL, sizeof(*hold), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	return hold == MAP_FAILED ? NULL : hold;
}

bool end_hold_ask(struct end_hold *hold, pid_t coordinator)
{
	int not_asked = NOT_ASKED;

	return hold && coordinator > 0 &&
	       atomic_compare_exchange_strong(&hold->coordinator, &not_asked, coordinator);
}

void end_hold_refuse(struct end_hold *hold)
{
	if (hold)
		atomic_store(&hold->coordinator, REFUSED);
}

static int64_t cpu_time_ns(pid_t process)
{
	struct timespec used;
	clockid_t clock;

	if (clock_getcpuclockid(process, &clock) != 0 || clock_gettime(clock, &used) < 0)
		return 0;
	return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

bool end_hold_goes_on(struct end_hold *hold, int64_t *seen_ns, int64_t until_ms)
{
	int coordinator = hold ? atomic_load(&hold->coordinator) : NOT_ASKED;
	int64_t used_ns = coordinator > 0 ? cpu_time_ns(coordinator) : 0;

	if (used_ns <= *seen_ns)
		return false;
	*seen_ns = used_ns;
	atomic_store(&hold->until_ms, until_ms);
	return true;
}

int64_t end_hold_until_ms(const struct end_hold *hold)
{
	return hold ? atomic_load(&hold->until_ms) : 0;
}
