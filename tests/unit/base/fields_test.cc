#include "lib/base/fields.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "lib/base/error.h"

namespace dlprobe {
namespace {

enum class Colour { kRed, kGreen, kDarkBlue };

struct Crate {
  int64_t packed_at = 0;
  std::string label;
  std::optional<Observed<uint64_t>> weight;
  Colour colour = Colour::kRed;
  std::vector<int> scratch;
};

constexpr void list_fields(auto&& field, Of<Crate> /*of*/) {
  field("at", &Crate::packed_at, "when it was closed", Unit::kMoment);
  field("label", &Crate::label, "what stands on it");
  field("weight", &Crate::weight, "with its content");
  field("colour", &Crate::colour, "of its lid");
  field.omit(&Crate::scratch, "of use while it is packed, and not after");
}

struct Leaky {
  int listed = 0;
  int forgotten = 0;
};

constexpr void list_fields(auto&& field, Of<Leaky> /*of*/) {
  field("listed", &Leaky::listed, "the other one is missing");
}

}  // namespace

template <>
struct Names<Colour> {
  static constexpr auto kList = std::to_array<std::string_view>({"red", "green", "dark-blue"});
};

namespace {

enum class Half { kNamed, kForgotten };

}  // namespace

template <>
struct Names<Half> {
  static constexpr auto kList = std::to_array<std::string_view>({"named"});
};

namespace {

TEST(Names, GoBothWays) {
  for (const Colour colour : kValues<Colour>) {
    EXPECT_EQ(from_string<Colour>(to_string(colour)), colour);
  }
  EXPECT_EQ(to_string(Colour::kDarkBlue), "dark-blue");
  EXPECT_EQ(from_string<Colour>("Red"), std::nullopt);
  EXPECT_EQ(to_string(static_cast<Colour>(7)), "unknown");
}

TEST(Names, AnEnumeratorWithoutANameIsNoticed) {
  static_assert(names_detail::names_every_value<Colour>());
  static_assert(!names_detail::names_every_value<Half>());
}

TEST(Fields, AreVisitedInOrderWithoutThoseThatAreLeftOut) {
  std::vector<std::string> seen;
  for_each_field<Crate>([&](const auto& field) {
    seen.push_back(std::string(field.key) + ": " + std::string(to_string(field.unit)));
  });
  EXPECT_EQ(seen,
            (std::vector<std::string>{"at: ns since boot", "label: ", "weight: ", "colour: "}));
}

TEST(Fields, ReachTheMembers) {
  Crate crate;
  for_each_field<Crate>([&](const auto& field) {
    if constexpr (std::is_same_v<decltype(field.member), std::string Crate::*>) {
      crate.*field.member = field.key;
    }
  });
  EXPECT_EQ(crate.label, "label");
}

TEST(Fields, AMemberThatTheListLacksIsNoticed) {
  static_assert(fields_detail::lists_every_member<Crate>());
#ifndef __clang__
  static_assert(!fields_detail::lists_every_member<Leaky>());
#endif
}

}  // namespace
}  // namespace dlprobe
