/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/stacks/running.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <asm/perf_regs.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum {
	TIMER_NS = 50000,
	RING_BYTES = 32768, /* one sample, and room */
	PAGE_BYTES = 4096,  /* of x86-64 */
};

/* By DWARF's numbers, as in unwind.h. */
static const unsigned char perf_numbers[UNWIND_REGISTERS] = {PERF_REG_X86_AX, PERF_REG_X86_DX,
	PERF_REG_X86_CX, PERF_REG_X86_BX, PERF_REG_X86_SI, PERF_REG_X86_DI, PERF_REG_X86_BP,
	PERF_REG_X86_SP, PERF_REG_X86_R8, PERF_REG_X86_R9, PERF_REG_X86_R10, PERF_REG_X86_R11,
	PERF_REG_X86_R12, PERF_REG_X86_R13, PERF_REG_X86_R14, PERF_REG_X86_R15, PERF_REG_X86_IP};

static uint64_t perf_mask(void)
{
	uint64_t mask = 0;

	for (unsigned i = 0; i < UNWIND_REGISTERS; i++)
		mask |= UINT64_C(1) << perf_numbers[i];
	return mask;
}

static int open_event(pid_t tid, bool kernel)
{
	struct perf_event_attr attributes = {.size = sizeof(attributes),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_period = TIMER_NS,
		.sample_type = PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER,
		.sample_regs_user = perf_mask(),
		.sample_stack_user = RUNNING_STACK_BYTES,
		.disabled = 1,
		.exclude_kernel = !kernel,
		.wakeup_events = 1};

	return (int)syscall(SYS_perf_event_open, &attributes, tid, -1, -1, PERF_FLAG_FD_CLOEXEC);
}

void running_ask(struct running_threads *threads, pid_t tid)
{
	void *ring;
	int fd;

	if (threads->count == RUNNING_MAX)
		return;
	fd = open_event(tid, true);
	if (fd < 0 && errno == EACCES)
		fd = open_event(tid, false);
	if (fd < 0)
		return;
	ring = mmap(NULL, PAGE_BYTES + RING_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (ring == MAP_FAILED) {
		close(fd);
		return;
	}
	/* One sample; then it is off again. */
	(void)ioctl(fd, PERF_EVENT_IOC_REFRESH, 1);
	threads->asked[threads->count].tid = tid;
	threads->asked[threads->count].fd = fd;
	threads->asked[threads->count++].ring = ring;
}

static uint64_t word_at(const uint8_t *bytes, size_t index)
{
	uint64_t word;

	memcpy(&word, bytes + index * sizeof(word), sizeof(word));
	return word;
}

/* The kernel's record: what registers are (0 = none), the registers in perf's order, a size, the stack, how much of it there is. */
static bool take_record(const uint8_t *ring, struct running_stack *stack)
{
	const uint8_t *record = ring + PAGE_BYTES;
	struct perf_event_header header;
	uint64_t mask = perf_mask();
	size_t at = sizeof(header) / sizeof(uint64_t), registers_at, words;

	memcpy(&header, record, sizeof(header));
	words = header.size / sizeof(uint64_t);
	registers_at = at + 1;
	at = registers_at + UNWIND_REGISTERS;
	if (header.type != PERF_RECORD_SAMPLE || words <= at + 1 ||
		word_at(record, registers_at - 1) == PERF_SAMPLE_REGS_ABI_NONE)
		return false;
	for (unsigned i = 0; i < UNWIND_REGISTERS; i++) {
		uint64_t before = mask & ((UINT64_C(1) << perf_numbers[i]) - 1);

		stack->registers.values[i] =
			word_at(record, registers_at + (size_t)__builtin_popcountll(before));
	}
	stack->registers.known = (UINT32_C(1) << UNWIND_REGISTERS) - 1;
	stack->begin = stack->registers.values[UNWIND_RSP];
	uint64_t bytes = word_at(record, at);

	stack->length = 0;
	if (bytes == 0 || bytes > RUNNING_STACK_BYTES || at + 1 + bytes / sizeof(uint64_t) >= words)
		return true; /* its memory has it */
	stack->length = (size_t)word_at(record, at + 1 + bytes / sizeof(uint64_t));
	if (stack->length > bytes)
		stack->length = (size_t)bytes;
	memcpy(stack->bytes, record + (at + 1) * sizeof(uint64_t), stack->length);
	return true;
}

bool running_take(
	struct running_threads *threads, pid_t tid, int wait_ms, struct running_stack *stack)
{
	for (size_t i = 0; i < threads->count; i++) {
		struct pollfd waited = {.fd = threads->asked[i].fd, .events = POLLIN};
		struct perf_event_mmap_page *page = threads->asked[i].ring;

		if (threads->asked[i].tid != tid)
			continue;
		(void)poll(&waited, 1, wait_ms);
		return __atomic_load_n(&page->data_head, __ATOMIC_ACQUIRE) != 0 &&
		       take_record(threads->asked[i].ring, stack);
	}
	return false;
}

void running_end(struct running_threads *threads)
{
	for (size_t i = 0; i < threads->count; i++) {
		munmap(threads->asked[i].ring, PAGE_BYTES + RING_BYTES);
		close(threads->asked[i].fd);
	}
	threads->count = 0;
}
#else
void running_ask(struct running_threads *threads, pid_t tid)
{
	(void)threads;
	(void)tid;
}

bool running_take(
	struct running_threads *threads, pid_t tid, int wait_ms, struct running_stack *stack)
{
	(void)threads;
	(void)tid;
	(void)wait_ms;
	(void)stack;
	return false;
}

void running_end(struct running_threads *threads)
{
	threads->count = 0;
}
#endif
