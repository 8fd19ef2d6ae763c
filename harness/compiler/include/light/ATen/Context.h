// An empty <ATen/Context.h>: the headers of ATen's operators include it and use nothing of it. A
// source that does not compile with this header is compiled again with torch's own.
#pragma once
