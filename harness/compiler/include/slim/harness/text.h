// Conversion of values to a message's text. Streams would do it too, but their headers are large.
#pragma once

#include <harness/functions.h>

#include <type_traits>

namespace harness_slim {

inline void append(std::string& text, const char* word) {
  text += word;
}
inline void append(std::string& text, const std::string& word) {
  text += word;
}
inline void append(std::string& text, char letter) {
  text += letter;
}
inline void append(std::string& text, bool value) {
  text += value ? '1' : '0';
}
inline void append(std::string& text, c10::ScalarType type) {
  text += name(type);
}
template <
    typename T,
    std::enable_if_t<
        std::is_integral_v<T> && (sizeof(T) > 1) && !std::is_same_v<T, wchar_t> &&
            !std::is_same_v<T, char16_t> && !std::is_same_v<T, char32_t>,
        int> = 0>
void append(std::string& text, T value) {
  text += std::to_string(value);
}
inline void append(std::string& text, float value) {
  append(text, static_cast<double>(value));
}

} // namespace harness_slim
