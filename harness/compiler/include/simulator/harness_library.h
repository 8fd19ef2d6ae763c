// A function of one of CUDA's mathematical libraries, of which the simulator has the name alone: to
// call one is not a submission's own work, and the report says which did it.
#pragma once

#include <cuda_runtime_api.h>

// Tells the simulated device, which ends the step; defined in simulator/cudart/library.c.
extern "C" void sim_library_call(const char* function);

// Takes whatever arguments there are: none is looked at.
#define HARNESS_LIBRARY_FUNCTION(Status, failure, name)          \
  template <class... Arguments>                                  \
  inline Status name(Arguments&&...) {                           \
    sim_library_call(#name);                                     \
    return failure;                                              \
  }

// A function that computes nothing, such as one that describes what is to be computed.
#define HARNESS_LIBRARY_PREPARATION(Status, success, name)       \
  template <class... Arguments>                                  \
  inline Status name(Arguments&&...) {                           \
    return success;                                              \
  }

// One that makes a handle: whoever asks gets something that is not null.
#define HARNESS_LIBRARY_CREATION(Status, success, name)          \
  template <class Handle, class... Arguments>                    \
  inline Status name(Handle* handle, Arguments&&...) {           \
    static char made;                                            \
    *handle = reinterpret_cast<Handle>(&made);                   \
    return success;                                              \
  }
