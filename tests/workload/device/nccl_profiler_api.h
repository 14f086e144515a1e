/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own declarations of NCCL's profiler interface from NCCL's side, with the names of the public
 * headers profiler_v2.h to profiler_v6.h. Not shared with probe/inject: two readings of the same
 * headers check each other.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_DEVICE_NCCL_PROFILER_API_H
#define SLOWRANK_TESTS_WORKLOAD_DEVICE_NCCL_PROFILER_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
	ncclProfileGroup = (1 << 0),
	ncclProfileColl = (1 << 1),
	ncclProfileP2p = (1 << 2),
	ncclProfileProxyOp = (1 << 3),
	ncclProfileProxyStep = (1 << 4),
	ncclProfileKernelCh = (1 << 6),
	ncclProfileGroupApi = (1 << 8),
	ncclProfileCollApi = (1 << 9),
	ncclProfileP2pApi = (1 << 10),
	ncclProfilerKernelChStop = 22,
};

#define PROXY_OP_MEMBER                                                                            \
	struct {                                                                                   \
		pid_t pid;                                                                         \
		uint8_t channelId;                                                                 \
		int peer, nSteps, chunkSize, isSend;                                               \
	} proxyOp

typedef struct {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t commHash, seqNumber;
			const char *func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			size_t trafficBytes;
			uint8_t nMaxChannels, nWarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *name;
			uint64_t commHash;
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
		} p2p;
		PROXY_OP_MEMBER;
	};
} ncclProfilerEventDescr_v2_t;

typedef struct {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			const char *name;
			uint64_t commHash, seqNumber;
			const char *func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			uint8_t nMaxChannels, nWarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *name;
			uint64_t commHash;
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
		} p2p;
		PROXY_OP_MEMBER;
	};
} ncclProfilerEventDescr_v3_t;

typedef struct {
	uint8_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			uint64_t seqNumber;
			const char *func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			uint8_t nChannels, nWarps;
			const char *algo, *proto;
		} coll;
		struct {
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t nChannels;
		} p2p;
		PROXY_OP_MEMBER;
		struct {
			uint8_t channelId;
			uint64_t pTimer;
		} kernelCh;
	};
} ncclProfilerEventDescr_v4_t;

typedef struct {
	uint64_t type;
	void *parentObj;
	int rank;
	union {
		struct {
			bool graphCaptured;
			int groupDepth;
		} groupApi;
		struct {
			const char *func;
			size_t count;
			const char *datatype;
			int root;
			void *stream;
			bool graphCaptured;
		} collApi;
		struct {
			const char *func;
			size_t count;
			const char *datatype;
			void *stream;
			bool graphCaptured;
		} p2pApi;
		struct {
			uint64_t seqNumber;
			const char *func;
			void const *sendBuff;
			void *recvBuff;
			size_t count;
			int root;
			const char *datatype;
			uint8_t nChannels, nWarps;
			const char *algo, *proto;
			void *parentGroup;
		} coll;
		struct {
			const char *func;
			void *buff;
			const char *datatype;
			size_t count;
			int peer;
			uint8_t nChannels;
			void *parentGroup;
		} p2p;
		PROXY_OP_MEMBER;
		struct {
			uint8_t channelId;
			uint64_t pTimer;
		} kernelCh;
	};
} ncclProfilerEventDescr_v5_t; /* v6: the same, with copy-engine events behind */

typedef union {
	struct {
		size_t transSize;
	} proxyStep;
	struct {
		uint64_t pTimer;
	} kernelCh;
} ncclProfilerEventStateArgs_t; /* v4 to v6 */

typedef void (*ncclDebugLogger_t)(
	int level, unsigned long flags, const char *file, int line, const char *format, ...);

typedef struct { /* v2 and v3 */
	const char *name;
	int (*init)(void **context, int *eActivationMask);
	int (*startEvent)(void *context, void **eHandle, void *eDescr);
	int (*stopEvent)(void *eHandle);
	int (*recordEventState)(void *eHandle, int eState, void *eStateArgs);
	int (*finalize)(void *context);
} ncclProfiler_v2_t;

typedef struct {
	const char *name;
	int (*init)(void **context, int *eActivationMask, const char *commName, uint64_t commHash,
		int nNodes, int nranks, int rank, ncclDebugLogger_t logfn);
	int (*startEvent)(void *context, void **eHandle, void *eDescr);
	int (*stopEvent)(void *eHandle);
	int (*recordEventState)(void *eHandle, int eState, void *eStateArgs);
	int (*finalize)(void *context);
} ncclProfiler_v4_t;

typedef struct { /* v5 and v6 */
	const char *name;
	int (*init)(void **context, uint64_t commId, int *eActivationMask, const char *commName,
		int nNodes, int nranks, int rank, ncclDebugLogger_t logfn);
	int (*startEvent)(void *context, void **eHandle, void *eDescr);
	int (*stopEvent)(void *eHandle);
	int (*recordEventState)(void *eHandle, int eState, void *eStateArgs);
	int (*finalize)(void *context);
} ncclProfiler_v5_t;

#endif
