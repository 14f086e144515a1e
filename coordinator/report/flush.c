/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/report/flush.h"

#include <errno.h>

int report_flush(FILE *out)
{
	if (fflush(out) == 0 && !ferror(out))
		return 0;
	return errno ? -errno : -EIO;
}
