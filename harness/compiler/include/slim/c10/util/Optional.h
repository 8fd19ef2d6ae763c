#pragma once

#include <harness/tensor.h>
