/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slow network: the fault injector shapes the link of the rank's node to a rate at which the
 * bytes that a step sends take the wanted time longer.
 */
#include "tests/workload/fault_means.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct comm_fault {
	const struct fault *fault;
	const char *injector_path;
	uint64_t sent_bytes; /* at the start */
	char host[65];
};

/* Bytes sent by all interfaces of this network namespace but the loopback. */
static int read_sent_bytes(uint64_t *sent_bytes)
{
	FILE *file = fopen("/proc/self/net/dev", "re");
	char line[512];
	uint64_t sum = 0;

	if (!file)
		return -errno;
	while (fgets(line, sizeof(line), file)) {
		char *colon = strchr(line, ':');
		uint64_t sent;

		*(colon ? colon : line) = '\0';
		if (!colon || strcmp(line + strspn(line, " "), "lo") == 0)
			continue;
		if (sscanf(colon + 1, "%*u %*u %*u %*u %*u %*u %*u %*u %" SCNu64, &sent) == 1)
			sum += sent;
	}
	fclose(file);
	*sent_bytes = sum;
	return 0;
}

static int comm_prepare(
	const struct fault *fault, const struct fault_environment *environment, void **state)
{
	struct comm_fault *comm;
	int result;

	if (!environment->options->injector_path) {
		fprintf(stderr, "workload: comm needs --injector, and nodes of tests/cluster\n");
		return -EINVAL;
	}
	comm = calloc(1, sizeof(*comm));
	if (!comm)
		return -ENOMEM;
	comm->fault = fault;
	comm->injector_path = environment->options->injector_path;
	result = read_sent_bytes(&comm->sent_bytes);
	if (!result && gethostname(comm->host, sizeof(comm->host) - 1))
		result = -errno;
	if (result) {
		free(comm);
		return result;
	}
	*state = comm;
	return 0;
}

static int comm_begin(void *state, const struct fault_environment *environment)
{
	const struct comm_fault *comm = state;
	double nominal_ms = environment->options->step_ms + environment->options->compute_ms;
	double extra_ms = comm->fault->size_percent / 100 * nominal_ms;
	/* What the transfers took already; the slow link hides it. */
	double transfer_ms = environment->step_length_ms > nominal_ms
				     ? environment->step_length_ms - nominal_ms
				     : 0;
	uint64_t sent_bytes;
	double step_bytes;
	double kilobits;
	char command[160];
	int result = read_sent_bytes(&sent_bytes);

	if (result)
		return result;
	if (environment->steps_done == 0 || sent_bytes <= comm->sent_bytes) {
		fprintf(stderr, "workload: nothing is known of the bytes a step sends\n");
		return -EINVAL;
	}
	step_bytes = (double)(sent_bytes - comm->sent_bytes) / (double)environment->steps_done;
	kilobits = step_bytes * 8 / (extra_ms + transfer_ms);
	snprintf(command, sizeof(command), "shape %s rate_kbit=%.0f", comm->host,
		kilobits < 64 ? 64 : kilobits);
	return injector_request(comm->injector_path, command);
}

static void comm_end(void *state)
{
	const struct comm_fault *comm = state;
	char command[160];

	snprintf(command, sizeof(command), "unshape %s", comm->host);
	if (injector_request(comm->injector_path, command))
		fprintf(stderr, "workload: cannot end the shaping\n");
}

const struct fault_means fault_means_comm = {
	.prepare = comm_prepare,
	.begin = comm_begin,
	.end = comm_end,
	.release = free,
};
