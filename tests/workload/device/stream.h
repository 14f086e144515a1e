/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams and events of the driver stand-in. A stream has a thread that takes its tasks in
 * order; an enqueue returns at once, unless the queue is full (as on a GPU). Thread-safe.
 *
 * Each stream has a clock of its own, for its threads get the CPU late on a machine that others
 * load, and a GPU knows nothing of that: a task begins when it was launched or when what it waits
 * for has ended, by the streams' clocks, and ends when it has taken its time. No clock is ahead
 * of the real one when a task ends.
 */
#ifndef SLOWRANK_TESTS_WORKLOAD_DEVICE_STREAM_H
#define SLOWRANK_TESTS_WORKLOAD_DEVICE_STREAM_H

#include <stdbool.h>

#include "tests/workload/device/cuda_api.h"

enum { STREAM_QUEUE_CAPACITY = 1024 };

/* globaltimer minus CLOCK_MONOTONIC of the stand-in, but for its drift: what a measured clock must find. */
#define DEVICE_GLOBALTIMER_OFFSET_NS INT64_C(1700000000123456789)
/* Two H200 drifted by 7 and 10 us a second; STAND_IN_DRIFT_PPM has another drift. */
#define DEVICE_DRIFT_PPM 10

enum stream_task_kind {
	STREAM_KERNEL = 1,
	STREAM_HOST_FUNCTION = 2,
	STREAM_COPY = 3,
	STREAM_SET = 4,
	STREAM_EVENT_RECORD = 5,
	STREAM_EVENT_WAIT = 6,
};

struct stream_task {
	enum stream_task_kind kind;
	int64_t launched_ns; /* when the host enqueued it */
	union {
		struct {
			CUfunction function;
			_Alignas(16) unsigned char arguments[DEVICE_ARGUMENTS_MAX]
							    [DEVICE_ARGUMENT_BYTES_MAX];
		} kernel;
		struct {
			CUhostFn function;
			void *user_data;
		} host;
		struct {
			void *destination;
			const void *source;
			size_t length_bytes;
			unsigned char value;
		} memory;
		struct {
			CUevent event;
			uint64_t generation;
		} event;
	};
};

/* The device's clock: nanoseconds of another epoch than the host's, from which it drifts; now, and at a time of CLOCK_MONOTONIC. */
DEVICE_EXPORT int64_t device_globaltimer_ns(void);
DEVICE_EXPORT int64_t device_globaltimer_at(int64_t time_ns);

/*
 * For the code of kernels, on its stream's thread: the stream's clock (CLOCK_MONOTONIC's epoch);
 * to let time pass on it; to move it on to a time, if that is later. Both sleep until then.
 */
DEVICE_EXPORT int64_t device_stream_time_ns(void);
DEVICE_EXPORT void device_pass_time(int64_t length_ns);
DEVICE_EXPORT void device_wait_until(int64_t time_ns);

struct device_activity {
	const char *name; /* of a kernel; NULL: a copy */
	size_t length_bytes;
	int64_t launched_ns, start_ns, end_ns;
	CUstream stream;
};

/* Told of every kernel and copy after it ran; NULL = nobody. For the stand-in of CUPTI. */
typedef void (*device_activity_hook)(const struct device_activity *activity);
DEVICE_EXPORT void device_set_activity_hook(device_activity_hook hook);

CUresult stream_create(CUstream *stream);
void stream_destroy(CUstream stream); /* waits for its tasks; NULL is fine */
CUresult stream_enqueue(CUstream stream, const struct stream_task *task); /* task is copied */
/* Threads that wait for a stream spin, as CUDA's do by default; else they sleep. By STAND_IN_WAITS_SPIN. */
bool device_waits_spin(void);
void stream_synchronize(CUstream stream);
int stream_is_idle(CUstream stream);

/* A recorded event is reached once the stream has come to the record. */
CUresult event_create(CUevent *event);
void event_release(CUevent event); /* tasks that refer to it keep it alive */
CUresult event_record(CUevent event, CUstream stream);
CUresult event_make_wait(CUevent event, CUstream stream);
void event_synchronize(CUevent event);
int event_is_reached(CUevent event);
int64_t event_time_ns(CUevent event); /* of the last record that was reached; 0 = none */

#endif
