#pragma once

#include <string_view>
#include <vector>

#include "lib/model/finding.h"
#include "lib/model/recording.h"
#include "reports/model/objects/examination.h"
#include "reports/model/policy.h"

namespace dlprobe {

/// MAJOR.MINOR of the report; readers reject another major and ignore unknown fields.
inline constexpr std::string_view kReportSchemaVersion = "1.2";

/// What `kind` of a document says: one examination; many nodes' reports as one (merge.h).
inline constexpr std::string_view kReportKind = "dlprobe.report";
inline constexpr std::string_view kClusterReportKind = "dlprobe.cluster-report";

/// A value of an option that a configuration file or the environment has set.
using report::SettingFromElsewhere;

/// What the run of dlprobe decided beside the findings.
struct ReportContext {
  Severity fail_on = Severity::kError;
  FindingPolicy policy;
  /// Of this invocation's options those that no command line shows.
  std::vector<SettingFromElsewhere> settings;
};

/// The report of one examination: the model that every format is made from. Depends on its
/// arguments alone (no clock, no environment), so a replay gives the same bytes.
report::Report examination_report(const Recording& recording, const Verdict& verdict,
                                  const ReportContext& context);

}  // namespace dlprobe
