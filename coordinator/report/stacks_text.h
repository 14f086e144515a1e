/* SPDX-License-Identifier: Apache-2.0 */
/* Looks at stacks as lines below a verdict's evidence. One thread. */
#ifndef SLOWRANK_COORDINATOR_REPORT_STACKS_TEXT_H
#define SLOWRANK_COORDINATOR_REPORT_STACKS_TEXT_H

#include <stdio.h>

#include "coordinator/report/model.h"

/* Where they can be seen, or why not; of a hang what its ranks are in. Nothing where no look was made. */
void stacks_text_write(const struct report_model *model, const struct verdict *verdict, FILE *out);

#endif
