#include "lib/model/finding.h"

#include <strings.h>

#include <array>

#include "lib/model/name_table.h"

namespace dlprobe {
namespace {

using enum Severity;

constexpr std::array kFindings = {
#define DLP_FINDING(enumerator, code, name, severity, title) \
  FindingInfo{FindingCode::k##enumerator, code, name, severity, title},
#include "lib/model/finding_codes.def"
#undef DLP_FINDING
};

constexpr NameTable<Severity, 3> kSeverities = {{
    {Severity::kInfo, "info"},
    {Severity::kWarning, "warning"},
    {Severity::kError, "error"},
}};

constexpr NameTable<Confidence, 3> kConfidences = {{
    {Confidence::kPossible, "possible"},
    {Confidence::kLikely, "likely"},
    {Confidence::kCertain, "certain"},
}};

constexpr NameTable<CheckStatus, 5> kStatuses = {{
    {CheckStatus::kPass, "pass"},
    {CheckStatus::kWarn, "warn"},
    {CheckStatus::kFail, "fail"},
    {CheckStatus::kIncomplete, "incomplete"},
    {CheckStatus::kSkipped, "skipped"},
}};
constexpr NameTable<RemedyOutcome, 3> kOutcomes = {{
    {RemedyOutcome::kConfirmed, "confirmed"},
    {RemedyOutcome::kNotHelped, "not-helped"},
    {RemedyOutcome::kInconclusive, "inconclusive"},
}};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::string_view to_string(Severity severity) {
  return name_of(kSeverities, severity);
}
std::string_view to_string(RemedyOutcome outcome) {
  return name_of(kOutcomes, outcome);
}
std::string_view to_string(CheckStatus status) {
  return name_of(kStatuses, status);
}
std::string_view to_string(Confidence confidence) {
  return name_of(kConfidences, confidence);
}
std::optional<Severity> severity_from_string(std::string_view name) {
  return value_of(kSeverities, name);
}

std::span<const FindingInfo> all_findings() {
  return kFindings;
}

const FindingInfo& info(FindingCode code) {
  return kFindings.at(static_cast<size_t>(code));
}

const FindingInfo* find_finding(std::string_view code_or_name) {
  for (const FindingInfo& finding : kFindings) {
    if (equal_ignoring_case(finding.code, code_or_name) ||
        equal_ignoring_case(finding.name, code_or_name)) {
      return &finding;
    }
  }
  return nullptr;
}

}  // namespace dlprobe
