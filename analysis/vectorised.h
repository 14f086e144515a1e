/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops over columns of integers, compiled for several processors; the first call finds which one it is.
 * The results are the same on all. Not where the sanitizers are: they are not there yet when that is found.
 * Its files are compiled at -O3, see CMakeLists.txt.
 */
#ifndef SLOWRANK_ANALYSIS_VECTORISED_H
#define SLOWRANK_ANALYSIS_VECTORISED_H

#if defined(__x86_64__) && defined(SLOWRANK_VECTORISED)
#define VECTORISED __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define VECTORISED
#endif

#endif
