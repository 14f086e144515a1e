/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Own declarations of the profiler interface against NCCL's headers, whichever of its versions these
 * have: compiled by scripts/check_nccl_headers.sh, never run.
 */
#include <sys/types.h>

#include "err.h"

#include "profiler.h"

#include "probe/inject/nccl_abi.h"

/* A field of a descriptor or a table: the same place, the same size. */
#define SAME(own, own_field, vendor, vendor_field)                                                 \
	_Static_assert(offsetof(struct own, own_field) == offsetof(vendor, vendor_field) &&        \
			       sizeof(((struct own *)0)->own_field) ==                             \
				       sizeof(((vendor *)0)->vendor_field),                        \
		#vendor "." #vendor_field)
#define EQUAL(own, vendor) _Static_assert((int)(own) == (int)(vendor), #vendor)

#define SAME_HEAD(own, vendor)                                                                     \
	SAME(own, type, vendor, type);                                                             \
	SAME(own, parent, vendor, parentObj);                                                      \
	SAME(own, rank, vendor, rank)

#define SAME_TABLE(own, vendor)                                                                    \
	_Static_assert(sizeof(struct own) == sizeof(vendor), #vendor);                             \
	SAME(own, name, vendor, name);                                                             \
	SAME(own, init, vendor, init);                                                             \
	SAME(own, start_event, vendor, startEvent);                                                \
	SAME(own, stop_event, vendor, stopEvent);                                                  \
	SAME(own, record_event_state, vendor, recordEventState);                                   \
	SAME(own, finalize, vendor, finalize)

#define SAME_OLD(own, vendor)                                                                      \
	SAME_HEAD(own, vendor);                                                                    \
	SAME(own, collective.communicator_hash, vendor, coll.commHash);                            \
	SAME(own, collective.sequence, vendor, coll.seqNumber);                                    \
	SAME(own, collective.function, vendor, coll.func);                                         \
	SAME(own, collective.count, vendor, coll.count);                                           \
	SAME(own, collective.root, vendor, coll.root);                                             \
	SAME(own, collective.datatype, vendor, coll.datatype);                                     \
	SAME(own, collective.channels_max, vendor, coll.nMaxChannels);                             \
	SAME(own, point_to_point.communicator_hash, vendor, p2p.commHash);                         \
	SAME(own, point_to_point.function, vendor, p2p.func);                                      \
	SAME(own, point_to_point.datatype, vendor, p2p.datatype);                                  \
	SAME(own, point_to_point.count, vendor, p2p.count);                                        \
	SAME(own, point_to_point.peer, vendor, p2p.peer)

#define SAME_TASKS(own, vendor, common)                                                            \
	SAME_HEAD(own, vendor);                                                                    \
	SAME(own, collective.common sequence, vendor, coll.seqNumber);                             \
	SAME(own, collective.common function, vendor, coll.func);                                  \
	SAME(own, collective.common count, vendor, coll.count);                                    \
	SAME(own, collective.common root, vendor, coll.root);                                      \
	SAME(own, collective.common datatype, vendor, coll.datatype);                              \
	SAME(own, collective.common channels, vendor, coll.nChannels);                             \
	SAME(own, point_to_point.common function, vendor, p2p.func);                               \
	SAME(own, point_to_point.common datatype, vendor, p2p.datatype);                           \
	SAME(own, point_to_point.common count, vendor, p2p.count);                                 \
	SAME(own, point_to_point.common peer, vendor, p2p.peer);                                   \
	SAME(own, point_to_point.common channels, vendor, p2p.nChannels);                          \
	SAME(own, kernel_channel.channel, vendor, kernelCh.channelId);                             \
	SAME(own, kernel_channel.timer, vendor, kernelCh.pTimer)

#define SAME_API(vendor)                                                                           \
	SAME(nccl_event_v5, collective.group, vendor, coll.parentGroup);                           \
	SAME(nccl_event_v5, point_to_point.group, vendor, p2p.parentGroup);                        \
	SAME(nccl_event_v5, collective_api.function, vendor, collApi.func);                        \
	SAME(nccl_event_v5, collective_api.graph_captured, vendor, collApi.graphCaptured);         \
	SAME(nccl_event_v5, point_to_point_api.graph_captured, vendor, p2pApi.graphCaptured)

EQUAL(NCCL_EVENT_GROUP, ncclProfileGroup);
EQUAL(NCCL_EVENT_COLLECTIVE, ncclProfileColl);
EQUAL(NCCL_EVENT_POINT_TO_POINT, ncclProfileP2p);
EQUAL(NCCL_EVENT_PROXY_OPERATION, ncclProfileProxyOp);
EQUAL(NCCL_EVENT_PROXY_STEP, ncclProfileProxyStep);
EQUAL(NCCL_EVENT_PROXY_CONTROL, ncclProfileProxyCtrl);

#if HEADERS_VERSION >= 2
SAME_OLD(nccl_event_v2, ncclProfilerEventDescr_v2_t);
SAME_TABLE(nccl_profiler_v2, ncclProfiler_v2_t);
#endif
#if HEADERS_VERSION >= 3
EQUAL(NCCL_EVENT_KERNEL_CHANNEL, ncclProfileKernelCh);
EQUAL(NCCL_EVENT_NET_PLUGIN, ncclProfileNetPlugin);
SAME_OLD(nccl_event_v3, ncclProfilerEventDescr_v3_t);
SAME_TABLE(nccl_profiler_v2, ncclProfiler_v3_t);
#endif
#if HEADERS_VERSION >= 4
EQUAL(NCCL_STATE_KERNEL_CHANNEL_STOP, ncclProfilerKernelChStop);
SAME_TASKS(nccl_event_v4, ncclProfilerEventDescr_v4_t, );
SAME_TABLE(nccl_profiler_v4, ncclProfiler_v4_t);
_Static_assert(offsetof(union nccl_state_arguments, kernel_channel.timer) ==
		       offsetof(ncclProfilerEventStateArgs_v4_t, kernelCh.pTimer),
	"kernelCh.pTimer of the state");
#endif
#if HEADERS_VERSION >= 5
EQUAL(NCCL_EVENT_GROUP_API, ncclProfileGroupApi);
EQUAL(NCCL_EVENT_COLLECTIVE_API, ncclProfileCollApi);
EQUAL(NCCL_EVENT_POINT_TO_POINT_API, ncclProfileP2pApi);
EQUAL(NCCL_EVENT_KERNEL_LAUNCH, ncclProfileKernelLaunch);
SAME_TASKS(nccl_event_v5, ncclProfilerEventDescr_v5_t, common.);
SAME_API(ncclProfilerEventDescr_v5_t);
SAME_TABLE(nccl_profiler_v5, ncclProfiler_v5_t);
#endif
#if HEADERS_VERSION >= 6
EQUAL(NCCL_EVENT_COPY_ENGINE_COLLECTIVE, ncclProfileCeColl);
EQUAL(NCCL_EVENT_COPY_ENGINE_SYNCHRONISATION, ncclProfileCeSync);
EQUAL(NCCL_EVENT_COPY_ENGINE_BATCH, ncclProfileCeBatch);
SAME_TASKS(nccl_event_v5, ncclProfilerEventDescr_v6_t, common.);
SAME_API(ncclProfilerEventDescr_v6_t);
SAME(nccl_event_v5, copy_engine.sequence, ncclProfilerEventDescr_v6_t, ceColl.seqNumber);
SAME(nccl_event_v5, copy_engine.function, ncclProfilerEventDescr_v6_t, ceColl.func);
SAME(nccl_event_v5, copy_engine.count, ncclProfilerEventDescr_v6_t, ceColl.count);
SAME(nccl_event_v5, copy_engine.root, ncclProfilerEventDescr_v6_t, ceColl.root);
SAME(nccl_event_v5, copy_engine.datatype, ncclProfilerEventDescr_v6_t, ceColl.datatype);
SAME_TABLE(nccl_profiler_v5, ncclProfiler_v6_t);
#endif
#if HEADERS_VERSION >= 7 /* a proposal: 6 with one event more */
SAME_TASKS(nccl_event_v5, ncclProfilerEventDescr_v7_t, common.);
SAME_API(ncclProfilerEventDescr_v7_t);
SAME_TABLE(nccl_profiler_v5, ncclProfiler_v7_t);
#endif
