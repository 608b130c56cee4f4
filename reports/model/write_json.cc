#include "reports/model/write_json.h"

#include <utility>

#include "lib/base/utf8.h"
#include "reports/model/objects/values.h"

namespace dlprobe {
namespace {

Json json_of_scalar(const Scalar& scalar) {
  if (const auto* text = std::get_if<std::string_view>(&scalar)) return to_valid_utf8(*text);
  if (const auto* real = std::get_if<double>(&scalar)) return *real;
  if (const auto* whole = std::get_if<int64_t>(&scalar)) return *whole;
  if (const auto* count = std::get_if<uint64_t>(&scalar)) return *count;
  if (const auto* flag = std::get_if<bool>(&scalar)) return *flag;
  return nullptr;
}

// A number that JSON cannot write has no key.
// NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
void put_fields(Json& json, const Shape& shape, const void* object, const std::string& prefix) {
  for (const FieldShape& field : shape.fields) {
    const void* value = field.value_in(object);
    if (value == nullptr) continue;
    if (field.is_among_others) {
      put_fields(json, *field.shape, value, field.key);
      continue;
    }
    Json member = json_of(*field.shape, value);
    if (!member.is_null()) json[prefix + field.key] = std::move(member);
  }
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
Json json_of_row(const Shape& shape, const void* object) {
  Json row = Json::array();
  for (const FieldShape& field : shape.fields) {
    const void* value = field.value_in(object);
    row.push_back(value == nullptr ? Json() : json_of(*field.shape, value));
  }
  return row;
}

// NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
Json json_of_list(const Shape& shape, const void* list) {
  if (!shape.columns.empty()) return shape.columns;
  Json result = Json::array();
  for (size_t i = 0; i < shape.size(list); ++i)
    result.push_back(json_of(*shape.item, shape.at(list, i)));
  return result;
}

Json json_of_counts(const report::NamedCounts& counts) {
  Json result = Json::object();
  for (const auto& [name, count] : counts.counts)
    result[to_valid_utf8(name)] = count;
  return result;
}

}  // namespace

// NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
Json json_of(const Shape& shape, const void* value) {
  switch (shape.kind) {
    case Shape::Kind::kScalar:
      return json_of_scalar(shape.get(value));
    case Shape::Kind::kList:
      return json_of_list(shape, value);
    case Shape::Kind::kRow:
      return json_of_row(shape, value);
    case Shape::Kind::kCounts:
      return json_of_counts(*static_cast<const report::NamedCounts*>(value));
    case Shape::Kind::kObject:
      break;
  }
  Json result = Json::object();
  put_fields(result, shape, value, "");
  return result;
}

Json json_of(const AnyReport& report) {
  return report.cluster ? json_of(cluster_shape(), &*report.cluster)
                        : json_of(report_shape(), &report.report);
}

std::string text_of_json(const Json& json) {
  return json.dump(2, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace) + "\n";
}

}  // namespace dlprobe
