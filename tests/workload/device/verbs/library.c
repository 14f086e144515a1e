/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stand-in of libibverbs.so.1: two devices; loads its provider when the first one is opened.
 * Exports under the real library's symbol versions.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/workload/device/verbs/provider.h"

#define EXPORT __attribute__((visibility("default")))

static struct ibv_device devices[2] = {
	{.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "stand_in_0"},
	{.node_type = IBV_NODE_CA, .transport_type = IBV_TRANSPORT_IB, .name = "stand_in_1"},
};
static const struct stand_in_provider *provider;

/* Beside this library. */
static const struct stand_in_provider *load_provider(void)
{
	const struct stand_in_provider *(*entry)(void);
	char path[PATH_MAX];
	Dl_info own;
	void *library;

	if (!dladdr(devices, &own))
		return NULL;
	snprintf(path, sizeof(path), "%.*s/libstand_in-rdmav34.so",
		(int)(strrchr(own.dli_fname, '/') - own.dli_fname), own.dli_fname);
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		return NULL;
	*(void **)&entry = dlsym(library, STAND_IN_PROVIDER_ENTRY);
	return entry ? entry() : NULL;
}

#undef ibv_get_device_list
EXPORT struct ibv_device **ibv_get_device_list(int *count)
{
	struct ibv_device **list = calloc(3, sizeof(struct ibv_device *));

	if (!list)
		return NULL;
	list[0] = &devices[0];
	list[1] = &devices[1];
	if (count)
		*count = 2;
	return list;
}

EXPORT void ibv_free_device_list(struct ibv_device **list)
{
	free(list);
}

EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	if (!provider)
		provider = load_provider();
	if (!provider) {
		errno = ENOSYS;
		return NULL;
	}
	return provider->open(device);
}

EXPORT int ibv_close_device(struct ibv_context *context)
{
	return provider->close(context);
}

EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	struct ibv_pd *pd = calloc(1, sizeof(*pd));

	if (pd)
		pd->context = context;
	return pd;
}

EXPORT int ibv_dealloc_pd(struct ibv_pd *pd)
{
	free(pd);
	return 0;
}

EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *context, int entry_count, void *cq_context,
	struct ibv_comp_channel *channel, int vector)
{
	struct ibv_cq *cq = provider->create_cq(context, entry_count);

	(void)vector;
	if (cq) {
		cq->cq_context = cq_context;
		cq->channel = channel;
	}
	return cq;
}

EXPORT int ibv_destroy_cq(struct ibv_cq *cq)
{
	return provider->destroy_cq(cq);
}

EXPORT struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *options)
{
	return provider->create_qp(pd, options);
}

EXPORT int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attributes, int mask)
{
	return provider->modify_qp(qp, attributes, mask);
}

EXPORT int ibv_destroy_qp(struct ibv_qp *qp)
{
	return provider->destroy_qp(qp);
}

EXPORT void stand_in_set_delay(struct ibv_context *context, uint64_t delay_ns)
{
	provider->set_delay(context, delay_ns);
}
