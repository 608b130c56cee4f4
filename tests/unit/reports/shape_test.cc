#include "reports/model/shape.h"

#include <gtest/gtest.h>

#include <utility>

#include "reports/model/read_json.h"
#include "reports/model/write_json.h"
#include "reports/redact/change_texts.h"

namespace dlprobe {
namespace {

/// Gives every field a value of its own.
class Filler {
 public:
  void fill(const Shape& shape, void* value) {
    switch (shape.kind) {
      case Shape::Kind::kScalar:
        return fill_scalar(shape, value);
      case Shape::Kind::kList:
        for (int i = 0; i < 2 && shape.columns.empty(); ++i)
          fill(*shape.item, shape.add(value));
        return;
      case Shape::Kind::kCounts:
        static_cast<report::NamedCounts*>(value)->counts = {{"a", ++number_}, {"b", ++number_}};
        return;
      case Shape::Kind::kRow:
      case Shape::Kind::kObject:
        for (const FieldShape& field : shape.fields)
          fill(*field.shape, field.make_in(value));
    }
  }

 private:
  void fill_scalar(const Shape& shape, void* value) {
    ++number_;
    const std::string text = "text " + std::to_string(number_);
    std::vector<Scalar> values = {
        shape.allowed.empty() ? Scalar(std::string_view(text)) : shape.allowed.back(),
        static_cast<double>(number_) + 0.5, number_, true};
    for (const Scalar& each : values) {
      if (shape.set(value, each)) return;
    }
    ADD_FAILURE() << "a scalar that takes nothing";
  }

  uint64_t number_ = 0;
};

template <class T>
void expect_the_same_read_and_copied(const Shape& shape) {
  T whole;
  Filler().fill(shape, &whole);
  const Json json = json_of(shape, &whole);
  T read;
  const Status status = read_json(json, shape, &read);
  ASSERT_TRUE(status) << to_string(status.error());
  EXPECT_EQ(json_of(shape, &read).dump(1), json.dump(1));
  T copied;
  change_texts(shape, &whole, &copied,
               {.text = [](const TextPlace& /*place*/, const std::string& text) { return text; },
                .command = [](const std::vector<std::string>& words) { return words; }});
  EXPECT_EQ(json_of(shape, &copied).dump(1), json.dump(1));
}

TEST(Shapes, WhatIsWrittenIsReadAndCopiedWhole) {
  expect_the_same_read_and_copied<report::Report>(report_shape());
  expect_the_same_read_and_copied<report::Cluster>(cluster_shape());
  expect_the_same_read_and_copied<report::Stacks>(stacks_shape());
  expect_the_same_read_and_copied<report::Catalog>(catalog_shape());
  expect_the_same_read_and_copied<report::Doctor>(doctor_shape());
}

// Each key taken away, or given what it cannot be: no reader takes it for something else.
void spoil_each(Json& whole, Json& part, const Json::json_pointer& place) {
  for (auto child = part.begin(); child != part.end(); ++child) {
    const auto inner =
        part.is_array() ? place / static_cast<size_t>(child - part.begin()) : place / child.key();
    if (child->is_structured()) spoil_each(whole, *child, inner);
    const Json value = std::exchange(*child, child->is_object() ? Json("x") : Json::object());
    report::Report read;
    const Status status = read_json(whole, report_shape(), &read);
    *child = value;
    const bool is_fixed = inner.to_string().starts_with("/timeline/columns") ||
                          inner.to_string().starts_with("/timeline/units");
    ASSERT_EQ(status.has_value(), is_fixed && value.is_string()) << inner;
    if (!status) {
      EXPECT_TRUE(status.error().context.contains(inner.parent_pointer().to_string()));
    }
  }
}

TEST(Shapes, AValueOfTheWrongTypeIsRefusedAnywhere) {
  report::Report whole;
  Filler().fill(report_shape(), &whole);
  Json json = json_of(AnyReport(whole));
  spoil_each(json, json, Json::json_pointer());
}

}  // namespace
}  // namespace dlprobe
