#include "reports/model/known_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lib/base/suggest.h"
#include "reports/model/shape.h"

namespace dlprobe {
namespace {

std::string shown(const Json& value) {
  constexpr size_t kMost = 60;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

bool is_allowed(const Json& value, const Scalar& allowed) {
  if (const auto* text = std::get_if<std::string_view>(&allowed)) return value == *text;
  return value == std::get<int64_t>(allowed);
}

std::string allowed_name(const Scalar& allowed) {
  if (const auto* text = std::get_if<std::string_view>(&allowed)) return std::string(*text);
  return std::to_string(std::get<int64_t>(allowed));
}

/// Walks a report and its shape together.
class Walk {
 public:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as parse_report() lets a report be
  Status check(const Json& value, const Shape& shape) {
    const auto is_value = [&value](const Scalar& allowed) { return is_allowed(value, allowed); };
    if (!shape.allowed.empty() && std::ranges::none_of(shape.allowed, is_value))
      return refuse(value, shape);
    if (shape.kind == Shape::Kind::kList && shape.columns.empty() && value.is_array()) {
      for (size_t i = 0; i < value.size(); ++i)
        DLP_CHECK(step(std::to_string(i), value[i], *shape.item));
    }
    if (shape.kind == Shape::Kind::kObject && value.is_object())
      return check_fields(value, shape, "");
    return {};
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Status check_fields(const Json& object, const Shape& shape, const std::string& prefix) {
    for (const FieldShape& field : shape.fields) {
      if (field.is_among_others) {
        DLP_CHECK(check_fields(object, *field.shape, field.key));
        continue;
      }
      const std::string key = prefix + field.key;
      if (const auto member = object.find(key); member != object.end())
        DLP_CHECK(step(key, *member, *field.shape));
    }
    return {};
  }

  // NOLINTNEXTLINE(misc-no-recursion): see check()
  Status step(const std::string& key, const Json& value, const Shape& shape) {
    path_.push_back(key);
    DLP_CHECK(check(value, shape));
    path_.pop_back();
    return {};
  }

  Status refuse(const Json& value, const Shape& shape) const {
    Json::json_pointer pointer;
    for (const std::string& key : path_)
      pointer.push_back(key);
    std::vector<std::string> names;
    names.reserve(shape.allowed.size());
    for (const Scalar& each : shape.allowed)
      names.push_back(allowed_name(each));
    const std::string typed = value.is_string() ? value.get<std::string>() : "";
    return failure(ErrorCode::kMalformed,
                   fmt::format("{} of the report is {}{}: {} {}", pointer.to_string(), shown(value),
                               did_you_mean(typed, names),
                               names.size() == 1 ? "it has to be" : "it has to be one of",
                               fmt::join(names, ", ")));
  }

  std::vector<std::string> path_;
};

}  // namespace

Status check_known_values(const Json& report) {
  const bool is_cluster = report.value("kind", "") == kClusterReportKind;
  return Walk().check(report, is_cluster ? cluster_shape() : report_shape());
}

}  // namespace dlprobe
