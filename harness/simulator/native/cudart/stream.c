/* Streams and events. The device process keeps the work of streams until something waits for it.
 * This file has the host's calls. A query of a stream or event waits for it first, so the result
 * is always that it is done. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "internal.h"

/* ---- handles: a handle in the list is live --------------------------------------------------- */

struct handle {
  struct handle *next;
  unsigned flags;
  int priority;
  unsigned long long id;
  uint64_t number; /* of a stream: its number in the device process */
  int has_waited;  /* of a stream: 1 if it waits for another stream's work */
  uint64_t ticket; /* of an event: the work that it was recorded after */
  struct sim_wait wait; /* of an event: the wait for that work */
  int is_recorded;
  struct timespec recorded;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct handle *streams, *events;
static unsigned long long last_id;

static struct handle *create(struct handle **list, unsigned flags, int priority) {
  struct handle *handle = calloc(1, sizeof *handle);
  if (!handle) return NULL;
  pthread_mutex_lock(&lock);
  *handle = (struct handle){.next = *list, .flags = flags, .priority = priority, .id = ++last_id};
  *list = handle;
  pthread_mutex_unlock(&lock);
  return handle;
}

static int is_live(struct handle *list, const void *handle) {
  pthread_mutex_lock(&lock);
  while (list && list != handle) list = list->next;
  pthread_mutex_unlock(&lock);
  return list != NULL;
}

/* Remove a handle from its list, for the caller to free. Return NULL if it is not there. */
static struct handle *take(struct handle **list, void *handle) {
  pthread_mutex_lock(&lock);
  while (*list && *list != handle) list = &(*list)->next;
  struct handle *found = *list;
  if (found) *list = found->next;
  pthread_mutex_unlock(&lock);
  return found;
}

/* ---- streams --------------------------------------------------------------------------------- */

enum { greatest_priority = -5 };

static __thread cudaStream_t current_stream;

void *sim_current_stream(void) { return current_stream; }

void sim_set_current_stream(void *stream) { current_stream = stream; }

static int is_default(cudaStream_t stream) {
  return !stream || stream == cudaStreamLegacy || stream == cudaStreamPerThread;
}

int sim_is_stream(cudaStream_t stream) { return is_default(stream) || is_live(streams, stream); }

static cudaError_t check_stream(cudaStream_t stream) {
  NEED_CONTEXT();
  return sim_is_stream(stream) ? cudaSuccess : sim_report(cudaErrorInvalidResourceHandle);
}

static uint64_t number_of(cudaStream_t stream) {
  return is_default(stream) ? SIM_DEFAULT_STREAM : ((const struct handle *)stream)->number;
}

/* A blocking stream waits for the default stream, and this one for all blocking streams. */
struct sim_wait sim_wait_for(cudaStream_t stream) {
  const struct handle *handle = is_default(stream) ? NULL : (const struct handle *)stream;
  return (struct sim_wait){
      .stream = number_of(stream),
      .is_of_one = handle && handle->flags & cudaStreamNonBlocking && !handle->has_waited,
      .last_copy = sim_last_copy(),
  };
}

/* 1 once a stream other than the default one exists. Before that, all work is done when a call
 * returns, so no call needs to wait. */
static atomic_int has_streams;

static __thread uint32_t working_stream;

uint32_t sim_working_stream(void) { return working_stream; }

/* 1 if the calling thread's last message was a kernel on its working stream. */
static __thread int was_kernel;

void sim_work_on(cudaStream_t stream) {
  working_stream = (uint32_t)number_of(stream);
  was_kernel = 0;
}

void sim_launched(void) { was_kernel = 1; }

int sim_follows_kernel(cudaStream_t stream) {
  return was_kernel && working_stream == (uint32_t)number_of(stream);
}

static struct handle *create_stream(unsigned flags, int priority) {
  struct handle *stream = create(&streams, flags, priority);
  const uint64_t is_blocking = !(flags & cudaStreamNonBlocking);
  if (!stream) return NULL;
  if (sim_ask(SIM_CALL_STREAM, &(struct sim_part){&is_blocking, sizeof is_blocking}, 1,
              &stream->number, sizeof stream->number)) {
    free(take(&streams, stream));
    return NULL;
  }
  atomic_store(&has_streams, 1);
  return stream;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
  NEED_CONTEXT();
  if (!stream || flags & ~(unsigned)cudaStreamNonBlocking) return sim_report(cudaErrorInvalidValue);
  priority = priority > 0 ? 0 : priority < greatest_priority ? greatest_priority : priority;
  *stream = (cudaStream_t)create_stream(flags, priority);
  return *stream ? cudaSuccess : sim_report(cudaErrorMemoryAllocation);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  struct handle *found = take(&streams, stream);
  if (!found) return sim_report(cudaErrorInvalidResourceHandle);
  sim_ask(SIM_CALL_END_STREAM, &(struct sim_part){&found->number, sizeof found->number}, 1, NULL, 0);
  free(found);
  return sim_broken();
}

/* The pools of torch: 32 streams of each priority, returned in turn and never destroyed. */
enum { pool_size = 32, pool_priorities = 4 };

void *sim_stream_from_pool(int priority) {
  static pthread_mutex_t pool_lock = PTHREAD_MUTEX_INITIALIZER;
  static struct handle *pools[pool_priorities][pool_size];
  static unsigned next[pool_priorities];
  int level = priority > 0 ? 0 : priority <= -pool_priorities ? pool_priorities - 1 : -priority;
  pthread_mutex_lock(&pool_lock);
  struct handle **place = &pools[level][next[level]++ % pool_size];
  if (!*place) *place = create_stream(cudaStreamNonBlocking, -level);
  struct handle *stream = *place;
  pthread_mutex_unlock(&pool_lock);
  return stream;
}

/* Get a ticket for all work of a stream so far, or 0 if it is done. */
static cudaError_t ticket_of(cudaStream_t stream, uint64_t *ticket) {
  *ticket = 0;
  if (!atomic_load(&has_streams)) return cudaSuccess;
  sim_work_on(stream);
  return (cudaError_t)sim_ask(SIM_CALL_RECORD, NULL, 0, ticket, sizeof *ticket);
}

static cudaError_t synchronize(uint64_t ticket) {
  return sim_report((cudaError_t)sim_ask(
      SIM_CALL_SYNCHRONIZE, &(struct sim_part){&ticket, sizeof ticket}, 1, NULL, 0));
}

static cudaError_t wait_for(uint64_t ticket) { return ticket ? synchronize(ticket) : cudaSuccess; }

/* The device process takes ticket 0 for the work of all streams. */
cudaError_t cudaDeviceSynchronize(void) {
  NEED_CONTEXT();
  was_kernel = 0;
  sim_copies_end(NULL);
  return atomic_load(&has_streams) ? synchronize(0) : cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  uint64_t ticket;
  was_kernel = 0;
  cudaError_t error = check_stream(stream);
  if (error) return error;
  const struct sim_wait wait = sim_wait_for(stream);
  sim_copies_end(&wait);
  error = ticket_of(stream, &ticket);
  return error ? error : wait_for(ticket);
}

int sim_catch_up(void) {
  cudaError_t error = cudaStreamSynchronize(current_stream);
  if (!error) sim_work_on(current_stream);
  return error;
}

cudaError_t cudaStreamQuery(cudaStream_t stream) { return cudaStreamSynchronize(stream); }

cudaError_t cudaStreamGetFlags(cudaStream_t stream, unsigned *flags) {
  cudaError_t error = check_stream(stream);
  if (!error) *flags = is_default(stream) ? cudaStreamDefault : ((struct handle *)stream)->flags;
  return error;
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) {
  cudaError_t error = check_stream(stream);
  if (!error) *priority = is_default(stream) ? 0 : ((struct handle *)stream)->priority;
  return error;
}

cudaError_t cudaStreamGetId(cudaStream_t stream, unsigned long long *id) {
  cudaError_t error = check_stream(stream);
  if (!error) *id = is_default(stream) ? 0 : ((struct handle *)stream)->id;
  return error;
}

cudaError_t cudaStreamGetDevice(cudaStream_t stream, int *device) {
  cudaError_t error = check_stream(stream);
  if (!error) *device = 0;
  return error;
}

cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  NEED_CONTEXT();
  if (least) *least = 0;
  if (greatest) *greatest = greatest_priority;
  return cudaSuccess;
}

/* A stream is never capturing, because the call that begins a capture does not exist here. */
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) {
  cudaError_t error = check_stream(stream);
  if (!error) *status = cudaStreamCaptureStatusNone;
  return error;
}

/* The attributes, such as priorities and cache windows, only affect speed. */
cudaError_t cudaStreamSetAttribute(cudaStream_t stream, cudaStreamAttrID attribute,
                                   const cudaStreamAttrValue *value) {
  (void)attribute, (void)value;
  return check_stream(stream);
}

cudaError_t cudaStreamAttachMemAsync(cudaStream_t stream, void *pointer, size_t bytes,
                                     unsigned flags) {
  (void)pointer, (void)bytes, (void)flags;
  return check_stream(stream);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data) {
  if (!function) return sim_report(cudaErrorInvalidValue);
  cudaError_t error = cudaStreamSynchronize(stream);
  if (error) return error;
  function(data);
  return cudaSuccess;
}

cudaError_t cudaStreamAddCallback(cudaStream_t stream, cudaStreamCallback_t callback, void *data,
                                  unsigned flags) {
  if (!callback || flags) return sim_report(cudaErrorInvalidValue);
  cudaError_t error = cudaStreamSynchronize(stream);
  if (error) return error;
  callback(stream, cudaSuccess, data);
  return cudaSuccess;
}

/* ---- events ---------------------------------------------------------------------------------- */

static cudaError_t check_event(cudaEvent_t event) {
  NEED_CONTEXT();
  return is_live(events, event) ? cudaSuccess : sim_report(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  NEED_CONTEXT();
  unsigned known = cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;
  if (!event || flags & ~known) return sim_report(cudaErrorInvalidValue);
  *event = (cudaEvent_t)create(&events, flags, 0);
  return *event ? cudaSuccess : sim_report(cudaErrorMemoryAllocation);
}

cudaError_t cudaEventCreate(cudaEvent_t *event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  struct handle *found = take(&events, event);
  free(found);
  return found ? sim_broken() : sim_report(cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  cudaError_t error = check_event(event);
  if (!error) error = check_stream(stream);
  if (error) return error;
  struct handle *handle = (struct handle *)event;
  error = ticket_of(stream, &handle->ticket);
  if (error) return sim_report(error);
  handle->wait = sim_wait_for(stream);
  handle->is_recorded = 1;
  clock_gettime(CLOCK_MONOTONIC, &handle->recorded);
  return cudaSuccess;
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  (void)flags;
  return cudaEventRecord(event, stream);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  cudaError_t error = check_event(event);
  if (error) return error;
  const struct handle *handle = (const struct handle *)event;
  sim_copies_end(&handle->wait);
  was_kernel = 0;
  return wait_for(handle->ticket);
}

cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  (void)flags;
  cudaError_t error = check_stream(stream);
  if (!error) error = check_event(event);
  if (error) return error;
  const uint64_t ticket = ((const struct handle *)event)->ticket;
  if (!is_default(stream)) ((struct handle *)stream)->has_waited = 1;
  if (!ticket) return cudaSuccess;
  sim_work_on(stream);
  return sim_report((cudaError_t)sim_ask(
      SIM_CALL_WAIT, &(struct sim_part){&ticket, sizeof ticket}, 1, NULL, 0));
}

static int is_timed(cudaEvent_t event) {
  const struct handle *handle = (struct handle *)event;
  return handle->is_recorded && !(handle->flags & cudaEventDisableTiming);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end) {
  cudaError_t error = check_event(start);
  if (!error) error = check_event(end);
  if (error) return error;
  if (!milliseconds) return sim_report(cudaErrorInvalidValue);
  if (!is_timed(start) || !is_timed(end)) return sim_report(cudaErrorInvalidResourceHandle);
  const struct timespec *a = &((struct handle *)start)->recorded;
  const struct timespec *b = &((struct handle *)end)->recorded;
  *milliseconds = (float)(1e3 * (double)(b->tv_sec - a->tv_sec) +
                          1e-6 * (double)(b->tv_nsec - a->tv_nsec));
  return cudaSuccess;
}
