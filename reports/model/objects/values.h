#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lib/base/fields.h"
#include "lib/base/names.h"

namespace dlprobe {

/// "pass", "warn", "fail", "incomplete": what the exit code is made of.
enum class OverallVerdict { kPass, kWarn, kFail, kIncomplete };
template <>
struct Names<OverallVerdict> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"pass", "warn", "fail", "incomplete"});
};

/// Which frames of a stack are wanted.
enum class FrameChoice { kAll, kPython, kNative };
template <>
struct Names<FrameChoice> {
  static constexpr auto kList = std::to_array<std::string_view>({"all", "python", "native"});
};

/// The documents that dlprobe writes, as structs: one for each object of the JSON. `shape.h` reads
/// and writes them, and makes their schema. An optional member that is empty has no key.
namespace report {

/// The first four as SubjectKind has them.
enum class SubjectOfReport { kReferenceLoader, kPid, kCommand, kNone };
enum class LedgerMoment { kPeak, kLast };
enum class TrialOutcome { kWorks, kBreaks, kUnknown };
enum class FrameKind { kPython, kNative };
enum class NodeKind { kThread, kObject };
enum class RedactedKind { kAddresses, kHosts, kPaths, kUsers };
enum class AbilityState { kOk, kLimited, kMissing };
enum class DoctorVerdict { kPass, kWarn, kFail };
enum class SeccompMode { kUnknown, kNone, kStrict, kFilter };

/// Whose words the texts in a field are, and what they name: by this they are redacted.
enum class Holds {
  kText,      ///< free text of somebody else; a field whose list does not say
  kWord,      ///< dlprobe's own, and the kernel's for a thing that each machine has
  kSentence,  ///< dlprobe's own; what it has of others stands in `names`
  kPath,      ///< or the name of a file without its folder
  kHost,      ///< or several, folded as n[1-4,7]
  kName,      ///< what a process or thread calls itself
  kFunction,  ///< of the file that stands beside it
  kArgument,  ///< of a command line
};

/// What a text of a form looks like.
enum class TextForm { kVersion, kId, kCode, kFindingId, kFingerprint, kUtc, kDay };
/// As regular expressions of the JSON schema, in their order.
inline constexpr auto kTextPatterns = std::to_array<std::string_view>({
    "^1\\.[0-9]+$",
    "^[0-9a-f]{32}$",
    "^DLP[0-9]{4}$",
    "^[fs][1-9][0-9]*$",
    "^v1:[0-9a-f]{32}$",
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{3}Z$",
    "^[0-9]{4}-[0-9]{2}-[0-9]{2}$",
});

/// A text of a form. That it has it is the writer's promise and is not checked.
template <TextForm kForm>
struct FormText : std::string {
  FormText() = default;
  explicit FormText(std::string text) : std::string(std::move(text)) {}
  explicit FormText(std::string_view text) : std::string(text) {}
};
using VersionText = FormText<TextForm::kVersion>;
using IdText = FormText<TextForm::kId>;
using CodeText = FormText<TextForm::kCode>;
using FindingIdText = FormText<TextForm::kFindingId>;
using FingerprintText = FormText<TextForm::kFingerprint>;
using UtcText = FormText<TextForm::kUtc>;
using DayText = FormText<TextForm::kDay>;

/// A text that is known when the program is compiled.
template <size_t N>
struct FixedText {
  // NOLINTNEXTLINE(*-explicit-constructor,*-explicit-conversions,*-avoid-c-arrays): of a literal
  consteval FixedText(const char (&text)[N]) { std::copy_n(text, N, letters.begin()); }
  constexpr std::string_view view() const { return {letters.data(), N - 1}; }
  std::array<char, N> letters{};
};

/// Always the same text.
template <FixedText kText>
struct Constant {};

/// One of a few numbers.
template <int... kValues>
struct OneOf {
  int value = 0;
};

/// A moment on both clocks. Its keys are `<key>_at` and `<key>_boottime_ns`.
struct Moment {
  std::optional<UtcText> at;  ///< nothing beyond the year 9999
  int64_t boottime_ns = 0;
};
constexpr void list_fields(auto&& field, Of<Moment> /*of*/) {
  field("at", &Moment::at);
  field("boottime_ns", &Moment::boottime_ns, "nanoseconds on CLOCK_BOOTTIME");
}

/// A number or a text.
struct EvidenceValue {
  std::variant<int64_t, double, std::string> value;
};

/// Counts by name, in an order of their own.
struct NamedCounts {
  std::vector<std::pair<std::string, uint64_t>> counts;
};

/// The keys of TimelineRow's fields, and what they count.
struct TimelineColumns {};
struct TimelineUnits {};

/// A section that a document of that kind leaves empty.
struct Nothing {};

/// Nothing instead of a text or a list that is empty.
template <class T>
std::optional<T> if_any(T value) {
  if (value.empty()) return std::nullopt;
  return value;
}

/// The items of a list; none where there is no list.
template <class T>
const std::vector<T>& items_of(const std::optional<std::vector<T>>& list) {
  static const std::vector<T> none;
  return list ? *list : none;
}

}  // namespace report

template <>
struct Names<report::SubjectOfReport> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"reference-loader", "pid", "command", "none"});
};
template <>
struct Names<report::LedgerMoment> {
  static constexpr auto kList = std::to_array<std::string_view>({"peak", "last"});
};
template <>
struct Names<report::TrialOutcome> {
  static constexpr auto kList = std::to_array<std::string_view>({"works", "breaks", "unknown"});
};
template <>
struct Names<report::FrameKind> {
  static constexpr auto kList = std::to_array<std::string_view>({"python", "native"});
};
template <>
struct Names<report::NodeKind> {
  static constexpr auto kList = std::to_array<std::string_view>({"thread", "object"});
};
template <>
struct Names<report::RedactedKind> {
  static constexpr auto kList =
      std::to_array<std::string_view>({"addresses", "hosts", "paths", "users"});
};
template <>
struct Names<report::AbilityState> {
  static constexpr auto kList = std::to_array<std::string_view>({"ok", "limited", "missing"});
};
template <>
struct Names<report::DoctorVerdict> {
  static constexpr auto kList = std::to_array<std::string_view>({"pass", "warn", "fail"});
};
template <>
struct Names<report::SeccompMode> {
  static constexpr auto kList = std::to_array<std::string_view>({"", "none", "strict", "filter"});
};

}  // namespace dlprobe
