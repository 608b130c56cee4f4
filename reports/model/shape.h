#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "reports/model/objects/values.h"

namespace dlprobe {

struct Shape;

/// A value that has no parts. Nothing: there is no such number in JSON. A text points into the
/// value that it was taken from.
using Scalar = std::variant<std::monostate, bool, int64_t, uint64_t, double, std::string_view>;

/// One field of a struct, without its type.
struct FieldShape {
  /// Of a field whose members stand among those of its owner: what their keys begin with.
  std::string key;
  std::string_view doc;
  std::string_view unit;
  report::Holds holds = report::Holds::kText;  ///< of texts, and of lists of them
  size_t offset = 0;
  const Shape* shape = nullptr;
  bool is_optional = false;
  bool is_among_others = false;  ///< its members stand among those of its owner
  /// The value that the member holds; null: none. `make` gives it one.
  const void* (*look)(const void* member) = nullptr;
  void* (*make)(void* member) = nullptr;

  const void* value_in(const void* object) const {
    return look(static_cast<const char*>(object) + offset);
  }
  void* make_in(void* object) const { return make(static_cast<char*>(object) + offset); }
};

/// A type of a document at run time: what writes, reads, checks and describes it works on this, so
/// that the code for it exists once and not once for each struct.
struct Shape {
  enum class Kind {
    kScalar,
    kList,
    kObject,
    kRow,     ///< a list whose places are the fields
    kCounts,  ///< an object of numbers; its keys are data
  };
  Kind kind = Kind::kScalar;
  std::string name;  ///< of an object: "shm_mount"

  // Of a scalar.
  std::vector<std::string_view> types;  ///< as the JSON schema has them: "string", "number"
  bool is_unsigned = false;
  bool is_moment_of_day = false;
  std::string_view pattern;
  std::vector<Scalar> allowed;            ///< empty: any
  std::vector<std::string_view> columns;  ///< of a list: it is always this one
  Scalar (*get)(const void* value) = nullptr;
  bool (*set)(void* value, const Scalar& scalar) = nullptr;  ///< false: it is no such value

  // Of a list.
  const Shape* item = nullptr;
  size_t least_items = 0;
  bool is_always_empty = false;
  size_t (*size)(const void* list) = nullptr;
  const void* (*at)(const void* list, size_t index) = nullptr;
  void* (*add)(void* list) = nullptr;

  // Of an object or a row.
  std::vector<FieldShape> fields;
};

namespace report {
struct Catalog;
struct Cluster;
struct Doctor;
struct Jobs;
struct Report;
struct Stacks;
}  // namespace report

/// The shapes of the documents that dlprobe writes.
const Shape& report_shape();
const Shape& cluster_shape();
const Shape& stacks_shape();
const Shape& catalog_shape();
const Shape& doctor_shape();
const Shape& jobs_shape();

}  // namespace dlprobe
