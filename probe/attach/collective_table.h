/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of collectives: which library, which symbol, which operation, where its
 * arguments are, whether the call blocks. bpf_source turns a row into uprobes; its index is
 * the row number in events. Constant data.
 */
#ifndef SLOWRANK_PROBE_ATTACH_COLLECTIVE_TABLE_H
#define SLOWRANK_PROBE_ATTACH_COLLECTIVE_TABLE_H

#include "analysis/step.h"

enum row_kind {
	ROW_COLLECTIVE = 1, /* joins an instance on its communicator */
	ROW_COMM_CALL =
		2, /* point-to-point or completion: its time is communication, not own work */
	ROW_COMMUNICATOR = 3, /* makes, splits or frees a communicator */
	ROW_RANK = 4,	      /* tells a rank or a size */
	ROW_MARKER = 5,	      /* step marker */
	ROW_COLLECTOR = 7,    /* garbage collection of the program's runtime begins or ends */
	ROW_DEVICE_WAIT = 6,  /* waits for the device: its time is not the host's own */
	ROW_LAUNCH = 8,	      /* gives the device work; hooked in short windows only */
	ROW_STREAM_WAIT = 9,  /* makes a stream wait for an event; hooked where it is needed */
};

enum row_library {
	ROW_LIBRARY_MPI = 1,
	ROW_LIBRARY_NCCL = 2, /* and RCCL: same names, same arguments */
	ROW_LIBRARY_MARKER = 3,
	ROW_LIBRARY_NVTX = 4,
	ROW_LIBRARY_CUDA = 5,	      /* the driver, libcuda */
	ROW_LIBRARY_CUDA_RUNTIME = 6, /* libcudart */
	ROW_LIBRARY_PYTHON = 7,	      /* static probes of CPython, where it was built with them */
};

#define ROW_ARGUMENT_NONE (-1)

struct collective_row {
	const char *
		symbol; /* e.g. "MPI_Allreduce"; the P-variant is the same address, never attached */
	uint8_t library;   /* enum row_library */
	uint8_t kind;	   /* enum row_kind */
	uint8_t operation; /* enum operation */
	uint8_t blocking;  /* 1: entry and return are hooked; 0: entry only, enqueue time */
	/* Argument positions from 0, or ROW_ARGUMENT_NONE. */
	int8_t count, datatype, root, communicator, stream;
	/* For ROW_COMMUNICATOR and ROW_RANK: where the result pointer, colour, key are. */
	int8_t result, color, key;
	uint8_t action; /* enum row_action */
};

enum row_action {
	ROW_ACTION_NONE = 0,
	/* ncclCommInitRank: unique id by value on the stack, or, where color has a position, at the
	 * address in that argument; count is the number of ranks, key the own rank */
	ROW_ACTION_CREATE_UNIQUE_ID = 1,
	ROW_ACTION_CREATE_ALL = 2,   /* ncclCommInitAll */
	ROW_ACTION_SPLIT = 3,	     /* colour and key */
	ROW_ACTION_DUPLICATE = 4,    /* MPI_Comm_dup and kin: every member, no colour */
	ROW_ACTION_CREATE_GROUP = 5, /* MPI_Comm_create and kin: by group; members agree by order */
	ROW_ACTION_FREE = 6,
	ROW_ACTION_RANK = 7,
	ROW_ACTION_SIZE = 8,
	ROW_ACTION_MARK_BEGIN = 9,
	ROW_ACTION_MARK_END = 10,
	ROW_ACTION_NVTX_PUSH = 11,
	ROW_ACTION_NVTX_POP = 12,
	ROW_ACTION_WAIT_ALL = 13,    /* for all that was launched */
	ROW_ACTION_WAIT_STREAM = 14, /* for all that was launched on a stream (0: the default one) */
	ROW_ACTION_GRAPH = 15,	    /* launches many kernels at once */
};

extern const struct collective_row collective_rows[];
extern const size_t collective_row_count;

/* Bytes of one element of the library's datatype argument; 0 = unknown (derived types). The
 * argument is the value passed: an enum for NCCL, a handle for MPICH, an address for Open MPI. */
size_t collective_datatype_bytes(const struct collective_row *row, uint64_t datatype);

#endif
