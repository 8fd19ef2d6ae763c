// <ATen/ATen.h> has every operator; headers of those that a source calls are included beside this.
// What does not compile with this is compiled again with torch's own header.
#pragma once

#include <torch/types.h>
