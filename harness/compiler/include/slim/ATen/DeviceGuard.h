#pragma once

#include <harness/guard.h>
