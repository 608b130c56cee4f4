#pragma once

#include <chrono>
#include <string>

#include "reports/model/objects/examination.h"

namespace dlprobe {

/// What the command of --on-failure is told: a variable of its environment each.
struct FailureNotice {
  std::string report_path;  ///< DLPROBE_REPORT: the JSON report; empty: none was written
  std::string verdict;      ///< DLPROBE_VERDICT: fail, incomplete ...
  std::string code;         ///< DLPROBE_CODE: of the first finding; empty: there is none
  std::string headline;     ///< DLPROBE_HEADLINE: one line
  int exit_code = 0;        ///< DLPROBE_EXIT_CODE: that dlprobe will end with
};

/// The notice of that report.
FailureNotice failure_notice(const report::Report& report, std::string report_path, int exit_code);

/// Runs `command` by /bin/sh -c, with nothing on its standard input and its output on stderr, in a
/// process group of its own, and waits for its end. After `limit` the group is ended. What goes
/// wrong is said on stderr and changes nothing else: dlprobe's exit code is the same.
void run_on_failure(const std::string& command, const FailureNotice& notice,
                    std::chrono::nanoseconds limit = std::chrono::seconds(60));

}  // namespace dlprobe
