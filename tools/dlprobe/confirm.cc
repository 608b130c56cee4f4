#include "tools/dlprobe/confirm.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "probes/confirm.h"
#include "tools/dlprobe/command.h"
#include "tools/dlprobe/python_options.h"

namespace dlprobe {
namespace {

Status set_of_trial(Trial& trial, const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kStartMethod:
      trial.start_method = start_method_from_string(setting.value).value_or(trial.start_method);
      return {};
    case SettingKind::kSharingStrategy:
      trial.sharing_strategy = sharing_strategy_from_string(setting.value);
      return {};
    case SettingKind::kNumWorkers:
      trial.workers = static_cast<int32_t>(setting.number().value_or(0));
      return {};
    default:
      return failure(ErrorCode::kUnsupported, "it cannot be set beside a start method");
  }
}

void set_of_python(PythonOverrides& overrides, const Setting& setting) {
  const auto number = static_cast<int>(setting.number().value_or(0));
  if (setting.kind == SettingKind::kStartMethod)
    overrides.start_method = start_method_from_string(setting.value);
  if (setting.kind == SettingKind::kSharingStrategy)
    overrides.sharing_strategy = sharing_strategy_from_string(setting.value);
  if (setting.kind == SettingKind::kNumWorkers) overrides.num_workers = number;
  if (setting.kind == SettingKind::kPrefetchFactor) overrides.prefetch_factor = number;
}

Status put_setting(ExamineRequest& attempt, const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kEnvironment:
      attempt.environment.emplace_back(setting.name, setting.value);
      return {};
    case SettingKind::kShmSize:
      attempt.limits.shm_bytes = setting.number();
      return {};
    case SettingKind::kOpenFiles:
      attempt.limits.soft_open_files = setting.number();
      return check_launch_limits(attempt.limits);
    default:
      break;
  }
  DLP_CHECK(check_interpreter(attempt.command));
  if (!attempt.trials.empty()) return set_of_trial(attempt.trials.front(), setting);
  set_of_python(attempt.overrides, setting);
  return {};
}

// Twice the time after which the first was judged, and what a slower start may take.
std::chrono::nanoseconds time_of_attempt(const Run& first) {
  constexpr auto kSlowerStart = std::chrono::seconds(10);
  const BootNs took = first.end ? first.end->at - first.begin.at : 0;
  return std::chrono::nanoseconds(2 * took) + kSlowerStart;
}

class Confirmer {
 public:
  Confirmer(const ExamineRequest& request, const Clock& clock, Recorder& recorder,
            const RunAttempt& run_attempt)
      : request_(request), clock_(clock), recorder_(recorder), run_attempt_(run_attempt) {}

  void run() {
    const Verdict verdict = request_.probe->examine(recorder_.recording());
    const Finding* finding = finding_to_confirm(verdict);
    if (finding == nullptr || was_interrupted(recorder_.recording().runs.back())) return;
    const auto all = settings_to_try(*finding);
    if (all.empty()) {
      const FindingInfo& about = info(finding->code);
      return complain(
          fmt::format("--confirm: no remedy of {} {} can be set from outside: nothing was tried",
                      about.code, about.name));
    }
    bool any_helps = false;
    for (const std::vector<Setting>& settings : all)
      any_helps = seems_to_help(*finding, settings) || any_helps;
    // That it comes again without them is proof only after they were tried: nothing else changed.
    for (int i = 0; any_helps && i < request_.confirm && !is_over_; ++i)
      attempt(*finding, {});
  }

 private:
  static bool was_interrupted(const Run& run) {
    return run.end && run.end->reason == RunEndReason::kInterrupted;
  }

  bool seems_to_help(const Finding& finding, const std::vector<Setting>& settings) {
    for (int i = 0; i < request_.confirm; ++i) {
      if (is_over_) return false;
      attempt(finding, settings);
      const AttemptAccount account =
          judge_attempt(recorder_.current_run(), recorder_.recording(), *request_.probe, finding);
      if (!account.has_ended_well) return false;
    }
    return true;
  }

  void attempt(const Finding& finding, const std::vector<Setting>& settings) {
    const size_t index = finding.runs.empty() ? 0 : static_cast<size_t>(finding.runs.front());
    const Run& first = recorder_.recording().runs.at(index);
    const size_t before = recorder_.recording().attempts.size();
    auto request = with_settings(request_, first, settings);
    std::optional<Error> refusal;
    if (request) {
      complain(fmt::format("--confirm: the command runs again {}",
                           settings.empty() ? "as it was" : "with " + describe(settings)));
      refusal = run_attempt_(*request);
    } else {
      refusal = request.error();
    }
    if (recorder_.recording().attempts.size() == before) {
      recorder_.add(RunBegin{.at = clock_.now(),
                             .subject = request_.subject,
                             .command = mask_secrets(request_.command),
                             .attempt = Attempt{settings}});
    }
    if (refusal) {
      recorder_.add(RunEnd{
          .at = clock_.now(), .reason = RunEndReason::kNotStarted, .text = to_string(*refusal)});
    }
    is_over_ = was_interrupted(recorder_.current_run());
  }

  const ExamineRequest& request_;
  const Clock& clock_;
  Recorder& recorder_;
  const RunAttempt& run_attempt_;
  bool is_over_ = false;  ///< the user has had enough
};

}  // namespace

Expected<ExamineRequest> with_settings(const ExamineRequest& request, const Run& first,
                                       const std::vector<Setting>& settings) {
  ExamineRequest attempt = request;
  attempt.confirm = 0;
  attempt.attempt = Attempt{settings};
  attempt.record_path.clear();
  if (attempt.command_watch) {
    attempt.command_watch->when_hung = nullptr;
    attempt.command_watch->end_when_hung = true;
  }
  if (first.begin.trial) {
    attempt.trials = {*first.begin.trial};
  } else if (!attempt.watch_for) {
    attempt.watch_for = time_of_attempt(first);
  }
  for (const Setting& setting : settings)
    DLP_CHECK(put_setting(attempt, setting));
  return attempt;
}

void confirm_remedies(const ExamineRequest& request, const Clock& clock, Recorder& recorder,
                      const RunAttempt& run_attempt) {
  Confirmer(request, clock, recorder, run_attempt).run();
}

}  // namespace dlprobe
