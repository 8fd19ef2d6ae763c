/* Managed and pinned memory. The device process has the memory, and this process has copies of the
 * pages that the host uses.
 *
 * Each page has one of three states. A stale page is not accessible; the fault of the host's first
 * access fetches it, and it becomes clean. A clean page is readable; the fault of the first write
 * saves its content, and it becomes dirty. Before the device does anything, the changed bytes of
 * dirty pages are sent, and all pages become stale.
 *
 * So every byte between host and device is part of a call, as with a copy. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "internal.h"

enum { page_bytes = 4096 };
enum state { STALE, CLEAN, DIRTY };

struct page {
  enum state state;
  uint8_t *before; /* the device's content of a dirty page */
};

struct shared {
  struct shared *next;
  uint8_t *start;
  size_t size, pages;
  enum sim_sharing sharing;
  int is_used; /* 1 if any page is not stale */
  struct page page[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct shared *list;
static struct sigaction previous; /* the handler of faults before ours */

static struct shared *find_locked(const void *pointer) {
  struct shared *each = list;
  while (each && (uint64_t)((const uint8_t *)pointer - each->start) >= each->size)
    each = each->next;
  return each;
}

static size_t bytes_of_page(const struct shared *shared, size_t number) {
  const size_t left = shared->size - number * page_bytes;
  return left < page_bytes ? left : page_bytes;
}

/* Advance a page from stale to clean, or from clean to dirty. Return nonzero if that fails. */
static int advance(struct shared *shared, size_t number) {
  struct page *page = &shared->page[number];
  uint8_t *start = shared->start + number * page_bytes;
  const size_t bytes = bytes_of_page(shared, number);
  if (page->state == STALE) {
    const struct sim_range range = {(uint64_t)start, bytes};
    uint8_t data[page_bytes];
    if (sim_ask_for_host(SIM_CALL_READ, &(struct sim_part){&range, sizeof range}, 1, data, bytes))
      return -1;
    if (mprotect(start, page_bytes, PROT_READ | PROT_WRITE)) return -1;
    memcpy(start, data, bytes);
    shared->is_used = 1;
    page->state = CLEAN;
    return mprotect(start, page_bytes, PROT_READ);
  }
  if (page->state == CLEAN) {
    if (!page->before && !(page->before = malloc(page_bytes))) return -1;
    memcpy(page->before, start, bytes);
    page->state = DIRTY;
    return mprotect(start, page_bytes, PROT_READ | PROT_WRITE);
  }
  return 0;
}

/* 1 while the runtime itself touches pages. */
static __thread volatile sig_atomic_t is_touching;

/* Return whether a fault is a write. Elsewhere than on x86-64 each fault counts as a read. */
static int is_write(const void *context) {
#ifdef __x86_64__
  return (((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & 2) != 0;
#else
  (void)context;
  return 0;
#endif
}

/* Handle a fault in managed or pinned memory, and pass on any other one. The first write to a stale
 * page faults twice: once to fetch the page, once to save its content. */
static void on_fault(int number, siginfo_t *fault, void *context) {
  static const char words[] =
      "\nhost code accessed device memory, which only kernels and CUDA's calls can\n";
  pthread_mutex_lock(&lock);
  struct shared *shared = find_locked(fault->si_addr);
  int failed = !shared ||
               advance(shared, (size_t)((uint8_t *)fault->si_addr - shared->start) / page_bytes);
  pthread_mutex_unlock(&lock);
  /* The host may read a flag that a kernel behind the copies has set. */
  if (!failed && !is_touching && !is_write(context)) sim_copies_may_have_ended();
  if (!failed) return;
  if (sim_contains(fault->si_addr) && write(STDERR_FILENO, words, sizeof words - 1) < 0) _exit(1);
  /* The access faults again when this returns. The previous handler then ends the process. */
  sigaction(number, &previous, NULL);
}

__attribute__((constructor)) static void watch_faults(void) {
  const struct sigaction watch = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
  struct sigaction found;
  if (!sigaction(SIGSEGV, &watch, &found) && found.sa_sigaction != on_fault) previous = found;
}

cudaError_t sim_allocate_managed(void **pointer, size_t bytes, int is_pinned) {
  NEED_CONTEXT();
  if (!pointer) return sim_report(cudaErrorInvalidValue);
  *pointer = NULL;
  if (!bytes) return cudaSuccess;
  uint64_t address;
  const struct sim_wanted asked = {bytes, 1};
  cudaError_t error = (cudaError_t)sim_ask(
      SIM_CALL_ALLOCATE, &(struct sim_part){&asked, sizeof asked}, 1, &address, sizeof address);
  if (error) return sim_report(error);
  const size_t pages = (bytes + page_bytes - 1) / page_bytes;
  struct shared *shared = calloc(1, sizeof *shared + pages * sizeof *shared->page);
  void *here = mmap((void *)address, pages * page_bytes, PROT_NONE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (!shared || here == MAP_FAILED) {
    free(shared);
    sim_release((void *)address);
    return sim_report(cudaErrorMemoryAllocation);
  }
  shared->start = here, shared->size = bytes, shared->pages = pages;
  shared->sharing = is_pinned ? PINNED : MANAGED;
  pthread_mutex_lock(&lock);
  shared->next = list, list = shared;
  pthread_mutex_unlock(&lock);
  /* Python's faulthandler may have replaced our handler in the meantime. */
  watch_faults();
  *pointer = here;
  return cudaSuccess;
}

enum sim_sharing sim_sharing_of(const void *pointer, size_t bytes) {
  pthread_mutex_lock(&lock);
  const struct shared *shared = find_locked(pointer);
  const int holds =
      shared && bytes <= shared->size - (size_t)((const uint8_t *)pointer - shared->start);
  const enum sim_sharing sharing = holds ? shared->sharing : NOT_SHARED;
  pthread_mutex_unlock(&lock);
  return sharing;
}

void sim_forget_managed(void *pointer) {
  pthread_mutex_lock(&lock);
  struct shared **place = &list;
  while (*place && (*place)->start != pointer) place = &(*place)->next;
  struct shared *shared = *place;
  if (shared) {
    *place = shared->next;
    mmap(shared->start, shared->pages * page_bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    for (size_t i = 0; i < shared->pages; ++i) free(shared->page[i].before);
  }
  pthread_mutex_unlock(&lock);
  free(shared);
}

/* Send a page's bytes from the first to the last one that differ from the device's. */
static void send_page(const struct shared *shared, size_t number) {
  const uint8_t *now = shared->start + number * page_bytes;
  const uint8_t *before = shared->page[number].before;
  size_t first = 0, end = bytes_of_page(shared, number);
  while (first < end && now[first] == before[first]) ++first;
  while (end > first && now[end - 1] == before[end - 1]) --end;
  const uint64_t address = (uint64_t)now + first;
  const struct sim_part parts[] = {{&address, sizeof address}, {now + first, end - first}};
  if (first < end) sim_ask_for_host(SIM_CALL_WRITE, parts, 2, NULL, 0);
}

size_t sim_first_change(const void *pointer, size_t bytes) {
  pthread_mutex_lock(&lock);
  const struct shared *shared = find_locked(pointer);
  const size_t start = shared ? (size_t)((const uint8_t *)pointer - shared->start) : 0;
  size_t at = shared ? 0 : bytes;
  for (; at < bytes; ++at) {
    const size_t number = (start + at) / page_bytes, offset = (start + at) % page_bytes;
    const struct page *page = &shared->page[number];
    if (page->state != DIRTY)
      at += page_bytes - 1 - offset;
    else if (shared->start[start + at] != page->before[offset])
      break;
  }
  if (at > bytes) at = bytes;
  pthread_mutex_unlock(&lock);
  return at;
}

void sim_flush_managed(void) {
  if (!list) return;
  sim_check_copies();
  pthread_mutex_lock(&lock);
  for (struct shared *shared = list; shared; shared = shared->next) {
    if (!shared->is_used) continue;
    for (size_t i = 0; i < shared->pages; ++i) {
      if (shared->page[i].state == DIRTY) send_page(shared, i);
      shared->page[i].state = STALE;
    }
    mprotect(shared->start, shared->pages * page_bytes, PROT_NONE);
    shared->is_used = 0;
  }
  pthread_mutex_unlock(&lock);
}

void sim_touch(const void *pointer, size_t bytes, int is_written) {
  if (!bytes || !sim_contains(pointer)) return;
  const uint64_t first = (uint64_t)pointer / page_bytes;
  const uint64_t last = ((uint64_t)pointer + bytes - 1) / page_bytes;
  is_touching = 1;
  for (uint64_t page = first; page <= last; ++page) {
    const uint64_t at = page * page_bytes;
    volatile uint8_t *byte = (uint8_t *)(at < (uint64_t)pointer ? (uint64_t)pointer : at);
    const uint8_t value = *byte;
    if (is_written) *byte = value;
  }
  is_touching = 0;
}
