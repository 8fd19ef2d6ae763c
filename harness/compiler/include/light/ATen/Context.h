// The headers of ATen's operators include <ATen/Context.h> and use nothing of it.
// What does not compile with this is compiled again with torch's own header.
#pragma once
