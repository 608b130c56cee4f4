// The JSON schema, made from the shapes of the documents.

#include <fmt/format.h>

#include <map>
#include <utility>

#include "reports/model/json.h"
#include "reports/model/report.h"
#include "reports/model/shape.h"

namespace dlprobe {
namespace {

Json json_of_allowed(const Scalar& scalar) {
  if (const auto* number = std::get_if<int64_t>(&scalar)) return *number;
  return std::get<std::string_view>(scalar);
}

Json schema_of_scalar(const Shape& shape) {
  Json schema;
  if (shape.allowed.size() == 1) {
    schema["const"] = json_of_allowed(shape.allowed.front());
    return schema;
  }
  if (!shape.allowed.empty()) {
    for (const Scalar& value : shape.allowed)
      schema["enum"].push_back(json_of_allowed(value));
    return schema;
  }
  schema["type"] = shape.types.size() == 1 ? Json(shape.types.front()) : Json(shape.types);
  if (shape.is_unsigned) schema["minimum"] = 0;
  if (shape.is_moment_of_day) schema["format"] = "date-time";
  if (!shape.pattern.empty()) schema["pattern"] = shape.pattern;
  return schema;
}

/// Makes each object a definition of its own, once.
class Schema {
 public:
  Json definitions() && { return std::move(definitions_); }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Json reference(const Shape& shape) {
    const auto [place, is_new] = done_.try_emplace(shape.name, true);
    if (is_new) {
      Json object = object_of(shape);
      definitions_[shape.name] = std::move(object);
    }
    return {{"$ref", "#/$defs/" + shape.name}};
  }

  void define(std::string_view name, std::string_view description, const Shape& shape) {
    Json schema = {{"title", fmt::format("dlprobe {}", name)}, {"description", description}};
    schema.update(object_of(shape));
    definitions_[name] = std::move(schema);
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Json object_of(const Shape& shape) {
    Json required = Json::array();
    Json properties = Json::object();
    put_fields(shape, {}, /*is_optional=*/false, required, properties);
    Json schema = {{"type", "object"}};
    if (!required.empty()) schema["required"] = std::move(required);
    schema["properties"] = std::move(properties);
    return schema;
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  void put_fields(const Shape& shape, const FieldShape& owner, bool is_optional, Json& required,
                  Json& properties) {
    for (const FieldShape& field : shape.fields) {
      const bool may_lack = is_optional || field.is_optional;
      if (field.is_among_others) {
        put_fields(*field.shape, field, may_lack, required, properties);
        continue;
      }
      const std::string key = owner.key + field.key;
      if (!may_lack) required.push_back(key);
      Json schema = of(*field.shape);
      const std::string doc = field.doc.empty() || owner.doc.empty()
                                  ? std::string(field.doc)
                                  : fmt::format("{}; {}", owner.doc, field.doc);
      if (!doc.empty()) schema["description"] = doc;
      properties[key] = std::move(schema);
    }
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Json of(const Shape& shape) {
    switch (shape.kind) {
      case Shape::Kind::kScalar:
        return schema_of_scalar(shape);
      case Shape::Kind::kList:
        return list_of(shape);
      case Shape::Kind::kRow:
        return row_of_places(shape);
      case Shape::Kind::kCounts:
        return {{"type", "object"},
                {"additionalProperties", {{"type", "integer"}, {"minimum", 0}}}};
      case Shape::Kind::kObject:
        break;
    }
    return shape.name.empty() ? Json{{"type", "object"}} : reference(shape);
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Json row_of_places(const Shape& shape) {
    Json places = Json::array();
    for (const FieldShape& field : shape.fields) {
      Json place = of(*field.shape);
      if (field.is_optional) place["type"] = {place["type"], "null"};
      places.push_back(std::move(place));
    }
    return {{"type", "array"},
            {"description", "null: was not read"},
            {"minItems", places.size()},
            {"items", false},
            {"prefixItems", std::move(places)}};
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  Json list_of(const Shape& shape) {
    if (!shape.columns.empty()) return {{"const", shape.columns}};
    if (shape.is_always_empty) return {{"type", "array"}, {"maxItems", 0}};
    Json schema = {{"type", "array"}};
    if (shape.least_items > 0) schema["minItems"] = shape.least_items;
    schema["items"] = of(*shape.item);
    return schema;
  }

  Json definitions_ = Json::object();
  std::map<std::string, bool> done_;
};

std::string make_schema() {
  Schema definitions;
  Json schema = {
      {"$schema", "https://json-schema.org/draft/2020-12/schema"},
      {"$id", "urn:dlprobe:schema:report:1"},
      {"title", "dlprobe report"},
      {"description",
       "One examination. Readers ignore fields that they do not know; an unknown major version is "
       "refused. A field that could not be read is absent or says why, and is never a zero."}};
  schema.update(definitions.object_of(report_shape()));
  definitions.define("cluster", "many nodes' reports as one: dlprobe report merge",
                     cluster_shape());
  definitions.define("stacks",
                     "What `dlprobe stacks --json` writes: one look at the stacks of a process "
                     "tree, without a verdict.",
                     stacks_shape());
  definitions.define("list", "What `dlprobe list --json` writes: what there is.", catalog_shape());
  definitions.define("doctor",
                     "What `dlprobe doctor --json` writes: what dlprobe can and cannot do here. "
                     "Each ability was tried.",
                     doctor_shape());
  definitions.define("ps", "What `dlprobe ps --json` writes: the jobs of this machine.",
                     jobs_shape());
  schema["$defs"] = std::move(definitions).definitions();
  return schema.dump(2) + "\n";
}

}  // namespace

std::string_view report_schema() {
  static const std::string schema = make_schema();
  return schema;
}

}  // namespace dlprobe
