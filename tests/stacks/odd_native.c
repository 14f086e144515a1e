/* SPDX-License-Identifier: Apache-2.0 */
/* A program of C's with threads in known functions: odd_native [vfork]. Built in several ways, see test_odd.py. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

__attribute__((noinline)) void native_inner(volatile unsigned *turns)
{
	for (;;) {
		pause();
		(*turns)++;
	}
}

__attribute__((noinline)) void native_outer(volatile unsigned *turns)
{
	native_inner(turns);
	(*turns)++;
}

static void *begin(void *turns)
{
	native_outer(turns);
	return NULL;
}

int main(int argc, char **argv)
{
	static unsigned turns[2];
	pthread_t thread;

	if (pthread_create(&thread, NULL, begin, &turns[0]))
		return 1;
	usleep(200000);
	printf("ready\n");
	fflush(stdout);
	if (argc > 1 && strcmp(argv[1], "vfork") == 0) {
		pid_t child = vfork(); /* until the child ends, nothing wakes this thread */

		if (child == 0) {
			for (;;)
				pause();
		}
		waitpid(child, NULL, 0);
	}
	native_outer(&turns[1]);
}
