/* Lookup of the driver's functions by name. */
#define _GNU_SOURCE
#include <cuda.h>
#include <dlfcn.h>
#include <pthread.h>
#include <string.h>

#include "internal.h"

/* torch registers a callback for error logs. It is never called, because the harness's report
 * has the errors. */
static CUresult register_logs(void *callback, void *data, void **handle) {
  (void)callback, (void)data;
  if (handle) *handle = NULL;
  return CUDA_SUCCESS;
}

static CUresult unregister_logs(void *handle) {
  (void)handle;
  return CUDA_SUCCESS;
}

static const struct {
  const char *name;
  void *function;
} entry_points[] = {
#define ENTRY(function) {#function, (void *)function}
    ENTRY(cuTensorMapEncodeTiled), ENTRY(cuGetErrorString), ENTRY(cuGetErrorName),
    ENTRY(cuInit),                 ENTRY(cuDriverGetVersion), ENTRY(cuDeviceGetCount),
    ENTRY(cuDeviceGet),            ENTRY(cuCtxGetDevice),   ENTRY(cuCtxSynchronize),
    ENTRY(cuDeviceGetAttribute),
#undef ENTRY
    /* These do not use ENTRY, because the headers of CUDA 12.8 and older do not declare them. */
    {"cuLogsRegisterCallback", (void *)register_logs},
    {"cuLogsUnregisterCallback", (void *)unregister_logs},
};

/* ---- functions that only torch looks up ------------------------------------------------------ */

/* A torch that was built for CUDA 13 looks up all functions that any part of it may call, and fails
 * if one is missing. So it receives a function for every name, which reports itself as unsupported
 * when it is called. Each name needs a function of its own, because the call does not pass the
 * name. */
#define EIGHT(each, row) \
  each(row##0) each(row##1) each(row##2) each(row##3) each(row##4) each(row##5) each(row##6) each(row##7)
/* The numbers are octal. */
#define ALL(each)                                                           \
  EIGHT(each, 00) EIGHT(each, 01) EIGHT(each, 02) EIGHT(each, 03)           \
  EIGHT(each, 04) EIGHT(each, 05) EIGHT(each, 06) EIGHT(each, 07)

static char missing[64][64]; /* the names; the first empty one is free */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

#define DEFINE(number)                                     \
  static CUresult missing_##number(void) {                 \
    sim_unsupported(missing[number]);                      \
    return CUDA_ERROR_NOT_SUPPORTED;                       \
  }
ALL(DEFINE)
#undef DEFINE

static CUresult (*const missing_functions[])(void) = {
#define NAME(number) missing_##number,
    ALL(NAME)
#undef NAME
};

/* Return a function that reports this name as unsupported, or NULL if there is no room for it. */
static void *missing_function(const char *symbol) {
  void *found = NULL;
  if (strlen(symbol) >= sizeof *missing) return NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; !found && i < sizeof missing / sizeof *missing; ++i) {
    if (!*missing[i]) strcpy(missing[i], symbol);
    if (!strcmp(missing[i], symbol)) found = (void *)missing_functions[i];
  }
  pthread_mutex_unlock(&lock);
  return found;
}

/* Return whether code belongs to one of torch's libraries. */
static int is_of_torch(const void *code) {
  Dl_info where;
  if (!dladdr(code, &where) || !where.dli_fname) return 0;
  const char *slash = strrchr(where.dli_fname, '/');
  const char *name = slash ? slash + 1 : where.dli_fname;
  return !strncmp(name, "libc10_cuda.", 12) || !strncmp(name, "libtorch", 8);
}

/* ---- looking up ------------------------------------------------------------------------------ */

static void *entry_point(const char *symbol) {
  for (size_t i = 0; i < sizeof entry_points / sizeof *entry_points; ++i)
    if (!strcmp(symbol, entry_points[i].name)) return entry_points[i].function;
  return NULL;
}

static cudaError_t find(const char *symbol, void **function,
                        enum cudaDriverEntryPointQueryResult *status, const void *caller) {
  if (!symbol || !function) return sim_report(cudaErrorInvalidValue);
  *function = entry_point(symbol);
  if (!*function && is_of_torch(caller)) *function = missing_function(symbol);
  if (!*function) sim_note_unsupported(symbol);
  if (status)
    *status = *function ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return *function || status ? cudaSuccess : sim_report(cudaErrorSymbolNotFound);
}

cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags,
                                    enum cudaDriverEntryPointQueryResult *status) {
  (void)flags;
  return find(symbol, function, status, __builtin_return_address(0));
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function,
                                             unsigned int version, unsigned long long flags,
                                             enum cudaDriverEntryPointQueryResult *status) {
  (void)version, (void)flags;
  return find(symbol, function, status, __builtin_return_address(0));
}
