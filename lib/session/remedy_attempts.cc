#include "lib/session/remedy_attempts.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "lib/base/secrets.h"
#include "lib/base/units.h"
#include "lib/session/step_progress.h"
#include "lib/subject/python_command.h"

namespace dlprobe {
namespace {

// Whoever carries out the remedy changes the script, so what that names itself is overridden.
void set_of_python(PythonOverrides& overrides, const Setting& setting) {
  const auto number = static_cast<int>(setting.number().value_or(0));
  overrides.force = true;
  if (setting.kind == SettingKind::kStartMethod)
    overrides.start_method = from_string<StartMethod>(setting.value);
  if (setting.kind == SettingKind::kSharingStrategy)
    overrides.sharing_strategy = from_string<SharingStrategy>(setting.value);
  if (setting.kind == SettingKind::kNumWorkers) overrides.num_workers = number;
  if (setting.kind == SettingKind::kPrefetchFactor) overrides.prefetch_factor = number;
}

Status set_of_trial(Trial& trial, const PythonOverrides& changed) {
  if (changed.prefetch_factor)
    return failure(ErrorCode::kUnsupported, "it cannot be set beside a start method");
  trial.start_method = changed.start_method.value_or(trial.start_method);
  if (changed.sharing_strategy) trial.sharing_strategy = changed.sharing_strategy;
  if (changed.num_workers) trial.workers = changed.num_workers;
  trial.forced = trial.forced || changed.start_method || changed.sharing_strategy;
  return {};
}

// What the user said of the loader holds no longer where it is changed.
void set_of_plan(LoaderPlan& plan, const PythonOverrides& changed) {
  plan.start_method = changed.start_method.value_or(plan.start_method);
  plan.sharing_strategy = changed.sharing_strategy.value_or(plan.sharing_strategy);
  plan.workers = changed.num_workers.value_or(plan.workers);
  plan.prefetch_factor = changed.prefetch_factor.value_or(plan.prefetch_factor);
}

// `env NAME=VALUE python train.py` has the last word.
Status put_variable(CommandSubject& attempt, const Setting& setting) {
  const auto command = parse_python_command(attempt.argv);
  if (command) {
    for (const auto& [name, value] : command->assigns) {
      if (name == setting.name && value != setting.value)
        return failure(ErrorCode::kUnsupported,
                       fmt::format("the command line itself sets {}={}", name, value));
    }
  }
  attempt.environment.emplace_back(setting.name, setting.value);
  return {};
}

Status put_setting(CommandSubject& attempt, const Setting& setting) {
  switch (setting.kind) {
    case SettingKind::kEnvironment:
      return put_variable(attempt, setting);
    case SettingKind::kShmSize:
      attempt.limits.shm_bytes = setting.number();
      return {};
    case SettingKind::kOpenFiles:
      attempt.limits.soft_open_files = setting.number();
      return check_launch_limits(attempt.limits);
    default:
      break;
  }
  DLP_CHECK(check_interpreter(attempt.argv));
  PythonOverrides changed;
  set_of_python(changed, setting);
  if (attempt.told_plan) set_of_plan(*attempt.told_plan, changed);
  if (!attempt.trials.empty()) return set_of_trial(attempt.trials.front(), changed);
  set_of_python(attempt.overrides, setting);
  return {};
}

// Twice the time after which the first was judged, and what a slower start may take.
std::chrono::nanoseconds time_of_attempt(const Run& first) {
  constexpr auto kSlowerStart = std::chrono::seconds(10);
  const BootNs took = first.end ? first.end->at - first.begin.at : 0;
  return std::chrono::nanoseconds(2 * took) + kSlowerStart;
}

ConfirmWish wish_of(const ExamineRequest& request) {
  return std::get<CommandSubject>(request.subject).confirm.value_or(ConfirmWish());
}

std::set<int32_t> runs_of(const std::vector<PlannedAttempt>& attempts) {
  std::set<int32_t> runs;
  for (const PlannedAttempt& planned : attempts)
    runs.insert(planned.attempt.of_run);
  return runs;
}

// What does not seem to help is not tried again, so there may be fewer.
StepPlan plan_of(const std::vector<PlannedAttempt>& open, const ConfirmWish& wish,
                 const Recording& recording) {
  const std::set<int32_t> runs = runs_of(open);
  BootNs longest = 0;
  for (const int32_t index : runs) {
    const Run& first = recording.runs.at(static_cast<size_t>(index));
    longest = std::max(longest, first.end ? first.end->at - first.begin.at : 0);
  }
  return {.name = "--confirm",
          .steps = static_cast<size_t>(wish.times) * (open.size() + runs.size()),
          .is_most = true,
          .each = longest,
          .log_every = 0};
}

class RemedyAttempts {
 public:
  RemedyAttempts(const ExamineRequest& request, const Surroundings& surroundings,
                 Recorder& recorder, const RunAttempt& run_attempt)
      : request_(request),
        command_(std::get<CommandSubject>(request.subject)),
        clock_(*surroundings.machine.clock),
        judge_(surroundings.judge),
        notices_(surroundings.notices),
        recorder_(recorder),
        run_attempt_(run_attempt),
        verdict_(judge_.examine(recorder.recording())),
        open_(judge_.plan_attempts(verdict_)),
        steps_(notices_, clock_, plan_of(open_, wish_of(request), recorder_.recording())) {}

  void run() {
    if (was_interrupted(recorder_.recording().runs.back())) return;
    for (const Finding& finding : verdict_.findings)
      tell_what_cannot_be_tried(finding);
    const ConfirmWish wish = wish_of(request_);
    const BootNs began = clock_.now();
    for (int round = 0; round < wish.times && !open_.empty() && !is_over_; ++round) {
      const BootNs took = clock_.now() - began;
      if (wish.saves_time && round > 0 && took / round * (round + 1) > kTimeToRepeat) return;
      std::erase_if(open_, [&](const PlannedAttempt& each) { return !seems_to_help(each); });
      repeat_as_it_was();
    }
  }

 private:
  static constexpr BootNs kTimeToRepeat = 60 * kSecond;

  static bool was_interrupted(const Run& run) {
    return run.end && run.end->reason == RunEndReason::kInterrupted;
  }

  void tell_what_cannot_be_tried(const Finding& finding) const {
    const bool can_any = std::ranges::any_of(
        finding.remedies, [](const Remedy& remedy) { return !remedy.settings.empty(); });
    if (can_any || !judge_.is_worth_a_try(finding)) return;
    const FindingInfo& about = info(finding.code);
    notices_.tell(
        fmt::format("--confirm: no remedy of {} {} can be set from outside, so none was tried",
                    about.code, about.name));
  }

  // Of one of those whose remedy it is.
  bool seems_to_help(const PlannedAttempt& planned) {
    if (is_over_) return false;
    attempt(planned.attempt);
    return judge_.seems_to_help(planned, recorder_.current_run(), verdict_, recorder_.recording());
  }

  // That it comes again is proof only after a remedy was tried: nothing else changed.
  void repeat_as_it_was() {
    for (const int32_t run : runs_of(open_))
      if (!is_over_) attempt({.of_run = run});
  }

  void attempt(const Attempt& attempt) {
    const size_t before = recorder_.recording().attempts.size();
    const Run& first = recorder_.recording().runs.at(static_cast<size_t>(attempt.of_run));
    auto request = with_settings(request_, first, attempt);
    std::optional<Error> refusal;
    if (request) {
      const std::vector<Setting>& settings = attempt.settings;
      steps_.begin(settings.empty() ? "as it was" : "with " + describe(settings));
      if (const auto refused = run_attempt_(*request)) refusal = refused->error;
    } else {
      refusal = request.error();
    }
    if (recorder_.recording().attempts.size() == before) {
      recorder_.add(RunBegin{.at = clock_.now(),
                             .subject = SubjectKind::kCommand,
                             .command = mask_secrets(command_.argv),
                             .attempt = attempt});
    }
    if (refusal) {
      recorder_.add(RunEnd{.at = clock_.now(),
                           .reason = RunEndReason::kNotStarted,
                           .text = as_text(to_string(*refusal))});
    }
    is_over_ = was_interrupted(recorder_.current_run());
  }

  const ExamineRequest& request_;
  const CommandSubject& command_;
  const Clock& clock_;
  const Judge& judge_;
  Notices& notices_;
  Recorder& recorder_;
  const RunAttempt& run_attempt_;
  const Verdict verdict_;
  std::vector<PlannedAttempt> open_;
  StepProgress steps_;
  bool is_over_ = false;  ///< the user has had enough
};

}  // namespace

Expected<ExamineRequest> with_settings(const ExamineRequest& request, const Run& first,
                                       const Attempt& as) {
  ExamineRequest attempt = request;
  attempt.record_path.clear();
  auto& command = std::get<CommandSubject>(attempt.subject);
  command.confirm.reset();
  command.attempt = as;
  if (command.watch) {
    command.watch->when_hung = nullptr;
    command.watch->when_moving_again = nullptr;
    command.watch->end_when_hung = true;
  }
  if (first.begin.trial) {
    command.trials = {*first.begin.trial};
  } else if (!attempt.watch_for) {
    attempt.watch_for = time_of_attempt(first);
  }
  for (const Setting& setting : as.settings)
    DLP_CHECK(put_setting(command, setting));
  return attempt;
}

void try_remedies(const ExamineRequest& request, const Surroundings& surroundings,
                  Recorder& recorder, const RunAttempt& run_attempt) {
  RemedyAttempts(request, surroundings, recorder, run_attempt).run();
}

}  // namespace dlprobe
