/* SPDX-License-Identifier: Apache-2.0 */
#include "probe/attach/launcher_environment.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "probe/attach/environment_text.h"
#include "probe/attach/host_list.h"
#include "probe/attach/launcher_daemon.h"

/* One launcher's names. The first launcher whose rank variable is set, and "needed" too, speaks. */
struct launcher {
	const char *rank, *needed, *world_size, *local_rank, *local_size;
	const char *job_id;
	const char *job_id_more; /* sets apart jobs that share job_id, e.g. by their port */
	const char *leader;
};

static const struct launcher launchers[] = {
	/* torchrun: TORCHELASTIC_RUN_ID is "none" by default, so the port is part of the name */
	{"RANK", "LOCAL_WORLD_SIZE", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
		"TORCHELASTIC_RUN_ID", "MASTER_PORT", "MASTER_ADDR"},
	/* Open MPI 4 and 5 */
	{"OMPI_COMM_WORLD_RANK", NULL, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE", "PMIX_NAMESPACE", NULL, "OMPI_MCA_orte_hnp_uri"},
	/* MPICH's Hydra, Intel MPI; PMI_PORT is each proxy's own */
	{"PMI_RANK", "MPI_LOCALNRANKS", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS",
		"PMI_JOBID", NULL, NULL},
	/* A step of Slurm's, with PMIx and PMI-2, too. A batch script is in no such step. */
	{"SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_NTASKS", "SLURM_LOCALID", NULL,
		"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_STEP_NODELIST"},
	/* Kubernetes' PyTorchJob, or a script that sets what torch.distributed reads */
	{"RANK", NULL, "WORLD_SIZE", "LOCAL_RANK", NULL, NULL, "MASTER_PORT", "MASTER_ADDR"},
	/* What other launchers with PMI and PMIx say */
	{"PMI_RANK", NULL, "PMI_SIZE", NULL, NULL, "PMI_JOBID", NULL, NULL},
	{"PMIX_RANK", NULL, NULL, NULL, NULL, "PMIX_NAMESPACE", NULL, NULL},
};

static uint32_t find_number(const char *text, size_t length, const char *name, uint32_t otherwise)
{
	const char *value = environment_text_find(text, length, name);
	char *end;

	if (!value || *value < '0' || *value > '9') /* strtoul takes blanks and signs */
		return otherwise;
	errno = 0;
	unsigned long number = strtoul(value, &end, 10);
	return errno || *end || number >= STEP_RANK_COUNT_MAX ? otherwise : (uint32_t)number;
}

/* A plain host name or address; of Open MPI's "id;tcp://a,b:port;tcp6://[c]:port" the first
 * address. */
static void copy_leader(const char *value, char *out, size_t capacity)
{
	const char *tcp = strstr(value, "tcp://"), *tcp6 = strstr(value, "tcp6://[");
	const char *from = tcp ? tcp + 6 : tcp6 ? tcp6 + 8 : value;

	snprintf(out, capacity, "%.*s", (int)strcspn(from, tcp ? ",:;" : tcp6 ? ",]" : " ;"), from);
}

/* Rank 0 is on the first node of a step in all of Slurm's distributions but "arbitrary". */
static void ask_slurm(const char *text, size_t length, struct launcher_environment *environment)
{
	const char *nodes = environment_text_find(text, length, "SLURM_STEP_NODELIST");
	char id[sizeof(environment->job_id)];

	snprintf(id, sizeof(id), "slurm.%.50s", environment->job_id);
	memcpy(environment->job_id, id, sizeof(id));
	host_list_first(nodes, environment->leader_address, sizeof(environment->leader_address));
	environment->several_hosts = find_number(text, length, "SLURM_STEP_NUM_NODES", 0) > 1;
}

/*
 * Open MPI 4 tells where mpirun runs. Where there are more daemons than nodes for ranks, none runs there (a
 * log-in node, the launcher's pod of Kubernetes' MPIJob): the next of the daemons has rank 0.
 */
static void ask_open_mpi(const char *text, size_t length, struct launcher_environment *environment)
{
	uint32_t nodes = find_number(text, length, "OMPI_MCA_orte_num_nodes", 0);
	const char *list = environment_text_find(text, length, "OMPI_MCA_orte_node_regex");

	if (nodes && list && nodes < find_number(text, length, "OMPI_MCA_ess_base_num_procs", 0))
		host_list_open_mpi(
			list, 1, environment->leader_address, sizeof(environment->leader_address));
}

/* Open MPI 5: the namespace is "prterun-HOST-PID@NUMBER", of the host where mpirun runs. */
static void ask_prrte(struct launcher_environment *environment)
{
	const char *name = environment->job_id, *end = strrchr(name, '-');

	if (strncmp(name, "prterun-", 8) == 0 && end > name + 8)
		snprintf(environment->leader_address, sizeof(environment->leader_address), "%.*s",
			(int)(end - name - 8), name + 8);
}

static bool is_loopback(const char *address)
{
	return strncmp(address, "127.", 4) == 0 || strcmp(address, "localhost") == 0 ||
	       strcmp(address, "::1") == 0;
}

/*
 * Kubernetes' PyTorchJob tells its first pod that it is at localhost, and the others that pod's name
 * (training-operator, envvar.go): it takes the name that Kubernetes gives each pod as its host's. So do
 * all that are told localhost: ranks of one pod stay together.
 */
static bool is_told_localhost_in_pod(
	const char *text, size_t length, struct launcher_environment *environment)
{
	const char *pod = environment_text_find(text, length, "HOSTNAME");

	if (environment->world_size < 2 || !is_loopback(environment->leader_address) || !pod ||
		!environment_text_find(text, length, "KUBERNETES_SERVICE_HOST"))
		return false;
	snprintf(environment->leader_address, sizeof(environment->leader_address), "%s", pod);
	return true;
}

static void find_place(const struct launcher *launcher, const char *text, size_t length,
	struct launcher_environment *environment)
{
	const char *leader = environment_text_find(text, length, launcher->leader);

	if (strcmp(launcher->rank, "SLURM_PROCID") == 0) {
		ask_slurm(text, length, environment);
		return;
	}
	if (leader)
		copy_leader(
			leader, environment->leader_address, sizeof(environment->leader_address));
	else
		ask_prrte(environment);
	ask_open_mpi(text, length, environment);
	if (environment->local_size)
		environment->several_hosts = environment->world_size > environment->local_size;
	else if (is_told_localhost_in_pod(text, length, environment))
		environment->several_hosts = true;
	else
		environment->several_hosts = environment->world_size > 1 &&
					     environment->leader_address[0] &&
					     !is_loopback(environment->leader_address);
}

void launcher_environment_parse(
	const char *text, size_t length, struct launcher_environment *environment)
{
	*environment = (struct launcher_environment){
		.rank = STEP_RANK_UNKNOWN, .local_rank = STEP_RANK_UNKNOWN};
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		const struct launcher *launcher = &launchers[i];
		uint32_t rank = find_number(text, length, launcher->rank, STEP_RANK_UNKNOWN);
		uint32_t world_size = find_number(text, length, launcher->world_size, 0);
		const char *job_id = environment_text_find(text, length, launcher->job_id);
		const char *more = environment_text_find(text, length, launcher->job_id_more);

		if (rank == STEP_RANK_UNKNOWN || (world_size && rank >= world_size) ||
			(launcher->needed &&
				!environment_text_find(text, length, launcher->needed)))
			continue;
		environment->rank = rank;
		environment->rank_variable = launcher->rank;
		environment->world_size = world_size;
		environment->local_rank =
			find_number(text, length, launcher->local_rank, STEP_RANK_UNKNOWN);
		environment->local_size = find_number(text, length, launcher->local_size, 0);
		environment->restarts = find_number(text, length, "TORCHELASTIC_RESTART_COUNT", 0);
		if (job_id || more)
			snprintf(environment->job_id, sizeof(environment->job_id), "%.40s%s%.20s",
				job_id ? job_id : "", job_id && more ? "." : "", more ? more : "");
		find_place(launcher, text, length, environment);
		return;
	}
}

/*
 * Hydra does not name the job in the environment (seen: MPICH 4.0.2). What its proxies were told is
 * the same on all nodes: where mpiexec listens, on a host that all can reach.
 */
static void ask_hydra(pid_t pid, struct launcher_environment *environment)
{
	struct launcher_daemon daemon;
	char port[sizeof(environment->job_id)];

	if (launcher_daemon_find(pid, environment->rank_variable, &daemon) < 0 ||
		launcher_daemon_control_port(daemon.pid, port, sizeof(port)) < 0)
		return;
	snprintf(environment->leader_address, sizeof(environment->leader_address), "%.*s",
		(int)(strrchr(port, ':') - port), port);
	*strrchr(port, ':') = '.';
	snprintf(environment->job_id, sizeof(environment->job_id), "%s", port);
}

int launcher_environment_read(pid_t pid, struct launcher_environment *environment)
{
	size_t length;
	char *text;
	int error;

	launcher_environment_parse("", 0, environment);
	error = environment_text_read(pid, &text, &length);
	if (error)
		return error;
	launcher_environment_parse(text, length, environment);
	free(text);
	if (environment->rank_variable && !environment->job_id[0])
		ask_hydra(pid, environment);
	return 0;
}
