// What torch's large headers give to kernels' host code.
#pragma once

#include <harness/dispatch.h>
#include <harness/guard.h>
