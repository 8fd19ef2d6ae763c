#pragma once

#include <harness/torch.h>
