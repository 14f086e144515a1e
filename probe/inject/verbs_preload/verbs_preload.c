/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libslowrank_verbs.so: the verbs wrappers as a library of their own, for LD_PRELOAD. Besides
 * changing the symbol table (verbs_wrap.h) it exports the functions by name, under libibverbs'
 * versions, because programs linked with -z now look them up before any constructor runs.
 */
#include "probe/inject/verbs_wrap.h"

#define EXPORT __attribute__((visibility("default")))

void *ibv_open_device(void *device);
void *ibv_import_device(int fd);
int ibv_close_device(struct verbs_abi_context *context);
void *ibv_create_cq(struct verbs_abi_context *context, int entry_count, void *cq_context,
	void *channel, int vector);
void *ibv_create_qp(void *pd, void *options);
int ibv_modify_qp(void *qp, void *attributes, int mask);
int ibv_destroy_qp(void *qp);
int ibv_destroy_cq(void *cq);

__attribute__((constructor)) static void start(void)
{
	/* What is not taken over is not counted, and that is all. */
	(void)!verbs_wrap_start_where_used(false);
}

EXPORT void *ibv_open_device(void *device)
{
	start(); /* another library's constructor may come before ours */
	return verbs_wrap_open_device(device);
}

EXPORT void *ibv_import_device(int fd)
{
	start();
	return verbs_wrap_import_device(fd);
}

EXPORT int ibv_close_device(struct verbs_abi_context *context)
{
	return verbs_wrap_close_device(context);
}

EXPORT void *ibv_create_cq(struct verbs_abi_context *context, int entry_count, void *cq_context,
	void *channel, int vector)
{
	return verbs_wrap_create_cq(context, entry_count, cq_context, channel, vector);
}

EXPORT void *ibv_create_qp(void *pd, void *options)
{
	return verbs_wrap_create_qp(pd, options);
}

EXPORT int ibv_modify_qp(void *qp, void *attributes, int mask)
{
	return verbs_wrap_modify_qp(qp, attributes, mask);
}

EXPORT int ibv_destroy_qp(void *qp)
{
	return verbs_wrap_destroy_qp(qp);
}

EXPORT int ibv_destroy_cq(void *cq)
{
	return verbs_wrap_destroy_cq(cq);
}
