/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Step markers for programs that want to say where their steps begin and end. Link with
 * -lslowrank_marker, or load it at run time. The functions do nothing: slowrank, when it
 * runs, sees the calls from outside. They may be called from any thread of a rank, about ten
 * instructions each when nobody looks.
 *
 * Call begin at the start of each step, with the step's number. End is optional: steps run from
 * begin to begin; where a program calls only end, from end to end.
 */
#ifndef SLOWRANK_H
#define SLOWRANK_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void slowrank_step_begin(uint64_t step);
void slowrank_step_end(uint64_t step);

#ifdef __cplusplus
}
#endif

#endif
