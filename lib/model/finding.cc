#include "lib/model/finding.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <utility>

namespace dlprobe {
namespace {

using enum Severity;

constexpr std::array kFindings = {
#define DLP_FINDING(enumerator, code, name, severity, title) \
  FindingInfo{FindingCode::k##enumerator, code, name, severity, title},
#include "lib/model/finding_codes.def"
#undef DLP_FINDING
};

constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kFields = {{
    {"DLP01", "Shared memory"},
    {"DLP02", "Open files"},
    {"DLP03", "Locks, waits and stopped processes"},
    {"DLP04", "How workers are started"},
    {"DLP05", "Memory and the end of processes"},
    {"DLP06", "Libraries that keep threads"},
    {"DLP07", "Ranks and nodes"},
    {"DLP08", "Samples"},
    {"", "Other causes"},
}};

bool equal_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace

std::span<const FindingInfo> all_findings() {
  return kFindings;
}

std::string_view field_of(std::string_view code) {
  return std::ranges::find_if(kFields,
                              [&](const auto& each) { return code.starts_with(each.first); })
      ->second;
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
