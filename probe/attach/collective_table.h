/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one table of collectives: which library, which symbol, which operation, where its
 * arguments are, whether the call blocks. bpf_source turns a row into uprobes; its index is
 * the row number in events. Constant data.
 */
#ifndef SLOWRANK_PROBE_ATTACH_COLLECTIVE_TABLE_H
#define SLOWRANK_PROBE_ATTACH_COLLECTIVE_TABLE_H

#include <stdbool.h>

#include "analysis/base/step.h"

enum row_kind {
	ROW_COLLECTIVE = 1, /* joins an instance on its communicator */
	ROW_COMM_CALL =
		2, /* point-to-point or completion: its time is communication, not own work */
	ROW_COMMUNICATOR = 3, /* makes, splits or frees a communicator, or a group of ranks */
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
	ROW_LIBRARY_HIP = 8,	      /* ROCm's runtime, which is its driver's library, too */
	ROW_LIBRARY_NR
};

enum { ROW_LIBRARY_FILES_MAX = 5 };

/*
 * What sets a library apart: nothing else in the code asks which one it is. What a row does not name, the
 * library has not.
 */
struct library_traits {
	const char *name; /* of all that share these rows, as its users know them */
	const char *files[ROW_LIBRARY_FILES_MAX]; /* patterns of the files that hold its symbols */
	/*
	 * A collective's call returns before it is done: the device does it. The host sees the end in the
	 * next wait for the device, a ROW_DEVICE_WAIT of whichever library, by a thread that was seen to
	 * launch (ROW_LAUNCH).
	 */
	bool on_device;
	bool device_times;    /* the in-process library tells when the device did it */
	bool found_in_memory; /* communicators older than an attach: communicator_memory.h */
	bool has_objects; /* communicators and datatypes are known by its objects: mpi_objects.h */
	bool int_counts;  /* counts are ints, not size_t */
	/* Bytes of one element of a datatype; 0 = unknown. NULL: its functions have no datatypes. */
	size_t (*datatype_bytes)(uint64_t datatype);
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
	/*
	 * For ROW_COMMUNICATOR and ROW_RANK: where the result pointer, colour, key are. Where groups
	 * or grids make it: colour is the group, key the tag, the second group or the list of ints,
	 * count the list's length.
	 */
	int8_t result, color, key;
	uint8_t action; /* enum row_action */
};

enum row_action {
	ROW_ACTION_NONE = 0,
	/* ncclCommInitRank: unique id by value on the stack, or, where color has a position, at the
	 * address in that argument; count is the number of ranks, key the own rank */
	ROW_ACTION_CREATE_UNIQUE_ID = 1,
	ROW_ACTION_CREATE_ALL = 2, /* ncclCommInitAll */
	ROW_ACTION_SPLIT = 3,	   /* colour and key */
	ROW_ACTION_DUPLICATE = 4,  /* MPI_Comm_dup and kin: every member, with its rank */
	/* MPI_Comm_create: all members of the parent call, each with the group that it is in */
	ROW_ACTION_CREATE_BY_GROUP = 5,
	ROW_ACTION_FREE = 6,
	ROW_ACTION_RANK = 7,
	ROW_ACTION_SIZE = 8,
	ROW_ACTION_MARK_BEGIN = 9,
	ROW_ACTION_MARK_END = 10,
	ROW_ACTION_NVTX_PUSH = 11,
	ROW_ACTION_NVTX_POP = 12,
	ROW_ACTION_WAIT_ALL = 13, /* for all that was launched */
	/* for all that was launched on a stream (0: the default one) */
	ROW_ACTION_WAIT_STREAM = 14,
	ROW_ACTION_GRAPH = 15, /* launches many kernels at once */
	/* Its members alone call it: with their group and a tag, or with a list of who is left out */
	ROW_ACTION_CREATE_IN_GROUP = 16,
	ROW_ACTION_CREATE_OTHER = 17, /* who its members are cannot be known from here */
	ROW_ACTION_SPLIT_TYPE = 18,
	ROW_ACTION_TOPOLOGY = 19, /* MPI_Graph_create and kin: every member that gets one */
	ROW_ACTION_GRID = 20,	  /* MPI_Cart_create; colour: may ranks be reordered */
	ROW_ACTION_SUBGRID = 21,  /* MPI_Cart_sub */
	ROW_ACTION_GROUP_OF = 22, /* MPI_Comm_group */
	ROW_ACTION_GROUP_INCLUDE = 23,
	ROW_ACTION_GROUP_EXCLUDE = 24,
	ROW_ACTION_GROUP_RANGES = 25,
	ROW_ACTION_GROUP_COMBINE = 26, /* of two groups */
	ROW_ACTION_GROUP_FREE = 27,
	/* ncclSend, ncclRecv: root is the peer */
	ROW_ACTION_SEND = 28,
	ROW_ACTION_RECEIVE = 29,
};

/* By enum row_library; the one with number 0 is nobody's. */
extern const struct library_traits collective_libraries[ROW_LIBRARY_NR];

static inline const struct library_traits *collective_library(const struct collective_row *row)
{
	return &collective_libraries[row->library];
}

enum { COLLECTIVE_NAMES_LENGTH = 128 };

/* The libraries with collectives: "MPI, NCCL, RCCL". Cut where they are too many. */
void collective_library_names(char names[COLLECTIVE_NAMES_LENGTH]);

/* The list that a row's key points to: ints in one of its entries; 0 = there is no list. */
size_t collective_list_ints(const struct collective_row *row);

/* A send to or a receive from one rank, enqueued for a device. */
bool collective_is_message(const struct collective_row *row);

/* Makes or frees a group of ranks. */
bool collective_makes_group(const struct collective_row *row);
/* That, or makes a communicator from one. */
bool collective_is_by_group(const struct collective_row *row);

extern const struct collective_row collective_rows[];
extern const size_t collective_row_count;

/* Bytes of one element of the library's datatype argument; 0 = unknown (derived types). The
 * argument is the value passed: an enum for NCCL, a handle for MPICH, an address for Open MPI. */
size_t collective_datatype_bytes(const struct collective_row *row, uint64_t datatype);

#endif
