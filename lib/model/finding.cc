#include "lib/model/finding.h"

#include <strings.h>

#include <array>

namespace dlprobe {
namespace {

using enum Severity;

constexpr std::array kFindings = {
#define DLP_FINDING(enumerator, code, name, severity, title) \
  FindingInfo{FindingCode::k##enumerator, code, name, severity, title},
#include "lib/model/finding_codes.def"
#undef DLP_FINDING
};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

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
