/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which BPF hooks work: loads the real programs, attaches them to a function of this very
 * program, and has a child process call it. What arrives is known to work; nothing is guessed.
 */
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "probe/doctor.h"
#include "probe/sources/bpf_source.h"

enum { TEST_STEP = 4711, STATES_MAX = 16 };

/* The step marker of the table of collectives, so that the same rows and programs are used. */
void slowrank_step_begin(uint64_t step);
__attribute__((visibility("default"), noinline, used)) void slowrank_step_begin(uint64_t step)
{
	__asm__ volatile("" : : "r"(step) : "memory");
}

struct seen {
	pid_t child;
	bool marker, exit;
};

static void on_event(void *context, const struct event_header *event)
{
	struct seen *seen = context;

	if ((pid_t)event->pid != seen->child)
		return;
	if (event->kind == EVENT_MARKER)
		seen->marker |= ((const struct event_marker *)event)->step == TEST_STEP;
	else if (event->kind == EVENT_PROCESS)
		seen->exit |= ((const struct event_process *)event)->action == EVENT_PROCESS_EXIT;
}

/* A child that waits for a byte (or for the doctor's end), calls the marker, and exits. */
static pid_t start_child(int *start_fd)
{
	int pair[2];
	pid_t child;
	char byte;

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
		return -1;
	child = fork();
	if (child == 0) {
		close(pair[0]);
		if (read(pair[1], &byte, 1) == 1)
			slowrank_step_begin(TEST_STEP);
		_exit(0);
	}
	close(pair[1]);
	if (child < 0)
		close(pair[0]);
	else
		*start_fd = pair[0];
	return child;
}

/* Attaches to this program. Returns symbols attached; 0 when it is stripped; a negative errno. */
static int attach_to_self(struct bpf_source *source)
{
	struct library_file self = {.path = "/proc/self/exe", .name = "slowrank"};
	struct stat status;
	size_t skipped;

	if (stat(self.path, &status) < 0)
		return 0;
	self.device = status.st_dev;
	self.inode = status.st_ino;
	return bpf_source_attach_library(source, &self, true, &skipped);
}

static void check_uprobes(struct doctor *doctor, struct bpf_source *source)
{
	struct seen seen = {0};
	struct doctor_line *line;
	int start_fd = -1, attached = 0;

	seen.child = start_child(&start_fd);
	if (seen.child > 0) {
		if (bpf_source_track(source, (uint32_t)seen.child) == 0)
			attached = attach_to_self(source);
		if (write(start_fd, "x", 1) != 1)
			kill(seen.child, SIGKILL);
		close(start_fd);
		waitpid(seen.child, NULL, 0);
		(void)bpf_source_poll(source, on_event, &seen);
	}
	doctor->sees_collectives = seen.marker || (attached == 0 && seen.exit);
	if (seen.marker) {
		doctor_add(doctor, DOCTOR_FINE, "hook uprobe",
			"tried: a call in another process was seen");
	} else if (attached == 0) {
		doctor_add(doctor, DOCTOR_FINE, "hook uprobe",
			"not tried: this program has no symbols (stripped)");
	} else {
		line = doctor_add(doctor, DOCTOR_MISSING, "hook uprobe", "%s%s",
			attached < 0 ? "cannot attach: " : "attached, but no call was seen",
			attached < 0 ? strerror(-attached) : "");
		doctor_advise(line,
			"needs CONFIG_UPROBE_EVENTS and the initial pid namespace (docker run "
			"--pid=host); lockdown and container profiles may forbid uprobes");
	}
	if (seen.exit)
		doctor_add(doctor, DOCTOR_FINE, "hook process",
			"tried: the end of a process was seen");
	else
		doctor_advise(doctor_add(doctor, DOCTOR_DEGRADED, "hook process",
				      "the end of a process was not seen: new processes of a job "
				      "may be missed"),
			"run in the initial pid namespace (docker run --pid=host)");
}

/* What a job on GPUs pays for each launch while these are counted. */
static void check_launches(struct doctor *doctor, struct bpf_source *source)
{
	int64_t hit_ns;
	int error = bpf_source_measure_launch(source, &hit_ns);

	if (error == 0)
		doctor_add(doctor, DOCTOR_FINE, "hook launches",
			"tried: a launch that is counted costs %lld ns, in windows of a few steps",
			(long long)hit_ns);
	else
		doctor_advise(doctor_add(doctor, DOCTOR_MISSING, "hook launches",
				      "cannot be counted: %s", strerror(-error)),
			"of GPU jobs without device times, late hosts cannot be detected then");
}

static void check_states(struct doctor *doctor, const struct bpf_source *source)
{
	struct message_source states[STATES_MAX];
	size_t count = bpf_source_states(source, states, STATES_MAX);

	for (size_t i = 0; i < count; i++) {
		struct doctor_line *line;
		char name[DOCTOR_NAME_LENGTH];

		/* Collectives depend on libraries: those have lines of their own. */
		if (strcmp(states[i].name, "bpf.collectives") == 0)
			continue;
		snprintf(name, sizeof(name), "hook %.24s",
			strncmp(states[i].name, "bpf.", 4) == 0 ? states[i].name + 4
								: states[i].name);
		if (states[i].state == SOURCE_ON) {
			doctor_add(doctor, DOCTOR_FINE, name, "loaded and attached");
			continue;
		}
		line = doctor_add(doctor,
			states[i].state == SOURCE_DEGRADED ? DOCTOR_DEGRADED : DOCTOR_MISSING, name,
			"%s", states[i].why[0] ? states[i].why : "does not attach here");
		doctor_advise(line,
			"causes that rest on it are reported as not measurable; a newer "
			"kernel may have it");
	}
}

void doctor_check_hooks(struct doctor *doctor)
{
	struct bpf_source_options options = {
		.collectives = true, .sched = true, .faults = true, .launches = true};
	char why[WIRE_DETAIL_LENGTH_MAX + 1] = "";
	struct bpf_source *source = NULL;

	if (bpf_source_create(&options, &source, why) < 0) {
		doctor_add(doctor, DOCTOR_MISSING, "bpf", "%s", why);
		return;
	}
	doctor_add(doctor, DOCTOR_FINE, "bpf", "the programs load");
	check_uprobes(doctor, source);
	check_launches(doctor, source);
	check_states(doctor, source);
	bpf_source_destroy(source);
}
