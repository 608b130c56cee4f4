#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <type_traits>

namespace dlprobe {

/// The names of an enum's values, in their order, as recordings and reports have them. Declared
/// once, beside the enum:
///
///     template <>
///     struct Names<Role> {
///       static constexpr auto kList = std::to_array<std::string_view>({"trainer", "worker"});
///     };
///
/// This gives to_string, from_string and kValues. The values count from 0 without a hole; an
/// enumerator without a name does not compile where one of the three is used.
template <class E>
struct Names;

/// An enum whose names are declared.
template <class E>
concept NamedEnum = std::is_enum_v<E> && requires { Names<E>::kList.size(); };

namespace names_detail {

// Compilers write a value that no enumerator has as a cast: "[with auto V = (dlprobe::Role)7]".
template <auto V>
constexpr bool is_enumerator() {
  constexpr std::string_view kLabel = "V = ";
  const std::string_view text = __PRETTY_FUNCTION__;
  return text[text.find(kLabel) + kLabel.size()] != '(';
}

template <NamedEnum E>
constexpr bool names_every_value() {
  constexpr size_t kCount = Names<E>::kList.size();
  return is_enumerator<static_cast<E>(kCount - 1)>() && !is_enumerator<static_cast<E>(kCount)>();
}

template <NamedEnum E>
constexpr auto make_values() {
  static_assert(names_every_value<E>(), "Names<E>::kList has one name for each enumerator");
  std::array<E, Names<E>::kList.size()> values = {};
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<E>(i);
  return values;
}

}  // namespace names_detail

/// Every value of the enum, in order.
template <NamedEnum E>
inline constexpr auto kValues = names_detail::make_values<E>();

/// The name of `value`; "unknown" for a number that no enumerator has.
template <NamedEnum E>
constexpr std::string_view to_string(E value) {
  const auto index = static_cast<size_t>(value);
  return index < kValues<E>.size() ? Names<E>::kList[index] : "unknown";
}

/// The value of that name, or nothing: what an unknown name means is for the caller to say.
template <NamedEnum E>
constexpr std::optional<E> from_string(std::string_view name) {
  for (const E value : kValues<E>) {
    if (to_string(value) == name) return value;
  }
  return std::nullopt;
}

}  // namespace dlprobe
