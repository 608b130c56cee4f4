// The only file that knows the structs' fields as types; all else works on their shapes.

#include <cctype>
#include <cmath>
#include <concepts>
#include <type_traits>
#include <utility>

#include "reports/model/objects/cluster.h"
#include "reports/model/objects/examination.h"
#include "reports/model/objects/look_documents.h"
#include "reports/model/objects/stacks_document.h"
#include "reports/model/shape.h"

namespace dlprobe {
namespace {

template <class T>
struct ShapeOf;

template <class T>
const Shape& shape_of() {
  static const Shape shape = ShapeOf<T>::make();
  return shape;
}

template <class T, class Get, class Set>
Shape scalar(std::vector<std::string_view> types, Get /*get*/, Set /*set*/) {
  Shape shape;
  shape.types = std::move(types);
  shape.get = [](const void* value) { return Get{}(*static_cast<const T*>(value)); };
  shape.set = [](void* value, const Scalar& scalar) {
    return Set{}(*static_cast<T*>(value), scalar);
  };
  return shape;
}

bool set_text(std::string& value, const Scalar& scalar) {
  const auto* text = std::get_if<std::string_view>(&scalar);
  if (text != nullptr) value = *text;
  return text != nullptr;
}

bool set_real(double& value, const Scalar& scalar) {
  if (const auto* real = std::get_if<double>(&scalar)) value = *real;
  if (const auto* whole = std::get_if<int64_t>(&scalar)) value = static_cast<double>(*whole);
  if (const auto* count = std::get_if<uint64_t>(&scalar)) value = static_cast<double>(*count);
  return scalar.index() >= 2 && scalar.index() <= 4;
}

template <class T>
bool set_integer(T& value, const Scalar& scalar) {
  const auto put = [&value](auto number) {
    if (!std::in_range<T>(number)) return false;
    value = static_cast<T>(number);
    return true;
  };
  if (const auto* whole = std::get_if<int64_t>(&scalar)) return put(*whole);
  if (const auto* count = std::get_if<uint64_t>(&scalar)) return put(*count);
  return false;
}

Scalar real_scalar(double value) {
  return std::isfinite(value) ? Scalar(value) : Scalar();
}

template <>
struct ShapeOf<bool> {
  static Shape make() {
    return scalar<bool>(
        {"boolean"}, [](bool value) { return Scalar(value); },
        [](bool& value, const Scalar& from) {
          const bool* given = std::get_if<bool>(&from);
          if (given != nullptr) value = *given;
          return given != nullptr;
        });
  }
};

template <std::integral T>
struct ShapeOf<T> {
  using Wide = std::conditional_t<std::unsigned_integral<T>, uint64_t, int64_t>;
  static Shape make() {
    Shape shape = scalar<T>(
        {"integer"}, [](T value) { return Scalar(Wide{value}); },
        [](T& value, const Scalar& from) { return set_integer(value, from); });
    shape.is_unsigned = std::unsigned_integral<T>;
    return shape;
  }
};

template <>
struct ShapeOf<double> {
  static Shape make() {
    return scalar<double>(
        {"number"}, [](double value) { return real_scalar(value); },
        [](double& value, const Scalar& from) { return set_real(value, from); });
  }
};

template <std::derived_from<std::string> T>
struct ShapeOf<T> {
  static Shape make() {
    return scalar<T>(
        {"string"}, [](const std::string& value) { return Scalar(std::string_view(value)); },
        [](std::string& value, const Scalar& from) { return set_text(value, from); });
  }
};

template <report::TextForm kForm>
struct ShapeOf<report::FormText<kForm>> {
  static Shape make() {
    Shape shape = shape_of<std::string>();
    shape.pattern = report::kTextPatterns.at(static_cast<size_t>(kForm));
    shape.is_moment_of_day = kForm == report::TextForm::kUtc;
    return shape;
  }
};

// What a name that only a later version knows is taken for. Of most enums a value that no
// enumerator has: to_string() says "unknown".
template <NamedEnum T>
constexpr T kOfLaterVersion = static_cast<T>(kValues<T>.size());
// These are judged by.
template <>
constexpr auto kOfLaterVersion<Severity> = Severity::kInfo;
template <>
constexpr auto kOfLaterVersion<CheckStatus> = CheckStatus::kIncomplete;
template <>
constexpr auto kOfLaterVersion<OverallVerdict> = OverallVerdict::kIncomplete;
template <>
constexpr auto kOfLaterVersion<Role> = Role::kOther;

template <NamedEnum T>
struct ShapeOf<T> {
  static Shape make() {
    Shape shape = scalar<T>(
        {"string"}, [](T value) { return Scalar(to_string(value)); },
        [](T& value, const Scalar& from) {
          const auto* name = std::get_if<std::string_view>(&from);
          const auto known = name == nullptr ? std::nullopt : from_string<T>(*name);
          value = known.value_or(kOfLaterVersion<T>);
          return known.has_value();
        });
    for (const T value : kValues<T>)
      shape.allowed.emplace_back(to_string(value));
    return shape;
  }
};

template <report::FixedText kText>
struct ShapeOf<report::Constant<kText>> {
  using T = report::Constant<kText>;
  static Shape make() {
    Shape shape = scalar<T>(
        {"string"}, [](T /*value*/) { return Scalar(kText.view()); },
        [](T& /*value*/, const Scalar& from) { return from == Scalar(kText.view()); });
    shape.allowed = {Scalar(kText.view())};
    return shape;
  }
};

template <int... kNumbers>
struct ShapeOf<report::OneOf<kNumbers...>> {
  using T = report::OneOf<kNumbers...>;
  static Shape make() {
    Shape shape = scalar<T>(
        {"integer"}, [](T value) { return Scalar(int64_t{value.value}); },
        [](T& value, const Scalar& from) {
          int number = 0;
          if (!set_integer(number, from)) return false;
          value.value = number;
          return ((number == kNumbers) || ...);
        });
    shape.allowed = {Scalar(int64_t{kNumbers})...};
    return shape;
  }
};

template <>
struct ShapeOf<report::EvidenceValue> {
  using T = report::EvidenceValue;
  static Shape make() {
    return scalar<T>(
        {"string", "number"},
        [](const T& value) {
          if (const auto* text = std::get_if<std::string>(&value.value))
            return Scalar(std::string_view(*text));
          if (const auto* real = std::get_if<double>(&value.value)) return real_scalar(*real);
          return Scalar(std::get<int64_t>(value.value));
        },
        [](T& value, const Scalar& from) {
          if (std::holds_alternative<std::string_view>(from))
            return set_text(value.value.emplace<std::string>(), from);
          return set_integer(value.value.emplace<int64_t>(), from) ||
                 set_real(value.value.emplace<double>(), from);
        });
  }
};

template <class T>
struct ShapeOf<std::vector<T>> {
  using List = std::vector<T>;
  static Shape make() {
    Shape shape;
    shape.kind = Shape::Kind::kList;
    shape.item = &shape_of<T>();
    shape.size = [](const void* list) { return static_cast<const List*>(list)->size(); };
    shape.at = [](const void* list, size_t index) {
      return static_cast<const void*>(&static_cast<const List*>(list)->at(index));
    };
    shape.add = [](void* list) {
      return static_cast<void*>(&static_cast<List*>(list)->emplace_back());
    };
    shape.least_items = std::same_as<T, report::Evidence> ? 1 : 0;
    shape.is_always_empty = std::same_as<T, report::Nothing>;
    return shape;
  }
};

template <>
struct ShapeOf<report::Nothing> {
  static Shape make() {
    Shape shape;
    shape.kind = Shape::Kind::kObject;
    return shape;
  }
};

template <>
struct ShapeOf<report::NamedCounts> {
  static Shape make() {
    Shape shape;
    shape.kind = Shape::Kind::kCounts;
    return shape;
  }
};

Shape constant_list(std::vector<std::string_view> texts) {
  Shape shape;
  shape.kind = Shape::Kind::kList;
  shape.item = &shape_of<std::string>();
  shape.columns = std::move(texts);
  return shape;
}

template <>
struct ShapeOf<report::TimelineColumns> {
  static Shape make() {
    std::vector<std::string_view> keys;
    for (const FieldShape& field : shape_of<report::TimelineRow>().fields)
      keys.push_back(field.key);
    return constant_list(std::move(keys));
  }
};

template <>
struct ShapeOf<report::TimelineUnits> {
  static Shape make() {
    std::vector<std::string_view> units;
    for (const FieldShape& field : shape_of<report::TimelineRow>().fields)
      units.push_back(field.unit);
    return constant_list(std::move(units));
  }
};

// "shm_mount" of "dlprobe::report::ShmMount".
template <class T>
std::string snake_name() {
  std::string_view text = __PRETTY_FUNCTION__;
  text.remove_prefix(text.find("T = ") + 4);
  text = text.substr(0, text.find_first_of(";]"));
  text.remove_prefix(text.rfind(':') + 1);
  std::string name;
  for (const char letter : text) {
    const auto code = static_cast<unsigned char>(letter);
    if (std::isupper(code) != 0 && !name.empty()) name += '_';
    name += static_cast<char>(std::tolower(code));
  }
  return name;
}

template <class T>
struct Unwrapped {
  using type = T;
  static constexpr bool kIsOptional = false;
  static const void* look(const void* member) { return member; }
  static void* make(void* member) { return member; }
};
template <class T>
struct Unwrapped<std::optional<T>> {
  using type = T;
  static constexpr bool kIsOptional = true;
  static const void* look(const void* member) {
    const auto& value = *static_cast<const std::optional<T>*>(member);
    return value ? &*value : nullptr;
  }
  static void* make(void* member) { return &static_cast<std::optional<T>*>(member)->emplace(); }
};

std::string_view unit_of(std::string_view key, Unit unit) {
  if (key.ends_with("_per_s")) return "1/s";
  return unit == Unit::kNone ? "1" : to_string(unit);
}

template <class T>
class FieldLister {
 public:
  explicit FieldLister(std::vector<FieldShape>& fields) : fields_(fields) {}

  void operator()(std::string_view key, auto T::* member, report::Holds holds,
                  std::string_view doc = {}) {
    (*this)(key, member, doc);
    fields_.back().holds = holds;
  }

  template <class V>
  void operator()(std::string_view key, V T::* member, std::string_view doc = {},
                  Unit unit = Unit::kNone) {
    using Value = Unwrapped<V>;
    const auto* begin = reinterpret_cast<const char*>(&object_);
    const auto* place = reinterpret_cast<const char*>(&(object_.*member));
    const bool is_moment = std::same_as<typename Value::type, report::Moment>;
    fields_.push_back({.key = is_moment ? std::string(key) + "_" : std::string(key),
                       .doc = doc,
                       .unit = unit_of(key, unit),
                       .offset = static_cast<size_t>(place - begin),
                       .shape = &shape_of<typename Value::type>(),
                       .is_optional = Value::kIsOptional,
                       .is_among_others = is_moment || key.empty(),
                       .look = Value::look,
                       .make = Value::make});
  }

 private:
  std::vector<FieldShape>& fields_;
  const T object_{};
};

struct FieldCounter {
  size_t count = 0;
  constexpr void operator()(std::string_view /*key*/, auto /*member*/, auto... /*more*/) {
    ++count;
  }
};

// As for_each_field, with fields whose keys say it all.
template <class T>
constexpr size_t count_fields() {
  FieldCounter counter;
  list_fields(counter, Of<T>{});
  return counter.count;
}

template <class T>
  requires std::is_aggregate_v<T> &&
           requires(FieldCounter counter) { list_fields(counter, Of<T>{}); }
struct ShapeOf<T> {
  static Shape make() {
    static_assert(fields_detail::takes<T>(std::make_index_sequence<count_fields<T>()>()) &&
                      !fields_detail::takes<T>(std::make_index_sequence<count_fields<T>() + 1>()),
                  "list_fields names every member of the struct");
    Shape shape;
    shape.kind = requires { T::kIsRow; } ? Shape::Kind::kRow : Shape::Kind::kObject;
    shape.name = snake_name<T>();
    list_fields(FieldLister<T>(shape.fields), Of<T>{});
    return shape;
  }
};

}  // namespace

const Shape& report_shape() {
  return shape_of<report::Report>();
}
const Shape& cluster_shape() {
  return shape_of<report::Cluster>();
}
const Shape& stacks_shape() {
  return shape_of<report::Stacks>();
}
const Shape& catalog_shape() {
  return shape_of<report::Catalog>();
}
const Shape& doctor_shape() {
  return shape_of<report::Doctor>();
}
const Shape& jobs_shape() {
  return shape_of<report::Jobs>();
}

}  // namespace dlprobe
