/* Copies from pinned memory that the host has not waited for. On a GPU such a copy may read its
 * source until then, so host code must not change the source before.
 *
 * A copy counts as done if it might be: only a source that was changed before any wait that could
 * be for the copy is reported. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct copy {
  const uint8_t *from;
  size_t bytes;
  uint64_t stream, number;
};

/* More copies than these are not watched. */
enum { most_copies = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct copy copies[most_copies];
static unsigned count;
static uint64_t last_number;

/* Forget the copies for which `is_over` returns 1. */
static void forget(int (*is_over)(const struct copy *, const void *), const void *what) {
  pthread_mutex_lock(&lock);
  unsigned kept = 0;
  for (unsigned i = 0; i < count; ++i)
    if (!is_over(&copies[i], what)) copies[kept++] = copies[i];
  count = kept;
  pthread_mutex_unlock(&lock);
}

static int is_any(const struct copy *copy, const void *unused) {
  (void)copy, (void)unused;
  return 1;
}

static int is_waited_for(const struct copy *copy, const void *what) {
  const struct sim_wait *wait = what;
  return copy->number <= wait->last_copy && (!wait->is_of_one || copy->stream == wait->stream);
}

static int overlaps(const struct copy *copy, const void *what) {
  const struct sim_range *range = what;
  const uint64_t from = (uint64_t)copy->from;
  return from < range->start + range->size && range->start < from + copy->bytes;
}

static int was_changed(const struct copy *copy, const void *unused) {
  (void)unused;
  const struct sim_range source = {(uint64_t)copy->from, copy->bytes};
  const size_t at = sim_first_change(copy->from, copy->bytes);
  if (at == copy->bytes) return 0;
  const uint64_t offset = at;
  const struct sim_part parts[] = {{&source.size, sizeof source.size}, {&offset, sizeof offset}};
  sim_ask_for_host(SIM_CALL_REWRITTEN, parts, 2, NULL, 0);
  return 1;
}

void sim_check_copies(void) {
  if (count) forget(was_changed, NULL);
}

void sim_copy_begins(const void *from, size_t bytes, uint64_t stream) {
  pthread_mutex_lock(&lock);
  if (count < most_copies) copies[count++] = (struct copy){from, bytes, stream, ++last_number};
  pthread_mutex_unlock(&lock);
}

uint64_t sim_last_copy(void) { return last_number; }

void sim_copies_end(const struct sim_wait *wait) {
  sim_check_copies();
  if (wait)
    forget(is_waited_for, wait);
  else
    forget(is_any, NULL);
}

void sim_copies_may_have_ended(void) {
  if (count) forget(is_any, NULL);
}

void sim_source_is_written(const void *to, size_t bytes) {
  const struct sim_range range = {(uint64_t)to, bytes};
  sim_check_copies();
  forget(overlaps, &range);
}
