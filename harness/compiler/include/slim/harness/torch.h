// The part of torch's large headers that the host code of kernels uses.
#pragma once

#include <harness/dispatch.h>
#include <harness/guard.h>
