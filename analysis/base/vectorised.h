/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over columns of integers, compiled for several processors; the first call finds which one it is.
 * The results are the same on all. Only by gcc: clang 14 takes the same words and chooses wrongly. Not under
 * sanitizers: they are not there yet when the choice is made. Files that have such loops are compiled at -O3.
 */
#ifndef SLOWRANK_ANALYSIS_BASE_VECTORISED_H
#define SLOWRANK_ANALYSIS_BASE_VECTORISED_H

#if defined(__x86_64__) && defined(SLOWRANK_VECTORISED) && !defined(__clang__) && __GNUC__ >= 12
#define VECTORISED __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define VECTORISED
#endif

#endif
