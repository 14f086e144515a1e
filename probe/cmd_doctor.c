/* SPDX-License-Identifier: Apache-2.0 */
/* slowrank doctor: what can be measured on this host, and what to do about the rest. */
#include <stdlib.h>
#include <string.h>

#include "probe/commands.h"
#include "probe/doctor.h"

enum {
	STATUS_CAN_SEE = 0,
	STATUS_CANNOT_SEE = 1,
	STATUS_BAD_USAGE = 2,
};

static const char usage[] =
	"usage: slowrank doctor [--json]\n\n"
	"Says what slowrank can measure on this host: each line is fine, degraded (what is lost)\n"
	"or missing (what to do). Run it as the user, and in the container, that will run "
	"slowrank.\n\n"
	"  --json   the same as JSON (slowrank.doctor/1)\n"
	"  --help   this text\n\n"
	"The option has an environment variable: SLOWRANK_JSON=1.\n"
	"Exit status: 0 when the collectives of jobs can be seen, 1 when not, 2 for bad usage.\n";

int cmd_doctor(int argc, char **argv)
{
	const char *variable = getenv("SLOWRANK_JSON");
	bool json = variable && *variable && strcmp(variable, "0") != 0;
	struct doctor *doctor;
	int status;

	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
			fputs(usage, stdout);
			return STATUS_CAN_SEE;
		}
		if (strcmp(argv[i], "--json") != 0) {
			fprintf(stderr,
				"slowrank doctor: no option %s; see 'slowrank doctor --help'\n",
				argv[i]);
			return STATUS_BAD_USAGE;
		}
		json = true;
	}
	doctor = calloc(1, sizeof(*doctor));
	if (!doctor) {
		fprintf(stderr, "slowrank doctor: out of memory\n");
		return STATUS_CANNOT_SEE;
	}
	doctor_check_kernel(doctor);
	doctor_check_rights(doctor);
	doctor_check_hooks(doctor);
	doctor_check_libraries(doctor);
	doctor_check_host(doctor);
	doctor_check_devices(doctor);
	if (json)
		doctor_print_json(doctor, stdout);
	else
		doctor_print_text(doctor, stdout);
	status = doctor->sees_collectives ? STATUS_CAN_SEE : STATUS_CANNOT_SEE;
	free(doctor);
	return status;
}
