/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/load_stub.h"

#if defined(__x86_64__)

/*
 * Offsets are those of struct load_block (asserted in the header). System calls by number:
 * 3 close, 15 rt_sigreturn, 24 sched_yield, 35 nanosleep, 319 memfd_create. The stopped thread
 * waits by sched_yield(): a sleep would overwrite what the kernel keeps of an interrupted one.
 */
__asm__(".pushsection .rodata\n"
	".globl load_stub_start\n"
	".hidden load_stub_start\n"
	".globl load_stub_end\n"
	".hidden load_stub_end\n"
	"load_stub_start:\n"
	/* On the stopped thread. errno stays what it was. */
	"	cld\n"
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
	"	mov $4000000, %r14d\n" /* some seconds */
	"2:	mov $24, %eax\n"
	"	syscall\n"
	"	dec %r14d\n"
	"	jnz 2b\n"
	"	mov 112(%rbx), %rsp\n" /* nobody restores us: go back alone */
	"	mov $15, %eax\n"
	"	syscall\n"
	"	ud2\n"
	/* The new thread: rdi = the block. Signals are blocked, as they were where it was made. */
	"10:	push %rbx\n"
	"	push %r12\n"
	"	push %r13\n"
	"	mov %rdi, %rbx\n"
	"	lea 640(%rbx), %rdi\n"
	"	mov $0x11, %esi\n" /* MFD_CLOEXEC | MFD_EXEC */
	"	mov $319, %eax\n"
	"	syscall\n"
	"	cmp $-22, %eax\n" /* before Linux 6.3 there is no MFD_EXEC */
	"	jne 11f\n"
	"	lea 640(%rbx), %rdi\n"
	"	mov $1, %esi\n"
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
	"22:	cmpl $0, 100(%rbx)\n"
	"	jne 23f\n"
	"	lea 30f(%rip), %rdi\n"
	"	xor %esi, %esi\n"
	"	mov $35, %eax\n"
	"	syscall\n"
	"	dec %r12d\n"
	"	jnz 22b\n"
	"	pop %r13\n" /* the loader is gone: the mapping stays */
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

const unsigned char load_stub_start[1], load_stub_end[1];

#endif
