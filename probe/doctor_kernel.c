/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel and what this process may do with it. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "probe/doctor.h"
#include "probe/sources/bpf_source.h"
#include "probe/sources/text_file.h"

enum { TEXT_LENGTH = 4096 };

static void check_release(struct doctor *doctor)
{
	struct utsname name;
	struct doctor_line *line;
	int major = 0, minor = 0;

	if (uname(&name) < 0) {
		doctor_add(doctor, DOCTOR_MISSING, "kernel", "uname() failed");
		return;
	}
	if (sscanf(name.release, "%d.%d", &major, &minor) == 2 &&
		(major < 5 || (major == 5 && minor < 8))) {
		line = doctor_add(doctor, DOCTOR_MISSING, "kernel",
			"Linux %.60s has no BPF ring buffer", name.release);
		doctor_advise(line, "use Linux 5.8 or newer (Debian 11 and later have it)");
		return;
	}
	doctor_add(doctor, DOCTOR_FINE, "kernel", "Linux %.60s, %.30s", name.release, name.machine);
}

static void check_btf(struct doctor *doctor)
{
	struct doctor_line *line;

	if (bpf_source_has_btf()) {
		doctor_add(doctor, DOCTOR_FINE, "btf", "/sys/kernel/btf/vmlinux");
		return;
	}
	line = doctor_add(doctor, DOCTOR_MISSING, "btf",
		"the kernel does not describe its types: BPF programs cannot be loaded");
	doctor_advise(line,
		"use a kernel built with CONFIG_DEBUG_INFO_BTF=y (distributions' are); in "
		"a container, mount /sys");
}

static void check_lockdown(struct doctor *doctor)
{
	char text[TEXT_LENGTH];
	struct doctor_line *line;

	if (text_file_read("/sys/kernel/security/lockdown", text, sizeof(text)) < 0) {
		doctor_add(doctor, DOCTOR_FINE, "lockdown",
			"none that is visible (no /sys/kernel/security/lockdown)");
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	if (strstr(text, "[confidentiality]")) {
		line = doctor_add(doctor, DOCTOR_MISSING, "lockdown",
			"confidentiality: BPF programs may not read what they need");
		doctor_advise(line, "boot with lockdown=integrity or lockdown=none");
		return;
	}
	doctor_add(doctor, DOCTOR_FINE, "lockdown", "%.80s", text);
}

static void check_sysctl(
	struct doctor *doctor, const char *name, const char *path, const char *means)
{
	char text[64];
	int64_t value;

	if (text_file_read(path, text, sizeof(text)) < 0 || !text_parse_number(text, &value))
		doctor_add(doctor, DOCTOR_FINE, name, "not set by this kernel");
	else
		doctor_add(
			doctor, DOCTOR_FINE, name, "%" PRId64 "%s", value, value > 0 ? means : "");
}

void doctor_check_kernel(struct doctor *doctor)
{
	check_release(doctor);
	check_btf(doctor);
	check_lockdown(doctor);
	check_sysctl(doctor, "unprivileged_bpf", "/proc/sys/kernel/unprivileged_bpf_disabled",
		" (disabled for ordinary users: capabilities are needed)");
	check_sysctl(doctor, "perf_event_paranoid", "/proc/sys/kernel/perf_event_paranoid",
		" (restricted for ordinary users: CAP_PERFMON is needed)");
}

/* include/uapi/linux/capability.h */
static const struct {
	int number;
	const char *name;
	const char *lost;
	bool needed; /* without it nothing works */
} capabilities[] = {
	{39, "cap_bpf", "loading BPF programs", true},
	{38, "cap_perfmon", "attaching them", true},
	{19, "cap_sys_ptrace", "looking at processes of other users and of containers", false},
	{2, "cap_dac_read_search", "opening their libraries", false},
	{21, "cap_sys_admin", "sockets in other network namespaces", false},
};

void doctor_check_rights(struct doctor *doctor)
{
	char text[TEXT_LENGTH], missing[128] = "", lost[256] = "";
	const char *line_start;
	uint64_t effective = 0;
	bool fatal = false;
	struct doctor_line *line;

	if (text_file_read("/proc/self/status", text, sizeof(text)) == 0 &&
		(line_start = strstr(text, "\nCapEff:")))
		effective = strtoull(line_start + 8, NULL, 16);
	for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); i++) {
		/* CAP_SYS_ADMIN stands for CAP_BPF and CAP_PERFMON. */
		if (effective >> capabilities[i].number & 1 ||
			(capabilities[i].needed && effective >> 21 & 1))
			continue;
		fatal |= capabilities[i].needed;
		snprintf(missing + strlen(missing), sizeof(missing) - strlen(missing), "%s%s",
			missing[0] ? "," : "", capabilities[i].name);
		snprintf(lost + strlen(lost), sizeof(lost) - strlen(lost), "%s%s",
			lost[0] ? "; " : "", capabilities[i].lost);
	}
	if (!missing[0]) {
		doctor_add(doctor, DOCTOR_FINE, "rights", "%s",
			geteuid() == 0 ? "root" : "all capabilities that are needed");
		return;
	}
	line = doctor_add(doctor, fatal ? DOCTOR_MISSING : DOCTOR_DEGRADED, "rights",
		"without %.100s: no %.200s", missing, lost);
	if (geteuid() == 0)
		doctor_advise(line, "give the container the capabilities, and a seccomp profile "
				    "that lets bpf() and perf_event_open() through "
				    "(docs/operations.md, Privileges)");
	else
		doctor_advise(line,
			"run as root, or give a copy for one group cap_bpf,cap_perfmon,"
			"cap_sys_ptrace,cap_dac_read_search+ep (setcap; docs/operations.md, "
			"Privileges)");
}
