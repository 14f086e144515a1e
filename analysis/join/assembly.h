/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cuts the ranks' streams of parts into job steps. The lowest rank that delivers leads: each of
 * its step entries gives one cut, at the entry's last collective of the widest communicator; the
 * others are cut at the same instance, or, where they are no members, at the same place of their
 * own entries, and all of them so that no instance lies on both sides (assembly_reach.c). A step
 * is handed out when every live rank has delivered it, or when one is too far behind. Also
 * keeps the hosts' clocks fitted and the sequence shifts of attached ranks. One thread.
 */
#ifndef SLOWRANK_ANALYSIS_JOIN_ASSEMBLY_H
#define SLOWRANK_ANALYSIS_JOIN_ASSEMBLY_H

#include "analysis/join/align.h"
#include "analysis/join/stream.h"

/* Where a rank's stream is cut: parts before (entry, part) belong to the step. */
struct stream_position {
	size_t entry, part;
};

struct rank_scan {
	struct stream_position at;
	bool found;  /* at is the cut, or what other ranks' cuts need of this one */
	bool closed; /* it is too far behind: the cut goes on without it */
	bool placed; /* a place of its own was looked for */
	/* In so many cuts in a row, its place lay as many entries ahead (modulo 2^64) of a leader's. */
	uint32_t counted, counted_from;
	uint64_t ahead;
	uint64_t raises;     /* of the assembly, when it was looked at last */
	bool departed_valid; /* departed: when its last blocking part ended */
	struct host_ns departed;
	bool untimed, was_untimed; /* no part of this step, of the one before, has times */
	/* The last part of this step, of the one before, ended by what others told: then, and departed. */
	bool reckoned, was_reckoned;
	struct host_ns reckoned_end;
};

struct communicator_entry {
	uint64_t id;
	/* Its count is the reference: the lowest rank seen in it; of a channel who sends, UINT32_MAX: not seen. */
	uint32_t first_rank;
	bool shift_found; /* somebody found its place in the reference; a channel needs no more comparing then */
	uint32_t member_count;
	uint64_t cut;	       /* the latest one that needs it */
	uint64_t cut_sequence; /* up to here it lies before that cut */
	uint64_t repeat;       /* the latest look at whether the grid repeats that it was part of */
	uint64_t advance;      /* by so much its sequences went on since the step before */
};

enum { ENTRY_CYCLES_MAX = 64 };

/* The cycles of calls that a leader's entries are made of (assembly_places.c). */
struct entry_cycles {
	uint64_t calls; /* hash of them, and of whose they are; 0: none yet */
	uint32_t count;
	int64_t least_ns[ENTRY_CYCLES_MAX]; /* that each of them took, so far */
};

/* Where the leader's stream is cut. */
struct assembly_cut {
	bool valid, by_time;
	uint32_t rank;
	size_t entry;
	uint64_t communicator_id, sequence;
	uint32_t round, round_count;	       /* of those that the entry is made of, */
	uint16_t round_ends[ENTRY_CYCLES_MAX]; /* and their last parts, if several */
	bool begins_step;		       /* it is the first one */
	int64_t time_ns, known_ns;	       /* known: the last round's */
};

/* Of the cut before. */
struct last_cut {
	uint32_t leader;
	bool given; /* the leader's head entry had it in it */
};

/* The job's clock is that of a host. */
struct job_clock {
	bool fixed;
	uint32_t reference_host; /* since then */
	bool unix_offset_known;
	int64_t unix_offset_ns; /* CLOCK_REALTIME - the job's clock, on the reference host */
};

/* A call of the step whose device time is another call's, and when it was instead. */
struct retold_call {
	uint64_t communicator_id, sequence;
	int64_t arrival_ns, departure_ns;
	uint32_t rank, row;
	bool found; /* its time was told of another call; else it is what others tell */
};

struct retold_calls {
	struct retold_call *calls; /* of the step at hand, in order */
	size_t count, capacity;
	struct told_calls **told; /* what waits for its call, by rank; NULL: none, as of most */
	size_t told_capacity, told_count;
};

struct assembly {
	struct rank_streams *streams;
	struct rank_scan *scans; /* by rank */
	size_t scan_capacity;
	struct communicator_entry *communicators; /* hash table, id 0 = free */
	size_t communicator_capacity, communicator_count;
	struct job_clock clock;
	int64_t newest_ns;		 /* the end of the newest entry of any rank, job time */
	int64_t began_ns;		 /* the same when the first ones came */
	int64_t last_cut_ns;		 /* INT64_MIN before the first */
	uint64_t next_number, next_step; /* of job steps, of the program's */
	struct entry_cycles cycles;
	uint64_t announcements;	     /* of communicators, so far */
	uint64_t grid_announcements; /* when what the grid joins was found */
	uint64_t repeats;	     /* looks at whether the grid repeats */
	uint64_t shifts_unknown;     /* parts left out because their shift is not known */
	uint32_t ready_rank;	     /* ranks below it have delivered what this round needs */
	uint64_t raises;	     /* how often cuts asked more of a communicator */
	uint64_t round_raises;	     /* the same when the round began */
	bool placing;		     /* a round in which ranks look for a place of their own */
	bool placed;		     /* it is over */
	struct last_cut last_cut;
	struct assembly_cut cut;
	struct retold_calls retold;
};

void assembly_init(struct assembly *assembly, struct rank_streams *streams);
void assembly_fini(struct assembly *assembly);

/* To be called for each entry that was queued, and for each communicator announced. */
void assembly_note_entry(struct assembly *assembly, const struct packed_step *step);
int assembly_note_communicator(struct assembly *assembly, uint64_t id, uint32_t rank)
	__attribute__((warn_unused_result));

/*
 * Builds the next job step in the grid. finish: no more will come. Returns 1 when there is one,
 * 0 when not, or a negative errno. The grid points into the queues until assembly_advance().
 */
int assembly_next(struct assembly *assembly, bool finish, struct step_grid *grid)
	__attribute__((warn_unused_result));
/* Bounds a host's clock by the stamps of one batch. */
void assembly_take_stamps(struct clock_fit *clock, const struct stream_stamps *stamps);
/* The job's clock when the coordinator's showed `received`, by the stamps so far. */
struct job_ns assembly_job_now(const struct assembly *assembly, struct job_ns received);
/* Drops what the last step used. */
void assembly_advance(struct assembly *assembly);

#endif
