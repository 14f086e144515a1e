/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/inject/cupti_detach.h"

/* CUDA 12.6: before it, the second start after a detach could crash programs with CUDA graphs. */
static const uint32_t version_least = 24;

enum detach_state { DETACH_NONE, DETACH_WANTED, DETACH_RUNNING, DETACH_DONE };

static struct {
	const struct cupti_abi *cupti;
	void *subscriber;
	uint32_t state; /* atomic, enum detach_state */
} detach;

void cupti_detach_callback(void *user, uint32_t domain, uint32_t id, const void *data)
{
	const struct cupti_abi_callback_data *call = data;
	uint32_t wanted = DETACH_WANTED;

	(void)user;
	(void)id;
	if (domain != CUPTI_ABI_DOMAIN_DRIVER && domain != CUPTI_ABI_DOMAIN_RUNTIME)
		return;
	if (call->site != CUPTI_ABI_SITE_EXIT ||
		!__atomic_compare_exchange_n(&detach.state, &wanted, DETACH_RUNNING, false,
			__ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return;
	(void)detach.cupti->unsubscribe(detach.subscriber);
	(void)detach.cupti->finalize();
	__atomic_store_n(&detach.state, DETACH_DONE, __ATOMIC_RELEASE);
}

static bool switch_domains(uint32_t on)
{
	int error = detach.cupti->enable_domain(on, detach.subscriber, CUPTI_ABI_DOMAIN_RUNTIME);

	if (error == CUPTI_ABI_SUCCESS)
		error = detach.cupti->enable_domain(on, detach.subscriber, CUPTI_ABI_DOMAIN_DRIVER);
	return error == CUPTI_ABI_SUCCESS;
}

bool cupti_detach_begin(const struct cupti_abi *cupti, void *subscriber)
{
	uint32_t version = 0;

	if (!cupti->finalize || !cupti->enable_domain || !cupti->version ||
		cupti->version(&version) != CUPTI_ABI_SUCCESS || version < version_least)
		return false;
	detach.cupti = cupti;
	detach.subscriber = subscriber;
	__atomic_store_n(&detach.state, DETACH_WANTED, __ATOMIC_RELEASE);
	return switch_domains(1) || !cupti_detach_cancel();
}

bool cupti_detach_is_done(void)
{
	return __atomic_load_n(&detach.state, __ATOMIC_ACQUIRE) == DETACH_DONE;
}

bool cupti_detach_cancel(void)
{
	uint32_t wanted = DETACH_WANTED;

	if (!__atomic_compare_exchange_n(
		    &detach.state, &wanted, DETACH_NONE, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
		return false;
	(void)switch_domains(0);
	return true;
}
