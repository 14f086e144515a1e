/* SPDX-License-Identifier: Apache-2.0 */
#include "coordinator/hooks/worker.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct hook_worker {
	struct hook_worker_options options;
	pthread_t thread;
	pthread_mutex_t mutex; /* for all below */
	pthread_cond_t changed;
	struct hook_event *queue[HOOK_QUEUE_MAX]; /* the oldest first */
	size_t count;
	struct hook_worker_state state;
	int64_t end_ms; /* 0: no end yet */
	int64_t paid_ms; /* until then deliveries are paid for: at most a burst's ahead of the clock */
	int period_ms;
};

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}

/* Until something changes or the time has come. Called with the lock. */
static void wait_until(struct hook_worker *worker, int64_t time_ms)
{
	struct timespec wake = {time_ms / 1000, time_ms % 1000 * 1000000};

	pthread_cond_clockwait(&worker->changed, &worker->mutex, CLOCK_MONOTONIC, &wake);
}

static void remove_at(struct hook_worker *worker, size_t index)
{
	worker->count--;
	memmove(&worker->queue[index], &worker->queue[index + 1],
		(worker->count - index) * sizeof(worker->queue[0]));
}

/* When the next one may be delivered. Called with the lock. */
static int64_t due_ms(const struct hook_worker *worker)
{
	return worker->paid_ms - (int64_t)(HOOK_BURST - 1) * worker->period_ms;
}

/* Waits for an event that may be delivered. NULL: it is over. */
static struct hook_event *take(struct hook_worker *worker)
{
	struct hook_event *event = NULL;

	pthread_mutex_lock(&worker->mutex);
	while (!worker->end_ms && (!worker->count || now_ms() < due_ms(worker))) {
		if (worker->count)
			wait_until(worker, due_ms(worker));
		else
			pthread_cond_wait(&worker->changed, &worker->mutex);
	}
	if (worker->count && (!worker->end_ms || now_ms() < worker->end_ms)) {
		int64_t now = now_ms();

		event = worker->queue[0];
		remove_at(worker, 0);
		worker->paid_ms =
			(worker->paid_ms > now ? worker->paid_ms : now) + worker->period_ms;
	}
	pthread_mutex_unlock(&worker->mutex);
	return event;
}

static void *work(void *context)
{
	struct hook_worker *worker = context;
	struct hook_event *event;

	while ((event = take(worker))) {
		bool arrived = worker->options.deliver(worker->options.context, worker, event);

		pthread_mutex_lock(&worker->mutex);
		worker->state.delivered += arrived;
		worker->state.failed += !arrived;
		pthread_mutex_unlock(&worker->mutex);
		hook_event_release(event);
	}
	return NULL;
}

int hook_worker_create(const struct hook_worker_options *options, struct hook_worker **result)
{
	struct hook_worker *worker = calloc(1, sizeof(*worker));

	if (!worker)
		return -ENOMEM;
	worker->options = *options;
	worker->period_ms = options->period_ms ? options->period_ms : HOOK_PERIOD_MS;
	pthread_mutex_init(&worker->mutex, NULL);
	pthread_cond_init(&worker->changed, NULL);
	if (pthread_create(&worker->thread, NULL, work, worker)) {
		pthread_cond_destroy(&worker->changed);
		pthread_mutex_destroy(&worker->mutex);
		free(worker);
		return -EAGAIN;
	}
	*result = worker;
	return 0;
}

void hook_worker_destroy(struct hook_worker *worker, int grace_ms, struct hook_worker_state *last)
{
	pthread_mutex_lock(&worker->mutex);
	worker->end_ms = now_ms() + grace_ms;
	pthread_cond_broadcast(&worker->changed);
	pthread_mutex_unlock(&worker->mutex);
	pthread_join(worker->thread, NULL);
	*last = worker->state;
	last->dropped += worker->count;
	for (size_t i = 0; i < worker->count; i++)
		hook_event_release(worker->queue[i]);
	pthread_cond_destroy(&worker->changed);
	pthread_mutex_destroy(&worker->mutex);
	free(worker);
}

/* The index of an update that waits, of that incident or (0) of any; count: there is none. */
static size_t find_update(const struct hook_worker *worker, uint32_t incident)
{
	size_t i = 0;

	while (i < worker->count && (worker->queue[i]->event != VERDICT_EVENT_UPDATE ||
					    (incident && worker->queue[i]->incident != incident)))
		i++;
	return i;
}

void hook_worker_push(struct hook_worker *worker, struct hook_event *event)
{
	struct hook_event *left_out = NULL;
	size_t update;

	pthread_mutex_lock(&worker->mutex);
	update = event->event == VERDICT_EVENT_UPDATE ? find_update(worker, event->incident)
						      : worker->count;
	if (update < worker->count) {
		left_out = worker->queue[update];
		worker->queue[update] = hook_event_hold(event);
		worker->state.merged++;
	} else {
		if (worker->count == HOOK_QUEUE_MAX) {
			worker->state.dropped++;
			update = find_update(worker, 0);
			if (update < worker->count) {
				left_out = worker->queue[update];
				remove_at(worker, update);
			}
		}
		if (worker->count < HOOK_QUEUE_MAX)
			worker->queue[worker->count++] = hook_event_hold(event);
	}
	pthread_cond_broadcast(&worker->changed);
	pthread_mutex_unlock(&worker->mutex);
	hook_event_release(left_out);
}

/* Called with the lock. */
static bool is_late(const struct hook_worker *worker)
{
	return worker->end_ms && now_ms() >= worker->end_ms;
}

bool hook_worker_is_late(struct hook_worker *worker)
{
	bool late;

	pthread_mutex_lock(&worker->mutex);
	late = is_late(worker);
	pthread_mutex_unlock(&worker->mutex);
	return late;
}

bool hook_worker_sleep(struct hook_worker *worker, int time_ms)
{
	int64_t until_ms = now_ms() + time_ms;
	bool late;

	pthread_mutex_lock(&worker->mutex);
	while (!(late = is_late(worker)) && now_ms() < until_ms)
		wait_until(worker,
			worker->end_ms && worker->end_ms < until_ms ? worker->end_ms : until_ms);
	pthread_mutex_unlock(&worker->mutex);
	return !late;
}

void hook_worker_get_state(struct hook_worker *worker, struct hook_worker_state *state)
{
	pthread_mutex_lock(&worker->mutex);
	*state = worker->state;
	state->waiting = worker->count;
	pthread_mutex_unlock(&worker->mutex);
}
