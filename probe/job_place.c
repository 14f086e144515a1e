/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "probe/attach/launcher_environment.h"
#include "probe/coordinator_process.h"

void job_place_find(struct job_place *place)
{
	struct launcher_environment launcher;
	char host[64] = "";

	*place = (struct job_place){0};
	if (launcher_environment_read(getpid(), &launcher) == 0 &&
		launcher.rank != STEP_RANK_UNKNOWN) {
		place->inside_launcher = true;
		place->several_hosts =
			launcher.local_size > 0 && launcher.world_size > launcher.local_size;
		snprintf(place->leader_address, sizeof(place->leader_address), "%s",
			launcher.leader_address);
	}
	if (launcher.job_id[0]) {
		snprintf(place->job_id, sizeof(place->job_id), "%s", launcher.job_id);
	} else {
		gethostname(host, sizeof(host) - 1);
		snprintf(place->job_id, sizeof(place->job_id), "%.40s-%lld-%d", host,
			(long long)time(NULL), (int)getpid());
	}
	/* It becomes part of file names. */
	for (char *c = place->job_id; *c; c++) {
		if (*c == '/' || *c == ' ' || (unsigned char)*c < ' ')
			*c = '-';
	}
}
