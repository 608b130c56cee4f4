#include "lib/session/examination.h"

#include <fmt/core.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/os/host_facts.h"
#include "lib/session/command_runs.h"
#include "lib/session/loader_runs.h"
#include "lib/session/recorder.h"
#include "lib/session/remedy_attempts.h"
#include "lib/session/run_context.h"
#include "lib/session/target.h"

namespace dlprobe {
namespace {

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) bytes = {};
  std::string id;
  for (const unsigned char byte : bytes)
    id += fmt::format("{:02x}", byte);
  return id;
}

/// A short watch is made longer where it cannot tell yet. With an onlooker it goes as that one
/// wants.
class PidGuide final : public WatchGuide {
 public:
  PidGuide(RunContext& context, const PidSubject& subject)
      : context_(context),
        longer_(subject.longer_if_unclear.count()),
        until_found_(subject.longer_if_nothing_found.count()),
        onlooker_(subject.onlooker) {}

  void take_news() override {
    if (onlooker_ != nullptr) onlooker_->take(context_.recorder.recording());
  }
  bool is_enough() override { return onlooker_ != nullptr && onlooker_->has_enough(); }
  bool wants_snapshots() override { return onlooker_ != nullptr && onlooker_->wants_snapshots(); }

  BootNs prolong() override {
    if (until_found_ > 0) return has_found() ? 0 : until_found_;
    if (longer_ == 0) return 0;
    const std::string why(context_.judge.why_watch_longer(context_.recorder.current_run_alone()));
    if (why.empty()) return 0;
    context_.notices.tell(why + "; watching for " +
                          format_duration(std::chrono::nanoseconds(longer_)) +
                          " more, to see whether it moves (--for 3s does not)");
    return longer_;
  }

 private:
  // What others left on the machine is nothing of the job.
  bool has_found() const {
    const Verdict verdict = context_.judge.examine(context_.recorder.current_run_alone());
    return std::ranges::any_of(verdict.findings, [](const Finding& finding) {
      return finding.severity >= Severity::kWarning && !finding.processes.empty();
    });
  }

  RunContext& context_;
  BootNs longer_;
  BootNs until_found_;
  Onlooker* onlooker_;
};

/// Looks at what runs already: nothing is asked, nothing ended.
void watch_process(RunContext& context, const PidSubject& subject) {
  const auto target = find_target(context.machine, subject.pid);
  if (!target) {
    context.refuse(target.error(), kind_of_refused_target(target.error()));
    return;
  }
  if (!target->notice.empty()) context.notices.tell(target->notice);
  context.recorder.add(RunBegin{.at = context.now(),
                                .subject = SubjectKind::kPid,
                                .asked_pid = subject.pid,
                                .root = target->key,
                                .plan = subject.told_plan});
  context.recorder.add(
      Event{.at = context.now(), .kind = "note", .text = target->reason, .process = target->key});
  PidGuide guide(context, subject);
  context.watch({.root = target->key,
                 .deadline = context.deadline(),
                 .news = subject.onlooker == nullptr ? -1 : subject.onlooker->descriptor()},
                guide);
}

/// All but the recording, which is the recorder's.
Examination examine_once(const ExamineRequest& request, const Surroundings& surroundings,
                         Recorder& recorder) {
  RunContext context(request, surroundings, recorder);
  if (const auto* loader = std::get_if<LoaderSubject>(&request.subject)) {
    LoaderRuns(context, *loader).run();
  } else if (const auto* process = std::get_if<PidSubject>(&request.subject)) {
    watch_process(context, *process);
  } else {
    CommandRuns(context, std::get<CommandSubject>(request.subject)).run();
  }
  context.notices.clear_progress();
  return std::move(context.result);
}

// Empty where it was removed.
std::string working_folder() {
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

}  // namespace

RecordingHeader recording_header(const Surroundings& surroundings, const std::string& probe,
                                 const std::vector<std::string>& arguments,
                                 std::chrono::nanoseconds interval) {
  const Machine& machine = surroundings.machine;
  return {.recording_id = random_id(),
          .realtime_ns = machine.clock->realtime_ns(),
          .boottime_ns = machine.clock->now(),
          .host = read_host_facts(machine, surroundings.environment),
          .invocation = {.version = surroundings.version,
                         .probe = probe,
                         .argv = mask_secrets(arguments),
                         .euid = ::geteuid(),
                         .interval_ns = interval.count(),
                         .working_folder = working_folder()}};
}

std::string own_executable() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  return {path.data(), static_cast<size_t>(std::max<ssize_t>(length, 0))};
}

Examination examine(const ExamineRequest& request, const Surroundings& surroundings) {
  auto opened = Recorder::open(
      recording_header(surroundings, request.probe, request.arguments, request.interval),
      request.record_path);
  if (!opened) return {.refusal = Refusal{.error = std::move(opened).error()}};
  Recorder& recorder = **opened;
  Examination result;
  {
    // A signal that comes between two runs waits for the second.
    const auto signals = surroundings.control.hold_signals();
    result = examine_once(request, surroundings, recorder);
    const auto again = [&](const ExamineRequest& attempt) {
      return examine_once(attempt, surroundings, recorder).refusal;
    };
    const auto* command = std::get_if<CommandSubject>(&request.subject);
    const bool confirms = command != nullptr && command->confirm && !result.refusal;
    if (confirms) try_remedies(request, surroundings, recorder, again);
  }
  // Not every examination prints a report.
  result.recording_cut = !recorder.ended_early().empty();
  if (result.recording_cut) surroundings.notices.tell(recorder.ended_early());
  result.recording = std::move(recorder).take();
  return result;
}

}  // namespace dlprobe
