#include "reports/model/read_json.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "lib/base/suggest.h"
#include "reports/model/objects/values.h"

namespace dlprobe {
namespace {

Scalar scalar_of(const Json& json) {
  if (json.is_string()) return std::string_view(json.get_ref<const std::string&>());
  if (json.is_boolean()) return json.get<bool>();
  if (json.is_number_unsigned()) return json.get<uint64_t>();
  if (json.is_number_integer()) return json.get<int64_t>();
  if (json.is_number_float()) return json.get<double>();
  return {};
}

std::string quoted(const Json& value) {
  constexpr size_t kMost = 60;
  if (value.is_structured()) return value.is_array() ? "a list" : "an object";
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kMost) text = text.substr(0, kMost) + "...";
  return text;
}

std::string allowed_name(const Scalar& allowed) {
  if (const auto* text = std::get_if<std::string_view>(&allowed)) return std::string(*text);
  return std::to_string(std::get<int64_t>(allowed));
}

// "one of pass, fail", "a list".
std::string wanted(const Shape& shape, const std::vector<std::string>& names) {
  if (names.size() == 1) return names.front();
  if (!names.empty()) return fmt::format("one of {}", fmt::join(names, ", "));
  if (shape.kind == Shape::Kind::kScalar)
    return fmt::format("a {}", fmt::join(shape.types, " or a "));
  const bool is_list = shape.kind == Shape::Kind::kList || shape.kind == Shape::Kind::kRow;
  return is_list ? "a list" : "an object";
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
bool has_any(const Json& object, const Shape& shape, const std::string& prefix) {
  return std::ranges::any_of(shape.fields, [&](const FieldShape& field) {
    return field.is_among_others ? has_any(object, *field.shape, field.key)
                                 : object.contains(prefix + field.key);
  });
}

/// Walks a document and its shape together.
class Reader {
 public:
  explicit Reader(ReadMode mode) : mode_(mode) {}

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Status read(const Json& json, const Shape& shape, void* value) {
    switch (shape.kind) {
      case Shape::Kind::kScalar:
        return shape.set(value, scalar_of(json)) ? Status() : refuse(json, shape);
      case Shape::Kind::kList:
        return json.is_array() ? read_items(json, shape, value) : refuse(json, shape);
      case Shape::Kind::kRow:
        return json.is_array() ? read_places(json, shape, value) : refuse(json, shape);
      case Shape::Kind::kCounts:
        return read_counts(json, shape, *static_cast<report::NamedCounts*>(value));
      case Shape::Kind::kObject:
        break;
    }
    return json.is_object() ? read_fields(json, shape, value, "") : refuse(json, shape);
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Status read_items(const Json& json, const Shape& shape, void* list) {
    if (!shape.columns.empty()) return {};
    for (size_t i = 0; i < json.size(); ++i) {
      path_.push_back(std::to_string(i));
      DLP_CHECK(read(json[i], *shape.item, shape.add(list)));
      path_.pop_back();
    }
    return {};
  }

  // Later versions have more places.
  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Status read_places(const Json& json, const Shape& shape, void* row) {
    for (size_t i = 0; i < shape.fields.size(); ++i)
      DLP_CHECK(read_field(std::to_string(i), i < json.size() ? &json[i] : nullptr, shape.fields[i],
                           row));
    return {};
  }

  Status read_counts(const Json& json, const Shape& shape, report::NamedCounts& counts) {
    if (!json.is_object()) return refuse(json, shape);
    for (const auto& [name, count] : json.items()) {
      if (!count.is_number_unsigned()) return refuse(json, shape);
      counts.counts.emplace_back(name, count.get<uint64_t>());
    }
    return {};
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Status read_fields(const Json& json, const Shape& shape, void* object,
                     const std::string& prefix) {
    for (const FieldShape& field : shape.fields) {
      if (!field.is_among_others) {
        const std::string key = prefix + field.key;
        const auto member = json.find(key);
        DLP_CHECK(read_field(key, member == json.end() ? nullptr : &*member, field, object));
      } else if (!field.is_optional || has_any(json, *field.shape, field.key)) {
        DLP_CHECK(read_fields(json, *field.shape, field.make_in(object), field.key));
      }
    }
    return {};
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Status read_field(const std::string& key, const Json* json, const FieldShape& field,
                    void* object) {
    path_.push_back(key);
    const bool is_there = json != nullptr && !json->is_null();
    if (is_there) DLP_CHECK(read(*json, *field.shape, field.make_in(object)));
    if (!is_there && !field.is_optional) DLP_CHECK(do_without(*field.shape, field.make_in(object)));
    path_.pop_back();
    return {};
  }

  Status do_without(const Shape& shape, void* value) const {
    const bool is_none = shape.kind == Shape::Kind::kScalar &&
                         shape.set(value, Scalar(std::numeric_limits<double>::quiet_NaN()));
    // The sections themselves are what makes it a report.
    const bool is_inner_list = shape.kind == Shape::Kind::kList && path_.size() > 1;
    if (is_none || is_inner_list || mode_ == ReadMode::kPart) return {};
    return failure(ErrorCode::kMalformed, "the report has no " + place());
  }

  Status refuse(const Json& json, const Shape& shape) const {
    if (mode_ != ReadMode::kStrict && !shape.allowed.empty()) return {};
    std::vector<std::string> names;
    names.reserve(shape.allowed.size());
    for (const Scalar& each : shape.allowed)
      names.push_back(allowed_name(each));
    const std::string typed = json.is_string() ? json.get<std::string>() : "";
    return failure(ErrorCode::kMalformed,
                   fmt::format("{} of the report is {}{}: it has to be {}", place(), quoted(json),
                               did_you_mean(typed, names), wanted(shape, names)));
  }

  std::string place() const {
    Json::json_pointer pointer;
    for (const std::string& key : path_)
      pointer.push_back(key);
    return pointer.to_string();
  }

  ReadMode mode_;
  std::vector<std::string> path_;
};

}  // namespace

Status read_json(const Json& json, const Shape& shape, void* value, ReadMode mode) {
  return Reader(mode).read(json, shape, value);
}

}  // namespace dlprobe
