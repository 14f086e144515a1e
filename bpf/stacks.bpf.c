// SPDX-License-Identifier: (Apache-2.0 OR GPL-2.0-only)
/*
 * The threads of one process as they are: registers, state, system call. An iterator that the probe reads when it
 * wants to know: no event wakes it, and no thread is held up. x86-64; elsewhere records have no registers.
 */
#include "kernel_compat.bpf.h"
#include "pid_namespace.bpf.h"

#include "bpf/stacks_shared.h"

/* More of what kernel_types.h has: these programs alone ask for it. */
struct seq_file;

struct bpf_iter_meta {
	struct seq_file *seq;
} CORE;

struct bpf_iter__task___stacks {
	struct bpf_iter_meta *meta;
	struct task_struct *task;
} CORE;

struct thread_info {
	unsigned int cpu; /* since 5.16 on x86-64 */
} CORE;

struct task_struct___stacks {
	struct thread_info thread_info;
	unsigned int __state;
	int on_cpu;
	unsigned long nvcsw;
	unsigned long nivcsw;
	int exit_state;
} CORE;

char LICENSE[] SEC("license") = "GPL";

static __always_inline void read_registers(
	struct task_struct *task, struct stack_thread_record *record)
{
	struct pt_regs *from = (struct pt_regs *)bpf_task_pt_regs(task);

#if defined(__TARGET_ARCH_x86)
	record->registers[0] = from->ax;
	record->registers[1] = from->dx;
	record->registers[2] = from->cx;
	record->registers[3] = from->bx;
	record->registers[4] = from->si;
	record->registers[5] = from->di;
	record->registers[6] = from->bp;
	record->registers[7] = from->sp;
	record->registers[8] = from->r8;
	record->registers[9] = from->r9;
	record->registers[10] = from->r10;
	record->registers[11] = from->r11;
	record->registers[12] = from->r12;
	record->registers[13] = from->r13;
	record->registers[14] = from->r14;
	record->registers[15] = from->r15;
	record->registers[16] = from->ip;
	record->arguments[0] = from->di;
	record->arguments[1] = from->si;
	record->arguments[2] = from->dx;
	record->arguments[3] = from->r10;
	record->arguments[4] = from->r8;
	record->arguments[5] = from->r9;
	record->call = from->orig_ax;
#else
	for (int i = 0; i < STACK_ARGUMENTS; i++)
		record->arguments[i] = from->regs[i];
	record->call = (__u64)(long)from->syscallno;
#endif
}

/* As visible_tid(), which compilers make one load of here, from either place: the verifier refuses that. */
static __always_inline __u32 own_tid(struct task_struct *task)
{
	struct upid number;

	if (!namespace_level)
		return BPF_CORE_READ(task, pid);
	return read_number(task, namespace_level, &number) ? (__u32)number.nr : 0;
}

SEC("iter/task")
int look_at_thread(struct bpf_iter__task___stacks *ctx)
{
	struct task_struct *task = ctx->task, *reader = bpf_get_current_task_btf();
	struct task_struct___stacks *more = (void *)task;
	struct stack_thread_record record = {};
	struct upid inner;

	if (!task || more->exit_state) /* a zombie is no thread any more */
		return 0;
	namespace_level = reader->thread_pid->level;
	record.tid = own_tid(task);
	if (read_number(task, BPF_CORE_READ(task, thread_pid, level), &inner))
		record.inner_tid = (__u32)inner.nr;
	record.switches = more->nvcsw + more->nivcsw;
	if (bpf_core_field_exists(more->__state))
		record.state = more->__state;
	record.on_cpu = bpf_core_field_exists(more->on_cpu) ? (__u32)more->on_cpu : 0;
	record.displaced = !record.on_cpu && !record.state &&
			   more->thread_info.cpu == bpf_get_smp_processor_id();
	bpf_probe_read_kernel(record.name, sizeof(record.name), task->comm);
	read_registers(task, &record);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

/*
 * The kernel's own frames of threads in uninterruptible sleep, by name, as text: a line "#TID", then one for each, the
 * innermost first.
 */
SEC("iter/task")
int look_at_sleeper(struct bpf_iter__task___stacks *ctx)
{
	struct task_struct *task = ctx->task, *reader = bpf_get_current_task_btf();
	struct task_struct___stacks *more = (void *)task;
	__u64 frames[STACK_KERNEL_FRAMES] = {};
	__u32 state = 0;
	long bytes;

	if (!task || more->exit_state)
		return 0;
	namespace_level = reader->thread_pid->level;
	if (bpf_core_field_exists(more->__state))
		state = more->__state;
	if (!(state & STACK_TASK_UNINTERRUPTIBLE))
		return 0;
	bytes = bpf_get_task_stack(task, frames, sizeof(frames), 0);
	if (bytes <= 0)
		return 0;
	BPF_SEQ_PRINTF(ctx->meta->seq, "#%u\n", own_tid(task));
	for (int i = 0; i < STACK_KERNEL_FRAMES; i++) {
		if (!frames[i])
			break;
		BPF_SEQ_PRINTF(ctx->meta->seq, "%pB\n", frames[i]);
	}
	return 0;
}
