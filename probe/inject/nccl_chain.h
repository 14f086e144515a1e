/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The user's own profiler plug-in behind ours. NCCL has one place for a plug-in; `slowrank run` takes it
 * and leaves the user's choice in RING_USER_PLUGIN_VARIABLE. Here it is loaded by NCCL's own rules, and
 * told everything that it asked for, in its own handles, as if it were alone. Any thread.
 *
 * NCCL asks for its newest table first and goes on to older ones, which it translates for. So a version
 * is answered for only where both sides know it (or a translation is no more than a filter: 6 to 5 to 4).
 * What is ours alone to lose is lost: a plug-in of version 2 or 3 costs the device times, and one of
 * another version, which we do not know, gets its place for itself.
 *
 * The user's plug-in stays loaded: its late events would else end in unmapped code. It is chained for one
 * NCCL; should a process have a second one with another version, that one gets the user's plug-in alone.
 */
#ifndef SLOWRANK_PROBE_INJECT_NCCL_CHAIN_H
#define SLOWRANK_PROBE_INJECT_NCCL_CHAIN_H

/* What dlsym() of ncclProfiler_vVERSION gives: own (NULL: this version is not served), or in its place what
 * passes everything on, or the user's; NULL: nothing of this version. */
const void *nccl_chain_table(int version, const void *own);

/* What both ask for becomes what NCCL is asked for: either may change its mind. The helper's. */
void nccl_chain_refresh(void);

#endif
