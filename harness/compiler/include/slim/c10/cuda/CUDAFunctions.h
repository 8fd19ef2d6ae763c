#pragma once

#include <harness/cuda.h>
