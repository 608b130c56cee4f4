#pragma once

#include <concepts>
#include <string>
#include <string_view>

namespace dlprobe {

/// Words and numbers of dlprobe's own, with nothing in them that another program chose. What is put
/// together of such words is one of them; a plain string is none.
class OwnWords : public std::string {
 public:
  OwnWords() = default;
  // NOLINTNEXTLINE(*-explicit-constructor,*-explicit-conversions): a literal is dlprobe's own
  OwnWords(const char* literal) : std::string(literal) {}

  OwnWords& operator+=(const OwnWords& more) {
    append(more);
    return *this;
  }

 private:
  friend OwnWords own(std::string_view text);
  explicit OwnWords(std::string_view text) : std::string(text) {}
};

/// Says of a text that it was made by dlprobe alone.
inline OwnWords own(std::string_view text) {
  return OwnWords(text);
}
/// A pid, a line, a count.
inline OwnWords own(std::integral auto number) {
  return own(std::to_string(number));
}

inline OwnWords operator+(OwnWords left, const OwnWords& right) {
  return left += right;
}
inline OwnWords operator+(OwnWords left, const char* literal) {
  return left += literal;
}
inline OwnWords operator+(const char* literal, const OwnWords& right) {
  return OwnWords(literal) += right;
}

}  // namespace dlprobe
