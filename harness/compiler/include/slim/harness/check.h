// TORCH_CHECK, and the conversion of its arguments to a message.
#pragma once

// This stands above the templates: they find only the `append` functions declared before them.
#include <harness/tensor.h>

namespace harness_slim {

template <typename... Arguments>
std::string text(const Arguments&... arguments) {
  std::string made;
  (append(made, arguments), ...);
  return made;
}

template <typename... Arguments>
std::string message(const char*, const Arguments&... arguments) {
  return text(arguments...);
}
inline std::string message(const char* otherwise) {
  return otherwise;
}

} // namespace harness_slim

// The default message is torch's.
#define TORCH_CHECK(condition, ...)                                                          \
  if (!(condition)) {                                                                        \
    ::harness_slim::fail(                                                                    \
        __func__,                                                                            \
        __FILE__,                                                                            \
        static_cast<uint32_t>(__LINE__),                                                     \
        ::harness_slim::message(                                                             \
            "Expected " #condition " to be true, but got false.  (Could this error message " \
            "be improved?  If so, please report an enhancement request to PyTorch.)",        \
            ##__VA_ARGS__));                                                                 \
  }
