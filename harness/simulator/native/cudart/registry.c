/* The registry of kernels and device variables. nvcc's host code registers them when an
 * extension is loaded. */
#include <pthread.h>
#include <stdlib.h>

#include "internal.h"

struct module {
  const void *image; /* the fat binary, whose PTX is text because of nvcc's option -no-compress */
  int live;
  uint64_t number; /* the number in the device process, from 1; 0 until it is sent there */
};

/* The header of a fat binary, as nvcc 13.0 writes it. */
struct fat_binary {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t body_bytes;
};

struct entry {
  struct module *module;
  const void *host; /* the address of the host's stub function or shadow variable */
  struct sim_symbol symbol;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct entry *entries;
static size_t count, capacity;

static void add(void **handle, const void *host, const char *name, size_t size) {
  struct module *module = (struct module *)handle;
  pthread_mutex_lock(&lock);
  if (count == capacity) {
    capacity = capacity ? 2 * capacity : 64;
    entries = realloc(entries, capacity * sizeof *entries);
    if (!entries) abort();
  }
  entries[count++] = (struct entry){module, host, {module, name, size, -1, NULL, 0}};
  pthread_mutex_unlock(&lock);
}

static struct entry *find_locked(const void *host) {
  for (size_t i = count; i-- > 0;)
    if (entries[i].host == host && entries[i].module->live) return &entries[i];
  return NULL;
}

int sim_find_symbol(const void *host, struct sim_symbol *found) {
  pthread_mutex_lock(&lock);
  const struct entry *entry = find_locked(host);
  if (entry) *found = entry->symbol;
  pthread_mutex_unlock(&lock);
  return entry != NULL;
}

void sim_limit_dynamic_shared(const void *host, long limit) {
  pthread_mutex_lock(&lock);
  struct entry *entry = find_locked(host);
  if (entry) entry->symbol.dynamic_shared_limit = limit;
  pthread_mutex_unlock(&lock);
}

void sim_keep_parameters(const void *host, const uint32_t *sizes, unsigned parameter_count) {
  pthread_mutex_lock(&lock);
  struct entry *entry = find_locked(host);
  if (entry) entry->symbol.parameters = sizes, entry->symbol.parameter_count = parameter_count;
  pthread_mutex_unlock(&lock);
}

cudaError_t sim_number_of(struct module *module, uint64_t *number) {
  pthread_mutex_lock(&lock);
  int error = cudaSuccess;
  if (!module->number) {
    const struct fat_binary *image = module->image;
    const struct sim_part part = {image, image->header_bytes + image->body_bytes};
    error = sim_ask(SIM_CALL_MODULE, &part, 1, &module->number, sizeof module->number);
  }
  *number = module->number;
  pthread_mutex_unlock(&lock);
  return (cudaError_t)error;
}

void **__cudaRegisterFatBinary(void *fat_cubin) {
  struct wrapper {
    int magic, version;
    const void *image;
    void *unused;
  } *wrapper = fat_cubin;
  struct module *module = malloc(sizeof *module);
  if (!module) abort();
  module->image = wrapper->image;
  module->live = 1;
  module->number = 0;
  return (void **)module;
}

void __cudaRegisterFatBinaryEnd(void **handle) { (void)handle; }

/* Mark a module as unloaded. Its record stays, because its entries still point to it. */
void __cudaUnregisterFatBinary(void **handle) { ((struct module *)handle)->live = 0; }

char __cudaInitModule(void **handle) {
  (void)handle;
  return 1;
}

void __cudaRegisterFunction(void **handle, const char *host, char *device, const char *name,
                            int thread_limit, void *tid, void *bid, void *block, void *grid,
                            int *warp_size) {
  (void)device, (void)thread_limit, (void)tid, (void)bid, (void)block, (void)grid, (void)warp_size;
  add(handle, host, name, 0);
}

void __cudaRegisterVar(void **handle, char *host, char *device, const char *name, int external,
                       size_t size, int constant, int global) {
  (void)device, (void)external, (void)constant, (void)global;
  add(handle, host, name, size);
}
