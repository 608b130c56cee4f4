#pragma once

#include <charconv>
#include <concepts>
#include <optional>
#include <string_view>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {

/// The whole of `text` as an integer in `base`, or nothing: no sign tricks, no trailing characters,
/// no overflow. The only number parser of the project beside parse_double.
template <std::integral T>
std::optional<T> parse_int(std::string_view text, int base = 10) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, status] = std::from_chars(text.data(), end, value, base);
  if (status != std::errc{} || stop != end || text.empty()) return std::nullopt;
  return value;
}

/// The whole of `text` as a finite decimal number, or nothing.
std::optional<double> parse_double(std::string_view text);

/// `text` without leading and trailing blanks, tabs and newlines.
std::string_view trim(std::string_view text);

/// The non-empty fields of `text` between runs of blanks and tabs.
std::vector<std::string_view> split_fields(std::string_view text);

/// The pieces of `text` between `separator`, empty ones kept: "a,,b" gives "a", "", "b".
std::vector<std::string_view> split(std::string_view text, char separator);

/// Calls `visit(line)` for each line of `text`, without its newline; a last line without one
/// counts.
template <class Visit>
void for_each_line(std::string_view text, Visit&& visit) {
  while (!text.empty()) {
    const size_t end = text.find('\n');
    visit(text.substr(0, end));
    if (end == std::string_view::npos) return;
    text.remove_prefix(end + 1);
  }
}

}  // namespace dlprobe
