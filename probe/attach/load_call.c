/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_call.h"

#if defined(__x86_64__)

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>

#include "probe/attach/load_frame.h"

/* struct _fpx_sw_bytes within the FXSAVE area (asm/sigcontext.h), where ptrace puts XCR0. */
enum { SOFTWARE_WORD = 464 };
/* The rights of memory keys: nothing changes them here, and the kernel keeps them apart. */
#define XSTATE_KEYS (UINT64_C(1) << 9)

static void fill_block(const struct load_call *call, struct load_block *block)
{
	const struct load_functions *functions = &call->target->functions;

	*block = (struct load_block){
		.pthread_create = functions->pthread_create,
		.pthread_attr_init = functions->pthread_attr_init,
		.pthread_attr_setdetachstate = functions->pthread_attr_setdetachstate,
		.errno_location = functions->errno_location,
		.dlopen = functions->dlopen,
		.dlsym = functions->dlsym,
		.dlerror = functions->dlerror,
		.munmap = functions->munmap,
		.mapping = call->mapping,
		.mapping_bytes = LOAD_MAPPING_BYTES,
		.memory_fd = -1,
	};
	snprintf(block->start, sizeof(block->start), "%s", call->start);
	snprintf(block->library_name, sizeof(block->library_name), "%s", call->library_name);
}

/* Block and vector state, by which the thread can go back alone; and the code, where nobody may write. */
static int fill_mapping(const struct load_call *call, const struct load_trace *trace)
{
	static uint8_t image[LOAD_STACK_OFFSET - LOAD_BLOCK_OFFSET];
	size_t code_bytes = (size_t)(load_stub_end - load_stub_start);
	struct load_block block;
	int error;

	if (code_bytes > LOAD_PAGE_BYTES)
		return -E2BIG;
	memset(image, 0, sizeof(image));
	fill_block(call, &block);
	block.frame = load_frame_address(&trace->registers);
	block.blocked_signals = load_trace_blocked_signals();
	memcpy(&block.xstate_components, trace->xstate + SOFTWARE_WORD, sizeof(uint64_t));
	block.xstate_components &= ~XSTATE_KEYS;
	memcpy(image, &block, sizeof(block));
	memcpy(image + LOAD_XSTATE_OFFSET - LOAD_BLOCK_OFFSET, trace->xstate, trace->xstate_bytes);
	error = load_trace_write(
		call->target->pid, call->mapping + LOAD_BLOCK_OFFSET, image, sizeof(image));
	if (!error)
		error = load_trace_poke(trace, call->mapping, load_stub_start, code_bytes);
	return error;
}

static int remote(struct load_trace *trace, int64_t number, uint64_t first, uint64_t second,
	uint64_t third, uint64_t fourth, int64_t *result)
{
	const uint64_t arguments[6] = {first, second, third, fourth, UINT64_MAX, 0};
	int error = load_trace_syscall(trace, number, arguments, result);

	if (!error && *result < 0 && *result > -4096)
		error = (int)*result;
	return error;
}

int load_call_begin(struct load_call *call, struct load_trace *trace)
{
	int64_t result;
	int error = load_trace_save(trace, call->target->gate);

	if (!error)
		error = remote(trace, SYS_mmap, 0, LOAD_MAPPING_BYTES, PROT_READ | PROT_EXEC,
			MAP_PRIVATE | MAP_ANONYMOUS, &result);
	if (error)
		return error;
	call->mapping = (uint64_t)result;
	error = remote(trace, SYS_mprotect, call->mapping + LOAD_BLOCK_OFFSET,
		LOAD_MAPPING_BYTES - LOAD_BLOCK_OFFSET, PROT_READ | PROT_WRITE, 0, &result);
	if (!error)
		error = fill_mapping(call, trace);
	if (!error)
		error = load_trace_start(trace, call->mapping, call->mapping + LOAD_MAPPING_BYTES,
			call->mapping + LOAD_BLOCK_OFFSET);
	call->running = !error;
	return error;
}

int load_call_wait(struct load_call *call, int64_t end_ns)
{
	const struct timespec pause = {.tv_nsec = 20000};
	uint64_t at = call->mapping + LOAD_BLOCK_OFFSET + offsetof(struct load_block, call_done);
	uint32_t state[2]; /* call_done, call_result */

	for (;;) {
		int error = load_trace_read(call->target->pid, at, state, sizeof(state));

		if (error)
			return error;
		if (state[0]) {
			call->returned = true;
			call->result = (int32_t)state[1];
			return 0;
		}
		if (load_trace_now_ns() > end_ns)
			return -ETIMEDOUT;
		(void)nanosleep(&pause, NULL);
	}
}

static bool in_code(const struct load_call *call, uint64_t at)
{
	return at >= call->mapping && at < call->mapping + LOAD_PAGE_BYTES;
}

int load_call_end(struct load_call *call, struct load_trace *trace)
{
	uint64_t at = 0;
	int64_t result;
	int error;

	if (!call->running || (call->returned && call->result)) {
		/* No thread was made: nobody else uses the mapping. */
		if (call->mapping && (!call->running || load_trace_stop(trace, &at) == 0))
			(void)!remote(trace, SYS_munmap, call->mapping, LOAD_MAPPING_BYTES, 0, 0,
				&result);
		return load_trace_release(trace);
	}
	error = load_trace_stop(trace, &at);
	if (error)
		return error;
	/* Back by itself already, in a handler that comes back to our code, or still in the call. */
	call->left = !in_code(call, at) && !trace->faulted;
	if (call->left)
		return load_trace_leave(trace);
	return load_trace_release(trace);
}

#endif
