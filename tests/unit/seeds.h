/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many seeds a test tries, of those that it tries in a plain build: a sanitizer looks for
 * errors of memory, which all seeds have alike, and makes each take ten times as long.
 */
#ifndef SLOWRANK_TESTS_UNIT_SEEDS_H
#define SLOWRANK_TESTS_UNIT_SEEDS_H

#ifdef SLOWRANK_FEWER_SEEDS
#define SEEDS_OF(all) (((all) + 3) / 4)
#define SEED_STEP 5
#else
#define SEEDS_OF(all) (all)
#define SEED_STEP 1
#endif

#endif
