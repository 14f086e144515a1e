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

enum { SYSCALL_FUNCTION_BYTES = 64, CODE_BYTES_MAX = LOAD_PAGE_BYTES };

/* The address of a syscall instruction: within the C library's function of that name. */
static int find_instruction(const struct load_target *target, uint64_t *instruction)
{
	uint8_t code[SYSCALL_FUNCTION_BYTES];
	int error = load_trace_read(target->pid, target->functions.syscall, code, sizeof(code));

	if (error)
		return error;
	for (size_t i = 0; i + 1 < sizeof(code); i++) {
		if (code[i] == 0x0f && code[i + 1] == 0x05) {
			*instruction = target->functions.syscall + i;
			return 0;
		}
	}
	return -ENOTSUP;
}

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

/* Code, block and the frame by which the thread can go back alone. */
static int fill_mapping(const struct load_call *call, const struct load_trace *trace)
{
	static uint8_t image[LOAD_STACK_OFFSET];
	struct load_block block;
	size_t code_bytes = (size_t)(load_stub_end - load_stub_start);

	if (code_bytes > CODE_BYTES_MAX)
		return -E2BIG;
	memset(image, 0, sizeof(image));
	memcpy(image, load_stub_start, code_bytes);
	fill_block(call, &block);
	int error = load_frame_fill(trace, call->mapping + LOAD_FRAME_OFFSET,
		image + LOAD_FRAME_OFFSET, LOAD_FRAME_BYTES, &block.frame_stack);
	if (error)
		return error;
	memcpy(image + LOAD_BLOCK_OFFSET, &block, sizeof(block));
	return load_trace_write(call->target->pid, call->mapping, image, sizeof(image));
}

static int remote(struct load_trace *trace, uint64_t instruction, int64_t number, uint64_t first,
	uint64_t second, uint64_t third, uint64_t fourth, int64_t *result)
{
	const uint64_t arguments[6] = {first, second, third, fourth, UINT64_MAX, 0};
	int error = load_trace_syscall(trace, instruction, number, arguments, result);

	if (!error && *result < 0 && *result > -4096)
		error = (int)*result;
	return error;
}

int load_call_begin(struct load_call *call, struct load_trace *trace)
{
	uint64_t instruction = 0;
	int64_t result;
	int error = find_instruction(call->target, &instruction);

	if (!error)
		error = load_trace_save(trace);
	if (!error)
		error = remote(trace, instruction, SYS_mmap, 0, LOAD_MAPPING_BYTES,
			PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, &result);
	if (error)
		return error;
	call->mapping = (uint64_t)result;
	error = fill_mapping(call, trace);
	if (!error)
		error = remote(trace, instruction, SYS_mprotect, call->mapping, LOAD_PAGE_BYTES,
			PROT_READ | PROT_EXEC, 0, &result);
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
	uint64_t at = 0, instruction = 0;
	int64_t result;
	int error;

	if (!call->running || (call->returned && call->result)) {
		/* No thread was made: nobody else uses the mapping. */
		if (call->mapping && find_instruction(call->target, &instruction) == 0 &&
			(!call->running || load_trace_stop(trace, &at) == 0))
			(void)!remote(trace, instruction, SYS_munmap, call->mapping,
				LOAD_MAPPING_BYTES, 0, 0, &result);
		return load_trace_release(trace);
	}
	error = load_trace_stop(trace, &at);
	if (error)
		return error;
	/* Back by itself already, or still in the call. */
	if (!in_code(call, at) && !trace->faulted)
		return load_trace_leave(trace);
	return load_trace_release(trace);
}

#endif
