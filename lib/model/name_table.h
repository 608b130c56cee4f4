#pragma once

#include <array>
#include <optional>
#include <string_view>
#include <utility>

namespace dlprobe {

/// The names of an enum's values, as they stand in recordings and reports.
template <class E, size_t N>
using NameTable = std::array<std::pair<E, std::string_view>, N>;

/// The name of `value`; "unknown" for a value that the table lacks.
template <class E, size_t N>
constexpr std::string_view name_of(const NameTable<E, N>& table, E value) {
  for (const auto& [candidate, name] : table) {
    if (candidate == value) return name;
  }
  return "unknown";
}

/// The value of `name`, or nothing.
template <class E, size_t N>
constexpr std::optional<E> value_of(const NameTable<E, N>& table, std::string_view name) {
  for (const auto& [value, candidate] : table) {
    if (candidate == name) return value;
  }
  return std::nullopt;
}

}  // namespace dlprobe
