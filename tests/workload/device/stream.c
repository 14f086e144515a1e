/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/workload/device/stream.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/workload/device/busy.h"

enum { EVENT_TIMES = 1024, COPY_BYTES_PER_NS = 25 };

struct CUstream_st {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t has_task;
	pthread_cond_t task_done;
	bool closing;
	uint64_t enqueued; /* tasks so far */
	uint64_t done;
	struct stream_task tasks[STREAM_QUEUE_CAPACITY];
};

struct CUevent_st {
	pthread_mutex_t lock;
	pthread_cond_t reached;
	unsigned int references;
	uint64_t recorded; /* generation: records so far */
	uint64_t completed;
	int64_t times_ns[EVENT_TIMES]; /* of the latest records, by generation */
};

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t device_globaltimer_at(int64_t time_ns)
{
	static int drift_ppm; /* atomic; 0: not read yet */
	int known = __atomic_load_n(&drift_ppm, __ATOMIC_RELAXED);

	if (!known) {
		const char *text = getenv("STAND_IN_DRIFT_PPM");

		known = text && atoi(text) ? atoi(text) : DEVICE_DRIFT_PPM;
		__atomic_store_n(&drift_ppm, known, __ATOMIC_RELAXED);
	}
	return time_ns + DEVICE_GLOBALTIMER_OFFSET_NS + time_ns / 1000000 * known;
}

int64_t device_globaltimer_ns(void)
{
	return device_globaltimer_at(now_ns());
}

static _Thread_local int64_t stream_clock_ns; /* of the stream whose thread this is */

int64_t device_stream_time_ns(void)
{
	return stream_clock_ns;
}

void device_wait_until(int64_t time_ns)
{
	struct timespec end = {.tv_sec = time_ns / 1000000000, .tv_nsec = time_ns % 1000000000};

	if (time_ns <= stream_clock_ns)
		return;
	stream_clock_ns = time_ns;
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
}

void device_pass_time(int64_t length_ns)
{
	device_wait_until(stream_clock_ns + length_ns);
}

static void event_reach(CUevent event, uint64_t generation)
{
	pthread_mutex_lock(&event->lock);
	if (generation > event->completed) {
		event->completed = generation;
		event->times_ns[generation % EVENT_TIMES] = stream_clock_ns;
	}
	pthread_cond_broadcast(&event->reached);
	pthread_mutex_unlock(&event->lock);
}

/* Returns the time of that record, by the clock of its stream; of a later one when it is long ago. */
static int64_t event_wait(CUevent event, uint64_t generation)
{
	int64_t time_ns;

	pthread_mutex_lock(&event->lock);
	while (event->completed < generation)
		pthread_cond_wait(&event->reached, &event->lock);
	time_ns = event->times_ns[generation % EVENT_TIMES];
	pthread_mutex_unlock(&event->lock);
	return time_ns;
}

static device_activity_hook activity_hook;

void device_set_activity_hook(device_activity_hook hook)
{
	__atomic_store_n(&activity_hook, hook, __ATOMIC_RELEASE);
}

static void run_kernel(const struct stream_task *task)
{
	void *arguments[DEVICE_ARGUMENTS_MAX];

	for (size_t i = 0; i < DEVICE_ARGUMENTS_MAX; i++)
		arguments[i] = (void *)(uintptr_t)task->kernel.arguments[i];
	task->kernel.function->code(arguments);
}

static void tell(CUstream stream, const struct stream_task *task, int64_t start_ns)
{
	device_activity_hook hook = __atomic_load_n(&activity_hook, __ATOMIC_ACQUIRE);
	struct device_activity activity = {.launched_ns = task->launched_ns,
		.start_ns = start_ns,
		.end_ns = stream_clock_ns,
		.stream = stream};

	busy_tell(start_ns, stream_clock_ns);
	if (!hook)
		return;
	if (task->kind == STREAM_KERNEL)
		activity.name = task->kernel.function->name;
	else
		activity.length_bytes = task->memory.length_bytes;
	hook(&activity);
}

static void run_task(CUstream stream, const struct stream_task *task)
{
	int64_t start_ns;

	device_wait_until(task->launched_ns);
	start_ns = stream_clock_ns;
	switch (task->kind) {
	case STREAM_KERNEL:
		run_kernel(task);
		tell(stream, task, start_ns);
		break;
	case STREAM_HOST_FUNCTION:
		task->host.function(task->host.user_data);
		device_wait_until(now_ns());
		break;
	case STREAM_COPY:
		memmove(task->memory.destination, task->memory.source, task->memory.length_bytes);
		device_pass_time((int64_t)task->memory.length_bytes / COPY_BYTES_PER_NS);
		tell(stream, task, start_ns);
		break;
	case STREAM_SET:
		memset(task->memory.destination, task->memory.value, task->memory.length_bytes);
		break;
	case STREAM_EVENT_RECORD:
		event_reach(task->event.event, task->event.generation);
		event_release(task->event.event);
		break;
	case STREAM_EVENT_WAIT:
		device_wait_until(event_wait(task->event.event, task->event.generation));
		event_release(task->event.event);
		break;
	}
}

static void *stream_main(void *argument)
{
	CUstream stream = argument;

	/* A device asks for no CPU: where it may, its thread takes one from whatever else runs. */
	(void)pthread_setschedparam(
		pthread_self(), SCHED_FIFO, &(struct sched_param){.sched_priority = 1});
	(void)prctl(PR_SET_TIMERSLACK, 5000UL);
	pthread_setname_np(pthread_self(), "device-stream");
	pthread_mutex_lock(&stream->lock);
	for (;;) {
		struct stream_task task;

		while (stream->enqueued == stream->done && !stream->closing)
			pthread_cond_wait(&stream->has_task, &stream->lock);
		if (stream->enqueued == stream->done)
			break;
		task = stream->tasks[stream->done % STREAM_QUEUE_CAPACITY];
		pthread_mutex_unlock(&stream->lock);
		run_task(stream, &task);
		pthread_mutex_lock(&stream->lock);
		stream->done++;
		pthread_cond_broadcast(&stream->task_done);
	}
	pthread_mutex_unlock(&stream->lock);
	return NULL;
}

CUresult stream_create(CUstream *stream)
{
	CUstream made = calloc(1, sizeof(*made));

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&made->lock, NULL);
	pthread_cond_init(&made->has_task, NULL);
	pthread_cond_init(&made->task_done, NULL);
	if (pthread_create(&made->thread, NULL, stream_main, made)) {
		free(made);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	*stream = made;
	return CUDA_SUCCESS;
}

void stream_destroy(CUstream stream)
{
	if (!stream)
		return;
	pthread_mutex_lock(&stream->lock);
	stream->closing = true;
	pthread_cond_signal(&stream->has_task);
	pthread_mutex_unlock(&stream->lock);
	pthread_join(stream->thread, NULL);
	pthread_cond_destroy(&stream->task_done);
	pthread_cond_destroy(&stream->has_task);
	pthread_mutex_destroy(&stream->lock);
	free(stream);
}

CUresult stream_enqueue(CUstream stream, const struct stream_task *task)
{
	pthread_mutex_lock(&stream->lock);
	while (stream->enqueued - stream->done == STREAM_QUEUE_CAPACITY)
		pthread_cond_wait(&stream->task_done, &stream->lock);
	struct stream_task *place = &stream->tasks[stream->enqueued++ % STREAM_QUEUE_CAPACITY];

	*place = *task;
	place->launched_ns = now_ns();
	pthread_cond_signal(&stream->has_task);
	pthread_mutex_unlock(&stream->lock);
	return CUDA_SUCCESS;
}

bool device_waits_spin(void)
{
	return getenv("STAND_IN_WAITS_SPIN") != NULL;
}

void stream_synchronize(CUstream stream)
{
	uint64_t target;

	pthread_mutex_lock(&stream->lock);
	target = stream->enqueued;
	while (stream->done < target && !device_waits_spin())
		pthread_cond_wait(&stream->task_done, &stream->lock);
	pthread_mutex_unlock(&stream->lock);
	while (__atomic_load_n(&stream->done, __ATOMIC_ACQUIRE) < target)
		syscall(SYS_sched_yield); /* the workload's own sched_yield() sleeps */
}

int stream_is_idle(CUstream stream)
{
	int idle;

	pthread_mutex_lock(&stream->lock);
	idle = stream->done == stream->enqueued;
	pthread_mutex_unlock(&stream->lock);
	return idle;
}

CUresult event_create(CUevent *event)
{
	CUevent made = calloc(1, sizeof(*made));

	if (!made)
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_mutex_init(&made->lock, NULL);
	pthread_cond_init(&made->reached, NULL);
	made->references = 1;
	*event = made;
	return CUDA_SUCCESS;
}

void event_release(CUevent event)
{
	bool last;

	pthread_mutex_lock(&event->lock);
	last = --event->references == 0;
	pthread_mutex_unlock(&event->lock);
	if (!last)
		return;
	pthread_cond_destroy(&event->reached);
	pthread_mutex_destroy(&event->lock);
	free(event);
}

static CUresult enqueue_event(enum stream_task_kind kind, CUevent event, CUstream stream)
{
	struct stream_task task = {.kind = kind, .event = {.event = event}};

	pthread_mutex_lock(&event->lock);
	event->references++;
	if (kind == STREAM_EVENT_RECORD)
		event->recorded++;
	task.event.generation = event->recorded;
	pthread_mutex_unlock(&event->lock);
	return stream_enqueue(stream, &task);
}

CUresult event_record(CUevent event, CUstream stream)
{
	return enqueue_event(STREAM_EVENT_RECORD, event, stream);
}

CUresult event_make_wait(CUevent event, CUstream stream)
{
	return enqueue_event(STREAM_EVENT_WAIT, event, stream);
}

void event_synchronize(CUevent event)
{
	uint64_t generation;

	pthread_mutex_lock(&event->lock);
	generation = event->recorded;
	pthread_mutex_unlock(&event->lock);
	(void)event_wait(event, generation);
}

int event_is_reached(CUevent event)
{
	int reached;

	pthread_mutex_lock(&event->lock);
	reached = event->completed >= event->recorded;
	pthread_mutex_unlock(&event->lock);
	return reached;
}

int64_t event_time_ns(CUevent event)
{
	int64_t time_ns;

	pthread_mutex_lock(&event->lock);
	time_ns = event->times_ns[event->completed % EVENT_TIMES];
	pthread_mutex_unlock(&event->lock);
	return time_ns;
}
