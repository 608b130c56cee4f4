#pragma once

#include <string>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"

namespace dlprobe {

/// What a user's configuration says of findings. `source` is the place that it stands at, for
/// people: "dlprobe.toml:12".
struct FindingPolicy {
  /// Findings of that code have that severity.
  struct SeverityRule {
    FindingCode code{};
    Severity severity = Severity::kError;
    std::string source;
  };
  /// A finding of that code counts only if the evidence of that name is at least (or at most) that
  /// much. One that lacks the evidence counts.
  struct Threshold {
    FindingCode code{};
    std::string evidence;
    bool is_upper = false;  ///< "at most"
    double value = 0;       ///< in the evidence's own unit
    std::string unit;       ///< that it was written in: "bytes", "s"; empty: a bare number
    std::string text;       ///< the value as the user wrote it
    std::string source;
  };
  /// A finding of that code does not count, up to and with a day.
  struct Suppression {
    FindingCode code{};
    std::string reason;
    std::string until;        ///< "2027-01-31" in UTC; empty: for ever
    std::string fingerprint;  ///< of the finding; empty: any
    std::string node;         ///< a pattern as in fnmatch(3) for the node's name; empty: any
    std::string source;
  };

  std::vector<SeverityRule> severities;
  std::vector<Threshold> thresholds;
  std::vector<Suppression> suppressions;

  bool empty() const { return severities.empty() && thresholds.empty() && suppressions.empty(); }
};

/// A finding that does not count, and who has said so.
struct SuppressedFinding {
  Finding finding;
  std::string reason;
  std::string until;  ///< empty: for ever
  std::string source;
};

/// A verdict after the policy.
struct TreatedVerdict {
  /// With the findings that count; among its limits the suppressions that have ended, and the
  /// thresholds that could not be applied.
  Verdict verdict;
  std::vector<std::string> severity_sources;  ///< of each finding; empty: as the probe said
  std::vector<SuppressedFinding> suppressed;
};

/// Of each threshold that could not be applied to a finding of its code, because that has no such
/// number among its evidence: what, why and what it has. The finding counts.
std::vector<Gap> thresholds_without_evidence(const FindingPolicy& policy, const Verdict& verdict);

/// Pure: the day is that of the recording.
TreatedVerdict apply_policy(const FindingPolicy& policy, const Recording& recording,
                            Verdict verdict);

}  // namespace dlprobe
