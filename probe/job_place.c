/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe/attach/environment_text.h"
#include "probe/attach/launcher_environment.h"
#include "probe/attach/torchrun_command.h"
#include "probe/coordinator_process.h"
#include "probe/wire/message.h"

/* srun of one task is a way to get a shell on a node, or to start a launcher there. */
static bool is_rank(const struct launcher_environment *launcher)
{
	return launcher->rank != STEP_RANK_UNKNOWN &&
	       !(strncmp(launcher->job_id, "slurm.", 6) == 0 && launcher->world_size == 1);
}

/* torchrun on several hosts, started on each of them: what it will tell its ranks is known only to it. */
static void ask_torchrun(struct job_place *place, char *const command[])
{
	struct torchrun_command torchrun;
	size_t length;
	char *text;

	if (environment_text_read(getpid(), &text, &length) != 0)
		return;
	if (torchrun_command_parse(command, text, length, &torchrun) && torchrun.several_hosts) {
		place->several_hosts = true;
		memcpy(place->job_id, torchrun.job_id, sizeof(torchrun.job_id));
		memcpy(place->leader_address, torchrun.address, sizeof(torchrun.address));
	}
	free(text);
}

void job_place_find(struct job_place *place, const struct probe_options *options)
{
	struct launcher_environment launcher = {.rank = STEP_RANK_UNKNOWN};
	char host[64] = "";

	*place = (struct job_place){.first_here = true, .probes_here = 1};
	if (launcher_environment_read(getpid(), &launcher) == 0 && is_rank(&launcher)) {
		place->is_slurm_task = strncmp(launcher.job_id, "slurm.", 6) == 0;
		place->may_outlive = !place->is_slurm_task;
		place->several_hosts = launcher.several_hosts;
		place->first_here =
			launcher.local_rank == 0 || launcher.local_rank == STEP_RANK_UNKNOWN;
		if (launcher.local_size)
			place->probes_here = launcher.local_size;
		snprintf(place->leader_address, sizeof(place->leader_address), "%s",
			launcher.leader_address);
		snprintf(place->job_id, sizeof(place->job_id), "%s", launcher.job_id);
	} else if (options->command) {
		ask_torchrun(place, options->command);
	}
	if (options->leader) {
		place->several_hosts |= launcher.rank == STEP_RANK_UNKNOWN;
		snprintf(place->leader_address, sizeof(place->leader_address), "%s",
			options->leader);
	}
	if (options->job)
		snprintf(place->job_id, sizeof(place->job_id), "%s", options->job);
	if (!place->job_id[0]) {
		gethostname(host, sizeof(host) - 1);
		snprintf(place->job_id, sizeof(place->job_id), "%.40s-%lld-%d", host,
			(long long)time(NULL), (int)getpid());
	}
	message_job_id(place->job_id, place->job_id);
}

void job_place_stay_alone(struct job_place *place)
{
	char host[64] = "";

	gethostname(host, sizeof(host) - 1);
	place->several_hosts = false;
	place->leader_address[0] = '\0';
	snprintf(place->alone, sizeof(place->alone), "%.23s", host);
}

void job_place_record(const struct job_place *place, char record[128])
{
	snprintf(record, 128, "slowrank-%s%s%s.slr", place->job_id, place->alone[0] ? "." : "",
		place->alone);
}
