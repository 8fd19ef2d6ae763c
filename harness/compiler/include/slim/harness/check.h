// TORCH_CHECK, and the message that it makes of its arguments.
#pragma once

// Above the templates, since they find what is declared before them.
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

// The words of a check without a message are torch's.
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
