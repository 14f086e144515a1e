/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Programs that something is loaded into. Each checks all the time that nothing in it was
 * disturbed, until its standard input ends; then it exits with 42, and with 1 as soon as something
 * was. usage: load_program MODE. Prints one line when it is at work.
 */
#include <errno.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include <linux/futex.h>

enum {
	UNDISTURBED = 42,
	DISTURBED = 1,
	ALLOCATING_THREADS = 6,
	ERRNO_KEPT = 77,
	NOT_POSSIBLE = 77
};

static _Atomic bool over;

static void disturbed(const char *what)
{
	fprintf(stderr, "load_program: disturbed: %s (errno %d)\n", what, errno);
	_exit(DISTURBED);
}

static void say_ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static bool input_ended(void)
{
	struct pollfd input = {.fd = 0, .events = POLLIN};

	return poll(&input, 1, 0) > 0;
}

/* Integers, vectors, all that the processor has of those, rounding mode and errno, in one thread that never sleeps. */
static double work_once(unsigned rounds)
{
	double sum[4] = {0.1, 0.2, 0.3, 0.4};
	uint64_t mixed = 88172645463325252u;

	for (unsigned i = 0; i < rounds; i++) {
		mixed ^= mixed << 13;
		mixed ^= mixed >> 7;
		mixed ^= mixed << 17;
		for (int k = 0; k < 4; k++)
			sum[k] = sum[k] * 1.0000001 + (double)(mixed >> (11 + k)) * 1e-19;
	}
	return sum[0] + sum[1] + sum[2] + sum[3] + (double)(mixed & 0xffff);
}

#if defined(__x86_64__)
/* The same in the upper halves of vector registers, which functions need not keep. */
__attribute__((target("avx"), noinline)) static double work_wide(unsigned rounds)
{
	__m256d sum = _mm256_set_pd(0.1, 0.2, 0.3, 0.4), other = _mm256_set1_pd(1e-9);
	double parts[4];

	for (unsigned i = 0; i < rounds; i++) {
		sum = _mm256_add_pd(_mm256_mul_pd(sum, _mm256_set1_pd(1.0000001)), other);
		other = _mm256_add_pd(other, _mm256_set1_pd(1e-12));
	}
	_mm256_storeu_pd(parts, sum);
	return parts[0] + parts[1] + parts[2] + parts[3];
}
#endif

#if defined(__x86_64__)
enum { SPINS = 20000, WIDE_BYTES = 16 * 64, MASK_BYTES = 16, TILE_BYTES = 8 * 1024 };

struct held {
	uint8_t wide[WIDE_BYTES], masks[MASK_BYTES], tiles[TILE_BYTES];
};

/* Registers of 512 bits that no other kind has a part in, and masks, as long as a loop takes. */
__attribute__((target("avx512f"), noinline)) static void hold_wide(
	const struct held *in, struct held *out)
{
	unsigned spins = SPINS;

	__asm__ volatile(".irp r,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
			 "vmovdqu64 64*\\r-1024(%[in]), %%zmm\\r\n"
			 ".endr\n"
			 ".irp r,1,2,3,4,5,6,7\n"
			 "kmovw 2*\\r(%[masks_in]), %%k\\r\n"
			 ".endr\n"
			 "1: dec %[spins]\n"
			 "jnz 1b\n"
			 ".irp r,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31\n"
			 "vmovdqu64 %%zmm\\r, 64*\\r-1024(%[out])\n"
			 ".endr\n"
			 ".irp r,1,2,3,4,5,6,7\n"
			 "kmovw %%k\\r, 2*\\r(%[masks_out])\n"
			 ".endr\n"
			 : [spins] "+r"(spins)
			 : [in] "r"(in->wide), [masks_in] "r"(in->masks), [out] "r"(out->wide),
			 [masks_out] "r"(out->masks)
			 : "memory", "cc", "xmm16", "xmm17", "xmm18", "xmm19", "xmm20", "xmm21",
			 "xmm22", "xmm23", "xmm24", "xmm25", "xmm26", "xmm27", "xmm28", "xmm29",
			 "xmm30", "xmm31", "k1", "k2", "k3", "k4", "k5", "k6", "k7");
}

/* AMX: 8 KiB of state that the kernel keeps for who asked for it. */
static void hold_tiles(const struct held *in, struct held *out)
{
	struct {
		uint8_t palette, start_row, reserved[14];
		uint16_t row_bytes[16];
		uint8_t rows[16];
	} config = {.palette = 1};
	unsigned spins = SPINS;

	for (int i = 0; i < 8; i++) {
		config.row_bytes[i] = 64;
		config.rows[i] = 16;
	}
	__asm__ volatile("ldtilecfg %[config]\n"
			 ".irp r,0,1,2,3,4,5,6,7\n"
			 "tileloadd 1024*\\r(%[in],%[stride],1), %%tmm\\r\n"
			 ".endr\n"
			 "1: dec %[spins]\n"
			 "jnz 1b\n"
			 ".irp r,0,1,2,3,4,5,6,7\n"
			 "tilestored %%tmm\\r, 1024*\\r(%[out],%[stride],1)\n"
			 ".endr\n"
			 "tilerelease\n"
			 : [spins] "+r"(spins)
			 : [config] "m"(config), [in] "r"(in->tiles), [out] "r"(out->tiles),
			 [stride] "r"((uint64_t)64)
			 : "memory", "cc");
}

/* Where the processor has them. */
static void hold_registers(bool tiles)
{
	static struct held in, out;
	static uint8_t turn;
	uint8_t *bytes = (uint8_t *)&in;

	turn++;
	for (size_t i = 0; i < sizeof(in); i++)
		bytes[i] = (uint8_t)(turn + i * 7 + i / 256);
	if (__builtin_cpu_supports("avx512f")) {
		hold_wide(&in, &out);
		if (memcmp(in.wide, out.wide, sizeof(in.wide)) != 0)
			disturbed("a register of 512 bits changed");
		if (memcmp(in.masks + 2, out.masks + 2, sizeof(in.masks) - 2) != 0)
			disturbed("a mask changed");
	}
	if (!tiles)
		return;
	hold_tiles(&in, &out);
	if (memcmp(in.tiles, out.tiles, sizeof(in.tiles)) != 0)
		disturbed("a tile changed");
}

static bool has_tiles(void)
{
	const int request = 0x1023, tile_data = 18; /* ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA */

	return syscall(SYS_arch_prctl, request, tile_data) == 0;
}
#endif

static double work_both(unsigned rounds)
{
	double sum = work_once(rounds);

#if defined(__x86_64__)
	if (__builtin_cpu_supports("avx"))
		sum += work_wide(rounds);
#endif
	return sum;
}

static int be_busy(void)
{
	const unsigned rounds = 20000;
	double expected;

#if defined(__x86_64__)
	_MM_SET_ROUNDING_MODE(_MM_ROUND_TOWARD_ZERO);
	unsigned control = _mm_getcsr() & 0xffc0;
	bool tiles = has_tiles();
#endif
	expected = work_both(rounds);
	say_ready();
	for (unsigned turn = 1;; turn++) {
		errno = ERRNO_KEPT;
		for (unsigned i = 0; i < 50; i++) {
			double found = work_both(rounds);

			if (memcmp(&found, &expected, sizeof(found)) != 0)
				disturbed("a sum changed");
#if defined(__x86_64__)
			hold_registers(tiles);
#endif
		}
		if (errno != ERRNO_KEPT)
			disturbed("errno changed");
#if defined(__x86_64__)
		if ((_mm_getcsr() & 0xffc0) != control)
			disturbed("the rounding mode changed");
#endif
		if (input_ended())
			return UNDISTURBED;
	}
}

static void *allocate(void *seed_pointer)
{
	enum { SLOTS = 256 };
	uint32_t seed = (uint32_t)(uintptr_t)seed_pointer;
	unsigned char *slots[SLOTS] = {NULL};
	size_t sizes[SLOTS] = {0};

	while (!over) {
		seed = seed * 1664525u + 1013904223u;
		size_t slot = seed >> 24, size = 1 + (seed >> 8 & 0x1fff);
		unsigned char *grown;

		for (size_t i = 0; slots[slot] && i < sizes[slot]; i++) {
			if (slots[slot][i] != (unsigned char)slot)
				disturbed("memory changed");
		}
		if (seed & 1) {
			grown = realloc(slots[slot], size);
		} else {
			free(slots[slot]);
			grown = malloc(size);
		}
		if (!grown)
			disturbed("no memory");
		memset(grown, (int)slot, size);
		slots[slot] = grown;
		sizes[slot] = size;
	}
	for (size_t i = 0; i < SLOTS; i++)
		free(slots[i]);
	return NULL;
}

static int allocate_hard(void)
{
	pthread_t threads[ALLOCATING_THREADS];
	char byte;

	for (uintptr_t i = 1; i < ALLOCATING_THREADS; i++)
		pthread_create(&threads[i], NULL, allocate, (void *)(i * 7919));
	say_ready();
	/* The first thread allocates as well: it is nobody's safe harbour. */
	pthread_create(&threads[0], NULL, allocate, (void *)(uintptr_t)12345);
	while (!input_ended())
		free(realloc(malloc(4000), 9000));
	over = true;
	(void)!read(0, &byte, 1);
	for (int i = 0; i < ALLOCATING_THREADS; i++)
		pthread_join(threads[i], NULL);
	return UNDISTURBED;
}

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* How long this thread was ready and waited for a CPU so far: the second number of schedstat. */
static int64_t waited_for_cpu_ns(void)
{
	char text[96] = "";
	long long waited_ns = 0;
	FILE *file = fopen("/proc/thread-self/schedstat", "re");

	if (file && fgets(text, sizeof(text), file))
		(void)sscanf(text, "%*d %lld", &waited_ns);
	if (file)
		fclose(file);
	return waited_ns;
}

static int by_nanosleep(const struct timespec *length)
{
	return nanosleep(length, NULL);
}

static int by_clock(const struct timespec *length)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_nsec += length->tv_nsec;
	end.tv_sec += length->tv_sec + end.tv_nsec / 1000000000;
	end.tv_nsec %= 1000000000;
	return clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL);
}

static ucontext_t outside, inside;
static int (*inner_work)(void);
static int inner_result;

static void run_inside(void)
{
	inner_result = inner_work();
}

/* On a stack that is no thread's, as coroutines have them. */
static int on_other_stack(int (*work)(void))
{
	enum { BYTES = 65536 };

	getcontext(&inside);
	inside.uc_stack.ss_sp = malloc(BYTES);
	inside.uc_stack.ss_size = BYTES;
	inside.uc_link = &outside;
	inner_work = work;
	makecontext(&inside, run_inside, 0);
	swapcontext(&outside, &inside);
	return inner_result;
}

static int milliseconds(const struct timespec *length)
{
	return (int)(length->tv_sec * 1000 + length->tv_nsec / 1000000);
}

static int by_poll(const struct timespec *length)
{
	return poll(NULL, 0, milliseconds(length));
}

static sem_t semaphore;

static void *wait_for_input(void *unused)
{
	char byte;

	if (read(0, &byte, 1) != 0)
		disturbed("read() ended early");
	sem_post(&semaphore);
	return unused;
}

/* A stop ends it early, so this thread is to be left alone; there is another. */
static int by_epoll(const struct timespec *length)
{
	struct epoll_event event;
	static pthread_t other;
	static int fd = -1;

	if (fd < 0) {
		fd = epoll_create1(EPOLL_CLOEXEC);
		pthread_create(&other, NULL, wait_for_input, NULL);
	}
	(void)work_both(50000);
	return epoll_wait(fd, &event, 1, milliseconds(length));
}

static int by_futex(const struct timespec *length)
{
	static uint32_t word;

	return syscall(SYS_futex, &word, FUTEX_WAIT, 0, length, NULL, 0) == -1 && errno == ETIMEDOUT
		       ? 0
		       : -1;
}

/* Waits must be as long as asked for, and not end early; a busy machine adds to them. */
static int sleep_on(int (*wait)(const struct timespec *length), const char *length_ms)
{
	long wanted_ms = length_ms ? strtol(length_ms, NULL, 10) : 150;
	const struct timespec length = {wanted_ms / 1000, wanted_ms % 1000 * 1000000};
	int64_t late_ns = wanted_ms < 1000 ? 3000000000 : wanted_ms * 750000;

	say_ready();
	while (!input_ended()) {
		int64_t waited_ns = waited_for_cpu_ns(), began_ns = now_ns(), slept_ns;

		if (wait(&length) != 0)
			disturbed("a wait ended early");
		slept_ns = now_ns() - began_ns - wanted_ms * 1000000;
		if (slept_ns < 0)
			disturbed("a wait was too short");
		if (slept_ns > late_ns + waited_for_cpu_ns() - waited_ns)
			disturbed("a wait began anew");
	}
	return UNDISTURBED;
}

/* One read() that blocks from beginning to end. */
static int read_on(void)
{
	char byte;

	say_ready();
	if (read(0, &byte, 1) != 0)
		disturbed("read() ended early");
	return UNDISTURBED;
}

/* Two threads: one in a futex, one in read(). */
static int wait_on(void)
{
	pthread_t thread;

	sem_init(&semaphore, 0, 0);
	pthread_create(&thread, NULL, wait_for_input, NULL);
	say_ready();
	if (sem_wait(&semaphore) != 0)
		disturbed("sem_wait() ended early");
	pthread_join(thread, NULL);
	return UNDISTURBED;
}

static volatile sig_atomic_t ticks;

static void on_tick(int number)
{
	volatile double sum = 0;

	(void)number;
	for (int i = 1; i < 2000; i++)
		sum += 1.0 / i;
	ticks = ticks + (sum > 0);
}

/* Busy, and interrupted a thousand times a second by a handler. */
static int be_signalled(void)
{
	struct itimerval every = {{0, 1000}, {0, 1000}};
	struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	double expected = work_once(20000);

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	say_ready();
	while (!input_ended()) {
		sigset_t mask;

		if (work_once(20000) != expected)
			disturbed("a sum changed");
		sigprocmask(SIG_BLOCK, NULL, &mask);
		for (int i = 1; i < 32; i++) {
			if (sigismember(&mask, i))
				disturbed("the signal mask changed");
		}
	}
	return ticks > 0 ? UNDISTURBED : DISTURBED;
}

static _Atomic unsigned queued_seen;

static void on_queued(int number)
{
	(void)number;
	queued_seen++;
}

static void *add_up(void *unused)
{
	double expected = work_both(2000);

	while (!over) {
		if (work_both(2000) != expected)
			disturbed("a sum changed");
	}
	return unused;
}

static void *take_bytes(void *pipe_end)
{
	unsigned char byte, expected = 0;
	ssize_t got;

	while ((got = read((int)(intptr_t)pipe_end, &byte, 1)) == 1) {
		if (byte != expected++)
			disturbed("a byte changed");
	}
	if (got)
		disturbed("read() failed");
	return NULL;
}

static void check_child(int wanted)
{
	int status;
	pid_t child = fork();

	if (child == 0)
		_exit(wanted);
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) ||
		WEXITSTATUS(status) != wanted)
		disturbed("a child's end was told wrong");
}

/* Threads that work and that wait, a timer's signals, signals none of which may be lost, and children. */
static int be_many(void)
{
	const struct itimerval every = {{0, 2000}, {0, 2000}};
	const struct timespec length = {.tv_nsec = 1000000};
	struct sigaction tick = {.sa_handler = on_tick, .sa_flags = SA_RESTART};
	struct sigaction queued = {.sa_handler = on_queued, .sa_flags = SA_RESTART};
	int64_t end_ns = INT64_MAX;
	pthread_t threads[2];
	unsigned sent = 0;
	int ends[2];

	sigaction(SIGALRM, &tick, NULL);
	sigaction(SIGRTMIN, &queued, NULL);
	if (pipe(ends) || pthread_create(&threads[0], NULL, add_up, NULL) ||
		pthread_create(&threads[1], NULL, take_bytes, (void *)(intptr_t)ends[0]))
		return NOT_POSSIBLE;
	setitimer(ITIMER_REAL, &every, NULL);
	say_ready();
	for (unsigned char turn = 0; now_ns() < end_ns; turn++) {
		if (end_ns == INT64_MAX && input_ended())
			end_ns = now_ns() + 3000000000;
		if (end_ns == INT64_MAX) {
			sent += sigqueue(getpid(), SIGRTMIN, (union sigval){0}) == 0;
			if (write(ends[1], &turn, 1) != 1)
				disturbed("write() failed");
			if (turn % 16 == 0)
				check_child(turn);
		} else if (queued_seen == sent) {
			break;
		}
		nanosleep(&length, NULL);
	}
	if (queued_seen != sent)
		disturbed("a signal was lost");
	over = true;
	close(ends[1]);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	return UNDISTURBED;
}

/* An ordinary user's, where we are root. */
static int be_users(void)
{
	if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
		return 77;
	return be_busy();
}

/* In namespaces of its own: number 1, other mounts; or an ordinary user's in a root without /proc. */
static int be_contained(const char *root)
{
	int status, told[2];
	pid_t child;
	char byte;

	if (pipe(told) != 0 || unshare(CLONE_NEWPID | CLONE_NEWNS) != 0)
		return 77;
	child = fork();
	if (child == 0) {
		close(told[1]);
		(void)!read(told[0], &byte, 1); /* the number first */
		if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0)
			_exit(77);
		if (root ? chroot(root) != 0 || chdir("/") != 0
			 : mount("proc", "/proc", "proc", 0, NULL) != 0)
			_exit(77);
		_exit(root ? be_users() : be_busy());
	}
	printf("child %d\n", (int)child);
	fflush(stdout);
	close(told[1]);
	waitpid(child, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : DISTURBED;
}

/* Begins itself anew all the time. */
static int begin_anew(char **argv)
{
	struct timespec length = {.tv_nsec = 3000000};

	if (!argv[2]) {
		say_ready();
		argv[2] = argv[0];
	}
	if (input_ended())
		return UNDISTURBED;
	nanosleep(&length, NULL);
	execv("/proc/self/exe", argv);
	return DISTURBED;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *mode;
		int (*wait)(const struct timespec *length);
	} waits[] = {{"sleep", by_nanosleep}, {"until", by_clock}, {"poll", by_poll},
		{"epoll", by_epoll}, {"futex", by_futex}};
	const char *mode = argc > 1 ? argv[1] : "", *argument = argc > 2 ? argv[2] : NULL;
	char *again[] = {argv[0], (char *)(uintptr_t) "anew", argc > 2 ? argv[2] : NULL, NULL};

	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		if (strcmp(mode, waits[i].mode) == 0)
			return sleep_on(waits[i].wait, argument);
	}

	if (strcmp(mode, "busy") == 0)
		return be_busy();
	if (strcmp(mode, "allocate") == 0)
		return allocate_hard();
	if (strcmp(mode, "coroutine") == 0)
		return on_other_stack(read_on);
	if (strcmp(mode, "read") == 0)
		return read_on();
	if (strcmp(mode, "wait") == 0)
		return wait_on();
	if (strcmp(mode, "signals") == 0)
		return be_signalled();
	if (strcmp(mode, "many") == 0)
		return be_many();
	if (strcmp(mode, "users") == 0)
		return be_users();
	if (strcmp(mode, "contained") == 0)
		return be_contained(argument);
	if (strcmp(mode, "anew") == 0)
		return begin_anew(again);
	return 2;
}
