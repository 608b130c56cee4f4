#include "probes/confirm.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "lib/base/units.h"
#include "probes/spawn_facts.h"

namespace dlprobe {
namespace {

constexpr size_t kMostSettings = 3;
constexpr double kChance = 0.05;

std::string span_text(double seconds) {
  return format_duration(std::chrono::milliseconds(static_cast<int64_t>(seconds * 1e3)));
}

double seconds_of(const Run& run) {
  return run.end ? static_cast<double>(run.end->at - run.begin.at) / 1e9 : 0;
}

bool is_exit_0(const Run& run) {
  return run.end && run.end->wait_status && *run.end->wait_status == 0;
}

std::string how_command_ended(const Run& run) {
  if (!run.end) return "nobody saw its end";
  if (run.end->reason == RunEndReason::kNotStarted) return "it was not started: " + run.end->text;
  if (!run.end->text.empty()) return run.end->text;
  if (run.end->reason == RunEndReason::kTimeUp) return "it still ran, and dlprobe ended it";
  if (!run.end->wait_status) return "nobody saw its end";
  const int status = *run.end->wait_status;
  if (WIFSIGNALED(status)) return fmt::format("signal SIG{}", ::sigabbrev_np(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

// A warning that was an error before is the failure still; a mere hint is not.
bool is_alike(const Finding& seen, const Finding& finding) {
  return seen.code == finding.code &&
         seen.severity >= std::min(finding.severity, Severity::kWarning);
}

std::vector<FindingCode> other_errors(const Verdict& verdict, const Finding& finding,
                                      bool ended_well) {
  std::vector<FindingCode> codes;
  for (const Finding& each : verdict.findings) {
    bool is_other = each.severity == Severity::kError && each.code != finding.code;
    // Whatever a look showed on the way: what ended well did not hang.
    if (ended_well && info(each.code).code.starts_with("DLP03")) is_other = false;
    if (is_other && std::ranges::count(codes, each.code) == 0) codes.push_back(each.code);
  }
  return codes;
}

// What the script asked for itself is not overridden without --force.
std::string why_start_method_not_set(const Run& run, const std::string& method) {
  for (const StartEvent* event : events_of(run, StartEventKind::kChosen)) {
    if (event->method == method) continue;
    const std::string place = short_place(*event);
    return fmt::format("{} asks for {} itself, and had it (--force overrides that)",
                       place.empty() ? "the script" : place, event->method);
  }
  bool any = false;
  for (const StartEvent& event : run.start_events) {
    const bool is_start =
        event.kind == StartEventKind::kStarted || event.kind == StartEventKind::kRefused;
    if (!is_start || event.method.empty()) continue;
    if (event.method != method)
      return fmt::format("it started processes under {} all the same", event.method);
    any = true;
  }
  return any ? "" : "it started no process under " + method;
}

std::string value_in_loader(const StartEvent& made, SettingKind kind) {
  if (kind == SettingKind::kSharingStrategy) return made.type;
  const auto& number = kind == SettingKind::kNumWorkers ? made.workers : made.prefetch_factor;
  return number ? std::to_string(*number) : "";
}

std::string why_loader_not_set(const Run& run, const Setting& setting) {
  bool any = false;
  for (const StartEvent* made : events_of(run, StartEventKind::kLoaderMade)) {
    const bool has_workers = made->workers.value_or(0) > 0;
    if (!has_workers && setting.kind != SettingKind::kNumWorkers) continue;
    const std::string value = value_in_loader(*made, setting.kind);
    if (value != setting.value)
      return fmt::format("a DataLoader had {} {} all the same", to_string(setting.kind),
                         value.empty() ? "that is not known" : value);
    any = true;
  }
  return any ? "" : fmt::format("it made no DataLoader that could take {}", describe({setting}));
}

std::string why_not_in_effect(const Run& run, const Setting& setting) {
  switch (setting.kind) {
    // The kernel sees to these.
    case SettingKind::kEnvironment:
    case SettingKind::kOpenFiles:
    case SettingKind::kShmSize:
      return "";
    case SettingKind::kStartMethod:
    case SettingKind::kSharingStrategy:
    case SettingKind::kNumWorkers:
    case SettingKind::kPrefetchFactor:
      break;
  }
  if (run.start_events.empty())
    return "no Python interpreter of the command (3.6 or later) took it";
  return setting.kind == SettingKind::kStartMethod ? why_start_method_not_set(run, setting.value)
                                                   : why_loader_not_set(run, setting);
}

std::string why_not_set(const Run& attempt) {
  if (!attempt.begin.attempt) return "";
  for (const Setting& setting : attempt.begin.attempt->settings) {
    if (auto why = why_not_in_effect(attempt, setting); !why.empty()) return why;
  }
  return "";
}

// A run that was over sooner than the failure took to show, or was cut short, did not come as far.
std::string why_not_as_far(const Run& attempt, const Run& first, const Finding& finding) {
  constexpr double kMargin = 1.5;
  constexpr double kMarginSeconds = 1;
  const double seconds = seconds_of(attempt);
  const double failed = failed_after(finding, first);
  if (attempt.end.value_or(RunEnd()).reason == RunEndReason::kTimeUp) {
    const bool as_long = first.end && first.end->reason == RunEndReason::kTimeUp &&
                         seconds >= 0.95 * seconds_of(first);
    if (as_long || seconds >= failed * kMargin + kMarginSeconds) return "";
    return fmt::format("it was ended after {}, and at first it had failed after {}",
                       span_text(seconds), span_text(failed));
  }
  if (!is_exit_0(first) || seconds >= failed / 2) return "";
  return fmt::format("it was over after {}, and the finding had shown after {}", span_text(seconds),
                     span_text(failed));
}

std::string why_no_proof(const Run& attempt, const AttemptAccount& account, const Run& first,
                         const Finding& finding) {
  const RunEnd end = attempt.end.value_or(RunEnd());
  if (end.reason == RunEndReason::kInterrupted) return "it was interrupted";
  if (auto why = why_not_set(attempt); !why.empty()) return why;
  if (account.has_failed_alike) return "";
  if (!account.others.empty()) {
    const FindingInfo& other = info(account.others.front());
    return fmt::format("it failed in another way: {} {}", other.code, other.name);
  }
  if (!end.text.empty()) return end.text;
  if (end.reason == RunEndReason::kSubjectEnded && !is_exit_0(attempt))
    return fmt::format("it failed in a way that dlprobe does not know ({})", account.ended);
  return why_not_as_far(attempt, first, finding);
}

const Run& run_of(const Finding& finding, const Recording& recording) {
  const auto index = finding.runs.empty() ? 0 : static_cast<size_t>(finding.runs.front());
  return recording.runs.at(std::min(index, recording.runs.size() - 1));
}

size_t count_failed(const std::vector<AttemptAccount>& accounts) {
  return static_cast<size_t>(std::ranges::count_if(
      accounts, [](const AttemptAccount& each) { return each.has_failed_alike; }));
}

// That all failures fell among those without the remedy, if it did nothing.
double chance_of(size_t failed, size_t without, size_t with_it) {
  double chance = 1;
  for (size_t i = 0; i < failed; ++i) {
    chance *= static_cast<double>(without - i) / static_cast<double>(without + with_it - i);
  }
  return chance;
}

std::string account_text(const AttemptAccount& account) {
  return account.ended + (account.seconds ? " after " + span_text(*account.seconds) : "");
}

Confirmation unproven(const std::string& settings, std::string_view why) {
  return {.outcome = RemedyOutcome::kInconclusive,
          .text = fmt::format("not proven: with {}: {}", settings, why),
          .with_it = {},
          .without = {}};
}

// The failure did not come with it: is that its doing?
Confirmation weigh(const std::string& settings, const std::vector<AttemptAccount>& with_it,
                   const std::vector<AttemptAccount>& without) {
  const size_t failed = count_failed(without);
  const auto told = static_cast<size_t>(std::ranges::count_if(
      without, [](const AttemptAccount& each) { return each.why_not.empty(); }));
  const std::string gone = fmt::format(
      "with {} the failure is gone ({}{})", settings,
      with_it.size() > 1 ? fmt::format("in {} runs of {}; ", with_it.size(), with_it.size()) : "",
      account_text(with_it.front()));
  if (told < 2) return unproven(settings, "it ran well, and was not run again as it was");
  if (failed < told && chance_of(failed, told, with_it.size()) > kChance) {
    return unproven(
        settings,
        fmt::format("it ran well ({} of {}), but it failed only {} times of {} as it was: "
                    "--confirm=N with a larger N repeats more often",
                    with_it.size(), with_it.size(), failed, told));
  }
  return {
      .outcome = RemedyOutcome::kConfirmed,
      .text = fmt::format("confirmed: {}; as it was it failed {} times of {}", gone, failed, told),
      .with_it = {},
      .without = {}};
}

Confirmation decide(const std::string& settings, const Finding& finding,
                    const std::vector<AttemptAccount>& with_it,
                    const std::vector<AttemptAccount>& without) {
  if (with_it.empty()) return unproven(settings, "it was not tried");
  // Where the setting did not take effect it did not fail either.
  const auto open = std::ranges::find_if(
      with_it, [](const AttemptAccount& each) { return !each.why_not.empty(); });
  const auto again = std::ranges::find_if(with_it, [](const AttemptAccount& each) {
    return each.has_failed_alike && each.why_not.empty();
  });
  if (again != with_it.end()) {
    const size_t failed = count_failed(with_it);
    return {
        .outcome = RemedyOutcome::kNotHelped,
        .text = fmt::format(
            "this did not help: with {} {} came again{} ({})", settings, info(finding.code).code,
            with_it.size() > 1 ? fmt::format(" in {} runs of {}", failed, with_it.size()) : "",
            account_text(*again)),
        .with_it = {},
        .without = {}};
  }
  if (open != with_it.end()) return unproven(settings, open->why_not);
  return weigh(settings, with_it, without);
}

std::vector<AttemptAccount> accounts_of(const Recording& recording, const Probe& probe,
                                        const Finding& finding,
                                        const std::vector<Setting>& settings) {
  std::vector<AttemptAccount> accounts;
  for (const Run& attempt : recording.attempts) {
    if (attempt.begin.attempt && attempt.begin.attempt->settings == settings)
      accounts.push_back(judge_attempt(attempt, recording, probe, finding));
  }
  return accounts;
}

AttemptAccount first_account(const Run& first) {
  AttemptAccount account{
      .has_failed_alike = true, .ended = how_command_ended(first), .seconds = {}, .others = {}};
  if (first.end) account.seconds = seconds_of(first);
  return account;
}

}  // namespace

const Finding* finding_to_confirm(const Verdict& verdict) {
  if (verdict.findings.empty()) return nullptr;
  const Finding& first = verdict.findings.front();
  return first.severity >= Severity::kWarning ? &first : nullptr;
}

std::vector<std::vector<Setting>> settings_to_try(const Finding& finding) {
  std::vector<std::vector<Setting>> all;
  for (const Remedy& remedy : finding.remedies) {
    if (remedy.settings.empty() || std::ranges::count(all, remedy.settings) > 0) continue;
    all.push_back(remedy.settings);
  }
  std::ranges::stable_sort(all, {}, [](const std::vector<Setting>& settings) {
    return std::ranges::max(settings, {}, &Setting::kind).kind;
  });
  all.resize(std::min(all.size(), kMostSettings));
  return all;
}

double failed_after(const Finding& finding, const Run& first) {
  const BootNs end = first.end ? first.end->at : first.begin.at;
  const BootNs at = finding.last_seen.value_or(end);
  return static_cast<double>(std::max<BootNs>(at - first.begin.at, 0)) / 1e9;
}

AttemptAccount judge_attempt(const Run& attempt, const Recording& recording, const Probe& probe,
                             const Finding& finding) {
  AttemptAccount account{.ended = how_command_ended(attempt), .seconds = {}, .others = {}};
  if (!attempt.end || attempt.end->reason == RunEndReason::kNotStarted) {
    account.why_not = attempt.end ? "it could not be tried: " + attempt.end->text
                                  : "dlprobe was stopped before it had ended";
    return account;
  }
  account.seconds = seconds_of(attempt);
  const Verdict verdict = probe.examine({.header = recording.header, .runs = {attempt}});
  account.has_failed_alike = std::ranges::any_of(
      verdict.findings, [&](const Finding& each) { return is_alike(each, finding); });
  account.others = other_errors(verdict, finding, is_exit_0(attempt));
  account.why_not = why_no_proof(attempt, account, run_of(finding, recording), finding);
  account.has_ended_well = !account.has_failed_alike && account.why_not.empty();
  return account;
}

Confirmation conclude_attempts(const std::vector<Setting>& settings, const Finding& finding,
                               std::vector<AttemptAccount> with_it,
                               std::vector<AttemptAccount> without) {
  Confirmation confirmation = decide(describe(settings), finding, with_it, without);
  confirmation.with_it = std::move(with_it);
  confirmation.without = std::move(without);
  return confirmation;
}

Verdict with_confirmations(Verdict verdict, const Recording& recording, const Probe& probe) {
  const Finding* first = finding_to_confirm(verdict);
  if (first == nullptr || recording.attempts.empty()) return verdict;
  const Finding finding = *first;
  std::vector<AttemptAccount> without = {first_account(run_of(finding, recording))};
  std::ranges::move(accounts_of(recording, probe, finding, {}), std::back_inserter(without));
  for (Remedy& remedy : verdict.findings.front().remedies) {
    if (remedy.settings.empty()) continue;
    auto with_it = accounts_of(recording, probe, finding, remedy.settings);
    if (with_it.empty()) continue;
    remedy.confirmation = conclude_attempts(remedy.settings, finding, std::move(with_it), without);
  }
  return verdict;
}

}  // namespace dlprobe
