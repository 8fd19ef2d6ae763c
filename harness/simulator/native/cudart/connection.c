/* The connection to the device process. Every call is a message that is answered before the next
 * one is sent. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "internal.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int connection = -1;
static pid_t owner;
static uint64_t device_base, device_size;

enum { most_parts = 8 };

/* End the process, because it cannot continue without its device. */
static void lose(void) {
  static const char words[] = "\nthe connection to the device was lost\n";
  if (write(STDERR_FILENO, words, sizeof words - 1) < 0) _exit(1);
  _exit(1);
}

static int send_all(struct iovec *pieces, unsigned count) {
  while (count) {
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    ssize_t sent = sendmsg(connection, &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return -1;
    for (; count && (size_t)sent >= pieces->iov_len; ++pieces, --count) sent -= pieces->iov_len;
    if (count) {
      pieces->iov_base = (char *)pieces->iov_base + sent;
      pieces->iov_len -= (size_t)sent;
    }
  }
  return 0;
}

static int receive_all(void *data, size_t size) {
  for (char *at = data; size;) {
    ssize_t got = recv(connection, at, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return -1;
    at += got, size -= (size_t)got;
  }
  return 0;
}

static int send_locked(uint32_t call, uint32_t stream, const struct sim_part *parts,
                       unsigned count) {
  if (count > most_parts) abort();
  struct sim_request request = {.call = call, .stream = stream};
  struct iovec pieces[1 + most_parts] = {{&request, sizeof request}};
  for (unsigned i = 0; i < count; ++i) {
    pieces[1 + i] = (struct iovec){(void *)parts[i].data, parts[i].size};
    request.size += parts[i].size;
  }
  return send_all(pieces, 1 + count);
}

/* Return whether this process, and not its parent, has made the connection. */
static int is_ours(void) { return connection >= 0 && owner == getpid(); }

/* Receive an answer. Its bytes go to `room` if they are exactly `size` and there is no error, or
 * else to new memory, which `any` receives. Without `any`, an answer of another length ends the
 * process. */
static int answer_locked(void *room, size_t size, char **any, size_t *any_size) {
  struct sim_answer answer;
  if (receive_all(&answer, sizeof answer)) lose();
  if (room && !answer.error && answer.size == size) {
    if (receive_all(room, size)) lose();
    return 0;
  }
  char *data = malloc(answer.size + 1);
  if (!data || receive_all(data, answer.size)) lose();
  data[answer.size] = 0;
  if (answer.error) sim_explain(answer.error, data);
  if (any) {
    *any = data, *any_size = answer.size;
  } else {
    free(data);
    if (!answer.error && (room || answer.size)) lose();
  }
  return answer.error;
}

static int ask(uint32_t call, uint32_t stream, const struct sim_part *parts, unsigned count,
               void *answer, size_t room) {
  /* A forked process does not have its parent's CUDA context on a GPU either. */
  if (!is_ours()) return cudaErrorInitializationError;
  pthread_mutex_lock(&lock);
  if (send_locked(call, stream, parts, count)) lose();
  int error = answer_locked(answer, room, NULL, NULL);
  pthread_mutex_unlock(&lock);
  return error;
}

int sim_ask(uint32_t call, const struct sim_part *parts, unsigned count, void *answer,
            size_t room) {
  return ask(call, sim_working_stream(), parts, count, answer, room);
}

int sim_ask_for_host(uint32_t call, const struct sim_part *parts, unsigned count, void *answer,
                     size_t room) {
  return ask(call, SIM_HOST, parts, count, answer, room);
}

int sim_ask_any(uint32_t call, const struct sim_part *parts, unsigned count, char **answer,
                size_t *size) {
  *answer = NULL, *size = 0;
  if (!is_ours()) return cudaErrorInitializationError;
  pthread_mutex_lock(&lock);
  if (send_locked(call, sim_working_stream(), parts, count)) lose();
  int error = answer_locked(NULL, 0, answer, size);
  pthread_mutex_unlock(&lock);
  return error;
}

void sim_release(const void *pointer) {
  if (!pointer || !is_ours()) return;
  const uint64_t address = (uint64_t)pointer;
  pthread_mutex_lock(&lock);
  /* At the end of this process the device process may be gone, so a failure is ignored. */
  (void)send_locked(SIM_CALL_RELEASE, SIM_HOST, &(struct sim_part){&address, sizeof address}, 1);
  pthread_mutex_unlock(&lock);
}

int sim_connect(int socket) {
  struct sim_welcome welcome;
  connection = socket, owner = getpid();
  if (sim_ask(SIM_CALL_HELLO, NULL, 0, &welcome, sizeof welcome)) return -1;
  sim_set_device(&welcome.device);
  device_base = welcome.base, device_size = welcome.size;
  /* Reserve the device's addresses without access, so that host code that uses one as a pointer
   * faults and does not reach other data. */
  (void)mmap((void *)device_base, device_size, PROT_NONE,
             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  return 0;
}

/* Device variables outside of the device's range. On a GPU, the driver places the variables of
 * modules, and not the harness. */
enum { most_variables = 4096 };
static struct {
  uint64_t start, size;
} variables[most_variables];
static unsigned variable_count;

void sim_know_variable(const void *pointer, size_t size) {
  if (!size || sim_contains(pointer)) return;
  pthread_mutex_lock(&lock);
  if (variable_count < most_variables) {
    variables[variable_count].start = (uint64_t)pointer;
    variables[variable_count++].size = size;
  }
  pthread_mutex_unlock(&lock);
}

int sim_contains(const void *pointer) {
  if ((uint64_t)pointer - device_base < device_size) return 1;
  for (unsigned i = 0; i < variable_count; ++i)
    if ((uint64_t)pointer - variables[i].start < variables[i].size) return 1;
  return 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

void *sim_allocate(size_t bytes) {
  uint64_t address = 0;
  const struct sim_wanted asked = {.size = bytes};
  if (!bytes) return NULL;
  if (sim_ask(SIM_CALL_ALLOCATE, &(struct sim_part){&asked, sizeof asked}, 1, &address,
              sizeof address))
    return NULL;
  return (void *)address;
}

static size_t chunk_of(size_t bytes) {
  return bytes < SIM_CHUNK_BYTES ? bytes : (size_t)SIM_CHUNK_BYTES;
}

int sim_read(void *to, const void *from, size_t bytes) {
  sim_touch(to, bytes, 1);
  for (size_t done = 0; done < bytes; done += chunk_of(bytes - done)) {
    const struct sim_range range = {(uint64_t)from + done, chunk_of(bytes - done)};
    int error = sim_ask(SIM_CALL_READ, &(struct sim_part){&range, sizeof range}, 1,
                        (char *)to + done, range.size);
    if (error) return error;
  }
  return cudaSuccess;
}

int sim_write(void *to, const void *from, size_t bytes) {
  sim_touch(from, bytes, 0);
  for (size_t done = 0; done < bytes; done += chunk_of(bytes - done)) {
    const uint64_t address = (uint64_t)to + done;
    const struct sim_part parts[] = {{&address, sizeof address},
                                     {(const char *)from + done, chunk_of(bytes - done)}};
    int error = sim_ask(SIM_CALL_WRITE, parts, 2, NULL, 0);
    if (error) return error;
  }
  return cudaSuccess;
}

int sim_copy_bytes(void *to, const void *from, size_t bytes) {
  const struct sim_copy copy = {(uint64_t)to, (uint64_t)from, bytes};
  return sim_ask(SIM_CALL_COPY, &(struct sim_part){&copy, sizeof copy}, 1, NULL, 0);
}

static struct sim_memory ask_memory(uint64_t forget_peak) {
  struct sim_memory memory = {0};
  sim_ask(SIM_CALL_MEMORY, &(struct sim_part){&forget_peak, sizeof forget_peak}, 1, &memory,
          sizeof memory);
  return memory;
}

uint64_t sim_live_bytes(void) { return ask_memory(0).live; }
uint64_t sim_peak_bytes(void) { return ask_memory(0).peak; }
void sim_reset_peak(void) { ask_memory(1); }

cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
  NEED_CONTEXT();
  const struct sim_memory memory = ask_memory(0);
  *total = memory.limit;
  *free_bytes = memory.limit - memory.live;
  return cudaSuccess;
}

/* ---- calls without a result ------------------------------------------------------------------ */

static void note(uint32_t call, const char *words) {
  sim_ask(call, &(struct sim_part){words, strlen(words)}, 1, NULL, 0);
}

void sim_note_unsupported(const char *what) { note(SIM_CALL_UNSUPPORTED, what); }

cudaError_t sim_unsupported(const char *what) {
  sim_note_unsupported(what);
  return sim_report(cudaErrorNotSupported);
}

void sim_library_call(const char *function) { note(SIM_CALL_LIBRARY, function); }

void sim_seed(uint64_t seed) {
  sim_ask(SIM_CALL_SEED, &(struct sim_part){&seed, sizeof seed}, 1, NULL, 0);
}
