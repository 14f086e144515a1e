/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes of the job on this host: turns kernel records into collective parts, feeds each
 * rank's step builder, and gathers what is finished for the next batch. One thread.
 */
#ifndef SLOWRANK_PROBE_JOB_H
#define SLOWRANK_PROBE_JOB_H

#include <sys/types.h>

#include "bpf/event_layout.h"
#include "probe/call_times.h"
#include "probe/kernel_calls.h"
#include "probe/wire/message.h"

struct job;

struct job_options {
	const char *host; /* name of this host, copied */
	bool attached;	  /* the job ran before we did: sequences count from the attach */
};

/* Returns 0 or -ENOMEM. The caller owns it. */
int job_create(const struct job_options *options, struct job **job)
	__attribute__((warn_unused_result));
void job_destroy(struct job *job); /* NULL is fine */

/* As if attached: processes added until now, and those to come, may have called already. */
void job_started_before(struct job *job);

/* A process of the tree ran exec, or was found at attach: look at its libraries. */
typedef void job_new_program(void *context, pid_t pid);

/* Takes one record. on_new_program is called for each exec. */
void job_event(struct job *job, const struct event_header *event, job_new_program *on_new_program,
	void *context);

/* What the in-process library of a process tells, its times on the host's clock: that there is one, */
void job_device_process(struct job *job, pid_t pid);
/* its communicators, and each call that the device is done with; number: device_calls.h. */
void job_device_communicator(struct job *job, pid_t pid, const struct communicator *communicator);
void job_device_call(
	struct job *job, pid_t pid, const struct collective_part *part, uint64_t number);
/*
 * The kernels of a process are shown from now on, or no more (attach --deep): NCCL's are matched to
 * its calls. Ignored where the library itself tells device times.
 */
void job_kernels_shown(struct job *job, pid_t pid, bool shown);
void job_kernel(struct job *job, pid_t pid, const struct kernel_calls_kernel *kernel);
/*
 * The library of a process times its calls by events from now on (attach --deep); the times of one; and
 * up to when all were told. Ignored where device times come by another way.
 */
void job_calls_timed(struct job *job, pid_t pid, struct host_ns now);
/* The same for those calls alone that NCCL's plug-in tells without times. */
void job_calls_filled(struct job *job, pid_t pid, struct host_ns now);
/* One of these; false: the process's calls are not filled. thread, number: as the library tells them. */
bool job_untold_call(struct job *job, pid_t pid, const struct collective_part *part, pid_t thread,
	uint64_t number);
void job_call_time(struct job *job, pid_t pid, const struct call_times_event *event);
void job_calls_settled(struct job *job, pid_t pid, struct host_ns settled, struct host_ns now);
/* They are timed no more: the host's times, or the plug-in's alone, are used again, as before. */
void job_calls_untimed(struct job *job, pid_t pid, struct host_ns now);
/* A thread that makes them, as the process numbers it. False: its waits for a CPU cannot be read. */
bool job_device_launcher(struct job *job, pid_t pid, pid_t thread);
/* To be called before job_join_device_calls(): matches what can be. */
void job_match_times(struct job *job, struct host_ns now);
/* Sums over all processes. */
void job_kernel_counts(const struct job *job, struct kernel_calls_counts *counts);
void job_call_times_counts(const struct job *job, struct call_times_counts *counts);
/* To be called after the kernel's records of the same time were taken: joins the two. */
void job_join_device_calls(struct job *job);

/* Called for each finished step of a process, in order; the step is valid during the call. */
typedef void job_step(void *context, pid_t pid, const struct step_entry *step);
void job_watch_steps(struct job *job, job_step *on_step, void *context); /* NULL: nobody */

/* Records were lost: every open step is incomplete. */
void job_lost(struct job *job, uint64_t event_count);

/* Lets time pass: closes window steps, gives up waiting for a rank's number. */
void job_tick(struct job *job, struct host_ns now);

/* The job has ended: closes what is open. */
void job_finish(struct job *job, struct host_ns now);

/*
 * Puts what is finished since the last call into batch: ranks, communicators, steps, intervals.
 * The arrays stay the job's, and valid until job_batch_done(). Returns true when there is
 * something in it.
 */
bool job_fill_batch(struct job *job, struct message_batch *batch);
void job_batch_done(struct job *job);

/* The next batch tells all ranks and communicators again. */
void job_introduce(struct job *job);

/* The ranks found so far, for samplers: fills at most capacity, returns how many. */
struct job_rank {
	uint32_t rank;
	pid_t pid;
	bool exited;
	const struct launcher_delays *delays; /* the job's; NULL: its threads are not followed */
};
size_t job_ranks(const struct job *job, struct job_rank *ranks, size_t capacity);
/* The living process of a rank; 0: none is known. */
pid_t job_pid_of_rank(const struct job *job, uint32_t rank);

/*
 * Living ranks that have left no collective after `since`, one at a time: *next is 0 at first. False
 * when there are no more.
 */
struct job_stalled {
	uint32_t rank;
	pid_t pid;
	struct host_ns last;	    /* when it left, or enqueued, its last one */
	struct used_before *before; /* rank_process.h: kept with the process, for who looks */
};
bool job_next_stalled(
	const struct job *job, struct host_ns since, size_t *next, struct job_stalled *stalled);

/* The part that a call which is still open would become; false for rows that are no collective. */
bool job_open_part(struct job *job, pid_t pid, const struct event_collective *call,
	struct collective_part *part) __attribute__((warn_unused_result));

/* A process has ended, where no kernel record says so. Its exit status is not known: 0. */
void job_process_ended(struct job *job, pid_t pid);

/* Tracked processes that still live. */
size_t job_process_count(const struct job *job);

/* Adds a process that is there already (attach). */
void job_add_process(struct job *job, pid_t pid);

/* Steps and records that did not fit and were lost here. */
uint64_t job_dropped(const struct job *job);
uint64_t job_steps_incomplete(const struct job *job);

/* Collectives seen by the host's times only (non-blocking MPI, NCCL without device time). */
bool job_enqueue_only(const struct job *job);

/* Says which calls are not joined because who takes part in them is not known; "" = none. */
void job_say_not_joined(const struct job *job, char *text, size_t capacity_bytes);

/* Some living process enqueues collectives without device times: what it launches tells more. */
bool job_wants_launches(const struct job *job);
/* Length of the last finished step, of any rank; 0 = none yet. */
int64_t job_step_ns(const struct job *job);

/* Several steps of a rank in a row, the latest ones, were longer than usual. */
bool job_is_suspected(const struct job *job);

/* What its steps have shown since it was asked last. Windows and irregular steps show nothing. */
struct job_news {
	bool slower; /* of some rank, they have become longer in the mean, and are no long ones */
	bool long_step_ended; /* one of a second and more */
	int64_t step_ns;      /* as job_step_ns() */
};
struct job_news job_take_news(struct job *job);

/* A step that is finished was longer than usual: what is slow has perhaps begun, and the batch does not wait. */
bool job_is_urgent(const struct job *job);

#endif
