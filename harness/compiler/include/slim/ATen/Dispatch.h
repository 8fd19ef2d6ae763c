#pragma once

#include <harness/dispatch.h>
