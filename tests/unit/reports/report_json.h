#pragma once

#include <stdexcept>

#include "reports/model/examination.h"
#include "reports/model/report.h"
#include "reports/model/write_json.h"
#include "tests/unit/reports/cases.h"

namespace dlprobe {

/// The report of that case.
inline AnyReport report_of(const testing::ReportCase& each, const ReportContext& context = {}) {
  return examination_report(each.recording, testing::told(each), context);
}

// Tests look at reports, and change them, as their files have them.

inline Json make_report(const testing::ReportCase& each, const ReportContext& context = {}) {
  return json_of(report_of(each, context));
}
inline Json make_report(const Recording& recording, const Verdict& verdict,
                        const ReportContext& context) {
  return json_of(AnyReport(examination_report(recording, verdict, context)));
}

/// What a program reads of such a file.
inline AnyReport typed(const Json& report) {
  auto read = parse_report(text_of_json(report));
  if (!read) throw std::runtime_error(to_string(read.error()));
  return std::move(*read);
}

inline OverallVerdict verdict_of(const Json& report) {
  return typed(report).report.summary.verdict;
}
inline int exit_code_of(const Json& report) {
  return typed(report).report.invocation.exit_code.value;
}

}  // namespace dlprobe
