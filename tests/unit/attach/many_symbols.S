/* SPDX-License-Identifier: Apache-2.0 */
/* A library of 50,000 functions with long names, as C++ has them, and a few that slowrank looks for. */
	.altmacro
	.macro function number
	.globl _ZN2at6native12_GLOBAL__N_1_some_kernel_with_a_long_mangled_name_ILi\number\()EEEvRKNS_6TensorES5_NS_10ScalarTypeE
	.type _ZN2at6native12_GLOBAL__N_1_some_kernel_with_a_long_mangled_name_ILi\number\()EEEvRKNS_6TensorES5_NS_10ScalarTypeE, %function
_ZN2at6native12_GLOBAL__N_1_some_kernel_with_a_long_mangled_name_ILi\number\()EEEvRKNS_6TensorES5_NS_10ScalarTypeE:
	.skip 4
	.endm

	.text
	.set i, 0
	.rept 50000
	function %i
	.set i, i + 1
	.endr

	.globl ncclAllReduce
	.type ncclAllReduce, %function
ncclAllReduce:
	.ascii "ncclAllReduce..."
	.type ncclBroadcast, %function /* in .symtab only */
ncclBroadcast:
	.ascii "ncclBroadcast..."

	.data
	.globl ompi_mpi_comm_world
	.type ompi_mpi_comm_world, %object
ompi_mpi_comm_world:
	.quad 1

	.section .note.GNU-stack, "", %progbits
