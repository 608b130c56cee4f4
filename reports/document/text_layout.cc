#include "reports/document/text_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/base/units.h"

namespace dlprobe {
namespace {

std::string seconds_text(double seconds) {
  if (!(std::abs(seconds) < 9e9)) return fmt::format("{} s", seconds);
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
}

std::string with_unit(const std::string& text, std::string_view unit) {
  return unit.empty() || unit == "1" ? text : text + " " + escape_for_terminal(unit);
}

}  // namespace

std::string bytes_text(std::optional<double> bytes) {
  if (!bytes || !std::isfinite(*bytes)) return "-";
  const std::string text = format_bytes(static_cast<uint64_t>(std::min(std::abs(*bytes), 1.8e19)));
  return *bytes < 0 ? "-" + text : text;
}

std::string count_text(std::optional<double> count) {
  return count && std::isfinite(*count) ? fmt::format("{:.0f}", *count) : "-";
}

std::string number_text(std::optional<double> number, std::string_view unit) {
  if (!number || !std::isfinite(*number)) return "-";
  if (unit == "bytes") return bytes_text(number);
  if (unit == "bytes/s") return bytes_text(number) + "/s";
  if (unit == "s") return seconds_text(*number);
  if (unit == "1" && *number > 0 && *number < 0.001) return "less than 0.001";
  return with_unit(fmt::format("{:.3g}", *number), unit);
}

std::string value_text(const Scalar& value, std::string_view unit) {
  const bool is_measured = unit == "bytes" || unit == "bytes/s" || unit == "s";
  const auto text_of_whole = [&](auto number) {
    return is_measured ? number_text(static_cast<double>(number), unit)
                       : with_unit(std::to_string(number), unit);
  };
  if (const auto* text = std::get_if<std::string_view>(&value)) return shown(*text);
  if (const auto* real = std::get_if<double>(&value)) return number_text(*real, unit);
  if (const auto* whole = std::get_if<int64_t>(&value)) return text_of_whole(*whole);
  if (const auto* count = std::get_if<uint64_t>(&value)) return text_of_whole(*count);
  return "-";
}

std::string value_text(const report::Evidence& fact) {
  if (!fact.value) return "-";
  const std::string unit = shown(fact.unit);
  if (const auto* text = std::get_if<std::string>(&fact.value->value)) return shown(*text);
  if (const auto* real = std::get_if<double>(&fact.value->value)) return number_text(*real, unit);
  return value_text(Scalar(std::get<int64_t>(fact.value->value)), unit);
}

std::string suppression_text(const report::Suppressed& suppressed) {
  const std::string until = shown(suppressed.until);
  return fmt::format("{} ({}{})", shown(suppressed.reason),
                     until.empty() ? "" : "until " + until + ", ", shown(suppressed.source));
}

}  // namespace dlprobe
