#include "reports/redact/change_texts.h"

#include <limits>
#include <utility>

#include "reports/model/objects/values.h"

namespace dlprobe {
namespace {

using Words = std::vector<std::string>;

/// Walks two objects of one shape together.
class Changer {
 public:
  explicit Changer(const TextChange& change) : change_(change) {}

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  void put(const Shape& shape, const void* from, void* into, const TextPlace& place) const {
    switch (shape.kind) {
      case Shape::Kind::kScalar:
        return put_scalar(shape, from, into, place);
      case Shape::Kind::kList:
        return put_items(shape, from, into, place);
      case Shape::Kind::kCounts:
        *static_cast<report::NamedCounts*>(into) = *static_cast<const report::NamedCounts*>(from);
        return;
      case Shape::Kind::kRow:
      case Shape::Kind::kObject:
        return put_fields(shape, from, into);
    }
  }

 private:
  void put_scalar(const Shape& shape, const void* from, void* into, const TextPlace& place) const {
    Scalar value = shape.get(from);
    std::string changed;
    const auto* text = std::get_if<std::string_view>(&value);
    if (text != nullptr && shape.allowed.empty() && shape.pattern.empty()) {
      changed = change_.text(place, std::string(*text));
      value = std::string_view(changed);
    }
    // A number that is none.
    if (value.index() == 0) value = std::numeric_limits<double>::quiet_NaN();
    static_cast<void>(shape.set(into, value));
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  void put_items(const Shape& shape, const void* from, void* into, const TextPlace& place) const {
    if (!shape.columns.empty()) return;
    if (place.holds == report::Holds::kArgument) {
      *static_cast<Words*>(into) = change_.command(*static_cast<const Words*>(from));
      return;
    }
    for (size_t i = 0; i < shape.size(from); ++i)
      put(*shape.item, shape.at(from, i), shape.add(into), place);
  }

  // NOLINTNEXTLINE(misc-no-recursion): as deep as our structs
  void put_fields(const Shape& shape, const void* from, void* into) const {
    TextPlace place;
    for (const FieldShape& field : shape.fields) {
      const void* value = field.value_in(from);
      if (field.holds == report::Holds::kPath && value != nullptr)
        place.path = std::get<std::string_view>(field.shape->get(value));
    }
    for (const FieldShape& field : shape.fields) {
      const void* value = field.value_in(from);
      if (value == nullptr) continue;
      place.holds = field.holds;
      put(*field.shape, value, field.make_in(into), place);
    }
  }

  const TextChange& change_;
};

}  // namespace

void change_texts(const Shape& shape, const void* from, void* into, const TextChange& change) {
  Changer(change).put(shape, from, into, {});
}

}  // namespace dlprobe
