#pragma once

#include <cstddef>
#include <string_view>
#include <type_traits>
#include <utility>

#include "lib/base/names.h"

namespace dlprobe {

/// What the number in a field counts, where its type does not say it.
enum class Unit {
  kNone,
  kMoment,       ///< nanoseconds on CLOCK_BOOTTIME: a moment
  kTimeOfDay,    ///< nanoseconds on CLOCK_REALTIME: a moment
  kNanoseconds,  ///< a duration
  kMicroseconds,
  kSeconds,
  kTicks,  ///< clock ticks of the kernel
  kBytes,
};
template <>
struct Names<Unit> {
  static constexpr auto kList = std::to_array<std::string_view>(
      {"", "ns since boot", "ns since 1970", "ns", "us", "s", "clock ticks", "bytes"});
};

/// One field of a struct: its key in files, the member that holds it, what it means.
template <class T, class V>
struct Field {
  std::string_view key;
  V T::* member;
  std::string_view doc;
  Unit unit = Unit::kNone;
};

/// Chooses the list of fields of T by argument-dependent lookup. Each struct that is written to a
/// file has one list, beside it, in the order of its members:
///
///     constexpr void list_fields(auto&& field, Of<Limit> /*of*/) {
///       field("soft", &Limit::soft, "what the kernel enforces; none: no limit");
///       field.omit(&Limit::scratch, "says why it stands in no file");
///     }
///
/// Everything that goes through a struct's fields is made from it by for_each_field.
template <class T>
struct Of {};

namespace fields_detail {

template <class T, class Visit>
class Visitor {
 public:
  constexpr explicit Visitor(Visit& visit) : visit_(visit) {}

  template <class V>
  constexpr void operator()(std::string_view key, V T::* member, std::string_view doc,
                            Unit unit = Unit::kNone) const {
    visit_(Field<T, V>{key, member, doc, unit});
  }
  template <class V>
  constexpr void omit(V T::* /*member*/, std::string_view /*reason*/) const {}

 private:
  Visit& visit_;
};

// Counts members, those that are left out as well.
struct Counter {
  size_t count = 0;

  template <class M>
  constexpr void operator()(std::string_view /*key*/, M /*member*/, std::string_view /*doc*/,
                            Unit /*unit*/ = Unit::kNone) {
    ++count;
  }
  template <class M>
  constexpr void omit(M /*member*/, std::string_view /*reason*/) {
    ++count;
  }
};

// Becomes whatever a member is made from; never defined.
struct Anything {
  template <class V>
  // NOLINTNEXTLINE(google-explicit-constructor,misc-explicit-constructor): that is its use
  operator V() const;
};

template <size_t>
using AnythingAt = Anything;

template <class T, size_t... I>
constexpr bool takes(std::index_sequence<I...> /*indices*/) {
  return requires { T{AnythingAt<I>{}...}; };
}

template <class T>
constexpr bool lists_every_member() {
// clang finds the conversion of Anything to std::expected ambiguous; the house's compiler is GCC.
#ifdef __clang__
  return true;
#else
  constexpr size_t kCount = [] {
    Counter counter;
    list_fields(counter, Of<T>{});
    return counter.count;
  }();
  return takes<T>(std::make_index_sequence<kCount>()) &&
         !takes<T>(std::make_index_sequence<kCount + 1>());
#endif
}

}  // namespace fields_detail

/// A struct whose fields are listed.
template <class T>
concept Listed = std::is_aggregate_v<T> &&
                 requires(fields_detail::Counter counter) { list_fields(counter, Of<T>{}); };

/// Calls `visit` with the Field of each member of T, in order; not of those that are left out. A
/// member that its list lacks does not compile.
template <Listed T, class Visit>
constexpr void for_each_field(Visit&& visit) {
  static_assert(fields_detail::lists_every_member<T>(),
                "list_fields names every member of the struct, or omits it with the reason");
  list_fields(fields_detail::Visitor<T, std::remove_reference_t<Visit>>(visit), Of<T>{});
}

}  // namespace dlprobe
