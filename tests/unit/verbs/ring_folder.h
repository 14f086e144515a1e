/* SPDX-License-Identifier: Apache-2.0 */
/* The folder where the library puts its tables, for one test program. The test's thread. */
#ifndef SLOWRANK_TESTS_RING_FOLDER_H
#define SLOWRANK_TESTS_RING_FOLDER_H

#include <stdlib.h>
#include <unistd.h>

#include "probe/ring/ring_layout.h"

static char ring_folder[] = "/tmp/verbs-test.XXXXXX";

/* 0, or -1: then the group of tests fails. */
static int ring_folder_make(void)
{
	return mkdtemp(ring_folder) ? setenv(RING_DIRECTORY_VARIABLE, ring_folder, 1) : -1;
}

/* -1 when a file was left in it. */
static int ring_folder_remove(void)
{
	return rmdir(ring_folder);
}

#endif
