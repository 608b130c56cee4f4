#include "reports/document/text_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "lib/base/escape.h"
#include "lib/base/units.h"

namespace dlprobe {
namespace {

std::string bytes_text(double bytes) {
  if (bytes < 0) return "-" + format_bytes(static_cast<uint64_t>(std::min(-bytes, 1.8e19)));
  return format_bytes(static_cast<uint64_t>(std::min(bytes, 1.8e19)));
}

std::string seconds_text(double seconds) {
  if (!(std::abs(seconds) < 9e9)) return fmt::format("{} s", seconds);
  return format_duration(std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9)));
}

std::string with_unit(const std::string& text, std::string_view unit) {
  return unit.empty() || unit == "1" ? text : text + " " + escape_for_terminal(unit);
}

const Json* member_of(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() ? nullptr : &*found;
}

}  // namespace

std::string text_at(const Json& object, const char* key) {
  const Json* found = member_of(object, key);
  if (found == nullptr || !found->is_string()) return "";
  return escape_for_terminal(found->get_ref<const std::string&>());
}

std::optional<double> number_at(const Json& object, const char* key) {
  const Json* found = member_of(object, key);
  if (found == nullptr || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

int64_t integer_at(const Json& object, const char* key) {
  constexpr double kExact = 9e15;
  const auto number = number_at(object, key);
  return number && std::abs(*number) < kExact ? static_cast<int64_t>(*number) : 0;
}

const Json& items_at(const Json& object, const char* key) {
  static const Json none = Json::array();
  const Json* found = member_of(object, key);
  return found != nullptr && found->is_array() ? *found : none;
}

const Json& object_at(const Json& object, const char* key) {
  static const Json none = Json::object();
  const Json* found = member_of(object, key);
  return found != nullptr && found->is_object() ? *found : none;
}

std::string raw_at(const Json& object, const char* key) {
  const Json* found = member_of(object, key);
  return found != nullptr && found->is_string() ? found->get<std::string>() : "";
}

std::string bytes_at(const Json& object, const char* key) {
  const auto bytes = number_at(object, key);
  return bytes ? bytes_text(*bytes) : "-";
}

std::string suppression_text(const Json& finding) {
  const Json& suppressed = object_at(finding, "suppressed");
  const std::string until = text_at(suppressed, "until");
  return fmt::format("{} ({}{})", text_at(suppressed, "reason"),
                     until.empty() ? "" : "until " + until + ", ", text_at(suppressed, "source"));
}

std::string value_with_unit(const Json& value, std::string_view unit) {
  if (value.is_string()) return escape_for_terminal(value.get_ref<const std::string&>());
  if (!value.is_number()) return "-";
  if (value.is_number_float() || unit == "bytes" || unit == "s")
    return number_text(value.get<double>(), unit);
  return with_unit(escape_for_terminal(value.dump()), unit);
}

std::string number_text(double number, std::string_view unit) {
  if (unit == "bytes") return bytes_text(number);
  if (unit == "s") return seconds_text(number);
  return with_unit(fmt::format("{:.3g}", number), unit);
}

}  // namespace dlprobe
