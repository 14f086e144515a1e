/* SPDX-License-Identifier: Apache-2.0 */
/* What the samplers can read here (tried on this process). */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "probe/doctor.h"
#include "probe/sources/cgroup.h"
#include "probe/sources/cgroup_place.h"
#include "probe/sources/cycles.h"
#include "probe/sources/launcher_delays.h"
#include "probe/sources/procfs.h"
#include "probe/sources/psi.h"
#include "probe/sources/steal.h"
#include "probe/sources/tcp.h"
#include "probe/sources/text_file.h"
#include "probe/task_room.h"

enum { CGROUP_TEXT_LENGTH = 4096 };

static const char *cgroup_versions(char text[64])
{
	char cgroups[CGROUP_TEXT_LENGTH];
	struct cgroup_place cpu, memory, unified;
	bool has_cpu, has_memory, has_unified;

	if (text_file_read("/proc/self/cgroup", cgroups, sizeof(cgroups)) < 0)
		return "none";
	has_cpu = cgroup_place_find(getpid(), cgroups, "cpu", &cpu);
	has_memory = cgroup_place_find(getpid(), cgroups, "memory", &memory);
	has_unified = cgroup_place_find(getpid(), cgroups, "", &unified);
	snprintf(text, 64, "cpu %s, memory %s%s",
		!has_cpu      ? "none"
		: cpu.unified ? "v2"
			      : "v1",
		!has_memory	 ? "none"
		: memory.unified ? "v2"
				 : "v1",
		has_unified && has_cpu && !cpu.unified ? ", hybrid with v2" : "");
	return text;
}

static int create_tcp(pid_t pid, uint32_t rank, struct sampler **sampler)
{
	return tcp_sampler_create(pid, rank, NULL, sampler);
}

static int create_steal(pid_t pid, uint32_t rank, struct sampler **sampler)
{
	return steal_sampler_create(pid, rank, NULL, sampler);
}

/* Tries a sampler on this process; fine is what it is good for. */
static void check_sampler(struct doctor *doctor, const char *name,
	int (*create)(pid_t pid, uint32_t rank, struct sampler **sampler), const char *fine)
{
	struct metric_sample samples[SAMPLER_SAMPLES_MAX];
	const struct message_source *state;
	struct sampler *sampler = NULL;
	enum doctor_state result;
	size_t count;

	if (create(getpid(), 0, &sampler) < 0) {
		doctor_add(doctor, DOCTOR_MISSING, name, "no memory");
		return;
	}
	count = sampler_sample(sampler, (struct host_ns){0}, samples, SAMPLER_SAMPLES_MAX);
	state = sampler_state(sampler);
	result = state->state == SOURCE_ON && count > 0 ? DOCTOR_FINE
		 : state->state == SOURCE_DEGRADED	? DOCTOR_DEGRADED
		 : state->state == SOURCE_ON		? DOCTOR_FINE
							: DOCTOR_MISSING;
	doctor_add(doctor, result, name, "%s%s%s", result == DOCTOR_FINE ? fine : state->why,
		result == DOCTOR_FINE && state->why[0] ? ", " : "",
		result == DOCTOR_FINE ? state->why : "");
	sampler_destroy(sampler);
}

/* What stands in for the kernel's side where that is missing. */
static void check_without_bpf(struct doctor *doctor)
{
	char text[CGROUP_TEXT_LENGTH];
	bool queues = text_file_read("/proc/thread-self/schedstat", text, sizeof(text)) == 0;
	bool storage = launcher_delays_have_block_io();
	struct doctor_line *line;

	line = doctor_add(doctor, DOCTOR_MISSING, "mpi jobs",
		"their calls are not seen here: they are not judged");
	doctor_advise(line, "see bpf above");
	doctor_add(doctor, queues ? DOCTOR_FINE : DOCTOR_DEGRADED, "launchers",
		"when the host of an NCCL rank slept%s; not in programs whose waits for the device "
		"sleep (cudaDeviceScheduleBlockingSync)",
		queues ? ", or waited for a CPU while its GPU idled (by NVML)"
		       : ", waits for a CPU included (no schedstat)");
	line = doctor_add(doctor, DOCTOR_DEGRADED, "faults, storage",
		"page faults are counted, not timed; waiting for storage %s",
		storage ? "is told, in steps of 10 ms"
			: "counts as sleep (kernel.task_delayacct is 0)");
	doctor_advise(line, "see bpf above");
}

static void check_room(struct doctor *doctor)
{
	char why[TASK_ROOM_WHY_LENGTH];
	struct doctor_line *line;

	if (task_room_suffices(1, why)) {
		doctor_add(doctor, DOCTOR_FINE, "processes", "there is room for slowrank's");
		return;
	}
	line = doctor_add(doctor, DOCTOR_MISSING, "processes", "%s; jobs are not watched", why);
	doctor_advise(line, "raise the limit (ulimit -u, the container's or the job's pids.max)");
}

void doctor_check_host(struct doctor *doctor)
{
	char versions[64], cgroup[128];

	snprintf(cgroup, sizeof(cgroup), "quotas, throttling, memory limits (%s)",
		cgroup_versions(versions));
	check_room(doctor);
	check_sampler(doctor, "cgroup", cgroup_sampler_create, cgroup);
	check_sampler(doctor, "psi", psi_sampler_create, "stalls for memory");
	check_sampler(doctor, "procfs", procfs_sampler_create, "CPU time and faults of processes");
	check_sampler(doctor, "tcp", create_tcp, "busy time, retransmissions, round trips");
	check_sampler(doctor, "steal", create_steal, "CPU time that a hypervisor gave to others");
	check_sampler(doctor, "cycles", cycles_sampler_create, "clock and instructions of CPUs");
	if (!doctor->sees_collectives)
		check_without_bpf(doctor);
}
