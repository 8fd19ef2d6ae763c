#pragma once

#include <harness/bindings.h>
