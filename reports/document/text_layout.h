#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "lib/base/escape.h"
#include "lib/base/names.h"
#include "reports/model/objects/finding.h"
#include "reports/model/shape.h"

namespace dlprobe {

/// A text, escaped for the terminal; the name of an enum's value; "" for nothing.
inline std::string shown(std::string_view text) {
  return escape_for_terminal(text);
}
template <NamedEnum E>
std::string shown(E value) {
  return std::string(to_string(value));
}
template <class T>
std::string shown(const std::optional<T>& value) {
  return value ? shown(*value) : std::string();
}

// Values for a person. "-" where there is none: never a made-up 0.

/// "64.0 MiB".
std::string bytes_text(std::optional<double> bytes);
/// Without a fraction.
std::string count_text(std::optional<double> count);
/// Bytes and seconds as people say them, else three digits and the unit.
std::string number_text(std::optional<double> number, std::string_view unit = "");
/// Any value, by its unit.
std::string value_text(const Scalar& value, std::string_view unit = "");
/// That of a fact.
std::string value_text(const report::Evidence& fact);

/// "reason (until 2026-12-31, dlprobe.toml:3)": why a finding does not count, and who has said so.
std::string suppression_text(const report::Suppressed& suppressed);

}  // namespace dlprobe
