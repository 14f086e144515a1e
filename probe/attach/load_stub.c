/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_stub.h"

#if defined(__x86_64__)

/*
 * Offsets are those of struct load_block (asserted in the header). System calls by number:
 * 3 close, 14 rt_sigprocmask, 24 sched_yield, 35 nanosleep, 228 clock_gettime, 319 memfd_create. The
 * stopped thread waits by sched_yield(): a sleep would overwrite what the kernel keeps of an
 * interrupted one.
 */

/* rsp: struct load_frame. Its end is the red zone's, which is stepped over. */
#define PUT_BACK                                                                                   \
	"	mov $14, %eax\n"                                                                         \
	"	mov $2, %edi\n" /* SIG_SETMASK */                                                  \
	"	mov %rsp, %rsi\n"                                                                        \
	"	xor %edx, %edx\n"                                                                        \
	"	mov $8, %r10d\n"                                                                         \
	"	syscall\n"                                                                               \
	"	pop %rax\n"                                                                              \
	"	pop %r15\n"                                                                              \
	"	pop %r14\n"                                                                              \
	"	pop %r13\n"                                                                              \
	"	pop %r12\n"                                                                              \
	"	pop %rbp\n"                                                                              \
	"	pop %rbx\n"                                                                              \
	"	pop %r11\n"                                                                              \
	"	pop %r10\n"                                                                              \
	"	pop %r9\n"                                                                               \
	"	pop %r8\n"                                                                               \
	"	pop %rcx\n"                                                                              \
	"	pop %rdx\n"                                                                              \
	"	pop %rsi\n"                                                                              \
	"	pop %rdi\n"                                                                              \
	"	pop %rax\n"                                                                              \
	"	popfq\n"                                                                                 \
	"	ret $128\n"

/* rax: nanoseconds of CLOCK_MONOTONIC. */
#define NOW                                                                                        \
	"	mov $1, %edi\n"                                                                          \
	"	mov %rsp, %rsi\n"                                                                        \
	"	mov $228, %eax\n"                                                                        \
	"	syscall\n"                                                                               \
	"	imul $1000000000, (%rsp), %rax\n"                                                        \
	"	add 8(%rsp), %rax\n"

__asm__(".pushsection .rodata\n"
	".globl load_gate_start\n"
	".hidden load_gate_start\n"
	".globl load_gate_end\n"
	".hidden load_gate_end\n"
	"load_gate_start:\n"
	"	syscall\n" PUT_BACK "load_gate_end:\n"
	".globl load_stub_start\n"
	".hidden load_stub_start\n"
	".globl load_stub_end\n"
	".hidden load_stub_end\n"
	"load_stub_start:\n"
	/* On the stopped thread. errno stays what it was. */
	"	cld\n"
	"	mov $14, %eax\n"
	"	mov $2, %edi\n"
	"	lea 704(%rbx), %rsi\n"
	"	xor %edx, %edx\n"
	"	mov $8, %r10d\n"
	"	syscall\n"
	"	call *24(%rbx)\n"
	"	mov %rax, %r12\n"
	"	mov (%rax), %r13d\n"
	"	lea 128(%rbx), %rdi\n"
	"	call *8(%rbx)\n"
	"	test %eax, %eax\n"
	"	jne 1f\n"
	"	lea 128(%rbx), %rdi\n"
	"	mov $1, %esi\n" /* PTHREAD_CREATE_DETACHED */
	"	call *16(%rbx)\n"
	"	lea 120(%rbx), %rdi\n"
	"	lea 128(%rbx), %rsi\n"
	"	lea 10f(%rip), %rdx\n"
	"	mov %rbx, %rcx\n"
	"	call *0(%rbx)\n"
	"1:	mov %eax, 84(%rbx)\n"
	"	mov %r13d, (%r12)\n"
	"	movl $1, 80(%rbx)\n"
	"	sub $16, %rsp\n" NOW "	lea 20000000(%rax), %r14\n" /* for 20 ms */
	"2:	mov $24, %eax\n"
	"	syscall\n" NOW "	cmp %r14, %rax\n"
	"	jl 2b\n"
	"	mov 712(%rbx), %eax\n" /* nobody restores us: go back alone */
	"	mov 716(%rbx), %edx\n"
	"	xrstor64 4096(%rbx)\n"
	"	mov 112(%rbx), %rsp\n" PUT_BACK
	/* The new thread: rdi = the block. Signals are blocked, as they were where it was made. */
	"10:	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	mov %rdi, %rbx\n"
	"	lea 640(%rbx), %rdi\n"
	"	mov $0x13, %esi\n" /* MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC */
	"	mov $319, %eax\n"
	"	syscall\n"
	"	cmp $-22, %eax\n" /* before Linux 6.3 there is no MFD_EXEC */
	"	jne 11f\n"
	"	lea 640(%rbx), %rdi\n"
	"	mov $3, %esi\n"
	"	mov $319, %eax\n"
	"	syscall\n"
	"11:	mov %eax, 92(%rbx)\n"
	"	movl $1, 88(%rbx)\n"
	"	mov $10000, %r12d\n"
	"12:	mov 96(%rbx), %eax\n"
	"	test %eax, %eax\n"
	"	jne 13f\n"
	"	lea 30f(%rip), %rdi\n"
	"	xor %esi, %esi\n"
	"	mov $35, %eax\n"
	"	syscall\n"
	"	dec %r12d\n"
	"	jnz 12b\n"
	"	jmp 20f\n"
	"13:	cmp $1, %eax\n"
	"	jne 20f\n"
	"	lea 192(%rbx), %rdi\n"
	"	mov $2, %esi\n" /* RTLD_NOW */
	"	call *32(%rbx)\n"
	"	test %rax, %rax\n"
	"	jz 15f\n"
	"	movl $1, 108(%rbx)\n"
	"	mov %rax, %rdi\n"
	"	lea 320(%rbx), %rsi\n"
	"	call *40(%rbx)\n"
	"	test %rax, %rax\n"
	"	jz 15f\n"
	"	call *%rax\n"
	"	mov %eax, 104(%rbx)\n"
	"	movl $2, 108(%rbx)\n"
	"	jmp 20f\n"
	"15:	call *48(%rbx)\n"
	"	test %rax, %rax\n"
	"	jz 20f\n"
	"	xor %ecx, %ecx\n"
	"16:	mov (%rax,%rcx), %dl\n"
	"	mov %dl, 384(%rbx,%rcx)\n"
	"	test %dl, %dl\n"
	"	jz 20f\n"
	"	inc %ecx\n"
	"	cmp $255, %ecx\n"
	"	jb 16b\n"
	"20:	mov 92(%rbx), %edi\n"
	"	test %edi, %edi\n"
	"	js 21f\n"
	"	mov $3, %eax\n"
	"	syscall\n"
	"21:	movl $2, 88(%rbx)\n"
	"	mov $10000, %r12d\n"
	"22:	cmpl $1, 100(%rbx)\n"
	"	je 23f\n"
	"	ja 24f\n"
	"	lea 30f(%rip), %rdi\n"
	"	xor %esi, %esi\n"
	"	mov $35, %eax\n"
	"	syscall\n"
	"	dec %r12d\n"
	"	jnz 22b\n"
	"24:	pop %r13\n" /* the mapping stays */
	"	pop %r12\n"
	"	pop %rbx\n"
	"	xor %eax, %eax\n"
	"	ret\n"
	/* munmap() returns to whom called us: this code is gone by then. */
	"23:	mov 56(%rbx), %rax\n"
	"	mov 64(%rbx), %rdi\n"
	"	mov 72(%rbx), %rsi\n"
	"	pop %r13\n"
	"	pop %r12\n"
	"	pop %rbx\n"
	"	jmp *%rax\n"
	"	.balign 8\n"
	"30:	.quad 0, 1000000\n" /* 1 ms */
	"load_stub_end:\n"
	".popsection\n");

#else

const unsigned char load_stub_start[1], load_stub_end[1], load_gate_start[1], load_gate_end[1];

#endif
