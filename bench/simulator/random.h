/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random numbers of the simulator by position, not by order: the number for (seed, rank, step,
 * place) is the same whatever else was simulated, so that a job with and without a fault sees
 * the same noise. No state; any thread.
 *
 * The mixing function is the finaliser of splitmix64 (Steele, Lea, Flood: Fast Splittable
 * Pseudorandom Number Generators, OOPSLA 2014).
 */
#ifndef SLOWRANK_BENCH_SIMULATOR_RANDOM_H
#define SLOWRANK_BENCH_SIMULATOR_RANDOM_H

#include <math.h>
#include <stdint.h>

#define SIM_GOLDEN UINT64_C(0x9e3779b97f4a7c15)

static inline uint64_t sim_mix(uint64_t value)
{
	value = (value ^ (value >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	value = (value ^ (value >> 27)) * UINT64_C(0x94d049bb133111eb);
	return value ^ (value >> 31);
}

/* 64 random bits for a place that three numbers name. */
static inline uint64_t sim_random(uint64_t seed, uint64_t first, uint64_t second, uint64_t third)
{
	uint64_t state = sim_mix(seed + SIM_GOLDEN);

	state = sim_mix(state + (first + 1) * SIM_GOLDEN);
	state = sim_mix(state + (second + 1) * UINT64_C(0xd1342543de82ef95));
	return sim_mix(state + (third + 1) * UINT64_C(0xaf251af3b0f025b5));
}

/* Number `place` of the stream that starts at base. */
static inline uint64_t sim_random_at(uint64_t base, uint64_t place)
{
	return sim_mix(base + (place + 1) * SIM_GOLDEN);
}

/* In (0, 1). */
static inline double sim_uniform(uint64_t random)
{
	return ((double)(random >> 11) + 0.5) * 0x1.0p-53;
}

/*
 * Near to a standard normal, of four 16-bit uniforms (Irwin and Hall): cheap, and without
 * tails of its own, which the simulator adds on purpose.
 */
static inline double sim_normal(uint64_t random)
{
	uint64_t sum = (random & 0xffff) + (random >> 16 & 0xffff) + (random >> 32 & 0xffff) +
		       (random >> 48);

	return ((double)sum / 65536.0 - 2) * 1.7320508075688772;
}

/* Pareto with the given smallest value and index, cut at `largest`. */
static inline double sim_pareto(uint64_t random, double smallest, double index, double largest)
{
	double value = smallest * pow(sim_uniform(random), -1 / index);

	return value < largest ? value : largest;
}

#endif
