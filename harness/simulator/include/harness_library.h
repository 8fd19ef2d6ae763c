// Stand-ins for functions of CUDA's mathematical libraries. The simulator has only their names: a
// call is not a submission's own work, and the report names the function.
#pragma once

#include <cuda_runtime_api.h>

// Reports a call to the simulated device, which ends the step; defined in
// simulator/cudart/library.c.
extern "C" void sim_library_call(const char* function);

// A function that computes. It accepts any arguments and ignores them.
#define HARNESS_LIBRARY_FUNCTION(Status, failure, name)          \
  template <class... Arguments>                                  \
  inline Status name(Arguments&&...) {                           \
    sim_library_call(#name);                                     \
    return failure;                                              \
  }

// A function that computes nothing, such as one that describes a later computation.
#define HARNESS_LIBRARY_PREPARATION(Status, success, name)       \
  template <class... Arguments>                                  \
  inline Status name(Arguments&&...) {                           \
    return success;                                              \
  }

// A function that makes a handle, which is only required not to be null.
#define HARNESS_LIBRARY_CREATION(Status, success, name)          \
  template <class Handle, class... Arguments>                    \
  inline Status name(Handle* handle, Arguments&&...) {           \
    static char made;                                            \
    *handle = reinterpret_cast<Handle>(&made);                   \
    return success;                                              \
  }
