#pragma once

#include <harness/check.h>
