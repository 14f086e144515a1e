/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/process.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "probe/inject/clock_bounds.h"
#include "probe/inject/deep_look.h"
#include "probe/inject/gpu_clock.h"
#include "probe/inject/nccl_chain.h"
#include "probe/inject/nccl_plugin.h"
#include "probe/inject/timed_calls.h"
#include "probe/inject/tracker.h"
#include "probe/inject/verbs_wrap.h"
#include "probe/ring/host_clock.h"
#include "probe/ring/ring_writer.h"

enum {
	HELPER_PERIOD_NS = 50000000, /* each turn may take the core from the program */
	HELPER_REPORT_NS = 1000000000,
	HELPER_STACK_BYTES = 256 * 1024
};

static struct {
	pthread_mutex_t lock; /* of the start */
	bool tried;
	bool live; /* atomic */
	struct ring_writer ring;
	pthread_t helper;
	uint32_t key;
	uint64_t drops[PROCESS_DROP_NR]; /* atomic */
	int profiler_version;		 /* atomic; the highest that was told */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

static _Thread_local uint32_t thread_id;

int64_t process_now_ns(void)
{
	return host_clock_now_ns();
}

uint32_t process_thread_id(void)
{
	if (!thread_id)
		thread_id = (uint32_t)syscall(SYS_gettid);
	return thread_id;
}

/* Threads that end keep what they had. */
enum { LAUNCHERS_MAX = 8 };
#define LAUNCHERS_PERIOD_NS 1000000 /* a thread costs 0.8 us on a VM */
static struct {
	uint32_t count;	 /* atomic */
	int64_t read_ns; /* atomic */
	struct {
		uint32_t id;		 /* atomic; 0 = free */
		int64_t base_ns, cpu_ns; /* atomic: at its first call, when last read */
	} threads[LAUNCHERS_MAX];
} launchers;

/* The CPU clock of a thread of this process, as the kernel numbers it (clock_getcpuclockid(3)); -1: it is gone. */
static int64_t thread_cpu_ns(uint32_t id)
{
	clockid_t clock = (clockid_t)(~id << 3 | 6);
	struct timespec time;

	if (syscall(SYS_clock_gettime, clock, &time) != 0)
		return -1;
	return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/* False: there are too many. */
static bool add_launcher(uint32_t id)
{
	uint32_t count = __atomic_load_n(&launchers.count, __ATOMIC_ACQUIRE);

	for (uint32_t i = 0; i < count && i < LAUNCHERS_MAX; i++) {
		if (__atomic_load_n(&launchers.threads[i].id, __ATOMIC_RELAXED) == id)
			return true;
	}
	count = __atomic_fetch_add(&launchers.count, 1, __ATOMIC_ACQ_REL);
	if (count >= LAUNCHERS_MAX) {
		__atomic_store_n(&launchers.count, LAUNCHERS_MAX + 1, __ATOMIC_RELEASE);
		return false;
	}
	int64_t cpu_ns = thread_cpu_ns(id);

	__atomic_store_n(&launchers.threads[count].base_ns, cpu_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&launchers.threads[count].cpu_ns, cpu_ns, __ATOMIC_RELAXED);
	__atomic_store_n(&launchers.threads[count].id, id, __ATOMIC_RELEASE);
	return true;
}

uint64_t process_launchers_cpu_ns(void)
{
	int64_t now_ns, sum_ns = 1; /* 0 says that it was not measured */
	int kept = errno;

	if (!process_is_live() ||
		!__atomic_load_n(&process.ring.header->control.launchers_cpu, __ATOMIC_RELAXED) ||
		!gpu_clock_waits_spin())
		return 0;
	now_ns = process_now_ns();
	if (now_ns - __atomic_load_n(&launchers.read_ns, __ATOMIC_RELAXED) < LAUNCHERS_PERIOD_NS ||
		!add_launcher(process_thread_id()))
		return 0;
	__atomic_store_n(&launchers.read_ns, now_ns, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < LAUNCHERS_MAX; i++) {
		uint32_t id = __atomic_load_n(&launchers.threads[i].id, __ATOMIC_ACQUIRE);
		int64_t cpu_ns = id ? thread_cpu_ns(id) : -1;

		if (cpu_ns >= 0)
			__atomic_store_n(&launchers.threads[i].cpu_ns, cpu_ns, __ATOMIC_RELAXED);
		if (id)
			sum_ns += __atomic_load_n(&launchers.threads[i].cpu_ns, __ATOMIC_RELAXED) -
				  __atomic_load_n(&launchers.threads[i].base_ns, __ATOMIC_RELAXED);
	}
	errno = kept;
	return (uint64_t)sum_ns;
}

bool process_is_live(void)
{
	return __atomic_load_n(&process.live, __ATOMIC_ACQUIRE);
}

uint32_t process_key(void)
{
	return process.key;
}

const struct ring_control *process_control(void)
{
	return &process.ring.header->control;
}

static bool is_paused(void)
{
	return __atomic_load_n(&process.ring.header->control.paused, __ATOMIC_RELAXED) != 0;
}

bool process_write(enum ring_record_kind kind, const void *payload, size_t payload_bytes)
{
	if (!process_is_live() || is_paused())
		return false;
	return ring_write(&process.ring, kind, payload, payload_bytes);
}

void process_count_drop(enum process_drop drop)
{
	__atomic_fetch_add(&process.drops[drop], 1, __ATOMIC_RELAXED);
}

/* Only async-signal-safe things: a fork may come from a program with many threads. */
static void be_quiet(void)
{
	__atomic_store_n(&process.live, false, __ATOMIC_RELEASE);
}

/* At exit the vendor's libraries go away: no helper may call into them. */
__attribute__((destructor)) static void at_exit(void)
{
	be_quiet();
}

static void report_drops(uint64_t *reported)
{
	struct ring_drops drops = {
		.ring_full = __atomic_load_n(&process.ring.header->dropped_full, __ATOMIC_RELAXED),
		.events = __atomic_load_n(&process.drops[PROCESS_DROP_EVENT], __ATOMIC_RELAXED),
		.communicators = __atomic_load_n(
			&process.drops[PROCESS_DROP_COMMUNICATOR], __ATOMIC_RELAXED),
		.late = __atomic_load_n(&process.drops[PROCESS_DROP_LATE], __ATOMIC_RELAXED),
		.host_ns = process_now_ns(),
	};
	uint64_t sum = drops.ring_full + drops.events + drops.communicators + drops.late;

	if (sum != *reported && process_write(RING_RECORD_DROPS, &drops, sizeof(drops)))
		*reported = sum;
}

static bool say_hello(int profiler_version)
{
	struct ring_hello hello = {.pid = (int32_t)getpid(),
		.nccl_profiler_version = profiler_version,
		.library_version = RING_VERSION,
		.cuda_driver_version = gpu_clock_driver_version(),
		.host_ns = process_now_ns()};

	return process_write(RING_RECORD_HELLO, &hello, sizeof(hello));
}

/* A second watch of this process does not know what the first was told. */
static void greet_reader(uint32_t *greeted)
{
	uint32_t count =
		__atomic_load_n(&process.ring.header->control.reader_count, __ATOMIC_RELAXED);

	if (count == *greeted)
		return;
	/* The ring may be full of what nobody read: then at the next look. */
	if (count <= 1 || say_hello(__atomic_load_n(&process.profiler_version, __ATOMIC_RELAXED)))
		*greeted = count;
}

static void *helper_main(void *unused)
{
	const struct timespec period = {.tv_nsec = HELPER_PERIOD_NS};
	int64_t reported_ns = process_now_ns();
	uint64_t reported_drops = 0;
	uint32_t greeted = 0;

	(void)unused;
	(void)pthread_setname_np(pthread_self(), "slowrank");
	while (process_is_live()) {
		nccl_plugin_pause(is_paused());
		nccl_chain_refresh();
		greet_reader(&greeted);
		deep_look_poll();
		timed_calls_poll();
		if (process_now_ns() - reported_ns >= HELPER_REPORT_NS) {
			reported_ns = process_now_ns();
			clock_bounds_report();
			report_drops(&reported_drops);
			tracker_report_in_flight();
		}
		(void)nanosleep(&period, NULL);
	}
	return NULL;
}

/* All signals stay blocked in the helper: the program's handlers never run on it. */
static bool start_helper(void)
{
	sigset_t all, before;
	pthread_attr_t attributes;
	bool started;

	if (pthread_attr_init(&attributes))
		return false;
	sigfillset(&all);
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	(void)pthread_attr_setstacksize(&attributes, HELPER_STACK_BYTES);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	started = pthread_create(&process.helper, &attributes, helper_main, NULL) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attributes);
	return started;
}

static void start_once(void)
{
	const char *directory = secure_getenv(RING_DIRECTORY_VARIABLE);

	process.tried = true;
	if (!directory || !directory[0])
		directory = RING_DIRECTORY_DEFAULT;
	if (ring_writer_create(directory, RING_SLOT_COUNT_DEFAULT, &process.ring))
		return;
	if (pthread_atfork(NULL, NULL, be_quiet)) {
		ring_writer_destroy(&process.ring);
		return;
	}
	process.key = ((uint32_t)getpid() * UINT32_C(2654435761)) >> 16;
	__atomic_store_n(&process.live, true, __ATOMIC_RELEASE);
	(void)!verbs_wrap_start_where_used(false);
	/* Without the helper there are no deep looks and no passive bounds; all else works. */
	(void)start_helper();
}

bool process_start(int profiler_version)
{
	int kept = errno;

	pthread_mutex_lock(&process.lock);
	if (!process.tried)
		start_once();
	pthread_mutex_unlock(&process.lock);
	if (process_is_live()) {
		if (profiler_version > __atomic_load_n(&process.profiler_version, __ATOMIC_RELAXED))
			__atomic_store_n(
				&process.profiler_version, profiler_version, __ATOMIC_RELAXED);
		(void)say_hello(profiler_version);
	}
	errno = kept;
	return process_is_live();
}
