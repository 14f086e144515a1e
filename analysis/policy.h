/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every number that decides: what it is, its unit, and why it has this value. A section for each part of the
 * analysis. Capacities of buffers, formats and units stay where they are used; scripts/check_policy.py tells
 * them apart, and counts these.
 */
#ifndef SLOWRANK_ANALYSIS_POLICY_H
#define SLOWRANK_ANALYSIS_POLICY_H

#include <stdint.h>

/*
 * steps: where a step begins. Measured on recorded streams of calls (docs/analysis.md, Where a step begins). Units: calls
 * ("tokens"), rounds of a cycle, or as the name says.
 */

/* Lengths of what must be alike for a distance to be a candidate: short finds soon, long sees past loops. */
#define PERIOD_SCALE_LENGTHS 1, 4, 16, 64, 512, 4096
/* A structure that repeats within so few calls says little of where a step ends. */
#define PERIOD_POOR_MAX 8
/* Inner loops are short cycles repeated often: what is not known to be a step must hold longer than they do. */
#define PERIOD_FIRST_TOKENS 2048
/* Rounds; of so many, pauses show which micro-batches are of one step. */
#define PERIOD_FIRST_CYCLES 50
#define PERIOD_TRY_TOKENS_MIN 8 /* before a cycle is tried */
/* The same, once there was one; or calls of lengths that do not repeat */
#define PERIOD_AGAIN_TOKENS_MIN 16
#define PERIOD_AGAIN_CONFIRM_TOKENS 32 /* before it is confirmed, once there was one */
/* Rounds, likewise; of a shorter cycle than is followed; longest periods of a poor one */
#define PERIOD_AGAIN_CYCLES 4
/* Rounds after which a changed batch is the same step, and begins where it began */
#define PERIOD_SETTLED_CYCLES 16
#define PERIOD_PAUSED_CYCLES_MIN 8 /* rounds that show in which of them a pause lies */
#define PERIOD_PAUSED_CYCLES_MAX                                                                   \
	16384			   /* rounds until it is looked for, and so many calls are kept */
#define PERIOD_PAUSED_STEPS_MAX 32 /* later a pause in every n-th round is a fault */
#define PERIOD_TINY 4		   /* calls: too few for a step of its own */
/* Equal calls whose lengths do not repeat, once there was a cycle */
#define PERIOD_POOR_AGAIN_TOKENS 64
#define PERIOD_POOR_AGAIN_CYCLES 8 /* rounds of it, likewise */
#define PERIOD_SHOWN_ROUNDS 3.5	   /* rounds of a step with loops, from its start on */
#define PERIOD_SHOWN_SHARE 0.25	   /* of what the loop explained */
/* A cycle left again and again after hardly a round was never the right one: points each time, at most. */
#define PERIOD_UNREST_STEP 3
#define PERIOD_UNREST_MAX 36
/* A rest that weighs as much as a round makes a step of so many rounds. */
#define PERIOD_ROUNDS_BOUND 32
#define PERIOD_OTHER_GROUP_WEIGHT 4 /* rounds, of a call on another communicator */
/* Bytes of counts, losses, norms: what each step has one of. Gradients of a layer are larger. */
#define PERIOD_BOOKKEEPING_BYTES 1024
/* Of the bytes of calls that rounds have as well: an evaluation's. */
#define PERIOD_KNOWN_SHARE 0.25
/* Rounds of so many ns and less are layers more often than steps; longer ones the less the longer. */
#define PERIOD_LAYER_NS 10e6
#define PERIOD_PAUSE_LEAST 2.0 /* rounds' time, before a pause counts */
/* Of a pause: rounds that take less together are not steps of their own. */
#define PERIOD_BURST_SHARE 0.1
/* Of the mean pause in a round: with less between two rounds, no optimizer ran there. */
#define PERIOD_SEAMLESS_SHARE 0.25
/* Of the mean call of rounds: less is hardly anything. What experts get varies less, the counts of it are far smaller. */
#define PERIOD_SLIGHT_SHARE 0.05
/* Such calls come again with the longer cycle alone where so much fewer are unlike those a cycle before than at any shorter distance. */
#define PERIOD_AGAIN_SHARE 0.25
/* Long spacings are told from short ones where none lie in between; below the floor all are alike. */
#define PERIOD_LONG_RATIO 2.0
#define PERIOD_SLIGHT_RATIO 1.25 /* hardly longer ones, of which there must be more; */
#define PERIOD_SLIGHT_MIN 8	 /* so many */
#define PERIOD_SPACING_FLOOR_NS 2000.0
/* Of the mean spacing: so long is a rank's own pause, where calls take longer than the work between them. */
#define PERIOD_OWN_SHARE 0.1
#define PERIOD_SHORT_ROUND 4	 /* calls */
#define PERIOD_PLACES_MAX 8192	 /* calls looked at of one place in short rounds; */
#define PERIOD_PLACES_FEW 64	 /* in others */
#define PERIOD_LONG_MIN 4	 /* long spacings before one is believed; */
#define PERIOD_LONG_MAX_NR 32	 /* looked at; */
#define PERIOD_STALLS 3		 /* so many may lie between two of them, and one */
#define PERIOD_STEADY_QUARTERS 3 /* of the long ones that are followed by another */
/* Chance of so regular an order in one of a round's places, of all where calls queue behind each other or not. */
#define PERIOD_CHANCE_MAX 0.01

/* join: which parts of ranks are one collective, on which clock, and what runs beside what. */

#define ASSEMBLY_LAG_ENTRIES 8 /* entries behind the newest data, before a rank is not waited for */
/* The same in ns. */
#define ASSEMBLY_LAG_NS INT64_C(15000000000)
#define MERGED_ENTRIES_MAX 4 /* entries without a collective to cut at, before time decides */
#define COUNTED_CUTS_MIN 16  /* cuts alike, before entries are counted */
/* A step that repeats itself is cut into rounds of so many ns and more: of SOME a block, more say no more. */
#define ROUND_NS_MIN (BLOCK_NS / SOME)
/*
 * Two hosts up for the same time within this are taken for one: the stamps leave 0 open, and
 * CLOCK_MONOTONIC counts from boot.
 */
#define SAME_CLOCK_NS INT64_C(50000000)
#define SEQUENCE_SHIFT_PARTS_MIN 6   /* common calls, before a shift is believed */
#define SEQUENCE_SHIFT_PARTS_MAX 128 /* calls looked at */
#define SEQUENCE_SHIFT_WRONG 16 /* one call in so many may disagree: a lost record, a bad stamp */
#define CLOCK_FIT_BUCKETS 32	/* of CLOCK_BUCKET_NS, that a clock's line goes through */
#define CLOCK_BUCKET_NS 1000000000
#define CLOCK_BUCKET_BOUNDS_MIN 8 /* bounds: both directions must have been seen */
/* Below this span the bounds' widths hide any real drift. */
#define CLOCK_DRIFT_SPAN_NS INT64_C(3000000000)
/* Quartz oscillators stay within 100 ppm; twice that is a broken clock or a wrong bound. */
#define CLOCK_DRIFT_MAX 200e-6
/*
 * Of a step's length a correction of a device's clock may move in one step. Crystals part by 50 ppm; a
 * conversion to the host's clock that is found wrong moves at once, and should not take long to be followed.
 */
#define DEVICE_DRIFT_PER_STEP 5e-3
#define DEVICE_MOVE_MIN_NS 2000 /* but at least so much, so that short steps can follow */
/*
 * Ends of one call lie within 0.1 ms on healthy GPUs; those of another call, milliseconds away. Where
 * departures differ by more, from one instance to the next, it is no clock's doing; nor is it where a message was
 * received so long before it was sent.
 */
#define CONTRADICTION_NS 1000000
#define CONTRADICTION_ERRORS 4 /* and beyond so many times the clocks' error */
/* A device's next kernel starts this soon when it was queued behind the one before. */
#define DEVICE_QUEUED_NS 3000
/*
 * Ends and beginnings that follow each other may look like this the other way round: of a device's
 * engines, and of operations in traces, whose clocks were made to agree after the fact (the
 * artifact allows 50 us at either end).
 */
#define ORDER_SLACK_NS 5000
#define ORDER_SLACK_OF_WORK_NS 100000
#define ORDER_SLACKS_IN_WORK 256 /* the same as a part of the mean operation */
/* Two streams that wait for the same work go on within this time (seen: 97 % within 10 us). */
#define TOGETHER_NS 20000
/* Waits that differ by less ns say nothing beside the jitter of kernels. */
#define BESIDE_WAIT_MIN_NS 50000
/* Slope of gap over wait: between -1 and 0, nearer to -1; and this much evidence: sixteen waits of 100 us. */
#define BESIDE_SLOPE (-0.5)
#define BESIDE_WEIGHT_MIN 16e10
/*
 * The same by what a longer way explains: seen on H200s, 0.05 to -0.04 where the work waits, else -0.1 to
 * -1.3. Evidence: 64 differences of 100 us, or one of 800; a difference says no more. A gap below 20 us is
 * none: the next one was ready before, whenever that was.
 */
#define BESIDE_EXPLAINED_BLOCKS (-0.05)
#define BESIDE_EXPLAINED (-0.3)
#define BESIDE_EXPLAINED_WEIGHT_MIN 64e10
#define BESIDE_EXPLAINED_MAX_NS 800000
#define BESIDE_GAP_MIN_NS 20000
/* A host waits for its device unseen: slope of its excess over its device's stays, of four stays as long as that time is, or of so many of late. */
#define BESIDE_HOST_WAITS 0.5
#define BESIDE_HOST_WEIGHT_MIN 4
#define BESIDE_HOST_WEIGHT_MAX 8
#define BESIDE_CHANGE_MAX 1.5	 /* waits: a gap that changed by more has another reason */
#define BESIDE_FADE (1.0 / 4096) /* what was learnt fades by such a part */
/* What comes within such a part of the stay before it was most likely ready before it could begin. */
#define BESIDE_STAYS_PER_GAP 4
/* Instances before a running median is believed, and of which it is one at most. */
#define BESIDE_USUAL_SEEN_MIN 8
#define BESIDE_USUAL_SEEN_MAX 256
#define BESIDE_LONG_WAIT_OF_WORK 4 /* a wait of more than such a part of the work is long; */
#define BESIDE_WAITS_LONGER 2	   /* or of so many times what three of four do not exceed, */
#define BESIDE_WAITS_SEEN_MIN 32   /* after so many */
/* While all wait long for one rank, an instance says so much less. */
#define BESIDE_LONG_WAIT_FACTOR 256
/* One rank: waited for that long in two of three instances, and in so many more of late. */
#define BESIDE_ONE_RANK_MIN 2
#define BESIDE_ONE_RANK_MAX 16
#define BESIDE_OTHER_RANK 2

/*
 * scale: what most decisions are made of. Thresholds that no record and no simulated job tells apart from one of these are that one, so that
 * few numbers decide, and each on many jobs.
 */

/* Shares of a whole. */
#define NEXT_TO_NOTHING 0.1 /* less is as good as none; machines of one kind differ by it */
#define PART_SHARE 0.3	    /* enough to account for something, beside other reasons */
#define HALF_SHARE 0.5	    /* the larger part; or so near to the largest that it is of its kind */
#define MOST_SHARE 0.75	    /* most of it */
#define NEARLY_ALL 0.9	    /* all but for noise */
/* Times. */
#define CLEARLY_MORE 1.25 /* healthy ones of a kind hardly differ by it */
#define HALF_AS_MUCH 1.5  /* and half as much again */
#define MANY_TIMES 4.0	  /* counters grow in healthy times, too */
/* Counts: of blocks, steps, samples, ranks. */
#define SEEN_MIN 3 /* one or two may have any reason */
#define FEW 4 /* of fewer, nothing says which is unlike the others; of so many a median is one */
#define SOME (2 * FEW)		 /* the latest: what is so now */
#define ENOUGH (2 * SOME)	 /* that what is usual is known well */
#define LONG_ENOUGH (2 * ENOUGH) /* that its noise is known, too */
#define MANY (2 * LONG_ENOUGH)	 /* more of them tell no more */
/* Time, in ns. */
/*
 * Between two samples that nobody asked for. So well it is known when something began; blocks that are
 * longer are one long step, whose parts are no rate; and looks more often than this see nothing new.
 */
#define SAMPLE_NS INT64_C(1000000000)

/* attribute: whose time delayed whom. */

/*
 * A minor fault of one page, when no source timed any: entry, allocation, zeroing, return. About
 * 0.5 to 1 us on current x86-64 (measured by lmbench's lat_pagefault and others).
 */
#define MINOR_FAULT_TYPICAL_NS 700
/*
 * What a timed fault costs beside its handler: entry to the exception and return from it, filling
 * the caches anew, and giving the page back in the end. Seen: 1.1 us of a thread's time a fault
 * whose handler took 0.24 us (2 x H200, kernel 6.18).
 */
#define MINOR_FAULT_AROUND_NS 400
/* Members, of which one may be missing: parts get lost, hardly ever those of the last to come. */
#define MEMBERS_PER_MISSING MANY
/* Steps after which a rank that had peers in each is one without. */
#define PEERS_MEMORY 64
/* Steps that tell what is usual of a rank without peers, and of which it is a running median at most. */
#define PAST_SEEN_MIN ENOUGH
#define PAST_SEEN_MAX 256
/* A receiver saw how long its message was on its way when it waited for this part of it. */
#define MESSAGE_SEEN SOME

/*
 * detect: when a change is a change. A block is the unit of time; levels are shares of the job's time.
 */

/* Shorter steps are judged together. Three blocks, and the one in which a change began, are two thirds of a second. */
#define BLOCK_NS 165000000
#define WARM_UP_BLOCKS 10	/* before the first alarm: the noise must be known */
#define PAST_BLOCKS LONG_ENOUGH /* kept per series, to know its noise */
#define DOUBTFUL_BLOCKS SOME	/* that may be a fault's */
#define QUIET_BLOCKS                                                                               \
	ENOUGH		  /* of which the usual step, and the usual time of a transfer, is known */
#define USUAL_MEMORY MANY /* blocks; of what is usual for a rank */
#define SLOW_MEAN ENOUGH  /* values that a slow mean remembers: of what is usual for a rank */
#define QUICK_MEAN FEW	  /* the same, of what is so now */
#define STEP_HISTORY (4 * MANY) /* steps in which an onset is looked for */
/* Shorter ones are kept together, so that those reach back for some blocks however short steps are. */
#define KEPT_STEP_NS (BLOCK_NS / ENOUGH)
#define RANKS_ENOUGH MANY /* of more, a sample of the ranks, or of the steps, tells as much: */
#define STEPS_SAMPLED FEW /* one step in so many */
#define QUICK_BLOCKS_MIN SEEN_MIN /* of a run that is told at once */
#define LONG_BLOCKS_MIN                                                                            \
	2 /* likewise, where half of the time is lost, and the evidence suffices in time */
#define SLOW_BLOCKS_MIN SOME /* of one that is small, rare or slow to come */
#define LASTING_BLOCKS FEW   /* loud ones, of what programs do by themselves for a moment */
#define SLOW_RUN_BLOCKS_MAX (2 * MANY) /* after which what was not worth telling is usual */
#define CONTENTION_BLOCKS_MIN                                                                      \
	LONG_ENOUGH /* of a small run: other programs' bursts come in groups */

/* The sum of a series' deviations, in units of its noise (CUSUM; Page, 1954). */
#define CHANGE_THRESHOLD 6.0			  /* an alarm */
#define CHANGE_SUSPECT 2.0			  /* worth a closer look */
#define CHANGE_NEAR (2 * CHANGE_SUSPECT)	  /* what may be a fault is no noise */
#define CHANGE_FORGET HALF_AS_MUCH		  /* units that a quiet value takes back at most */
#define CHANGE_UNIT_MAX 2.5			  /* units that one value adds at most */
#define CHANGE_REFERENCE_QUANTILE 0.8		  /* of the past: what is higher counts */
#define CHANGE_SCALE_QUANTILE 0.95		  /* of the past: so far above is one unit */
#define EVIDENCE_LASTING (1.5 * CHANGE_THRESHOLD) /* of what must last: four blocks */
#define EVIDENCE_DOUBLE (2 * CHANGE_THRESHOLD)	  /* where only one source says so */
#define EVIDENCE_HIGH (4 * CHANGE_THRESHOLD) /* where only time can tell it from what programs do */
#define CHANCE_DEVIATIONS                                                                          \
	SEEN_MIN	 /* by which counts, rates and means of requests differ by chance */
#define CHANCE_UNITS 5.0 /* deviations by which means over blocks differ by chance */
/* Where a change began: the level above which steps count as after it, and the most of one step. */
#define ONSET_LEVEL HALF_SHARE
#define ONSET_USUAL_QUANTILE (1 - MOST_SHARE) /* of the steps before: a step is longer than this */
#define ONSET_VALUE_MAX SEEN_MIN	      /* levels: bursts still count, one stall does not */
/* What is told of is another fault where the job loses so much more; before that, so many blocks show what it is like. */
#define WORSE_FACTOR 2.0
#define WORSE_BLOCKS_MIN SOME
#define ONSET_BLOCKS FEW  /* loud ones after the alert, that may still move the onset */
#define LATEST_STEPS SOME /* of which the latest level is taken */

/* Levels: slow-downs below this share of a step are normal for a program. */
#define DELAY_SHARE_MIN 0.04
#define COMM_SHARE_MIN DELAY_SHARE_MIN
/* Where something is held against its own past, for long, or was so as long as is known (rank 0 prints). */
#define SMALL_SHARE_MIN 0.018
#define QUICK_REFERENCE_SHARE 0.85 /* of the least level: what is above counts */
/* Of slow runs: rare slow blocks must outweigh the quiet ones between them, one in seven. */
#define SLOW_FORGET PART_SHARE
#define SLOW_REFERENCE (0.55 * SMALL_SHARE_MIN)
/*
 * A large level: hosts wander by less, ranks that share cores take less from each other, and transfers that
 * cannot be attributed are told only from here on.
 */
#define LARGE_SHARE_MIN 0.15
/* What comes again and again, with this mean, is told when it takes so much of the steps it hits. */
#define RARE_SHARE_MIN SLOW_REFERENCE
#define RARE_HEIGHT_MIN 0.06
/* Jitter of wake-ups: a smaller delay of a step, or in a shorter transfer, says nothing. */
#define WAKE_UP_NS 50000
/* So much of a delay must be gained without it, or show in the steps' lengths. */
#define GAIN_SHARE_MIN PART_SHARE
/* A block below this share of the least level is quiet; or below this one of a verdict's. */
#define QUIET_SHARE HALF_SHARE
#define QUIET_OF_LEVEL PART_SHARE
/*
 * Machines differ. What a rank was slower by from its first block on is told only when it is more
 * than machines of one kind differ by, or, among at least so many peers, when it is unlike them.
 */
#define MACHINES_DIFFER NEXT_TO_NOTHING
#define FROM_START_PEERS SOME
#define PEERS_MIN FEW /* ranks, groups: of fewer, nothing says which one is unlike the others */
#define STEPS_KNOWN_MIN ENOUGH /* of which the usual length, or a correlation, is known */
#define LATEST_STEPS_MIN FEW   /* the fewest that are looked at for hits */
/* -ln of the probability that a healthy rank is hit in so many steps of a run. */
#define HIT_SURPRISE 14.0
#define LONG_HIT_SURPRISE (HALF_SHARE * HIT_SURPRISE) /* of long steps */
#define HIT_RANKS MANY /* of so many, one in 20,000 jobs has such a rank by chance, at each look */
/* ln of how many further looks there are at most, doubling from 4 to half of STEP_HISTORY. */
#define FURTHER_LOOKS_SURPRISE 1.8

/* Ranks that share cores take them from each other; only more than this is told. */
#define RIVALS_SEEN_MIN                                                                            \
	NEXT_TO_NOTHING		  /* share of the preempted excess that long intervals must show */
#define OWN_RIVALS_MAX PART_SHARE /* of the time others ran instead */
/* Throttling beyond doubt: its share of the delay; the controls have none. */
#define THROTTLED_SHARE_MIN PART_SHARE
#define STOPPED_SHARE_MIN PART_SHARE /* stopped beyond doubt: the same */
/* Any rank's runtime collects now and then: below this level that must last. */
#define COLLECTOR_SHARE_MIN PART_SHARE
/*
 * Of a step. Hosts that launch work for devices wander without a reason that is seen (Python on H200s: by 7 % for
 * 15 s; by 15 % for 3 to 13 s where the host is what takes the time; 200 ms at once). GPUs at their power cap
 * differ in speed, from one to the next and over minutes (seen: two H200 in one host, 17 % apart, either way
 * round). Where most of a job's are, less is no fault of one.
 */
#define WANDERS_MAX 0.25
#define HOST_WANDERS_NS (MANY * SAMPLE_NS) /* a host that is slow for longer has a reason, */
#define WANDERS_COST_NS SAMPLE_NS /* and one that costs the job more (at most 0.73 s was seen) */
#define POWER_CAP_STEPS ENOUGH	  /* the latest, in which that is looked at */
#define UNEVEN_TIMES_MIN 2.0	  /* where work is uneven: as much more than the usual difference */

/* What comes back every so many steps. */
/* The latest steps are looked at as well as all, so that what began lately does not drown: of each stretch the latest 5/6. */
#define FOLD_STRETCH_MIN LONG_ENOUGH /* steps */
#define FOLD_PERIOD_MAX MANY	     /* steps */
#define FOLD_HITS_MIN FEW	     /* rounds that are hit */
#define FOLD_DEPTHS 2 /* times the size of a class: so many of the largest values are taken */
#define PERIODIC_HEIGHT_MIN 0.025 /* of a step: it takes so much more of these than of the others */
/* Of more than RANKS_ENOUGH, the rest is looked at one in so many. */
#define PERIODIC_LOOK_TURNS (2 * MANY)
#define PERIODIC_LATEST_ROUNDS SOME /* that say whether the period still holds */
/* -ln of the chance to find as much anywhere in a healthy job in one look. */
#define PERIODIC_NOTICED_SURPRISE SEEN_MIN
#define PERIODIC_TOLD_SURPRISE SOME
#define PERIODIC_SHARE_MIN 0.003	    /* of the time, on average */
#define PERIODIC_CLASS_SHARE_MIN HALF_SHARE /* of what delays, before a verdict is of these steps */

/* Transfers. */
#define TRANSFER_SLOW ((float)CLEARLY_MORE) /* times what is expected: slow */
/* Transfers that are longer by less than so many times what a rank is late by are its doing. */
#define LATE_FACTOR HALF_AS_MUCH
#define SHAPE_PAST_MIN FEW /* quiet blocks, before the usual time of a transfer is known */
/*
 * Groups of one kind differ by their places in the network; one that takes this many times longer than
 * what is usual for the kind is slow, though it always was.
 */
#define UNLIKE_OTHERS CLEARLY_MORE
/* Of the time: a process that runs less than usual by less holds nobody; healthy ones differ by a tenth from second to second. */
#define KEPT_SHARE_MIN PART_SHARE
#define CALM_SPANS SOME /* between faults, the latest: these tell how much processes usually run */
#define REPLAY_SHARE_MIN LEFT_SHARE_MIN /* of a step: what costs less is not worth a replay */

/* Counters that are sampled: sockets, ports. */
#define EVIDENCE_BEFORE_NS (SOME * SAMPLE_NS) /* so long before tells what was usual */
#define EVIDENCE_SINCE_NS (BLOCK_NS / 2)      /* known for less says nothing */
#define EVIDENCE_RATE_NS (SAMPLE_NS / 2)      /* rates over less differ more */
/* A sample so soon after a long step was taken at its end. */
#define EVIDENCE_END_NS (SAMPLE_NS / FEW)
#define EVIDENCE_RATES_MIN FEW		     /* rates, before one knows how they differ */
#define EVIDENCE_SPLIT_MIN SOME		     /* samples, to tell steps of a class from others */
#define EVIDENCE_SPLIT_SHARE NEXT_TO_NOTHING /* deviation of how much of them is of the class */
/* Of the excess of transfers: the time that a link accounts for, by its sockets or its requests. */
#define LINK_SHARE_MIN PART_SHARE
/* Sockets that became this many times busier, by this share of what the worst did, changed too. */
#define BUSY_GROWN_FACTOR CLEARLY_MORE
#define BUSY_GROWN_ALIKE LARGE_SHARE_MIN
#define BUSY_SMALL_DEVIATIONS MANY_TIMES /* a small change, of what sockets did before */
#define BUSY_FREEDOM_ENOUGH SOME	 /* of a rank's own rates */
#define BUSY_FREEDOM_MIN 2		 /* less says nothing of it */
#define BUSY_STEPS_MIN 2		 /* in a rate: parts of a step differ, too */
#define BUSY_OTHERS_MIN SEEN_MIN	 /* ranks not named, that tell how changes differ */
/* Counters grow in healthy times, too: so many times faster than before, and than those of others. */
#define COUNTER_FACTOR MANY_TIMES
#define ERRORS_PER_S_MIN                                                                           \
	NEXT_TO_NOTHING		   /* of ports, lost packets: fewer come anywhere, now and then */
#define RETRANSMIT_SHARE_MIN 0.005 /* of bytes sent: a healthy link does not reach it */
/* Without sockets, the rank that leaves late: times the next one's. */
#define LAG_FACTOR MANY_TIMES

/* Pairs of ranks, by what their queue pairs tell. */
/* A sum is over so long at least: a sample's second, less its jitter. */
#define LINK_POINT_NS 900000000
#define LINK_POINTS ENOUGH   /* sums kept per flow, a second or more apart */
#define LINK_PAST SOME	     /* quiet seconds that tell what is usual */
#define LINK_PAST_MIN SOME   /* of them, before it is known */
#define LINK_SLOW_FACTOR 2.0 /* times its usual: less is told of by transfers */
#define LINK_DIRECTION_FACTOR                                                                      \
	CLEARLY_MORE		   /* between two ranks alone, sends of one must be so much later */
#define LINK_SAME_COVER STOLEN_MIN /* lateness that differs by less is the same */
#define LINK_ALIKE NEARLY_ALL	   /* of the most lateness: the other end is as far in */
#define LINK_OTHERS_QUANTILE NEARLY_ALL /* of how many times slower the flows of others are */
#define LINK_OTHERS_POWER HALF_AS_MUCH	/* to the power of which the worst must be slower */
#define LINK_RETRANSMITS_PER_S_MIN 1.0
#define LINK_CONGESTION_PER_S_MIN 10.0

/* Slow transfers that move from one rank to another. */
#define MOVE_LATEST_NS (2 * SAMPLE_NS) /* the latest of the transfers: so long, */
#define MOVE_LATEST_STEPS 2	       /* and so many steps */
/* Where a link was quiet for so many, and EVIDENCE_BEFORE_NS, it is dated from there. */
#define MOVE_QUIET_STEPS SOME

/* Lost packets. */
#define LOSS_WINDOWS SEEN_MIN /* of EVIDENCE_BEFORE_NS: of stalls some seconds apart, some */
#define LOSS_LOOK_NS (LOSS_WINDOWS * EVIDENCE_BEFORE_NS) /* back from now */
#define LOSS_OTHER_STEPS_MIN LONG_ENOUGH /* from which it is known what transfers take otherwise */
#define LOSS_SINCE_SECONDS_MIN FEW	 /* by then a flow that is slow throughout is seen to be */
#define LOSS_STEPS_KEPT_MAX 8192 /* then all counts are halved: what was long ago is forgotten */
#define LOSS_WAITING_ROOM ENOUGH /* steps that a block may have */
/* Samples come late, and so may what is said to be the onset. */
#define LOSS_BEFORE_GAP_NS (FEW * SAMPLE_NS)
#define LOSS_MISSED_SHARE_MIN                                                                      \
	PART_SHARE /* of the packets that are sent again are missed by somebody */
#define LOSS_SHARE_MIN                                                                             \
	CLOCK_FALL_MIN /* of the time: transfers must have become longer by so much */
/* -ln of the chance that this fell together, beside that it is just one rank whose ports count. */
#define LOSS_SURPRISE_MIN CHANGE_THRESHOLD

/* Work that is uneven by the program's own doing. */
/* Roles whose work differs less are balanced as well as models can be split. */
#define UNEVEN_WORK_MIN 1.05
/* Pearson's correlation of both directions from which sequences are uneven (OSDI '25). */
#define UNEVEN_CORRELATION_MIN NEARLY_ALL
/* Beside reductions, what a device's work took is partly a bound, which correlates less. */
#define UNEVEN_BESIDE_CORRELATION_MIN 0.6
#define UNEVEN_MEMORY MANY /* steps, or messages; of all sums on uneven work */
/*
 * Where one direction has nothing to show: work that differs this much (a root mean square, of the
 * work; kernels of a healthy device jitter by some percent), spread as evenly as lengths are. The
 * squared mean of the absolute over the mean square is 0.64 of a normal distribution, and small
 * where a few interruptions make it up.
 */
#define UNEVEN_DEVIATION_MIN (2 * DELAY_SHARE_MIN)
#define UNEVEN_SPREAD_MIN HALF_SHARE
#define UNEVEN_DIRECTION_SHARE_MIN                                                                 \
	LEFT_SHARE_MIN /* of the work: less in one direction is nothing to show */
#define EVEN_SAMPLES_MAX                                                                           \
	((float)STEP_HISTORY) /* rows times steps, that the mean work of a place is over */
/*
 * Pearson's correlation of both ends of messages, and how much they differ together (root of the covariance,
 * of the work). With two stages pieces of forward and backward work lie together, which costs some of the
 * correlation; simulated jobs without uneven sequences stay below 0.03 of the latter (docs/results.md).
 */
#define MESSAGES_CORRELATION_MIN HALF_SHARE
#define MESSAGES_DEVIATION_MIN DELAY_SHARE_MIN
/* Of the work: what is off by more is an interruption, no length. */
#define MESSAGES_DEVIATION_MAX 1.0
#define MESSAGES_WORK_MIN 0.001 /* of a step: work below this says little, relatively */
/* More groups than a pipeline has stages: what would join them is not seen. */
#define ROLES_STAGES_MAX MANY
/* Uneven experts, so that a slow machine would have shown elsewhere. */
#define EXPERT_MEMORY ((float)LONG_ENOUGH)   /* steps */
#define EXPERT_SHARE_MIN ((float)NEARLY_ALL) /* of all excess */
#define EXPERT_OTHER_WORK_MIN PART_SHARE     /* of all work */
#define EXPERT_TIMES_OTHER_MIN                                                                     \
	((float)MANY_TIMES) /* relative excess, of the experts' over the other's */

/* incident: what belongs together, when it is told, and when it has ended. */

/* Ranks that turn slow within this time, for the same reason, share a verdict. */
#define JOIN_NS (2 * SAMPLE_NS)
#define VICTIM_WAIT_MIN PART_SHARE     /* of a verdict's level, that its victims waited for */
#define INCIDENT_LEVEL_MEMORY SOME     /* loud blocks; of a verdict's level */
#define LEFT_SHARE_MIN 0.01	       /* of the time is left in a step without a fault, at least */
#define RECOVERY_BLOCKS 6	       /* quiet blocks, net of loud ones, before a verdict ends */
#define RECOVERY_LOUD 2		       /* one loud block takes back that many quiet ones */
#define UPDATE_GAP_NS SAMPLE_NS	       /* between two events of one verdict */
#define UPDATE_COST_CHANGE 0.2	       /* of what it costs; smaller ones are not told */
#define UPDATE_COST_MIN LEFT_SHARE_MIN /* of the time; the same, of what costs next to nothing */
/* How sure a verdict is: fitted on jobs with known truth, and checked on others (docs/results.md). */
#define CONFIDENCE_EVIDENCE SEEN_MIN /* thresholds of evidence leave a doubt of e^-this */
#define CONFIDENCE_NO_CAUSE 0.97     /* with no cause known */
#define CONFIDENCE_TRANSFERS 0.95    /* more than one thing makes these slow */
#define CONFIDENCE_MAX 0.99

/* costs: what single ranks, nodes, links, roles and phases cost. */

#define COST_LEVEL_STEPS MANY		   /* that a level is the mean of */
#define COST_LEVEL_MIN ((float)STOLEN_MIN) /* of the step: what is below is not followed */
#define COST_TOLD_MIN RETRANSMIT_SHARE_MIN /* of the job's time: less is not told */
/*
 * Of many ranks a quarter of the steps is replayed, five in a row: what a step gains may show in
 * the next one only, so the first after others does not count. The others stand for all steps, by what is seen
 * to be lost in each.
 */
#define COST_SAMPLE_STEPS 5
/*
 * In the long run no more cells are replayed than so many for each us of the job's own time, some 5 % of a
 * core: what is due is counted in work, since the same record must give the same answers. A minute's worth may be
 * used at once. Grids without streams are replayed by columns, so many cells in the time of one.
 */
#define COST_CELLS_PER_NS 0.005
#define COST_SPENT_CELLS_MAX 3e8
#define COST_COLUMN_CELLS 8

/* explain: which cause a delay has. */

/* of so many other ranks the usual is taken */
#define EXPLAIN_OTHERS_MAX (4 * STEP_HISTORY)

/* explain: causes. Shares are of the excess, 0..1. */
#define CAUSE_SHARE_MIN 0.35 /* a cause is named when it explains so much; else it is unknown */
/* where the control has none: a throttled rank also waits longer for a CPU */
#define THROTTLE_SHARE_MIN PART_SHARE
/*
 * What is reckoned for a minor fault is the least that it costs (blame_controls.c): on four hosts with H200s it was 31
 * to 41 % of what injected ones took.
 */
#define MINOR_FAULT_SHARE_MIN 0.25
#define CONTROL_HAS_NONE NEXT_TO_NOTHING   /* of what the rank has: less is none */
#define CONTROL_HAS_TOO HALF_SHARE	   /* of what the rank has: more is "same as control" */
#define HOST_SHARE_MIN HALF_SHARE	   /* host-slow when so much is off the CPU or in faults */
#define EVIDENCE_SHARE_MIN NEXT_TO_NOTHING /* what explains less is not shown as evidence */
#define NONE_SEEN_MS 0.001		   /* a step */
#define LOOK_SHARE_MIN PART_SHARE	   /* of the delay: what a deep look must explain */
#define LOOK_OTHER_CLASS_MIN HALF_SHARE	   /* of the delay: to turn compute-slow into host-slow */
/* looks at a suspect and at its control; one may start late */
#define LOOK_PAIR_NS (ENOUGH * SAMPLE_NS)
#define LOOK_EXCESS_MIN CLOCK_FALL_MIN /* of a step: looks that differ by less differ by noise */
#define LOOK_LOST_MAX                                                                              \
	RETRANSMIT_SHARE_MIN /* of its records: a look that lost more does not say how much ran */
#define LONGER_SHARE_MIN HALF_SHARE /* of the excess of kernels: longer ones, else more of them */

/* explain: stacks. */
/* Of the largest excess: the deepest frame with so much is named; and of a wait: what another thread does meanwhile explains it. */
#define STACK_SHARE_MIN HALF_SHARE
#define STACK_WAITS_SHARE_MIN MOST_SHARE /* of a wait that the kernel timed: then it is this one */
#define STACK_GAP_MIN FEW /* usual times between two looks: nobody looked in one that is longer */
#define STACK_CHANCE_DEVIATIONS                                                                    \
	CHANGE_SUSPECT /* by which looks differ by chance: that time is lost is known, they say where */
/* samples of a look: of fewer, what takes a part of the time is no more than chance */
#define STACK_SAMPLES_MIN (STACK_CHANCE_DEVIATIONS * STACK_CHANCE_DEVIATIONS / PART_SHARE)
#define STACK_LOST_MAX PART_SHARE /* of the looks at threads: more that failed leave too little */

/* explain: counters that stand in where the kernel could not be asked, in ns. */
#define MAJOR_FAULT_TYPICAL_NS 200000 /* a read of one page from a local disk */

/* explain: the speed of CPUs. Changes below these are what healthy ones do: ticks of 10 ms a second, turbo steps of 100 MHz. */
#define STOLEN_MIN 0.02		/* of wanted time */
#define CLOCK_FALL_MIN 0.03	/* of the clock */
#define PER_CYCLE_FALL_MIN 0.05 /* of instructions a cycle */
#define SPREADS_MIN SEEN_MIN	/* times what the rank's own samples spread by */
/* instructions a cycle of a loop that waits; cores retire four to eight at best */
#define WAITING_PER_CYCLE_MAX MANY_TIMES
#define WAITS_GROW_MIN                                                                             \
	NEXT_TO_NOTHING /* of the time: what waits do is estimated once they grew by so much, */
#define WAITS_SEEN_NS (SEEN_MIN * SAMPLE_NS) /* and from several samples; */
#define POLLED_MARGIN CLEARLY_MORE	     /* it may be a quarter more, */
#define POLLED_MORE NEXT_TO_NOTHING	     /* and a little: instructions a cycle */
#define MORE_WORK CLEARLY_MORE /* times the instructions in a step: more work, not a slower core */

/* explain: memory that is reclaimed. */
#define RECLAIM_TIMES_MIN MANY_TIMES /* times what its own past and its controls have */
/* a second: fewer cost nothing (a 64 MiB limit was hit 20,000 times) */
#define RECLAIM_HITS_MIN 10.0
#define RECLAIM_PAGES_MIN 320.0 /* a second: the same in pages, at 32 a time (SWAP_CLUSTER_MAX) */

/* explain: GPUs. */
/* of the others' clock: the cause of being slow by a tenth and more */
#define GPU_CLOCK_RATIO_MAX NEARLY_ALL
#define GPU_POWER_CAP 0x4 /* of nvmlClocksThrottleReasons: SwPowerCap */
/* from a process's start to its first kernels, generously */
#define GPU_NEW_PROCESS_NS (SOME * SAMPLE_NS)
/*
 * GPUs that wait save power, and run their own part faster than they could all the time (seen: 20 ms
 * instead of 24 for a forward pass, 2 x H200). With its controls' times the step would be shorter than
 * it ever was; what was usual before is believed within so much.
 */
#define GPU_WAITING_SPEED_MAX CLEARLY_MORE
#define GPU_USUAL_STEPS_MIN                                                                        \
	LONG_ENOUGH /* steps before an onset, of which the usual length is known */

/* explain: launches. */
#define LAUNCH_STEPS_MIN 2.0	      /* steps looked at before they count */
#define LAUNCH_STEPS_KEPT LONG_ENOUGH /* of earlier ones half is forgotten */
/* of a rank's delay must be seen in what it launched, or in longer steps */
#define LAUNCH_PROVEN_SHARE HALF_SHARE
#define LAUNCH_QUIET_BLOCKS_MIN FEW /* blocks without a suspect, of which the usual step is known */

/* hang: when a job does not go on. */

/* ns that a call lasts before a rank that is stopped or dead is told: with a look and a batch within 6 s. */
#define HANG_LIMIT_NS INT64_C(5000000000)
/* Usual (median) steps; who is alive may take so long in which it shows nothing, at least the above. */
#define HANG_USUAL_STEPS 10
/* Steps from which on the usual one is known: the first ones compile, and warm up. */
#define HANG_KNOWN_STEPS 10
/* ns, until then: half of what NCCL's and PyTorch's own limits are. Compilation takes minutes. */
#define HANG_FIRST_LIMIT_NS INT64_C(300000000000)
/* Bytes read or written that show that a rank works: a checkpoint at 200 kB a second and more. */
#define HANG_WORK_BYTES (UINT64_C(1) << 20)
/* ns without a batch after which a probe counts as silent: it samples once a second. */
#define HANG_SILENT_NS HANG_LIMIT_NS
/* ns between two looks at all ranks. */
#define HANG_LOOK_NS (SAMPLE_NS / 2)

/*
 * progress: how fast the job is. Units: slots (blocks of the judge, 165 ms or a step), shares 0..1. Measured on the 112 windows
 * of the corpus that are no hangs, by how far the loss is from the growth of the steps.
 */
#define PROGRESS_SAMPLES                                                                           \
	ENOUGH /* slots with a kind of call: their median is what one usually takes */
#define PROGRESS_SAMPLES_MIN 5		 /* fewer are the program's start: it does not count yet */
#define PROGRESS_MEASURED_MIN HALF_SHARE /* of a slot's time must be of calls that count */
#define PROGRESS_ROWS_MAX MANY		 /* ranks that are looked at: all wait for each other */
/* What is usual before a fault: jobs wander, so not too many (6 to 64 are about as good). */
#define PROGRESS_BEFORE_SLOTS 24
#define PROGRESS_USUAL_SLOTS_MIN FEW
/* After it, by as many on both sides of it: right in 105 windows, against 92 by those before alone. */
#define PROGRESS_AROUND_SLOTS 6
#define PROGRESS_AFTER_SLOTS_MIN SEEN_MIN
#define PROGRESS_SETTLES_NS (SAMPLE_NS / 2) /* what was queued is done */
#define PROGRESS_EARLIER_SLOTS SOME	    /* an onset is found as much too late, at most */
/* Of the usual rate: a slower slot holds a stall, which is not usual. */
#define PROGRESS_STALLED_SHARE 0.25
/* The job is as fast as before: of what it lost, less than this is left, and slots do not differ by as much. */
#define PROGRESS_BACK_SHARE PART_SHARE
#define PROGRESS_BACK_ERRORS 2	/* standard deviations */
#define PROGRESS_BACK_SLOTS FEW /* of a loss that does not show in one */
/*
 * Standard errors that a loss must be above to prove by itself that a rank costs time; and those by which it may fall short of
 * that where a replay says so: it is refuted at 3 to 1 (corpus: 0.5 to 0.8 stop the same false verdicts).
 */
#define PROGRESS_LOST_ERRORS HALF_AS_MUCH
#define PROGRESS_REFUTED_ERRORS 0.67

#endif
