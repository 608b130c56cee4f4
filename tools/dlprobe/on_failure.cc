#include "tools/dlprobe/on_failure.h"

#include <fmt/core.h>
#include <sys/wait.h>

#include <csignal>
#include <utility>

#include "lib/base/escape.h"
#include "lib/base/units.h"
#include "lib/os/clock.h"
#include "lib/os/disposable.h"
#include "lib/os/pipe.h"
#include "lib/os/process_access.h"
#include "lib/subject/child_process.h"
#include "tools/dlprobe/process/own_process.h"

namespace dlprobe {
namespace {

// From SIGTERM to SIGKILL.
constexpr std::chrono::seconds kGrace{2};

// Whether that process has ended by then; it stays a zombie.
bool ends_within(int pidfd, std::chrono::nanoseconds limit) {
  const SystemClock clock;
  return becomes_readable(pidfd, clock, clock.now() + limit.count());
}

void say_how_it_ended(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    complain(
        fmt::format("the command of --on-failure was killed by signal {}", WTERMSIG(wait_status)));
  } else if (WEXITSTATUS(wait_status) != 0) {
    complain(
        fmt::format("the command of --on-failure exited with code {}", WEXITSTATUS(wait_status)));
  }
}

}  // namespace

FailureNotice failure_notice(const report::Report& report, std::string report_path, int exit_code) {
  return {
      .report_path = std::move(report_path),
      .verdict = std::string(to_string(report.summary.verdict)),
      .code = report.findings.empty() ? std::string() : std::string(report.findings.front().code),
      .headline = report.summary.headline,
      .exit_code = exit_code};
}

void run_on_failure(const std::string& command, const FailureNotice& notice,
                    std::chrono::nanoseconds limit) {
  const auto child = start_child(
      {.argv = {"/bin/sh", "-c", R"(exec /bin/sh -c "$1" </dev/null >&2)", "dlprobe", command},
       .environment = {{"DLPROBE_REPORT", notice.report_path},
                       {"DLPROBE_VERDICT", notice.verdict},
                       {"DLPROBE_CODE", notice.code},
                       {"DLPROBE_HEADLINE", escape_for_terminal(notice.headline)},
                       {"DLPROBE_EXIT_CODE", std::to_string(notice.exit_code)}},
       .own_process_group = true});
  if (!child) return complain("--on-failure: " + to_string(child.error()));
  const auto pidfd = SystemProcesses().open_pidfd(*child);
  const bool ended = pidfd && ends_within(pidfd->get(), limit);
  if (!ended) {
    complain(fmt::format("the command of --on-failure did not end within {}; dlprobe ended it",
                         format_duration(limit)));
    ::kill(-*child, SIGTERM);
    // The group is there as long as its first process is not reaped.
    if (pidfd) ends_within(pidfd->get(), kGrace);
    ::kill(-*child, SIGKILL);
  }
  const int wait_status = reap(*child);
  if (ended) say_how_it_ended(wait_status);
}

}  // namespace dlprobe
